"""A trace as a file for other programs: the end of the path chooses which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import polars as pl

from warplens.model.lanes import lane_titles
from warplens.model.rank_timeline import RankTimeline
from warplens.outputs.perfetto import write_perfetto
from warplens.outputs.speedscope import write_speedscope
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_file, whole_file


def event_frame(timeline: RankTimeline) -> pl.DataFrame:
    """Every event, with kinds, names and lanes written out and what is known of GPU events."""
    trace = timeline.trace
    titles = pl.Series("lane_title", lane_titles(trace), dtype=pl.String)
    events = trace.named_events()
    facts = timeline.gpu.with_columns(pl.Series("id", trace.gpu_rows, dtype=pl.UInt32))
    facts = facts.rename({"op": "op_name"})
    return events.with_columns(titles.gather(trace.ints("lane"))).join(
        facts, on="id", how="left", maintain_order="left"
    )


def write_parquet(path: Path, timeline: RankTimeline, *, force: bool = True) -> None:
    with whole_file(path, force=force) as temporary:
        event_frame(timeline).write_parquet(temporary)


def _perfetto(path: Path, timeline: RankTimeline, *, force: bool) -> None:
    write_perfetto(path, [timeline], force=force)


class Writer(Protocol):
    """Writes one timeline; without `force` a file that has appeared there meanwhile stays."""

    def __call__(self, path: Path, timeline: RankTimeline, *, force: bool) -> None: ...


@dataclass(frozen=True)
class Conversion:
    """How a kind of file is written, and whether it shows the further tracks of a timeline."""

    write: Writer
    has_tracks: bool = False


CONVERSIONS: Final = {
    ".perfetto.json.gz": Conversion(_perfetto, has_tracks=True),
    ".perfetto.json": Conversion(_perfetto, has_tracks=True),
    ".speedscope.json": Conversion(write_speedscope),
    ".parquet": Conversion(write_parquet),
}
PATHS: Final = ".hatchet"
"""Sums by call path, which the registry of outputs writes."""
FORMS: Final = "x.perfetto.json.gz, x.perfetto.json, x.speedscope.json, x.parquet or x.hatchet"


@dataclass(frozen=True)
class ConversionTarget:
    """A checked place for a timeline and how it is written."""

    path: Path
    conversion: Conversion
    force: bool = False


def plan_conversion(path: str, *, force: bool, inputs: Sequence[str] = ()) -> ConversionTarget:
    """The target a path asks for, or a `UsageError` before anything is computed."""
    for suffix, conversion in CONVERSIONS.items():
        if path.lower().endswith(suffix):
            check_file(Path(path), force=force, inputs=inputs)
            return ConversionTarget(Path(path), conversion, force)
    raise UsageError(f"unknown output format: {path!r}", hint=f"end it in {' or '.join((*CONVERSIONS, PATHS))}")
