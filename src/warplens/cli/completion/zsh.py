"""Completion for zsh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warplens.cli.completion.commands import Command

SCRIPT = """#compdef warplens
# zsh completion of warplens; made by: warplens completion zsh
_warplens() {{
    local command="warplens" i
    local -a verbs options values
    for ((i = 2; i < CURRENT; i++)); do
        case "$command ${{words[i]}}" in
            ({paths})
                command="$command ${{words[i]}}" ;;
        esac
    done
    case "$command ${{words[CURRENT - 1]}}" in
{values}
    esac
    case "$command" in
{commands}
    esac
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        _describe -o 'option' options
    elif (( $#verbs )); then
        _describe 'verb' verbs
    elif (( $#values )); then
        compadd -- "${{values[@]}}"
    else
        _files
    fi
}}
if [[ "${{funcstack[1]}}" == _warplens ]]; then
    _warplens "$@"
else
    compdef _warplens warplens
fi
"""


def script(commands: Sequence[Command]) -> str:
    return SCRIPT.format(
        paths="|".join(quoted(command.path) for command in commands[1:]),
        values="\n".join(line for command in commands for line in _values(command)),
        commands="\n".join(_command(command) for command in commands),
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _values(command: Command) -> list[str]:
    lines = []
    for option in command.options:
        pattern = "|".join(quoted(f"{command.path} {name}") for name in option.names)
        if option.choices:
            lines.append(f"        ({pattern}) compadd -- {' '.join(map(quoted, option.choices))}; return ;;")
        elif option.takes_value:
            lines.append(f"        ({pattern}) _files; return ;;")
    return lines


def _command(command: Command) -> str:
    options = [(name, option.help) for option in command.options for name in option.names]
    return (
        f"        ({quoted(command.path)})\n"
        f"            verbs=({_described(command.verbs)})\n"
        f"            options=({_described(options)})\n"
        f"            values=({' '.join(map(quoted, command.values))}) ;;"
    )


def _described(entries: Iterable[tuple[str, str]]) -> str:
    """`name:description`, as `_describe` takes it; a colon in a name would end it."""
    return " ".join(quoted(f"{name.replace(':', chr(92) + ':')}:{text}") for name, text in entries)
