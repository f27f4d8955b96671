"""Why ranks take longer: the part of their own time that the excess is in, and what differs there from the others."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Final

import polars as pl

from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages
from warplens.ranks.slow.comparing import against_others, excess_over_peers, per_step, usual_difference
from warplens.ranks.slow.records import DATA, EXPLAINS, GPU, HOST, IMBALANCE, UNCLEAR, Excess

MORE_WORK: Final = 0.05
"""Share above the others' from which on a rank has more to do."""


def cause_of(model: JobModel, excess: Excess) -> tuple[str, float, str]:
    """The cause, the share of the excess that it explains, and the place."""
    usual = usual_difference(excess_over_peers(model.pace.other_ns, roles(model.job)))
    parts = {HOST: excess.host_ns, GPU: excess.gpu_ns, UNCLEAR: max(0.0, excess.other_ns - 2 * usual)}
    positive = sum(max(0.0, part) for part in parts.values())
    name = max(parts, key=lambda each: parts[each])
    explained = parts[name] / positive if positive else 0.0
    if name == UNCLEAR or explained < EXPLAINS:
        return UNCLEAR, explained, ""
    cause, place = cause_on_gpu(model, excess) if name == GPU else cause_on_host(model, excess)
    return cause, explained, place


def part_of(excess: Excess, cause: str) -> Excess:
    """What is removed with the cause: its own part of the excess; all of it where the cause is unclear."""
    if cause in (HOST, DATA):
        return replace(excess, gpu_ns=0.0, other_ns=0.0)
    return replace(excess, host_ns=0.0, other_ns=0.0) if cause in (GPU, IMBALANCE) else excess


def cause_on_host(model: JobModel, excess: Excess) -> tuple[str, str]:
    """What the host does longer than elsewhere, and whether it is loading data."""
    rows = longer_on_host(model, excess)
    if rows.is_empty():
        return HOST, ""
    loading = rows.filter("is_loading")
    if float(loading["more"].clip(0).sum()) >= 0.5 * excess.host_ns:
        return DATA, _host_place(loading)
    return HOST, _host_place(rows)


def longer_on_host(model: JobModel, excess: Excess) -> pl.DataFrame:
    """By host event: what the ranks take longer in it than the others."""
    keys = ["name", "line", "is_loading"]
    frame = per_step(model, "host", excess.first, keys, ["host_ns", "count"])
    return against_others(frame, excess.positions, keys, "host_ns")


def _host_place(rows: pl.DataFrame) -> str:
    name, line = str(rows["name"][0]), str(rows["line"][0])
    text = "between ops" if name.startswith("ProfilerStep#") else name
    return f"{text} at {line}" if line and line not in text else text


def cause_on_gpu(model: JobModel, excess: Excess) -> tuple[str, str]:
    """Most ops on more elements, or a stage with more of them: imbalance. Else the GPU: slower, or with other work."""
    frame = per_step(model, "work", excess.first, ["op", "line"], ["gpu_ns", "elements", "count"])
    slower = against_others(frame, excess.positions, ["op", "line"], "gpu_ns")
    if slower.is_empty():
        return GPU, ""
    op, line = str(slower["op"][0]), str(slower["line"][0])
    has_more = _has_more_data(frame, excess.positions) or _is_larger_stage(model, frame, excess.positions)
    return (IMBALANCE if has_more else GPU), f"{op} at {line}" if line else op


def _has_more_data(frame: pl.DataFrame, positions: tuple[int, ...]) -> bool:
    """Whether most of what the others do, by its time, is done here on more elements."""
    keys, is_own = ["op", "line"], pl.col("rank").is_in(list(positions))
    each = (pl.col("elements") / pl.col("count").clip(1e-9)).alias("each")
    others = frame.filter(~is_own).group_by(keys).agg(each.median().alias("usual"), pl.col("gpu_ns").median())
    own = frame.filter(is_own).group_by(keys).agg(each.median())
    both = others.join(own, on=keys, how="inner").filter(pl.col("usual") > 0)
    more = both.filter(pl.col("each") > (1 + MORE_WORK) * pl.col("usual"))
    return float(more["gpu_ns"].sum()) >= 0.5 * float(both["gpu_ns"].sum()) > 0


def _is_larger_stage(model: JobModel, frame: pl.DataFrame, positions: tuple[int, ...]) -> bool:
    """Of a pipeline: whether these ranks launch more than those of other stages, and all ranks of their stage do."""
    stage = stages(model.job)
    if stage[positions[0]] < 0:
        return False
    counts = dict(frame.group_by("rank").agg(pl.col("count").sum()).iter_rows())
    same = {stage[position] for position in positions}
    own = median(counts.get(position, 0.0) for position in positions)
    beside = [count for rank, count in counts.items() if stage[rank] in same and rank not in positions]
    if beside and own <= (1 + MORE_WORK) * median(beside):
        return False
    others = [count for rank, count in counts.items() if rank not in positions]
    return bool(others) and own > (1 + MORE_WORK) * median(others)
