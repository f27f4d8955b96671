"""`gpu_counters`, `step_energy` and `counter_timeline`: readings of the GPUs that a capture sampled beside the profile.

A reading of power is renewed every 20 to 100 ms, so a mean needs a window of several renewals: that of all recorded
steps, or of unrecorded ones, whose power is not that of a GPU that waits for a recorded host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.counters.readings import LEAST_RENEWALS, Series, Window, series_of
from warplens.analyses.memory.timeline import chosen_moments
from warplens.analyses.time.steps import launched_by_step, step_windows
from warplens.analyses.workspace import Workspace
from warplens.model.counters import ENERGY, POWER, SM_CLOCK, SPARE_NS, TEMPERATURE
from warplens.model.table import Column, Table, frame_of_rows

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
    Column(
        "samples",
        "readings while the trace was recorded; all of them where that is shorter than five renewals of a reading",
        "",
        pl.Int64,
    ),
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
    """A window with one kind of work, of several steps."""

    part: str
    window: Window
    steps: int
    step: int | None = None


class _Readings(NamedTuple):
    """Of one GPU."""

    power: Series
    clock: Series
    temperature: Series


def counter_table(name: str, work: Workspace) -> Table:
    return {"gpu_counters": gpu_counters, "step_energy": step_energy, "counter_timeline": counter_timeline}[name](work)


def gpu_counters(work: Workspace) -> Table:
    begin, end = _extent(work)
    renewal_ns = max((series_of(work.trace.counters, device, POWER).renewal_ns for device in _metered(work)), default=0)
    is_long = end - begin >= LEAST_RENEWALS * renewal_ns
    inside = _shown(work).filter(pl.col("start_ns").is_between(begin, end)) if is_long else _shown(work)
    notes = [] if is_long else [_short_trace(end - begin, renewal_ns)]
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
    notes.extend(_energy_notes(work))
    return Table.from_frame("gpu_counters", "one row per GPU and counter", COUNTERS, frame, *notes)


def step_energy(work: Workspace) -> Table:
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for device in _metered(work):
        energies, absent = _device_energy(work, device)
        rows += energies
        notes += absent
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


def _metered(work: Workspace) -> list[int]:
    """GPUs whose power was sampled: other profilers sample other things."""
    power = work.trace.counters.filter(pl.col("counter") == POWER)
    return sorted(int(device) for device in power["device"].unique())


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


def _device_energy(work: Workspace, device: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a GPU, and why parts of the run have none."""
    readings = _Readings(*(series_of(work.trace.counters, device, name) for name in (POWER, SM_CLOCK, TEMPERATURE)))
    rows: dict[tuple[str, int | None], dict[str, Any]] = {}
    absent: dict[str, str] = {}
    for part in _parts(work, device):
        row = None if (part.part, part.step) in rows else _energy_row(device, part, readings)
        if row is not None:
            rows[part.part, part.step] = row
        elif part.part != STEP:
            absent.setdefault(part.part, f"GPU {device}: {_why_absent(part, readings.power)}")
    known = {part for part, _ in rows}
    return list(rows.values()), [why for part, why in absent.items() if part not in known]


def _energy_row(device: int, part: _Part, readings: _Readings) -> dict[str, Any] | None:
    """None where the window is too short, or was not sampled."""
    power = readings.power
    watts = power.mean_of_work(part.window)
    if watts is None:
        return None
    seconds = (part.window[1] - part.window[0]) / 1e9
    return {
        "device": device,
        "part": part.part,
        "step": part.step,
        "steps": part.steps,
        "time_ms": 1e3 * seconds / max(1, part.steps),
        "samples": power.count([part.window]),
        "power_w": watts,
        "power_limit_w": power.limit,
        "energy_j": watts * seconds / max(1, part.steps),
        "sm_clock_mhz": readings.clock.mean([part.window]),
        "temperature_c": readings.temperature.mean([part.window]),
    }


def _why_absent(part: _Part, power: Series) -> str:
    length = f"{(part.window[1] - part.window[0]) / 1e6:,.0f} ms"
    if part.window[1] - part.window[0] >= power.least_ns:
        return f"no row for the {part.part}: sampling paused in their {length}"
    needed = f"{power.least_ns / 1e6:,.0f} ms ({LEAST_RENEWALS} renewals of the reading of power)"
    return f"no row for the {part.part}: {length} are less than the {needed} that a mean needs; record more steps"


def _short_trace(length_ns: int, renewal_ns: int) -> str:
    length, renewal = (f"{value / 1e6:,.0f} ms" for value in (length_ns, renewal_ns))
    return (
        f"the trace lasts {length} and a reading is renewed every {renewal}: these are all readings, those of the "
        "timed unrecorded steps among them"
    )


def _parts(work: Workspace, device: int) -> Iterator[_Part]:
    """What the energy of a GPU is given for; of several windows of one part the first that was sampled counts."""
    plain = work.trace.plain_windows.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("length_ns"))
    # The longest first: a mean over 1 s after the recording says more than one over 0.3 s before it.
    for row in plain.sort("length_ns", descending=True, maintain_order=True).iter_rows(named=True):
        yield _Part(UNRECORDED, (row["start_ns"], row["end_ns"]), row["steps"])
    gpu = work.gpu.filter(pl.col("device") == device)
    windows_by_step = step_windows(launched_by_step(gpu))
    if windows_by_step:
        in_order = sorted(windows_by_step.items(), key=lambda item: item[1])
        yield _Part(RECORDED, (in_order[0][1][0], in_order[-1][1][1]), len(in_order))
        for number, step_window in in_order:
            yield _Part(STEP, step_window, 1, number)
    elif gpu.height:
        begin, end = gpu["start_ns"].min(), (gpu["start_ns"] + gpu["dur_ns"]).max()
        yield _Part(WHOLE, (int(begin), int(end)), 0)  # type: ignore[arg-type]


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
