"""`op_sequences`: the kernels that the calls of each op launch, in the order in which they run.

`kernel_sequences` looks for what repeats on a stream; here the calls of an op say where a sequence begins and ends.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.analyses.work.kernel_sequences import sequence_text
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import place_of_rows
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints

Codes = npt.NDArray[np.uint64]
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Spreads the places and names of kernels, so that a sum over a sequence identifies it."""
COLUMNS: Final = (
    Column("op", "the op, of any level; calls inside another call of the same op are part of that", "", pl.String),
    Column("kernels", "the kernels in order, by their short names; a repeated one once with its number", "", pl.String),
    Column("length", "kernels, copies and fills in the sequence, those of inner ops included", "", pl.Int64),
    Column("count", "calls of the op that launch this sequence", "", pl.Int64),
    Column("total_us", "sum of the durations of its kernels, all calls together", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("mean_us", "sum of the durations of its kernels, mean of a call", "us", pl.Float64),
    Column("host_us", "time of these calls on the host, inner ops included", "us", pl.Float64),
    Column("line", "Python line with most of the first call's time", "", pl.String),
    Column("module", "nn.Module with most of the first call's time", "", pl.String),
    STEP_TIME,
)
MEANING: Final = "one row per op and sequence of kernels that its calls launch"
NOTE: Final = "an op's calls contain those of inner ops: shares do not add up to 100 %"


def op_sequences(work: Workspace) -> Table:
    call, event = _events_of_calls(work)
    if not len(call):
        return Table.from_rows("op_sequences", MEANING, COLUMNS, [], "no GPU event of this trace has an op")
    trace, gpu = work.trace, work.gpu
    order = np.lexsort((gpu["start_ns"].to_numpy()[event], call))
    call, event = call[order], event[order]
    first = np.flatnonzero(np.append(True, call[1:] != call[:-1]))
    length = np.diff(np.append(first, len(call)))
    place = (np.arange(len(call)) - np.repeat(first, length)).astype(np.uint64)
    name = gpu["name"].to_numpy()[event].astype(np.uint64)
    with np.errstate(over="ignore"):
        text = np.add.reduceat(_mixed(_mixed(place) + name), first)
    duration, step = gpu["dur_ns"].to_numpy()[event], gpu["step"].to_numpy()[event]
    calls = pl.DataFrame(
        {
            "op": trace.ints("name")[call[first]],
            "text": text,
            "length": length,
            "first": first,
            "gpu_ns": np.add.reduceat(duration, first),
            "step_ns": np.add.reduceat(np.where(step >= 0, duration, 0), first),
            "host_ns": trace.ints("dur_ns")[call[first]],
        }
    )
    keys = ["op", "text", "length"]
    rows = calls.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("count"), pl.col("first").first(), pl.col("gpu_ns", "step_ns", "host_ns").sum()
    )
    return Table.from_frame("op_sequences", MEANING, COLUMNS, _described(work, rows, event), NOTE)


def _events_of_calls(work: Workspace) -> tuple[Ints, Ints]:
    """Each GPU event with each op call around its launch that is in no other call of the same op."""
    enclosing = np.append(work.enclosing_op, NONE)  # of -1, the last
    op, event = work.gpu["op_row"].to_numpy().astype(np.int64), np.arange(len(work.gpu))
    calls, events = [op[:0]], [event[:0]]
    while len(event := event[(inside := op >= 0)]):
        op = op[inside]
        calls.append(op)
        events.append(event)
        op = enclosing[op]
    call, event = np.concatenate(calls), np.concatenate(events)
    unique, number = np.unique(call, return_inverse=True)
    kept = ~_is_in_its_own_kind(work, unique, enclosing)[number]
    return call[kept], event[kept]


def _is_in_its_own_kind(work: Workspace, calls: Ints, enclosing: Ints) -> Bools:
    name = np.append(work.trace.ints("name").astype(np.int64), NONE)
    is_inner, above = np.zeros(len(calls), bool), enclosing[calls]
    while (above >= 0).any():
        is_inner |= name[above] == name[calls]
        above = enclosing[above]
    return is_inner


def _mixed(numbers: Codes) -> Codes:
    mixed: Codes = (numbers + np.uint64(1)) * MIX
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _described(work: Workspace, rows: pl.DataFrame, event: Ints) -> pl.DataFrame:
    shorts = work.gpu["kernel_short"]
    inside = [event[first : first + length] for first, length in rows.select("first", "length").iter_rows()]
    places = [place_of_rows(work, own) for own in inside]
    return (
        rows.with_columns(
            pl.Series("op", [work.trace.names[code] for code in rows["op"]], dtype=pl.String),
            pl.Series("kernels", [sequence_text(shorts[own].to_list()) for own in inside], dtype=pl.String),
            pl.Series("line", [place.line for place in places], dtype=pl.String),
            pl.Series("module", [place.module for place in places], dtype=pl.String),
            (pl.col("gpu_ns") / 1000).alias("total_us"),
            (pl.col("gpu_ns") / pl.col("count") / 1000).alias("mean_us"),
            (pl.col("host_ns") / 1000).alias("host_us"),
            (pl.col("step_ns") / 1000).alias("step_us"),
        )
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "length", "op", "first", descending=[True, True, False, False])
    )
