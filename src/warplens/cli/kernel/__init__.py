"""Look inside a Triton kernel without a GPU: what the compiler makes of it, what each program does.

  warplens kernel check FILE.py::kernel --signature "*fp16:16, *fp16:16, i32:16, 1024"   facts and suggestions
  warplens kernel check script.py [args]                                               of every launch of a script
  warplens kernel check … --profile x.hatchet                                          beside what a profile measured
  warplens kernel trace script.py [args]                                               bytes, FLOPs, faults, a page
  warplens kernel diff before.json after.json                                          facts of two compilations
  warplens kernel puzzles                                                              learn Triton: exercises

Files and scripts are your own code: they are imported and run. Needs `pip install 'warplens[triton]'`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warplens.cli.common import positive
from warplens.cli.kernel import check as kernel_check
from warplens.cli.kernel import puzzles as kernel_puzzles
from warplens.cli.kernel import trace as kernel_trace
from warplens.cli.kernel.shared import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, add, run_action in (
        (
            "check",
            "compile for GPUs that are not here: facts and suggestions",
            kernel_check.add_arguments,
            kernel_check.run,
        ),
        (
            "trace",
            "run a script's kernels in the interpreter: what each program does",
            kernel_trace.add_arguments,
            kernel_trace.run,
        ),
        ("diff", "compare the facts of two compilations", _diff_arguments, _diff),
        ("puzzles", "exercises, with a checker that explains", kernel_puzzles.add_arguments, kernel_puzzles.run),
    ):
        own = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        add(own)
        own.set_defaults(run_action=run_action)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_action(args)
    return code


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A.json", help="facts, as kernel check -o A.json wrote them")
    parser.add_argument("after", metavar="B.json", help="those that it is compared with")
    parser.add_argument("--all", action="store_true", help="also what did not change")
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows")
    parser.add_argument("--json", action="store_true", help="one JSON array of row objects")


def _diff(args: argparse.Namespace) -> int:
    """Status 1 where something got worse: a gate for CI."""
    from dataclasses import replace

    import polars as pl

    from warplens.kernel_lab.comparing import compare_files, regressions

    worse = 0
    for table in compare_files(Path(args.before), Path(args.after)):
        worse += len(regressions(table))
        shown = table if args.all else replace(table, frame=table.frame.filter(pl.col("verdict") != "same"))
        show(shown, args)
    if worse:
        print(f"{worse} regressions", file=sys.stderr)
    return 1 if worse else 0
