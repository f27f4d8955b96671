"""`kernel_schedule`: the operations of each loop, stage by stage or partition by partition, or group of warps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.model.table import Column
from warplens_lab.facts.records import KernelFacts
from warplens_lab.facts.table_parts import KEY, LINE, Row, key_cells, place_cells

SCHEDULE: Final = (
    *KEY,
    *LINE,
    Column("loop_line", "line of the loop", "", pl.Int64),
    Column("pattern", "producer/consumer, ping-pong, hand-over, pipelined or sequential", "", pl.String),
    Column(
        "partition",
        "partition of a warp-specialised loop, warps in CUDA C++; null where all warps do it",
        "",
        pl.String,
    ),
    Column("role", "what the partition does", "", pl.String),
    Column("order", "place among the operations of the loop or of its partition", "", pl.Int64),
    Column("stage", "stage of the pipeline, 0 is issued first; null in a partition", "", pl.Int64),
    Column("kind", "load, async copy, tma copy, product, wait, signal, barrier …", "", pl.String),
    Column("ahead", "iterations before the one that it serves; in a partition at most", "", pl.Int64),
    Column("buffer", "tile in shared or tensor memory that it fills or uses", "", pl.String),
    Column("copies", "copies of that tile", "", pl.Int64),
    Column("waits_for", "barrier that it waits for", "", pl.String),
    Column("signals", "barriers that it, or what it starts, arrives at", "", pl.String),
    Column("detail", "what may still be in flight, a priority", "", pl.String),
    Column("operation", "its name in TTGIR, in CUDA C++ in PTX", "", pl.String),
)


def schedule_rows(facts: KernelFacts) -> Iterator[Row]:
    for loop in facts.schedule:
        roles = {partition.name: partition.role for partition in loop.partitions}
        for step in loop.steps:
            yield {
                **key_cells(facts),
                **place_cells(step.place),
                "loop_line": loop.place.line,
                "pattern": loop.pattern,
                "partition": step.partition or None,
                "role": roles.get(step.partition),
                "order": step.order,
                "stage": step.stage,
                "kind": step.kind,
                "ahead": step.ahead,
                "buffer": step.buffer or None,
                "copies": step.copies or None,
                "waits_for": step.waits_for or None,
                "signals": step.signals or None,
                "detail": step.detail or None,
                "operation": step.operation,
            }
