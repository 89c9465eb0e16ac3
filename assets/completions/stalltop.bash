# Completions of stalltop for bash. The program prints the words that may stand at the cursor.
_stalltop() {
    # Bash also ends a word at = : and @ (COMP_WORDBREAKS): what follows without a blank is the same word for the program.
    local rest=${COMP_LINE:0:COMP_POINT} words=() word raw i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${rest#"${rest%%[![:space:]]*}"}
        raw=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && raw=$word
        if ((i > 0)) && [[ $word == "$rest" ]]; then
            words[${#words[@]} - 1]+=$raw
        else
            words+=("$raw")
        fi
        rest=${word:${#raw}}
    done
    local typed=${words[${#words[@]} - 1]}
    words=("${words[@]//[\\\"\']/}")
    local last=${words[${#words[@]} - 1]} current=${2//[\\\"\']/}
    [[ $current == [=:@] ]] && current=
    local candidates=()
    mapfile -t candidates < <(STALLTOP_COMPLETE=words stalltop -- "${words[@]}" 2>/dev/null)
    # The quote that is open at the cursor
    local quote= char
    for ((i = 0; i < ${#typed}; i++)); do
        char=${typed:i:1}
        if [[ $char == \\ && $quote != \' ]]; then
            i=$((i + 1))
        elif [[ $char == [\"\'] && ( -z $quote || $char == "$quote" ) ]]; then
            [[ -n $quote ]] && quote= || quote=$char
        fi
    done
    # Readline replaces only what follows the = : or @.
    local before=${last%"$current"} single="'" quoted="'\\''"
    COMPREPLY=()
    for word in "${candidates[@]}"; do
        word=${word#"$before"}
        case $quote in
        \')
            word=${word//$single/$quoted}
            ;;
        \")
            # Between these quotes an exclamation mark cannot be escaped.
            [[ $word == *\!* ]] && continue
            for char in \\ \" '$' '`'; do
                word=${word//"$char"/\\"$char"}
            done
            ;;
        *)
            [[ $word == *[![:alnum:]_./:=@,%+-]* ]] && printf -v word %q "$word"
            ;;
        esac
        COMPREPLY+=("$word")
    done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/:@,] ]] && compopt -o nospace
}
if ((BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4)); then
    complete -o bashdefault -o nosort -F _stalltop stalltop
else
    complete -o bashdefault -F _stalltop stalltop
fi
