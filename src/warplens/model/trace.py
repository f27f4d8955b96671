"""`Trace`: one profile, frozen and columnar.

`events` holds every timed event of the file, one row each. Rows are sorted: host threads first, then GPU
streams, each by start and, for equal starts, outermost first; a row's number is the event's `id`. Integer
columns use -1 for "absent". Columns:

id, kind (code: place in `KINDS`), name (row of `names`), start_ns (since the first event), dur_ns, lane (row of
`lanes`: a host thread or GPU stream), device, stream, correlation, external_id, sequence, forward_thread, spec (row
of `specs`), geometry (row of `geometries`), and, filled in by the passes: parent, depth, step, launch (GPU event →
host call), op (→ innermost op), forward (backward op → the forward op that made it).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.arrays import numbered
from warplens.model.kinds import CODE, GPU_WORK, KINDS, NONE
from warplens.model.quality import Note, Quality
from warplens_run.base import bounded
from warplens_run.base.units import plural

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EVENT_COLUMNS: dict[str, Any] = {
    "id": pl.UInt32,
    "kind": pl.UInt8,
    "name": pl.UInt32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "lane": pl.Int32,
    "device": pl.Int32,
    "stream": pl.Int64,
    "correlation": pl.Int64,
    "external_id": pl.Int64,
    "sequence": pl.Int64,
    "forward_thread": pl.Int64,
    "spec": pl.Int32,
    "geometry": pl.Int32,
    "parent": pl.Int32,
    "depth": pl.Int32,
    "step": pl.Int32,
    "launch": pl.Int32,
    "op": pl.Int32,
    "forward": pl.Int32,
}

ARRAY_TYPES: dict[Any, npt.DTypeLike] = {
    pl.UInt8: np.uint8, pl.UInt32: np.uint32, pl.Int32: np.int32, pl.Int64: np.int64,
}  # fmt: skip

SIDE_FRAMES: dict[str, dict[str, Any]] = {
    "lanes": {"process": pl.String, "thread": pl.String, "process_name": pl.String, "thread_name": pl.String},
    "specs": {
        "input_dims": pl.String,
        "input_types": pl.String,
        "input_strides": pl.String,
        "concrete_inputs": pl.String,
    },
    "geometries": {
        "grid": pl.String,
        "block": pl.String,
        "registers": pl.Int64,
        "shared_memory_bytes": pl.Int64,
        "occupancy_percent": pl.Float64,
    },
    "copies": {"id": pl.UInt32, "bytes": pl.Int64},
    # Synchronisations whose event says what they wait for: a stream of their device, up to the call with this
    # correlation, which recorded a CUDA event in it (-1: not recorded).
    "waits": {"id": pl.UInt32, "stream": pl.Int64, "record": pl.Int64},
    "collectives": {
        "id": pl.UInt32,
        "collective": pl.String,
        "dtype": pl.String,
        "in_elements": pl.Int64,
        "out_elements": pl.Int64,
        "group_size": pl.Int64,
        "group": pl.String,
        "ranks": pl.String,
        # The number of the call within its group, where it is recorded; the other rank of a send or receive; the
        # elements that go to and come from each rank, as a list in JSON; the group, as the program describes it.
        "seq": pl.Int64,
        "peer": pl.Int64,
        "in_splits": pl.String,
        "out_splits": pl.String,
        "description": pl.String,
    },
    "memory": {
        "start_ns": pl.Int64,
        "lane": pl.Int32,
        "device": pl.String,
        "bytes": pl.Int64,
        "allocated_bytes": pl.Int64,
        "reserved_bytes": pl.Int64,
        "address": pl.Int64,
    },
    "flows": {"source": pl.Int32, "target": pl.Int32},
    "steps": {"step": pl.Int32, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
    # Callers that the profiler named without saying when they ran: events of no duration on a lane of their own.
    # `parent` is the event around each (-1: none), another such frame or a host event.
    "frames": {"id": pl.UInt32, "parent": pl.Int64},
    # GPU event → its innermost frame.
    "contexts": {"id": pl.UInt32, "frame": pl.Int64},
    # What users say of their scopes (flops, bytes, tokens …), and hardware counters of ranges: annotation or counter →
    # value.
    "metrics": {"id": pl.UInt32, "metric": pl.String, "value": pl.Float64},
    # What an ExecutionTrace knows of an op's call beyond its shapes; lists as JSON.
    "arguments": {
        "id": pl.UInt32,
        "node": pl.Int64,
        "schema": pl.String,
        "inputs": pl.String,
        "input_shapes": pl.String,
        "input_types": pl.String,
        "input_strides": pl.String,
        "outputs": pl.String,
        "output_shapes": pl.String,
        "output_types": pl.String,
        "kernel_file": pl.String,
        "tensor_range": pl.String,
    },
    # Kernels that the program launched itself: GPU event → the capture's record of that launch, and whether it is
    # known to be this one or only one with the same name and grid.
    "launched": {"id": pl.UInt32, "record": pl.Int32, "is_certain": pl.Boolean},
    # Launches of GPU graphs: which capture each replays, and why its GPU events are not, or not wholly, joined with it.
    # Launches that run the same events have one `graph` number.
    "graph_launches": {
        "id": pl.UInt32,
        "graph": pl.Int32,
        "captured_as": pl.String,
        "capture_file": pl.String,
        "events": pl.Int64,
        "joined": pl.Int64,
        "gpu_ns": pl.Int64,
        "joined_ns": pl.Int64,
        "why": pl.String,
    },
    # Readings of a GPU over time (power, clocks …), sampled beside the profile, also before its first event; `limit` is
    # what a reading cannot exceed, where that is known.
    "counters": {
        "counter": pl.String,
        "unit": pl.String,
        "device": pl.Int32,
        "start_ns": pl.Int64,
        "value": pl.Float64,
        "limit": pl.Float64,
    },
    # Steps that ran without the profiler, before or after the recorded ones, while counters were sampled.
    "plain_windows": {"position": pl.String, "steps": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
}


MOST_CHARACTERS: Final = 1000
"""Of what a file says of the run: it is printed."""


class _Header(msgspec.Struct, frozen=True):
    """What a file says of the run: whichever reader made it, its texts and numbers are bounded."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if (fit := _bounded(value)) is not value:
                msgspec.structs.force_setattr(self, name, fit)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return bounded.text(value, MOST_CHARACTERS)
    if type(value) is int:
        return bounded.whole(value)
    if isinstance(value, float):
        return bounded.number(value)
    if isinstance(value, dict):
        return {bounded.text(name, MOST_CHARACTERS): _bounded(part) for name, part in value.items()}
    return value


