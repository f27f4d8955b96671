"""What the job's step would take with parts of it as in the median rank: S, S_type, S_rank, S_stage, M_W and M_S.

In the ideal job every rank's host and GPU parts are as long, step by step, as the median of its peers', and every
transfer is as long as the median of its kind and size (docs/concepts/ranks.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Bools
from warplens.ranks.condensing import END
from warplens.ranks.job_graph import JobGraph, job_step_lengths, simulate
from warplens.ranks.job_step import gain_range, job_steps
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages

MOST_RANKS: Final = 8
SLOWEST: Final = 0.03
TYPES: Final = ("host", "gpu", "transfer")

Row = tuple[str, str, float | None, float, float, float, float, float | None]


@dataclass(frozen=True)
class _Ideal:
    """Per way what its host and GPU parts would be shorter by, and per moment the usual transfer."""

    host_ns: Floats
    gpu_ns: Floats
    transfer_ns: Floats


def what_ifs(model: JobModel) -> list[Row]:
    """Rows of `job_what_if`."""
    ideal = _ideal(model)
    everyone = np.ones(len(model.job.digests), bool)
    usual = len(job_steps(model))
    recorded_ms = _step_ms(model.graph, usual)
    ideal_ms = _step_ms(_idealised(model.graph, ideal, everyone, TYPES), usual)
    whole = recorded_ms - ideal_ms
    of_whole = (ideal_ms, whole, *gain_range(whole, recorded_ms), 1.0 if whole > 0 else None)
    rows: list[Row] = [("S", "all ranks", recorded_ms / ideal_ms, *of_whole)]

    def add(what: str, scope: str, ranks: Bools, types: Iterable[str]) -> None:
        chosen = tuple(types)
        fixed = _step_ms(_idealised(model.graph, ideal, ranks, chosen), usual)
        rest = tuple(each for each in TYPES if each not in chosen)
        # Only this scope as recorded: all else is ideal.
        others = _idealised(model.graph, ideal, ~ranks, TYPES)
        alone = _step_ms(_idealised(others, ideal, ranks, rest) if rest else others, usual)
        gain = recorded_ms - fixed
        share = gain / whole if whole > 0 else None
        rows.append((what, scope, alone / ideal_ms, fixed, gain, *gain_range(gain, recorded_ms), share))

    for kind in TYPES:
        add("S_transfer" if kind == "transfer" else "S_type", kind, everyone, (kind,))
    for position in _slowest(model)[:MOST_RANKS]:
        add("S_rank", f"rank {model.job.ranks[position]}", _only(model, [position]), TYPES)
    stage = np.array(stages(model.job))
    for number in range(int(stage.max(initial=-1)) + 1):
        add("S_stage", f"stage {number}", stage == number, TYPES)
    few = _slowest(model)[: ceil(SLOWEST * len(model.job.digests))]
    add(
        "M_W", "slowest " + ", ".join(f"rank {model.job.ranks[position]}" for position in few), _only(model, few), TYPES
    )
    if stage.max(initial=-1) > 0:
        add("M_S", f"stage {stage.max()}", stage == stage.max(), TYPES)
    add("S_data", "even work", everyone, ("gpu",))
    return rows


def _only(model: JobModel, positions: list[int]) -> Bools:
    chosen = np.zeros(len(model.job.digests), bool)
    chosen[positions] = True
    return chosen


def _slowest(model: JobModel) -> list[int]:
    """Ranks by their own time, the longest first."""
    order: list[int] = np.argsort(-model.pace.own_ns.mean(axis=1), kind="stable").tolist()
    return order


def _ideal(model: JobModel) -> _Ideal:
    graph, pace, role = model.graph, model.pace, roles(model.job)
    target = graph.target
    column = np.searchsorted(pace.steps, graph.step[target]).clip(0, len(pace.steps) - 1)
    shorter = []
    for values, part in ((pace.host_ns, graph.host_ns), (pace.gpu_ns, graph.gpu_ns)):
        usual = np.zeros_like(values)
        for number in np.unique(role).tolist():
            usual[role == number] = np.median(values[role == number], axis=0)
        factor = np.divide(usual, values, out=np.ones_like(values), where=values > 0)
        shorter.append(part * (1 - factor[graph.rank[target], column]))
    return _Ideal(shorter[0], shorter[1], _usual_transfers(model))


def _usual_transfers(model: JobModel) -> Floats:
    """The median transfer of the same kind, size and number of ranks."""
    usual: Floats = model.graph.transfer_ns.copy()
    keys = ["kind", "bytes", "members"]
    calls = model.job.matched.with_columns(pl.col("transfer_ns").median().over(keys).alias("usual_ns"))
    known = dict(calls.select("match", "usual_ns").unique("match").iter_rows())
    ends = np.flatnonzero((model.graph.kind == END) & (model.graph.match >= 0))
    usual[ends] = [known[int(number)] for number in model.graph.match[ends]]
    return usual


def _idealised(graph: JobGraph, ideal: _Ideal, ranks: Bools, types: Iterable[str]) -> JobGraph:
    chosen = tuple(types)
    of_way = ranks[graph.rank[graph.target]]
    length = graph.length_ns.copy()
    if "host" in chosen:
        length -= np.where(of_way, ideal.host_ns, 0.0)
    if "gpu" in chosen:
        length -= np.where(of_way, ideal.gpu_ns, 0.0)
    transfer = graph.transfer_ns
    if "transfer" in chosen:
        transfer = np.where(ranks[graph.rank], np.minimum(ideal.transfer_ns, transfer), transfer)
    return replace(graph, length_ns=length, transfer_ns=transfer)


def _step_ms(graph: JobGraph, usual: int) -> float:
    """The mean of the steps that the job's step stands for: the last so many."""
    return float(job_step_lengths(simulate(graph))[-usual:].mean()) / 1e6
