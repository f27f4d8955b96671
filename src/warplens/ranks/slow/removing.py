"""The job's graph without some ranks' excess, and what its step then wins."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Bools
from warplens.ranks.condensing import END
from warplens.ranks.job_graph import JobGraph, job_step_lengths, simulate
from warplens.ranks.kinds import POINT_TO_POINT
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages
from warplens.ranks.slow.records import Excess

PARTS: Final = ("host", "gpu", "other")
NO_WAY: Final = -1e15
"""Length of a way that is none: 11 days."""


def without(model: JobModel, excess: Excess, graph: JobGraph | None = None) -> JobGraph:
    """The ranks' host and GPU parts as long as their peers', from a step on; as recorded before it.

    Way by way, where peers have the same one; a moment that peers reach by other ways is reached by those alone. Where
    no peer has such a moment, every way to it is shorter by the same share.
    """
    graph = model.graph if graph is None else graph
    steps = [*model.pace.steps[excess.first :], -1]
    chosen = np.isin(graph.rank[graph.target], excess.positions) & np.isin(graph.step[graph.target], steps)
    usual = _usual_ways(model, graph, excess.positions)
    removable, scaled = np.zeros(len(graph.length_ns)), np.zeros(len(graph.length_ns))
    for name in PARTS:
        more = float(getattr(excess, f"{name}_ns"))
        own = float(getattr(model.pace, f"{name}_ns")[list(excess.positions), excess.first :].mean())
        if more > 0 and own > 0:
            part = np.maximum(_part(graph, name), 0.0)
            removable += part
            scaled += min(1.0, more / own) * part
    length = np.where(np.isnan(usual), graph.length_ns - scaled, np.maximum(usual, graph.length_ns - removable))
    length[np.isnan(usual) & _has_usual_ways(graph, usual)] = NO_WAY
    return graph.with_lengths(np.where(chosen, length, graph.length_ns))


def _has_usual_ways(graph: JobGraph, usual: Floats) -> Bools:
    """Of each way, whether another leads to the same moment that is usual.

    One that is not usual is a wait that was inferred from a coincidence: the rank was late for something else.
    """
    reached = np.zeros(len(graph), bool)
    reached[graph.target[~np.isnan(usual)]] = True
    return reached[graph.target]


def _usual_ways(model: JobModel, graph: JobGraph, positions: tuple[int, ...]) -> Floats:
    """The median length of each way of these ranks over the peers that have the same; NaN where few of them have it."""
    role, stage = roles(model.job), np.array(stages(model.job))
    frame = pl.DataFrame({
        "rank": graph.rank[graph.target], "target": graph.label[graph.target], "source": graph.label[graph.source],
        "length": graph.length_ns,
    })  # fmt: skip
    usual = np.full(len(frame), np.nan)
    for number in np.unique(stage[list(positions)]).tolist():
        own = [position for position in positions if stage[position] == number]
        peers = np.setdiff1d(np.flatnonzero((role == role[own[0]]) & (stage == number)), positions)
        if len(peers):
            is_own = frame["rank"].is_in(own).to_numpy()
            usual[is_own] = _medians(frame, peers.tolist())[is_own]
    return usual


def _medians(frame: pl.DataFrame, peers: list[int]) -> Floats:
    keys = ["target", "source"]
    known = (
        frame.filter(pl.col("rank").is_in(peers)).group_by(keys).agg(pl.col("length").median().alias("usual"), pl.len())
    )
    known = known.filter(pl.col("len") * 2 > len(peers))
    found: Floats = frame.join(known, on=keys, how="left", maintain_order="left")["usual"].fill_null(np.nan).to_numpy()
    return found


def _part(graph: JobGraph, name: str) -> Floats:
    if name == "other":
        return graph.length_ns - graph.host_ns - graph.gpu_ns
    part: Floats = graph.host_ns if name == "host" else graph.gpu_ns
    return part


def gain_ms(model: JobModel, graph: JobGraph, first: int) -> float:
    """What a step of the job wins with another graph, on average from some step on."""
    after = job_step_lengths(simulate(without_unseen_waits(model, graph, model.pace.steps[first:])))
    return float((model.step_ns - after)[first:].mean()) / 1e6


def without_unseen_waits(model: JobModel, graph: JobGraph, affected: list[int]) -> JobGraph:
    """Collectives that lack a rank take as long in the affected steps as in others: whom they wait for is not known.

    Such a rank may be missing, or its traces do not name their groups; it is held up like all others.
    """
    is_whole = pl.col("kind").is_in(list(POINT_TO_POINT)) | (pl.col("members") >= pl.col("group_size"))
    lacking = (pl.col("match") < 0) | ~is_whole
    calls = model.job.calls.filter(lacking & pl.col("step").is_in(model.pace.steps))
    is_affected = pl.col("step").is_in(affected)
    if len(affected) == len(model.pace.steps) or calls.is_empty():
        return graph
    keys = ["rank", "kind", "bytes"]
    calls = calls.with_columns(pl.when(pl.col("match") < 0).then("dur_ns").otherwise("transfer_ns").alias("lasts_ns"))
    # They differ from call to call anyway: only those that are longer than any of the others wait for more.
    lasts = pl.col("lasts_ns")
    others = (
        calls.filter(~is_affected).group_by(keys).agg(lasts.median().alias("usual_ns"), lasts.max().alias("most_ns"))
    )
    longer = calls.filter(is_affected).join(others, on=keys).filter(lasts > pl.col("most_ns"))
    usual = {(rank, event): ns for rank, event, ns in longer.select("rank", "id", "usual_ns").iter_rows()}
    changed = graph.transfer_ns.copy()
    for end in np.flatnonzero(graph.kind == END).tolist():
        changed[end] = min(changed[end], usual.get((int(graph.rank[end]), int(graph.id[end])), np.inf))
    return replace(graph, transfer_ns=changed)


def with_transfers(graph: JobGraph, transfers: dict[int, float]) -> JobGraph:
    """Some collectives with shorter transfers, in ns by their match."""
    changed = graph.transfer_ns.copy()
    ends = np.flatnonzero((graph.kind == END) & np.isin(graph.match, list(transfers)))
    changed[ends] = [min(changed[end], transfers[int(graph.match[end])]) for end in ends.tolist()]
    return replace(graph, transfer_ns=changed)


def with_even_messages(model: JobModel, graph: JobGraph, positions: tuple[int, ...]) -> JobGraph:
    """Larger messages of these ranks with the transfers that the same calls of other groups have."""
    calls = model.job.matched
    own = calls.filter(pl.col("rank").is_in(list(positions)))["match"].unique()
    is_own = pl.col("match").is_in(own.implode())
    each = calls.group_by("match").agg(
        pl.col("kind", "step", "number", "members", "transfer_ns").first(), pl.col("bytes").max()
    )
    keys = ["kind", "step", "number", "members"]
    others = each.filter(~is_own).group_by(keys).agg(
        pl.col("bytes").median().alias("usual_bytes"), pl.col("transfer_ns").median().alias("usual_ns")
    )  # fmt: skip
    larger = each.filter(is_own).join(others, on=keys).filter(pl.col("bytes") > 1.02 * pl.col("usual_bytes"))
    return with_transfers(graph, dict(larger.select("match", "usual_ns").iter_rows()))
