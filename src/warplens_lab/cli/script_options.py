"""Options of the kernel verbs that take a script with arguments of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens_run.base.files import check_file
from warplens_run.cli.verb import VerbParser


def add_script_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script_args", nargs=argparse.REMAINDER, metavar="args",
                        help="arguments of the script; after --, also those that are options of warplens")  # fmt: skip


def take_options_after_script(args: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]) -> None:
    """Options after the script count like those before it; unknown ones, and all after --, belong to the script."""
    words = args.script_args
    end = words.index("--") if "--" in words else len(words)
    parser = VerbParser(prog=f"warplens kernel {args.kernel_action}", add_help=False, allow_abbrev=False)
    add_options(parser)
    _, rest = parser.parse_known_args(words[:end], args)
    args.script_args = [*rest, *words[end + 1 :]]


def check_outputs(args: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Outputs that are not tables, before anything runs; `inputs` are what the verb reads."""
    for path in args.output:
        if path.endswith((".wkt", ".html", ".json")):
            check_file(Path(path), force=args.force, inputs=inputs)
