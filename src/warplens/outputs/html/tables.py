"""Tables as columns of the page."""

from __future__ import annotations

from typing import Any

from warplens.model.table import Table
from warplens.outputs.html.pack import Packer

STORED_BY_TIME = {
    # Rows of these are written in order of time, in which neighbours resemble each other; the page sorts them back.
    "gaps": (("device", "start_ms"), (("gap_us", True), ("device", False), ("start_ms", False))),
}


def pack_table(table: Table, packer: Packer) -> dict[str, Any]:
    frame = table.frame
    stored, shown = STORED_BY_TIME.get(table.name, ((), ()))
    if not {name for name, _ in shown} <= set(frame.columns):  # a comparison's table of the same name
        shown = ()
    if shown:
        frame = frame.sort(*stored)
    return {
        "name": table.name,
        "meaning": table.meaning,
        "notes": list(table.notes),
        "rows": len(table),
        **({"order": [list(each) for each in shown]} if shown else {}),
        "columns": [
            {
                "name": column.name,
                "unit": column.unit,
                "meaning": column.meaning,
                "data": packer.add_series(frame[column.name]),
            }
            for column in table.columns
        ],
    }
