"""Rules on launches, copies, communication, steps, and on the trace itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from warplens.advice.evidence import kernel_evidence, summed
from warplens.advice.figures import TraceFigures, is_underfilled
from warplens.advice.rows import CollectiveRow, KernelRow, LaunchRow, StepRow
from warplens.advice.serving_rules import collectives_in_decode
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.work.comm import UNKNOWN
from warplens.categories import OTHER
from warplens.model.copies import copy_ends, is_host_copy
from warplens.model.edits import Edit, RemoveWaits, ScaleWork
from warplens.model.finding import Evidence, Finding
from warplens.model.records import records
from warplens.model.targets import RowTarget, StepTarget
from warplens_run.base.units import format_bytes, format_count, plural

COMPUTING: Final = ("GEMM", "Attention", "Convolution", "MoE", "Linear Algebra", OTHER)
"""Kernels whose blocks compute; where memory is the limit, a few blocks of the last wave can use all of it."""


def graph_heavy(figures: TraceFigures) -> Iterator[Finding]:
    frame = figures.numbered("launch_categories").filter("is_graph")
    whole_us = float(figures.frame("launch_categories")["total_us"].sum()) or 1.0
    graphs_us = float(frame["total_us"].sum())
    percent = 100 * graphs_us / whole_us
    if percent < THRESHOLDS.graph_percent:
        return
    kinds = frame.group_by("kernel_category").agg(pl.col("total_us").sum())
    kind, kind_us = kinds.sort("total_us", "kernel_category", descending=[True, False]).row(0)
    largest = int(frame.sort("total_us", "row", descending=[True, False])["row"][0])
    share = 100 * kind_us / graphs_us
    yield figures.finding(
        "WL102",
        title=f"{percent:.0f} % of GPU time is inside graph launches; {kind} dominates them ({share:.0f} %)",
        place=", ".join(frame["op"].unique().sort().to_list()),
        evidence=f"{plural(int(frame['count'].sum()), 'kernel')} in graphs",
        targets=(RowTarget("launch_categories", largest),),
    )


def unknown_kernels(figures: TraceFigures) -> Iterator[Finding]:
    other = next((category for category in figures.categories if category.kernel_category == OTHER), None)
    if other is None or other.percent <= THRESHOLDS.other_percent:
        return
    frame = figures.numbered("kernels").filter(pl.col("kernel_category") == OTHER)
    rows = [kernel_evidence(figures, kernel) for kernel in records(frame.head(5), KernelRow)]
    yield figures.finding(
        "WL103",
        title="kernels of unknown category make the shares of the others incomplete",
        place=rows[0].what,
        evidence=f"{plural(frame['kernel'].n_unique(), 'kernel name')}, {plural(other.count, 'launch', 'launches')}",
        rows=rows,
    )


DOUBTFUL: Final = (
    "truncated", "damaged", "negative_duration", "out_of_range", "missing_duration", "duplicate_correlation",
    "bad_args", "not_events", "unclosed",
)  # fmt: skip
"""Quality notes that mean that something is missing from the sums, or wrong in them."""
UNLINKED_BY_DESIGN: Final = {"no_host", "chrome", "callers_only"}
"""Without a host side, or in another tool's trace, launches are not recorded by design; the quality says so."""


def doubtful_trace(figures: TraceFigures) -> Iterator[Finding]:
    """Damage and missing launches, which make other numbers doubtful."""
    rows = [
        Evidence(note.message, targets=(note.target,))
        for note in figures.notes
        if note.code in DOUBTFUL and (note.code != "not_events" or note.count > 1)
    ]
    # Work that was queued before the recording began is not a fault: steps and ops omit it, and say so.
    # Where no work at all has a launch, the file is of a kind that does not say: nothing is missing in its middle.
    unlinked = figures.phases.get("unknown")
    is_by_design = bool(UNLINKED_BY_DESIGN & figures.note_codes)
    if unlinked and THRESHOLDS.unlinked_percent <= unlinked.percent < 100 and not is_by_design:
        share = f"{unlinked.percent:.0f} % of GPU time has no recorded launch"
        text = f"{share} although other work has, so it has no op, line or step"
        rows.append(Evidence(text, targets=(unlinked.target,)))
    if not rows:
        return
    yield figures.finding(
        "WL901",
        title="the trace is damaged or incomplete: other numbers are doubtful",
        place="quality",
        evidence="; ".join(row.what for row in rows),
        rows=rows,
    )


