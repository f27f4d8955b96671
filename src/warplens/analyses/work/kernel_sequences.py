"""`kernel_sequences`: kernels that follow each other on a stream again and again, as a layer's or a decode step's do.

`sequence_search.py` says what counts as one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import place_of_rows
from warplens.analyses.work.sequence_search import Sequence, find_sequences
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.arrays import numbered
from warplens.model.table import Column, Table
from warplens.model.trace import Ints

SHOWN: Final = 12
"""Kernels that the text of a sequence names."""
COLUMNS = (
    Column("kernels", "the kernels in order, by their short names; a repeated one once with its number", "", pl.String),
    Column("length", "kernels, copies and fills in the sequence", "", pl.Int64),
    Column("count", "times it runs", "", pl.Int64),
    Column("total_us", "sum of the durations of its kernels, all times together", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("mean_us", "mean time from its first kernel's start to its last one's end", "us", pl.Float64),
    Column("gap_us", "time between its kernels in which the stream runs nothing, all times together", "us", pl.Float64),
    Column("kernel_mean_us", "mean duration of one of its kernels", "us", pl.Float64),
    Column("device", "GPU number", "", pl.Int32),
    Column("stream", "GPU stream (queue)", "", pl.Int64),
    Column("op", "op in which it begins, most often", "", pl.String),
    Column("line", "Python line with most of the time", "", pl.String),
    Column("module", "nn.Module with most of the time", "", pl.String),
    STEP_TIME,
    Column("in_graph", "whether its kernels are launched by a CUDA or HIP graph", "", pl.Boolean),
)


class _Stream(msgspec.Struct, frozen=True):
    """All GPU events in stream order: rows of `work.gpu`, a number per kernel and stream, and sums of durations."""

    rows: Ints
    code: Ints
    sums_ns: Ints
    """Durations of all events before each, one more than there are events."""


def kernel_sequences(work: Workspace) -> Table:
    meaning = "one row per sequence of kernels that a stream runs repeatedly"
    frame = _frame(work)
    notes = [] if len(work.gpu) else ["no GPU work in this trace"]
    if len(frame) > 1:
        notes.append("sequences can contain each other, as a layer contains its blocks: shares do not add up to 100 %")
    return Table.from_frame("kernel_sequences", meaning, COLUMNS, frame, *notes)


@shared
def _frame(work: Workspace) -> pl.DataFrame:
    stream = _in_stream_order(work)
    return _described(work, stream, find_sequences(stream.code, stream.sums_ns))


def _in_stream_order(work: Workspace) -> _Stream:
    gpu = work.gpu
    lane, start = work.trace.ints("lane")[gpu["id"].to_numpy()], gpu["start_ns"].to_numpy()
    rows = np.lexsort((start, lane))
    key = lane[rows].astype(np.int64) * (len(work.trace.names) + 1) + gpu["name"].to_numpy().astype(np.int64)[rows]
    code = numbered(key)[1]
    return _Stream(rows, code, np.concatenate([[0], np.cumsum(gpu["dur_ns"].to_numpy()[rows])]))


def _described(work: Workspace, stream: _Stream, found: list[Sequence]) -> pl.DataFrame:
    gpu = work.gpu
    start, duration = gpu["start_ns"].to_numpy()[stream.rows], gpu["dur_ns"].to_numpy()[stream.rows]
    names, ops, step, in_graph = (
        gpu["kernel_short"],
        gpu["op"],
        gpu["step"].to_numpy()[stream.rows],
        gpu["in_graph"].to_numpy(),
    )
    rows = []
    for sequence in found:
        inside = sequence.starts[:, None] + np.arange(sequence.length)
        ends = start[inside] + duration[inside]
        gaps = np.maximum(start[inside][:, 1:] - np.maximum.accumulate(ends, axis=1)[:, :-1], 0)
        first = stream.rows[sequence.starts]
        place = place_of_rows(work, stream.rows[inside].ravel())
        row = int(first[0])
        rows.append(
            {
                "kernels": sequence_text(names[stream.rows[inside[0]]].to_list()),
                "length": sequence.length,
                "count": len(sequence.starts),
                "total_us": sequence.time_ns / 1000,
                "mean_us": float((ends.max(axis=1) - start[inside[:, 0]]).mean()) / 1000,
                "gap_us": float(gaps.sum()) / 1000,
                "kernel_mean_us": sequence.time_ns / inside.size / 1000,
                "device": int(gpu["device"][row]),
                "stream": int(gpu["stream"][row]),
                "op": _most_frequent(ops[first].to_list()),
                "line": place.line,
                "module": place.module,
                "step_us": float(duration[inside][step[inside] >= 0].sum()) / 1000,
                "in_graph": bool(in_graph[stream.rows[inside]].all()),
            }
        )
    schema = {column.name: column.dtype for column in COLUMNS if column.name != "percent"}
    frame = pl.DataFrame(rows, schema=schema)
    return frame.with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))


def _most_frequent(ops: list[str]) -> str:
    """The first by name of several; a query of Polars takes longer than the rest of a row."""
    counts = Counter(ops)
    most = max(counts.values())
    return min(op for op, count in counts.items() if count == most)


def sequence_text(names: list[str]) -> str:
    """Kernels in order as a short text.

    >>> sequence_text(["copy", "copy", "copy", "gemm"])
    'copy ×3 → gemm'
    """
    runs: list[tuple[str, int]] = []
    for name in names:
        last, count = runs[-1] if runs else ("", 0)
        if name == last:
            runs[-1] = (name, count + 1)
        else:
            runs.append((name, 1))
    texts = [name if count == 1 else f"{name} ×{count}" for name, count in runs]
    more = len(texts) - SHOWN
    return " → ".join(texts[:SHOWN]) + (f" → and {more} more" if more > 0 else "")
