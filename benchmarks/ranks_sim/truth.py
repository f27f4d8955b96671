"""What is true of a simulated job: faults with their exact gain, clocks, and which kernels belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ranks_sim.base import Base, Floats
from ranks_sim.simulate import Job, JobRun
from ranks_sim.spec import CAUSES, MILLISECOND, Fault, JobSpec
from ranks_sim.write import Clock, LaunchedCollective


@dataclass(frozen=True)
class FaultTruth:
    """A planted fault. Gains are ms that a job step would be shorter without it, all other faults kept."""

    kind: str
    ranks: list[int]
    groups: list[str]  # whose transfers it slows
    since_step: int  # as ProfilerStep# counts
    cause: str
    gain_ms_per_step: float  # mean over the steps that have the fault
    gain_ms: list[float]  # of each step
    values: dict[str, float]


@dataclass(frozen=True)
class CollectiveTruth:
    """One call of a group: the correlation of its kernel on each rank, and how its time divides."""

    group: str
    ranks: list[int]
    kind: str
    key: str
    number: int
    step: int
    last_rank: int
    transfer_us: float
    correlations: dict[int, int]


@dataclass(frozen=True)
class ClockTruth:
    """A rank's clock less the true one, at the begin of the first step, and how it moves."""

    offset_us: float
    drift_ppm: float


@dataclass(frozen=True)
class Truth:
    world: int
    seed: int
    steps: list[int]
    step_ms: list[float]
    healthy_step_ms: list[float]
    faults: list[FaultTruth]
    clocks: list[ClockTruth]
    collectives: list[CollectiveTruth]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self) + b"\n")


def clocks(spec: JobSpec) -> list[Clock]:
    """A clock per rank; ranks of a host share theirs."""
    faults = [fault for fault in spec.faults if fault.kind == "clock"]
    if not faults:
        return [Clock()] * spec.grid.world
    offset_ms, drift_ppm = faults[0]["offset_ms"], faults[0]["drift_ppm"]
    hosts = -(-spec.grid.world // spec.gpus_per_host)
    drawn = np.random.default_rng((spec.seed, 1 << 31)).uniform(-1, 1, (hosts, 2))
    of_host = [Clock(float(offset * offset_ms * MILLISECOND), float(drift * drift_ppm)) for offset, drift in drawn]
    return [of_host[rank // spec.gpus_per_host] for rank in range(spec.grid.world)]


class StepTimesOf:
    """The step times of a job with other faults; each set of faults is simulated once."""

    def __init__(self, base: Base, spec: JobSpec, run: JobRun) -> None:
        self._base = base
        self._known = {_costly(spec): run.step_times_ns() / MILLISECOND}

    def __call__(self, spec: JobSpec) -> Floats:
        key = _costly(spec)
        if key not in self._known:
            self._known[key] = Job(spec, self._base).run().step_times_ns() / MILLISECOND
        return self._known[key]


def _costly(spec: JobSpec) -> tuple[int, ...]:
    return tuple(id(fault) for fault in spec.faults if CAUSES[fault.kind])


def fault_truths(spec: JobSpec, step_ms: StepTimesOf) -> list[FaultTruth]:
    together = step_ms(spec)
    return [_fault_truth(spec, fault, (together - step_ms(spec.without(fault))).tolist()) for fault in spec.faults]


def _fault_truth(spec: JobSpec, fault: Fault, gain_ms: list[float]) -> FaultTruth:
    affected = gain_ms[fault.since : fault.until] or [0.0]
    return FaultTruth(
        fault.kind,
        list(spec.faulty_ranks(fault)),
        [group.name for group in spec.grid.groups() if fault.kind == "slow_link" and fault.rank in group.ranks],
        spec.first_step + fault.since,
        CAUSES[fault.kind],
        sum(affected) / len(affected),
        gain_ms,
        fault.values,
    )


def collective_truths(run: JobRun, launched: dict[int, list[LaunchedCollective]]) -> list[CollectiveTruth]:
    correlations: dict[tuple[str, int], dict[int, int]] = {}
    for rank, calls in launched.items():
        for call in calls:
            correlations.setdefault((call.key, call.number), {})[rank] = call.correlation
    return [
        CollectiveTruth(
            meeting.group.name,
            sorted(meeting.starts),
            meeting.kind,
            meeting.key,
            meeting.number,
            meeting.step,
            max(meeting.starts, key=lambda rank: meeting.starts[rank]),
            round(meeting.transfer_ns / 1_000, 3),
            correlations.get((meeting.key, meeting.number), {}),
        )
        for meeting in run.meetings
    ]
