"""`steps`: the timeline of each step.

On the GPU a step lasts from its first kernel to the next step's first kernel, so that the steps cover the GPU's time
without gap or overlap; work of the step before that reaches into the window counts for the window. The last step has
no successor: it ends with its own last work, less what the other steps' work reaches past their cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.time.timeline import DeviceWork, device_work, measure, split_work
from warplens.analyses.workspace import Workspace
from warplens.model.table import Column, Table
from warplens_run.base.units import format_ms

SHOWN = ("busy", "idle", "computation", "exposed_communication", "exposed_memcpy")
COLUMNS = (
    Column("step", "number of the step", "", pl.Int64),
    Column("name", "name of the annotation that marks it", "", pl.String),
    Column("start_ms", "start on the host, since the trace's start", "ms", pl.Float64),
    Column("host_ms", "length on the host", "ms", pl.Float64),
    Column("gpu_ms", "length on the GPU: from its first kernel to the next step's first", "ms", pl.Float64),
    Column("busy_ms", "GPU busy within that", "ms", pl.Float64),
    Column("idle_ms", "GPU idle within that", "ms", pl.Float64),
    Column("computation_ms", "union of computation within that", "ms", pl.Float64),
    Column("exposed_communication_ms", "communication not overlapped by computation", "ms", pl.Float64),
    Column("exposed_memcpy_ms", "copies not overlapped by computation or communication", "ms", pl.Float64),
    Column("busy_percent", "busy share of gpu_ms", "%", pl.Float64),
    Column("count", "GPU events launched by the step", "", pl.Int64),
    Column("kernel_us", "summed duration of the GPU events launched by the step", "us", pl.Float64),
    Column("before_launch_ms", "the host's time from the step's start to its first launch", "ms", pl.Float64),
)
LONG_BEFORE: Final = 0.05
"""Of a step: what the host does before the first launch of all is then named, as no table of the GPU has it."""


class StepWork(NamedTuple):
    """The GPU events that a step launched: when the first starts and the last ends, how many, and their durations."""

    start_ns: int
    end_ns: int
    events: int
    kernel_ns: int


Window = tuple[int, int]


def steps(work: Workspace) -> Table:
    frame = work.gpu
    launched = launched_by_step(frame)
    windows = step_windows(launched)
    last = max(windows, key=lambda step: windows[step], default=None)
    everything = device_work(work, None if frame["device"].n_unique() > 1 else frame["device"].first())  # type: ignore[arg-type]
    first_launch = _first_launches(work)
    rows: list[dict[str, object]] = []
    for number, name, start, end in work.trace.steps.iter_rows():
        window = windows.get(number)
        running = _without_later_launches(work, everything, end, window) if window and number == last else everything
        count, kernel_ns = launched[number][2:] if window else (0, 0)
        host = {"step": number, "name": name, "start_ms": start / 1e6, "host_ms": (end - start) / 1e6}
        before = (first_launch[number] - start) / 1e6 if number in first_launch else None
        sums = {"count": count, "kernel_us": kernel_ns / 1000, "before_launch_ms": before}
        rows.append({**host, **_gpu_part(running, window), **sums})
    return Table.from_rows("steps", "one row per step", COLUMNS, rows, *_notes(work), *_long_before(rows))


def launched_by_step(frame: pl.DataFrame) -> dict[int, StepWork]:
    start, duration = pl.col("start_ns"), pl.col("dur_ns")
    sums = (start.min(), (start + duration).max().alias("end_ns"), pl.len(), duration.sum())
    rows = frame.filter(pl.col("step") >= 0).group_by("step").agg(*sums)
    return {row[0]: StepWork(*row[1:]) for row in rows.iter_rows()}


def _first_launches(work: Workspace) -> dict[int, int]:
    """When each step makes the first launch whose GPU work is on record."""
    frame = work.gpu.select("step", "launch").filter((pl.col("step") >= 0) & (pl.col("launch") >= 0))
    begun = pl.Series("begun", work.trace.ints("start_ns")[frame["launch"].to_numpy()])
    rows = frame.with_columns(begun).group_by("step").agg(pl.col("begun").min())
    return {int(step): int(begun) for step, begun in rows.iter_rows()}


def _long_before(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of the first step: that of later ones is idle time of the GPU in the step before."""
    first = next((row for row in rows if row["before_launch_ms"] is not None), None)
    if first is None or first["before_launch_ms"] < LONG_BEFORE * first["host_ms"]:
        return ()
    before = format_ms(first["before_launch_ms"])
    return (
        f"{before} of step {first['step']} pass on the host before its first launch: in no table of the GPU's time",
    )


def step_windows(launched: dict[int, StepWork]) -> dict[int, Window]:
    """From each step's first kernel to the next one's; the last is cut as far before its end as the others are.

    Work that overlaps the next step (a copy or a collective on another stream) lies past the cut of every step but the
    last. Two cuts have to agree on it: of two steps the last keeps all its work.
    """
    if not launched:
        return {}
    begins = sorted({step.start_ns for step in launched.values()})
    next_begin = dict(pairwise(begins))
    past_cut = [step.end_ns - next_begin[step.start_ns] for step in launched.values() if step.start_ns in next_begin]
    overlap_ns = max(0, int(np.median(past_cut))) if len(past_cut) > 1 else 0
    last_end = max(step.end_ns for step in launched.values() if step.start_ns == begins[-1])
    cut = last_end - overlap_ns
    next_begin[begins[-1]] = cut if cut > begins[-1] else last_end
    return {number: (step.start_ns, next_begin[step.start_ns]) for number, step in launched.items()}


def _without_later_launches(work: Workspace, everything: DeviceWork, mark_end: int, window: Window) -> DeviceWork:
    """Nothing launched after the last mark counts for the last step, such as an evaluation on another stream."""
    frame = work.gpu
    cause = pl.when(pl.col("launch") >= 0).then("launch").otherwise("op_row").alias("cause")
    outside = frame.select("id", "step", "start_ns", cause).filter(
        (pl.col("step") < 0) & (pl.col("cause") >= 0) & (pl.col("start_ns") < window[1])
    )
    launched_at = work.trace.ints("start_ns")[outside["cause"].to_numpy()]
    later = outside["id"].filter(pl.Series(launched_at >= mark_end, dtype=pl.Boolean))
    return split_work(frame, (~frame["id"].is_in(later.implode())).to_numpy()) if len(later) else everything


def _gpu_part(everything: DeviceWork, window: Window | None) -> dict[str, float]:
    measures = measure(everything, window or (0, 0))
    part = {f"{name}_ms": measures[name] / 1e6 for name in SHOWN}
    busy = 100 * measures["busy"] / measures["total"] if measures["total"] else 0.0
    return {"gpu_ms": measures["total"] / 1e6, **part, "busy_percent": busy}


def _notes(work: Workspace) -> tuple[str, ...]:
    wanted = ("no_steps", "steps_guessed", "no_step_annotations", "no_step_ranges", "no_step_marks")
    return tuple(note.message for note in work.trace.quality.notes if note.code in wanted)
