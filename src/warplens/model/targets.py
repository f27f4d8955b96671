"""`Target`: what a finding points at, as data: a row of a table, rows, a range of time, a step.

A sentence is for people and may be reworded at any time; a link never depends on it.
"""

from __future__ import annotations

import msgspec


class RowTarget(msgspec.Struct, frozen=True, tag_field="to", tag="row"):
    """One row of a table, by its number in the table's own order.

    >>> msgspec.json.encode(RowTarget("roofline", 3))
    b'{"to":"row","table":"roofline","row":3}'
    """

    table: str
    row: int


class RowsTarget(msgspec.Struct, frozen=True, tag_field="to", tag="rows"):
    """The rows of a table that have this value in this column."""

    table: str
    column: str
    value: str


class RangeTarget(msgspec.Struct, frozen=True, tag_field="to", tag="range"):
    """A range of time, in ns since the start of the trace."""

    start_ns: int
    end_ns: int


class StepTarget(msgspec.Struct, frozen=True, tag_field="to", tag="step"):
    """One step, by its number."""

    step: int


Target = RowTarget | RowsTarget | RangeTarget | StepTarget