class Device(_Header, frozen=True):
    """A GPU as the trace's own header describes it."""

    id: int
    name: str = ""
    memory_bytes: int = 0
    multiprocessors: int = 0
    compute: str = ""
    threads_per_multiprocessor: int = 0
    registers_per_multiprocessor: int = 0
    shared_bytes_per_multiprocessor: int = 0
    warp_size: int = 0
    clock_khz: int = 0
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0


class ProcessGroup(_Header, frozen=True):
    """Ranks that communicate with each other. Names are numbers that programs use again; the ranks tell them apart."""

    name: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()


MOST_RANKS: Final = 1 << 20
"""Of a job: what a file says beyond it is damage."""


class Distributed(_Header, frozen=True):
    """Which rank of which job this trace is."""

    backend: str = ""
    rank: int = 0
    world_size: int = 0
    """0 where it is not recorded."""
    groups: tuple[ProcessGroup, ...] = ()
    """Those that this rank belongs to."""


class Meta(_Header, frozen=True):
    """Facts about the file and the run that made it."""

    source: str
    format: str
    size_bytes: int = 0
    content_hash: str = ""
    devices: tuple[Device, ...] = ()
    distributed: Distributed | None = None
    facts: dict[str, str] = {}
    events_in_file: int = 0
    phases: dict[str, int] = {}
    plain_step_ns: float | None = None
    """Mean time of a step without the profiler, where the capture timed some."""
    origin_ns: int = 0
    """The moment that all times count from, in ns of the host's own clock (since 1970 where the file says so)."""


