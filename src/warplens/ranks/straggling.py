"""Which ranks hold the others up, since when and why.

A rank's own time (`own_pace`) is compared with that of its peers in the same step. What it takes longer, from some step
on, is its excess; the job's step is then simulated without it. The cause is the part of its own time that the excess is
in: the host, the GPU (slower, or with more to do), its data. Transfers are compared with those of the same kind and
size in other groups and steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Bools, Ints
from warplens.ranks.condensing import END, ORIGIN
from warplens.ranks.job_graph import JobGraph, job_step_lengths, simulate
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages

HOST, GPU, DATA, NETWORK, IMBALANCE, UNCLEAR = "host", "GPU", "data", "network", "imbalance", "unclear"
CAUSES: Final = (HOST, GPU, DATA, NETWORK, IMBALANCE, UNCLEAR)
LEAST_SHARE: Final = 0.02
"""Of the step: a smaller excess is not worth a row."""
LEAST_CHANGE: Final = 0.1
"""Of the excess: what it must have grown by at a step for the rank to have been slow only since then."""
NOISE: Final = 4.0
"""How many times the usual differences between ranks an excess has to be."""
EXPLAINS: Final = 0.8
FEW_STEPS: Final = 3
MANY_STEPS: Final = 4
ODD_FIRST: Final = 1.5
UNEVEN: Final = 1.2
"""A stage that computes so many times as long as the median one is uneven."""
HIDDEN_IN_ONE: Final = 0.6
"""Of such an excess: what has to be in one place, to tell it from a host that is a little slow everywhere."""
HIDDEN_SHARE: Final = 0.08
"""Of the step: a host that is slower by so much is named even where nobody waits for it."""
MORE_WORK: Final = 0.05
"""Share of elements or kernels above its peers' from which on a rank has more to do."""
MOST_CANDIDATES: Final = 24
"""Ranks that the job is simulated without the excess of."""
NUMBERED: Final = r"#\d+"
BEFORE_FIRST_STEP: Final = "before its first step"
"""The place of what makes a rank begin late."""


@dataclass(frozen=True)
class Straggler:
    """A rank, or several that are slow alike, that the others wait for."""

    positions: tuple[int, ...]
    since: int
    """The first step."""
    cause: str
    excess_ms: float
    """What it takes longer than its peers, per step since then."""
    gain_ms: float
    """What the job's step would win without it, per step since then."""
    explained: float
    """Share of the excess that the cause explains."""
    place: str
    """The op, Python line or host event that takes longer there than elsewhere."""
    confidence: str
    what: str = ""


@dataclass(frozen=True)
class _Excess:
    position: int
    first: int
    """Index of the step."""
    host_ns: float
    gpu_ns: float
    other_ns: float

    @property
    def total_ns(self) -> float:
        return self.host_ns + self.gpu_ns + self.other_ns


def stragglers(model: JobModel) -> list[Straggler]:
    """Those that cost the job at least `LEAST_SHARE` of its step, the costliest first."""
    if not model.is_known or len(model.job.digests) < 2:
        return []
    least = LEAST_SHARE * float(np.median(model.step_ns)) / 1e6
    slow = [each for each in _slow_ranks(model) if each.gain_ms >= least]
    named = {position for each in slow for position in each.positions}
    others = [*_late_starts(model), *(each for each in _slow_links(model) if each.gain_ms >= least)]
    named |= {position for each in others for position in each.positions}
    hidden = [each for each in (*_uneven_stages(model), *_slow_hosts(model)) if each.positions[0] not in named]
    return sorted([*slow, *others, *hidden], key=lambda each: -each.gain_ms)


def first_usable(model: JobModel) -> int:
    """Index of the first step to compare: the first one of a recording may be long for reasons of its own."""
    steps = model.step_ns
    return 1 if len(steps) >= MANY_STEPS and steps[0] > ODD_FIRST * np.median(steps) else 0


