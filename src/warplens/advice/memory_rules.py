"""Rules on work that moves bytes: elementwise chains, casts, layout changes, optimizers, slow memory-bound ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.advice.evidence import kernel_evidence, op_evidence, summed
from warplens.advice.figures import TraceFigures
from warplens.advice.rows import ChainRow, KernelRow, OpRow
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.missing_data import NO_STACKS
from warplens.model.edits import FuseWork, ReplaceWork, ScaleWork
from warplens.model.finding import Evidence, Finding
from warplens.model.records import records
from warplens_run.base.units import format_count, plural

MEMORY_FAMILIES: Final = (
    "pointwise", "reduction", "softmax", "norm", "copy", "cast", "cat", "indexing", "loss", "sort", "triton", "rope",
    "quantize",
)  # fmt: skip


OPTIMIZER_OPS: Final = "addcdiv_|addcmul_"
"""Ops that only optimizers call: their chains are WL208's."""

NARROW_SAVES: Final = 0.5
"""Of its time, a memory-bound op saves this in a type of half the size."""
FUSED_SHARE: Final = 1 / 3
"""A fused optimizer reads and writes each state once; unfused ones make about three times as many passes."""
FUSED_LAUNCHES: Final = 6
"""Its launches: one for some hundred parameters each."""
UNSTACKED: Final = {*NO_STACKS, "callers_only"}
"""Notes that mean that no Python stacks were recorded, or not while the program ran."""


def _fusable_chains(figures: TraceFigures) -> pl.DataFrame:
    """Chains worth fusing; those on scores are WL204's, with a third of casts WL206's, an optimizer's WL208's."""
    long = pl.col("length") >= THRESHOLDS.chain_length
    frame = figures.numbered("chains").filter(long & (3 * pl.col("casts") < pl.col("length")))
    if figures.findings_of(many_launch_optimizer):
        frame = frame.filter(~pl.col("ops").str.contains(OPTIMIZER_OPS))
    return frame.filter(~pl.col("on_scores"))


def pointwise_chains(figures: TraceFigures) -> Iterator[Finding]:
    """One finding per place: the forward and backward chains of one line are fixed together."""
    frame = _fusable_chains(figures)
    place = pl.when(pl.col("line") != "").then("line").otherwise("module")
    for (line_or_module,), group in frame.with_columns(place.alias("where")).group_by("where", maintain_order=True):
        chains = records(group, ChainRow)
        yield _chains_finding(figures, chains, str(line_or_module) or chains[0].ops)


def _chains_finding(figures: TraceFigures, chains: list[ChainRow], place: str) -> Finding:
    rows = [_chain_evidence(figures, chain, place) for chain in chains]
    time_ms, longest = sum(row.time_ms for row in rows), max(chain.length for chain in chains)
    spared = sum((chain.length - 1) * chain.count for chain in chains) / max(1, figures.steps)
    # The gain may be more than all of the chains' GPU time where the host is slower than the GPU.
    fewer = "GPU events" if "graph_mode" in figures.note_codes or not figures.has_launches else "launches"
    return figures.finding(
        "WL205",
        title=f"unfused elementwise ops: up to {longest} in a row move the same data",
        gain_ms=summed(rows),
        bound=True,
        place=place,
        evidence=f"{time_ms:.2f} ms of GPU time{figures.per_step_text} in {plural(len(chains), 'chain')}, "
        f"and {format_count(round(spared))} {fewer} that one kernel each would not need; e.g. {chains[0].ops}",
        rows=rows[:6],
        edits=(FuseWork(chain.work, chain.saving(chain.saved_us).factor) for chain in chains),
    )


def _chain_evidence(figures: TraceFigures, chain: ChainRow, place: str) -> Evidence:
    return Evidence(
        chain.ops,
        detail=f"{chain.length} ops on {chain.elements:,} elements; fusing saves up to "
        f"{min(100.0, 100 * chain.saved_bytes / max(1.0, chain.bytes)):.0f} % of the bytes",
        count=chain.count,
        time_ms=figures.row_ms(chain),
        gain_ms=figures.per_step_ms(chain.saved_us, chain),
        place=place,
        targets=(chain.target,),
    )


