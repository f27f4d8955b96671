"""Completion for bash."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from warplens.cli.completion.commands import Command

SCRIPT = """# bash completion of warplens; made by: warplens completion bash
_warplens() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD - 1]}}"
    local path="warplens" options="" words="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${{COMP_WORDS[i]}}" in
{paths}
                path="$path ${{COMP_WORDS[i]}}" ;;
        esac
    done
    COMPREPLY=()
    case "$path $prev" in
{values}
    esac
    case "$path" in
{commands}
    esac
    if [[ "$cur" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ -n "$words" ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    fi
}}
complete -o default -o bashdefault -F _warplens warplens
"""


def script(commands: Sequence[Command]) -> str:
    paths = " |\\\n".join(f"            {shlex.quote(command.path)}" for command in commands[1:])
    return SCRIPT.format(
        paths=f"{paths})",
        values="\n".join(line for command in commands for line in _values(command)),
        commands="\n".join(_command(command) for command in commands),
    )


def _values(command: Command) -> list[str]:
    """What follows an option that takes a value: its choices, else a file."""
    lines = []
    for option in command.options:
        pattern = " | ".join(shlex.quote(f"{command.path} {name}") for name in option.names)
        if option.choices:
            reply = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur"))'
            lines.append(f"        {pattern}) {reply}; return ;;")
        elif option.takes_value:
            lines.append(f"        {pattern}) return ;;")
    return lines


def _command(command: Command) -> str:
    words = " ".join([name for name, _ in command.verbs] + list(command.values))
    options = " ".join(command.option_names)
    return f"        {shlex.quote(command.path)}) options={shlex.quote(options)} words={shlex.quote(words)} ;;"
