"""Rules: Tables → Findings. A rule is a function of the facts; its thresholds stand in `THRESHOLDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from warplens.advice.facts import Facts
from warplens.analyses.gaps import CAUSES
from warplens.categories import OTHER
from warplens.model.finding import Finding, findings_table
from warplens.model.table import Table
from warplens.units import format_count

THRESHOLDS: Final = {
    "idle_percent": 10.0,
    "graph_percent": 50.0,
    "other_percent": 1.0,
    "short_share_percent": 50.0,
    "exposed_communication_percent": 10.0,
    "exposed_memcpy_percent": 5.0,
    "stall_percent_of_idle": 10.0,
}
LONG_GAP_US: Final = 1000.0
"""A gap no launch explains."""
LAUNCH_GAP_US: Final = 100.0
"""The most that preparing one launch should take; fewer launches do not help against longer gaps."""

EXPLAIN: Final = {
    "WL101": (
        "The GPU is idle for a large part of the time. The gain is bounded by the idle time itself: if the host kept "
        "the GPU fed, the trace would be shorter by at most that much. The table `idle` splits it by cause, the table "
        "`gaps` lists each gap with what the host was doing. Reported from {idle_percent:g} % idle on."
    ),
    "WL102": (
        "Most GPU time comes from CUDA or HIP graph launches, inside which a trace records no ops. The kernels of a "
        "graph are categorised by name all the same: `launch_categories` says which kind dominates each graph. To see "
        "ops and lines, profile one step with graphs switched off. Reported from {graph_percent:g} % of GPU time on."
    ),
    "WL103": (
        "Kernels that no rule knows take a noticeable share of GPU time, so category shares are incomplete. Add a rule "
        "for them with --rules my.toml. Reported above {other_percent:g} % of GPU time."
    ),
    "WL104": (
        "Most GPU events are shorter than the threshold (10 µs unless set), about what a launch costs the host. Many "
        "short kernels leave the GPU waiting; fusing them (torch.compile) or replaying them as a graph removes the "
        "launches. The gain is bounded by the gaps of up to 100 µs in which the host was preparing a launch; they are "
        "part of what WL101 counts. Reported when over "
        "{short_share_percent:g} % of the events are short and that time is over {idle_percent:g} % of the total."
    ),
    "WL105": (
        "Communication runs while the GPU computes nothing. If computation hid all of it, the trace would be shorter "
        "by at most the exposed time; time spent waiting for a slower rank is in it too. Reported from "
        "{exposed_communication_percent:g} % of the total on."
    ),
    "WL107": (
        "A few gaps of over 1 ms with the host in one place make up a large part of the idle time: a kernel or a "
        "graph being compiled, a plan being searched, data being waited for, a call that blocks. They are part of "
        "what WL101 counts. Reported from {stall_percent_of_idle:g} % of the idle time on, if the GPU is idle for over "
        "{idle_percent:g} %."
    ),
    "WL106": (
        "Copies between host and GPU run while the GPU does nothing else. Pinned memory, non_blocking copies and a "
        "copy stream hide them. Reported from {exposed_memcpy_percent:g} % of the total on."
    ),
}

LAUNCH_CAUSES: Final = ("host busy", "launch call")
"""Idleness that fewer launches would remove."""


def explain(code: str) -> str:
    return EXPLAIN[code].format(**THRESHOLDS)


def idle(facts: Facts) -> Finding | None:
    percent = facts.percent("idle")
    if percent < THRESHOLDS["idle_percent"]:
        return None
    main = facts.main_idle_cause
    place, share = _gap_place(facts, pl.lit(True))
    causes = ", ".join(f"{cause['cause']} {cause['percent_of_idle']:.0f} %" for cause in facts.idle_causes[:3])
    return Finding(
        code="WL101",
        title=f"GPU idle {percent:.1f} % of the time, mostly: {main}",
        gain_ms=facts.gain_ms("idle"),
        gain_percent=facts.share_of_time(facts.gain_ms("idle")),
        bound=True,
        place=place,
        evidence=f"{causes}; {share:.0f} % of it under this place" if place else causes,
        advice=CAUSES.get(main, "one GPU works after the other: let them work at the same time"),
    )


PLACE: Final = pl.when(pl.col("host_frame") != "").then("host_frame").otherwise("host_op")
"""Where the host was during a gap: the user's line, else the op."""


def _gap_place(facts: Facts, chosen: pl.Expr) -> tuple[str, float]:
    """The place under which the GPU waited longest in some of the gaps, and its share of all idle time."""
    frame = facts.frame("gaps").filter(chosen)
    by_place = frame.group_by(PLACE.alias("place")).agg(pl.col("gap_us").sum()).filter(pl.col("place") != "")
    top = by_place.sort("gap_us", "place", descending=[True, False]).head(1)
    if not len(top):
        return "", 0.0
    whole = max(float(facts.frame("idle")["total_us"].sum()), 1e-9)
    return str(top["place"][0]), 100 * float(top["gap_us"][0]) / whole


def long_stalls(facts: Facts) -> Finding | None:
    """A few long gaps in one place are a cause of their own: compilation, data, a slow call."""
    is_long = pl.col("gap_us") >= LONG_GAP_US
    place, share = _gap_place(facts, is_long)
    if facts.percent("idle") < THRESHOLDS["idle_percent"] or share < THRESHOLDS["stall_percent_of_idle"]:
        return None
    here = is_long & (place == PLACE)
    found = facts.frame("gaps").filter(here)
    gain = facts.gap_gain_ms(here)
    return Finding(
        code="WL107",
        title=f"{share:.0f} % of the idle time is {len(found)} gap{'s' * (len(found) > 1)} of over 1 ms in one place",
        gain_ms=gain,
        gain_percent=facts.share_of_time(gain),
        bound=True,
        place=place,
        evidence=f"longest {float(found['gap_us'].max() or 0) / 1e3:.1f} ms, before {found['after'][0]}",  # type: ignore[arg-type]
        advice="look at what runs there: compilation or autotuning, data, a blocking call; warm up, or do it once",
    )


