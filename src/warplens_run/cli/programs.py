"""The program that a verb runs: `script.py args`, `-m MODULE args`, after `--` or not."""

from __future__ import annotations

import argparse

from warplens_run.base.errors import UsageError


def add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="script.py", help="the program and its arguments")


def program_words(args: argparse.Namespace, purpose: str, hint: str) -> list[str]:
    """The words after `python` that run it; a module begins with `-m`."""
    words = ["-m", *args.module] if args.module is not None else list(args.program)
    if words[:1] == ["--"]:
        del words[0]
    if not words:
        raise UsageError(f"no program to {purpose}", hint=hint)
    if words == ["-m"]:
        raise UsageError("-m needs the name of a module")
    return words
