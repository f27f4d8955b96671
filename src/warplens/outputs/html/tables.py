"""Tables as columns of the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.model.table import Column, Table
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import ColumnHeader, TableHeader

STORED_BY_TIME = {
    # Rows of these are written in order of time, in which neighbours resemble each other; the page sorts them back.
    "gaps": (("device", "start_ms"), (("gap_us", True), ("device", False), ("start_ms", False))),
}
EXPECTED: Final[dict[tuple[str, str], dict[str, float | None]]] = {
    # Columns that follow from others: 170 kB less on 35,000 gaps. A share follows from what it is a share of.
    ("gaps", "host_us"): {"gap_us": 1.0, "launch_us": -1.0, "dependency_us": -1.0},
    ("gaps", "percent_of_idle"): {"gap_us": None},
}
MOST_ROWS: Final = 200_000
"""Of a table in LARGEST: with 1,000 ranks a page of them stays below 20 MB. Other outputs have all rows."""
LARGEST: Final = {"collectives": "wait_sum_us", "waits": "wait_ms", "all_to_all": "sent_bytes"}
"""Tables that grow with the calls or with the square of the ranks, and what their rows are kept by."""


def pack_table(table: Table, packer: Packer) -> TableHeader:
    table = _kept(table)
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
        columns=[_column(table.name, column, frame, packer) for column in table.columns],
    )


def _kept(table: Table) -> Table:
    """The rows that a page has, in their order, with a note where that is not all of them."""
    key = LARGEST.get(table.name, "")
    if len(table) <= MOST_ROWS or key not in table.frame.columns:
        return table
    longest = table.frame.with_row_index("_row").sort(key, descending=True, nulls_last=True, maintain_order=True)
    frame = longest.head(MOST_ROWS).sort("_row").drop("_row")
    note = f"the {MOST_ROWS:,} rows with the largest {key} of {len(table):,}: the other outputs have all"
    return replace(table, frame=frame, notes=(*table.notes, note))


def _column(table: str, column: Column, frame: pl.DataFrame, packer: Packer) -> ColumnHeader:
    parts: dict[str, float | None] = EXPECTED.get((table, column.name), {})
    if parts and set(parts) <= set(frame.columns):
        factors = {
            name: _ratio(frame, column.name, name) if factor is None else factor for name, factor in parts.items()
        }
        expected = sum(
            (frame[name].fill_null(0.0).to_numpy() * factor for name, factor in factors.items()), np.zeros(len(frame))
        )
        difference = packer.add_difference(frame[column.name], expected)
        if difference is not None:
            return ColumnHeader(column.name, column.unit, column.meaning, difference, factors)
    return ColumnHeader(column.name, column.unit, column.meaning, packer.add_series(frame[column.name]))


def _ratio(frame: pl.DataFrame, share: str, whole: str) -> float:
    """By the sums, which hide what each share is rounded by."""
    total = float(frame[whole].sum())
    return float(frame[share].sum()) / total if total else 0.0
