"""`timeline`: how each GPU spent its time (docs/concepts/numbers.md defines the measures)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.arrays import places_by_value
from warplens.model.intervals import Union, clip, length, subtract, union
from warplens.model.kinds import CODE, NESTED
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints
from warplens_run.base.units import format_ns

ALL_DEVICES = "all"
LONG_BEFORE = 0.05
"""Of the GPU's time: what the host does before its first launch is then named."""
NO_ROWS = np.zeros(0, np.int64)
MEANINGS = {
    "computation": "union of everything but communication and copies (memsets count as computation)",
    "communication": "union of kernels of the category Communication",
    "memcpy": "union of memory copies recorded as such",
    "exposed_communication": "communication while no computation runs",
    "exposed_memcpy": "copies while neither computation nor communication runs",
    "busy": "union of all GPU work",
    "idle": "total minus busy",
    "total": "from the first start of GPU work to its last end",
}
COLUMNS = (
    Column("device", "GPU number, or 'all': any GPU of the trace", "", pl.String),
    Column("measure", "what the time was spent on; `warplens explain timeline` defines each", "", pl.String),
    Column("time_ms", "length of the union of the intervals", "ms", pl.Float64),
    Column("percent", "share of total", "%", pl.Float64),
)


class DeviceWork(NamedTuple):
    """A device's work as three unions of intervals."""

    computation: Union
    communication: Union
    memcpy: Union


def timeline(work: Workspace) -> Table:
    frame = work.gpu
    devices = sorted(frame["device"].unique().to_list())
    rows: list[tuple[str, str, float, float]] = []
    measured = {str(device): measure(device_work(work, device)) for device in devices}
    if devices:
        measured[ALL_DEVICES] = next(iter(measured.values())) if len(devices) == 1 else measure(device_work(work, None))
    for device, measures in measured.items():
        whole = max(1, measures["total"])
        rows += [(device, name, measures[name] / 1e6, 100 * measures[name] / whole) for name in MEANINGS]
    return Table.from_rows("timeline", "one row per GPU and measure", COLUMNS, rows, *_before_first_launch(work))


def _before_first_launch(work: Workspace) -> tuple[str, ...]:
    """What the host does before the first launch is in no measure; of traces with steps the table `steps` has it."""
    launch, start = work.gpu["launch"].to_numpy(), work.trace.ints("start_ns")
    launch = launch[launch >= 0]
    on_host = work.trace.rows_of(*NESTED)
    if work.trace.steps.height or not len(launch) or not len(on_host):
        return ()
    before_ns = int(start[launch].min() - start[on_host].min())
    if before_ns < LONG_BEFORE * measure(device_work(work, None))["total"]:
        return ()
    return (f"the host works for {format_ns(before_ns)} before the first launch, which is in no measure",)


@shared
def device_work(work: Workspace, device: int | None) -> DeviceWork:
    """The work of one GPU, or of all of them for None."""
    columns = _shared_columns(work)
    return _split(columns if device is None else columns.chosen(_device_rows(work).get(device, NO_ROWS)))


def split_work(frame: pl.DataFrame, chosen: Bools) -> DeviceWork:
    """The chosen GPU events as computation, communication and copies."""
    return _split(_columns(frame).chosen(chosen))


class _Columns(NamedTuple):
    start_ns: Ints
    duration_ns: Ints
    is_comm: Bools
    is_copy: Bools

    def chosen(self, rows: Ints | Bools) -> _Columns:
        return _Columns(self.start_ns[rows], self.duration_ns[rows], self.is_comm[rows], self.is_copy[rows])


def _columns(frame: pl.DataFrame) -> _Columns:
    start, duration = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    is_copy = (frame["kind"] == CODE["memcpy"]).to_numpy()
    return _Columns(start, duration, (frame["kernel_category"] == COMMUNICATION).to_numpy() & ~is_copy, is_copy)


@shared
def _shared_columns(work: Workspace) -> _Columns:
    return _columns(work.gpu)


@shared
def _device_rows(work: Workspace) -> dict[int, Ints]:
    return places_by_value(work.gpu["device"].to_numpy().astype(np.int64))


def _split(work: _Columns) -> DeviceWork:
    start, duration, comm, copy = work
    return DeviceWork(*(_union(start, duration, part) for part in (~comm & ~copy, comm, copy)))


def measure(work: DeviceWork, window: tuple[int, int] | None = None) -> dict[str, int]:
    """The measures in ns, within a window or from the first start to the last end."""
    if window is not None:
        work = DeviceWork(*(clip(part, *window) for part in work))
    everything = union(np.concatenate([part.starts for part in work]), np.concatenate([part.ends for part in work]))
    if window is None:
        window = (int(everything.starts[0]), int(everything.ends[-1])) if len(everything.starts) else (0, 0)
    not_computing = subtract(work.memcpy, work.computation)
    measures = {
        "computation": length(work.computation),
        "communication": length(work.communication),
        "memcpy": length(work.memcpy),
        "exposed_communication": length(subtract(work.communication, work.computation)),
        "exposed_memcpy": length(subtract(not_computing, work.communication)),
        "busy": length(everything),
        "total": window[1] - window[0],
    }
    measures["idle"] = measures["total"] - measures["busy"]
    return measures


def _union(start: Ints, duration: Ints, chosen: Bools) -> Union:
    return union(start[chosen], start[chosen] + duration[chosen])
