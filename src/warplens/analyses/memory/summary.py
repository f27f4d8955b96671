"""Who holds the peak and why an allocation failed, in a sentence."""

from __future__ import annotations

import re

import polars as pl

from warplens.analyses.memory.failures import FRAGMENTED, LIMITED
from warplens.analyses.memory.peak import BESIDE
from warplens.model.table import Table
from warplens_run.base.units import format_bytes

MOST_HOLDERS = 3
ASKED = re.compile(r"out of memory\. Tried to allocate ([\d.]+ \w+)")
"""In PyTorch's error, on every kind of GPU."""
LEAST_SHARE = 0.005
"""Of the allocated memory: a holder of less is not worth a word of the sentence."""


def memory_sentence(timeline: Table, peak: Table, failures: Table) -> str:
    """The failure, where memory ran out, and who holds the peak."""
    return " ".join(text for text in (failure_sentence(failures), peak_sentence(timeline, peak)) if text)


def peak_sentence(timeline: Table, peak: Table) -> str:
    """Of the device with the largest peak."""
    moments = timeline.frame.filter("is_peak").sort("allocated_bytes", descending=True)
    if not len(moments):
        return "No GPU memory in this snapshot."
    moment = moments.row(0, named=True)
    held = peak.frame.filter((pl.col("device") == moment["device"]) & ~pl.col("category").is_in(list(BESIDE)))
    sums = held.group_by("category").agg(pl.col("bytes").sum()).sort("bytes", "category", descending=[True, False])
    large = sums.filter(pl.col("bytes") >= LEAST_SHARE * moment["allocated_bytes"])
    parts = [f"{category} {format_bytes(size)}" for category, size in large.head(MOST_HOLDERS).iter_rows()]
    where = f"{moment['device']}{f', of {len(moments)} GPUs' if len(moments) > 1 else ''}"
    text = f"The peak is {format_bytes(moment['allocated_bytes'])} on {where}"
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


def failure_sentence(failures: Table) -> str:
    """What was asked for when memory ran out for the last time, what was free, and why that did not suffice."""
    if not len(failures):
        return ""
    row = failures.frame.row(-1, named=True)
    place = f" at {row['line']}" if row["line"] else f" in {row['op']}" if row["op"] else ""
    asked = f"Out of memory on {row['device']}: {format_bytes(row['requested_bytes'])} were asked for{place}"
    on_device, in_segments = row["device_free_bytes"], row["reserved_free_bytes"]
    if row["cause"] == LIMITED and on_device is not None:
        return f"{asked}, beyond a limit of the process; {format_bytes(on_device)} were free on the device."
    free = [f"{format_bytes(on_device)} were free on the device"] if on_device is not None else []
    if in_segments:
        most = f"at most {format_bytes(row['largest_free_bytes'])} in one piece"
        free.append(f"{format_bytes(in_segments)} in segments, {most}{' (fragmented)' * (row['cause'] == FRAGMENTED)}")
    return f"{asked}; {' and '.join(free)}." if free else f"{asked}."


def unrecorded_failure_sentence(ending: str) -> str:
    """Of a program that ran out of memory while its allocations were not recorded: what its error says."""
    asked = ASKED.search(ending)
    return f"Out of memory: {asked[1]} were asked for while allocations were not recorded." if asked else ""
