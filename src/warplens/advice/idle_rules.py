"""Rules on idle time. Each gap belongs to one of them, so their gains add up to no more than the idle time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.advice.facts import TAKING_TURNS, Facts
from warplens.advice.memory_rules import many_launch_optimizer, slowed_by_stacks
from warplens.advice.thresholds import IDLE_BOUND_PERCENT, LONG_GAP_US, THRESHOLDS
from warplens.analyses.time.gaps import SHORT_GAPS, UNKNOWN
from warplens.analyses.work.places import place_text
from warplens.model.finding import Evidence, Finding
from warplens.units import format_count

PLACE: Final = (
    pl.when(pl.col("host_frame") != "")
    .then("host_frame")
    .when(pl.col("host_op") != "")
    .then("host_op")
    .otherwise("after_op")
)
"""Where the host was during a gap: the user's line, else the op, else the op that it launched next."""
KIND_OF_CAUSE: Final = {
    "data loading": "data",
    "host sync": "sync",
    "memory allocation": "setup",
    "kernel loading": "setup",
    "host busy": "launch",
    "launch call": "launch",
}
"""Which rule a gap belongs to; a gap before a graph launch is the graph rule's, whatever the host did."""


NEEDED: Final = (
    "device", "start_ms", "gap_us", "cause", "host_frame", "host_op", "host_activity", "after", "after_op", "step",
    "phase", "between_steps", "in_graph",
)  # fmt: skip
"""The columns that the rules read; the gaps of a large trace are many."""


def gaps_of(facts: Facts, kind: str) -> pl.DataFrame:
    """The gaps of one kind (data, sync, setup, launch, graph, other), without those that WL208 counts."""
    known = facts.memo.get("gaps")
    if known is None:
        frame = facts.frame("gaps").select(NEEDED)
        if facts.found(many_launch_optimizer):
            frame = frame.filter(pl.col("phase") != "optimizer")
        causes = pl.col("cause").replace_strict(KIND_OF_CAUSE, default="other")
        is_graph = pl.col("in_graph") & (causes != "other")
        frame = frame.with_columns(pl.when(is_graph).then(pl.lit("graph")).otherwise(causes).alias("kind"))
        known = facts.memo["gaps"] = (frame.clear(), frame.partition_by("kind", as_dict=True))
    none, by_kind = known
    found: pl.DataFrame = by_kind.get((kind,), none)
    return found


is_stall = pl.col("gap_us") >= LONG_GAP_US


def gap_rows(facts: Facts, gaps: pl.DataFrame, top: int = 5) -> tuple[Evidence, ...]:
    """The places under which the GPU waited longest in some of the gaps."""
    placed = gaps.with_columns(PLACE.alias("place"))
    sums = placed.group_by("place").agg(pl.col("gap_us").sum())
    places = sums.sort("gap_us", "place", descending=[True, False]).head(top)["place"]
    own = placed.filter(pl.col("place").is_in(places.implode())).partition_by("place", as_dict=True)
    return tuple(_gap_row(facts, own[(place,)], place) for place in places.to_list())


def _gap_row(facts: Facts, gaps: pl.DataFrame, place: str) -> Evidence:
    cause, activity, after = gaps.select("cause", "host_activity", "after").row(0)
    waited = facts.gap_gain_ms(gaps)
    what = f"gap of up to {max(gaps['gap_us'].to_list()) / 1e3:.2f} ms"
    return Evidence(what, f"{cause}: {activity}, before {after}", len(gaps), waited, waited, place_text(place))


def _finding(
    facts: Facts, code: str, title: str, gaps: pl.DataFrame, gain_ms: float, evidence: str, topic: str = ""
) -> Finding:
    rows = gap_rows(facts, gaps)
    place = next((row.place for row in rows if row.place and not row.place.startswith("(")), "")
    # What a synchronisation costs does not end with its gap: later launches start with an empty queue.
    bound, advice = code != "WL301", facts.advice(topic or code)
    return Finding(code, title, gain_ms, facts.share_of_time(gain_ms), bound, place, evidence, advice, rows=rows)


