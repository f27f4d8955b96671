"""Rules on idle time. Each part of a gap is counted by one of them; a bound of a graph holds the optimizer's too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.advice.evidence import kernel_evidence
from warplens.advice.figures import TAKING_TURNS, TraceFigures
from warplens.advice.limits import is_host_bound
from warplens.advice.memory_rules import many_launch_optimizer, slowed_by_stacks
from warplens.advice.rows import ShortKernelRow
from warplens.advice.serving_rules import gaps_between_passes
from warplens.advice.thresholds import LONG_GAP_US, THRESHOLDS
from warplens.analyses.work.modules import OUTSIDE
from warplens.analyses.work.places import pattern_of, place_text
from warplens.model.edits import CaptureGraph, Edit, RemoveHostTime, RemoveWaits
from warplens.model.finding import Evidence, Finding
from warplens.model.idle_causes import SHORT_GAPS, UNKNOWN
from warplens.model.intervals import covered_until
from warplens.model.records import records
from warplens.model.targets import RangeTarget, RowsTarget, Target
from warplens_run.base.units import format_count, format_ms, format_short_ms, plural

MOST_PLACES: Final = 3
LEAST_SHARE: Final = 5.0
"""In percent of the launches: what makes fewer is not named."""
MOST_ROWS: Final = 5
ESTIMATED: Final = "; low confidence: what recording cost there is estimated"
OF_HOST_CODE: Final = ("launch", "sync")
"""Kinds of gaps that may be due to host code that launches nothing."""
LOADER_MARK: Final = "enumerate(DataLoader)"
PLACE: Final = (
    pl.when(pl.col("host_frame") != "")
    .then("host_frame")
    .when(pl.col("host_activity").str.starts_with(LOADER_MARK))
    .then("host_activity")
    .when(pl.col("host_op") != "")
    .then("host_op")
    .otherwise("after_op")
)
"""Where the host was during a gap: the user's line, else the data loader, the op, or the op that it launched next."""


def gaps_of(figures: TraceFigures, kind: str, *, with_optimizer: bool = False) -> pl.DataFrame:
    """The gaps of one kind, without those that WL208, WL306 or WL601 count."""
    counted_elsewhere = not with_optimizer and figures.findings_of(many_launch_optimizer)
    gaps = (figures.gaps_outside_optimizer if counted_elsewhere else figures.gaps).of(kind)
    if kind in OF_HOST_CODE and figures.findings_of(host_code):
        gaps = _without_host_code(figures, gaps)
    passes = figures.passes
    if passes is None or not figures.findings_of(gaps_between_passes):
        return gaps
    begins = (pl.col("gpu_start_ms") - pl.col("gap_ms")).round(3).alias("begins")
    counted = passes.filter(pl.col("gap_ms") > 0).select(begins).unique()
    own = gaps.with_columns(pl.col("start_ms").round(3).alias("begins"))
    return own.join(counted, on="begins", how="anti", maintain_order="left").drop("begins")


def _without_host_code(figures: TraceFigures, gaps: pl.DataFrame) -> pl.DataFrame:
    """Those of which host code that launches nothing takes less than half."""
    assert figures.host_code is not None
    begin = (1e6 * gaps["start_ms"]).round().cast(pl.Int64).to_numpy()
    length = (1e3 * gaps["gap_us"]).round().cast(pl.Int64).to_numpy()
    code = figures.host_code.as_union
    return gaps.filter(2 * (covered_until(code, begin + length) - covered_until(code, begin)) < length)


is_stall = pl.col("gap_us") >= LONG_GAP_US


def gap_rows(figures: TraceFigures, gaps: pl.DataFrame, top: int = 5) -> tuple[Evidence, ...]:
    """The places under which the GPU waited longest in some of the gaps."""
    placed = gaps.with_columns(PLACE.alias("place"))
    sums = placed.group_by("place").agg(pl.col("gap_us").sum())
    places = sums.sort("gap_us", "place", descending=[True, False]).head(top)["place"]
    own = placed.filter(pl.col("place").is_in(places.implode())).partition_by("place", as_dict=True)
    return tuple(_gap_row(figures, own[(place,)], place) for place in places.to_list())


