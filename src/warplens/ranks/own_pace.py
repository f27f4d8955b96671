"""How fast each rank would be if none made it wait, and what its steps then consist of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.analyses.graph.simulating import warm_up
from warplens.ranks.job import Job
from warplens.ranks.job_graph import (
    JobGraph,
    Simulated,
    first_marks,
    job_graph,
    job_step_lengths,
    last_moments,
    simulate,
    step_lengths,
)


@dataclass(frozen=True)
class OwnPace:
    """Of each rank (rows) and step (columns), in ns: its own time and the parts of it; transfers are not in it."""

    steps: list[int]
    host_ns: Floats
    """On the path that decides when the rank is done: the host."""
    gpu_ns: Floats
    """Computation on the GPU."""
    other_ns: Floats
    """Latency, and waits that nothing explains."""
    transfer_ns: Floats
    late_ns: Floats
    """Of each rank: how long after the median of all it began the first step."""

    @property
    def own_ns(self) -> Floats:
        return self.host_ns + self.gpu_ns + self.other_ns


@dataclass(frozen=True)
class JobModel:
    """A job's graph, simulated as recorded and with every rank alone."""

    job: Job

    @cached_property
    def graph(self) -> JobGraph:
        return job_graph(self.job)

    @cached_property
    def recorded(self) -> Simulated:
        return simulate(self.graph)

    @cached_property
    def step_ns(self) -> Floats:
        """The length of each step of the job."""
        return job_step_lengths(self.recorded)

    @cached_property
    def usual_steps(self) -> list[int]:
        """The steps without a warm-up: leading ones that take much longer than the median of all that follow."""
        if not self.is_known:
            return sorted(self.job.steps["step"].unique().to_list())
        return self.graph.steps[warm_up(self.step_ns) :]

    @cached_property
    def is_known(self) -> bool:
        """Whether there are steps that all ranks recorded, with launches."""
        if not self.job.has_comparable_steps:
            return False
        ranks = len(np.unique(self.graph.rank)) if len(self.graph) else 0
        return ranks == len(self.job.digests) and len(self.graph.order) == len(self.graph) and bool(self.graph.steps)

    @cached_property
    def pace(self) -> OwnPace:
        alone = simulate(self.graph.alone())
        last = last_moments(alone)
        host, gpu, transfer = (
            np.diff(sums[last], axis=1, prepend=0.0) for sums in (alone.host_ns, alone.gpu_ns, alone.transfer_ns)
        )
        begun = first_marks(self.recorded)
        other = step_lengths(alone) - host - gpu - transfer
        return OwnPace(self.graph.steps, host, gpu, other, transfer, begun - np.median(begun))