def _counted(gaps: pl.DataFrame) -> str:
    longest = max(gaps["gap_us"].to_list(), default=0.0) / 1e3
    return f"{format_count(len(gaps))} gap{'s' * (len(gaps) != 1)}, longest {longest:.2f} ms"


def host_bound(facts: Facts) -> Iterator[Finding]:
    """Gaps in which the host was still preparing the next launch, unless WL104 counts them."""
    if facts.percent("idle") < THRESHOLDS["idle_percent"] or facts.found(short_kernels):
        return
    gaps = _launch_gaps(facts)
    gain = facts.gap_gain_ms(gaps)
    if facts.share_of_time(gain) < THRESHOLDS["cause_percent"]:
        return
    evidence = f"{_counted(gaps)}; {launch_rate(facts)}"
    evidence += slowed_by_stacks(facts)
    title = f"{_host_bound(facts)}the GPU waits {facts.share_of_time(gain):.0f} % of the time for its next launch"
    yield _finding(facts, "WL101", title, gaps, gain, evidence)


def short_kernels(facts: Facts) -> Iterator[Finding]:
    """Kernels shorter than the launch of the next one."""
    if not _has_short_kernels(facts):
        return
    frame = _short(facts)
    gaps = _launch_gaps(facts)
    gain = facts.gap_gain_ms(gaps) + _short_gaps_ms(facts)
    gain = min(gain, facts.gain_ms("idle"))
    if facts.share_of_time(gain) < THRESHOLDS["idle_percent"]:
        return
    share = 100 * int(frame["count"].sum()) / max(1, facts.launches)
    title = f"{_host_bound(facts)}{share:.0f} % of GPU events are short, and the GPU waits for their launches"
    evidence = f"{format_count(int(frame['count'].sum()))} of {format_count(facts.launches)} GPU events; "
    evidence += launch_rate(facts)
    evidence += slowed_by_stacks(facts)
    rows = tuple(
        Evidence(row["kernel_short"], row["op"], row["count"], facts.per_step_ms(row["total_us"], row), place=row["op"])
        for row in frame.head(5).iter_rows(named=True)
    )
    share, place, advice = facts.share_of_time(gain), str(frame["op"][0]), facts.advice("WL104")
    yield Finding("WL104", title, gain, share, True, place, evidence, advice, rows=rows)


def _launch_gaps(facts: Facts) -> pl.DataFrame:
    """Gaps that launches explain, without the long ones that WL107 counts."""
    return gaps_of(facts, "launch").join(stalls_in_one_place(facts), on=["device", "start_ms"], how="anti")


def _host_bound(facts: Facts) -> str:
    """Said where the verdict says it."""
    return "host-bound: " if facts.percent("idle") >= IDLE_BOUND_PERCENT else ""


def launch_rate(facts: Facts) -> str:
    rate = facts.launches / facts.measures["total"]
    return f"{rate:.{0 if rate >= 1 else 2}f} launches per ms, one every {1e3 / max(rate, 1e-9):.1f} µs"


def _short(facts: Facts) -> pl.DataFrame:
    """Short kernels that have a launch of their own: inside a graph none is waited for."""
    return facts.frame("short_kernels").filter(2 * pl.col("graph_count") < pl.col("count"))


def _has_short_kernels(facts: Facts) -> bool:
    count = int(_short(facts)["count"].sum())
    return 100 * count >= THRESHOLDS["short_share_percent"] * max(1, facts.launches)


def _short_gaps_ms(facts: Facts) -> float:
    """Gaps below the threshold of the table gaps, per step where steps are known."""
    short = facts.frame("idle").filter(pl.col("cause") == SHORT_GAPS)
    whole = max(float(facts.frame("idle")["total_us"].sum()), 1e-9)
    return facts.gain_ms("idle") * float(short["total_us"].sum()) / whole


def long_stalls(facts: Facts) -> Iterator[Finding]:
    """A few long gaps in one place are a cause of their own: compilation, data, a slow call."""
    gaps = stalls_in_one_place(facts)
    if not len(gaps):
        return
    share = 100 * float(gaps["gap_us"].sum()) / max(float(facts.frame("idle")["total_us"].sum()), 1e-9)
    title = f"{share:.0f} % of the idle time is {len(gaps)} gap{'s' * (len(gaps) > 1)} of over 1 ms in one place"
    evidence = f"longest {max(gaps['gap_us'].to_list()) / 1e3:.1f} ms, before {gaps['after'][0]}"
    yield _finding(facts, "WL107", title, gaps, facts.gap_gain_ms(gaps), evidence)


