"""The tables of an op table: who slows the job down, and what it costs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.quality import COLUMNS as QUALITY_COLUMNS
from warplens.model.table import Column, Table
from warplens.model.table_entry import TableEntry, entries
from warplens.ranks.op_tables.dependencies import COMPUTE
from warplens.ranks.op_tables.op_job import OpJob
from warplens.ranks.op_tables.what_if import NS_PER_MS, CaseResult, what_if_table
from warplens.ranks.op_tables.worker_steps import WORKER_COLUMNS, rank_steps, worker_steps

STRAGGLING: Final = 1.1
"""A job with a smaller slowdown has no stragglers worth naming: a choice, as are the shares below."""
EXPLAINS: Final = 0.8
"""A cause is named where it explains at least this share of the slowdown."""

CAUSE: Final = "cause"
INCLUDES: Final = "includes the cause"
UNCLEAR: Final = "unclear"
KINDS: Final = {
    # what of the what-if: what is slow
    "M_W": "slow worker",
    "S_rank": "slow data-parallel rank",
    "S_stage": "slow stage",
    "S_data": "uneven computation",
}
UNEVEN_DATA: Final = "uneven data"
SAME_DATA: Final = 0.9
"""Forward and backward computations of the same microbatches correlate as well as this where data make them uneven."""
LEAST_EXPLAINED: Final = 0.01
"""What explains less of the slowdown is not listed."""

STRAGGLER_COLUMNS: Final = (
    Column("who", "the ranks or the stage", "", pl.String),
    Column(
        "kind",
        f"{', '.join(KINDS.values())}: of each the slowest; {UNEVEN_DATA}: uneven computation where the same "
        "microbatches are slow forward and backward",
        "",
        pl.String,
    ),
    Column(
        "verdict",
        f"{CAUSE}: the smallest scope that explains {EXPLAINS:.0%} of the slowdown; {INCLUDES}: another one that does; "
        f"{UNCLEAR}: it explains less",
        "",
        pl.String,
    ),
    Column("explained_percent", "gain_ms of what the step would be shorter by without any straggler", "%", pl.Float64),
    Column("gain_ms", "what a step would be shorter by if it were like the others", "ms", pl.Float64),
    Column("op_type", "the type of op that loses most time there", "", pl.String),
    Column(
        "op_slower_percent",
        "how much longer these ops take there than the mean or median of all; where they are uneven, how far they are "
        "from the mean of their worker",
        "%",
        pl.Float64,
    ),
)
RANK_COLUMNS: Final = (
    *WORKER_COLUMNS,
    Column("score", "the lesser slowdown of its data-parallel rank and its stage (job_what_if)", "", pl.Float64),
    Column("compute_ms", "computation of a step, on average", "ms", pl.Float64),
    Column("compute_slower_percent", "how much longer that is than the mean of all workers", "%", pl.Float64),
    Column("transfer_ms", "transfers of a step with no computation meanwhile, on average", "ms", pl.Float64),
    Column("wait_ms", "waiting of a step for others, and nothing else, on average", "ms", pl.Float64),
    Column("idle_ms", "none of these in a step, on average", "ms", pl.Float64),
)


def job_what_if(work: OpJob) -> Table:
    answer = work.what_if
    notes = (
        f"a step takes {answer.recorded_ns / NS_PER_MS:.1f} ms as recorded and {answer.step_ns / NS_PER_MS:.1f} ms "
        "simulated without launch delays, which gains are measured from",
    )
    return what_if_table(answer, *(notes if len(work.graph) else ()))


class Straggler(NamedTuple):
    """One row of the table `stragglers`."""

    who: str
    kind: str
    verdict: str
    explained_percent: float
    gain_ms: float
    op_type: str
    op_slower_percent: float


def stragglers(work: OpJob) -> Table:
    meaning = "one row per kind of straggler: the slowest of it, the cause first"
    if not len(work.graph) or work.what_if.slowdown < STRAGGLING:
        note = f"no stragglers: a slowdown of {work.what_if.slowdown:.3f} (S) is below {STRAGGLING}"
        return Table.from_rows("stragglers", meaning, STRAGGLER_COLUMNS, [], note)
    slowest = [result for what in KINDS if (result := work.result(what)) is not None]
    # The only stage of a job is all of it: that it explains all says nothing.
    parts = [result for result in slowest if not result.scope.ops.all()]
    shares = [(result, work.what_if.explained(result) or 0.0) for result in parts]
    largest = max((share for _, share in shares), default=0.0)
    found = [(result, share) for result, share in shares if share >= min(largest, LEAST_EXPLAINED)]
    clear = [result for result, share in found if share >= EXPLAINS]
    rows = [
        _straggler(work, result, share, CAUSE if result in clear[:1] else INCLUDES if result in clear else UNCLEAR)
        for result, share in found
    ]
    order = (CAUSE, INCLUDES, UNCLEAR)
    rows.sort(key=lambda row: (order.index(row.verdict), -row.gain_ms))
    return Table.from_rows("stragglers", meaning, STRAGGLER_COLUMNS, rows)


def _straggler(work: OpJob, result: CaseResult, share: float, verdict: str) -> Straggler:
    scope = result.scope
    op_type, slower = _slowest_ops(work, result)
    gain_ms = work.what_if.gain_ns(result) / NS_PER_MS
    kind = UNEVEN_DATA if scope.what == "S_data" and _has_uneven_data(work) else KINDS[scope.what]
    return Straggler(_who(work, result), kind, verdict, 100 * share, gain_ms, op_type, slower)


def _who(work: OpJob, result: CaseResult) -> str:
    """A single worker with its place in the grid."""
    if result.scope.even_ns is not None:
        return "all workers, in turns"
    workers = work.job.ops.filter(pl.Series(result.scope.ops)).select("dp_rank", "stage").unique()
    if len(workers) > 1 or result.scope.what != "M_W":
        return result.scope.name
    dp, stage = workers.row(0)
    return f"{result.scope.name} (dp {dp}, stage {stage})"


def _has_uneven_data(work: OpJob) -> bool:
    """Whether microbatches that take a worker longer forward take it longer backward."""
    uneven = pl.Series(work.graph.duration_ns / np.maximum(work.even_ns, 1.0))
    ops = work.job.ops.with_columns(uneven=uneven)
    keys = ("rank", "step", "chunk", "microbatch")
    forward, backward = (ops.filter(op_type=name).select(*keys, "uneven") for name in COMPUTE)
    both = forward.join(backward, on=keys, suffix="_backward")
    correlation = both.select(pl.corr("uneven", "uneven_backward")).item()
    return correlation is not None and correlation >= SAME_DATA


def _slowest_ops(work: OpJob, result: CaseResult) -> tuple[str, float]:
    """The type of op that loses most time in a scope, and by how many percent it is slower than in the ideal."""
    mask, even = result.scope.ops, result.scope.even_ns
    ideal = work.ideal_ns if even is None else even
    lost_ns = work.graph.duration_ns - ideal
    columns = {"ideal": ideal[mask], "lost": (lost_ns if even is None else np.abs(lost_ns))[mask]}
    lost = pl.DataFrame({"op_type": work.job.ops["op_type"].filter(pl.Series(mask))} | columns)
    sums = lost.group_by("op_type").sum().sort("lost", "op_type", descending=[True, False])
    op_type, ideal_sum, most = sums.row(0)
    return op_type, 100 * most / ideal_sum if ideal_sum else 0.0


def ranks(work: OpJob) -> Table:
    parts = ("compute_ms", "transfer_ms", "wait_ms", "idle_ms")
    means = worker_steps(work).group_by("rank").agg(pl.col(parts).mean())
    compute = pl.col("compute_ms")
    slower = pl.when(compute.mean() > 0).then(100 * (compute / compute.mean() - 1)).fill_null(0.0)
    frame = work.scores.join(means, on="rank").with_columns(compute_slower_percent=slower)
    frame = frame.sort("score", "rank", descending=[True, False])
    return Table.from_frame("ranks", "one row per worker, the largest score first", RANK_COLUMNS, frame)


def quality(work: OpJob) -> Table:
    meaning = "one row per note on the op table"
    return Table.from_rows("quality", meaning, QUALITY_COLUMNS, work.job.quality.notes)


OP_JOB_TABLES: Final[dict[str, TableEntry[OpJob]]] = entries(quality, stragglers, job_what_if, ranks, rank_steps)
