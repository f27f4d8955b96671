"""`warplens replay plan`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from warplens.cli.opening import inputs_of, note_warnings, open_timeline
from warplens.cli.options import add_trace
from warplens.planning import make_plan
from warplens.profiles.options import parse_size
from warplens_run.base.files import check_free
from warplens_run.base.printable import clean
from warplens_run.base.units import format_ns
from warplens_run.cli.files import file_to_write
from warplens_run.cli.options import SEVERAL, add_json, add_output, add_top
from warplens_run.cli.printing import print_err, print_out, report_written, write_bytes
from warplens_run.cli.verb import Verb
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.replay_plan import APPROXIMATE, READY, ReplayPlan

SHOWN_REASONS = 12


class PlanVerb(Verb):
    """Make a plan of a trace; needs neither PyTorch nor a GPU."""

    name = "plan"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        add_output(parser, "the plan", metavar="PLAN", default="plan.json")
        parser.add_argument(
            "--cover",
            type=float,
            default=1.0,
            metavar="SHARE",
            help="only the longest units, up to this share of the GPU time: 0.95 (default 1: all)",
        )
        parser.add_argument(
            "--match",
            action="append",
            default=[],
            metavar="FIELD=PATTERN",
            help=f"only units whose op, kernel, category, family, api or id matches: op=aten::mm*; {SEVERAL}",
        )
        parser.add_argument(
            "--kernel-files", metavar="PATH", help="sources of generated kernels: folder, .tar.gz or .zip"
        )
        add_top(parser)
        add_json(parser, "what is covered and what is not")

    def run(self, args: argparse.Namespace) -> int:
        target = file_to_write(args.output, inputs=[*inputs_of(args), args.kernel_files or ""])
        check_free([target], force=args.force)
        profile = open_timeline(args)
        note_warnings(profile)
        files = Path(args.kernel_files) if args.kernel_files else None
        plan = make_plan(profile.workspace, Path(args.trace), cover=args.cover, match=args.match, kernel_files=files,
                         max_bytes=parse_size(args.max_size))  # fmt: skip
        plan_file.save(target, plan, force=args.force)
        if args.json:
            import json

            write_bytes((json.dumps(_coverage(plan)[: args.top], ensure_ascii=False, indent=1) + "\n").encode())
        else:
            _print_summary(plan, args.top or SHOWN_REASONS)
        report_written([str(target)])
        if any(unit.status == "ready" for unit in plan.units):
            command = f"warplens replay run {shlex.quote(args.output)}" + " --allow-source" * bool(plan.sources)
            print_err(f"next, on a host with a GPU and PyTorch: {command}")
        return 0


def _coverage(plan: ReplayPlan) -> list[dict[str, object]]:
    """One row per status and reason, largest first; with what belongs to no unit they add up to the whole trace."""
    sums: dict[tuple[str, str], list[int]] = {}
    for unit in plan.units:
        row = sums.setdefault((unit.status, unit.reason), [0, 0, 0])
        row[:] = row[0] + 1, row[1] + unit.count, row[2] + unit.times.total_ns
    for rest in plan.rest:
        row = sums.setdefault(("no unit", rest.reason), [0, 0, 0])
        row[:] = row[0], row[1] + rest.count, row[2] + rest.total_ns
    rows = [
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
    return sorted(rows, key=lambda row: -float(str(row["total_us"])))


def _approximate_ns(plan: ReplayPlan) -> int:
    """GPU time of units whose inputs are found elsewhere in the trace."""
    return sum(
        unit.times.total_ns
        for unit in plan.units
        if unit.status == READY and any(note.startswith(APPROXIMATE) for note in unit.notes)
    )


def _print_summary(plan: ReplayPlan, most_reasons: int) -> None:
    rows = _coverage(plan)
    ready = sum(float(str(row["percent"])) for row in rows if row["status"] == "ready")
    families = len({unit.family for unit in plan.units if unit.family})
    calls = sum(unit.count for unit in plan.units)
    print_out(
        f"{len(plan.units):,} units in {calls:,} calls, {families} families of growing shapes; "
        f"{format_ns(plan.gpu_ns)} of GPU time"
    )
    if not plan.gpu_ns:
        print_out("nothing to replay: the trace has no GPU work")
        return
    print_out(f"can be replayed: {ready:.2f} % of the GPU time")
    approximate_ns = _approximate_ns(plan)
    if approximate_ns:
        print_out(
            f"  {100 * approximate_ns / plan.gpu_ns:8.3f} %  ready: approximate, with lists rebuilt from the gradients"
        )
    left = [row for row in rows if row["status"] != "ready"]
    for row in left[:most_reasons]:
        many = f"units: {row['units']}, calls: {row['count']}" if row["units"] else f"GPU events: {row['count']}"
        print_out(f"  {row['percent']:8.3f} %  {row['status']}: {clean(str(row['reason']))} ({many})")
    if len(left) > most_reasons:
        print_out(f"  and {len(left) - most_reasons} more reasons (--json lists all)")
    if plan.units and not plan.exact:
        print_out(
            "values that the trace does not record are defaults or guesses; an ExecutionTrace has all of them "
            "(--execution-trace FILE; warplens profile records one)"
        )
    if plan.sources:
        print_out(f"{len(plan.sources)} kernel sources are in the plan; running them needs --allow-source")
