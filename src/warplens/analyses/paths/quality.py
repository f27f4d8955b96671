"""`quality` of call paths: what this profile records and what it does not."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.quality import COLUMNS
from warplens.categories import demangle
from warplens.model.quality import Note
from warplens.model.table import Table
from warplens_run.base.units import format_percent

PROTON_TREE: Final = "Proton call tree"
"""The format of Proton's trees."""
SAMPLES: Final = "num_samples"
"""The metric that counts samples of warps, in trees of either profiler."""
HOW_TO_GET_LINES: Final = {
    # format: what lines need
    PROTON_TREE: "Triton's need TRITON_DISABLE_LINE_INFO=0 before they are compiled, and a recording that "
    "begins before their first launch",
    "ncu": "the source page has lines with --print-source cuda,sass, of kernels that are compiled with -lineinfo",
}


def quality(work: PathWorkspace) -> Table:
    added = (*_limits(work), *_profiler_work(work), *_mangled_names(work), *_unknown_gpu(work))
    notes = work.paths.quality.with_notes(*added).notes
    return Table.from_rows("quality", "one row per note on the profile", COLUMNS, notes)


def _limits(work: PathWorkspace) -> list[Note]:
    """What such a profile lacks. Only Proton can record Python frames."""
    frames = [] if "python" in work.tree.kind or work.paths.meta.format != PROTON_TREE else [Note("no_frames")]
    if SAMPLES in work.tree.metrics and "line" not in work.tree.kind and work.paths.meta.format in HOW_TO_GET_LINES:
        frames.append(Note("no_source_lines", detail=HOW_TO_GET_LINES[work.paths.meta.format]))
    if work.gpu_total_ns:
        return [Note("no_timeline"), *frames]
    return frames if work.paths.quality.has("no_gpu") else [Note("no_gpu_times"), *frames]


def _profiler_work(work: PathWorkspace) -> list[Note]:
    is_own = work.nearest([kind == "overhead" for kind in work.tree.kind])[work.kernel_nodes] >= 0
    count, ns = work.gpu.filter(pl.Series(is_own)).select(pl.col("count", "dur_ns").sum()).row(0)
    share = 100 * ns / max(1, work.gpu_total_ns)
    return [Note("profiler_work", count, format_percent(share))] if count else []


def _mangled_names(work: PathWorkspace) -> list[Note]:
    names = set(work.gpu["kernel"].to_list())
    mangled = sum(demangle(name).startswith("_Z") for name in names if name.startswith("_Z"))
    return [Note("mangled", mangled)] if mangled else []


def _unknown_gpu(work: PathWorkspace) -> list[Note]:
    if work.hardware is not None or not len(work.gpu):
        return []
    names = [device.name or f"compute {device.compute}" for device in work.paths.meta.devices]
    return [Note("unknown_gpu", detail=", ".join(filter(None, dict.fromkeys(names))) or "the file does not name it")]