def _exposed(
    figures: TraceFigures,
    measure: str,
    code: str,
    *,
    limit_percent: float,
    title: str,
    place: str,
    rows: Sequence[Evidence],
    edits: Sequence[Edit],
) -> Iterator[Finding]:
    if figures.percent(measure) < limit_percent:
        return
    yield figures.finding(
        code,
        title=title,
        gain_ms=figures.gain_ms(measure),
        bound=True,
        place=place,
        evidence=f"{figures.gain_ms(measure):.2f} ms{figures.per_step_text} as recorded",
        rows=rows,
        edits=edits,
    )


def exposed_communication(figures: TraceFigures) -> Iterator[Finding]:
    if figures.findings_of(collectives_in_decode):
        return
    frame = figures.numbered("comm").sort("exposed_us", descending=True).head(8)
    collectives = records(frame, CollectiveRow)
    rows = [_collective_evidence(figures, collective) for collective in collectives]
    edits = [row.saving(row.exposed_us) for row in figures.rows(CollectiveRow)]
    place = " of ".join(filter(None, (collectives[0].collective, rows[0].place))) if rows else ""
    yield from _exposed(
        figures,
        "exposed_communication",
        "WL105",
        limit_percent=THRESHOLDS.exposed_communication_percent,
        title="communication is exposed: nothing computes meanwhile",
        place=place,
        rows=rows,
        edits=edits,
    )


def _collective_evidence(figures: TraceFigures, collective: CollectiveRow) -> Evidence:
    """`gain_ms` is what nothing hides; collectives at the same time each have it."""
    size = collective.message_bytes
    return Evidence(
        f"{collective.collective} of {format_bytes(size)}" if size else collective.collective,
        detail=f"{collective.algbw_gbps:.2f} GB/s" if collective.algbw_gbps else "",
        count=collective.count,
        time_ms=figures.row_ms(collective),
        gain_ms=figures.per_step_ms(collective.exposed_us, collective),
        place=f"group {collective.group}" if collective.group != UNKNOWN else "",
        targets=(collective.target,),
    )


def exposed_copies(figures: TraceFigures) -> Iterator[Finding]:
    """Copies that nothing hides, unless pageable memory is what makes them long: that is WL302's."""
    if figures.findings_of(pageable_copies):
        return
    kernels = figures.numbered("kernels")
    copies = kernels.filter(pl.Series([copy_ends(name) != "" for name in kernels["kernel"]], dtype=pl.Boolean))
    host = copies.filter(pl.Series([is_host_copy(name) for name in copies["kernel"]], dtype=pl.Boolean))
    if 2 * float(host["total_us"].sum()) < float(copies["total_us"].sum()):
        return  # copies within the GPU: pinning memory does not help those
    host_copies = records(host, KernelRow)
    rows = [kernel_evidence(figures, copy) for copy in host_copies[:8]]
    yield from _exposed(
        figures,
        "exposed_memcpy",
        "WL106",
        limit_percent=THRESHOLDS.exposed_memcpy_percent,
        title="copies are exposed: nothing else runs meanwhile",
        place=rows[0].place if rows else "",
        rows=rows,
        edits=[RemoveWaits(only_copies=True), *(ScaleWork(copy.work, 0.0) for copy in host_copies)],
    )


