"""The stage of a pipeline that has more to do than the others."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Bools, Ints
from warplens.ranks.job_graph import JobGraph
from warplens.ranks.kinds import RECEIVE, SEND
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import stages
from warplens.ranks.slow.causes import cause_on_gpu
from warplens.ranks.slow.comparing import first_usable
from warplens.ranks.slow.records import IMBALANCE, LEAST_SHARE, Excess, Straggler
from warplens.ranks.slow.removing import gain_ms, with_transfers, without

UNEVEN: Final = 1.12
"""A stage that computes so many times as long as the others is uneven."""


def uneven_stages(model: JobModel) -> list[Straggler]:
    """The stage that computes longer than the others, by the sums of its kernels."""
    stage = np.array(stages(model.job))
    if stage.max(initial=-1) < 1:
        return []
    begin, steps = first_usable(model), model.pace.steps
    of_stage = _by_stage(_sums(model, "work", "gpu_ns", steps[begin:]), stage)
    slowest = int(np.argmax(of_stage))
    more = float(of_stage[slowest] - np.median(np.delete(of_stage, slowest)))
    if of_stage[slowest] < UNEVEN * (of_stage[slowest] - more) or more < LEAST_SHARE * np.median(model.step_ns):
        return []
    excess = Excess(tuple(np.flatnonzero(stage == slowest).tolist()), begin, gpu_ns=more)
    cause, place = cause_on_gpu(model, excess)
    if cause != IMBALANCE:
        return []
    gain = max(0.0, gain_ms(model, _even(model, stage, slowest, begin), begin))
    return [Straggler(excess.positions, steps[begin], cause, more / 1e6, gain, 1.0, place, "high", f"stage {slowest}")]


def _even(model: JobModel, stage: Ints, slowest: int, begin: int) -> JobGraph:
    """The job with as much to do on that stage as on the others: kernels, host and the stage's own collectives."""
    own, steps = stage == slowest, model.pace.steps[begin:]
    gpu = _share(_by_stage(_sums(model, "work", "gpu_ns", steps), stage), slowest)
    host = _share(_by_stage(_sums(model, "host", "host_ns", steps), stage), slowest)
    excess = Excess(
        tuple(np.flatnonzero(own).tolist()),
        begin,
        host_ns=host * float(model.pace.host_ns[own, begin:].mean()),
        gpu_ns=gpu * float(model.pace.gpu_ns[own, begin:].mean()),
    )
    return with_transfers(without(model, excess), _even_transfers(model, stage, own, steps))


def _even_transfers(model: JobModel, stage: Ints, own: Bools, steps: list[int]) -> dict[int, float]:
    """Of collectives among ranks of the stage, by match: shorter by as much as other stages send less, kind by kind."""
    is_meant = ~pl.col("kind").is_in([SEND, RECEIVE]) & pl.col("step").is_in(steps)
    sent = model.job.calls.filter(is_meant).group_by("kind", "rank").agg(pl.col("bytes").sum())
    share = {}
    for (kind,), each in sent.group_by("kind"):
        of_rank = np.zeros(len(stage))
        of_rank[each["rank"].to_numpy()] = each["bytes"].to_numpy()
        share[kind] = 1.0 - _share(_by_stage(of_rank, stage), int(stage[own][0]))
    positions = np.flatnonzero(own).tolist()
    calls = model.job.matched.filter(is_meant).group_by("match").agg(
        pl.col("kind", "transfer_ns").first(), pl.col("rank").is_in(positions).all().alias("is_own")
    )  # fmt: skip
    shorter = calls.filter("is_own").select("match", pl.col("transfer_ns") * pl.col("kind").replace_strict(share))
    return dict(shorter.iter_rows())


def _sums(model: JobModel, frame: str, value: str, steps: list[int]) -> Floats:
    """Of each rank, the mean over the steps of what it takes in one: as the parts of its step are."""
    return np.array([
        float(digest.frames[frame].filter(pl.col("step").is_in(steps)).group_by("step")
              .agg(pl.col(value).sum())[value].mean() or 0.0)  # type: ignore[arg-type]
        for digest in model.job.digests
    ])  # fmt: skip


def _by_stage(values: Floats, stage: Ints) -> Floats:
    return np.array([np.median(values[stage == number]) for number in range(stage.max() + 1)])


def _share(of_stage: Floats, slowest: int) -> float:
    """What share of the stage's own time is more than the others have."""
    others = float(np.median(np.delete(of_stage, slowest)))
    return max(0.0, 1.0 - others / float(of_stage[slowest])) if of_stage[slowest] > 0 else 0.0
