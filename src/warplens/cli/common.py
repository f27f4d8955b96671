"""What the verbs share: the options that open a trace, and how they print."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens.outputs.terminal import TableText
    from warplens.profiles.opened import Opened
    from warplens.profiles.trace import Profile

PIPED_WIDTH = 200
"""Without a terminal nothing should be cut hard; `COLUMNS` still decides where it is set."""
SLOW_BYTES = 1_500_000
"""Files from this size on may take over a second, so their opening shows progress."""


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="profile or capture bundle to open")
    parser.add_argument("--rules", action="append", default=[], metavar="FILE", help="own kernel-category rules (TOML)")
    parser.add_argument("--gap", default="10us", metavar="TIME", help="shortest idle gap to list (default 10us)")
    parser.add_argument("--short", default="10us", metavar="TIME", help="kernels below this are short (default 10us)")
    parser.add_argument("--gpu", default="", metavar="NAME", help="GPU whose limits hold (default: the trace's own)")
    parser.add_argument("--gpu-file", default="", metavar="FILE", help="TOML file that describes the GPU")
    parser.add_argument(
        "--min-gain",
        type=percentage,
        default=None,
        metavar="PCT",
        help="least gain of a finding, in %% of a step (default 1)",
    )
    parser.add_argument("--execution-trace", default="", metavar="FILE", help="the ExecutionTrace of the same run")
    parser.add_argument(
        "--ncu", action="append", default=[], metavar="FILE", help="CSV of Nsight Compute, same program"
    )
    parser.add_argument("--replay", default="", metavar="FILE", help="result of a replay of this trace")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of parsed traces")


def inputs_of(args: argparse.Namespace) -> list[str]:
    """The files and folders that a verb reads: none of its outputs may overwrite one."""
    return [args.trace, *args.rules, args.gpu_file, args.execution_trace, *args.ncu, args.replay]


def positive(text: str) -> int:
    """A count of rows or levels for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def percentage(text: str) -> float:
    """A share in percent for argparse."""
    number = float(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to 100")
    return number


def open_profile(args: argparse.Namespace) -> Opened:
    from warplens.units import parse_duration

    gap, short = parse_duration(args.gap), parse_duration(args.short)
    with progress(f"reading {args.trace}", Path(args.trace)):
        import warplens

        return warplens.open(
            args.trace,
            cache=not args.no_cache,
            rules=args.rules,
            gap_us=gap / 1e3,
            short_us=short / 1e3,
            gpu=args.gpu,
            gpu_file=args.gpu_file,
            execution_trace=args.execution_trace,
            ncu=args.ncu,
            replay=args.replay,
            **({} if args.min_gain is None else {"min_gain_percent": args.min_gain}),
        )


def open_timeline(args: argparse.Namespace) -> Profile:
    """The profile, for verbs that need to know when things ran."""
    from warplens.errors import WarplensError

    try:
        return open_profile(args).with_timeline()
    except WarplensError as error:
        error.hint = error.hint or "report, show, tree, flamegraph and diff show it"
        raise


def tell_warnings(profile: Profile) -> None:
    """What is wrong with the trace, for verbs whose output does not begin with it."""
    for note in profile.table("quality").to_dicts():
        if note["severity"] == "warning":
            print(f"note: {note['message']}", file=sys.stderr)


@contextmanager
def progress(text: str, path: Path) -> Iterator[None]:
    """A spinner on stderr while something slow runs; nothing where nobody looks."""
    if not (sys.stderr.isatty() and _is_slow(path)):
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)):
        yield


def _is_slow(path: Path) -> bool:
    try:
        return path.stat().st_size > SLOW_BYTES
    except (OSError, ValueError):
        return False  # opening it will say what is wrong


def width() -> int:
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((100, 40)).columns
    return PIPED_WIDTH


def show_text(text: TableText) -> None:
    """Finished lines to stdout: styled on a terminal, plain where piped (and then without importing rich)."""
    # NO_COLOR asks for no escape codes at all; rich would still send those for bold.
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        print(text)
        return
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text)


def command_line() -> str:
    """What was typed, for a file that says how it was made."""
    return shlex.join(["warplens", *sys.argv[1:]])


def write_bytes(data: bytes) -> None:
    """Data to stdout as it is, ending in a newline."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()
