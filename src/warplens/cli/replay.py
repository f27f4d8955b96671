"""Replay the kernels of a trace alone, with time and energy: plan, run, show, export-cpp.

warplens replay plan TRACE -o plan.json        every op call that launched GPU work, as data (no GPU needed)
warplens replay run plan.json -o result.json   runs them one by one on a GPU (needs PyTorch and the plan only)
warplens replay show result.json               the tables of a result; report --replay joins them to the trace's
warplens replay export-cpp plan.json -o dir/   the same as a C++ project against libtorch
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.common import add_trace_options, open_timeline, positive, show_text, width, write_bytes
from warplens.errors import UsageError

if TYPE_CHECKING:
    from warplens.replay.plan_file import Plan
    from warplens.replay.running.options import RunOptions

SHOWN_REASONS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, add, run_action in (
        ("plan", "make a plan of a trace; needs neither PyTorch nor a GPU", _plan_arguments, _plan),
        ("run", "run a plan: same kernels? how long? how many joules?", _run_arguments, _run),
        ("show", "show the tables of a result", _show_arguments, _show),
        ("export-cpp", "write a plan as a C++ project", _export_arguments, _export),
    ):
        own = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        add(own)
        own.set_defaults(run_action=run_action)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_action(args)
    return code


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("-o", "--output", default="plan.json", metavar="PLAN", help="file to write (plan.json)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing plan")
    parser.add_argument(
        "--cover",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="only the longest units that together take this share of the GPU time, as 0.95",
    )
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        metavar="FIELD=PATTERN",
        help="only units whose op, kernel, category, family, api or id fits, as op=aten::mm*",
    )
    parser.add_argument("--kernel-files", metavar="PATH", help="sources of generated kernels: folder, .tar.gz or .zip")
    parser.add_argument("--json", action="store_true", help="what is covered and what is not, as JSON rows")


def _plan(args: argparse.Namespace) -> int:
    from warplens.planning import make_plan
    from warplens.replay import plan_file

    target = Path(args.output)
    if target.exists() and not args.force:
        raise UsageError(f"{target} exists", hint="give --force to overwrite it")
    profile = open_timeline(args)
    files = Path(args.kernel_files) if args.kernel_files else None
    plan = make_plan(profile.workspace, Path(args.trace), cover=args.cover, match=args.match, kernel_files=files)
    plan_file.save(target, plan)
    if args.json:
        import json

        write_bytes((json.dumps(_coverage(plan), ensure_ascii=False, indent=1) + "\n").encode())
    else:
        _tell_plan(plan)
    print(f"wrote {target}", file=sys.stderr)
    return 0


def _coverage(plan: Plan) -> list[dict[str, object]]:
    """One row per status and reason, largest first; with what belongs to no unit they add up to the whole trace."""
    sums: dict[tuple[str, str], list[int]] = {}
    for unit in plan.units:
        row = sums.setdefault((unit.status, unit.reason), [0, 0, 0])
        row[:] = row[0] + 1, row[1] + unit.count, row[2] + unit.times.total_ns
    for rest in plan.rest:
        row = sums.setdefault(("no unit", rest.reason), [0, 0, 0])
        row[:] = row[0], row[1] + rest.count, row[2] + rest.total_ns
    found = [
        {
            "status": status,
            "reason": reason,
            "units": units,
            "count": count,
            "total_us": ns / 1e3,
            "percent": round(100 * ns / plan.gpu_ns, 6) if plan.gpu_ns else 0.0,
        }
        for (status, reason), (units, count, ns) in sums.items()
    ]
    return sorted(found, key=lambda row: -float(str(row["total_us"])))


def _tell_plan(plan: Plan) -> None:
    from warplens.units import format_ns

    rows = _coverage(plan)
    ready = sum(float(str(row["percent"])) for row in rows if row["status"] == "ready")
    families = len({unit.family for unit in plan.units if unit.family})
    calls = sum(unit.count for unit in plan.units)
    print(
        f"{len(plan.units):,} units in {calls:,} calls, {families} families of growing shapes; "
        f"{format_ns(plan.gpu_ns)} of GPU time"
    )
    print(
        f"to be replayed: {ready:.2f} % of the GPU time"
        + ("" if plan.exact else " (arguments as far as the trace has them; an ExecutionTrace has all)")
    )
    left = [row for row in rows if row["status"] != "ready"]
    for row in left[:SHOWN_REASONS]:
        print(
            f"  {row['percent']:8.3f} %  {row['status']}: {row['reason']} ({row['units']} units, {row['count']} calls)"
        )
    if len(left) > SHOWN_REASONS:
        print(f"  and {len(left) - SHOWN_REASONS} more reasons (--json lists all)")
    if plan.sources:
        print(f"{len(plan.sources)} kernel sources are in the plan; running them needs --allow-source")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="plan to run")
    parser.add_argument("-o", "--output", default="", metavar="RESULT", help="file to write (PLAN with .result.json)")
    parser.add_argument(
        "--device", default="", metavar="cuda[:N]|cpu", help="where to run; a CPU's times tell nothing of a GPU"
    )
    parser.add_argument(
        "--cache",
        choices=("in-situ", "hot", "cold"),
        default="in-situ",
        help="state of the GPU's cache: as in the trace (default), all inputs in it, or none",
    )
    parser.add_argument(
        "--timer",
        choices=("profiler", "graph"),
        default="profiler",
        help="time from kernel records (default), or from a CUDA graph of many calls",
    )
    parser.add_argument(
        "--precision",
        type=float,
        default=0.02,
        metavar="SHARE",
        help="repeat until the median is known this well (0.02)",
    )
    parser.add_argument("--max-repeats", type=positive, default=200, metavar="N", help="but at most so often (200)")
    parser.add_argument(
        "--energy",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="measure energy (default: where there is a meter)",
    )
    parser.add_argument("--energy-seconds", type=float, default=2.0, metavar="S", help="per unit (2)")
    parser.add_argument(
        "--energy-cover",
        type=float,
        default=0.9,
        metavar="SHARE",
        help="only of the longest units that together take this share of the time (0.9); 1 for all",
    )
    parser.add_argument("--units", default="", metavar="u1,u2", help="only these units")
    parser.add_argument(
        "--allow-source", action="store_true", help="run the kernel sources that the plan carries: they are code"
    )
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="import first, for ops of an extension",
    )
    parser.add_argument(
        "--unit-timeout", type=float, default=120.0, metavar="S", help="give a unit up after this (120)"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of going on with an earlier result")
    parser.add_argument("-q", "--quiet", action="store_true", help="no table at the end")


def _run(args: argparse.Namespace) -> int:
    from warplens.cli.replay_progress import progress_bar
    from warplens.replay.running.supervisor import run_plan
    from warplens.replay.running.text import summary

    plan = Path(args.plan)
    output = Path(args.output) if args.output else plan.with_name(plan.name.removesuffix(".json") + ".result.json")
    if args.allow_source:
        print(
            "warning: --allow-source runs the code of the kernels in the plan; only do so with plans you trust",
            file=sys.stderr,
        )
    with progress_bar() as tell:
        result = run_plan(plan, output, _options(args), tell, fresh=args.fresh)
    if not args.quiet:
        print(summary(result))
    print(f"wrote {output}", file=sys.stderr)
    return 0 if any(unit.status == "done" for unit in result.units) or not result.units else 1


def _options(args: argparse.Namespace) -> RunOptions:
    from warplens.replay.running.options import RunOptions

    return RunOptions(
        device=args.device,
        cache=args.cache,
        timer=args.timer,
        precision=args.precision,
        max_repeats=args.max_repeats,
        energy=args.energy,
        energy_seconds=args.energy_seconds,
        energy_cover=args.energy_cover,
        allow_source=args.allow_source,
        unit_timeout=args.unit_timeout,
        units=tuple(part.strip() for part in args.units.split(",") if part.strip()),
        imports=tuple(args.imports),
    )


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT", help="result of a run")
    parser.add_argument(
        "table", nargs="?", metavar="TABLE", help="replay, replay_units, replay_categories, replay_ops or replay_left"
    )
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows (terminal: 20, else all)")
    parser.add_argument("--whole-joules", type=float, metavar="J", help="energy of the traced stretch, measured whole")
    parser.add_argument("--whole-seconds", type=float, metavar="S", help="how long that was: gives the energy closure")
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="PATH", help="file or directory/ to write"
    )
    parser.add_argument("--tables", choices=("csv", "parquet"), default="csv", help="files of a directory output")
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--json", action="store_true", help="one JSON array of row objects")


def _show(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from warplens.analyses.replayed import REPLAY_TABLES, result_document
    from warplens.outputs import plan_outputs, render_table, rows_to_json, write

    if args.table is not None and args.table not in REPLAY_TABLES:
        raise UsageError(f"no table {args.table!r}", hint=f"one of: {', '.join(REPLAY_TABLES)}")
    if (args.whole_joules is None) != (args.whole_seconds is None):
        raise UsageError("--whole-joules and --whole-seconds belong together", hint="give both")
    targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=tuple(REPLAY_TABLES))
    whole = None if args.whole_joules is None else (args.whole_joules, args.whole_seconds)
    tables, facts = result_document(Path(args.result), whole)
    if targets:
        from warplens.outputs import Document

        document = Document(f"Warplens replay: {Path(args.result).name}", args.result, facts, tables)
        for target in targets:
            write(target, document)
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
    chosen = [table for table in tables if table.name == (args.table or table.name)]
    if args.json:
        table = chosen[0] if args.table else next(each for each in tables if each.name == "replay_units")
        write_bytes(rows_to_json(table if args.top is None else replace(table, frame=table.frame.head(args.top))))
        return 0
    top = args.top if args.top is not None or not sys.stdout.isatty() else 20
    for place, table in enumerate(chosen):
        print(end="\n" if place else "")
        show_text(render_table(table, top=top, width=width()))
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
    plan, plan_hash = plan_file.load(path)
    written = export(plan, load_json(path), plan_hash, Path(args.output), readable=args.readable, force=args.force)
    print(
        f"wrote {len(written)} files to {args.output}; its README.md has the command that builds them", file=sys.stderr
    )
    return 0
