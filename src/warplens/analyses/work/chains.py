"""`chains`: runs of elementwise kernels, each reading what the one before it wrote.

Ops of one size that follow each other on a stream could be one kernel. Fused, every result but the last would stay in
registers: neither written nor read again. That is a bound: a result that something else needs later (the backward
pass, say) must still be written.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.roofline.costing import Costing, costing
from warplens.analyses.shared import shared
from warplens.analyses.work.attention import score_elements
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import places_of
from warplens.analyses.workspace import Workspace, percent_of
from warplens.costs.tensors import ITEM_BYTES
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints

FUSABLE: Final = frozenset({"pointwise", "cast"})
MIN_LENGTH: Final = 2
COLUMNS = (
    Column("ops", "the ops in order", "", pl.String),
    Column("length", "ops in a chain", "", pl.Int64),
    Column("elements", "elements of each op", "", pl.Int64),
    Column("count", "times this chain runs", "", pl.Int64),
    Column("total_us", "GPU time of all of them", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("bytes", "bytes one chain moves", "bytes", pl.Float64),
    Column(
        "saved_bytes",
        "bytes of intermediate results, written and read again, that fusion keeps in registers",
        "bytes",
        pl.Float64,
    ),
    Column("saved_us", "time those bytes take, all chains together, at the chain's own speed", "us", pl.Float64),
    Column("casts", "ops of the chain that only change the type", "", pl.Int64),
    Column("cast_us", "GPU time of those", "us", pl.Float64),
    Column("line", "Python line with most of the time", "", pl.String),
    Column("module", "nn.Module with most of the time", "", pl.String),
    STEP_TIME,
    Column("on_scores", "whether they work on the stored scores of unfused attention", "", pl.Boolean),
)


def chains(work: Workspace) -> Table:
    meaning = "one row per sequence of elementwise ops that could be one kernel"
    return Table.from_frame("chains", meaning, COLUMNS, _chains(work))


def chain_rows(work: Workspace) -> Ints:
    """For each GPU event the row of `chains` that it belongs to, -1 for none."""
    rows = _chains(work).select("run").with_row_index("group")
    return _event_groups(work, _links(work), rows)


@shared
def _chains(work: Workspace) -> pl.DataFrame:
    """The rows of the table, each with the numbers of its `run`s."""
    events = _links(work)
    per_run = (
        events.group_by("run", maintain_order=True)
        .agg(
            pl.col("op").first().alias("first"),
            pl.col("code"),
            pl.col("elements").first(),
            pl.len().cast(pl.Int64).alias("length"),
            pl.col("dur_ns", "step_ns", "bytes").sum(),
            (2 * pl.col("written").head(pl.len() - 1).sum()).alias("saved_bytes"),
            pl.col("cast").sum().cast(pl.Int64).alias("casts"),
            pl.col("dur_ns").filter("cast").sum().alias("cast_ns"),
            pl.col("on_scores").any(),
        )
        .filter(pl.col("length") >= MIN_LENGTH)
        .with_columns(
            (pl.col("dur_ns") * pl.min_horizontal(pl.col("saved_bytes") / pl.col("bytes"), 1.0)).alias("saved_ns")
        )
    )
    keys = ["code", "elements", "on_scores"]
    frame = (
        per_run.group_by(keys, maintain_order=True)
        .agg(
            pl.col("length", "bytes", "saved_bytes", "casts").first(),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("dur_ns", "step_ns", "saved_ns", "cast_ns").sum(),
            pl.col("run"),
        )
        .with_row_index("group")
    )
    places = places_of(work, _event_groups(work, events, frame), len(frame))
    names = work.trace.names
    texts = [" → ".join(names[code].removeprefix("aten::") for code in codes) for codes in frame["code"].to_list()]
    frame = frame.with_columns(
        pl.Series("ops", texts, dtype=pl.String),
        pl.Series("line", places.lines, dtype=pl.String),
        pl.Series("module", places.modules, dtype=pl.String),
        (pl.col("dur_ns") / 1000).alias("total_us"),
        (pl.col("saved_ns") / 1000).alias("saved_us"),
        (pl.col("step_ns") / 1000).alias("step_us"),
        (pl.col("cast_ns") / 1000).alias("cast_us"),
    ).with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
    return frame.sort("saved_us", "ops", "elements", "on_scores", descending=[True, False, False, False])


@shared
def _links(work: Workspace) -> pl.DataFrame:
    """The fusable events in stream order, with the number of the run they belong to."""
    gpu, costs = work.gpu, costing(work)
    lane, start = work.trace.ints("lane")[gpu["id"].to_numpy()], gpu["start_ns"].to_numpy()
    order = np.lexsort((start, lane))
    cost = np.append(costs.groups["cost"].to_numpy(), NONE)[costs.event_group][order]
    facts = _cost_facts(costs)
    elements = facts["elements"].to_numpy()[cost]
    broken = (elements[1:] != elements[:-1]) | (lane[order][1:] != lane[order][:-1]) | (elements[1:] < 0)
    run = np.concatenate([[0], np.cumsum(broken)]) if len(order) else np.empty(0, np.int64)
    frame = pl.DataFrame(
        {
            "event": order,
            "run": run,
            "code": np.append(costs.groups["op"].to_numpy(), NONE)[costs.event_group][order],
            "op": costs.event_group[order],
            "elements": elements,
            "bytes": facts["bytes"].to_numpy()[cost],
            "written": facts["written"].to_numpy()[cost],
            "cast": facts["cast"].to_numpy()[cost],
            "dur_ns": gpu["dur_ns"].to_numpy()[order],
            "on_scores": score_elements(work)[order] > 0,
            "step_ns": np.where(gpu["step"].to_numpy() >= 0, gpu["dur_ns"].to_numpy(), 0)[order],
        }
    )
    return frame.filter(pl.col("elements") > 1)


def _cost_facts(costs: Costing) -> pl.DataFrame:
    """Per cost the elements (-1 unless fusable), bytes, bytes written; the last row is for "no cost"."""
    rows = []
    for cost in costs.costs:
        fusable = cost.family in FUSABLE
        elements = int(dict(cost.params).get("elements", NONE)) if fusable else NONE
        target = str(dict(cost.params).get("dtypes", cost.dtype)).rpartition("→")[2]
        rows.append((elements, cost.bytes, max(elements, 0) * ITEM_BYTES.get(target, 0.0), cost.family == "cast"))
    rows.append((NONE, 0.0, 0, False))
    return pl.DataFrame(
        rows, {"elements": pl.Int64, "bytes": pl.Float64, "written": pl.Float64, "cast": pl.Boolean}, orient="row"
    )


def _event_groups(work: Workspace, events: pl.DataFrame, frame: pl.DataFrame) -> Ints:
    """For each GPU event the row of `frame` it is part of, -1 for none."""
    runs = frame.select("group", "run").explode("run")
    joined = events.select("event", "run").join(runs, on="run", how="inner")
    group = np.full(len(work.gpu), NONE, np.int64)
    group[joined["event"].to_numpy()] = joined["group"].to_numpy()
    return group