def cast_ping_pong(figures: TraceFigures) -> Iterator[Finding]:
    """Tensors of one size that are converted back and forth."""
    casts = [op for op in figures.ops if op.family == "cast" and not op.is_on_scores]
    ways = {(op.size("elements"), op.param("dtypes")) for op in casts}
    both = [op for op in casts if (op.size("elements"), "→".join(reversed(op.param("dtypes").split("→")))) in ways]
    if not both:
        return
    time_ms = figures.total_ms(both)
    chains = records(_fusable_chains(figures), ChainRow)
    in_chains_ms = sum(figures.per_step_ms(chain.cast_us, chain) for chain in chains)
    share = max(0.0, 1 - in_chains_ms / time_ms) if time_ms else 0.0
    rows = [op_evidence(figures, op, share * op.total_us, f"{op.param('dtypes')}, {op.tbps:.2f} TB/s") for op in both]
    between = _between_casts(figures, both)
    rows += [op_evidence(figures, op, NARROW_SAVES * op.total_us, "fp32 between the casts") for op in between]
    yield figures.finding(
        "WL206",
        title="tensors are cast back and forth between types",
        gain_ms=summed(rows),
        place=rows[0].place,
        evidence=f"{plural(len(both), 'kind')} of casts, {format_ways(both)}",
        rows=rows[:8],
        edits=[
            *(ScaleWork(op.work, 1 - share, with_host=True) for op in both),
            *(ScaleWork(op.work, 1 - NARROW_SAVES) for op in between),
        ],
    )


def _between_casts(figures: TraceFigures, casts: list[OpRow]) -> list[OpRow]:
    """Elementwise fp32 ops of the same size on the lines of casts: in the smaller type they move half the bytes.

    Those in chains are WL205's.
    """
    cast = {(op.line, op.size("elements")) for op in casts if op.line and op.line not in figures.chain_lines}
    return [
        op
        for op in figures.ops
        if op.family == "pointwise"
        and op.dtype == "fp32"
        and op.bound == "memory"
        and (op.line, op.size("elements")) in cast
    ]


def format_ways(casts: list[OpRow]) -> str:
    times: dict[str, float] = {}
    for op in casts:
        times[op.param("dtypes")] = times.get(op.param("dtypes"), 0.0) + op.total_us
    whole = sum(times.values()) or 1.0
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{way} {100 * time / whole:.0f} %" for way, time in ranked[:4])


def layout_changes(figures: TraceFigures) -> Iterator[Finding]:
    """Kernels inside convolutions and the like that only turn NCHW into NHWC and back.

    Silent where channels_last was measured to win nothing: PyTorch's group norms copy their input to NCHW and back, so
    that every convolution beside one converts as before (a UNet in fp32: 20.0 to 22.3 ms a step). In fp32 only networks
    with batch norms were measured to win (23.5 to 13.4 ms).
    """
    frame = figures.numbered("kernels").filter(
        (pl.col("kernel_category") == "Layout Transform") & (pl.col("op_category") == "Convolution")
    )
    kernels = records(frame, KernelRow)
    if not kernels:
        return
    transposing_ms = figures.total_ms(kernels)
    # Of the time in which the GPU works: a slow loader beside it makes conversions no cheaper.
    if 100 * transposing_ms < THRESHOLDS.layout_percent * figures.gain_ms("busy") or not _wins_in_nhwc(figures):
        return
    rows = [kernel_evidence(figures, kernel, is_gain=True) for kernel in kernels]
    # Batch norms are slow along NCHW for the same reason, and run about twice as far from the limit in NHWC.
    reach = THRESHOLDS.reachable_norm
    norms = [
        (op, op.total_us - op.count * op.limit_us / reach) for op in figures.ops if is_batch_norm(op) and _is_slow(op)
    ]
    rows += [op_evidence(figures, op, gain_us) for op, gain_us in norms]
    convolutions = (op.place for op in figures.ops if op.family == "convolution")
    launches = sum(kernel.count for kernel in kernels)
    yield figures.finding(
        "WL207",
        title="convolutions convert the memory layout of their tensors and back",
        gain_ms=summed(rows),
        place=next(convolutions, kernels[0].op),
        evidence=f"{transposing_ms:.2f} ms in {plural(launches, 'layout kernel')}, e.g. {kernels[0].kernel_short}",
        rows=rows[:8],
        edits=[
            *(ScaleWork(kernel.work, 0.0) for kernel in kernels),
            *(op.saving(gain_us) for op, gain_us in norms),
        ],
    )


