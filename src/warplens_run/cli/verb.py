"""What a verb is: a name, a docstring that is its help, its arguments, what it does, and facts about it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, cast

from warplens_run.base.loading import loaded
from warplens_run.cli.printing import print_err, print_out, terminal_columns

SMALLEST_FIRST = re.compile(r"-[A-Za-z_][\w/%]+")
"""`--sort -count`: a column after a minus sign, which argparse would take for an option."""


COLUMN_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
"""The space between the columns of an example."""
HANGING = "      "


class Verb(Protocol):
    """A verb of the command line. Its docstring is its help: one line, then whatever else there is to say."""

    name: ClassVar[str]
    runs_programs: ClassVar[bool] = False
    """It runs a user's program: nothing of the process is tuned but by the program itself."""
    runs_queries: ClassVar[bool] = False
    """It runs a user's query, which may not return: the command runs it in a child process."""
    uses_threads: ClassVar[bool] = False
    """Its frames are large enough for Polars to work on with several threads."""
    inputs: ClassVar[tuple[str, ...]] = ()
    """The arguments that name a file to read, for which `-` means stdin."""
    reads_jobs: ClassVar[bool] = False
    """It reads the ranks of a job together; others read one trace."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


class Place(NamedTuple):
    """Where a verb is, and the line about it in a list. It is loaded when it is asked for, with all it uses."""

    place: str
    help: str

    def verb(self) -> Verb:
        return cast(Verb, loaded(self.place)())


class VerbGroup(Verb):
    """A verb that only has verbs of its own, such as `kernel` and `replay`."""

    places: ClassVar[Mapping[str, Place]]
    default: ClassVar[str] = ""
    """What runs where none of them is named."""
    implied: ClassVar[str] = ""
    """The one of them that is meant where the first word names none: `warplens prove TRACE`."""

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return tuple(place.verb() for place in self.places.values())

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.add_actions(parser, None)

    def add_actions(self, parser: argparse.ArgumentParser, words: Sequence[str] | None) -> None:
        """As `add_verbs`, whose `words` these are."""
        add_verbs(parser, self.places, words, dest=f"{self.name}_action", metavar="ACTION", required=not self.default)
        if self.default:
            verb = self.places[self.default].verb()
            parser.set_defaults(**_defaults(verb), verb=verb)

    def run(self, args: argparse.Namespace) -> int:
        raise NotImplementedError  # argparse has chosen one of its verbs, or refused


class HelpText(argparse.HelpFormatter):
    """Help whose prose is wrapped to the terminal; examples keep their columns where these fit."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_columns(otherwise=80) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = (_fitted(paragraph, width) for paragraph in text.split("\n\n"))
        return "\n\n".join(paragraphs)


def _fitted(paragraph: str, width: int) -> str:
    from textwrap import fill, wrap

    lines = paragraph.splitlines()
    if not any("  " in line for line in lines):
        return fill(paragraph, width, break_on_hyphens=False)
    if all(len(line) <= width for line in lines):
        return paragraph
    stacked: list[str] = []
    for line in lines:
        command, *meaning = COLUMN_GAP.split(line, maxsplit=1)  # a command stays whole
        stacked += [command, *wrap(" ".join(meaning), width, initial_indent=HANGING, subsequent_indent=HANGING)]
    return "\n".join(stacked)


class VerbParser(argparse.ArgumentParser):
    """argparse, with three differences.

    A value of `--sort` may begin with a minus sign, further ranks may follow options, and a help that cannot be
    written is an error.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args is not None and "--sort" in self._option_string_actions:
            args = with_joined_sort(args)
        namespace, rest = super().parse_known_args(args, namespace)
        return namespace, self._without_late_paths(namespace, rest)

    def _without_late_paths(self, namespace: argparse.Namespace, rest: list[str]) -> list[str]:
        """`report A -o x.html B`: B is a rank too, which argparse looks for before the first option only."""
        names = [action.dest for action in self._get_positional_actions()]
        if "more" not in names or not rest or any(word.startswith("-") for word in rest):
            return rest
        after = names[names.index("more") + 1:]  # fmt: skip
        words = [*namespace.more, *(getattr(namespace, name) for name in after), *rest]
        count = len(words) - len(after)
        namespace.more = words[:count]
        for name, word in zip(after, words[count:], strict=True):
            setattr(namespace, name, word)
        return []

    def print_help(self, file: Any = None) -> None:
        self._print_message(self.format_help(), file)

    def _print_message(self, message: str, file: Any = None) -> None:
        """To stdout unless `file` is stderr; a command line can have anything in it."""
        if message:
            (print_err if file is sys.stderr else print_out)(message, end="")


def with_joined_sort(words: Sequence[str]) -> list[str]:
    """`--sort -count` as `--sort=-count`; what comes after `--` belongs to another program.

    >>> with_joined_sort(["--sort", "-count", "--", "--sort", "-count"])
    ['--sort=-count', '--', '--sort', '-count']
    """
    joined: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return [*joined, *words[position:]]
        if joined and joined[-1] == "--sort" and SMALLEST_FIRST.fullmatch(word):
            joined[-1] = f"--sort={word}"
        else:
            joined.append(word)
    return joined


def with_implied_verb(words: Sequence[str], places: Mapping[str, Place]) -> list[str]:
    """The words of a command, with the verb of a group that they leave out."""
    group = places[words[0]].verb() if words and words[0] in places else None
    if not isinstance(group, VerbGroup) or not group.implied or len(words) < 2:
        return list(words)
    named = words[1] in group.places or words[1] in ("-h", "--help")
    return list(words) if named else [words[0], group.implied, *words[1:]]


def add_verbs(
    parser: argparse.ArgumentParser,
    places: Mapping[str, Place],
    words: Sequence[str] | None,
    *,
    dest: str,
    metavar: str,
    required: bool = False,
) -> None:
    """A parser per verb; of those that `words` do not begin with only the line of help. Without words, all of each.

    A later word may be the name of a verb too: `profile --data tree`. That verb is not loaded.
    """
    actions = parser.add_subparsers(dest=dest, metavar=metavar, required=required)
    named = next((number for number, word in enumerate(words or ()) if word in places), -1)
    for name, place in places.items():
        if words is not None and (named < 0 or name != words[named]):
            actions.add_parser(name, help=place.help)
            continue
        verb = place.verb()
        own = actions.add_parser(name, help=place.help, description=help_text(verb), formatter_class=HelpText)
        own.set_defaults(verb=verb)
        if isinstance(verb, VerbGroup):
            verb.add_actions(own, words and words[named + 1 :])
        else:
            verb.add_arguments(own)


def help_text(verb: Verb) -> str:
    """The docstring without its indentation; `inspect`, which could remove it too, takes 10 ms to import."""
    lines = (type(verb).__doc__ or "").splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines).strip()


def _defaults(verb: Verb) -> dict[str, object]:
    """The arguments of a verb that is given none."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return vars(parser.parse_args([]))
