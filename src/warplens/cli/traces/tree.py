"""`warplens tree`."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warplens.analyses.paths.merged_trees import MergedTrees
from warplens.analyses.paths.node_selection import large_nodes, with_callers
from warplens.analyses.paths.tree_display import with_frames, without_subtrees
from warplens.analyses.trees.rates import Figure, metric, offered
from warplens.cli.opening import inputs_of, open_profile
from warplens.cli.options import add_theme, add_trace
from warplens.cli.rows import print_json
from warplens.cli.showing import show_text
from warplens.cli.traces.flamegraph import hint_without_gpu_work
from warplens.cli.traces.path_options import PathFilter, add_path_options, compiled, kernel_categories
from warplens.model.quality import WARNING
from warplens.outputs import render_table
from warplens.outputs.flamegraph_svg import FlameLook
from warplens.outputs.palette import paper_of
from warplens.outputs.tree_files import TreeTarget, holds_paths, is_picture, plan_tree_file, write_tree_file
from warplens.outputs.tree_text import TreeColumn, TreeView, render_list, render_tree, tree_table
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.printable import clean
from warplens_run.cli.options import add_json, add_output, positive
from warplens_run.cli.printing import note, print_err, report_written, width
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warplens.model.call_paths import CallPaths
    from warplens.model.trace import Bools
    from warplens.model.tree import Floats, Tree

OWN = ("gpu_us", "self_us", "percent", "count", "avg_us")
"""In every row of --json and of a file, whatever -m says."""
DEFAULT = ("gpu_us", "percent", "count")
DEFAULT_PERCENT = 1.0
SAMPLES = "num_samples"
NEEDS_GPU = ("util", "percent_of_roofline")
THRESHOLD = re.compile(r"(?:(?P<metric>.*[^ \n]|.) *>= *)?(?P<number>[-+]?[\d.]+(?:[eE][-+]?\d+)?) *%?")
FORMATS = ("full", "file_function_line", "function_line", "file_function")


class TreeVerb(Verb):
    """Show GPU time, and whatever else was recorded, by call path.

    Opens traces and Proton's trees. Backward kernels of a trace are shown under the forward code that created them.
    -m takes any metrics that the profile offers (--list): gpu_us, self_us, percent, count, avg_us, time/ms,
    avg_time/us, cpu_time/ms, tflop16/s, tbyte/s, intensity, util, tokens, tokens/s, tokens/% …; exc: before a name
    excludes callees. With -o the whole tree is written: as a flame graph (x.svg, x.folded, x.speedscope.json; the
    verb flamegraph has more options for that), as rows (x.csv, x.json, x.md, x.xlsx, x.parquet) or for proton-viewer
    and Hatchet (x.hatchet).
    """

    name = "tree"
    inputs = ("trace", "diff")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        parser.add_argument("-m", "--metrics", metavar="A,B,…", help="metrics to show (default gpu_us,percent,count)")
        parser.add_argument("-l", "--list", action="store_true", help="list the metrics that this profile offers")
        add_path_options(parser)
        parser.add_argument("--drop", metavar="REGEX", help="omit matching names with everything below them")
        parser.add_argument(
            "-f",
            "--format",
            choices=FORMATS,
            default="full",
            metavar="FORMAT",
            help=f"format of Python frames: {', '.join(FORMATS)} (default full)",
        )
        parser.add_argument("-d", "--depth", type=positive, default=None, metavar="N", help="at most N levels")
        parser.add_argument("-t", "--threshold", type=_threshold, default=None, metavar="PERCENT",
                            help="omit nodes below this share of the total (default 1), or below a value: "
                            "'tflop16/s>=100'")  # fmt: skip
        parser.add_argument("--sort", metavar="METRIC",
                            help="sort siblings by a metric (default gpu_us), largest first, or by name; "
                            "-METRIC: smallest first")  # fmt: skip
        parser.add_argument(
            "--print-sorted", action="store_true", help="a list sorted by the first metric, instead of a tree"
        )
        parser.add_argument(
            "--diff", metavar="OTHER", help="compare with another profile, path by path: this minus OTHER"
        )
        parser.add_argument("--top", type=positive, default=None, metavar="N", help="only the N largest nodes")
        add_json(parser, "the nodes")
        add_theme(parser)
        add_output(parser, "the tree: x.svg, x.folded, x.speedscope.json, x.csv, x.json, x.md, x.xlsx, x.parquet or "
                   "x.hatchet")  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        cut = _Cut(args)
        inputs = [*inputs_of(args), args.diff or ""]
        target = plan_tree_file(args.output, force=args.force, inputs=inputs) if args.output else None
        whole = target is not None and holds_paths(target)
        if whole and args.diff:
            raise UsageError(
                "a .hatchet file holds one profile, not the difference of two", hint="write x.csv or x.json"
            )
        side = _TreeSide(args, args.trace, cut, whole=whole)
        if args.list:
            return _show_list(args, side)
        shown = _Difference(args, side, _TreeSide(args, args.diff, cut)) if args.diff else _Plain(args, side)
        if target is not None:
            _write(args, target, side, shown)
        if args.json:
            print_json(tree_table(shown.tree, shown.view(rows=True)))
        elif target is None and shown.is_empty:
            print_err("no GPU work on any path" if args.include else _no_gpu_work(side))
        elif target is None:
            render = render_list if args.print_sorted else render_tree
            show_text(render(shown.tree, shown.view(), width=width()))
        return 0


class MetricThreshold(NamedTuple):
    """The least share in percent of a node that is shown, or its least value of a metric."""

    number: float
    metric: str = ""


def _threshold(text: str) -> MetricThreshold:
    match = THRESHOLD.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a percentage nor METRIC>=NUMBER")
    return MetricThreshold(float(match["number"]), (match["metric"] or "").strip())


class _Cut:
    """`--include`, `--exclude` and `--drop`, checked before a profile is opened."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._paths = PathFilter(args)
        self._dropped = compiled(args.drop)

    def __call__(self, tree: Tree) -> Tree:
        return self._paths(without_subtrees(tree, self._dropped) if self._dropped is not None else tree)


