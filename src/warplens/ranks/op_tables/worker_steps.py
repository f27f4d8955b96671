"""How each worker spends its steps: computing, transferring, waiting for others, or none of these."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.model.intervals import Union, covered_until, subtract, union
from warplens.model.table import Column, Table
from warplens.ranks.op_tables.dependencies import COMMUNICATION
from warplens.ranks.op_tables.op_job import OpJob
from warplens.ranks.op_tables.simulation import Ints
from warplens.ranks.op_tables.what_if import NS_PER_MS

WORKER_COLUMNS: Final = (
    Column("rank", "rank of the worker", "", pl.Int64),
    Column("dp_rank", "data-parallel rank", "", pl.Int64),
    Column("stage", "pipeline stage", "", pl.Int64),
)
COLUMNS: Final = (
    *WORKER_COLUMNS,
    Column("step", "number of the step", "", pl.Int64),
    Column("step_ms", "from the first start to the last end of the worker's ops", "ms", pl.Float64),
    Column("compute_ms", "computation", "ms", pl.Float64),
    Column(
        "transfer_ms", "transfers, after all taking part had started, with no computation meanwhile", "ms", pl.Float64
    ),
    Column("wait_ms", "waiting for others in communication, and nothing else", "ms", pl.Float64),
    Column("idle_ms", "none of these: what the host does between ops", "ms", pl.Float64),
)
KEYS: Final = ("rank", "dp_rank", "stage", "step")


def rank_steps(work: OpJob) -> Table:
    return Table.from_frame("rank_steps", "one row per worker and step", COLUMNS, worker_steps(work))


def worker_steps(work: OpJob) -> pl.DataFrame:
    """One row per worker and step; the parts add up to the step of the worker."""
    ops = work.job.ops
    spans = ops.group_by(KEYS).agg(
        first=pl.col("start_ns").min(), span=pl.col("end_ns").max() - pl.col("start_ns").min()
    )
    spans = spans.sort("step", "rank", "dp_rank", "stage").with_columns(at=pl.col("span").cum_sum() - pl.col("span"))
    parts = _parts(work, ops.join(spans, on=KEYS, how="left", maintain_order="left"))
    begin, end = spans["at"].to_numpy(), (spans["at"] + spans["span"]).to_numpy()
    lengths = {name: covered_until(part, end) - covered_until(part, begin) for name, part in parts.items()}
    idle = spans["span"].to_numpy() - sum(lengths.values(), np.zeros(len(spans), np.int64))
    columns = {"step_ms": spans["span"].to_numpy(), **lengths, "idle_ms": idle}
    return spans.select(*KEYS, *(pl.Series(name, ns / NS_PER_MS) for name, ns in columns.items()))


def _parts(work: OpJob, ops: pl.DataFrame) -> dict[str, Union]:
    """What the workers do, their steps laid one after the other; computation before transfers before waits."""
    shift: Ints = (ops["at"] - ops["first"]).to_numpy()
    starts, ends = ops["start_ns"].to_numpy() + shift, ops["end_ns"].to_numpy() + shift
    late = (work.graph.met_ns - work.graph.start_ns).astype(np.int64)
    met = np.minimum(starts + late, ends)
    is_comm = ops["op_type"].is_in(COMMUNICATION).to_numpy()
    compute = union(starts[~is_comm], ends[~is_comm])
    transfer = subtract(union(met[is_comm], ends[is_comm]), compute)
    wait = subtract(subtract(union(starts[is_comm], met[is_comm]), compute), transfer)
    return {"compute_ms": compute, "transfer_ms": transfer, "wait_ms": wait}