def _slow_ranks(model: JobModel) -> list[Straggler]:
    pace, role = model.pace, roles(model.job)
    parts = {name: _excess_over_peers(getattr(pace, f"{name}_ns"), role) for name in ("host", "gpu", "other")}
    own = _excess_over_peers(pace.own_ns, role)
    begin = first_usable(model)
    noise = _noise(own[:, begin:])
    typical = float(np.median(model.step_ns))
    candidates = []
    for position in range(len(own)):
        first, mean = change_point(own[position, begin:])
        first += begin
        count = own.shape[1] - first
        if mean < LEAST_SHARE * typical or mean < NOISE * noise / np.sqrt(count):
            continue
        means = {name: grown(part[position], begin, first) for name, part in parts.items()}
        candidates.append(_Excess(position, first, means["host"], means["gpu"], means["other"]))
    candidates.sort(key=lambda each: -each.total_ns)
    return [_straggler(model, excess) for excess in candidates[:MOST_CANDIDATES]]


def _excess_over_peers(values: Floats, role: Ints) -> Floats:
    """What each rank takes longer than the median of the ranks that do the same, step by step."""
    excess = np.zeros_like(values)
    for number in np.unique(role).tolist():
        own = role == number
        excess[own] = values[own] - np.median(values[own], axis=0)
    return excess


def _noise(excess: Floats) -> float:
    """How far ranks usually are from their peers."""
    return 1.48 * float(np.median(np.abs(excess)))


def change_point(series: Floats) -> tuple[int, float]:
    """From which index on a series is above zero, and its mean from there: the split that explains most of it.

    >>> change_point(np.array([0.0, 0.1, 0.0, 5.0, 5.1, 4.9]))
    (3, 5.0)
    >>> change_point(np.array([5.0, 5.0, 5.0]))
    (0, 5.0)
    """
    sizes = np.arange(len(series), 0, -1)
    means = np.cumsum(series[::-1])[::-1] / sizes
    first = int(np.argmax(np.where(means > 0, means**2 * sizes, 0.0)))
    return first, float(means[first])


def grown(series: Floats, begin: int, first: int) -> float:
    """The mean of a series from `first` on, less its mean before: what changed then, not what was always so."""
    before = float(series[begin:first].mean()) if first > begin else 0.0
    return float(series[first:].mean()) - before


def _straggler(model: JobModel, excess: _Excess) -> Straggler:
    steps = model.pace.steps
    affected = steps[excess.first :]
    cause, explained, place = _cause(model, excess)
    kept = _part_of(excess, cause)
    gain = gain_without(model, _without_excess(model, kept), excess.first)
    stage = stages(model.job)[excess.position]
    what = f"stage {stage}" if stage >= 0 and cause == IMBALANCE else ""
    confidence = "high" if explained >= EXPLAINS and len(affected) > 1 else "low"
    return Straggler(
        (excess.position,), affected[0], cause, excess.total_ns / 1e6, gain, explained, place, confidence, what
    )


def _cause(model: JobModel, excess: _Excess) -> tuple[str, float, str]:
    """The part that explains most of the excess; "unclear" where none explains enough."""
    rest = max(0.0, excess.other_ns - 2 * _noise(_excess_over_peers(model.pace.other_ns, roles(model.job))))
    parts = {HOST: excess.host_ns, GPU: excess.gpu_ns, UNCLEAR: rest}
    positive = sum(max(0.0, part) for part in parts.values())
    name = max(parts, key=lambda each: parts[each])
    explained = parts[name] / positive if positive else 0.0
    if name == GPU:
        cause, place = _cause_on_gpu(model, excess)
    elif name == HOST:
        cause, place = _cause_on_host(model, excess)
    else:
        cause, place = UNCLEAR, ""
    return (cause if explained >= EXPLAINS else UNCLEAR), explained, place


def _part_of(excess: _Excess, cause: str) -> _Excess:
    """What is removed with the cause: its own part of the excess; all of it where the cause is unclear."""
    if cause in (HOST, DATA):
        return replace(excess, gpu_ns=0.0, other_ns=0.0)
    return replace(excess, host_ns=0.0, other_ns=0.0) if cause in (GPU, IMBALANCE) else excess


def _per_step(model: JobModel, frame: str, steps: list[int], keys: list[str], values: list[str]) -> pl.DataFrame:
    """Means per step and rank of a frame of the digests, by `keys`."""
    parts = [
        digest.frames[frame]
        .filter(pl.col("step").is_in(steps))
        .with_columns(pl.lit(position).alias("rank"), (pl.col(keys[0]).str.replace_all(NUMBERED, "#")))
        for position, digest in enumerate(model.job.digests)
    ]
    return pl.concat(parts).group_by("rank", *keys).agg(pl.col(values).sum() / max(1, len(steps)))


