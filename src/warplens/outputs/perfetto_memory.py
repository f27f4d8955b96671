"""Allocations and counters of a trace as events of a Chrome trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.outputs.json_texts import arguments, joined, quoted_column

DEVICE_TYPES: Final = {"CPU": 0, "GPU": 1}


def memory_texts(memory: pl.DataFrame, places: pl.Series) -> Iterator[pl.Series]:
    """Allocations as PyTorch's profiler writes them, and their totals as counters, which viewers draw.

    `places` has the thread and the moment of each; those without one are omitted.
    """
    memory, places = memory.filter(places.is_not_null()), places.drop_nulls()
    yield _events('{"ph":"i","s":"t","cat":"cpu_instant_event","name":', "[memory]", places, _allocations(memory))
    totals = memory.select(allocated="allocated_bytes", reserved="reserved_bytes")
    counters = _events('{"ph":"C","name":', memory["device"] + " memory", places, totals)
    yield counters.filter(memory["allocated_bytes"] >= 0)


def counter_texts(counters: pl.DataFrame, places: pl.Series) -> pl.Series:
    """Readings of GPUs (power, clocks …), each a counter of its GPU's process; `places` has process and moment."""
    names = counters["counter"] + " (" + counters["unit"] + ")"
    return _events('{"ph":"C","name":', names, places, counters.select("value"))


def _allocations(memory: pl.DataFrame) -> pl.DataFrame:
    device = pl.col("device")
    return memory.select(
        pl.col("reserved_bytes").alias("Total Reserved"),
        pl.col("allocated_bytes").alias("Total Allocated"),
        pl.col("bytes").alias("Bytes"),
        device.str.extract(r"^GPU (\d+)$").cast(pl.Int64, strict=False).alias("Device Id"),
        device.str.extract("^(CPU|GPU)").replace_strict(DEVICE_TYPES, default=None, return_dtype=pl.Int64)
        .alias("Device Type"),
        pl.when(pl.col("address") >= 0).then("address").alias("Addr"),
    )  # fmt: skip


def _events(head: str, names: pl.Series | str, places: pl.Series, about: pl.DataFrame) -> pl.Series:
    name = pl.Series([names] * about.height, dtype=pl.String) if isinstance(names, str) else names
    texts = arguments(about).str.strip_prefix(",")
    return joined([head, quoted_column(name), places, ',"args":{', texts, "}}"], about.height)
