"""Rules on work that moves bytes: elementwise chains, casts, layout changes, optimizers, slow memory-bound ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from warplens.advice.facts import Facts
from warplens.advice.matrix_rules import ON_SCORES, row_place, summed, to_evidence
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.absent import NO_STACKS
from warplens.model.finding import Evidence, Finding

MEMORY_FAMILIES: Final = (
    "pointwise", "reduction", "softmax", "norm", "copy", "cast", "cat", "indexing", "loss", "sort", "triton", "rope",
    "quantize",
)  # fmt: skip


OPTIMIZER_OPS: Final = "addcdiv_|addcmul_"
"""Ops that only optimizers call: their chains are WL208's."""

UNSTACKED: Final = {*NO_STACKS, "callers_only"}
"""Notes that mean that no Python stacks were recorded, or not while the program ran."""


def _fusable_chains(facts: Facts) -> pl.DataFrame:
    """Chains worth fusing; those on scores are WL204's, with a third of casts WL206's, an optimizer's WL208's."""
    long = pl.col("length") >= THRESHOLDS["chain_length"]
    frame = facts.frame("chains").filter(long & (3 * pl.col("casts") < pl.col("length")))
    if facts.found(many_launch_optimizer):
        frame = frame.filter(~pl.col("ops").str.contains(OPTIMIZER_OPS))
    return frame.filter(~pl.col("elements").is_in(list(facts.score_sizes)))


def pointwise_chains(facts: Facts) -> Iterator[Finding]:
    """One finding per place: the forward and backward chains of one line are mended together."""
    frame = _fusable_chains(facts)
    place = pl.when(pl.col("line") != "").then("line").otherwise("module")
    for (known,), rows in frame.with_columns(place.alias("where")).group_by("where", maintain_order=True):
        where = str(known) or str(rows["ops"][0])
        evidence = tuple(
            Evidence(
                what=row["ops"],
                detail=f"{row['length']} ops on {row['elements']:,} elements; fusing saves up to "
                f"{100 * row['saved_bytes'] / max(1.0, row['bytes']):.0f} % of the bytes",
                count=row["count"],
                time_ms=facts.per_step_ms(row["total_us"], row),
                gain_ms=facts.per_step_ms(row["saved_us"], row),
                place=where,
            )
            for row in rows.iter_rows(named=True)
        )
        gain, time = summed(evidence), sum(row.time_ms for row in evidence)
        longest = max(rows["length"].to_list())
        yield Finding(
            "WL205",
            f"unfused elementwise ops: up to {longest} in a row move the same data",
            gain,
            facts.share_of_time(gain),
            True,
            where,
            f"{time:.2f} ms in {len(evidence)} chain{'s' * (len(evidence) > 1)}, e.g. {evidence[0].what}",
            facts.advice("WL205"),
            rows=evidence[:6],
        )


def cast_ping_pong(facts: Facts) -> Iterator[Finding]:
    """Tensors of one size that are converted forth and back."""
    casts = [row for row in facts.roofline if row["family"] == "cast"]
    rows = [row for row in casts if int(row["elements"]) not in facts.score_sizes]  # those are WL204's
    ways = {(row["elements"], row["dtypes"]) for row in rows}
    both = [row for row in rows if (row["elements"], "→".join(reversed(row["dtypes"].split("→")))) in ways]
    if not both:
        return
    time = facts.total_ms(both)
    in_chains = sum(facts.per_step_ms(row["cast_us"], row) for row in _fusable_chains(facts).iter_rows(named=True))
    share = max(0.0, 1 - in_chains / time) if time else 0.0
    evidence = [
        to_evidence(facts, row, share * row["total_us"], f"{row['dtypes']}, {row['tbps']:.2f} TB/s") for row in both
    ]
    gain = summed(evidence)
    yield Finding(
        "WL206",
        "tensors are cast forth and back between types",
        gain,
        facts.share_of_time(gain),
        False,
        evidence[0].place,
        f"{len(both)} kinds of casts, {format_ways(both)}",
        facts.advice("WL206"),
        rows=tuple(evidence[:8]),
    )


def format_ways(rows: list[dict[str, Any]]) -> str:
    times: dict[str, float] = {}
    for row in rows:
        times[row["dtypes"]] = times.get(row["dtypes"], 0.0) + row["total_us"]
    whole = sum(times.values()) or 1.0
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{way} {100 * time / whole:.0f} %" for way, time in ranked[:4])


