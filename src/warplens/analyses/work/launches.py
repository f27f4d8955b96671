"""`launches`: how each kernel was laid out on the GPU, and how much of the GPU that leaves unused.

A GPU runs a kernel's blocks in waves of as many as fit at once. A grid a little over a whole number of waves leaves
most of the GPU idle during the last one; a grid below one wave per multiprocessor never fills it.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.roofline.costing import grid_blocks
from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import PERCENT, STEP_TIME
from warplens.analyses.work.places import places_of
from warplens.analyses.workspace import Workspace, percent_of, rows_of_groups
from warplens.model.intervals import covered_once, covered_until
from warplens.model.kinds import CODE, NONE
from warplens.model.table import Column, Table, frame_of_rows
from warplens.model.trace import Device, Ints
from warplens_run.base import bounded

MAX_BLOCKS: Final = 32
"""Blocks a multiprocessor can hold at most on the GPUs of the last ten years; some hold fewer."""
REGISTER_STEP: Final = 8
"""Registers are given out to a thread in eights."""
ROOM: Final = {
    # architecture: threads, registers and bytes of shared memory of a multiprocessor (CUDA C++ Programming Guide,
    # "Technical Specifications per Compute Capability"), for profiles that name their GPU without describing it
    "sm_70": (2048, 65536, 96 * 1024),
    "sm_75": (1024, 65536, 64 * 1024),
    "sm_80": (2048, 65536, 164 * 1024),
    "sm_86": (1536, 65536, 100 * 1024),
    "sm_89": (1536, 65536, 100 * 1024),
    "sm_90": (2048, 65536, 228 * 1024),
    "sm_100": (2048, 65536, 228 * 1024),
    "sm_120": (1536, 65536, 100 * 1024),
}
COLUMNS = (
    Column("kernel_short", "readable short form of the kernel's name", "", pl.String),
    Column("kernel_category", "what the kernel does, derived from its name", "", pl.String),
    Column("op", "innermost framework op around the launch", "", pl.String),
    Column("grid", "blocks in each dimension", "", pl.String),
    Column("block", "threads per block in each dimension", "", pl.String),
    Column("count", "launches", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("mean_us", "mean duration", "us", pl.Float64),
    Column("blocks", "total blocks", "", pl.Int64),
    Column("registers", "registers per thread", "", pl.Int64),
    Column("shared_bytes", "shared memory per block", "bytes", pl.Int64),
    Column("blocks_per_multiprocessor", "blocks that fit on one multiprocessor at once", "", pl.Int64),
    Column("limited_by", "what limits that: threads, registers, shared memory or blocks", "", pl.String),
    Column("occupancy_percent", "threads that fit, as a share of what a multiprocessor can hold", "%", pl.Float64),
    Column("waves", "blocks divided by the blocks that fit on the GPU at once", "", pl.Float64),
    Column(
        "unused_percent",
        "idle share of the multiprocessors' time, assuming that all blocks take equally long",
        "%",
        pl.Float64,
    ),
    PERCENT,
    Column("line", "Python line with most of the time", "", pl.String),
    STEP_TIME,
    Column("alone_us", "time of these kernels during which nothing else ran on their GPU", "us", pl.Float64),
)  # fmt: skip


class BlocksThatFit(msgspec.Struct, frozen=True):
    """How many blocks a multiprocessor holds, and why not more."""

    blocks: int
    limited_by: str
    occupancy_percent: float


def blocks_that_fit(device: Device, threads: int, registers: int, shared_bytes: int) -> BlocksThatFit | None:
    """None where the trace does not describe the GPU or the block.

    >>> gpu = Device(0, multiprocessors=132, threads_per_multiprocessor=2048, registers_per_multiprocessor=65536,
    ...              shared_bytes_per_multiprocessor=233472)
    >>> blocks_that_fit(gpu, threads=256, registers=96, shared_bytes=0)
    BlocksThatFit(blocks=2, limited_by='registers', occupancy_percent=25.0)
    """
    room = device.threads_per_multiprocessor
    if not room or threads <= 0:
        return None
    limits = {"threads": room // threads, "blocks": MAX_BLOCKS}
    if registers > 0 and device.registers_per_multiprocessor:
        given = math.ceil(registers / REGISTER_STEP) * REGISTER_STEP
        limits["registers"] = device.registers_per_multiprocessor // (given * threads)
    if shared_bytes > 0 and device.shared_bytes_per_multiprocessor:
        limits["shared memory"] = device.shared_bytes_per_multiprocessor // shared_bytes
    limited_by = min(limits, key=lambda name: limits[name])
    fitting = max(1, limits[limited_by])
    return BlocksThatFit(fitting, limited_by, min(100.0, 100 * fitting * threads / room))


def unused_percent(blocks: int, slots: int, multiprocessors: int) -> float:
    """Share of the multiprocessors' time without a block, if all blocks take equally long.

    >>> round(unused_percent(133, slots=132, multiprocessors=132), 1)
    49.6
    >>> unused_percent(33, slots=264, multiprocessors=132)
    75.0
    """
    if blocks <= 0 or slots <= 0 or multiprocessors <= 0:
        return 0.0
    if blocks <= slots:  # one wave: a multiprocessor with any block is at work
        return 100 * max(0.0, 1 - blocks / multiprocessors)
    waves = blocks / slots
    return 100 * (1 - waves / math.ceil(waves))


class LaunchLayout(NamedTuple):
    """The geometry of a launch and how it fills the GPU; None where the trace does not say."""

    grid: str
    block: str
    blocks: int
    registers: int | None
    shared_bytes: int | None
    blocks_per_multiprocessor: int | None = None
    limited_by: str | None = None
    occupancy_percent: float | None = None
    waves: float | None = None
    unused_percent: float | None = None


LAYOUT: Final = tuple(column for column in COLUMNS if column.name in LaunchLayout._fields)


class _LaunchGroups(msgspec.Struct, frozen=True):
    """The rows of the table, and for each GPU event the row that it belongs to, -1 for none."""

    frame: pl.DataFrame
    event_rows: Ints


def launches(work: Workspace) -> Table:
    frame = _launch_groups(work).frame
    return Table.from_frame("launches", "one row per kernel, op and launch geometry", COLUMNS, frame)


def launch_rows(work: Workspace) -> Ints:
    """For each GPU event its row in the table `launches`, -1 where its grid is not recorded."""
    return _launch_groups(work).event_rows


@shared
def _launch_groups(work: Workspace) -> _LaunchGroups:
    gpu = work.gpu
    rows, group, first = _grouped(work)
    duration = gpu["dur_ns"].to_numpy()[rows]
    in_steps = np.where(gpu["step"].to_numpy()[rows] >= 0, duration, 0)
    count = np.bincount(group, minlength=len(first))
    total = np.bincount(group, weights=duration, minlength=len(first)) / 1000
    of_event = np.full(len(gpu), NONE, np.int64)
    of_event[rows] = group
    frame = (
        gpu[first]
        .select("name", "op", "geometry", "device")
        .with_columns(
            pl.Series("count", count),
            pl.Series("total_us", total),
            pl.Series("mean_us", total / np.maximum(count, 1)),
            pl.Series("step_us", np.bincount(group, weights=in_steps, minlength=len(first)) / 1000),
            pl.Series("alone_us", np.bincount(group, weights=_alone_ns(work)[rows], minlength=len(first)) / 1000),
            pl.Series("line", places_of(work, of_event, len(first)).lines, dtype=pl.String),
            pl.Series("group", np.arange(len(first))),
        )
    )
    places = frame.select("geometry", "device").unique(maintain_order=True)
    layouts = frame_of_rows(LAYOUT, [_layout(work, *place) for place in places.iter_rows()])
    frame = (
        frame.join(
            pl.concat([places, layouts], how="horizontal"),
            on=["geometry", "device"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .drop("device")
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .join(work.kernel_facts, on="name", how="left", maintain_order="left")
        .sort("total_us", "kernel_short", "op", "grid", descending=[True, False, False, False])
    )
    return _LaunchGroups(frame, rows_of_groups(of_event, frame["group"].to_numpy()))


def _alone_ns(work: Workspace) -> Ints:
    """For each GPU event how long nothing else ran on its GPU while it did."""
    device, start = work.gpu["device"].to_numpy(), work.gpu["start_ns"].to_numpy()
    end = start + work.gpu["dur_ns"].to_numpy()
    alone = np.zeros(len(start), np.int64)
    for gpu in np.unique(device).tolist():
        own = np.flatnonzero(device == gpu)
        once = covered_once(start[own], end[own])
        alone[own] = covered_until(once, end[own]) - covered_until(once, start[own])
    return alone


def _grouped(work: Workspace) -> tuple[Ints, Ints, Ints]:
    """The kernels whose grid is recorded, the group of each by name, op and geometry, and each group's first one."""
    gpu, names = work.gpu, work.trace.ints("name").astype(np.int64)
    geometry, owner = gpu["geometry"].to_numpy().astype(np.int64), gpu["owner"].to_numpy()
    rows = np.flatnonzero((gpu["kind"].to_numpy() == CODE["kernel"]) & (geometry >= 0))
    op = np.where(owner >= 0, names[np.maximum(owner, 0)], NONE)[rows]
    kernel = gpu["name"].to_numpy().astype(np.int64)[rows]
    key = (kernel * (len(work.trace.names) + 1) + op + 1) * (len(work.trace.geometries) + 1) + geometry[rows]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return rows, group, rows[first]


