"""TraceLens' frames of how a GPU spends its time, and of one rank's collectives."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from warplens.analyses.time.timeline import DeviceWork, measure, split_work
from warplens.analyses.work.comm import ELEMENT_BYTES, described_collectives
from warplens.compat.calls import Calls
from warplens.compat.frame import Aggregate, Frame
from warplens.compat.launchers import RECOMPUTED
from warplens.compat.metrics import MEBIBYTE
from warplens.compat.names import TIMELINE_TYPES
from warplens.model.intervals import complement, union
from warplens.model.trace import Bools

NOTHING: Final = "[]"
"""How a record says that a message is not split."""
COLLECTIVE_KEYS: Final = (
    "rank", "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "Out msg nelems", "In split size", "Out split size", "stream",
)  # fmt: skip


def gpu_timeline(calls: Calls, micro_idle_thresh_us: float | None = None, *, detect_recompute: bool = False) -> Frame:
    """The measures of the timeline over all GPUs of the trace, or those of recomputation and of the rest."""
    if not detect_recompute or not calls.is_counted.any():
        return Frame.of_rows(timeline_rows(calls, calls.is_counted, micro_idle_thresh_us))
    rows = []
    for is_recompute in (False, True):
        chosen = calls.is_counted & (calls.is_recomputed == is_recompute)
        if chosen.any():
            rows += [row | {RECOMPUTED: is_recompute} for row in timeline_rows(calls, chosen, micro_idle_thresh_us)]
    return Frame.of_rows(rows)


def timeline_rows(calls: Calls, chosen: Bools, micro_idle_thresh_us: float | None = None) -> list[dict[str, Any]]:
    """The measures of some GPU events."""
    work = split_work(calls.gpu, chosen)
    measured = measure(work)
    times: dict[str, float] = {}
    for ours, name in TIMELINE_TYPES.items():
        if ours == "idle" and micro_idle_thresh_us is not None:
            times["micro_idle_time"], times["macro_idle_time"] = _idle(work, micro_idle_thresh_us * 1000)
        else:
            times[name] = measured[ours]
    whole = measured["total"]
    return [
        {"type": name, "time ms": ns / 1e6, "percent": 100 * ns / whole if whole else float("nan")}
        for name, ns in times.items()
    ]


def _idle(work: DeviceWork, threshold_ns: float) -> tuple[int, int]:
    """Idle time in gaps below a threshold and in others."""
    busy = union(np.concatenate([part.starts for part in work]), np.concatenate([part.ends for part in work]))
    if not len(busy.starts):
        return 0, 0
    gaps = complement(busy, int(busy.starts[0]), int(busy.ends[-1]))
    lengths = gaps.ends - gaps.starts
    is_short = lengths < threshold_ns
    return int(lengths[is_short].sum()), int(lengths[~is_short].sum())


def collectives(calls: Calls) -> Frame:
    """Collectives of this rank by group, kind, size and stream; those whose record lacks one of these are left out."""
    described = described_collectives(calls.work).filter(pl.col("in_elements").is_not_null())
    rows = []
    for it in described.iter_rows(named=True):
        item_bytes = ELEMENT_BYTES.get(it["dtype"].lower().removeprefix("c10::"), 0)
        sizes = [it[name] * item_bytes / MEBIBYTE if item_bytes else None for name in ("in_elements", "out_elements")]
        values = (
            0, it["group"], it["ranks"], it["collective"], it["group_size"], it["dtype"], it["in_elements"],
            it["out_elements"], it["in_splits"] or NOTHING, it["out_splits"] or NOTHING, it["stream"],
        )  # fmt: skip
        rows.append(
            dict(zip(COLLECTIVE_KEYS, values, strict=True))
            | {"In msg size (MB)": sizes[0], "Out msg size (MB)": sizes[1], "dur": it["dur_ns"] / 1000}
        )
    frame = Frame.of_rows(rows)
    if not rows:
        return frame
    sums: dict[str, list[Aggregate]] = {"In msg size (MB)": ["first"], "Out msg size (MB)": ["first"]}
    sums["dur"] = ["sum", "mean", "std", "min", "max"]
    grouped = frame.grouped(COLLECTIVE_KEYS, sums, in_order=True)
    counts = frame.grouped(COLLECTIVE_KEYS, {"dur": ["count"]}, in_order=True)["dur_count"]
    return Frame({**grouped, "operation_count": counts}).sorted_by("dur_sum")
