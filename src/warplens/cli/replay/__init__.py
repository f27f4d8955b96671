"""Replay the kernels of a trace alone, with time and energy: plan, run, show, export-cpp.

warplens replay plan TRACE -o plan.json        every op call that launched GPU work, as data (no GPU needed)
warplens replay run plan.json -o result.json   runs them one by one on a GPU (needs PyTorch and the plan only)
warplens replay show result.json               the tables of a result; report --replay joins them to the trace's
warplens replay export-cpp plan.json -o dir/   the same as a C++ project against libtorch
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.common import positive, show_text, width, write_bytes
from warplens.cli.replay import plan as replay_plan
from warplens.cli.replay.files import file_to_write, plan_to_read
from warplens.errors import UsageError
from warplens.files import check_inputs

if TYPE_CHECKING:
    from warplens.replay.running.options import RunOptions

KEPT_COLUMNS = ("op", "replayed_us", "ratio", "same_kernel", "active_mj")
"""Of the tables of a result, those that are hidden last on a narrow screen."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, add, run_action in (
        ("plan", "make a plan of a trace; needs neither PyTorch nor a GPU", replay_plan.add_arguments, replay_plan.run),
        ("run", "run a plan: same kernels? how long? how many joules?", _run_arguments, _run),
        ("show", "show the tables of a result", _show_arguments, _show),
        ("export-cpp", "write a plan as a C++ project", _export_arguments, _export),
    ):
        own = actions.add_parser(name, help=text, description=text[0].upper() + text[1:])
        add(own)
        own.set_defaults(run_action=run_action)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_action(args)
    return code


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    """What is not given here is not passed on either: `RunOptions` has the defaults."""
    unset = argparse.SUPPRESS
    add = parser.add_argument
    add("plan", metavar="PLAN", help="plan to run")
    add("-o", "--output", default="", metavar="RESULT", help="file to write (PLAN with .result.json)")
    add("--device", default=unset, metavar="cuda[:N]|cpu", help="where to run; a CPU's times tell nothing of a GPU")
    add(
        "--units",
        type=_words,
        default=unset,
        metavar="u1,u2",
        help="only these units of the plan, by their names in it",
    )
    add("--import", dest="imports", action="append", default=unset, metavar="MODULE",
        help="import first: a module that defines ops of the plan")  # fmt: skip
    add("--allow-source", action="store_true", help="run the kernel sources that the plan carries: they are code")
    add("--unit-timeout", type=float, default=unset, metavar="S", help="give a unit up after this (120)")
    add("--fresh", action="store_true",
        help="start over and replace an earlier result, also one of another plan, GPU or options")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no table at the end")
    _measuring_arguments(parser)


def _measuring_arguments(parser: argparse.ArgumentParser) -> None:
    unset = argparse.SUPPRESS
    add = parser.add_argument
    add("--cache", choices=("in-situ", "hot", "cold"), default=unset,
        help="state of the GPU's cache: as in the trace (default), all inputs in it, or none")  # fmt: skip
    add("--timer", choices=("profiler", "graph"), default=unset,
        help="time from kernel records (default), or from a CUDA graph of many calls")  # fmt: skip
    add(
        "--precision",
        type=float,
        default=unset,
        metavar="SHARE",
        help="repeat until the median is known so well (0.02)",
    )
    add("--max-repeats", type=positive, default=unset, metavar="N", help="but at most so often (200)")
    add("--energy", action=argparse.BooleanOptionalAction, default=unset,
        help="measure energy (default: where there is a meter)")  # fmt: skip
    add("--energy-seconds", type=float, default=unset, metavar="S", help="how long to meter each unit (2)")
    add("--energy-cover", type=float, default=unset, metavar="SHARE",
        help="only of the longest units that together take this share of the time (0.9); 1 for all")  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names no unit")
    return found


