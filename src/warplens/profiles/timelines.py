"""A profile as a `RankTimeline`: its events with what is known of them, and a track for everything found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from warplens.analyses.page.members import MEMBER_TABLES, members_of
from warplens.analyses.time.gaps import named_gaps
from warplens.analyses.work.modules import line_codes, module_codes
from warplens.model.critical_path import KINDS
from warplens.model.finding import Finding, ranked
from warplens.model.rank_timeline import RankTimeline, SliceTrack
from warplens.model.targets import RangeTarget, RowsTarget, RowTarget, StepTarget, Target
from warplens.model.trace import Trace

if TYPE_CHECKING:
    from warplens.analyses import Workspace
    from warplens.profiles.trace import Profile

SLICES: Final = pl.Schema({"start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String})
PLACEHOLDER: Final = r"^\(.*\)$"
"""Names for work that has no module or no frame."""


def rank_timeline(profile: Profile, *, with_tracks: bool = True, prefix: str = "", offset_ns: int = 0) -> RankTimeline:
    """The timeline of a profile; of several in one file, `prefix` and `offset_ns` are its own."""
    tracks = found_tracks(profile) if with_tracks else []
    return RankTimeline(profile.trace, gpu_facts(profile.workspace), tracks, prefix, offset_ns)


def found_tracks(profile: Profile) -> list[SliceTrack]:
    """Steps, the critical path, findings, idle time and kernel categories, as far as there are any."""
    tracks = [
        steps_track(profile.trace),
        _critical_path(profile),
        *_findings(profile),
        *_idle(profile.workspace),
        *_categories(profile.workspace),
    ]
    return [track for track in tracks if len(track.slices)]


def gpu_facts(work: Workspace) -> pl.DataFrame:
    """One row per GPU event: short_name, category, op, module and python_line, empty where not known."""
    frame = work.gpu.select(short_name="kernel_short", category="kernel_category", op="op")
    columns = []
    for name, (codes, texts) in (("module", module_codes(work)), ("python_line", line_codes(work))):
        columns.append(pl.Series(name, texts, dtype=pl.String).gather(codes))
    return frame.with_columns(columns).with_columns(
        pl.when(~pl.col(name).str.contains(PLACEHOLDER)).then(name).alias(name)
        for name in ("op", "module", "python_line")
    )


def steps_track(trace: Trace) -> SliceTrack:
    steps = trace.steps.select("start_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"), "name", "step")
    return SliceTrack("steps", "step", steps)


def _critical_path(profile: Profile) -> SliceTrack:
    """Each segment where it was recorded; its arguments have the time that it takes without the profiler."""
    path = profile.table("critical_path").frame
    meaning = pl.col("kind").replace_strict(KINDS, default="", return_dtype=pl.String)
    slices = path.select(
        (pl.col("recorded_ms") * 1e6).round().cast(pl.Int64).alias("start_ns"),
        (pl.col("recorded_us") * 1e3).round().cast(pl.Int64).alias("dur_ns"),
        pl.when(pl.col("name") == "").then("kind").otherwise(pl.format("{}: {}", "kind", "name")).alias("name"),
        meaning.alias("what"),
        *("time_us", "percent", "op", "module", "python_line", pl.col("kernel_category").alias("category"), "step"),
    )
    return SliceTrack("critical path", "critical_path", slices.filter(pl.col("dur_ns") >= 0))


def _idle(work: Workspace) -> Iterator[SliceTrack]:
    """Per GPU the gaps between its events, named by their cause."""
    for (device,), gaps in named_gaps(work).group_by("device", maintain_order=True):
        slices = gaps.select("start_ns", pl.col("gap_ns").alias("dur_ns"), pl.col("cause").alias("name"))
        yield SliceTrack(f"idle time of GPU {device}", "idle", slices)


def _categories(work: Workspace) -> Iterator[SliceTrack]:
    """Per GPU and category its events under short names, the category with most time first."""
    order = pl.col("dur_ns").sum().over("device", "kernel_category")
    ordered = work.gpu.with_columns(total_ns=order).sort(
        "device", "total_ns", "kernel_category", "start_ns", descending=[False, True, False, False]
    )
    for (device, category), events in ordered.group_by("device", "kernel_category", maintain_order=True):
        slices = events.select("start_ns", "dur_ns", pl.col("kernel_short").alias("name"), "op", "stream")
        yield SliceTrack(str(category), "category", slices, process=f"GPU {device} · kernel categories")


def _findings(profile: Profile) -> Iterator[SliceTrack]:
    for finding in ranked(profile.findings()):
        slices = _slices_of(profile, finding)
        facts = {
            "code": finding.code,
            "title": finding.title,
            "gain_ms": float(finding.known_gain_ms),
            "gain_percent": float(finding.gain_percent),
            "place": finding.place,
            "advice": finding.advice,
        }
        yield SliceTrack(
            f"{finding.code} {finding.title}",
            "finding",
            slices.with_columns(pl.lit(value).alias(name) for name, value in facts.items()),
        )


def _slices_of(profile: Profile, finding: Finding) -> pl.DataFrame:
    """What a finding is about, in time: GPU events, gaps, ranges and steps; the whole trace where it names none."""
    targets = dict.fromkeys([*finding.targets, *(target for row in finding.rows for target in row.targets)])
    parts = [part for part in _parts(profile, targets) if len(part)]
    if parts:
        return pl.concat(parts).unique(maintain_order=True)
    trace = profile.trace
    end = int((trace.ints("start_ns") + trace.ints("dur_ns")).max(initial=0))
    return pl.DataFrame([(0, end, finding.title)], schema=SLICES, orient="row")


def _parts(profile: Profile, targets: Iterable[Target]) -> Iterator[pl.DataFrame]:
    rows: dict[str, list[int]] = {}
    for target in targets:
        if isinstance(target, RowTarget):
            rows.setdefault(target.table, []).append(target.row)
        elif isinstance(target, RowsTarget) and target.column == "cause":
            gaps = named_gaps(profile.workspace).filter(pl.col("cause") == target.value)
            yield gaps.select("start_ns", pl.col("gap_ns").alias("dur_ns"), pl.col("cause").alias("name")).cast(SLICES)
        elif isinstance(target, StepTarget):
            yield steps_track(profile.trace).slices.filter(pl.col("step") == target.step).select(*SLICES)
        elif isinstance(target, RangeTarget):
            length = target.end_ns - target.start_ns
            yield pl.DataFrame([(target.start_ns, length, "longest gap")], schema=SLICES, orient="row")
    for table, numbers in rows.items():
        if table in MEMBER_TABLES:
            is_member = np.isin(members_of(profile.workspace, profile.table(table)), numbers)
            events = profile.workspace.gpu.filter(is_member)
            yield events.select("start_ns", "dur_ns", pl.col("kernel_short").alias("name")).cast(SLICES)
