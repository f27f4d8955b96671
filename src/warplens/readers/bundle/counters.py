"""`counters.json` of a bundle: what NVML read of the GPUs while steps were recorded or timed, as counters of the trace.

Times are those of the host's clock since 1970, as Kineto's and XLA's are. What lowered the clock are bits of
nvmlDeviceGetCurrentClocksEventReasons; each that occurs becomes a counter of its own, 100 % where it is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import polars as pl

from warplens.model.counters import CLOCK_REASONS, ENERGY, READINGS
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.bundle.timing import MOST_SECONDS, PlainWindow
from warplens.readers.shared.typed_json import decode_typed
from warplens_run.formats.bundle_files import COUNTERS_VERSION

EPOCH_NS: Final = 10**18
"""September 2001: a trace whose clock is before that does not count from 1970."""
MOST_DEVICES: Final = 1 << 31
Numbers = list[float | None]


class GpuSamples(msgspec.Struct, frozen=True):
    """The samples of one GPU, each reading a column as long as `times_ns`, or empty."""

    device: int
    name: str = ""
    power_limit_w: float | None = None
    max_sm_clock_mhz: float | None = None
    max_memory_clock_mhz: float | None = None
    memory_bytes: float | None = None
    times_ns: list[int] = []
    power_w: Numbers = []
    sm_clock_mhz: Numbers = []
    memory_clock_mhz: Numbers = []
    gpu_busy_percent: Numbers = []
    memory_busy_percent: Numbers = []
    temperature_c: Numbers = []
    memory_used_bytes: Numbers = []
    clock_reasons: list[int | None] = []
    energy: list[tuple[int, float]] = []
    """Time, and joules of the GPU's own counter."""

    def __post_init__(self) -> None:
        if not 0 <= self.device < MOST_DEVICES:
            raise ValueError("an impossible GPU")
        if any(not 0 <= time < MOST_SECONDS * 10**9 for time in (*self.times_ns, *(time for time, _ in self.energy))):
            raise ValueError("an impossible time")
        columns = (self.clock_reasons, *(getattr(self, reading.column) for reading in READINGS))
        if any(column and len(column) != len(self.times_ns) for column in columns):
            raise ValueError("a column that is not as long as its times")


class RecordedCounters(msgspec.Struct, frozen=True):
    version: int
    gpus: list[GpuSamples] = []

    def __post_init__(self) -> None:
        if self.version != COUNTERS_VERSION:
            raise ValueError(f"version {self.version} is not known")


def parse(text: bytes) -> RecordedCounters:
    """Raises `msgspec.DecodeError` where it is not such a file."""
    return decode_typed(text, RecordedCounters)


def join(trace: Trace, counters: RecordedCounters, windows: Sequence[PlainWindow]) -> Trace:
    """The trace with the counters, and the windows of unrecorded steps, on its own clock."""
    origin = trace.meta.origin_ns
    if origin < EPOCH_NS:
        return replace(trace, quality=trace.quality.with_notes(Note("counters_other_clock")))
    frames = [part for gpu in counters.gpus for part in _series(gpu, origin)]
    empty = pl.DataFrame(schema=SIDE_FRAMES["counters"])
    rows = [
        (
            window.position,
            window.steps,
            window.start_ns - origin,
            window.start_ns - origin + round(window.seconds * 1e9),
        )
        for window in windows
        if window.start_ns
    ]
    timed = pl.DataFrame(rows, schema=SIDE_FRAMES["plain_windows"], orient="row")
    return replace(trace, counters=pl.concat([empty, *frames]), plain_windows=timed)


def _series(gpu: GpuSamples, origin: int) -> Iterator[pl.DataFrame]:
    for reading in READINGS:
        limit = getattr(gpu, reading.limit) if reading.limit else reading.fixed_limit
        yield _frame(gpu, reading.counter, reading.unit, getattr(gpu, reading.column), limit, origin)
    for bit, counter in CLOCK_REASONS.items():
        values: Numbers = [None if reasons is None else 100.0 * bool(reasons & bit) for reasons in gpu.clock_reasons]
        if any(values):
            yield _frame(gpu, counter, "%", values, None, origin)
    times = [time for time, _ in gpu.energy]
    yield _frame(gpu, ENERGY, "J", [joules for _, joules in gpu.energy], None, origin, times)


def _frame(
    gpu: GpuSamples, counter: str, unit: str, values: Numbers, limit: float | None, origin: int,
    times: Sequence[int] | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Without the moments at which the GPU did not answer."""
    starts = gpu.times_ns if times is None else times
    columns = {
        "counter": [counter] * len(values),
        "unit": [unit] * len(values),
        "device": [gpu.device] * len(values),
        "start_ns": [time - origin for time in starts[: len(values)]],
        "value": values,
        "limit": [limit] * len(values),
    }
    frame = pl.DataFrame(columns, schema=SIDE_FRAMES["counters"])
    return frame.drop_nulls("value").sort("start_ns", maintain_order=True)
