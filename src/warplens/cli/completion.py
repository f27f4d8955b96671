"""`warplens completion`: a shell's script, made of the parser by shtab."""

from __future__ import annotations

import argparse

from warplens.cli import build_parser
from warplens_run.base.errors import MissingExtra
from warplens_run.cli.printing import print_out
from warplens_run.cli.verb import Verb

SHELLS = ("bash", "zsh", "fish")


class CompletionVerb(Verb):
    """Print a script that completes verbs, options and their values in a shell; needs shtab.

    bash: add to ~/.bashrc    eval "$(warplens completion bash)"
    zsh:  add to ~/.zshrc     eval "$(warplens completion zsh)"      (after compinit)
    fish: warplens completion fish > ~/.config/fish/completions/warplens.fish
    """

    name = "completion"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))

    def run(self, args: argparse.Namespace) -> int:
        try:
            import shtab
        except ModuleNotFoundError as error:
            raise MissingExtra("shtab", "completion", "completion") from error
        parser = build_parser()
        _complete_files(parser, shtab.FILE)
        print_out(shtab.complete(parser, args.shell))
        return 0


def _complete_files(parser: argparse.ArgumentParser, file: object) -> None:
    """Lets every value that is not one of a few be a file."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner, file)
        elif not action.choices and action.nargs != 0:
            action.complete = file  # type: ignore[attr-defined]
            if action.nargs == argparse.REMAINDER:
                action.nargs = argparse.ZERO_OR_MORE  # or zsh completes no option after a script