def pageable_copies(figures: TraceFigures) -> Iterator[Finding]:
    """Copies from or to pageable host memory: the driver copies them once more, and the call blocks."""
    link_tbps = figures.ceiling("host link").value * THRESHOLDS.reachable_of_measured
    rows: list[Evidence] = []
    edits: list[Edit] = [RemoveWaits(only_copies=True)]
    for op in figures.ops:
        if op.family != "transfer" or op.param("memory") != "pageable":
            continue
        least_us = op.bytes / link_tbps / 1e6 if link_tbps else op.kernel_us_mean / 4
        gain_ms = figures.per_step_ms(op.total_us - op.count * least_us, op)
        if gain_ms > 0:
            row = Evidence(
                op.kernel_short,
                detail=f"{format_bytes(op.bytes)} each at {1e3 * op.tbps:.1f} GB/s",
                count=op.count,
                time_ms=figures.row_ms(op),
                gain_ms=gain_ms,
                place=op.place,
                targets=(op.target,),
            )
            rows.append(row)
            edits.append(op.saving(op.total_us - op.count * least_us))
    gain_ms = summed(rows)
    if figures.share_of_time(gain_ms) < THRESHOLDS.min_gain_percent:
        return
    yield figures.finding(
        "WL302",
        title="copies between host and GPU use pageable memory",
        gain_ms=gain_ms,
        place=rows[0].place,
        evidence=f"{sum(row.time_ms for row in rows):.2f} ms: {rows[0].what}, {rows[0].detail}",
        rows=rows[:8],
        edits=edits,
    )


def small_collectives(figures: TraceFigures) -> Iterator[Finding]:
    """Many collectives too small for the links' bandwidth, with exposed time to win."""
    limit = THRESHOLDS.small_message_kib * 1024
    frame = figures.numbered("comm").filter((pl.col("message_bytes") > 0) & (pl.col("message_bytes") < limit))
    collectives = records(frame, CollectiveRow)
    rows = [_collective_evidence(figures, collective) for collective in collectives]
    per_step = sum(row.count for row in rows) / max(1, figures.steps)
    exposed_ms = summed(rows)
    if per_step < THRESHOLDS.small_messages_per_step or not exposed_ms:
        return
    yield figures.finding(
        "WL401",
        title=f"{per_step:,.0f} collectives{figures.per_step_text} are smaller than {format_bytes(limit)}",
        gain_ms=exposed_ms,
        bound=True,
        place=rows[0].what,
        evidence=f"{exposed_ms:.2f} ms of them exposed; {rows[0].what} at {rows[0].detail}",
        rows=rows[:8],
        edits=(collective.saving(collective.exposed_us) for collective in collectives),
    )


def wave_tail(figures: TraceFigures) -> Iterator[Finding]:
    """Grids a little over a whole number of waves."""
    is_tail = (
        (pl.col("waves") > 1)
        & (pl.col("unused_percent") >= THRESHOLDS.tail_percent)
        & pl.col("kernel_category").is_in(COMPUTING)
    )
    yield from _unused(
        figures, "WL209", is_tail, title="kernels leave most of the GPU idle in their last wave of blocks"
    )


def few_blocks(figures: TraceFigures) -> Iterator[Finding]:
    """Grids that never fill the GPU, while nothing else runs on it."""
    yield from _unused(
        figures, "WL210", is_underfilled, title="kernels have fewer blocks than the GPU has multiprocessors"
    )


def _unused(figures: TraceFigures, code: str, chosen: pl.Expr, *, title: str) -> Iterator[Finding]:
    is_long = pl.col("mean_us") >= THRESHOLDS.least_tail_us
    launches = records(figures.numbered("launches").filter(chosen & is_long), LaunchRow)
    launches = [launch for launch in launches if launch.unused_us > 0]
    if not launches:
        return
    launches.sort(key=lambda launch: -launch.unused_us)
    rows = [_launch_evidence(figures, launch) for launch in launches]
    yield figures.finding(
        code,
        title=title,
        gain_ms=summed(rows),
        bound=True,
        place=rows[0].place,
        evidence=f"{rows[0].what}: {rows[0].detail}",
        rows=rows[:8],
        edits=(launch.saving(launch.unused_us) for launch in launches),
    )


