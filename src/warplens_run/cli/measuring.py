"""The options with which units are run and measured: those of `replay run` and of `prove`."""

from __future__ import annotations

import argparse

from warplens_run.cli.options import SEVERAL, positive
from warplens_run.replay.options import RunOptions

MOST_SECONDS = 1e7
UNSET = argparse.SUPPRESS
"""An option that is not given is not passed on either: `RunOptions` has the defaults."""


def add_running(parser: argparse.ArgumentParser) -> None:
    """Where units run, and what they may do."""
    add = parser.add_argument
    add("--device", default=UNSET, metavar="cuda[:N]|cpu", help="device; times on a CPU say nothing about a GPU")
    add("--import", dest="imports", action="append", default=UNSET, metavar="MODULE",
        help=f"allow the ops of a module besides those of aten and prims, and import it; {SEVERAL}")  # fmt: skip
    add("--allow-source", action="store_true", help="run the kernel sources in the plan: they are code")
    add("--seconds", type=_seconds, default=UNSET, metavar="S",
        help="begin nothing more after S seconds: the most valuable first, times before energy; the result says what "
        "was left out, and the same command continues with it (default: no limit)")  # fmt: skip
    add("--unit-timeout", type=float, default=UNSET, metavar="S", help="time limit per unit in seconds (default 120)")


def add_measuring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options of the measurement")
    add = group.add_argument
    add("--cache", choices=("in-situ", "hot", "cold"), default=UNSET,
        help="state of the GPU's cache: as in the trace (default), all inputs cached, or none")  # fmt: skip
    add("--timer", choices=("profiler", "graph", "sustained"), default=UNSET,
        help="time from kernel records (default), from a CUDA graph of many calls, or from such a graph after two "
        "seconds of load, at the clocks that the power limit allows in a long run")  # fmt: skip
    add("--precision", type=float, default=UNSET, metavar="SHARE",
        help="relative error of the median at which repeats stop (default 0.02)")  # fmt: skip
    add("--max-repeats", type=positive, default=UNSET, metavar="N", help="maximum repeats per unit (default 200)")
    add("--energy", action=argparse.BooleanOptionalAction, default=UNSET,
        help="measure energy (default: if there is a meter)")  # fmt: skip
    add(
        "--energy-seconds", type=float, default=UNSET, metavar="S", help="metering time per unit in seconds (default 2)"
    )
    add("--energy-cover", type=float, default=UNSET, metavar="SHARE",
        help="meter only the longest units, up to this share of the time (default 0.9; 1: all)")  # fmt: skip


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run_options(args: argparse.Namespace) -> RunOptions:
    from dataclasses import fields

    given = {field.name: getattr(args, field.name) for field in fields(RunOptions) if hasattr(args, field.name)}
    return RunOptions(**given | {"imports": tuple(given.get("imports", ()))})
