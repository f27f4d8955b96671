"""What the verbs of `warplens kernel` share: a script with arguments, tables, outputs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.common import show_text, width, write_bytes
from warplens.errors import UsageError
from warplens.files import check_file

if TYPE_CHECKING:
    from warplens.model.table import Table


def add_script_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script_args", nargs=argparse.REMAINDER, metavar="args",
                        help="of the script; behind -- also options that have a meaning here")  # fmt: skip


def settle(args: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]) -> None:
    """Options behind the script count as those before it; what means nothing here is the script's, as all behind --."""
    words = args.script_args
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog=f"warplens kernel {args.action}", add_help=False, allow_abbrev=False)
    add_options(parser)
    _, rest = parser.parse_known_args(words[:end], args)
    args.script_args = [*rest, *words[end + 1 :]]


def named(tables: Sequence[Table], name: str) -> Table:
    for table in tables:
        if table.name == name:
            return table
    raise UsageError(f"no table {name!r}", hint=f"one of: {', '.join(table.name for table in tables)}")


def show(table: Table, args: argparse.Namespace) -> None:
    from dataclasses import replace

    from warplens.outputs import render_table, rows_to_json

    if args.json:
        write_bytes(rows_to_json(table if args.top is None else replace(table, frame=table.frame.head(args.top))))
    else:
        show_text(render_table(table, top=args.top, width=width()))


def check_outputs(args: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Outputs that are not tables, before anything runs; `inputs` are what the verb reads."""
    for path in args.output:
        if path.endswith((".wkt", ".html", ".json")):
            check_file(Path(path), force=args.force, inputs=inputs)