def graph_heavy(facts: Facts) -> Finding | None:
    frame = facts.frame("launch_categories").filter("is_graph")
    whole = float(facts.frame("launch_categories")["total_us"].sum()) or 1.0
    in_graphs = float(frame["total_us"].sum())
    percent = 100 * in_graphs / whole
    if percent < THRESHOLDS["graph_percent"]:
        return None
    kinds = frame.group_by("kernel_category").agg(pl.col("total_us").sum())
    top = kinds.sort("total_us", "kernel_category", descending=[True, False]).row(0)
    share = 100 * top[1] / in_graphs
    return Finding(
        code="WL102",
        title=f"{percent:.0f} % of GPU time is inside graph launches; {top[0]} dominates them ({share:.0f} %)",
        gain_ms=0.0,
        gain_percent=0.0,
        bound=False,
        place=", ".join(frame["op"].unique().sort().to_list()),
        evidence=f"{format_count(int(frame['count'].sum()))} kernels in graphs",
        advice="see launch_categories for each graph; profile once without graphs to see ops and lines",
    )


def unknown_kernels(facts: Facts) -> Finding | None:
    other = next((row for row in facts.categories if row["kernel_category"] == OTHER), None)
    if other is None or other["percent"] <= THRESHOLDS["other_percent"]:
        return None
    frame = facts.frame("kernels").filter(pl.col("kernel_category") == OTHER)
    return Finding(
        code="WL103",
        title=f"{other['percent']:.1f} % of GPU time is in kernels of no known category",
        gain_ms=0.0,
        gain_percent=0.0,
        bound=False,
        place=str(frame["kernel_short"][0]),
        evidence=f"{frame['kernel'].n_unique()} kernel names, {format_count(other['count'])} launches",
        advice="name their category in a rules file and pass it with --rules",
    )


def short_kernels(facts: Facts) -> Finding | None:
    frame = facts.frame("short_kernels")
    launches = sum(row["count"] for row in facts.categories)
    share = 100 * frame["count"].sum() / launches if launches else 0.0
    gain = facts.gap_gain_ms(pl.col("cause").is_in(LAUNCH_CAUSES) & (pl.col("gap_us") <= LAUNCH_GAP_US))
    percent = facts.share_of_time(gain)
    if share < THRESHOLDS["short_share_percent"] or percent < THRESHOLDS["idle_percent"]:
        return None
    return Finding(
        code="WL104",
        title=f"{share:.0f} % of GPU events are short, and the GPU waits for their launches",
        gain_ms=gain,
        gain_percent=percent,
        bound=True,
        place=str(frame["op"][0]),
        evidence=f"{format_count(int(frame['count'].sum()))} of {format_count(launches)} GPU events",
        advice="fuse them (torch.compile), batch more work per launch, or replay them as a CUDA graph",
    )


def _exposed(facts: Facts, measure: str, code: str, title: str, advice: str) -> Finding | None:
    percent = facts.percent(measure)
    if percent < THRESHOLDS[f"{measure}_percent"]:
        return None
    return Finding(
        code=code,
        title=title.format(percent=percent),
        gain_ms=facts.gain_ms(measure),
        gain_percent=facts.share_of_time(facts.gain_ms(measure)),
        bound=True,
        place=_place_of_exposed(facts, measure),
        evidence=f"{facts.measures[measure]:.2f} of {facts.measures['total']:.2f} ms",
        advice=advice,
    )


def _place_of_exposed(facts: Facts, measure: str) -> str:
    if measure == "exposed_communication" and len(facts.tables["comm"]):
        top = facts.frame("comm").sort("exposed_us", descending=True).row(0, named=True)
        return f"{top['collective']} of group {top['group']}"
    copies = facts.frame("kernels").filter(pl.col("kernel").str.starts_with("Memcpy"))
    return str(copies["op"][0]) if len(copies) else ""


def exposed_communication(facts: Facts) -> Finding | None:
    return _exposed(
        facts,
        "exposed_communication",
        "WL105",
        "communication is hidden by nothing for {percent:.1f} % of the time",
        "overlap it with computation (bucket sizes, prefetching), shrink it, or balance the ranks",
    )


def exposed_copies(facts: Facts) -> Finding | None:
    return _exposed(
        facts,
        "exposed_memcpy",
        "WL106",
        "copies are hidden by nothing for {percent:.1f} % of the time",
        "use pinned memory with non_blocking=True, prefetch on a copy stream, keep data on the GPU",
    )


RULES: Final[tuple[Callable[[Facts], Finding | None], ...]] = (
    idle,
    long_stalls,
    graph_heavy,
    unknown_kernels,
    short_kernels,
    exposed_communication,
    exposed_copies,
)
NEEDED_TABLES: Final = (
    "timeline", "steps", "idle", "gaps", "kernel_categories", "kernels", "launch_categories", "short_kernels", "comm",
    "quality",
)  # fmt: skip


def findings(tables: Mapping[str, Table]) -> Table:
    """Every rule that fires, largest gain first; none where no GPU worked."""
    facts = Facts(tables)
    found = [rule(facts) for rule in RULES] if facts.has_gpu else []
    return findings_table(finding for finding in found if finding is not None)
