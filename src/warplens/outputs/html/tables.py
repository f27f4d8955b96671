"""Tables as columns of the page."""

from __future__ import annotations

from warplens.model.table import Table
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import ColumnHeader, TableHeader

STORED_BY_TIME = {
    # Rows of these are written in order of time, in which neighbours resemble each other; the page sorts them back.
    "gaps": (("device", "start_ms"), (("gap_us", True), ("device", False), ("start_ms", False))),
}


def pack_table(table: Table, packer: Packer) -> TableHeader:
    frame = table.frame
    stored, shown = STORED_BY_TIME.get(table.name, ((), ()))
    if not {name for name, _ in shown} <= set(frame.columns):  # a comparison's table of the same name
        shown = ()
    if shown:
        frame = frame.sort(*stored)
    return TableHeader(
        name=table.name,
        meaning=table.meaning,
        notes=list(table.notes),
        rows=len(table),
        order=list(shown),
        columns=[
            ColumnHeader(column.name, column.unit, column.meaning, packer.add_series(frame[column.name]))
            for column in table.columns
        ],
    )
