"""Show GPU time by call path.

Backward kernels stand under the forward code that created them. With -o the whole tree is written as a flame
graph: x.svg, x.folded (folded stacks) or x.speedscope.json; the verb flamegraph has more options for that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warplens.cli.common import add_trace_options, open_profile, positive, show_text, width, write_bytes
from warplens.cli.paths import PathFilter, add_path_options, kernel_categories


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("-m", "--metrics", default="gpu_us,percent,count", metavar="A,B,…",
                        help="gpu_us, self_us, percent, count, avg_us (default gpu_us,percent,count)")  # fmt: skip
    add_path_options(parser)
    parser.add_argument("-d", "--depth", type=positive, default=None, metavar="N", help="at most N levels")
    parser.add_argument("-t", "--threshold", type=float, default=1.0, metavar="PERCENT",
                        help="leave out nodes below this share of the total (default 1)")  # fmt: skip
    parser.add_argument(
        "--sort", default="gpu_us", metavar="METRIC", help="order of siblings (default gpu_us), or name"
    )
    parser.add_argument("--json", action="store_true", help="one JSON array of nodes")
    parser.add_argument("-o", "--output", metavar="PATH", help="write x.svg, x.folded or x.speedscope.json")
    parser.add_argument("--force", action="store_true", help="overwrite an existing output")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs.flamegraph import plan_flamegraph, write_flamegraph
    from warplens.outputs.flamegraph_svg import FlameLook
    from warplens.outputs.tree_text import TreeView, render_tree, tree_rows

    view = TreeView(
        metrics=tuple(args.metrics.split(",")),
        sort=args.sort,
        threshold_percent=args.threshold,
        max_depth=args.depth,
        full_names=args.full_names,
    )
    chosen = PathFilter(args)
    target = plan_flamegraph(args.output, force=args.force) if args.output else None
    profile = open_profile(args)
    tree = chosen(profile.tree(args.context, short_names=not args.full_names))
    if target is not None:
        look = FlameLook(categories=kernel_categories(profile, full_names=args.full_names))
        write_flamegraph(target, tree, name=Path(args.trace).name, look=look)
        print(f"wrote {args.output}", file=sys.stderr)
    if args.json:
        write_bytes(tree_rows(tree, view))
    elif target is None and not tree.total_count[0]:
        print("no GPU work on any path" if args.include else "no GPU work in this trace", file=sys.stderr)
    elif target is None:
        show_text(render_tree(tree, view, width=width()))
    return 0