def _launch_evidence(figures: TraceFigures, launch: LaunchRow) -> Evidence:
    return Evidence(
        launch.kernel_short,
        detail=f"{launch.blocks} blocks in {launch.waves:.2f} waves, {launch.blocks_per_multiprocessor} at a time "
        f"on each multiprocessor (limited by {launch.limited_by})",
        count=launch.count,
        time_ms=figures.row_ms(launch),
        gain_ms=figures.per_step_ms(launch.unused_us, launch),
        place=launch.line or launch.op,
        targets=(launch.target,),
    )


def recompute(figures: TraceFigures) -> Iterator[Finding]:
    """Forward work that activation checkpointing does twice."""
    recomputed = figures.phases.get("recompute")
    if recomputed is None:
        return
    gain_ms = figures.row_ms(recomputed)
    place = "torch.utils.checkpoint"
    row = Evidence(
        "recomputed forward pass",
        detail=recomputed.ops,
        count=recomputed.count,
        time_ms=gain_ms,
        gain_ms=gain_ms,
        place=place,
        targets=(recomputed.target,),
    )
    yield figures.finding(
        "WL212",
        title="activations are recomputed in the backward pass",
        gain_ms=gain_ms,
        bound=True,
        place=place,
        evidence=f"{format_count(recomputed.count)} GPU events: {recomputed.ops}",
        rows=(row,),
        edits=(ScaleWork(recomputed.work, 0.0, with_host=True),),
    )


def straggling_step(figures: TraceFigures) -> Iterator[Finding]:
    """One step that takes much longer than the others; passes of a served model differ by what they serve."""
    if figures.passes is not None:
        return
    frame = figures.numbered("steps").filter(pl.col("gpu_ms") > 0)
    if len(frame) < THRESHOLDS.straggler_steps:
        return
    usual_ms, usual_host_ms = _median(frame["gpu_ms"]), _median(frame["host_ms"])
    steps = records(frame, StepRow)
    slow = [step for step in steps if step.gpu_ms > THRESHOLDS.straggler_ratio * usual_ms]
    if not slow or len(slow) > len(steps) / 4:
        return
    rows = [_step_evidence(step, _slow_step(steps, step, usual_host_ms), usual_ms, of=len(steps)) for step in slow]
    ratio = max(step.gpu_ms for step in slow) / usual_ms
    take = "takes" if len(slow) == 1 else "take"
    yield figures.finding(
        "WL305",
        title=f"{len(slow)} of {len(steps)} steps {take} {ratio:.1f}× as long as usual",
        gain_ms=sum(step.gpu_ms - usual_ms for step in slow) / len(steps),
        bound=True,
        place=rows[0].what,
        evidence=rows[0].detail,
        rows=rows,
        slow_steps=(step.step for step in slow),
    )


def _slow_step(steps: Sequence[StepRow], slow: StepRow, usual_host_ms: float) -> StepRow:
    """The step to look into. On the GPU a step lasts until the next one's first kernel: where it waited for that, the
    next step's host part is what took long."""
    later = min((step for step in steps if step.start_ms > slow.start_ms), key=lambda step: step.start_ms, default=None)
    limit_ms = THRESHOLDS.straggler_ratio * usual_host_ms
    return later if later and later.host_ms > limit_ms and slow.host_ms <= limit_ms else slow


def _step_evidence(slow: StepRow, cause: StepRow, usual_ms: float, *, of: int) -> Evidence:
    return Evidence(
        cause.name,
        detail=f"{slow.name}: {slow.gpu_ms:.2f} ms on the GPU, of it idle {slow.idle_ms:.2f}; usual {usual_ms:.2f}",
        count=1,
        time_ms=slow.gpu_ms,
        gain_ms=(slow.gpu_ms - usual_ms) / of,
        targets=(StepTarget(cause.step), cause.target),
    )


def _median(column: pl.Series) -> float:
    return float(column.median() or 0.0)  # type: ignore[arg-type]
