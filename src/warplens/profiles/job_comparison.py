"""Two jobs side by side: the step, each rank, stragglers that are gone or new, and kinds of collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from warplens.advice.compared_steps import SAME, Clocks, amounts, change_of_steps
from warplens.analyses.diff.report_tables import REPORT_TABLES, diff_of_tables, summary_of
from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.table import Table
from warplens.profiles.comparison import Comparison, Facts, Sides
from warplens.profiles.job import JobProfile
from warplens.profiles.on_demand import TableSource
from warplens.ranks.job_step import job_steps
from warplens.ranks.merged_notes import rank_text
from warplens_run.base.units import format_bytes, listed, plural

MEASURES: Final = {
    # column of `ranks`: what it is called
    "step_ms": "step", "compute_ms": "computation", "exposed_ms": "exposed communication",
    "wait_ms": "waits in collectives", "idle_ms": "GPU idle", "own_ms": "own pace",
}  # fmt: skip
PER_STEP: Final = ("count", "wait_ms", "transfer_ms", "exposed_ms")
"""Sums of `collective_kinds`, which grow with the steps that were recorded."""
MOST_NAMED: Final = 4


def compare_jobs(a: JobProfile, b: JobProfile) -> Comparison:
    """Times are per step, so that runs of different lengths can be compared; ranks are paired by their numbers."""
    frames: dict[str, Callable[[JobProfile], pl.DataFrame]] = {
        "job": _job_frame,
        "stragglers": _straggler_frame,
        "ranks": _rank_frame,
        "collective_kinds": _kind_frame,
    }
    makers = {name: partial(_diff, name, make, a, b) for name, make in frames.items()}
    sources = {REPORT_TABLES: TableSource(lambda: summary_of([make() for make in makers.values()]))}
    sources |= {name: TableSource(make) for name, make in makers.items()}
    return Comparison(sources, Sides((a.source, b.source)), partial(_facts, a, b))


def _diff(name: str, make: Callable[[JobProfile], pl.DataFrame], a: JobProfile, b: JobProfile) -> Table:
    return diff_of_tables(name, make(a), make(b))


def _job_frame(job: JobProfile) -> pl.DataFrame:
    """The job's step, and what ranks do in it in the mean."""
    ranks = job.table("ranks").frame
    rows = [("step", job.clock.step_ms)] if job.clock else []
    rows += [
        (text, float(ranks[name].mean()))  # type: ignore[arg-type]
        for name, text in MEASURES.items()
        if name != "step_ms" and ranks[name].count()
    ]
    return pl.DataFrame(rows, schema={"measure": pl.String, "time_ms": pl.Float64}, orient="row")


def _straggler_frame(job: JobProfile) -> pl.DataFrame:
    """Who and why is what names a row: a rank that is slow for another reason is another straggler."""
    frame = job.table("stragglers").frame
    return frame.select(pl.format("{} ({})", "group", "cause").alias("straggler"), "gain_ms", "excess_ms", "lost_ms")


def _rank_frame(job: JobProfile) -> pl.DataFrame:
    return job.table("ranks").frame.select("rank", *MEASURES)


def _kind_frame(job: JobProfile) -> pl.DataFrame:
    steps = max(1.0, float(np.median([digest.steps.height for digest in job.job.digests])))
    frame = job.table("collective_kinds").frame
    return frame.select(
        "kind",
        pl.col("message_bytes").map_elements(format_bytes, pl.String).alias("size"),
        "group_size",
        "between",
        *(pl.col(name) / steps for name in PER_STEP),
        "transfer_us",
        "busbw_gbps",
    )


def _facts(a: JobProfile, b: JobProfile, comparison: Comparison) -> Facts:
    lengths = [[job.step_ms[step] for step in job_steps(job.model) if job.step_ms] for job in (a, b)]
    lines = {
        label: f"{Path(job.source).name} · {plural(len(job.job.ranks), 'rank')} · {job.verdict()}"
        for label, job in (("A", a), ("B", b))
    }
    setups = [{digest.facts.gpu for digest in job.job.digests} - {""} for job in (a, b)]
    if setups[0] and setups[1] and setups[0] != setups[1]:
        lines["GPUs"] = f"A {listed(sorted(setups[0]))}; B {listed(sorted(setups[1]))}"
    only = [sorted(set(one.job.ranks) - set(other.job.ranks)) for one, other in ((a, b), (b, a))]
    for label, ranks_of_one in zip("AB", only, strict=True):
        if ranks_of_one:
            lines[f"only in {label}"] = rank_text(ranks_of_one)
    clocks = (a.clock, b.clock) if a.clock and b.clock else None
    return Facts(_verdict(comparison, clocks, *lengths), lines, clocks=clocks or ())


def _verdict(comparison: Comparison, clocks: Clocks | None, a_ms: Sequence[float], b_ms: Sequence[float]) -> str:
    """`a_ms` and `b_ms` are the lengths of the jobs' steps, whose medians the clocks are."""
    parts = []
    if clocks and a_ms and b_ms:
        step = change_of_steps(a_ms, b_ms, f"{amounts(clocks, recorded=True)} per recorded step of the job")
        if step.is_shown and step.ratio >= SAME:
            parts.append(f"B is {step.compared.text}: {step.span}")
        else:
            parts.append(f"No difference{' in step time is shown' if step.delta_us else ''}: {step.span}")
        if step.delta_us and (not step.is_shown or step.unseen_percent is None):
            parts.append(step.unseen)
    found = comparison.table("stragglers").frame
    for status, text in ((ONLY_A, "straggler gone"), (ONLY_B, "new straggler"), (BOTH, "straggler in both")):
        names = found.filter(pl.col("status") == status)["straggler"].to_list()
        if names:
            more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
            parts.append(f"{text}: {listed([*names[:MOST_NAMED], *more])}")
    return "; ".join(parts or ["Neither has steps or stragglers"]) + "."
