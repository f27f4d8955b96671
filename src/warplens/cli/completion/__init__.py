"""`warplens completion`: the parser as data (`commands`), and a script of it for each shell."""

from __future__ import annotations

import argparse

from warplens.cli.printing import print_out
from warplens.cli.verb import Verb

SHELLS = ("bash", "zsh", "fish")


class CompletionVerb(Verb):
    """Print a script that completes verbs, options and their values in a shell.

    bash: add to ~/.bashrc    eval "$(warplens completion bash)"
    zsh:  add to ~/.zshrc     eval "$(warplens completion zsh)"      (after compinit)
    fish: warplens completion fish > ~/.config/fish/completions/warplens.fish
    """

    name = "completion"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))

    def run(self, args: argparse.Namespace) -> int:
        from warplens.cli import build_parser
        from warplens.cli.completion import bash, fish, zsh
        from warplens.cli.completion.commands import commands_of

        script = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}[args.shell]
        print_out(script(commands_of(build_parser())), end="")
        return 0
