"""`gpu_counters`, `step_energy` and `counter_timeline`: readings of the GPUs that a capture sampled beside the profile.

A reading of power is updated every 20 to 100 ms, so a mean needs a window that is longer: that of all recorded steps,
or of the unrecorded ones before them, whose power is not that of a GPU that waits for a recorded host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.counters.readings import Series, Window, series_of
from warplens.analyses.memory.timeline import chosen_moments
from warplens.analyses.time.steps import launched_by_step, step_windows
from warplens.analyses.workspace import Workspace
from warplens.model.counters import ENERGY, POWER, SM_CLOCK, TEMPERATURE
from warplens.model.table import Column, Table, frame_of_rows

SPARE_NS: Final = 200_000_000
"""Before the trace: a reading that is not older holds at its beginning."""
UNRECORDED, RECORDED, STEP, WHOLE = "unrecorded steps", "recorded steps", "step", "whole trace"
DEVICE = Column("device", "GPU number", "", pl.Int32)
COUNTER = Column(
    "counter", "what was read; `clock: …` is the share of the time in which that limits the clock", "", pl.String
)
UNIT = Column("unit", "unit of the numbers", "", pl.String)
COUNTERS = (
    DEVICE,
    COUNTER,
    UNIT,
    Column("samples", "readings while the trace was recorded", "", pl.Int64),
    Column("min", "smallest reading", "", pl.Float64),
    Column("mean", "mean of the readings", "", pl.Float64),
    Column("p95", "reading that 95 % do not exceed", "", pl.Float64),
    Column("max", "largest reading", "", pl.Float64),
    Column("limit", "what the GPU allows; null where that is not known", "", pl.Float64),
    Column("percent_of_limit", "mean as share of the limit", "%", pl.Float64),
)
ENERGIES = (
    DEVICE,
    Column(
        "part",
        "what the row is about: the timed unrecorded steps, all recorded steps, one of them, or the whole trace",
        "",
        pl.String,
    ),
    Column("step", "number of the step, where the row is about one", "", pl.Int64),
    Column("steps", "steps that the mean is of", "", pl.Int64),
    Column("time_ms", "time of a step, or of the whole trace", "ms", pl.Float64),
    Column("samples", "readings of the power", "", pl.Int64),
    Column("power_w", "mean power", "W", pl.Float64),
    Column("power_limit_w", "power limit of the GPU", "W", pl.Float64),
    Column("energy_j", "energy of a step, or of the whole trace: mean power × time", "J", pl.Float64),
    Column("sm_clock_mhz", "mean clock of the SMs", "MHz", pl.Float64),
    Column("temperature_c", "mean temperature", "°C", pl.Float64),
)
TIMELINE = (
    DEVICE,
    COUNTER,
    UNIT,
    Column("start_ms", "from when on this holds, since the trace's start", "ms", pl.Float64),
    Column("value", "the reading", "", pl.Float64),
    Column("limit", "what the GPU allows; null where that is not known", "", pl.Float64),
)


class _Part(NamedTuple):
    """Some windows with the same kind of work, each of several steps."""

    part: str
    windows: list[Window]
    steps: int
    step: int | None = None


def counter_table(name: str, work: Workspace) -> Table:
    return {"gpu_counters": gpu_counters, "step_energy": step_energy, "counter_timeline": counter_timeline}[name](work)


def gpu_counters(work: Workspace) -> Table:
    begin, end = _extent(work)
    counters = _shown(work)
    inside = counters.filter(pl.col("start_ns").is_between(begin, end))
    keys = ["device", "counter", "unit"]
    value = pl.col("value")
    frame = (
        inside.group_by(keys, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("samples"),
            value.min().alias("min"),
            value.mean().alias("mean"),
            value.quantile(0.95, "lower").alias("p95"),
            value.max().alias("max"),
            pl.col("limit").first(),
        )
        .with_columns((100 * pl.col("mean") / pl.col("limit")).alias("percent_of_limit"))
    )
    return Table.from_frame("gpu_counters", "one row per GPU and counter", COUNTERS, frame, *_energy_notes(work))


def step_energy(work: Workspace) -> Table:
    rows = [row for device in _devices(work) for row in _device_energy(work, device)]
    notes = [] if rows else ["no window was long enough for three readings of the power: record more steps"]
    grain = "one row per GPU and part of the run"
    return Table.from_frame("step_energy", grain, ENERGIES, frame_of_rows(ENERGIES, rows), *notes)


def counter_timeline(work: Workspace) -> Table:
    begin, end = _extent(work)
    near = _shown(work).filter(pl.col("start_ns").is_between(begin - SPARE_NS, end))
    held = [_from_last_before(part, begin) for part in near.partition_by("device", "counter", maintain_order=True)]
    readings = sum(part.height for part in held)
    frame = pl.concat([near.clear(), *map(_thinned, held)]).with_columns((pl.col("start_ns") / 1e6).alias("start_ms"))
    notes = [f"{readings:,} readings thinned to {frame.height:,}"] if frame.height < readings else []
    return Table.from_frame(
        "counter_timeline", "one row per GPU, counter and moment", TIMELINE,
        frame.select(column.name for column in TIMELINE), *notes,
    )  # fmt: skip


def _shown(work: Workspace) -> pl.DataFrame:
    return work.trace.counters.filter(pl.col("counter") != ENERGY)


def _devices(work: Workspace) -> list[int]:
    return sorted(int(device) for device in work.trace.counters["device"].unique())


def _extent(work: Workspace) -> Window:
    """From the first event of the trace to the last one's end."""
    start, duration = work.trace.ints("start_ns"), work.trace.ints("dur_ns")
    return (int(start.min()), int((start + duration).max())) if len(start) else (0, 0)