def _above_zero(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above zero")
    return number


def _run(args: argparse.Namespace) -> int:
    from warplens.cli.replay.progress import progress_bar
    from warplens.replay.running.supervisor import run_plan
    from warplens.replay.running.text import summary

    plan = plan_to_read(args.plan)
    beside = plan.with_name(plan.name.removesuffix(".json") + ".result.json")
    output = file_to_write(args.output or str(beside), inputs=[plan])
    if args.allow_source:
        print(
            "warning: --allow-source runs the code of the kernels in the plan; only do so with plans you trust",
            file=sys.stderr,
        )
    try:
        with progress_bar() as tell:
            result = run_plan(plan, output, _options(args), tell, fresh=args.fresh)
    except KeyboardInterrupt:
        if output.exists():
            print(f"what is done is in {output}; the same command goes on with the rest", file=sys.stderr)
        raise
    if not args.quiet:
        print(summary(result, width()))
    print(f"wrote {output}", file=sys.stderr)
    if not args.quiet:
        print(f"all tables: warplens replay show {output}", file=sys.stderr)
    return 0 if any(unit.status == "done" for unit in result.units) or not result.units else 1


def _options(args: argparse.Namespace) -> RunOptions:
    from dataclasses import fields

    from warplens.replay.running.options import RunOptions

    given = {field.name: getattr(args, field.name) for field in fields(RunOptions) if hasattr(args, field.name)}
    return RunOptions(**given | {"imports": tuple(given.get("imports", ()))})


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="result of a run")
    parser.add_argument(
        "table", nargs="?", metavar="TABLE", help="replay, replay_units, replay_categories, replay_ops or replay_left"
    )
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows (terminal: 20, else all)")
    parser.add_argument(
        "--whole-joules", type=_above_zero, metavar="J", help="energy of the traced stretch, measured whole"
    )
    parser.add_argument(
        "--whole-seconds", type=_above_zero, metavar="S", help="how long that was: gives the energy closure"
    )
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="PATH", help="file or directory/ to write"
    )
    parser.add_argument("--tables", choices=("csv", "parquet"), default="csv", help="files of a directory output")
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--json", action="store_true", help="one JSON array of row objects")


def _show(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from warplens.analyses.units.replayed import REPLAY_TABLES, result_document
    from warplens.outputs import plan_outputs, render_table, rows_to_json, write

    if args.table is not None and args.table not in REPLAY_TABLES:
        raise UsageError(f"no table {args.table!r}", hint=f"one of: {', '.join(REPLAY_TABLES)}")
    if (args.whole_joules is None) != (args.whole_seconds is None):
        raise UsageError("--whole-joules and --whole-seconds belong together", hint="give both")
    names = (args.table,) if args.table else tuple(REPLAY_TABLES)
    targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=[args.result])
    whole = None if args.whole_joules is None else (args.whole_joules, args.whole_seconds)
    tables, facts = result_document(Path(args.result), whole)
    chosen = [table for table in tables if table.name in names]
    if targets:
        from warplens.outputs import Document

        document = Document(f"Warplens replay: {Path(args.result).name}", args.result, facts, chosen)
        for target in targets:
            write(target, document)
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
    if args.json:
        table = chosen[0] if args.table else next(each for each in tables if each.name == "replay_units")
        write_bytes(rows_to_json(table if args.top is None else replace(table, frame=table.frame.head(args.top))))
        return 0
    top = args.top if args.top is not None or not sys.stdout.isatty() else 20
    for place, table in enumerate(chosen):
        print(end="\n" if place else "")
        show_text(render_table(table, top=top, width=width(), keep=KEPT_COLUMNS))
    return 0


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="plan to export")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--readable", action="store_true", help="each unit also as a plain at:: call")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def _export(args: argparse.Namespace) -> int:
    from warplens.replay import plan_file
    from warplens.replay.cpp import export
    from warplens.replay.records import load_json

    path = Path(args.plan)
    check_inputs([Path(args.output) / "plan.json"], [path])
    plan, plan_hash = plan_file.load(path)
    written = export(plan, load_json(path), plan_hash, Path(args.output), readable=args.readable, force=args.force)
    print(
        f"wrote {len(written)} files to {args.output}; its README.md has the command that builds them", file=sys.stderr
    )
    return 0