def _gap_row(figures: TraceFigures, gaps: pl.DataFrame, place: str) -> Evidence:
    longest = _longest(gaps)
    cause, activity, after = (gaps[name][longest] for name in ("cause", "host_activity", "after"))
    waited_ms = figures.gap_gain_ms(gaps)
    return Evidence(
        f"gap of up to {gaps['gap_us'][longest] / 1e3:.2f} ms{figures.recorded_text}",
        detail=f"{cause}: {place_text(activity)}, before {after}",
        count=len(gaps),
        time_ms=waited_ms,
        gain_ms=waited_ms,
        place=place_text(place),
        targets=_gap_targets(gaps),
    )


def _longest(gaps: pl.DataFrame) -> int:
    return int(gaps["gap_us"].arg_max() or 0)


def _gap_targets(gaps: pl.DataFrame) -> tuple[Target, ...]:
    """The longest of some gaps, and all gaps of its cause."""
    longest = _longest(gaps)
    start_ms, length_us, cause = (gaps[name][longest] for name in ("start_ms", "gap_us", "gap_cause"))
    start_ns = round(1e6 * start_ms)
    return (RangeTarget(start_ns, start_ns + round(1e3 * length_us)), RowsTarget("gaps", "cause", cause))


def _gap_finding(
    figures: TraceFigures,
    code: str,
    *,
    title: str,
    gaps: pl.DataFrame,
    gain_ms: float,
    evidence: str,
    topic: str = "",
) -> Finding:
    rows, edits = gap_rows(figures, gaps), _edits(figures, code, gaps)
    place = next((row.place for row in rows if row.place and not row.place.startswith("(")), "")
    if any(isinstance(edit, CaptureGraph) for edit in edits):
        place = most_launches(figures) or place
    return figures.finding(
        code,
        title=title,
        gain_ms=gain_ms,
        gpu_gain_ms=0.0,
        # What a synchronisation costs does not end with its gap: later launches start with an empty queue.
        bound=code != "WL301",
        place=place,
        evidence=evidence,
        advice=figures.advice(topic or code),
        rows=rows,
        targets=_gap_targets(gaps),
        edits=edits,
    )


def _edits(figures: TraceFigures, code: str, gaps: pl.DataFrame) -> tuple[Edit, ...]:
    """What ends these gaps: the launches as a graph, no waits of the host, or a host that is not busy meanwhile."""
    if code == "WL109":
        return ()
    if code == "WL301":
        return (RemoveWaits(),)
    return _fewer_launches(figures) if code == "WL101" else _no_host_time(gaps)


def _fewer_launches(figures: TraceFigures) -> tuple[Edit, ...]:
    """The step as a graph, with the optimizer's launches, whichever finding counts them; where most of the idle time
    has causes that a graph does not end, its gaps only."""
    gaps = _launch_gaps(figures, with_optimizer=True)
    of_idle = float(gaps["gap_us"].sum()) + _short_gaps_us(figures)
    return (CaptureGraph(),) if 2 * of_idle >= figures.idle_us else _no_host_time(gaps)


def _no_host_time(gaps: pl.DataFrame) -> tuple[Edit, ...]:
    start_ns, length_ns = (1e6 * gaps["start_ms"]).round(), (1e3 * gaps["gap_us"]).round()
    return (RemoveHostTime(tuple(zip(start_ns.cast(int), (start_ns + length_ns).cast(int), strict=True))),)


def _counted(gaps: pl.DataFrame) -> str:
    longest_us = gaps["gap_us"][_longest(gaps)] if len(gaps) else 0.0
    return f"{plural(len(gaps), 'gap')}, longest {longest_us / 1e3:.2f} ms"


