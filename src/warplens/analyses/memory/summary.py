"""Who holds the peak, in a sentence."""

from __future__ import annotations

import polars as pl

from warplens.analyses.memory.peak import BESIDE
from warplens.model.table import Table
from warplens.units import format_bytes

MOST_HOLDERS = 3


def peak_sentence(timeline: Table, peak: Table) -> str:
    """Of the device with the largest peak."""
    moments = timeline.frame.filter("is_peak").sort("allocated_bytes", descending=True)
    if not len(moments):
        return "No GPU memory in this snapshot."
    moment = moments.row(0, named=True)
    of = f" of {format_bytes(moment['reserved_bytes'])} reserved" if moment["reserved_bytes"] else ""
    held = peak.frame.filter((pl.col("device") == moment["device"]) & ~pl.col("category").is_in(list(BESIDE)))
    sums = held.group_by("category").agg(pl.col("bytes").sum()).sort("bytes", "category", descending=[True, False])
    whole = max(1, int(moment["allocated_bytes"]))
    shares = [f"{category} {100 * size / whole:.0f} %" for category, size in sums.head(MOST_HOLDERS).iter_rows()]
    several = f" ({len(moments)} GPUs)" if len(moments) > 1 else ""
    text = f"At the peak {format_bytes(moment['allocated_bytes'])}{of} are allocated on {moment['device']}{several}"
    return f"{text}: {', '.join(shares)}." if shares else f"{text}."
