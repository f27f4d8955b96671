"""`warplens what-if`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warplens.cli.opening import note_warnings, open_timeline
from warplens.cli.options import add_rows, add_trace
from warplens.cli.rows import print_rows
from warplens.model.edits import CaptureGraph, StepChange
from warplens.profiles.what_if import fixes, host_scaling, scaling
from warplens_run.base.errors import UsageError
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.table import Table


class WhatIfVerb(Verb):
    """Simulate the step with changes: how long it would take, and what they win.

    The graph of the step decides what a change wins: where the host is the limit, faster kernels win nothing. Give the
    time of a step without the profiler (--step-time) for results that do not depend on what recording costs.

      warplens what-if trace.json.gz                                all findings, one after the other, the best first
      warplens what-if trace.json.gz --fix WL201 --fix WL208        what these findings propose
      warplens what-if trace.json.gz --graph                        all launches of a step as one graph
      warplens what-if trace.json.gz --scale 'kernel=*gemm*' 0.5    matrix products take half their time
      warplens what-if trace.json.gz --scale 'op=aten::copy_' 0     without these ops, host time included
      warplens what-if trace.json.gz --host 0.5                     a host twice as fast
    """

    name = "what-if"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        parser.add_argument("--fix", action="append", default=[], metavar="CODE",
                            help="what a finding proposes, or `all`; can be given several times")  # fmt: skip
        parser.add_argument("--scale", nargs=2, action="append", default=[], metavar=("PATTERN", "FACTOR"),
                            help="multiply times: kernel=, category=, op=, module= or phase= and a pattern with * "
                                 "and ?; can be given several times")  # fmt: skip
        parser.add_argument("--graph", action="store_true", help="capture the step as a CUDA or HIP graph")
        parser.add_argument("--host", default=None, metavar="FACTOR", help="multiply the host's times")
        add_rows(parser)

    def run(self, args: argparse.Namespace) -> int:
        profile = open_timeline(args)
        if args.fix in ([], ["all"]) and not (args.scale or args.graph or args.host is not None):
            note_warnings(profile)
            table = profile.table("what_if")
            is_whole_text = not (args.json or args.csv or args.sort or args.where)
            print_rows(_with_added_only(table) if is_whole_text else table, args)
            return 0
        changes = fixes(profile.findings(), [code if code == "all" else code.upper() for code in args.fix])
        changes += [scaling(profile.table, pattern, _factor(factor)) for pattern, factor in args.scale]
        if args.host is not None:
            changes.append(host_scaling(_factor(args.host)))
        if args.graph:
            changes.append(StepChange("graph", (CaptureGraph(),)))
        note_warnings(profile)
        print_rows(profile.what_if(changes), args)
        return 0


def _with_added_only(table: Table) -> Table:
    """Rows that add a change to those of the row above name that one alone, `+ WL208`: it fits narrow terminals."""
    from dataclasses import replace

    import polars as pl

    fixes = table.frame["fixes"].to_list()
    shown = [
        f"+ {own.removeprefix(f'{before}; ')}" if before and own.startswith(f"{before}; ") else own
        for before, own in zip(["", *fixes], fixes, strict=False)
    ]
    return replace(table, frame=table.frame.with_columns(pl.Series("fixes", shown, pl.String)))


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"not a valid factor: {text!r}", hint="0 for no time at all, 0.5 for half of it") from None
