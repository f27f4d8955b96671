"""`stalls`: what the samples of PC sampling say each source line of a kernel was waiting for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.paths.quality import HOW_TO_GET_LINES, PROTON_TREE, SAMPLES
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.work.modules import frame_parts
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.model.tree import Floats

STALLED: Final = "num_stalled_samples"
PREFIX: Final = "stalled_"
NO_WAIT: Final = "stalled_selected"
"""Counted by Proton among the stalls, though the warp was the one that issued."""
NO_SAMPLES: Final = "no samples in this profile"
HOW_TO_SAMPLE: Final = {
    # format: where such samples are, or come from
    PROTON_TREE: ' (Proton records them with mode="pcsampling")',
    "ncu": ": Nsight Compute's are in the table counter_stalls, where its raw page was read",
}
MOST_NAMED: Final = 3
COLUMNS = (
    Column("line", "line in the kernel's source; empty where the samples are not recorded by line", "", pl.Int64),
    Column("file", "source file of the kernel", "", pl.String),
    Column("kernel_short", "readable short form of the kernel's name", "", pl.String),
    Column("percent", "share of all samples", "%", pl.Float64),
    Column(
        "top_stall",
        "most frequent stall reason; `selected`, an issued instruction, does not count as a stall",
        "",
        pl.String,
    ),
    Column("top_stall_percent", "share of that reason among the stalls", "%", pl.Float64),
    Column("source", "text of the line, where it was recorded", "", pl.String),
    Column("samples", "samples of warps on this line", "count", pl.Int64),
    Column("stalled_percent", "stalled share of this line's samples", "%", pl.Float64),
    Column("stalled_samples", "samples in which the warp was stalled", "count", pl.Int64),
    Column("function", "function in it", "", pl.String),
    Column("kernel", "the kernel's name as recorded", "", pl.String),
)


def stalls(work: PathWorkspace) -> Table:
    tree = work.tree
    reasons = sorted(name for name in tree.metrics if name.startswith(PREFIX))
    counted = [name for name in (SAMPLES, STALLED, *reasons) if name in tree.metrics]
    rows = (
        np.flatnonzero(np.sum([tree.metrics[name] for name in counted], axis=0)) if counted else np.zeros(0, np.int64)
    )
    frame = pl.DataFrame(
        {"kernel": _kernels(work, rows), "place": [_source_line(work, node) for node in rows.tolist()]}
        | {
            name: tree.metrics[name][rows] if name in tree.metrics else np.zeros(len(rows))
            for name in (SAMPLES, STALLED)
        }
        | {name: tree.metrics[name][rows] for name in reasons},
        schema_overrides={"kernel": pl.String, "place": pl.String},
    )
    frame = frame.group_by("kernel", "place").agg(
        pl.col(SAMPLES, STALLED, *reasons).sum().round().cast(pl.Int64, strict=False)
    )
    described = _described(frame, reasons, work.short_names, work.paths.source_lines).sort(
        "samples", "kernel", "place", descending=[True, False, False]
    )
    meanings = (
        Column(name, f"samples that waited: {name.removeprefix(PREFIX)}", "count", pl.Int64) for name in reasons
    )
    notes = _without_lines(described, work.paths.meta.format)
    if not counted:
        notes = (NO_SAMPLES + HOW_TO_SAMPLE.get(work.paths.meta.format, ""),)
    return Table.from_frame(
        "stalls", "one row per kernel and source line that was sampled", (*COLUMNS, *meanings), described, *notes
    )


def _without_lines(stalls: pl.DataFrame, profile_format: str) -> tuple[str, ...]:
    """Which kernels were sampled as a whole, and what lines need."""
    kernels = stalls.group_by("kernel_short", maintain_order=True).agg(pl.col("line").is_not_null().any().alias("has"))
    without = kernels.filter(~pl.col("has"))["kernel_short"].to_list()
    if not without or profile_format not in HOW_TO_GET_LINES:
        return ()
    named = ", ".join(without[:MOST_NAMED]) + (", …" if len(without) > MOST_NAMED else "")
    some = f"{len(without)} of {len(kernels)} kernels have no samples by line ({named})"
    return (f"{some}: {HOW_TO_GET_LINES[profile_format]}",)


def _kernels(work: PathWorkspace, rows: Ints) -> list[str]:
    """The kernel that each sampled node is or belongs to."""
    around = work.nearest([kind == "kernel" for kind in work.tree.kind])
    own = [
        node if work.tree.kind[node] == "kernel" or around[node] < 0 else int(around[node]) for node in rows.tolist()
    ]
    return [work.tree.name[node] for node in own]


def _source_line(work: PathWorkspace, node: int) -> str:
    return work.tree.name[node] if work.tree.kind[node] == "line" else ""


def _described(
    frame: pl.DataFrame, reasons: list[str], short: dict[str, str], source_lines: Mapping[tuple[str, int], str]
) -> pl.DataFrame:
    parts = [frame_parts(text) for text in frame["place"].to_list()]
    whole = max(1, int(frame[SAMPLES].clip(lower_bound=0).sum()))
    waited = [name for name in reasons if name != NO_WAIT]
    waits = _counts(frame, waited)
    top = waits.argmax(axis=1) if len(frame) else np.zeros(0, np.int64)
    most = waits.max(axis=1) if len(frame) else np.zeros(0)
    names = [waited[at].removeprefix(PREFIX) if most[row] > 0 else None for row, at in enumerate(top)]
    return frame.with_columns(
        pl.Series("kernel_short", [short.get(name, name) for name in frame["kernel"].to_list()], dtype=pl.String),
        pl.Series("file", [part[0] or None for part in parts], dtype=pl.String),
        pl.Series("line", [part[1] for part in parts], dtype=pl.Int64),
        pl.Series("function", [part[2] or None for part in parts], dtype=pl.String),
        pl.Series("source", [source_lines.get((part[0], part[1] or 0)) for part in parts], dtype=pl.String),
        pl.col(SAMPLES).alias("samples"),
        pl.col(STALLED).alias("stalled_samples"),
        (100 * pl.col(SAMPLES).clip(lower_bound=0) / whole).alias("percent"),
        pl.when(pl.col(SAMPLES) <= 0)
        .then(0.0)
        .when(pl.col(STALLED).is_between(0, pl.col(SAMPLES)))
        .then(100 * pl.col(STALLED) / pl.col(SAMPLES))
        .alias("stalled_percent"),
        pl.Series("top_stall", names, dtype=pl.String),
        pl.Series("top_stall_percent", 100 * most / np.maximum(1, waits.sum(axis=1)), dtype=pl.Float64),
    )


def _counts(frame: pl.DataFrame, reasons: list[str]) -> Floats:
    """Samples by row and reason. A damaged file has counts below zero."""
    if not reasons:
        return np.zeros((len(frame), 1))
    return frame.select(pl.col(reasons).cast(pl.Float64).fill_null(0.0).clip(lower_bound=0.0)).to_numpy()
