"""The rules on many ranks: tables of a job → findings. What is slower than its peers is in `stragglers` already; a rule
gives it a code, a title and advice. Gains are those of the job's step, simulated with all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from warplens.advice.job_figures import ExposedRow, GainOfHiding, JobCheck, JobFigures, KindRow, StageRow, StragglerRow
from warplens.advice.rank_explanations import EXPLANATIONS
from warplens.advice.thresholds import JOB_THRESHOLDS
from warplens.analyses.missing_data import TORCH
from warplens.model.clock import Clock
from warplens.model.finding import Evidence, Finding, ranked
from warplens.model.rule import RuleSet
from warplens.model.table import Table
from warplens.ranks.hiding import ALL_SIZES
from warplens.ranks.kinds import POINT_TO_POINT
from warplens.ranks.slow.records import BEFORE_FIRST_STEP, DATA, GPU, HOST, IMBALANCE, NETWORK
from warplens_run.base.units import format_bytes, format_ms

MOST_ROWS: Final = 8
SLOW_GPU, SLOW_HOST, LATE_DATA, SLOW_LINK = "WL402", "WL403", "WL404", "WL405"
UNEVEN_DATA, UNEVEN_STAGE, HOT_EXPERT, LATE_START, UNCLEAR = "WL406", "WL407", "WL408", "WL411", "WL412"
OF_CAUSE: Final = {HOST: SLOW_HOST, DATA: LATE_DATA, NETWORK: SLOW_LINK}
TITLES: Final[Mapping[str, str]] = {
    SLOW_GPU: "computation on {who} takes {excess} a step longer than on other GPUs",
    SLOW_HOST: "the host's work for {who} takes {excess} a step longer than for other ranks",
    LATE_DATA: "data of {who} come {excess} a step later than those of other ranks",
    SLOW_LINK: "transfers with {who} take {excess} a step longer than usual",
    UNEVEN_DATA: "more data on {who} than on other ranks: {excess} a step longer",
    UNEVEN_STAGE: "computation of {who} takes {excess} a step longer than in other stages",
    HOT_EXPERT: "the experts of {who} get {ratio:.1f} × the mean share of tokens",
    LATE_START: "the step of {who} begins {excess} after that of the first rank",
    UNCLEAR: "the step of {who} takes {excess} longer than that of other ranks; the cause is unclear",
}
"""`who` may be several ranks."""
EXPLAINED: Final = {
    HOST: "the host explains {:.0f} %",
    DATA: "data loading explains {:.0f} %",
    GPU: "the GPU explains {:.0f} %",
    IMBALANCE: "computation explains {:.0f} %",
    NETWORK: "{:.0f} % of its transfers are slow",
}
OVERLAP_ADVICE: Final = {
    **dict.fromkeys(("all_to_all", "dispatch", "combine"), "WL409 experts"),
    **dict.fromkeys(POINT_TO_POINT, "WL409 pipeline"),
}
"""What to do depends on the kind with most exposed time."""


def straggler_code(figures: JobFigures, straggler: StragglerRow) -> str:
    """Which rule a straggler belongs to."""
    if straggler.place == BEFORE_FIRST_STEP:
        return LATE_START
    if straggler.cause in OF_CAUSE:
        return OF_CAUSE[straggler.cause]
    if straggler.cause not in (GPU, IMBALANCE):
        return UNCLEAR
    # A rank that gets more tokens has more to compute.
    if figures.received_ratio.get(straggler.rank, 0.0) >= JOB_THRESHOLDS.uneven_receive:
        return HOT_EXPERT
    if straggler.cause == GPU:
        return SLOW_GPU
    return UNEVEN_STAGE if "(stage " in straggler.group else UNEVEN_DATA


def stragglers(figures: JobFigures, code: str) -> Iterator[Finding]:
    """A finding for every straggler that is of this kind and delays the job."""
    for straggler in figures.stragglers:
        if straggler.gain_ms > 0 and straggler_code(figures, straggler) == code:
            yield _straggler(figures, code, straggler)


def _straggler(figures: JobFigures, code: str, straggler: StragglerRow) -> Finding:
    excess, ratio = format_ms(straggler.excess_ms), figures.received_ratio.get(straggler.rank, 0.0)
    title = TITLES[code].format(who=figures.named(straggler), excess=excess, ratio=ratio)
    return Finding(
        code=code,
        title=title,
        gain_ms=straggler.gain_ms,
        gain_percent=figures.share(straggler.gain_ms),
        gain_low_ms=straggler.gain_low_ms,
        gain_high_ms=straggler.gain_high_ms,
        gpu_gain_ms=straggler.excess_ms if code == SLOW_GPU else 0.0,
        bound=code == UNCLEAR or straggler.gain_low_ms <= 0,
        place=straggler.place or straggler.group,
        evidence=_why(code, straggler),
        advice=figures.advice(code),
        rows=(_straggler_evidence(figures, straggler), *_more_rows(figures, code, straggler)),
        targets=figures.targets_of(straggler),
    )


def _why(code: str, straggler: StragglerRow) -> str:
    since = f"since step {straggler.since_step}"
    if code == LATE_START:
        return f"{straggler.note}; what made it late ran before the recording"
    share = EXPLAINED.get(straggler.cause, "no part explains more than {:.0f} %").format(straggler.explained_percent)
    longest = f"; longest: {straggler.place}" if straggler.place else ""
    doubt = "" if straggler.confidence == "high" else f"; {straggler.confidence} confidence"
    return f"{since}, {format_ms(straggler.excess_ms)} a step more; {share}{longest}{doubt}"


def _straggler_evidence(figures: JobFigures, straggler: StragglerRow) -> Evidence:
    return Evidence(
        straggler.group,
        detail=f"longer than its peers, since step {straggler.since_step}",
        count=figures.steps_since(straggler.since_step),
        time_ms=straggler.excess_ms,
        gain_ms=straggler.gain_ms,
        place=straggler.place,
        targets=figures.targets_of(straggler),
    )


def _more_rows(figures: JobFigures, code: str, straggler: StragglerRow) -> Sequence[Evidence]:
    """The stages of a pipeline; else who waits for the rank."""
    if code != UNEVEN_STAGE:
        return list(figures.waiting_for(straggler.rank))
    return [
        Evidence(
            f"stage {stage.stage} (ranks {stage.ranks})",
            detail=f"computation; waits in receives {format_ms(stage.receive_wait_ms)}",
            time_ms=stage.compute_ms,
            targets=(stage.target,),
        )
        for stage in figures.rows(StageRow)[:MOST_ROWS]
    ]


def exposed_transfers(figures: JobFigures) -> Iterator[Finding]:
    """Communication that no computation hides, by the module that issues it.

    Where no call has a counterpart, all of it may be waiting for other ranks.
    """
    if not figures.rows(KindRow):
        return
    least = JOB_THRESHOLDS.exposed_transfer_percent
    exposed = sorted((row for row in figures.rows(ExposedRow) if row.transfer_ms > 0), key=lambda row: -row.transfer_ms)
    whole_ms = sum(row.transfer_ms for row in exposed)
    if figures.share(whole_ms) < least:
        return
    gain_ms = figures.gain_of_hiding(ALL_SIZES)
    if figures.share(gain_ms) < least:
        return
    rows = [
        Evidence(
            f"{row.kind} of {row.module}" if row.module else row.kind,
            detail=f"exposed, and {format_ms(row.wait_ms)} of waits for other ranks",
            count=round(row.count * len(figures.step_ms)),
            time_ms=row.transfer_ms,
            gain_ms=gain_ms * row.transfer_ms / whole_ms,
            place=row.module,
            targets=(row.target,),
        )
        for row in exposed
    ]
    of_rank = f"they are {figures.share(figures.shown_transfer_ms):.0f} % of rank {figures.shown_rank}'s"
    of_job = f"cost up to {figures.share(gain_ms):.0f} % of the job's step, on the path over all ranks"
    yield _bounded(
        figures, "WL409", f"transfers that nothing hides {of_job}; {of_rank}", gain_ms, rows,
        f"{rows[0].what}: {format_ms(rows[0].time_ms)} a step exposed in the mean of all ranks, waits apart",
        OVERLAP_ADVICE.get(exposed[0].kind, "WL409"),
    )  # fmt: skip


def small_collectives(figures: JobFigures) -> Iterator[Finding]:
    """Many collectives too small for the links' bandwidth, with exposed time to win."""
    limit, steps = JOB_THRESHOLDS.small_kib * 1024, max(1, len(figures.step_ms))
    small = [row for row in figures.rows(KindRow) if 0 < (row.message_bytes or 0) < limit]
    ranks = max(1, len(figures.tables["ranks"]))
    per_step = sum(row.count * row.group_size for row in small) / ranks / steps
    if per_step < JOB_THRESHOLDS.small_per_step or not sum(row.exposed_ms for row in small):
        return
    gain_ms, whole_ms = figures.gain_of_hiding(limit), sum(row.exposed_ms for row in small)
    rows = [
        Evidence(
            f"{row.kind} of {format_bytes(row.message_bytes or 0)} on {row.group_size} ranks",
            detail=f"median transfer {row.transfer_us:.0f} µs, {row.algbw_gbps or 0.0:.1f} GB/s",
            count=row.count,
            time_ms=row.exposed_ms / steps,
            gain_ms=gain_ms * row.exposed_ms / whole_ms,
            place=row.kind,
            targets=(row.target,),
        )
        for row in sorted(small, key=lambda row: -row.exposed_ms)
    ]
    yield _bounded(
        figures, "WL410", f"{per_step:,.0f} collectives a step are smaller than {format_bytes(limit)}", gain_ms, rows,
        f"{rows[0].what}: {rows[0].detail}", "WL410",
    )  # fmt: skip


