"""Ask a trace a question in SQL.

Every table is there under its name, and `events` holds every event (kinds and names written out). Sides of the
trace: lanes, specs, geometries, collectives, memory_events.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from warplens.cli.common import add_trace_options, open_profile, show_text, width, write_bytes

if TYPE_CHECKING:
    from warplens.api import Profile
    from warplens.model.table import Table
    from warplens.paths_profile import PathsProfile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("query", metavar="SQL", help='for example: "select * from kernels limit 5"')
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of row objects")
    form.add_argument("--csv", action="store_true", help="CSV")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs import render_table, rows_to_json
    from warplens.outputs.tabular import with_json_text

    table = query(open_profile(args), args.query)
    if args.json:
        write_bytes(rows_to_json(table))
    elif args.csv:
        write_bytes(with_json_text(table.frame).write_csv().encode())
    else:
        show_text(render_table(table, top=None, width=width(), title=False))
    return 0


def query(profile: Profile | PathsProfile, text: str) -> Table:
    """The answer as a table; only the tables that the query names are computed."""
    import re

    import polars as pl

    from warplens.errors import UsageError
    from warplens.model.table import Column, Table

    words = {word.lower() for word in re.findall(r"\w+", text)}
    frames = {name: make() for name, make in _sources(profile).items() if name in words}
    try:
        frame = pl.SQLContext(frames, eager=True).execute(text)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"SQL: {reason}", hint=f"tables: {', '.join(_sources(profile))}") from None
    return Table("query", text, tuple(Column(name, "", "", dtype) for name, dtype in frame.schema.items()), frame)


def _sources(profile: Profile | PathsProfile) -> dict[str, Any]:
    from warplens.api import Profile

    sources: dict[str, Any] = {name: (lambda name=name: profile.table(name).frame) for name in profile.all_table_names}
    if not isinstance(profile, Profile):
        return sources
    trace = profile.trace
    sources |= {"events": trace.named_events, "memory_events": lambda: trace.memory}
    sources |= {
        name: (lambda name=name: getattr(trace, name)) for name in ("lanes", "specs", "geometries", "collectives")
    }
    return sources