def stalls_in_one_place(facts: Facts) -> pl.DataFrame:
    """The long gaps of the place that has most of them, if that is a large part of the idle time; else none."""
    gaps = gaps_of(facts, "launch").filter(is_stall)
    if facts.percent("idle") < THRESHOLDS["idle_percent"] or not len(gaps):
        return gaps.clear()
    by_place = gaps.group_by(PLACE.alias("place")).agg(pl.col("gap_us").sum())
    place, longest = by_place.sort("gap_us", "place", descending=[True, False]).row(0)
    whole = max(float(facts.frame("idle")["total_us"].sum()), 1e-9)
    return gaps.filter(place == PLACE) if 100 * longest / whole >= THRESHOLDS["stall_percent_of_idle"] else gaps.clear()


def other_idle(facts: Facts) -> Iterator[Finding]:
    """Idle time that the host side does not explain: other streams, missing launches, GPUs that take turns."""
    if facts.percent("idle") < THRESHOLDS["idle_percent"]:
        return
    if not facts.idle_causes:
        gain = facts.gain_ms("idle")
        title = f"GPU idle {facts.percent('idle'):.1f} % of the time: one GPU works after the other"
        share, advice = facts.share_of_time(gain), facts.advice("WL109 turns")
        yield Finding("WL109", title, gain, share, True, "", TAKING_TURNS, advice)
        return
    gaps = gaps_of(facts, "other")
    gain = facts.gap_gain_ms(gaps) + (0.0 if _has_short_kernels(facts) else _short_gaps_ms(facts))
    if facts.share_of_time(gain) < THRESHOLDS["idle_percent"]:
        return
    causes = ", ".join(f"{cause['cause']} {cause['percent_of_idle']:.0f} %" for cause in facts.idle_causes[:3])
    share, evidence = facts.share_of_time(gain), f"idle causes: {causes}"
    main = _main_cause(gaps)
    why = "; what the host did is not recorded" if main == UNKNOWN else " for no reason that the host side shows"
    title = f"GPU idle {share:.0f} % of the time{why}"
    if len(gaps):
        yield _finding(facts, "WL109", title, gaps, gain, evidence, topic=f"WL109 {main}")
        return
    short = next(cause for cause in facts.idle_causes if cause["cause"] == SHORT_GAPS)
    place = str(facts.frame("launch_categories")["op"][0])
    rows = (Evidence(SHORT_GAPS, "each below the threshold", short["count"], gain, gain, place),)
    yield Finding("WL109", title, gain, share, True, place, evidence, facts.advice(f"WL109 {SHORT_GAPS}"), rows=rows)


def _main_cause(gaps: pl.DataFrame) -> str:
    """The cause of most of these gaps; none for no gaps."""
    sums = gaps.group_by("cause").agg(pl.col("gap_us").sum()).sort("gap_us", "cause", descending=[True, False])
    return str(sums["cause"][0]) if len(sums) else ""


GAP_RULES: Final = (
    # code, which gaps, title
    ("WL301", "sync", "synchronising calls leave the GPU idle {percent:.0f} % of the time"),
    ("WL303", "data", "the GPU waits {percent:.0f} % of the time for the data loader"),
    ("WL304", "graph", "graph replays are {percent:.0f} % of the time apart"),
    ("WL108", "setup", "the GPU waits {percent:.0f} % of the time for memory or kernels to be set up"),
)


def gap_rules(facts: Facts) -> Iterator[Finding]:
    for code, kind, title in GAP_RULES:
        gaps = gaps_of(facts, kind)
        gain = facts.gap_gain_ms(gaps)
        percent = facts.share_of_time(gain)
        if percent >= THRESHOLDS["cause_percent"]:
            yield _finding(facts, code, title.format(percent=percent), gaps, gain, _counted(gaps))
