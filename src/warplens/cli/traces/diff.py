"""Compare two traces of the same work: what changed from A to B, and where.

A and B are two traces (another GPU, another version, another flag), or two directories of tables that
`warplens report TRACE -o dir/` wrote. Ops are matched by name and shapes, modules by path, kernels by
category. Times are per step where both have steps. Differences inside the runs' own spread are marked ~.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.common import command_line, positive, progress, show_text, width, write_bytes

if TYPE_CHECKING:
    from warplens.model.table import Table
    from warplens.profiles.comparison import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="trace, or directory of report tables")
    parser.add_argument("b", metavar="B", help="what it is compared with")
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="file or directory/ to write")  # fmt: skip
    parser.add_argument("--tables", choices=("csv", "parquet"), default="csv", help="files of a directory output")
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--table", metavar="NAME", help="one table, as diff_ops, diff_kernels or diff_modules")
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows (terminal: 30, else all)")
    parser.add_argument("--tree", action="store_true", help="the call tree with what changed")
    parser.add_argument("-c", "--context", metavar="KIND", help="of the tree: python, module, op, annotation or full")
    parser.add_argument("-d", "--depth", type=positive, default=None, metavar="N", help="at most N levels of the tree")
    parser.add_argument("-t", "--threshold", type=float, default=1.0, metavar="PERCENT",
                        help="leave out what changed by less than this share of the total (default 1)")  # fmt: skip
    parser.add_argument("--whole", action="store_true", help="the whole traces, also where both have steps")
    parser.add_argument("--json", action="store_true", help="one JSON array of rows: the table, the tree or the parts")
    parser.add_argument("--rules", action="append", default=[], metavar="FILE", help="own kernel-category rules (TOML)")
    parser.add_argument("--gap", default="10us", metavar="TIME", help="shortest idle gap to name a cause for")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of parsed traces")


def run(args: argparse.Namespace) -> int:
    from warplens.errors import UsageError
    from warplens.outputs import plan_outputs, write

    if args.table and args.tree:
        raise UsageError("--table and --tree exclude each other", hint="give one of them")
    targets = plan_outputs(args.output, tables=args.tables, force=args.force, inputs=[args.a, args.b, *args.rules])
    comparison = _open(args)
    written = [path for target in targets for path in write(target, comparison.document(command=command_line()))]
    if args.table or args.tree or args.json:
        _show(args, comparison)
        if written:
            print(f"wrote {', '.join(args.output)} ({len(written)} file{'s' * (len(written) != 1)})", file=sys.stderr)
        return 0
    from warplens.outputs.diff_text import SCREEN_TABLES, render_comparison

    needed = [
        name for name in comparison.table_names if name in SCREEN_TABLES or "diff_ops" not in comparison.table_names
    ]
    document = comparison.document(needed)
    show_text(render_comparison(document, (args.a, args.b), width=min(width(), 120), written=args.output))
    return 0


def _open(args: argparse.Namespace) -> Comparison:
    from warplens.units import parse_duration

    gap_us = parse_duration(args.gap) / 1e3
    larger = max((Path(args.a), Path(args.b)), key=lambda path: path.stat().st_size if path.is_file() else 0)
    with progress(f"reading {args.a} and {args.b}", larger):
        from warplens.api import diff

        return diff(args.a, args.b, whole=args.whole, cache=not args.no_cache, rules=args.rules, gap_us=gap_us)


def _show(args: argparse.Namespace, comparison: Comparison) -> None:
    """One table or the tree, as text or rows."""
    from warplens.outputs import render_table, rows_to_json

    if args.tree:
        _show_tree(args, comparison.diff_tree(args.context))
        return
    table = comparison.table(args.table or comparison.table_names[0])
    if args.json:
        write_bytes(rows_to_json(_head(table, args.top)))
    else:
        top = args.top if args.top is not None or not sys.stdout.isatty() else 30
        show_text(render_table(table, top=top, width=width()))


def _show_tree(args: argparse.Namespace, tree: Table) -> None:
    from warplens.outputs import rows_to_json
    from warplens.outputs.diff_tree_text import render_diff_tree

    if args.json:
        write_bytes(rows_to_json(_head(tree, args.top)))
    elif not tree.frame["a_count"][0] and not tree.frame["b_count"][0]:
        print("no GPU work in these traces", file=sys.stderr)
    else:
        show_text(render_diff_tree(tree, width=width(), threshold_percent=args.threshold, max_depth=args.depth))


def _head(table: Table, top: int | None) -> Table:
    from dataclasses import replace

    return table if top is None else replace(table, frame=table.frame.head(top))