class _TreeSide:
    """One profile: its tree as the options ask for it, and the GPU it ran on."""

    def __init__(self, args: argparse.Namespace, path: str, cut: _Cut, *, whole: bool = False) -> None:
        """With `whole`, the tree has full names and all metrics, for a file that other programs open."""
        self.name = Path(path).name
        self.profile = open_profile(args, path)
        self.paths = self.profile.call_paths(args.context) if whole else None
        tree = self.paths.tree if self.paths else self.profile.tree(args.context, short_names=not args.full_names)
        self.tree = cut(with_frames(tree, args.format))
        self.gpu = self.profile.hardware
        if not self.profile.has_timeline:
            for row in self.profile.table("quality").to_dicts():
                if row["severity"] == WARNING:
                    print_err(f"warning: {clean(self.name)}: {clean(row['message'])}")

    def shown_paths(self) -> CallPaths:
        """The paths that are left, with the GPU of each where nothing was cut."""
        assert self.paths is not None
        return replace(self.paths, tree=self.tree, device=self.paths.device if self.tree is self.paths.tree else ())

    def figure(self, name: str) -> Figure:
        return metric(self.tree, name, self.gpu)

    def metrics(self, args: argparse.Namespace, default: Sequence[str]) -> list[str]:
        """The metrics asked for, each once; else those that say most of this profile."""
        asked = [name.strip() for name in (args.metrics or "").split(",") if name.strip()]
        if not asked and not self.tree.total_ns[0]:
            asked = offered(self.tree, self.gpu).frame["metric"].to_list()[:3]
        if self.gpu is None and any(name in NEEDS_GPU for name in asked):
            note("the limits of this GPU are not known; name it with --gpu or --gpu-file")
        return list(dict.fromkeys(asked or default))


class _Plain:
    """One tree and its metrics."""

    def __init__(self, args: argparse.Namespace, side: _TreeSide) -> None:
        self.tree, self._args, self._side = side.tree, args, side
        samples = [SAMPLES] if SAMPLES in side.tree.metrics else []
        self._figures = [side.figure(name) for name in side.metrics(args, [*DEFAULT, *samples])]

    @property
    def is_empty(self) -> bool:
        tree = self.tree
        return not (tree.total_count[0] or tree.total_ns[0] or any(values.any() for values in tree.metrics.values()))

    def view(self, *, rows: bool = False, whole: bool = False) -> TreeView:
        figures = {figure.name: figure for figure in self._figures}
        if rows:
            figures = {name: figures.get(name) or self._side.figure(name) for name in (*OWN, *figures)}
        kept, why = self._shown(whole)
        return TreeView(
            tuple(column(figure) for figure in figures.values()),
            order=self._order(),
            shown=kept,
            max_depth=self._args.depth,
            why_hidden=why,
            heading="" if self.tree.total_ns[0] else "by call path",
        )

    def _order(self) -> tuple[Floats, ...]:
        if self._args.sort == "name":
            return ()
        by_first = self._args.print_sorted or not self.tree.total_ns[0]
        metric, sign = _sort_order(self._args.sort)
        first = self._side.figure(metric) if metric else self._figures[0] if by_first else None
        samples = [self._side.figure(SAMPLES).values] if SAMPLES in self.tree.metrics else []
        return (sign * (first.values if first else self._side.figure("gpu_us").values), *samples)

    def _shown(self, whole: bool) -> tuple[Bools, str]:
        """Which nodes are large enough, and what the others are."""
        import numpy as np

        least: MetricThreshold | None = self._args.threshold
        top: int | None = self._args.top
        if least is None and (whole or top):
            large, why = np.ones(len(self.tree), bool), ""
        elif least is not None and least.metric:
            reached = self._side.figure(least.metric).values >= least.number
            large, why = with_callers(self.tree, reached), f"below {least.metric} of {least.number:g}, "
        else:
            percent = least.number if least else DEFAULT_PERCENT
            large, why = large_nodes(self.tree, percent, self._figures[0].values), f"below {percent:g} %, "
        if top is not None:
            rows = top + self._args.print_sorted  # a list does not show the root
            large = with_callers(self.tree, _largest(large, self._figures[0].values, rows))
            why = f"not among the {top} largest, {why}"
        return large, f"{why}or too deep" if why else "too deep"