def _from_last_before(counter: pl.DataFrame, begin: int) -> pl.DataFrame:
    """Without the readings that are over when the trace begins."""
    first = int(np.searchsorted(counter["start_ns"].to_numpy(), begin, side="right"))
    return counter[max(0, first - 1) :]


def _thinned(counter: pl.DataFrame) -> pl.DataFrame:
    values = counter["value"].to_numpy()
    return counter[chosen_moments(values, int(np.argmax(values)))]


def _device_energy(work: Workspace, device: int) -> Iterator[dict[str, Any]]:
    counters = work.trace.counters
    power = series_of(counters, device, POWER)
    clock, temperature = (series_of(counters, device, name) for name in (SM_CLOCK, TEMPERATURE))
    seen: set[str] = set()
    for part in _parts(work, device):
        watts = power.mean(part.windows)
        if watts is None or (part.part == UNRECORDED and UNRECORDED in seen):
            continue
        seen.add(part.part)
        seconds = sum(end - begin for begin, end in part.windows) / 1e9
        yield {
            "device": device,
            "part": part.part,
            "step": part.step,
            "steps": part.steps,
            "time_ms": 1e3 * seconds / max(1, part.steps),
            "samples": power.count(part.windows),
            "power_w": watts,
            "power_limit_w": power.limit,
            "energy_j": watts * seconds / max(1, part.steps),
            "sm_clock_mhz": clock.mean(part.windows),
            "temperature_c": temperature.mean(part.windows),
        }


def _parts(work: Workspace, device: int) -> Iterator[_Part]:
    """What the energy of a GPU is given for; a window that is too short has none."""
    plain = work.trace.plain_windows
    # After a recording the profiler stays loaded: steps before it are what the program costs by itself. The first
    # window that is long enough counts.
    ordered = plain.with_columns((pl.col("position") == "before").alias("is_before"))
    for steps, *window in (
        ordered.sort("is_before", "steps", descending=True).select("steps", "start_ns", "end_ns").iter_rows()
    ):
        yield _Part(UNRECORDED, [(window[0], window[1])], steps)
    gpu = work.gpu.filter(pl.col("device") == device)
    windows_by_step = step_windows(launched_by_step(gpu))
    if windows_by_step:
        in_order = sorted(windows_by_step.items(), key=lambda item: item[1])
        yield _Part(RECORDED, [(in_order[0][1][0], in_order[-1][1][1])], len(in_order))
        for number, step_window in in_order:
            yield _Part(STEP, [step_window], 1, number)
    elif gpu.height:
        begin, end = gpu["start_ns"].min(), (gpu["start_ns"] + gpu["dur_ns"]).max()
        yield _Part(WHOLE, [(int(begin), int(end))], 0)  # type: ignore[arg-type]


def _energy_notes(work: Workspace) -> Iterator[str]:
    """What the GPU's own counter of energy says of the time in which power was sampled, to compare the two."""
    counters = work.trace.counters
    for device in _devices(work):
        joules, power = series_of(counters, device, ENERGY), series_of(counters, device, POWER)
        if len(joules.times_ns) < 2:
            continue
        window = int(joules.times_ns[0]), int(joules.times_ns[-1])
        sampled = _if_continuous(power, window)
        seconds = (window[1] - window[0]) / 1e9
        watts = (joules.values[-1] - joules.values[0]) / seconds if seconds else 0.0
        if sampled is not None and watts > 0:
            yield (
                f"GPU {device}: its counter of energy has {watts:.0f} W on average over {seconds:.1f} s, the readings "
                f"of power {sampled:.0f} W"
            )


def _if_continuous(power: Series, window: Window) -> float | None:
    """The mean over a window in which sampling never paused."""
    gaps = np.diff(power.times_ns)
    is_continuous = len(gaps) > 0 and int(gaps.max()) < 1_000_000_000
    return power.mean([window]) if is_continuous else None
