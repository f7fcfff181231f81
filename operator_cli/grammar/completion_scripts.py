"""Command `pharos completion bash|zsh|fish`: prints the script that connects a shell to `pharos __complete`."""

import argparse
import sys
from typing import Final

_HOW = """\
To complete commands, verbs, flags and names with the Tab key:

  bash   source <(pharos completion bash)            in ~/.bashrc
  zsh    source <(pharos completion zsh)             in ~/.zshrc, after compinit
  fish   pharos completion fish > ~/.config/fish/completions/pharos.fish
"""

_BASH = r"""# bash completion for pharos
_pharos() {
    local IFS=$'\n' line word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :file ]]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY+=($(compgen -f -- "$word"))
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)
}
complete -F _pharos pharos
"""

_ZSH = r"""#compdef pharos
_pharos() {
    local line
    local -a candidates
    while IFS= read -r line; do
        if [[ $line == :file ]]; then
            _files
        else
            line=${line//:/\\:}
            candidates+=("${line/$'\t'/:}")
        fi
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT-1]}" "${words[CURRENT]}" 2>/dev/null)
    (( ${#candidates} )) && _describe -V pharos candidates
}
compdef _pharos pharos
"""

_FISH = r"""# fish completion for pharos
function __pharos_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = ":file"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c pharos -f -a '(__pharos_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def register_completion(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    sys.stdout.write(SCRIPTS[arguments.shell])
    return 0