def _sort_order(text: str | None) -> tuple[str, int]:
    """The metric of `--sort`, and 1 for largest first or -1 for smallest first."""
    metric = (text or "").removeprefix("-")
    return metric, 1 if metric == (text or "") else -1


def _largest(nodes: Bools, values: Floats, top: int | None) -> Bools:
    """Of these nodes the `top` largest, the root always among them; all for None."""
    if top is None or nodes.sum() <= top:
        return nodes
    import numpy as np

    ranked = np.where(nodes, np.nan_to_num(values, nan=-np.inf), -np.inf)
    ranked[0] = np.inf
    largest = np.zeros_like(nodes)
    largest[np.argsort(-ranked, kind="stable")[:top]] = True
    return largest


class _Difference:
    """Two trees as one, with each metric of both and the difference."""

    def __init__(self, args: argparse.Namespace, side: _TreeSide, other: _TreeSide) -> None:
        self._args, self._merged = args, MergedTrees(side.tree, other.tree)
        self.tree = self._merged.tree
        self.is_empty = len(self.tree) < 2
        self._sides = side, other
        self._columns = [column for name in side.metrics(args, DEFAULT[:1]) for column in self._compared(name)]
        self._heading = f"by call path: {side.name} minus {other.name}"

    def view(self, *, rows: bool = False, whole: bool = False) -> TreeView:
        import numpy as np

        this, other, change = self._columns[:3]
        largest = np.nan_to_num([abs(this.values[0]), abs(other.values[0])]).max()
        percent = self._least(whole)
        moved = np.abs(np.nan_to_num(change.values)) >= percent / 100 * largest
        metric, sign = _sort_order(self._args.sort)
        by = self._compared(metric)[2] if metric not in ("", "name") else change
        return TreeView(
            tuple(self._columns),
            order=() if metric == "name" else (sign * np.abs(by.values),),
            shown=with_callers(self.tree, _largest(moved, np.abs(change.values), self._args.top)),
            max_depth=self._args.depth,
            why_hidden=f"changed by less than {percent:g} % of the total, or too deep",
            heading=self._heading,
        )

    def _least(self, whole: bool) -> float:
        least: MetricThreshold | None = self._args.threshold
        if least is not None and least.metric:
            raise UsageError("--diff takes a percentage as its threshold, not a value")
        return least.number if least else 0.0 if whole else DEFAULT_PERCENT

    def _compared(self, name: str) -> tuple[TreeColumn, TreeColumn, TreeColumn]:
        """A metric of this profile, of the other, and what this has more."""
        this, other = self._sides[0].figure(name), _other_figure(self._sides[1], name)
        missing = float("nan") if this.is_rate else 0.0
        ours, theirs = (self._merged.spread(side, figure.values, missing) for side, figure in enumerate((this, other)))
        meaning = f"{this.meaning}, in the other profile"
        return (
            TreeColumn(name, ours, this.unit, this.meaning),
            TreeColumn(f"{name}_other", theirs, this.unit, meaning, head="other"),
            TreeColumn(f"{name}_difference", ours - theirs, this.unit, "this minus the other", signed=True, head="±"),
        )


def _other_figure(other: _TreeSide, name: str) -> Figure:
    try:
        return other.figure(name)
    except UsageError as error:
        raise UsageError(f"{other.name}: {error.message}", hint=error.hint) from None


def column(figure: Figure) -> TreeColumn:
    return TreeColumn(figure.name, figure.values, figure.unit, figure.meaning)


def _show_list(args: argparse.Namespace, side: _TreeSide) -> int:
    table = offered(side.tree, side.gpu)
    if args.json:
        print_json(table, args.top)
    else:
        show_text(render_table(table, top=args.top, width=width()))
    return 0


def _no_gpu_work(side: _TreeSide) -> str:
    hint = hint_without_gpu_work(side.profile)
    return "no GPU work in this trace" + (f"\n\nhint: {hint}" if hint else "")


def _write(args: argparse.Namespace, target: TreeTarget, side: _TreeSide, shown: _Plain | _Difference) -> None:
    if args.diff and is_picture(target):
        raise UsageError("a flame graph shows one profile, not the difference of two", hint="write x.csv or x.json")
    if is_picture(target) and not shown.tree.total_ns[0]:
        raise WarplensError("a flame graph shows GPU time, and there is none", hint="write x.csv or x.json")
    write_tree_file(
        target,
        shown.tree,
        side.name,
        look=lambda: FlameLook(
            categories=kernel_categories(side.profile, full_names=args.full_names), paper=paper_of(args.theme)
        ),
        rows=lambda: tree_table(shown.tree, shown.view(rows=True, whole=True)),
        paths=side.shown_paths,
    )
    report_written([args.output])
