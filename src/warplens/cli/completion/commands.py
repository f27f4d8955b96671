"""The parser as data: each command with the verbs, options and values that can follow it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option by all its names, and what its value can be."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command, such as `warplens` or `warplens kernel check`."""

    words: tuple[str, ...]
    verbs: tuple[tuple[str, str], ...]
    """Names and helps of the verbs that follow."""
    options: tuple[Option, ...]
    values: tuple[str, ...]
    """What an argument without a name can be, where that is not a file."""

    @property
    def path(self) -> str:
        return " ".join(self.words)

    @property
    def option_names(self) -> list[str]:
        return [name for option in self.options for name in option.names]


def commands_of(parser: argparse.ArgumentParser, words: tuple[str, ...] = ("warplens",)) -> list[Command]:
    """The command of a parser and those of all its verbs, outermost first."""
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    values = [str(choice) for action in parser._get_positional_actions() if action not in verbs
              for choice in action.choices or ()]  # fmt: skip
    helps = tuple((entry.dest, text_of(entry)) for action in verbs for entry in action._get_subactions())
    command = Command(words, helps, tuple(_options(parser)), tuple(values))
    inner = [(name, own) for action in verbs for name, own in action.choices.items()]
    return [command, *(nested for name, own in inner for nested in commands_of(own, (*words, name)))]


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            choices = tuple(str(choice) for choice in action.choices or ())
            yield Option(tuple(action.option_strings), text_of(action), action.nargs != 0, choices)


def text_of(action: argparse.Action) -> str:
    """The help in one line; argparse doubles percent signs."""
    return " ".join((action.help or "").replace("%%", "%").split())
