"""Rules on launches, copies, communication, steps, and on the trace itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from warplens.advice.facts import Facts, is_underfilled
from warplens.advice.matrix_rules import row_place, summed
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.work.comm import UNKNOWN
from warplens.categories import OTHER
from warplens.model.finding import Evidence, Finding
from warplens.units import format_bytes, format_count

COMPUTING: Final = ("GEMM", "Attention", "Convolution", "MoE", "Linear Algebra", OTHER)
"""Kernels whose blocks compute; where memory is the limit, a few blocks of the last wave can use all of it."""
HOST_COPY: Final = "HtoD|DtoH|Host -> Device|Device -> Host"


def graph_heavy(facts: Facts) -> Iterator[Finding]:
    frame = facts.frame("launch_categories").filter("is_graph")
    whole = float(facts.frame("launch_categories")["total_us"].sum()) or 1.0
    in_graphs = float(frame["total_us"].sum())
    percent = 100 * in_graphs / whole
    if percent < THRESHOLDS["graph_percent"]:
        return
    kinds = frame.group_by("kernel_category").agg(pl.col("total_us").sum())
    top = kinds.sort("total_us", "kernel_category", descending=[True, False]).row(0)
    share = 100 * top[1] / in_graphs
    yield Finding(
        "WL102",
        f"{percent:.0f} % of GPU time is inside graph launches; {top[0]} dominates them ({share:.0f} %)",
        0.0,
        0.0,
        False,
        ", ".join(frame["op"].unique().sort().to_list()),
        f"{format_count(int(frame['count'].sum()))} kernels in graphs",
        facts.advice("WL102"),
    )


def unknown_kernels(facts: Facts) -> Iterator[Finding]:
    other = next((row for row in facts.categories if row["kernel_category"] == OTHER), None)
    if other is None or other["percent"] <= THRESHOLDS["other_percent"]:
        return
    frame = facts.frame("kernels").filter(pl.col("kernel_category") == OTHER)
    rows = tuple(
        Evidence(row["kernel_short"], row["op"], row["count"], facts.per_step_ms(row["total_us"], row), place=row["op"])
        for row in frame.head(5).iter_rows(named=True)
    )
    yield Finding(
        "WL103",
        f"{other['percent']:.1f} % of GPU time is in kernels of no known category",
        0.0,
        0.0,
        False,
        str(frame["kernel_short"][0]),
        f"{frame['kernel'].n_unique()} kernel names, {format_count(other['count'])} launches",
        facts.advice("WL103"),
        rows=rows,
    )


DOUBTFUL: Final = (
    "truncated", "damaged", "negative_duration", "out_of_range", "missing_duration", "duplicate_correlation",
    "bad_args", "not_events", "unclosed",
)  # fmt: skip
"""Quality notes that mean that something is missing from the sums, or wrong in them."""


def doubtful_trace(facts: Facts) -> Iterator[Finding]:
    """Faults of the trace itself that make other numbers doubtful."""
    notes = [row for row in facts.frame("quality").iter_rows(named=True) if row["code"] in DOUBTFUL]
    # Work that was queued before the recording began is no fault: steps and ops leave it out, and say so.
    share = float(facts.frame("phases").filter(pl.col("phase") == "unknown")["percent"].sum())
    # Without a host side, or in another tool's trace, launches are not recorded by design; the quality says so.
    by_design = {"no_host", "chrome", "callers_only"} & set(facts.frame("quality")["code"].to_list())
    texts = [str(row["message"]) for row in notes if row["code"] != "not_events" or row["count"] > 1]
    if not by_design and share >= THRESHOLDS["unlinked_percent"]:
        texts.append(f"{share:.0f} % of GPU time has no recorded launch amid work that has, so no op, line or step")
    if not texts:
        return
    yield Finding(
        "WL901",
        "faults of the trace make other numbers doubtful",
        0.0,
        0.0,
        False,
        "quality",
        "; ".join(texts),
        facts.advice("WL901"),
        rows=tuple(Evidence(text) for text in texts),
    )


def _exposed(
    facts: Facts, measure: str, code: str, title: str, place: str, rows: tuple[Evidence, ...]
) -> Iterator[Finding]:
    percent = facts.percent(measure)
    if percent < THRESHOLDS[f"{measure}_percent"]:
        return
    gain = facts.gain_ms(measure)
    evidence = f"{facts.measures[measure]:.2f} of {facts.measures['total']:.2f} ms"
    share, text = facts.share_of_time(gain), title.format(percent=percent)
    yield Finding(code, text, gain, share, True, place, evidence, facts.advice(code), rows=rows)


def exposed_communication(facts: Facts) -> Iterator[Finding]:
    frame = facts.frame("comm").sort("exposed_us", descending=True).head(8)
    rows = tuple(_collective_row(facts, row) for row in frame.iter_rows(named=True))
    place = " of ".join(filter(None, (frame["collective"][0], rows[0].place))) if rows else ""
    yield from _exposed(
        facts,
        "exposed_communication",
        "WL105",
        "communication is hidden by nothing for {percent:.1f} % of the time",
        place,
        rows,
    )


def _collective_row(facts: Facts, row: dict[str, Any]) -> Evidence:
    """`gain_ms` is what nothing hides; collectives at the same time each have it."""
    size = row["message_bytes"]
    return Evidence(
        f"{row['collective']} of {format_bytes(size)}" if size else row["collective"],
        f"{row['algbw_gbps']:.2f} GB/s" if row["algbw_gbps"] else "",
        row["count"],
        facts.per_step_ms(row["total_us"], row),
        facts.per_step_ms(row["exposed_us"], row),
        f"group {row['group']}" if row["group"] != UNKNOWN else "",
    )


def exposed_copies(facts: Facts) -> Iterator[Finding]:
    """Copies that nothing hides, unless pageable memory is what makes them long: that is WL302's."""
    if facts.found(pageable_copies):
        return
    copies = facts.frame("kernels").filter(pl.col("kernel").str.starts_with("Memcpy"))
    host = copies.filter(pl.col("kernel").str.contains(HOST_COPY))
    if 2 * float(host["total_us"].sum()) < float(copies["total_us"].sum()):
        return  # copies within the GPU: pinning memory does not help those
    yield from _exposed(
        facts,
        "exposed_memcpy",
        "WL106",
        "copies are hidden by nothing for {percent:.1f} % of the time",
        str(host["op"][0]) if len(host) else "",
        tuple(
            Evidence(
                row["kernel_short"], row["op"], row["count"], facts.per_step_ms(row["total_us"], row), place=row["op"]
            )
            for row in host.head(8).iter_rows(named=True)
        ),
    )