def _against_peers(frame: pl.DataFrame, position: int, keys: list[str], value: str, count: int) -> pl.DataFrame:
    """What a rank has more of than the median of the others, by `keys`, the most first."""
    others = frame.filter(pl.col("rank") != position).group_by(keys).agg(
        pl.col(value).sort(), pl.len().alias("ranks")
    )  # fmt: skip
    padded = pl.when(pl.col("ranks") * 2 > count - 1).then(pl.col(value).list.median()).otherwise(0.0)
    own = frame.filter(pl.col("rank") == position).select(*keys, pl.col(value).alias("own"))
    joined = own.join(others.select(*keys, padded.alias("usual")), on=keys, how="left").with_columns(
        pl.col("usual").fill_null(0.0)
    )
    return joined.with_columns((pl.col("own") - pl.col("usual")).alias("more")).sort("more", descending=True)


def _cause_on_host(model: JobModel, excess: _Excess) -> tuple[str, str]:
    """What the host does longer than elsewhere, and whether it is loading data."""
    rows = _longer_on_host(model, excess)
    if rows.is_empty():
        return HOST, ""
    loading = rows.filter("is_loading")
    if float(loading["more"].clip(0).sum()) >= 0.5 * excess.host_ns:
        return DATA, _host_place(loading)
    return HOST, _host_place(rows)


def _longer_on_host(model: JobModel, excess: _Excess) -> pl.DataFrame:
    steps = model.pace.steps[excess.first :]
    keys = ["name", "line", "is_loading"]
    frame = _per_step(model, "host", steps, keys, ["host_ns", "count"])
    return _against_peers(frame, excess.position, keys, "host_ns", len(model.job.digests))


def _host_place(rows: pl.DataFrame) -> str:
    name, line = str(rows["name"][0]), str(rows["line"][0])
    text = "between ops" if name.startswith("ProfilerStep#") else name
    return f"{text} at {line}" if line and line not in text else text


def _cause_on_gpu(model: JobModel, excess: _Excess) -> tuple[str, str]:
    """Most ops on more elements, or a stage of a pipeline: imbalance. Else the GPU: slower, or with other work."""
    steps, count = model.pace.steps[excess.first :], len(model.job.digests)
    frame = _per_step(model, "work", steps, ["op", "line"], ["gpu_ns", "elements", "count"])
    slower = _against_peers(frame, excess.position, ["op", "line"], "gpu_ns", count)
    if slower.is_empty():
        return GPU, ""
    op, line = slower["op"][0], slower["line"][0]
    place = f"{op} at {line}" if line else str(op)
    in_pipeline = stages(model.job)[excess.position] >= 0
    return (IMBALANCE if in_pipeline or _has_more_data(frame, excess.position) else GPU), place


def _has_more_data(frame: pl.DataFrame, position: int) -> bool:
    """Whether most of what the peers do, by its time, is done here on more elements."""
    keys = ["op", "line"]
    each = (pl.col("elements") / pl.col("count").clip(1e-9)).alias("each")
    others = frame.filter(pl.col("rank") != position).group_by(keys).agg(
        each.median().alias("usual"), pl.col("gpu_ns").median()
    )  # fmt: skip
    own = frame.filter(pl.col("rank") == position).select(*keys, each)
    both = others.join(own, on=keys, how="inner").filter(pl.col("usual") > 0)
    grown = both.filter(pl.col("each") > (1 + MORE_WORK) * pl.col("usual"))
    return float(grown["gpu_ns"].sum()) >= 0.5 * float(both["gpu_ns"].sum()) > 0


def _without_excess(model: JobModel, excess: _Excess) -> JobGraph:
    """The graph with that rank's host and GPU parts as long as its peers', from that step on."""
    graph, pace = model.graph, model.pace
    steps = set(pace.steps[excess.first :])
    chosen = (graph.rank[graph.target] == excess.position) & np.isin(graph.step[graph.target], [*steps, -1])
    shorter = np.zeros(len(graph.length_ns))
    for name, more in (("host_ns", excess.host_ns), ("gpu_ns", excess.gpu_ns), ("other_ns", excess.other_ns)):
        usual = float(getattr(pace, name)[excess.position, excess.first :].mean())
        if more <= 0 or usual <= 0:
            continue
        part = graph.length_ns - graph.host_ns - graph.gpu_ns if name == "other_ns" else getattr(graph, name)
        shorter += min(1.0, more / usual) * np.maximum(part, 0.0)
    return graph.with_lengths(np.where(chosen, graph.length_ns - shorter, graph.length_ns))


