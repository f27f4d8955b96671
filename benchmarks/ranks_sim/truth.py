"""What is true of a simulated job: faults with their exact gain, clocks, and which kernels belong together."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ranks_sim.base import Base
from ranks_sim.simulate import Job, JobRun
from ranks_sim.spec import CAUSES, MILLISECOND, Fault, JobSpec
from ranks_sim.write import Clock, LaunchedCollective


@dataclass(frozen=True)
class FaultTruth:
    """A planted fault. Gains are ms that a job step would be shorter without it, all other faults kept."""

    kind: str
    ranks: list[int]
    since_step: int  # as ProfilerStep# counts
    cause: str
    gain_ms_per_step: float  # mean over the steps from `since_step` on
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
        path.write_text(json.dumps(asdict(self)) + "\n")


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


def fault_truths(spec: JobSpec, base: Base, run: JobRun) -> list[FaultTruth]:
    steps = run.step_times_ns()
    found = []
    for fault in spec.faults:
        gain = np.zeros(spec.steps)
        if CAUSES[fault.kind]:
            gain = (steps - Job(spec.without(fault), base).run().step_times_ns()) / MILLISECOND
        found.append(_fault_truth(spec, fault, gain.tolist()))
    return found


def _fault_truth(spec: JobSpec, fault: Fault, gain_ms: list[float]) -> FaultTruth:
    affected = gain_ms[fault.since :] or [0.0]
    return FaultTruth(
        fault.kind,
        list(spec.faulty_ranks(fault)),
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
