"""How a cell reads to people, by the unit of its column: one table for terminal, markdown and spreadsheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from warplens_run.base.printable import clean
from warplens_run.base.units import MISSING, format_bytes, format_count, format_flop, format_number, format_percent

if TYPE_CHECKING:
    import polars as pl

    from warplens.model.table import Column, Table


class NumberStyle(NamedTuple):
    """How numbers of one unit are shown: as text for people, and as a spreadsheet number format."""

    text: Callable[[float], str]
    excel: str


def _fixed(decimals: int) -> NumberStyle:
    """The header names the unit (`total_us`), so the cells carry digits only and line up."""
    zeros = "." + "0" * decimals if decimals else ""
    return NumberStyle(lambda value: f"{value:,.{decimals}f}", f"#,##0{zeros}")


STYLES = {
    "ns": _fixed(0),
    "us": _fixed(1),
    "ms": _fixed(3),
    "s": _fixed(3),
    "count": NumberStyle(format_count, "#,##0"),
    "percent": NumberStyle(format_percent, '0.0"%"'),
    "bytes": NumberStyle(format_bytes, "#,##0"),
    "flop": NumberStyle(format_flop, "#,##0"),
    "joule": _fixed(3),
    "watt": _fixed(1),
    "tflops": _fixed(1),
    "tbps": _fixed(3),
    "gbps": _fixed(1),
}
ALIASES = {
    "µs": "us",
    "%": "percent",
    "B": "bytes",
    "byte": "bytes",
    "FLOP": "flop",
    "J": "joule",
    "W": "watt",
    "TFLOP/s": "tflops",
    "TB/s": "tbps",
    "GB/s": "gbps",
}
PLAIN = NumberStyle(format_number, "General")
IDENTIFIER = NumberStyle(lambda value: f"{value:.0f}", "0")


def number_style(column: Column) -> NumberStyle:
    """The declared unit decides; without one a word of the column's name does (`kernel_us_mean`)."""
    if column.unit:
        return STYLES.get(ALIASES.get(column.unit, column.unit), PLAIN)
    named = next((word for word in reversed(column.name.split("_")) if word in STYLES), None)
    if named:
        return STYLES[named]
    # An integer without a unit is a stream, a process or a row id: separators would suggest an amount.
    return IDENTIFIER if column.dtype.is_integer() else PLAIN


def cell_texts(series: pl.Series, column: Column) -> list[str]:
    """The cells of one column as people read them, each one clean line."""
    if column.dtype.is_numeric():
        style = number_style(column).text
        return [MISSING if value is None or not math.isfinite(value) else style(value) for value in series]
    return [_text(value) for value in series.to_list()]


def shown_columns(table: Table, columns: Sequence[str] | None = None) -> list[str]:
    """The columns worth a reader's width: a kernel's short name stands for its full one unless asked for."""
    if columns is not None:
        return list(columns)
    names = table.frame.columns
    return [name for name in names if name != "kernel" or "kernel_short" not in names]


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, dict)):
        import msgspec

        return clean(msgspec.json.encode(value).decode())
    return clean(str(value))
