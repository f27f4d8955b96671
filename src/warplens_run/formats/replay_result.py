"""What came of a plan: per unit the kernels that ran, their time and their energy. The Python runner and the C++ one
write the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import FormatError
from warplens_run.formats.records import MAX_COUNT, decode, encode, load_json, save_json

FORMAT: Final = "warplens-replay-result"
VERSION: Final = 1
DONE: Final = "done"
FAILED: Final = "failed"
REFUSED: Final = "refused"
NOT_RUN: Final = "not run"
STATUSES: Final = (DONE, FAILED, REFUSED, NOT_RUN)
MEASURED: Final = ("_ns", "seconds", "repeats", "launches")
CACHES: Final = ("in-situ", "hot", "cold")


@dataclass(frozen=True)
class Traced:
    """What the trace says of a unit; copied from the plan so that a result can be read alone."""

    total_ns: int
    median_ns: float
    p10_ns: float
    p90_ns: float


@dataclass(frozen=True)
class RunKernel:
    name: str
    kind: str
    median_ns: float
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class Time:
    """GPU time of one call, in ns: Σ of its kernels."""

    median_ns: float
    p10_ns: float
    p90_ns: float
    mean_ns: float
    min_ns: float
    repeats: int
    relative_error: float
    """Half the width of the median's 95 % interval over the median."""
    timer: str = "profiler"
    """profiler, graph, sustained, or host (CPU runs: the time of the call, which claims nothing of a GPU)"""


@dataclass(frozen=True)
class Energy:
    """Of one call, measured over a loop of calls."""

    active_j: float
    """(mean power − idle power) × time of the loop, per call"""
    total_j: float
    watts: float
    idle_watts: float
    seconds: float
    """how long the loop was measured"""
    launches: int
    call_ns: float
    """time of the loop per call, gaps between kernels included"""
    busy_fraction: float
    """share of that in which the unit's kernels ran"""
    repeats: int
    interval: float
    """half the width of the 95 % interval of `active_j`, as a share of it"""
    total_interval: float = 0.0
    """the same of `total_j`"""
    instant_watts: float | None = None
    doubtful: bool = False
    why: str = ""


@dataclass(frozen=True)
class UnitResult:
    id: str
    op: str
    count: int
    traced: Traced
    status: str
    reason: str = ""
    category: str = ""
    kernel: str = ""
    """The unit's longest kernel in the trace."""
    kernels: tuple[RunKernel, ...] = ()
    same: bool | None = None
    """Whether names and grids are those of the trace; None where nothing can be said (CPU, failed)."""
    difference: str = ""
    time: Time | None = None
    energy: Energy | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """The GPU as it was found; nothing of it is ever set."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    watts: float | None = None
    power_limit_w: float | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeterFacts:
    """What measured energy, and the GPU's idle power with a live context."""

    name: str
    tick_s: float
    idle_watts: float
    idle_interval_watts: float = 0.0


@dataclass(frozen=True)
class ReplayResult:
    plan: str
    """Id of the plan."""
    trace: str
    gpu_ns: int
    """GPU time of the whole trace."""
    wall_ns: int
    device: str
    runner: str
    """python or c++"""
    cache: str
    units: tuple[UnitResult, ...]
    rest: dict[str, int] = field(default_factory=dict)
    """GPU time that belongs to no unit, by reason."""
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    before: State | None = None
    after: State | None = None
    meter: MeterFacts | None = None
    notes: tuple[str, ...] = ()
    plan_fingerprint: str = ""
    """Of the plan's content when it ran, so that a run of an edited plan does not go on; the C++ runner has none."""
    format: str = FORMAT
    version: int = VERSION


def empty_result() -> ReplayResult:
    """A result without units, for what depends on the shape of things only."""
    return ReplayResult("", "", 0, 0, "", "python", CACHES[0], ())


def load(path: Path) -> ReplayResult:
    return parse(load_json(path), str(path))


def parse(value: Any, where: str = "") -> ReplayResult:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FormatError("not a result of a replay", where=where, hint="warplens replay run plan.json -o result.json")
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
        raise FormatError(f"a result of version {version!r}; this Warplens reads up to {VERSION}", where=where)
    try:
        result = decode(ReplayResult, value)
        _check_units(result)
        _check_times(result)
    except FormatError as error:
        raise FormatError(str(error), where=where) from error
    return result


def _check_units(result: ReplayResult) -> None:
    ids: set[str] = set()
    for unit in result.units:
        if unit.status not in STATUSES:
            raise FormatError(f"unit {unit.id!r} has no known status: {unit.status!r}")
        if unit.id in ids:
            raise FormatError(f"two units have the id {unit.id!r}")
        ids.add(unit.id)
        if not 1 <= unit.count <= MAX_COUNT:
            raise FormatError(f"unit {unit.id!r}: not a count: {unit.count}")
    if sum(unit.count for unit in result.units) > MAX_COUNT:
        raise FormatError(f"its units have more than {MAX_COUNT} calls together")


def _check_times(result: ReplayResult) -> None:
    for where, ns in (("gpu_ns", result.gpu_ns), ("wall_ns", result.wall_ns), *result.rest.items()):
        if ns < 0:
            raise FormatError(f"a negative time: {ns}", where=where)
    for position, unit in enumerate(result.units):
        _check_part(unit.traced, f"units[{position}].traced")
        _check_part(unit.time, f"units[{position}].time")
        _check_part(unit.energy, f"units[{position}].energy")
        for number, kernel in enumerate(unit.kernels):
            _check_part(kernel, f"units[{position}].kernels[{number}]")


def _check_part(part: Traced | Time | Energy | RunKernel | None, where: str) -> None:
    """Times and counts of repeats are not below zero; an energy may be, where noise is larger than it."""
    for name, value in vars(part).items() if part is not None else ():
        if name.endswith(MEASURED) and not 0 <= value < math.inf:
            raise FormatError(f"not a time or a count: {value}", where=f"{where}.{name}")
    if isinstance(part, Energy) and not 0 <= part.busy_fraction <= 1:
        raise FormatError(f"not a share from 0 to 1: {part.busy_fraction}", where=f"{where}.busy_fraction")


def save(path: Path, result: ReplayResult) -> None:
    save_json(path, to_json(result))


def to_json(result: ReplayResult) -> dict[str, Any]:
    written: dict[str, Any] = {"format": result.format, "version": result.version} | encode(result)
    return written
