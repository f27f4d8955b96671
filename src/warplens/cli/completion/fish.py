"""Completion for fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens.cli.completion.commands import Command, Option

HEAD = """# fish completion of warplens; made by: warplens completion fish
function __warplens_command
    set -l command warplens
    for word in (commandline -opc)[2..-1]
        if contains -- "$command $word" {paths}
            set command "$command $word"
        end
    end
    echo $command
end
complete -c warplens -e
"""


def script(commands: Sequence[Command]) -> str:
    paths = " ".join(quoted(command.path) for command in commands[1:])
    lines = [line for command in commands for line in _lines(command)]
    return HEAD.format(paths=paths) + "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lines(command: Command) -> Iterator[str]:
    condition = f'test (__warplens_command) = "{command.path}"'
    here = f"complete -c warplens -n {quoted(condition)}"
    for name, text in command.verbs:
        yield f"{here} -f -a {quoted(name)} -d {quoted(text)}"
    if command.values:
        yield f"{here} -f -a {quoted(' '.join(command.values))}"
    for option in command.options:
        yield f"{here} {_option(option)} -d {quoted(option.help)}"


def _option(option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    if option.choices:
        return f"{names} -x -a {quoted(' '.join(option.choices))}"
    return f"{names} -r" if option.takes_value else names
