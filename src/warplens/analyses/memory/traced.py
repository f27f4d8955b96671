"""The memory of a trace: its profiler's memory events, and the snapshot that was recorded beside it."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.memory import profiled
from warplens.analyses.memory.history import DeviceHistory, Ints
from warplens.analyses.memory.labels import BACKWARD, CACHE, CACHE_FILE, FORWARD, OPTIMIZER, RECOMPUTE
from warplens.analyses.memory.memory_work import TRACED, MemoryWork
from warplens.analyses.memory.replaying import snapshot_history
from warplens.analyses.memory.same_run import first_ns, tie
from warplens.analyses.shared import shared
from warplens.analyses.time.host_activity import innermost_at
from warplens.analyses.time.phases import MEANINGS, marks_of_phases
from warplens.analyses.work.modules import lines_around, modules_around
from warplens.analyses.work.places import pattern_of
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.table import Table
from warplens.passes.climb import climb

LABELS: Final = {"backward": BACKWARD, "optimizer": OPTIMIZER, "recompute": RECOMPUTE}
"""Phase of the trace: what it is called here; every other is forward."""
PLACE: Final = ("op", "label", "module", "layer", "line")
NEAR_NS: Final = 1_000_000
"""The allocator and the profiler note the same call within microseconds of each other."""


@shared
def memory_work(work: Workspace) -> MemoryWork:
    recorded = None if work.read_memory is None else work.read_memory()
    if recorded is None or recorded.is_empty:
        notes = () if recorded is None else recorded.snapshot.quality.notes
        history = profiled.profiled_history(work.trace)
        return MemoryWork(history, places=lambda device: _own_places(work, device), notes=notes)
    found = tie(work.trace, recorded)
    origin_ns = work.trace.meta.origin_ns if found.has_same_clock else first_ns(recorded.snapshot)
    history = snapshot_history(recorded.snapshot, origin_ns, recorded.facts)
    places = (lambda device: _joined_places(work, device)) if found.is_joined else None
    return MemoryWork(history, recorded.facts, origin_ns, places, found.notes)


def trace_table(name: str, work: Workspace) -> Table:
    from warplens.analyses.memory.tables import MEMORY_TABLES

    return MEMORY_TABLES[name](memory_work(work))


@shared
def _places(work: Workspace) -> pl.DataFrame:
    """For each memory event of the trace: op, label, module and line of what made it."""
    trace = work.trace
    lane, moment = trace.memory["lane"].to_numpy().astype(np.int64), trace.memory["start_ns"].to_numpy()
    inner = innermost_at(trace, lane, moment)
    op = climb(inner, trace.ints("parent"), trace.ints("kind") == CODE["op"])
    marks = marks_of_phases(work)
    nearest = climb(inner, trace.ints("parent"), marks >= 0)
    names = [LABELS.get(phase, FORWARD) for phase in MEANINGS]
    phases = np.where(nearest >= 0, marks[np.maximum(nearest, 0)], len(names))
    label = pl.Series([*names, FORWARD], dtype=pl.String).gather(np.where(inner >= 0, phases, len(names)))
    layers = modules_around(work, inner)
    lines = lines_around(work, inner)
    in_cache = np.array([CACHE_FILE.match(text) is not None for text in lines.texts], bool)[lines.codes]
    known = pl.when(pl.Series(in_cache)).then(pl.lit(CACHE)).when(pl.Series(inner) >= 0).then(label)
    return pl.DataFrame({
        "op": trace.names_at(op),
        "label": pl.select(known.otherwise(pl.lit(""))).to_series(),
        "module": layers.replace({path: pattern_of(path) for path in layers.unique()}),
        "layer": layers,
        "line": lines.text(lines.codes),
    })  # fmt: skip


def _own_places(work: Workspace, device: DeviceHistory) -> pl.DataFrame | None:
    """Where the history is the trace's own."""
    rows = profiled.event_rows(work.trace, device.device)
    begin, end = (device.held[name].to_numpy() for name in ("begin", "end"))
    return _of_rows(work, _row_of(rows, begin), _row_of(rows, end))


def _row_of(rows: Ints, events: Ints) -> Ints:
    known = (events >= 0) & (events < len(rows))
    return np.where(known, rows[np.where(known, events, 0)], -1) if len(rows) else np.full(len(events), -1)


def _joined_places(work: Workspace, device: DeviceHistory) -> pl.DataFrame | None:
    """Where the history is a snapshot's: an event of the trace with the same address, at nearly the same time."""
    memory = work.trace.memory.with_row_index("row")
    memory = memory.filter((pl.col("device") == device.device) & (pl.col("address") >= 0))
    if not len(memory):
        return None
    rows = [
        _nearest(memory.filter(sign * pl.col("bytes") > 0), device, column)
        for column, sign in (("begin", 1), ("end", -1))
    ]
    return _of_rows(work, *rows)


def _nearest(events: pl.DataFrame, device: DeviceHistory, column: str) -> Ints:
    """The row of the event of the trace that each begin or end is, -1 for none."""
    numbers = device.held[column].to_numpy()
    known = (numbers >= 0) & (numbers < len(device.times_ns))
    times = device.times_ns[np.where(known, numbers, 0)] if len(device.times_ns) else np.zeros(len(numbers), np.int64)
    asked = pl.DataFrame({
        "asked": np.arange(len(numbers)), "address": device.held["address"], "start_ns": times, "known": known,
    })  # fmt: skip
    found = (
        asked.filter("known")
        .sort("start_ns")
        .join_asof(
            events.select("row", "address", "start_ns").sort("start_ns"),
            on="start_ns",
            by="address",
            strategy="nearest",
            tolerance=NEAR_NS,
            check_sortedness=False,
        )
    )
    rows = np.full(len(numbers), -1, np.int64)
    rows[found["asked"].to_numpy()] = found["row"].cast(pl.Int64).fill_null(-1).to_numpy()
    return rows


def _of_rows(work: Workspace, begin: Ints, end: Ints) -> pl.DataFrame:
    nothing = pl.DataFrame({name: [""] for name in PLACE})
    places = pl.concat([_places(work), nothing])
    last = len(places) - 1
    made, ended = (places[np.where(rows >= 0, rows, last)] for rows in (begin, end))
    # A free in the forward pass says nothing of what was freed.
    return made.with_columns(ended["label"].replace(FORWARD, "").alias("end_label")).select(TRACED)
