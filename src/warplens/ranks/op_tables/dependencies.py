"""What each op of a training step has to wait for, by the rules of ByteDance's study of stragglers.

They are those of its published program (github.com/ByteDance-Seed/StragglerAnalysis), so that its results can be
checked; sends are matched with receives in another way, by the boundary that they cross.

In a worker and a step, in the order in which they ran:

| op | waits for |
|---|---|
| computation | the computation before it; the receive of its input; the gather of its chunk's parameters |
| send | the computation that makes what is sent; the send before it |
| receive | the receive before it; the computation before the one that it feeds |
| first backward receive | the second last computation before the backward phase |
| gather of parameters, reduce-scatter of gradients | the one before it |
| what follows the last computation | each other, in the order of `AFTER_COMPUTE` |

Where gradients are reduced while others are still computed (`separate-grads-all-reduce` is then in the table), the
reduce-scatter of a chunk waits for its last backward computation instead.

Between workers, these wait for each other: a send and its receive (the n-th over the boundary between two chunks with
the n-th on the other side); gathers and reductions over the data-parallel ranks of a stage; embedding gradients over
the first and the last stage; clipping over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.model.job_ops import JobOps
from warplens.ranks.op_tables.simulation import Ints, OpGraph

FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
GATHER: Final = "params-all-gather"
SCATTER: Final = "grads-reduce-scatter"
SEPARATE: Final = "separate-grads-all-reduce"
EMBEDDING: Final = "embedding-grads-all-reduce"
CLIP: Final = "optimizer-clip-main-grad"
COMPUTE: Final = (FORWARD, BACKWARD)
AFTER_COMPUTE: Final = ("gc", "layernorm-grads-all-reduce", EMBEDDING, SCATTER, SEPARATE, CLIP, "optimizer")
WORKER: Final = ("step", "dp_rank", "stage")


class _Transfer(NamedTuple):
    """A point-to-point op: the computation at its end, and what its boundary is called by that chunk's number."""

    compute: str
    is_send: bool
    chunks_ahead: int
    """The boundary has the number of the chunk behind it."""


TRANSFERS: Final = {
    "forward-send": _Transfer(FORWARD, True, 1),
    "forward-recv": _Transfer(FORWARD, False, 0),
    "backward-send": _Transfer(BACKWARD, True, 0),
    "backward-recv": _Transfer(BACKWARD, False, 1),
}
COMMUNICATION: Final = (*TRANSFERS, GATHER, SCATTER, SEPARATE, EMBEDDING, CLIP, "layernorm-grads-all-reduce")
KNOWN_TYPES: Final = frozenset((*COMPUTE, *TRANSFERS, GATHER, *AFTER_COMPUTE))
MEETING_KEYS: Final = {
    # op type: what ops that wait for each other have in common
    GATHER: ("step", "stage", "sequence"),
    SCATTER: ("step", "stage", "sequence"),
    SEPARATE: ("step", "stage", "sequence"),
    EMBEDDING: ("step", "dp_rank", "sequence"),
    CLIP: ("step", "sequence"),
}


def op_graph(job: JobOps) -> OpGraph:
    """The graph of a job's ops, which are its rows; all have a type in `KNOWN_TYPES`."""
    ops = job.ops.with_row_index("op").with_columns(pl.col("op").cast(pl.Int64))
    transfers = _matched_transfers(ops)
    edges = pl.concat([frame.select("before", "after") for frame in _edges(ops, transfers)])
    edges = edges.drop_nulls().unique(maintain_order=True)
    # Nanoseconds since 1970 are more than a float holds.
    first = pl.col("start_ns").min().over("step")
    times = ops.select((pl.col("start_ns", "end_ns") - first).cast(pl.Float64))
    return OpGraph(
        step=ops["step"].to_numpy(),
        group=_groups(ops, transfers),
        start_ns=times["start_ns"].to_numpy(),
        end_ns=times["end_ns"].to_numpy(),
        before=edges["before"].to_numpy(),
        after=edges["after"].to_numpy(),
    )


