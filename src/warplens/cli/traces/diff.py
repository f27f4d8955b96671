"""`warplens diff`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from warplens.api import diff, open, open_ranks
from warplens.cli.opening import options_given
from warplens.cli.options import (
    add_cluster,
    add_outputs,
    add_phase,
    add_range,
    add_rank,
    add_rows,
    add_shared_opening,
    add_theme,
    add_timeline,
)
from warplens.cli.progress import progress
from warplens.cli.rank_progress import rank_progress
from warplens.cli.rows import print_rows
from warplens.cli.showing import show_text, themed
from warplens.outputs import plan_outputs, write
from warplens.outputs.diff_text import SCREEN_TABLES, render_comparison
from warplens.outputs.diff_tree_text import render_diff_tree
from warplens.outputs.json_text import answer_json
from warplens.ranks.finding_files import is_job
from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed, parse_duration
from warplens_run.cli.options import percentage, positive
from warplens_run.cli.printing import command_line, note, print_err, report_written, width, write_bytes
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.table import Table
    from warplens.outputs import Document
    from warplens.profiles.comparison import Comparison
    from warplens.profiles.options import OpenOptions
    from warplens.profiles.trace import Profile


TIMES = ("a_us", "b_us", "delta_us")
"""What a comparison is about: hidden last on a narrow terminal."""


class DiffVerb(Verb):
    """Compare two traces of the same work: what changed from A to B, and where.

    A and B are two traces: another GPU, another version, another flag. Ops are matched by name and shapes, modules
    by path, kernels by category. Times are per step where both have steps. Differences within the runs' own spread
    are marked ~.

    `warplens diff TRACE --steps 3,7` compares two steps of one trace, `--steps 1-3,7` the mean of three with one,
    `--steps` alone the median step with the slowest.

    Two folders of ranks are compared as jobs: the step, each rank, stragglers that are gone or new, collectives.
    """

    name = "diff"
    inputs = ("a", "b")
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("a", metavar="A", help="trace or folder of ranks; - reads stdin")
        parser.add_argument("b", metavar="B", nargs="?", help="what A is compared with; omitted with --steps")
        parser.add_argument("--steps", nargs="?", default="", const="usual", metavar="A,B",
                            help="two steps of one trace: 3,7; or means of several: 1-3,7-9; alone or 'usual': the "
                                 "median step and the slowest")  # fmt: skip
        add_shared_opening(parser)
        add_timeline(parser)
        parser.add_argument("--step-time", default="", metavar="A,B",
                            help="times of a step of A and of B without the profiler: 21.4ms,34.3ms; of A alone "
                                 "'21.4ms,', of B alone ',34.3ms'")  # fmt: skip
        add_phase(parser)
        add_range(parser)
        add_rank(parser)
        add_cluster(parser)
        add_outputs(parser, "x.html, x.xlsx, x.json, x.md", tables=True)
        add_theme(parser)
        parser.add_argument("--table", metavar="NAME", help="one table, such as diff_ops, diff_kernels or diff_modules")
        parser.add_argument("--tree", action="store_true", help="the call tree with what changed")
        parser.add_argument("-c", "--context", metavar="KIND",
                            help="callers in the tree: python, module, op, annotation or full")  # fmt: skip
        parser.add_argument(
            "-d", "--depth", type=positive, default=None, metavar="N", help="at most N levels of the tree"
        )
        parser.add_argument("-t", "--threshold", type=percentage, default=1.0, metavar="PERCENT",
                            help="omit what changed by less than this share of the total (default 1)")  # fmt: skip
        parser.add_argument("--whole", action="store_true", help="the whole traces, also where both have steps")
        add_rows(parser, "the table or the tree; of neither: --json the verdict as one object, --csv the parts")
        parser.add_argument("-q", "--quiet", action="store_true", help="no summary, only the outputs")

    def run(self, args: argparse.Namespace) -> int:
        if args.table and args.tree:
            raise UsageError("--table and --tree exclude each other", hint="give one of them")
        chosen = [f"--{name}" for name in ("top", "sort", "where", "columns") if getattr(args, name)]
        if chosen and args.json and not (args.table or args.tree):
            raise UsageError(f"{listed(chosen)}: --json alone prints no rows", hint="add --table NAME")
        inputs = [path for path in (args.a, args.b, *args.rules) if path is not None]
        targets = plan_outputs(args.output, tables=args.tables, force=args.force, inputs=inputs)
        comparison = _open(args)
        written = [path for target in targets for path in write(target, _document(comparison, args))]
        if args.tree:
            _show_tree(args, comparison.diff_tree(args.context))
        elif args.table or args.csv:
            print_rows(comparison.table(args.table or comparison.table_names[0]), args, keep=TIMES)
        elif args.json:
            write_bytes(answer_json(_document(comparison, args, ()).answer))
        elif not args.quiet:
            _show_summary(args, comparison)
            return 0
        report_written(args.output, len(written))
        return 0


def _open(args: argparse.Namespace) -> Comparison:
    options: OpenOptions = {
        "cache": not args.no_cache,
        "rules": args.rules,
        "gap_us": parse_duration(args.gap) / 1e3,
        "max_size": args.max_size,
        "graph_captures": args.graph_capture,
        "phase": args.phase,
        "range": args.range,
    }
    step_ms = _step_times_ms(args.step_time)
    if args.steps or args.b is None:
        return _compare_steps(args, options)
    if _are_jobs(args):
        if any(step_ms) or args.timeline == "corrected" or args.whole or args.phase or args.range or args.graph_capture:
            raise UsageError(
                "--step-time, --timeline, --phase, --range, --graph-capture and --whole are for two traces",
                hint="--rank N compares one rank",
            )
        return _compare_jobs(args, options)
    larger = max((Path(args.a), Path(args.b)), key=lambda path: path.stat().st_size if path.is_file() else 0)
    with progress(f"reading {args.a} and {args.b}", larger):
        if not any(step_ms) and args.timeline == "recorded":
            return diff(args.a, args.b, whole=args.whole, **options)
        a, b = (_open_side(path, ms, args, options) for path, ms in zip((args.a, args.b), step_ms, strict=True))
        return diff(a, b, whole=args.whole)


def _compare_steps(args: argparse.Namespace, options: OpenOptions) -> Comparison:
    if not args.steps:
        raise UsageError("diff compares A with B", hint="give two traces, or two steps of one: --steps 3,7")
    if args.b is not None or args.whole or args.step_time:
        raise UsageError("--steps compares steps of one trace", hint="omit B, --whole and --step-time")
    with progress(f"reading {args.a}", Path(args.a)):
        if args.timeline == "recorded":
            return diff(args.a, steps=args.steps, **options)
        return diff(_open_side(args.a, 0.0, args, options), steps=args.steps)


def _are_jobs(args: argparse.Namespace) -> bool:
    return all(is_job([path]) for path in (args.a, args.b))


def _compare_jobs(args: argparse.Namespace, options: OpenOptions) -> Comparison:
    sides = []
    for path in (args.a, args.b):
        with rank_progress() as on_progress:
            sides.append(open_ranks([path], cluster=args.cluster, on_progress=on_progress, cache=options["cache"],
                                    rules=options["rules"], gap_us=options["gap_us"],
                                    max_size=options["max_size"]))  # fmt: skip
        for text in sides[-1].notes:
            note(text)
    return diff(*sides)


def _open_side(path: str, step_ms: float, args: argparse.Namespace, options: OpenOptions) -> Profile:
    own: OpenOptions = {**options, "step_ms": step_ms}
    profile = open(path, **own).with_timeline()
    return profile.corrected() if args.timeline == "corrected" else profile


def _step_times_ms(text: str) -> tuple[float, float]:
    """Of A and B; 0 where it is not given."""
    if not text:
        return 0.0, 0.0
    parts = text.split(",")
    if len(parts) != 2:  # one time could be that of A, of B or of both, which makes another comparison each
        hint = "the step of A and that of B: 21.4ms,34.3ms; of A alone '21.4ms,', of B alone ',34.3ms'"
        raise UsageError(f"not a pair of times: {text!r}", hint=hint)
    times = [parse_duration(part) / 1e6 if part.strip() else 0.0 for part in parts]
    return times[0], times[1]


def _show_summary(args: argparse.Namespace, comparison: Comparison) -> None:
    from warplens.profiles.comparison import TREE

    names = comparison.table_names
    needed = [name for name in names if name in SCREEN_TABLES or ("diff_ops" not in names and name != TREE)]
    document = _document(comparison, args, needed)
    show_text(render_comparison(document, comparison.base, width=width(120), written=args.output))


def _document(comparison: Comparison, args: argparse.Namespace, tables: Sequence[str] | None = None) -> Document:
    """Of the traces as they were opened: the commands that it proposes have the same options."""
    document = themed(comparison.document(tables, command=command_line()), args)
    given = [*options_given(args), *["--whole"] * args.whole]
    given += [f"--cluster {quote(args.cluster)}"] if args.cluster else []
    commands = tuple(" ".join([command, *given]) for command in document.answer.next)
    return replace(document, answer=replace(document.answer, next=commands))


def _show_tree(args: argparse.Namespace, tree: Table) -> None:
    if args.json or args.csv:
        print_rows(tree, args)
    elif not tree.frame["a_count"][0] and not tree.frame["b_count"][0]:
        print_err("no GPU work in these traces")
    else:
        show_text(render_diff_tree(tree, width=width(), threshold_percent=args.threshold, max_depth=args.depth))
