"""Launches of Triton kernels that a program made itself, as its capture described them, and which GPU events they are.

The capture counts launches on the host in the order in which they were made; the trace has the GPU's events with the
calls that launched them. Of each kernel's name the two orders are the same, which the grids confirm. Where they differ,
name, grid and number of threads decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import polars as pl

from warplens.model.kinds import CODE
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.shared.typed_json import decode_typed

WARP_THREADS: Final = 32
NUMBER: Final = re.compile(r"\d{1,12}")
MOST_VARIANTS: Final = 8
"""Of one kernel, one grid and the same tensors: where launches differ in more values, of a seed or a counter, one of
them stands for all."""


class LaunchArgument(msgspec.Struct, frozen=True):
    """One argument of a launch; `kind` decides which of the others are there."""

    kind: str
    value: int | float | bool | str | None = None
    shape: list[int] = []
    stride: list[int] = []
    dtype: str = ""
    storage: int = 0
    offset: int = 0
    bytes: int = 0
    device: str = "cuda"
    low: int | None = None
    high: int | None = None
    rising: bool = False
    items: list[LaunchArgument] = []


class TunedConfig(msgspec.Struct, frozen=True):
    """A config that autotune timed, `key` being the arguments that it was tuned for."""

    key: str = ""
    config: str = ""
    ms: float | None = None
    chosen: bool = False


class LaunchedKernel(msgspec.Struct, frozen=True):
    """A compiled kernel: `function` is what its source calls it, `name` what the GPU does."""

    name: str
    function: str
    parameters: list[str] = []
    options: dict[str, int | bool | str] = {}
    source: str = ""
    reason: str = ""
    """Why the source is missing."""
    ttir: str = ""
    tuned: list[TunedConfig] = []


class Launch(msgspec.Struct, frozen=True):
    kernel: int
    grid: list[int]
    arguments: list[LaunchArgument] = []

    @property
    def sides(self) -> tuple[int, int, int]:
        x, y, z = (*self.grid, 1, 1, 1)[:3]
        return x, y, z


class Launches(msgspec.Struct, frozen=True):
    """`order` has the launches of the trace, each by its place in `launches`, -1 for one that is not described."""

    kernels: list[LaunchedKernel] = []
    launches: list[Launch] = []
    order: list[int] = []

    def kernel_of(self, launch: int) -> LaunchedKernel:
        return self.kernels[self.launches[launch].kernel]


class GpuEvent(msgspec.Struct, frozen=True):
    """A kernel as the trace has it."""

    id: int
    sides: tuple[int, ...]
    threads: int


def parse(text: bytes) -> Launches:
    """Raises `msgspec.DecodeError` where it is not such a file."""
    launches = decode_typed(text, Launches)
    if not all(0 <= launch.kernel < len(launches.kernels) for launch in launches.launches):
        raise msgspec.DecodeError("a launch of a kernel that is not listed")
    if not all(-1 <= number < len(launches.launches) for number in launches.order):
        raise msgspec.DecodeError("an order of launches that are not listed")
    return launches


def join(trace: Trace, launches: Launches) -> Trace:
    """The trace with `launched`: which launch each GPU event is."""
    codes = {name: code for code, name in enumerate(trace.names)}
    named = {kernel.name for kernel in launches.kernels}
    events = _events(trace, [code for name, code in codes.items() if name in named])
    made: dict[str, list[int]] = {}
    for index in launches.order:
        if index >= 0:
            made.setdefault(launches.kernel_of(index).name, []).append(index)
    rows: list[tuple[int, int, bool]] = []
    for name in dict.fromkeys(kernel.name for kernel in launches.kernels):
        if name in codes:
            rows += _matched(events.get(codes[name], []), made.get(name, []), launches)
    stand_ins = _stand_ins(launches)
    rows = [
        (row, stand_ins.get(index, index), is_certain and index not in stand_ins) for row, index, is_certain in rows
    ]
    frame = pl.DataFrame(sorted(rows), schema=SIDE_FRAMES["launched"], orient="row")
    return replace(trace, launched=frame)


def _stand_ins(launches: Launches) -> dict[int, int]:
    """For launches with too many variants, the one in the middle of them."""
    groups: dict[object, list[int]] = {}
    for index, launch in enumerate(launches.launches):
        tensors = tuple(_described(launch.arguments))
        groups.setdefault((launch.kernel, launch.sides, tensors), []).append(index)
    return {
        index: group[len(group) // 2]
        for group in groups.values()
        if len(group) > MOST_VARIANTS
        for index in group
        if index != group[len(group) // 2]
    }


def _described(arguments: Sequence[LaunchArgument]) -> Iterator[object]:
    for given in arguments:
        if given.kind == "tensor":
            yield tuple(given.shape), tuple(given.stride), given.dtype, given.storage, given.offset
        yield from _described(given.items)


def _events(trace: Trace, names: Sequence[int]) -> dict[int, list[GpuEvent]]:
    """By name, the GPU events whose launch is in the trace, in the order of launching."""
    wanted = pl.col("name").is_in(names) & (pl.col("kind") == CODE["kernel"]) & (pl.col("correlation") >= 0)
    calls = trace.events.filter(pl.col("kind") == CODE["runtime"]).select("correlation", launched="start_ns")
    events = trace.events.filter(wanted).join(calls.unique("correlation"), on="correlation").sort("launched", "id")
    shapes: dict[int, tuple[Any, Any]] = dict(enumerate(trace.geometries.select("grid", "block").iter_rows()))
    by_name: dict[int, list[GpuEvent]] = {}
    for name, row, geometry in events.select("name", "id", "geometry").iter_rows():
        by_name.setdefault(name, []).append(_event(row, *shapes.get(geometry, ("", ""))))
    return by_name


def _event(row: int, grid: str | None, block: str | None) -> GpuEvent:
    threads = 1
    for side in NUMBER.findall(block or ""):
        threads *= int(side)
    return GpuEvent(row, tuple(map(int, NUMBER.findall(grid or ""))), threads)


def _matched(events: Sequence[GpuEvent], made: Sequence[int], launches: Launches) -> list[tuple[int, int, bool]]:
    """Event, launch, and whether that is certain."""
    if len(events) == len(made) and all(
        event.sides == launches.launches[index].sides for event, index in zip(events, made, strict=True)
    ):
        return [(event.id, index, True) for event, index in zip(events, made, strict=True)]
    groups: dict[tuple[tuple[int, ...], int], list[GpuEvent]] = {}
    for event in events:
        groups.setdefault((event.sides, event.threads), []).append(event)
    with_grid: dict[tuple[int, ...], list[int]] = {}
    for index in made:
        with_grid.setdefault(launches.launches[index].sides, []).append(index)
    return [
        row
        for (sides, threads), group in groups.items()
        for row in _by_grid(group, _alike(with_grid.get(sides, []), launches, threads))
    ]


def _alike(with_grid: list[int], launches: Launches, threads: int) -> list[int]:
    """Of the launches with one grid those with that many threads, where any has."""
    with_threads = [
        index for index in with_grid if launches.kernel_of(index).options.get("num_warps") == threads // WARP_THREADS
    ]
    return with_threads or with_grid


def _by_grid(events: Sequence[GpuEvent], made: Sequence[int]) -> list[tuple[int, int, bool]]:
    counts = Counter(made)
    if not counts:
        return []
    if len(events) == len(made):
        return [(event.id, index, True) for event, index in zip(events, made, strict=True)]
    [(usual, _)] = counts.most_common(1)
    return [(event.id, usual, len(counts) == 1) for event in events]