def gain_without(model: JobModel, graph: JobGraph, first: int) -> float:
    """What a step of the job wins, in ms, on average from some step on, with another graph."""
    after = job_step_lengths(simulate(graph))
    return float((model.step_ns - after)[first:].mean()) / 1e6


def _uneven_stages(model: JobModel) -> list[Straggler]:
    """Stages of a pipeline that compute longer than the others, by the sums of their kernels."""
    stage = np.array(stages(model.job))
    if stage.max(initial=-1) < 1:
        return []
    begin, steps = first_usable(model), model.pace.steps
    times = np.array([
        digest.frames["work"].filter(pl.col("step").is_in(steps[begin:])).group_by("step").agg(pl.col("gpu_ns").sum())
        ["gpu_ns"].median() or 0.0
        for digest in model.job.digests
    ])  # fmt: skip
    of_stage = np.array([np.median(times[stage == number]) for number in range(stage.max() + 1)])
    slowest = int(np.argmax(of_stage))
    more = float(of_stage[slowest] - np.median(of_stage))
    if of_stage[slowest] < UNEVEN * np.median(of_stage) or more < LEAST_SHARE * np.median(model.step_ns):
        return []
    positions = tuple(np.flatnonzero(stage == slowest).tolist())
    excess = _Excess(positions[0], begin, 0.0, more, 0.0)
    gain = gain_without(model, _without_excess(model, excess), begin)
    _, place = _cause_on_gpu(model, excess)
    return [Straggler(positions, steps[begin], IMBALANCE, more / 1e6, max(0.0, gain), 1.0, place, "high",
                      f"stage {slowest}")]  # fmt: skip


def _slow_hosts(model: JobModel) -> list[Straggler]:
    """Hosts that take longer than their peers, whether or not it shows: what comes after it may hide it."""
    begin, steps = first_usable(model), model.pace.steps
    used = steps[begin:]
    frame = _host_time(model, used)
    excess = _excess_over_peers(frame, roles(model.job))
    noise, typical = _noise(excess), float(np.median(model.step_ns))
    found = []
    for position in range(len(excess)):
        first, mean = change_point(excess[position])
        if (
            len(used) - first < FEW_STEPS
            or mean < HIDDEN_SHARE * typical
            or mean < NOISE * noise / np.sqrt(len(used) - first)
        ):
            continue
        own = _Excess(position, first + begin, mean, 0.0, 0.0)
        changed = grown(excess[position], 0, first)
        most = float(_longer_on_host(model, own)["more"][0]) - (mean - changed)
        if most < max(HIDDEN_IN_ONE * mean, HIDDEN_SHARE * typical):
            continue
        own = replace(own, host_ns=min(changed, most))
        cause, place = _cause_on_host(model, own)
        gain = max(0.0, gain_without(model, _without_excess(model, own), own.first))
        found.append(Straggler((position,), used[first], cause, own.host_ns / 1e6, gain, 1.0, place,
                               "high" if len(used) - first > 1 else "low"))  # fmt: skip
    return found


def _host_time(model: JobModel, steps: list[int]) -> Floats:
    """The host's own time of each rank (rows) in each step (columns)."""
    times = np.zeros((len(model.job.digests), len(steps)))
    for position, digest in enumerate(model.job.digests):
        sums = digest.frames["host"].filter(pl.col("step").is_in(steps)).group_by("step").agg(pl.col("host_ns").sum())
        times[position, np.searchsorted(steps, sums["step"].to_numpy())] = sums["host_ns"].to_numpy()
    return times


def _late_starts(model: JobModel) -> list[Straggler]:
    """Of a single step, the rank that begins it last: what made it late ran before the recording."""
    late, typical = model.pace.late_ns, float(np.median(model.step_ns))
    if len(model.pace.steps) > 2 or np.ptp(late) < 0.1 * typical:
        return []
    position = int(np.argmax(late))
    graph = model.graph
    own = (graph.rank[graph.target] == position) & (graph.kind[graph.source] == ORIGIN)
    lengths = np.where(own, graph.length_ns - max(0.0, late[position]), graph.length_ns)
    after = job_step_lengths(simulate(graph.with_lengths(lengths)))
    gain = float((model.step_ns - after)[0]) / 1e6
    late_ms = float(np.ptp(late)) / 1e6
    what = f"its step begins {late_ms:.1f} ms after the first rank's"
    return [Straggler((position,), model.pace.steps[0], HOST, late_ms, max(0.0, gain), 1.0, BEFORE_FIRST_STEP,
                      "high", what)]  # fmt: skip


