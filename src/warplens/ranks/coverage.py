"""How much of a job's waiting its recordings show."""

from __future__ import annotations

import msgspec
import polars as pl

from warplens.ranks.own_pace import JobModel


class Coverage(msgspec.Struct, frozen=True):
    """Facts that decide how sure a verdict on a job can be."""

    ranks: int
    """Ranks that were read."""
    world_size: int
    """Ranks that the job had, at least."""
    has_work: bool = True
    """Some rank recorded GPU work or a collective."""
    has_launches: bool = True
    """All ranks record what the graph of their steps is made of."""
    has_steps: bool = True
    """Some step was recorded by all ranks."""
    calls: int = 0
    """Communication calls of all ranks."""
    matched: int = 0
    """Those of them with a counterpart on another rank."""
    has_one_clock: bool = True
    """Matched calls join all ranks, directly or through others."""

    @property
    def missing(self) -> int:
        return max(0, self.world_size - self.ranks)

    @property
    def matched_share(self) -> float:
        return self.matched / self.calls if self.calls else 0.0


def coverage(model: JobModel) -> Coverage:
    job = model.job
    # Beside kernels, small messages over gloo are many and hardly decide who waits.
    of_kernels = job.calls.filter(pl.col("device") >= 0)
    calls = of_kernels if of_kernels.height else job.calls
    worlds = [digest.facts.world_size for digest in job.digests]
    return Coverage(
        ranks=len(job.digests),
        world_size=max(len(job.digests) + len(job.failed), *worlds),
        has_work=any(digest.facts.gpu_events or digest.collectives.height for digest in job.digests),
        has_launches=all(digest.frames["moments"].height for digest in job.digests),
        has_steps=model.is_known,
        calls=calls.height,
        matched=int((calls["match"] >= 0).sum()),
        has_one_clock=job.clocks.is_common,
    )
