# Completions of stalltop for fish. The program prints the words that may stand at the cursor, each with a tab and what it is.
function __stalltop_words
    set --local typed (commandline --current-token --cut-at-cursor | string replace --all --regex '[\\\\"\']' '')
    STALLTOP_COMPLETE=fish stalltop -- (commandline --current-process --tokenize --cut-at-cursor) "$typed" 2>/dev/null
end
complete --keep-order --exclusive --command stalltop --arguments "(__stalltop_words)"
