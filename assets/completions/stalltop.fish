complete --keep-order --exclusive --command stalltop --arguments "(STALLTOP_COMPLETE=fish stalltop -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