def _wins_in_nhwc(figures: TraceFigures) -> bool:
    batch, group = (
        sum(op.total_us for op in figures.ops if is_norm(op)) for is_norm in (is_batch_norm, _is_group_norm)
    )
    types = {op.dtype for op in figures.ops if op.family == "convolution"}
    return batch > group or (not group and types != {"fp32"})


def _is_group_norm(op: OpRow) -> bool:
    return op.family == "norm" and "group_norm" in op.op


def slowed_by_stacks(figures: TraceFigures) -> str:
    """Recording Python stacks slows the host, two- to threefold where every op has many frames."""
    recorded = not UNSTACKED & figures.note_codes
    return "; recorded with stacks, which slows the host" if recorded else ""


def many_launch_optimizer(figures: TraceFigures) -> Iterator[Finding]:
    """An optimizer that launches kernels for each parameter, or several passes over all of them."""
    optimizer = figures.phases.get("optimizer")
    if optimizer is None:
        return
    per_step = optimizer.count / max(1, figures.steps)
    if per_step < THRESHOLDS.optimizer_launches or "_fused_" in optimizer.ops:
        return
    span_us = optimizer.span_us or 0.0
    gain_ms = figures.per_step_ms(max(0.0, span_us - FUSED_SHARE * optimizer.total_us), optimizer)
    busy_ms = figures.row_ms(optimizer)
    place = "Optimizer.step"
    row = Evidence(
        optimizer.ops,
        count=optimizer.count,
        time_ms=busy_ms,
        gain_ms=gain_ms,
        place=place,
        targets=(optimizer.target,),
    )
    yield figures.finding(
        "WL208",
        title=f"the optimizer launches {per_step:,.0f} kernels{figures.per_step_text}",
        gain_ms=gain_ms,
        gpu_gain_ms=busy_ms * (1 - FUSED_SHARE),
        bound=True,
        place=place,
        evidence=f"{figures.per_step_ms(span_us, optimizer):.2f} ms from its first to its last kernel"
        f"{figures.recorded_text}, {busy_ms:.2f} ms of them busy: {optimizer.ops}{slowed_by_stacks(figures)}",
        advice=figures.advice("WL208" if "_foreach_" in optimizer.ops else "WL208 loop"),
        rows=(row,),
        edits=(ReplaceWork(optimizer.work, FUSED_SHARE, FUSED_LAUNCHES),),
    )


def _is_slow(op: OpRow) -> bool:
    """A recorded tensor that is read and written counts once only: such rows must be slow by twice the margin."""
    return (
        op.bound == "memory"
        and op.family in MEMORY_FAMILIES
        and op.is_below(THRESHOLDS.slow_memory_percent / (2 if op.approximate else 1))
        and (op.limit_us >= THRESHOLDS.least_memory_us or op.kernel_us_mean >= THRESHOLDS.long_memory_us)
    )


def is_batch_norm(op: OpRow) -> bool:
    return op.family == "norm" and "batch_norm" in op.op


def _is_explained(figures: TraceFigures, op: OpRow) -> bool:
    """Whether a more telling rule counts the same op: attention in parts, a chain, too few blocks."""
    if op.op in figures.underfilled_ops or (is_batch_norm(op) and figures.findings_of(layout_changes)):
        return True
    if op.family in ("pointwise", "cast") and op.line in figures.chain_lines:
        return True
    return op.is_on_scores


def slow_memory(figures: TraceFigures) -> Iterator[Finding]:
    """Memory-bound ops far below the bandwidth."""
    least_ms = THRESHOLDS.slow_memory_gain_percent / 100 * figures.whole_ms
    ops = [
        op
        for op in figures.ops
        if _is_slow(op) and not _is_explained(figures, op) and figures.per_step_ms(op.lost_us or 0.0, op) >= least_ms
    ]
    rows = [op_evidence(figures, op, op.lost_us or 0.0) for op in ops]
    if not rows:
        return
    rows.sort(key=lambda row: -row.gain_ms)
    yield figures.finding(
        "WL211",
        title=f"{plural(len(rows), 'memory-bound op runs', 'memory-bound ops run')} far below the memory bandwidth",
        gain_ms=summed(rows),
        bound=True,
        place=rows[0].place,
        evidence=f"{rows[0].what}: {rows[0].detail}",
        rows=rows[:8],
        edits=(op.saving(op.lost_us or 0.0) for op in ops),
    )