def layout_changes(facts: Facts) -> Iterator[Finding]:
    """Kernels inside convolutions and the like that only turn NCHW into NHWC and back."""
    frame = facts.frame("kernels").filter(
        (pl.col("kernel_category") == "Layout Transform") & (pl.col("op_category") == "Convolution")
    )
    if not len(frame):
        return
    gain = facts.total_ms(frame.iter_rows(named=True))
    if facts.share_of_time(gain) < THRESHOLDS["layout_percent"]:
        return
    rows = [_layout_row(facts, row) for row in frame.iter_rows(named=True)]
    # Batch norms are slow along NCHW for the same reason, and run about twice as far from the limit in NHWC.
    reach = THRESHOLDS["reachable_norm"]
    rows += [
        to_evidence(facts, row, row["total_us"] - row["count"] * row["roofline_us"] / reach)
        for row in facts.roofline
        if is_batch_norm(row) and _is_slow(row)
    ]
    transposing = gain
    gain = summed(rows)
    convolutions = (row for row in facts.roofline if row["family"] == "convolution")
    place = next(map(row_place, convolutions), str(frame["op"][0]))
    yield Finding(
        "WL207",
        "convolutions change the memory layout of their tensors and back",
        gain,
        facts.share_of_time(gain),
        False,
        place,
        f"{transposing:.2f} ms in {int(frame['count'].sum())} layout kernels, e.g. {frame['kernel_short'][0]}",
        facts.advice("WL207"),
        rows=tuple(rows[:8]),
    )


def _layout_row(facts: Facts, row: dict[str, Any]) -> Evidence:
    time = facts.per_step_ms(row["total_us"], row)
    return Evidence(row["kernel_short"], row["op"], row["count"], time, time, row["op"])


def slowed_by_stacks(facts: Facts) -> str:
    """Recording Python stacks slows the host, two- to threefold where every op has many frames."""
    recorded = not UNSTACKED & set(facts.frame("quality")["code"].to_list())
    return "; recorded with stacks, which slows the host: the gain without the profiler is smaller" if recorded else ""


def many_launch_optimizer(facts: Facts) -> Iterator[Finding]:
    """An optimizer that launches kernels for each parameter, or several passes over all of them."""
    frame = facts.frame("phases").filter(pl.col("phase") == "optimizer")
    if not len(frame):
        return
    row = frame.row(0, named=True)
    per_step = row["count"] / max(1, facts.steps)
    if per_step < THRESHOLDS["optimizer_launches"] or "_fused_" in row["ops"]:
        return
    # A fused step reads and writes each state once; unfused ones make about three times as many passes.
    gain = facts.per_step_ms(max(0.0, (row["span_us"] or 0.0) - row["total_us"] / 3), row)
    yield Finding(
        "WL208",
        f"the optimizer launches {per_step:,.0f} kernels{facts.per_step_text}",
        gain,
        facts.share_of_time(gain),
        True,
        "Optimizer.step",
        f"{facts.per_step_ms(row['span_us'] or 0.0, row):.2f} ms from its first to its last kernel, "
        f"{facts.per_step_ms(row['total_us'], row):.2f} ms of them busy: {row['ops']}{slowed_by_stacks(facts)}",
        facts.advice("WL208" if "_foreach_" in row["ops"] else "WL208 loop"),
        rows=(Evidence(row["ops"], "", row["count"], facts.per_step_ms(row["total_us"], row), gain, "Optimizer.step"),),
    )


def _is_slow(row: dict[str, Any]) -> bool:
    """A recorded tensor that is read and written counts once only: such rows must be slow by twice the margin."""
    return bool(
        row["bound"] == "memory"
        and row["family"] in MEMORY_FAMILIES
        and row["percent_of_roofline"] < THRESHOLDS["slow_memory_percent"] / (2 if row["approximate"] else 1)
        and row["roofline_us"] >= THRESHOLDS["least_memory_us"]
    )


def is_batch_norm(row: dict[str, Any]) -> bool:
    return row["family"] == "norm" and "batch_norm" in row["op"]


def _is_explained(facts: Facts, row: dict[str, Any]) -> bool:
    """Whether a more telling rule counts the same op: attention in parts, a chain, too few blocks."""
    if row["op"] in facts.underfilled_ops or (is_batch_norm(row) and facts.found(layout_changes)):
        return True
    if row["family"] in ("pointwise", "cast") and row["line"] in facts.chain_lines:
        return True
    return row["family"] in ON_SCORES and int(row.get("elements", 0)) in facts.score_sizes


def slow_memory(facts: Facts) -> Iterator[Finding]:
    """Memory-bound ops far below the bandwidth."""
    evidence = [
        to_evidence(facts, row, row["lost_us"])
        for row in facts.roofline
        if _is_slow(row) and not _is_explained(facts, row)
    ]
    if not evidence:
        return
    evidence.sort(key=lambda row: -row.gain_ms)
    gain = summed(evidence)
    yield Finding(
        "WL211",
        f"{len(evidence)} memory-bound op{'s' * (len(evidence) > 1)} far below the memory's bandwidth",
        gain,
        facts.share_of_time(gain),
        True,
        evidence[0].place,
        f"{evidence[0].what}: {evidence[0].detail}",
        facts.advice("WL211"),
        rows=tuple(evidence[:8]),
    )