def pageable_copies(facts: Facts) -> Iterator[Finding]:
    """Copies from or to pageable host memory: the driver copies them once more, and the call blocks."""
    link = facts.ceilings.get(("host link", ""), (0.0, False))[0] * THRESHOLDS["reachable_of_measured"]
    evidence = []
    for row in facts.roofline:
        if row["family"] != "transfer" or row["memory"] != "pageable":
            continue
        least = row["bytes"] / link / 1e6 if link else row["kernel_us_mean"] / 4
        gain = facts.per_step_ms(row["total_us"] - row["count"] * least, row)
        if gain > 0:
            detail = f"{format_bytes(row['bytes'])} each at {1e3 * row['tbps']:.1f} GB/s"
            time = facts.per_step_ms(row["total_us"], row)
            evidence.append(Evidence(row["kernel_short"], detail, row["count"], time, gain, row_place(row)))
    gain = summed(evidence)
    if facts.share_of_time(gain) < THRESHOLDS["min_gain_percent"]:
        return
    yield Finding(
        "WL302",
        "copies between host and GPU use pageable memory",
        gain,
        facts.share_of_time(gain),
        False,
        evidence[0].place,
        f"{sum(row.time_ms for row in evidence):.2f} ms: {evidence[0].what}, {evidence[0].detail}",
        facts.advice("WL302"),
        rows=tuple(evidence[:8]),
    )


def small_collectives(facts: Facts) -> Iterator[Finding]:
    """Many collectives too small for the links' bandwidth, with exposed time to win."""
    limit = THRESHOLDS["small_message_kib"] * 1024
    rows = facts.frame("comm").filter((pl.col("message_bytes") > 0) & (pl.col("message_bytes") < limit))
    per_step = float(rows["count"].sum()) / max(1, facts.steps)
    exposed = sum(facts.per_step_ms(row["exposed_us"], row) for row in rows.iter_rows(named=True))
    if per_step < THRESHOLDS["small_messages_per_step"] or not exposed:
        return
    evidence = tuple(_collective_row(facts, row) for row in rows.iter_rows(named=True))
    yield Finding(
        "WL401",
        f"{per_step:,.0f} collectives{facts.per_step_text} are smaller than {format_bytes(limit)}",
        exposed,
        facts.share_of_time(exposed),
        True,
        evidence[0].what,
        f"{exposed:.2f} ms of them exposed; {evidence[0].what} at {evidence[0].detail}",
        facts.advice("WL401"),
        rows=evidence[:8],
    )


