"""`steps`: the timeline of each step.

On the GPU a step lasts from its first kernel to the next step's first kernel (the last one to its last end), so
that the steps cover the GPU's time without gap or overlap; work of the step before that reaches into the window
counts for the window.
"""

from __future__ import annotations

import polars as pl

from warplens.analyses.time.timeline import DeviceWork, device_work, measure
from warplens.analyses.workspace import Workspace
from warplens.model.table import Column, Table

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
)


def steps(work: Workspace) -> Table:
    marks = work.trace.steps
    frame = work.gpu
    first = _first_kernels(work)
    everything = device_work(work, None if frame["device"].n_unique() > 1 else frame["device"].first())  # type: ignore[arg-type]
    last_end = int((frame["start_ns"] + frame["dur_ns"]).max() or 0) if len(frame) else 0
    launched = {row[0]: row[1:] for row in _launched(frame).iter_rows()}
    rows: list[dict[str, object]] = []
    for number, name, start, end in marks.iter_rows():
        begin = first.get(number)
        window = None if begin is None else (begin, _window_end(first, begin, last_end))
        count, kernel_ns = launched.get(number, (0, 0))
        host = {"step": number, "name": name, "start_ms": start / 1e6, "host_ms": (end - start) / 1e6}
        rows.append({**host, **_gpu_part(everything, window), "count": count, "kernel_us": kernel_ns / 1000})
    return Table.from_rows("steps", "one row per step", COLUMNS, rows, *_notes(work))


def _first_kernels(work: Workspace) -> dict[int, int]:
    frame = work.gpu.filter(pl.col("step") >= 0).group_by("step").agg(pl.col("start_ns").min())
    return dict(frame.iter_rows())


def _launched(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by("step").agg(pl.len(), pl.col("dur_ns").sum())


def _window_end(first: dict[int, int], begin: int, last_end: int) -> int:
    return min((start for start in first.values() if start > begin), default=last_end)


def _gpu_part(everything: DeviceWork, window: tuple[int, int] | None) -> dict[str, float]:
    measures = measure(everything, window or (0, 0))
    part = {f"{name}_ms": measures[name] / 1e6 for name in SHOWN}
    busy = 100 * measures["busy"] / measures["total"] if measures["total"] else 0.0
    return {"gpu_ms": measures["total"] / 1e6, **part, "busy_percent": busy}


def _notes(work: Workspace) -> tuple[str, ...]:
    wanted = ("no_steps", "steps_guessed", "no_step_annotations", "no_step_ranges", "no_step_marks")
    return tuple(note.message for note in work.trace.quality.notes if note.code in wanted)