def host_bound(figures: TraceFigures) -> Iterator[Finding]:
    """Gaps in which the host was still preparing the next launch, unless WL104 counts them."""
    if figures.percent("idle") < THRESHOLDS.idle_percent or figures.findings_of(short_kernels):
        return
    gaps = _launch_gaps(figures)
    gain_ms = figures.gap_gain_ms(gaps)
    if figures.share_of_time(gain_ms) < THRESHOLDS.cause_percent:
        return
    yield _gap_finding(
        figures,
        "WL101",
        title=f"{_host_bound(figures)}the GPU waits for its next launch",
        gaps=gaps,
        gain_ms=gain_ms,
        evidence=f"{_counted(gaps)}; {launch_rate(figures)}{slowed_by_stacks(figures)}",
    )


def short_kernels(figures: TraceFigures) -> Iterator[Finding]:
    """Kernels shorter than the launch of the next one."""
    if not _has_short_kernels(figures):
        return
    frame = _short(figures)
    gain_ms = figures.gap_gain_ms(_launch_gaps(figures)) + _short_gaps_ms(figures)
    gain_ms = min(gain_ms, figures.gain_ms("idle"))
    if figures.share_of_time(gain_ms) < THRESHOLDS.idle_percent:
        return
    count, of = int(frame["count"].sum()), figures.launches
    share = 100 * count / max(1, of)
    waits = "the GPU waits for their launches" if figures.has_launches else "the GPU is idle between them"
    yield figures.finding(
        "WL104",
        title=f"{_host_bound(figures)}{share:.0f} % of GPU events are short, and {waits}",
        gain_ms=gain_ms,
        gpu_gain_ms=0.0,
        bound=True,
        place=most_launches(figures),
        evidence=f"{format_count(count)} of {format_count(of)} GPU events; "
        f"{launch_rate(figures)}{slowed_by_stacks(figures)}",
        advice=figures.advice("WL104" if figures.has_launches else f"WL109 {SHORT_GAPS}"),
        rows=(kernel_evidence(figures, row) for row in records(frame.head(5), ShortKernelRow)),
        edits=_fewer_launches(figures),
    )


def most_launches(figures: TraceFigures) -> str:
    """What makes most launches of the whole step, with its share: modules, else lines, else ops.

    Modules and lines count where they name at least half of the launches.
    """
    modules, launches = figures.frame("modules"), figures.frame("launches")
    names = ["/".join(pattern_of(path).split("/")[-2:]) for path in modules["module"].to_list()]
    paths = pl.Series("place", names, dtype=pl.String)
    choices = (
        modules.with_columns(paths).filter(pl.col("module") != OUTSIDE),
        launches.with_columns(place="line").filter(pl.col("line") != ""),
        figures.frame("launch_categories").with_columns(place="op"),
    )
    for choice in choices:
        sums = choice.group_by("place").agg(pl.col("count").sum()).sort("count", "place", descending=[True, False])
        if 2 * int(sums["count"].sum()) >= figures.launches:
            break
    parts = [(place, 100 * count / max(1, figures.launches)) for place, count in sums.head(MOST_PLACES).iter_rows()]
    named = [f"{place} {share:.0f} %" for place, share in parts if share >= LEAST_SHARE or place == parts[0][0]]
    return f"{', '.join(named)} of the {'launches' if figures.has_launches else 'GPU events'}" if named else ""


def _launch_gaps(figures: TraceFigures, *, with_optimizer: bool = False) -> pl.DataFrame:
    """Gaps that launches explain, without the long ones that WL107 counts."""
    stalls = stalls_in_one_place(figures)
    return gaps_of(figures, "launch", with_optimizer=with_optimizer).join(stalls, on=["device", "start_ms"], how="anti")


def _host_bound(figures: TraceFigures) -> str:
    """Said where the verdict says it."""
    return "host-bound: " if is_host_bound(figures) else ""


def launch_rate(figures: TraceFigures) -> str:
    rate = figures.launches / figures.measures["total"]
    events = "launches" if figures.has_launches else "GPU events"
    every_us = 1e3 / max(rate, 1e-9)
    return f"{rate:.{0 if rate >= 1 else 2}f} {events} per ms, one every {every_us:.1f} µs{figures.recorded_text}"


def _short(figures: TraceFigures) -> pl.DataFrame:
    """Short kernels that have a launch of their own: inside a graph none is waited for."""
    return figures.numbered("short_kernels").filter(2 * pl.col("graph_count") < pl.col("count"))


