"""The time on the clock compared: the timeline, idleness by cause, and step by step."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.diff.columns import TIMES, compare, with_delta, with_noise
from warplens.analyses.diff.noise import sample_variance
from warplens.analyses.diff.sides import Pair, Side
from warplens.analyses.time.gaps import CAUSES, named_gaps
from warplens.analyses.time.steps import steps
from warplens.analyses.time.timeline import timeline
from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.table import Column, Table

MEASURES = ("total", "busy", "idle", "computation", "exposed_communication", "exposed_memcpy")
LENGTHS = {"total": "gpu_ms", **{name: f"{name}_ms" for name in MEASURES[1:]}, "host": "host_ms", "step": "step_ms"}
"""Measure → column of the table steps."""


def diff_timeline(pair: Pair) -> Table:
    a, b = (_measures(side) for side in pair.sides)
    rows = [
        (name, float(a[name].mean()), float(b[name].mean()), sample_variance(a[name]), sample_variance(b[name]))
        for name in a
        if name in b
    ]
    schema = {"measure": pl.String} | dict.fromkeys(("a_us", "b_us", "a_var", "b_var"), pl.Float64)
    frame = with_delta(pl.DataFrame(rows, schema=schema, orient="row"))
    frame = with_noise(frame, *(len(side.complete_steps) for side in pair.sides))
    whole = pl.col("delta_us").filter(pl.col("measure") == "total").first()
    share = pl.when(whole != 0).then(100 * pl.col("delta_us") / whole)
    frame = frame.with_columns(share.alias("percent_of_change"), pl.lit(BOTH).alias("status"))
    columns = (
        Column(
            "measure",
            "total: the step's time on the GPU; its parts as in the table timeline; host: on the host; step: the "
            "longer of the two, step by step",
            "",
            pl.String,
        ),
        *TIMES,
    )
    return Table.from_frame(
        "diff_timeline", "one row per measure of the timeline, A against B", columns, frame, *_notes(pair)
    )


def _measures(side: Side) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """µs per measure: one number per complete step, or one for the whole trace."""
    if side.steps:
        frame = steps(side.work).frame.filter(pl.col("step").is_in(list(side.complete_steps)))
        frame = frame.with_columns(pl.max_horizontal("gpu_ms", "host_ms").alias("step_ms"))
        return {name: frame[column].to_numpy() * 1e3 for name, column in LENGTHS.items()}
    frame = timeline(side.work).frame.filter(pl.col("device") == "all")
    times = dict(frame.select("measure", "time_ms").iter_rows())
    return {name: np.array([1e3 * times.get(name, 0.0)]) for name in MEASURES}


def _notes(pair: Pair) -> tuple[str, ...]:
    notes = list(pair.notes)
    if min(len(side.complete_steps) for side in pair.sides) < 2:
        notes.append("noise is unknown: it takes two steps on both sides")
    return tuple(notes)


def diff_idle(pair: Pair) -> Table:
    frame = compare(pair, [_gaps(side) for side in pair.sides], ["cause"])
    columns = (
        Column("cause", f"why the GPU was idle: {', '.join(CAUSES)}", "", pl.String),
        *TIMES,
        Column("a_count", "gaps that have a part with this cause in A, per step or in the whole trace", "", pl.Float64),
        Column("b_count", "the same in B", "", pl.Float64),
    )
    several = [side.label for side in pair.sides if side.work.gpu["device"].n_unique() > 1]
    notes = (*_notes(pair), *(f"{label} has several GPUs: idle time is their mean" for label in several))
    return Table.from_frame("diff_idle", "one row per cause of idleness, A against B", columns, frame, *notes)


def _gaps(side: Side) -> pl.DataFrame:
    """One row per part of an idle gap, in the step whose time on the GPU it is a part of.

    The last step ends with its own work: no gap after that is a part of it.
    """
    gaps, gpu = named_gaps(side.work), side.work.gpu
    devices = max(1, gpu["device"].n_unique())
    frame = gaps.select("cause", "start_ns", (pl.col("gap_ns") / devices).alias("dur_ns"))
    if not side.steps:
        return frame.with_columns(pl.lit(0, pl.Int32).alias("step"))
    launched = gpu.filter(pl.col("step") >= 0)
    first = launched.group_by("step").agg(pl.col("start_ns").min()).sort("start_ns")
    last_end = pl.lit((launched["start_ns"] + launched["dur_ns"]).max(), pl.Int64)
    step_of_gap = np.searchsorted(first["start_ns"].to_numpy(), frame["start_ns"].to_numpy(), side="right") - 1
    step = first["step"].gather(np.maximum(step_of_gap, 0)).alias("step")
    inside = frame.with_columns(step).filter(pl.Series(step_of_gap >= 0), pl.col("start_ns") < last_end)
    return inside.filter(pl.col("step").is_in(list(side.complete_steps)))


def diff_steps(pair: Pair) -> Table:
    a, b = (_step_rows(side) for side in pair.sides)
    joined = a.join(b, on="position", how="full", coalesce=True, suffix="_b").sort("position")
    in_a, in_b = pl.col("step").is_not_null(), pl.col("step_b").is_not_null()
    status = pl.when(in_a & in_b).then(pl.lit(BOTH)).when(in_a).then(pl.lit(ONLY_A)).otherwise(pl.lit(ONLY_B))
    names = {"step": "a_step", "step_b": "b_step"}
    for name in ("", "busy_", "idle_", "host_"):
        names |= {f"{name}us": f"a_{name}us", f"{name}us_b": f"b_{name}us"}
    frame = with_delta(joined.with_columns(status.alias("status")).rename(names))
    columns = (
        Column("position", "position among the steps with GPU work, from 1", "", pl.Int64),
        Column("a_step", "its number in A", "", pl.Int64),
        Column("b_step", "its number in B", "", pl.Int64),
        Column("a_us", "length of the step on A's GPU, idle time included", "us", pl.Float64),
        Column("b_us", "the same in B", "us", pl.Float64),
        *TIMES[2:4],
        Column("status", "both, only in A, or only in B", "", pl.String),
        *(
            Column(f"{side.lower()}_{name}_us", f"GPU {name} in {side}'s step", "us", pl.Float64)
            for name in ("busy", "idle")
            for side in "AB"
        ),
        *(Column(f"{side.lower()}_host_us", f"length of {side}'s step on the host", "us", pl.Float64) for side in "AB"),
    )
    return Table.from_frame(
        "diff_steps", "one row per step, A against B in their order", columns, frame, *pair.notes[:1]
    )


def _step_rows(side: Side) -> pl.DataFrame:
    frame = steps(side.work).frame.filter(pl.col("step").is_in(list(side.steps)))
    times = [(1e3 * pl.col(f"{name}_ms")).alias(alias) for name, alias in
             (("gpu", "us"), ("busy", "busy_us"), ("idle", "idle_us"), ("host", "host_us"))]  # fmt: skip
    return frame.select(pl.int_range(1, pl.len() + 1).alias("position"), "step", *times)