def wave_tail(facts: Facts) -> Iterator[Finding]:
    """Grids a little over a whole number of waves."""
    yield from _unused(
        facts,
        "WL209",
        (pl.col("waves") > 1)
        & (pl.col("unused_percent") >= THRESHOLDS["tail_percent"])
        & pl.col("kernel_category").is_in(COMPUTING),
        "kernels leave most of the GPU idle in their last wave of blocks",
    )


def few_blocks(facts: Facts) -> Iterator[Finding]:
    """Grids that never fill the GPU."""
    yield from _unused(
        facts,
        "WL210",
        is_underfilled,
        "kernels have fewer blocks than the GPU has multiprocessors",
    )


def _unused(facts: Facts, code: str, chosen: pl.Expr, title: str) -> Iterator[Finding]:
    frame = facts.frame("launches").filter(chosen & (pl.col("mean_us") >= THRESHOLDS["least_tail_us"]))
    if not len(frame):
        return
    gain_us = pl.col("total_us") * pl.col("unused_percent") / 100
    frame = frame.with_columns(gain_us.alias("gain_us")).sort("gain_us", descending=True)
    rows = tuple(
        Evidence(
            row["kernel_short"],
            f"{row['blocks']} blocks, {row['waves']:.2f} waves of {row['blocks_per_multiprocessor']} per "
            f"multiprocessor (limited by {row['limited_by']})",
            row["count"],
            facts.per_step_ms(row["total_us"], row),
            facts.per_step_ms(row["gain_us"], row),
            row["line"] or row["op"],
        )
        for row in frame.iter_rows(named=True)
    )
    gain = summed(rows)
    evidence = f"{rows[0].what}: {rows[0].detail}"
    share, advice = facts.share_of_time(gain), facts.advice(code)
    yield Finding(code, title, gain, share, True, rows[0].place, evidence, advice, rows=rows[:8])


def recompute(facts: Facts) -> Iterator[Finding]:
    """Forward work that activation checkpointing does twice."""
    frame = facts.frame("phases").filter(pl.col("phase") == "recompute")
    if not len(frame):
        return
    row = frame.row(0, named=True)
    gain = facts.per_step_ms(row["total_us"], row)
    yield Finding(
        "WL212",
        f"recomputing activations takes {facts.share_of_time(gain):.0f} % of the time",
        gain,
        facts.share_of_time(gain),
        True,
        "torch.utils.checkpoint",
        f"{format_count(row['count'])} GPU events: {row['ops']}",
        facts.advice("WL212"),
        rows=(Evidence("recomputed forward", row["ops"], row["count"], gain, gain, "torch.utils.checkpoint"),),
    )


def _slow_step(frame: pl.DataFrame, row: dict[str, Any]) -> str:
    """The step to look into. On the GPU a step lasts until the next one's first kernel: where it waited for that, the
    next step's host part is what took long."""
    later = frame.filter(pl.col("start_ms") > row["start_ms"]).sort("start_ms").head(1)
    usual = float(frame["host_ms"].median() or 0.0)  # type: ignore[arg-type]
    limit = THRESHOLDS["straggler_ratio"] * usual
    if len(later) and later["host_ms"][0] > limit and row["host_ms"] <= limit:
        return str(later["name"][0])
    return str(row["name"])


def straggling_step(facts: Facts) -> Iterator[Finding]:
    """One step that takes much longer than the others."""
    frame = facts.frame("steps").filter(pl.col("gpu_ms") > 0)
    if len(frame) < THRESHOLDS["straggler_steps"]:
        return
    usual = float(frame["gpu_ms"].median() or 0.0)  # type: ignore[arg-type]
    slow = frame.filter(pl.col("gpu_ms") > THRESHOLDS["straggler_ratio"] * usual)
    if not len(slow) or len(slow) > len(frame) / 4:
        return
    gain = float((slow["gpu_ms"] - usual).sum()) / len(frame)
    rows = tuple(
        Evidence(
            _slow_step(frame, row),
            f"{row['name']}: {row['gpu_ms']:.2f} ms on the GPU, of it idle {row['idle_ms']:.2f}; usual {usual:.2f}",
            1,
            row["gpu_ms"],
            (row["gpu_ms"] - usual) / len(frame),
        )
        for row in slow.iter_rows(named=True)
    )
    yield Finding(
        "WL305",
        f"{len(slow)} of {len(frame)} steps {'takes' if len(slow) == 1 else 'take'} "
        f"{float(slow['gpu_ms'].max() or 0) / usual:.1f}× as long as usual",  # type: ignore[arg-type]
        gain,
        facts.share_of_time(gain),
        True,
        rows[0].what,
        rows[0].detail,
        facts.advice("WL305"),
        rows=rows,
    )