def _slow_links(model: JobModel) -> list[Straggler]:
    """A rank all of whose groups take longer for the same transfers than other groups, or than before."""
    excess, first = slow_transfers(model)
    if excess.is_empty():
        return []
    steps = model.pace.steps
    by_rank = excess.group_by("rank").agg(pl.col("slow").mean(), pl.col("more_ns").sum(), pl.col("groups").max())
    worst = by_rank.sort("slow", "more_ns", descending=True).head(1)
    position, slow = int(worst["rank"][0]), float(worst["slow"][0])
    if slow < 0.6:
        return []
    alike = by_rank.filter(pl.col("slow") > 0.9 * slow)["rank"].to_list()
    positions = tuple(sorted(alike)) if len(alike) > 1 else (position,)
    graph = _with_usual_transfers(model, excess.filter(pl.col("rank") == position))
    gain = gain_without(model, graph, first)
    own = excess.filter(pl.col("rank") == position).sort("more_ns", descending=True)
    place = f"{own['kind'][0]} in group {own['group'][0]}"
    per_step = float(own["more_ns"].sum()) / 1e6 / max(1, len(steps) - first)
    return [Straggler(positions, steps[first], NETWORK, per_step, gain, min(1.0, slow), place,
                      "high" if len(positions) == 1 else "low")]  # fmt: skip


SLOW: Final = 1.2
"""A transfer that takes so many times as long as usual is slow."""


def slow_transfers(model: JobModel) -> tuple[pl.DataFrame, int]:
    """Per rank, kind and group: which share of its transfers is slow, and by how much in all; and since which step."""
    calls = model.job.matched.filter((pl.col("transfer_ns") > 0) & pl.col("step").is_in(model.pace.steps))
    keys = ["kind", "bytes", "members"]
    usual = pl.col("transfer_ns").quantile(0.3, "lower").over(keys)
    calls = calls.with_columns(usual.alias("usual_ns"), pl.len().over(keys).alias("alike")).filter(pl.col("alike") >= 6)
    ratio = pl.col("transfer_ns") / pl.col("usual_ns")
    calls = calls.with_columns(
        (ratio > SLOW).alias("is_slow"), (pl.col("transfer_ns") - pl.col("usual_ns")).alias("more")
    )
    by_step = calls.group_by("step").agg(pl.col("more").filter(pl.col("is_slow")).sum()).sort("step")
    if by_step.is_empty():
        return calls.head(0), 0
    series = np.zeros(len(model.pace.steps))
    series[np.searchsorted(model.pace.steps, by_step["step"].to_numpy())] = by_step["more"].to_numpy()
    first, mean = change_point(series)
    since = model.pace.steps[first]
    later = calls.filter(pl.col("step") >= since)
    if mean <= 0 or later.is_empty():
        return calls.head(0), 0
    return (
        later.group_by("rank", "kind", "group")
        .agg(pl.col("is_slow").mean().alias("slow"), pl.col("more").clip(0).sum().alias("more_ns"),
             pl.col("group_key").n_unique().alias("groups"), pl.col("match").unique())
        .filter(pl.col("more_ns") > 0),
        first,
    )  # fmt: skip


def _with_usual_transfers(model: JobModel, excess: pl.DataFrame) -> JobGraph:
    graph = model.graph
    matches = excess["match"].explode().unique()
    calls = model.job.matched
    usual = calls.with_columns(
        pl.col("transfer_ns").quantile(0.3, "lower").over("kind", "bytes", "members").alias("usual_ns")
    ).filter(pl.col("match").is_in(matches.implode()))
    known = dict(usual.select("match", "usual_ns").unique("match").iter_rows())
    transfer = graph.transfer_ns.copy()
    ends: Bools = (graph.kind == END) & np.isin(graph.match, list(known))
    for end in np.flatnonzero(ends).tolist():
        transfer[end] = min(transfer[end], known[int(graph.match[end])])
    return replace(graph, transfer_ns=transfer)
