"""`regions`: time inside kernels, by the regions that the kernel's author marked for Proton."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.table import Column, Table
from warplens.model.trace import Trace

FORMAT: Final = "proton_intra"
CTA: Final = re.compile(r"(?P<kernel>.*) Core\d+ CTA\d+", re.DOTALL)
COLUMNS: Final = (
    Column("kernel", "the kernel that was instrumented", "", pl.String),
    Column("region", "name of the region", "", pl.String),
    Column("count", "passes through the region, of all warps", "", pl.Int64),
    Column("total_us", "sum of their durations, regions inside included", "us", pl.Float64),
    Column("mean_us", "mean of one pass", "us", pl.Float64),
    Column("min_us", "shortest pass", "us", pl.Float64),
    Column("max_us", "longest pass", "us", pl.Float64),
    Column("warps", "warps that passed through it (each warp of each CTA)", "", pl.Int64),
    Column("percent", "share of the warps' spans, from each one's first region to its last", "%", pl.Float64),
)
ROWS: Final = "one row per instrumented kernel and region"
MEANING: Final = (
    "each warp has its own clock and many run at once: these times do not add up to the kernel's time; "
    "a region's time includes the regions inside it, so shares can add up to over 100 %"
)
CLOCK: Final = (
    "times are clock ticks that Proton counts as 1 ns each: on a GPU at 1.98 GHz they are 1.98 times too long"
)


def regions(work: Workspace) -> Table:
    if work.trace.meta.format != FORMAT:
        return Table.from_rows("regions", ROWS, COLUMNS, ())
    events = region_events(work.trace)
    spans = (
        events.group_by("kernel", "lane", "launch")
        .agg((pl.col("end_ns").max() - pl.col("start_ns").min()).alias("span_ns"))
        .group_by("kernel")
        .agg(pl.col("span_ns").sum())
    )
    us = pl.col("dur_ns") / 1000
    frame = (
        events.sort("lane", "start_ns")
        .with_columns(covered_ns())
        .group_by("kernel", "region")
        .agg(
            pl.col("covered_ns").sum(),
            pl.len().cast(pl.Int64).alias("count"),
            (pl.col("dur_ns").sum() / 1000).alias("total_us"),
            us.mean().alias("mean_us"),
            us.min().alias("min_us"),
            us.max().alias("max_us"),
            pl.col("lane").n_unique().cast(pl.Int64).alias("warps"),
        )
        .join(spans, on="kernel", how="left")
        .with_columns((pl.col("covered_ns") * 100 / pl.col("span_ns").clip(1)).alias("percent"))
        .sort("kernel", "total_us", "region", descending=[False, True, False])
    )
    notes = [MEANING] if frame.height else []
    if frame.height and "assumed_clock_mhz" in work.trace.meta.facts:
        notes.append(CLOCK)
    return Table.from_frame("regions", ROWS, COLUMNS, frame, *notes)


def covered_ns() -> pl.Expr:
    """What each event adds to the time in its region, of events in the order of their starts: a region may be entered
    again inside itself."""
    until = pl.col("end_ns").cum_max().shift(1).over("kernel", "lane", "launch", "region")
    begin = pl.max_horizontal("start_ns", until)
    return (pl.col("end_ns") - begin).clip(0).alias("covered_ns")


def region_events(trace: Trace) -> pl.DataFrame:
    """One row per pass of a warp through a region, in a profile of this format. Ends of arrows are not regions."""
    kind = CODE["gpu_annotation"]
    processes = trace.lanes["process"].to_list()
    matches = [CTA.fullmatch(process) for process in processes]
    kernels = pl.Series("kernel", [match["kernel"] if match else "" for match in matches], dtype=pl.String)
    names = pl.Series("region", trace.names, dtype=pl.String)
    events = trace.events.filter((pl.col("kind") == kind) & (pl.col("external_id") < 0))
    return events.select(
        "lane",
        "start_ns",
        "dur_ns",
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        pl.col("correlation").alias("launch"),
        kernels.gather(events["lane"]).alias("kernel"),
        names.gather(events["name"]).alias("region"),
    )
