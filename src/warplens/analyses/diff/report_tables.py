"""Two tables of the same name compared, whatever they hold: rows are joined on what names them, numbers subtracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.table import Column, Table

NUMBER_KEYS: Final = frozenset({"stream", "device", "line", "rank", "group_size"})
"""Numbers that say which row it is."""
RESULTS: Final = frozenset({"top_stall", "source"})
"""Texts that are findings about a row and may differ between two runs of it."""
UNITS: Final = {"us": "us", "ms": "ms", "percent": "%", "bytes": "bytes", "tflops": "TFLOP/s", "tbps": "TB/s"}
REPEAT: Final = "repeat"
REPORT_TABLES: Final = "report_tables"


def diff_of_tables(name: str, a: pl.DataFrame, b: pl.DataFrame) -> Table:
    """A, B and B − A for each number of two tables; equal keys are paired in their order."""
    others = set(b.columns)
    shared = {column: dtype for column, dtype in a.schema.items() if column in others}
    keys = _keys([column for column, dtype in shared.items() if _is_key(column, dtype)], a, b)
    numbers = [column for column, dtype in shared.items() if column not in NUMBER_KEYS and dtype.is_numeric()]
    numbers.sort(key=lambda number: not _is_time(number))
    first, second = (_prepared(frame, keys, numbers, side) for frame, side in ((a, "a"), (b, "b")))
    joined = first.join(second, on=[*keys, REPEAT], how="full", coalesce=True, nulls_equal=True)
    in_a, in_b = pl.col("in_a").is_not_null(), pl.col("in_b").is_not_null()
    status = pl.when(in_a & in_b).then(pl.lit(BOTH)).when(in_a).then(pl.lit(ONLY_A)).otherwise(pl.lit(ONLY_B))
    deltas = [
        (pl.col(f"b_{number}").fill_null(0) - pl.col(f"a_{number}").fill_null(0)).alias(f"delta_{number}")
        for number in numbers
    ]
    frame = joined.with_columns(status.alias("status"), *deltas).sort("in_a", "in_b", nulls_last=True)
    columns = [
        *(Column(key, "identifies the row", "", frame.schema[key]) for key in keys),
        *_repeat(frame),
        Column("status", "whether A, B or both have the row", "", pl.String),
    ]
    types = frame.schema
    columns += [column for number in numbers for column in _number_columns(number, types)]
    frame = _sorted(frame.select(column.name for column in columns), numbers)
    missing = sorted(set(a.columns) ^ set(b.columns))
    notes = (f"not in both: {', '.join(missing)}",) if missing else ()
    return Table(name, f"{name}: A against B", tuple(columns), frame, notes)


def summary_of(tables: Sequence[Table]) -> Table:
    """One row per compared table: how many of its rows differ, and in what."""
    rows = [(table.name, len(table), *_counts(table.frame)) for table in tables]
    columns = (
        Column("table", "name of the table", "", pl.String),
        Column("rows", "rows in either", "", pl.Int64),
        Column("only_in_a", "rows that only A has", "", pl.Int64),
        Column("only_in_b", "rows that only B has", "", pl.Int64),
        Column("differing", "rows of both in which a number differs", "", pl.Int64),
    )
    return Table.from_rows(REPORT_TABLES, "one row per table that both have", columns, rows)


def _counts(frame: pl.DataFrame) -> tuple[int, int, int]:
    deltas = [pl.col(name).fill_null(0) != 0 for name in frame.columns if name.startswith("delta_")]
    differs = frame.filter(pl.col("status") == BOTH, pl.any_horizontal(deltas) if deltas else pl.lit(False))
    only = [int((frame["status"] == status).sum()) for status in (ONLY_A, ONLY_B)]
    return only[0], only[1], len(differs)


def _keys(candidates: list[str], a: pl.DataFrame, b: pl.DataFrame) -> list[str]:
    """The first columns that identify every row in both; the columns after them are facts about a row."""
    for count in range(1, len(candidates)):
        keys = candidates[:count]
        if not any(frame.select(keys).is_duplicated().any() for frame in (a, b)):
            return keys
    return candidates


def _is_time(number: str) -> bool:
    return bool({"us", "ms"} & set(number.split("_")))


def _is_key(column: str, dtype: pl.DataType) -> bool:
    return (dtype == pl.String and column not in RESULTS) or column in NUMBER_KEYS


def _prepared(frame: pl.DataFrame, keys: list[str], numbers: list[str], side: str) -> pl.DataFrame:
    row_number = pl.int_range(pl.len(), dtype=pl.Int64)
    repeat = row_number.over(keys) if keys else row_number
    renamed = [pl.col(number).alias(f"{side}_{number}") for number in numbers]
    return frame.select(*keys, repeat.alias(REPEAT), row_number.alias(f"in_{side}"), *renamed)


def _repeat(frame: pl.DataFrame) -> list[Column]:
    return [Column(REPEAT, "distinguishes rows with equal names", "", pl.Int64)] if frame[REPEAT].max() else []


def _number_columns(number: str, types: Mapping[str, pl.DataType]) -> list[Column]:
    unit = next((UNITS[word] for word in reversed(number.split("_")) if word in UNITS), "")
    texts = {"a": "in A", "b": "in B", "delta": "B less A"}
    return [
        Column(f"{side}_{number}", f"{number} {text}", unit, types[f"{side}_{number}"]) for side, text in texts.items()
    ]


def _sorted(frame: pl.DataFrame, numbers: list[str]) -> pl.DataFrame:
    """By the first time there is, else by the first number: the largest difference first."""
    if not numbers:
        return frame
    return frame.sort(pl.col(f"delta_{numbers[0]}").abs(), descending=True, nulls_last=True, maintain_order=True)
