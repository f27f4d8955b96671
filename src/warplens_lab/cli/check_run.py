"""`warplens kernel check BUNDLE`: the Triton kernels of a recorded run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.api import open as open_profile
from warplens.cli.progress import progress, spinner
from warplens.cli.showing import show_text
from warplens.outputs import render_table
from warplens_lab.cli.check_text import suggestion_lines
from warplens_lab.opened.check import OpenedCheck
from warplens_lab.proof.run_kernels import check_run
from warplens_run.base.errors import UsageError
from warplens_run.cli.printing import print_line, print_out, width

if TYPE_CHECKING:
    from warplens_lab.checking.checks import CheckResult

SHOWN = (
    "kernel", "total_us", "percent", "count", "mean_us", "percent_of_roofline", "registers", "spill_bytes",
    "occupancy_percent", "matrix_instruction", "narrowest_bits", "suggestions",
)  # fmt: skip
"""Columns that fit on a screen; the table kernel_run has all."""
FOR_A_SCRIPT = ("signature", "like", "launches", "seconds", "sweep", "profile", "traced", "count")


def is_run(text: str) -> bool:
    """Whether `kernel check` is given a recorded run: anything that exists and is not Python."""
    path = Path(text)
    return "::" not in text and path.suffix not in (".py", ".pyw") and path.exists()


def checked_run(path: str, *, allow_source: bool, target: str = "", most: int | None = None) -> CheckResult:
    with progress(f"reading {path}", Path(path)):
        profile = open_profile(path).with_timeline()
    with spinner("compiling the run's Triton kernels; each takes some seconds", is_slow=allow_source):
        return check_run(profile.workspace, Path(path), allow_source=allow_source, target=target, most=most)


def check_recorded(args: argparse.Namespace) -> OpenedCheck:
    given = [name for name in FOR_A_SCRIPT if getattr(args, name)] + (["arguments"] if args.script_args else [])
    if given:
        raise UsageError(f"{args.kernel} is a recorded run, which takes no {given[0].replace('_', '-')}")
    targets = [name.strip() for name in args.target.split(",") if name.strip()]
    if len(targets) > 1:
        raise UsageError("a run is checked for one target", hint=f"--target {targets[0]}")
    result = checked_run(
        args.kernel, allow_source=args.allow_source, target=targets[0] if targets else "", most=args.top
    )
    return OpenedCheck(result, args.kernel)


def show_run(opened: OpenedCheck) -> None:
    """The table, what autotune chose, then each kernel's suggestions."""
    table = opened.table("kernel_run")
    show_text(render_table(table, top=None, width=width(), columns=list(SHOWN)))
    if "kernel_autotune" in opened.report_names:
        print_out()
        show_text(render_table(opened.table("kernel_autotune"), top=None, width=width()))
    for line in _suggestions(opened):
        print_line(line, 120)


def _suggestions(opened: OpenedCheck) -> Iterator[str]:
    for check in opened.checks:
        lines = list(suggestion_lines(check, width(120)))
        if lines:
            yield ""
            yield f"{check.facts.kernel}, {check.facts.config}"
            yield from lines