def _has_short_kernels(figures: TraceFigures) -> bool:
    count = int(_short(figures)["count"].sum())
    return 100 * count >= THRESHOLDS.short_share_percent * max(1, figures.launches)


def _short_gaps_ms(figures: TraceFigures) -> float:
    """Gaps below the threshold of the table gaps, per step where steps are known."""
    return figures.gain_ms("idle") * _short_gaps_us(figures) / max(figures.idle_us, 1e-9)


def _short_gaps_us(figures: TraceFigures) -> float:
    return float(figures.frame("idle").filter(pl.col("cause") == SHORT_GAPS)["total_us"].sum())


def long_stalls(figures: TraceFigures) -> Iterator[Finding]:
    """A few long gaps in one place are a cause of their own: compilation, data, a slow call."""
    gaps = stalls_in_one_place(figures)
    if not len(gaps):
        return
    longest_us, after = gaps["gap_us"][_longest(gaps)], gaps["after"][_longest(gaps)]
    yield _gap_finding(
        figures,
        "WL107",
        title=f"the GPU waits over 1 ms in {plural(len(gaps), 'gap')} with the host in one place",
        gaps=gaps,
        gain_ms=figures.gap_gain_ms(gaps),
        evidence=f"longest {longest_us / 1e3:.1f} ms, before {after}{figures.recorded_text}",
    )


def stalls_in_one_place(figures: TraceFigures) -> pl.DataFrame:
    """The long gaps of the place that has most of them, if that is a large part of the idle time; else none."""
    gaps = gaps_of(figures, "launch").filter(is_stall)
    if figures.percent("idle") < THRESHOLDS.idle_percent or not len(gaps):
        return gaps.clear()
    by_place = gaps.group_by(PLACE.alias("place")).agg(pl.col("gap_us").sum())
    place, longest = by_place.sort("gap_us", "place", descending=[True, False]).row(0)
    is_large = 100 * longest / max(figures.idle_us, 1e-9) >= THRESHOLDS.stall_percent_of_idle
    return gaps.filter(place == PLACE) if is_large else gaps.clear()


def other_idle(figures: TraceFigures) -> Iterator[Finding]:
    """Idle time that the host side does not explain: other streams, missing launches, GPUs that take turns."""
    if figures.percent("idle") < THRESHOLDS.idle_percent:
        return
    if not figures.idle_causes:
        yield _taking_turns(figures)
        return
    gaps = _since_recording(figures, gaps_of(figures, "other"))
    gain_ms = figures.gap_gain_ms(gaps) + (0.0 if _has_short_kernels(figures) else _short_gaps_ms(figures))
    if figures.share_of_time(gain_ms) < THRESHOLDS.idle_percent:
        return
    causes = ", ".join(f"{idle.cause} {idle.percent_of_idle:.0f} %" for idle in figures.idle_causes[:3])
    evidence = f"idle causes: {causes}"
    main = _main_cause(gaps)
    why = "what the host did is not recorded" if main == UNKNOWN else "the host side does not explain it"
    title = f"GPU idle: {why}"
    if len(gaps):
        topic = f"WL109 {main}"
        yield _gap_finding(figures, "WL109", title=title, gaps=gaps, gain_ms=gain_ms, evidence=evidence, topic=topic)
    else:
        yield _short_gaps(figures, title, gain_ms, evidence)


def _since_recording(figures: TraceFigures, gaps: pl.DataFrame) -> pl.DataFrame:
    """Without gaps in which the GPU was busy with work from before the recording: the verdict names them."""
    until_ms = figures.bounds.earlier_until_ms if figures.bounds is not None else 0.0
    return gaps.filter(pl.col("start_ms") + pl.col("gap_us") / 1e3 > until_ms + 1e-3)


def _taking_turns(figures: TraceFigures) -> Finding:
    return figures.finding(
        "WL109",
        title="GPU idle: one GPU works after the other",
        gain_ms=figures.gain_ms("idle"),
        bound=True,
        place="",
        evidence=TAKING_TURNS,
        advice=figures.advice("WL109 turns"),
        targets=(RowsTarget("timeline", "measure", "idle"),),
    )