def _edges(ops: pl.DataFrame, transfers: pl.DataFrame) -> Iterator[pl.DataFrame]:
    computes = ops.filter(pl.col("op_type").is_in(COMPUTE)).sort(*WORKER, "start_ns", "sequence", "op_type")
    yield _chained(computes, WORKER)
    yield _chained(transfers.sort(*WORKER, "op_type", "start_ns", "sequence"), (*WORKER, "op_type"))
    yield _chained(
        ops.filter(pl.col("op_type").is_in((GATHER, SCATTER))).sort(*WORKER, "start_ns", "sequence", "op_type"), WORKER
    )
    yield transfers.filter("is_send").select(before="compute", after="op")
    yield transfers.filter(~pl.col("is_send")).select(before="op", after="compute")
    yield transfers.filter(~pl.col("is_send")).select(before="compute_before", after="op")
    yield _first_backward_receives(computes, transfers)
    yield _gathers_before_chunks(ops, computes)
    yield from _after_compute(ops, computes)


def _chained(ops: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Each op after the one before it with the same keys; the ops are sorted."""
    return ops.select(before=pl.col("op").shift(1).over(keys), after="op")


def _matched_transfers(ops: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives, each with its computation, the one before that, and the boundary that it crosses.

    A worker may have more receives than computations, the last of which no longer receive anything, or more sends, of
    which the first send nothing; or it lacks the first receive.
    """
    facts = [(name, kind.compute, kind.is_send, kind.chunks_ahead) for name, kind in TRANSFERS.items()]
    kinds = pl.DataFrame(facts, schema=("op_type", "compute_type", "is_send", "chunks_ahead"), orient="row")
    computes = _numbered(ops.filter(pl.col("op_type").is_in(COMPUTE)), "sequence").select(
        *WORKER,
        "position",
        compute_type="op_type",
        computes=pl.len().over(*WORKER, "op_type"),
        compute="op",
        compute_before=pl.col("op").shift(1).over(*WORKER, "op_type"),
        compute_chunk=_global_chunk(ops),
    )
    counts = computes.group_by(*WORKER, "compute_type").agg(pl.col("computes").first())
    surplus = pl.len().over(*WORKER, "op_type").cast(pl.Int64) - pl.col("computes").cast(pl.Int64)
    moved = pl.when("is_send").then(surplus.clip(lower_bound=0)).otherwise(surplus.clip(upper_bound=0))
    transfers = ops.join(kinds, on="op_type").join(counts, on=(*WORKER, "compute_type"), how="left")
    numbered = _numbered(transfers, "start_ns", "sequence").with_columns(position=pl.col("position") - moved)
    return numbered.join(computes.drop("computes"), on=(*WORKER, "compute_type", "position"), how="left").with_columns(
        boundary=pl.col("compute_chunk") + pl.col("chunks_ahead")
    )


def _numbered(ops: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Sorted, with the `position` of each op among those of its type in its worker and step."""
    keys = (*WORKER, "op_type")
    return ops.sort(*keys, *by).with_columns(position=pl.int_range(pl.len(), dtype=pl.Int64).over(keys))


def _global_chunk(ops: pl.DataFrame) -> pl.Expr:
    stages = pl.lit(int(ops["stage"].max() or 0) + 1)  # type: ignore[arg-type]
    derived = pl.col("chunk").clip(lower_bound=0) * stages + pl.col("stage")
    return pl.when(pl.col("global_chunk") >= 0).then("global_chunk").otherwise(derived)


def _first_backward_receives(computes: pl.DataFrame, transfers: pl.DataFrame) -> pl.DataFrame:
    """It is posted before the last forward computation, and not before the one before that has ended."""
    second_last = computes.with_columns(before=pl.col("op").shift(2).over(WORKER)).filter(op_type=BACKWARD)
    return (
        second_last.group_by(WORKER, maintain_order=True)
        .first()
        .select(*WORKER, "before")
        .join(_firsts(transfers.filter(op_type="backward-recv"), "sequence"), on=WORKER)
        .select("before", after="op")
    )


def _gathers_before_chunks(ops: pl.DataFrame, computes: pl.DataFrame) -> pl.DataFrame:
    """The last gather of a chunk's parameters, before its first forward computation."""
    gathers = _lasts(ops.filter(op_type=GATHER), "sequence", "chunk").select(*WORKER, "chunk", before="op")
    forwards = _firsts(computes.filter(op_type=FORWARD), "start_ns", "chunk").select(*WORKER, "chunk", after="op")
    return gathers.join(forwards, on=(*WORKER, "chunk"))


def _after_compute(ops: pl.DataFrame, computes: pl.DataFrame) -> Iterator[pl.DataFrame]:
    overlapped = ops["op_type"].is_in([SEPARATE]).any()
    order = [name for name in AFTER_COMPUTE if not (overlapped and name == SCATTER)]
    rest = ops.filter(pl.col("op_type").is_in(order)).with_columns(
        place=pl.col("op_type").replace_strict(order, range(len(order)), default=None, return_dtype=pl.Int64)
    )
    rest = rest.sort(*WORKER, "place", "sequence")
    yield _chained(rest, WORKER)
    last = _lasts(computes, "end_ns").select(*WORKER, before="op")
    yield last.join(_firsts(rest, "place"), on=WORKER).select("before", after="op")
    if not overlapped:
        return
    scatters = ops.filter(op_type=SCATTER)
    after_all = _firsts(rest.filter(pl.col("op_type") != "gc"), "place").select(*WORKER, after="op")
    yield _lasts(scatters, "sequence").select(*WORKER, before="op").join(after_all, on=WORKER)
    backwards = _lasts(computes.filter(op_type=BACKWARD), "end_ns", "chunk").select(*WORKER, "chunk", before="op")
    yield backwards.join(_firsts(scatters, "sequence", "chunk"), on=(*WORKER, "chunk")).select("before", after="op")


def _firsts(ops: pl.DataFrame, by: str, *keys: str) -> pl.DataFrame:
    """The op of each worker (and further keys) that comes first by a column."""
    return ops.sort(by, maintain_order=True).unique((*WORKER, *keys), keep="first", maintain_order=True)


def _lasts(ops: pl.DataFrame, by: str, *keys: str) -> pl.DataFrame:
    return ops.sort(by, maintain_order=True).unique((*WORKER, *keys), keep="last", maintain_order=True)


def _groups(ops: pl.DataFrame, transfers: pl.DataFrame) -> Ints:
    """Per op the number of its group; ops that wait for no other one are a group of their own."""
    chunks = ops.select(_global_chunk(ops).max()).item() or 0
    direction = pl.col("op_type").str.split("-").list.first()
    crossing = transfers.filter(pl.col("boundary").is_between(1, chunks)).sort("position")
    keyed = [
        crossing.select(
            "op",
            key=pl.format(
                "{} {} {} {} {}",
                direction,
                "step",
                "dp_rank",
                "boundary",
                pl.int_range(pl.len()).over(*WORKER, "op_type", "boundary"),
            ),
        )
    ]
    for name, keys in MEETING_KEYS.items():
        shape = " ".join([name, *("{}" for _ in keys)])
        keyed.append(ops.filter(op_type=name).select("op", key=pl.format(shape, *keys)))
    named = pl.concat(keyed).with_columns(group=pl.col("key").rank("dense").cast(pl.Int64) - 1)
    group = np.full(len(ops), -1, np.int64)
    group[named["op"].to_numpy()] = named["group"].to_numpy()
    alone = np.flatnonzero(group < 0)
    group[alone] = np.arange(len(alone)) + named["group"].n_unique()
    return group