def _layout(work: Workspace, geometry: int, device_id: int) -> LaunchLayout:
    grid, block, registers, shared_bytes, _ = work.trace.geometries.row(geometry)
    blocks, threads = int(grid_blocks(work)[geometry]), _threads(block)
    device = _device(work, device_id, registers)
    layout = LaunchLayout(
        grid, block, blocks, registers if registers >= 0 else None, shared_bytes if shared_bytes >= 0 else None
    )
    fit = blocks_that_fit(device, threads, registers, shared_bytes) if device is not None else None
    if device is None or fit is None or not device.multiprocessors:
        return layout
    slots = fit.blocks * device.multiprocessors
    return layout._replace(
        blocks_per_multiprocessor=fit.blocks,
        limited_by=fit.limited_by,
        occupancy_percent=fit.occupancy_percent,
        waves=round(blocks / slots, 6),
        unused_percent=unused_percent(blocks, slots, device.multiprocessors),
    )


def _device(work: Workspace, number: int, registers: int) -> Device | None:
    """The GPU as the trace describes it, else as its architecture is; that takes a kernel whose registers are known."""
    device = next((device for device in work.trace.meta.devices if device.id == number), None)
    gpu = work.hardware
    if (device and device.threads_per_multiprocessor) or gpu is None or registers < 0 or gpu.architecture not in ROOM:
        return device
    threads, of_threads, shared_bytes = ROOM[gpu.architecture]
    return Device(
        number,
        multiprocessors=(device.multiprocessors if device else 0) or gpu.multiprocessors,
        threads_per_multiprocessor=threads,
        registers_per_multiprocessor=of_threads,
        shared_bytes_per_multiprocessor=shared_bytes,
    )


MOST_SIDE: Final = 99_999
"""Of a block, in threads."""


def _threads(block: str) -> int:
    threads = 1
    parts = [part.strip() for part in block.strip("[]() \n").split(",")]
    for part in parts:
        threads *= bounded.whole(part, 0, 0, MOST_SIDE)
    return threads