def _short_gaps(figures: TraceFigures, title: str, gain_ms: float, evidence: str) -> Finding:
    count = next(idle.count for idle in figures.idle_causes if idle.cause == SHORT_GAPS)
    place = str(figures.frame("launch_categories")["op"][0])
    row = Evidence(
        SHORT_GAPS,
        detail="each below the threshold",
        count=count,
        time_ms=gain_ms,
        gain_ms=gain_ms,
        place=place,
        targets=(RowsTarget("idle", "cause", SHORT_GAPS),),
    )
    return figures.finding(
        "WL109",
        title=title,
        gain_ms=gain_ms,
        bound=True,
        place=place,
        evidence=evidence,
        advice=figures.advice(f"WL109 {SHORT_GAPS}"),
        rows=(row,),
    )


def _main_cause(gaps: pl.DataFrame) -> str:
    """The cause of most of these gaps; none for no gaps."""
    sums = gaps.group_by("cause").agg(pl.col("gap_us").sum()).sort("gap_us", "cause", descending=[True, False])
    return str(sums["cause"][0]) if len(sums) else ""


def synchronising_calls(figures: TraceFigures) -> Iterator[Finding]:
    yield from _gaps_of_kind(figures, "WL301", "sync", title="synchronising calls leave the GPU idle")


def data_loading(figures: TraceFigures) -> Iterator[Finding]:
    yield from _gaps_of_kind(figures, "WL303", "data", title="the GPU waits for the data loader")


def graph_replays(figures: TraceFigures) -> Iterator[Finding]:
    yield from _gaps_of_kind(figures, "WL304", "graph", title="the GPU is idle between graph replays")


def memory_and_kernel_setup(figures: TraceFigures) -> Iterator[Finding]:
    title = "the GPU waits for memory allocation or kernel loading"
    yield from _gaps_of_kind(figures, "WL108", "setup", title=title)


def host_code(figures: TraceFigures) -> Iterator[Finding]:
    """Functions that run on the host for long and launch nothing; gaps between graphs and passes belong to others,
    whatever the host does in them."""
    code, bounds = figures.host_code, figures.bounds
    if code is None or bounds is None or any(map(figures.findings_of, (graph_replays, gaps_between_passes))):
        return
    if 100 * code.saves_ms < THRESHOLDS.host_code_percent * bounds.plain_ms:
        return
    share = code.saves_ms / code.time_ms if code.time_ms else 0.0
    rows = [
        Evidence(
            each.place,
            detail=f"up to {format_ms((each.longest_ns[1] - each.longest_ns[0]) / 1e6)} without a launch"
            f"{figures.recorded_text}",
            count=each.times,
            time_ms=each.time_ms,
            gain_ms=share * each.time_ms,
            place=each.place,
            targets=(RangeTarget(*each.longest_ns),),
        )
        for each in code.places[:MOST_ROWS]
    ]
    first = code.places[0]
    total, there = (format_short_ms(ms, bounds.plain_ms) for ms in (code.time_ms, first.time_ms))
    estimated = ESTIMATED if bounds.is_estimated else ""
    yield figures.finding(
        "WL306",
        title=f"the GPU waits for host code in {first.file}",
        gain_ms=code.saves_ms,
        gpu_gain_ms=0.0,
        bound=True,
        place=first.place,
        evidence=f"{total}{figures.per_step_text} in code that launches nothing, {there} of it there{estimated}",
        rows=rows,
        edits=(RemoveHostTime(code.ranges_ns),),
    )


def _gaps_of_kind(figures: TraceFigures, code: str, kind: str, *, title: str) -> Iterator[Finding]:
    gaps = gaps_of(figures, kind)
    gain_ms = figures.gap_gain_ms(gaps)
    if figures.share_of_time(gain_ms) >= THRESHOLDS.cause_percent:
        yield _gap_finding(
            figures, code, title=title, gaps=gaps, gain_ms=gain_ms, evidence=f"{_counted(gaps)}{figures.recorded_text}"
        )