def _bounded(
    figures: JobFigures, code: str, title: str, gain_ms: float, rows: Sequence[Evidence], why: str, topic: str
) -> Finding:
    return Finding(
        code=code,
        title=title,
        gain_ms=gain_ms,
        gain_percent=figures.share(gain_ms),
        gain_high_ms=gain_ms,
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=why,
        advice=figures.advice(topic),
        rows=tuple(rows[:MOST_ROWS]),
        targets=rows[0].targets,
    )


CHECKS: Final[Mapping[str, JobCheck]] = {
    **{code: partial(stragglers, code=code) for code in sorted(TITLES) if code < "WL409"},
    "WL409": exposed_transfers,
    "WL410": small_collectives,
    **{code: partial(stragglers, code=code) for code in (LATE_START, UNCLEAR)},
}
JOB_RULES: Final = RuleSet(CHECKS, EXPLANATIONS, JOB_THRESHOLDS)


def find_in_job(
    tables: Mapping[str, Table],
    step_ms: Mapping[int, float],
    clock: Clock | None,
    gain_of_hiding: GainOfHiding,
    shown_rank: int,
    min_gain_percent: float = JOB_THRESHOLDS.min_gain_percent,
    format: str = TORCH,
) -> list[Finding]:
    """The findings of every rule on many ranks, the largest gain first; none below the least gain."""
    if clock is None:
        return []
    figures = JobFigures(tables, step_ms, clock.step_ms, gain_of_hiding, shown_rank, format)
    findings = [finding for rule in JOB_RULES for finding in rule.check(figures)]
    return ranked(finding for finding in findings if round(finding.gain_percent, 6) >= min_gain_percent)