@dataclass(frozen=True)
class Trace:
    """See the module's text for the columns of `events`."""

    meta: Meta
    names: list[str]
    events: pl.DataFrame
    lanes: pl.DataFrame
    specs: pl.DataFrame
    geometries: pl.DataFrame
    copies: pl.DataFrame
    waits: pl.DataFrame
    collectives: pl.DataFrame
    memory: pl.DataFrame
    flows: pl.DataFrame
    steps: pl.DataFrame
    frames: pl.DataFrame
    contexts: pl.DataFrame
    metrics: pl.DataFrame
    arguments: pl.DataFrame
    launched: pl.DataFrame
    graph_launches: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SIDE_FRAMES["graph_launches"]))
    counters: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SIDE_FRAMES["counters"]))
    plain_windows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SIDE_FRAMES["plain_windows"]))
    quality: Quality = field(default_factory=Quality)

    def __len__(self) -> int:
        return self.events.height

    def __repr__(self) -> str:
        """One line: the source and how much there is."""
        counts = f"{plural(len(self), 'event')}, {plural(self.steps.height, 'step')}"
        return f"<Trace {PurePath(self.meta.source).name}: {counts}>"

    def ints(self, column: str) -> Any:
        """A column of `events` as a numpy array, which cannot be written to."""
        arrays = self._arrays
        if column not in arrays:  # Polars takes 20 µs each time, and columns are asked for hundreds of times
            arrays[column] = self.events[column].to_numpy()
            arrays[column].flags.writeable = False
        return arrays[column]

    @cached_property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    @cached_property
    def host_names(self) -> Ints:
        """The codes of names that anything but GPU work has: a trace may have a million names of kernels."""
        on_host = np.ones(len(self), bool)
        on_host[self.gpu_rows] = False
        return np.flatnonzero(np.bincount(self.ints("name")[on_host], minlength=len(self.names)))

    @cached_property
    def gpu_rows(self) -> Ints:
        """Row numbers of the events that occupy a GPU, in row order."""
        return self.rows_of(*GPU_WORK)

    @cached_property
    def runtime_rows(self) -> Ints:
        """Row numbers of the calls into the GPU's runtime."""
        return self.rows_of("runtime")

    def is_kind(self, *kinds: str) -> Bools:
        """Which rows are of one of these kinds."""
        codes = self.ints("kind")
        chosen = np.zeros(len(codes), bool)
        for kind in kinds:  # a few comparisons are quicker than one lookup per row
            chosen |= codes == CODE[kind]
        return chosen

    def rows_of(self, *kinds: str) -> Ints:
        return np.flatnonzero(self.is_kind(*kinds))

    def names_at(self, rows: Ints, absent: str | None = "") -> pl.Series:
        """The names of some rows, and a word where the row is absent."""
        codes = np.where(rows >= 0, self.ints("name")[rows].astype(np.int64), NONE) if len(self) else rows
        used, number = numbered(codes)
        texts = [self.names[code] if code >= 0 else absent for code in used.tolist()]
        return pl.Series(texts, dtype=pl.String).gather(number)

    def with_columns(self, *notes: Note, **columns: npt.NDArray[Any]) -> Trace:
        """This trace with some of the columns of `events` replaced and notes added."""
        series = [event_column(name, values) for name, values in columns.items()]
        return replace(self, events=self.events.with_columns(series), quality=self.quality.with_notes(*notes))

    def named_events(self) -> pl.DataFrame:
        """`events` with kinds and names written out, for people and SQL."""
        kinds, names = pl.Series("kind", KINDS), pl.Series("name", self.names, dtype=pl.String)
        return self.events.with_columns(
            kinds.gather(self.events["kind"]).alias("kind"), names.gather(self.events["name"]).alias("name")
        )


def event_column(name: str, values: npt.NDArray[Any]) -> pl.Series:
    """A column of `events` in its type, which must hold the values; numpy takes a third of the time of a cast."""
    fitting = values.astype(ARRAY_TYPES[EVENT_COLUMNS[name]], copy=False)
    if fitting is not values and not np.array_equal(fitting, values):
        raise OverflowError(f"a number in the column {name} is too large")
    return pl.Series(name, fitting)


def empty_trace() -> Trace:
    """A trace without events, for what depends on the shape of things only."""
    frames = {"events": pl.DataFrame(schema=EVENT_COLUMNS)}
    frames |= {name: pl.DataFrame(schema=schema) for name, schema in SIDE_FRAMES.items()}
    return Trace(meta=Meta(source="", format=""), names=[], quality=Quality(), **frames)
