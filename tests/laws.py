"""What holds for every trace that opens, however damaged its file was."""

from __future__ import annotations

import polars as pl
import pytest

import warplens
from mutations import GPU_CATEGORIES, Document
from warplens.analyses.trees.call_tree import CONTEXTS
from warplens.model.check import self_check

SUMS = {
    # table: its column that adds up to the duration of all GPU events
    "kernel_categories": "total_us",
    "kernels": "total_us",
    "launch_categories": "total_us",
    "modules": "kernel_us",
    "python_lines": "kernel_us",
    "kernel_durations": "total_us",
}


def assert_kernels_add_up(profile: warplens.Profile) -> None:
    """The trace holds together, and the tables of kernels have all of its GPU time."""
    self_check(profile.trace)
    events = profile.gpu_events()
    total_us, count = events["dur_ns"].sum() / 1000, len(events)
    for name, column in SUMS.items():
        frame = profile.table(name).frame
        assert frame[column].sum() == pytest.approx(total_us, rel=1e-9, abs=1e-6), name
        assert frame["count"].sum() == count, name


def assert_adds_up(profile: warplens.Profile) -> None:
    """Every table and tree computes, and none contradicts another."""
    assert_kernels_add_up(profile)
    events = profile.gpu_events()
    total_us, count = events["dur_ns"].sum() / 1000, len(events)
    for table in profile.tables():
        assert_shares(table)
    for name in ("cost_coverage", "phases"):
        assert profile.table(name).frame["total_us"].sum() == pytest.approx(total_us, rel=1e-9, abs=1e-6), name
    assert profile.table("ops").frame["kernel_us"].sum() == pytest.approx(total_us, rel=1e-9, abs=1e-6)
    _time_is_busy_or_idle(profile)
    for context in CONTEXTS:
        tree = profile.tree(context)
        tree.self_check()
        assert int(tree.total_ns[0]) == pytest.approx(events["dur_ns"].sum(), rel=1e-12)
        assert int(tree.total_count[0]) == count
    _host_time_is_counted_once(profile)
    assert profile.verdict()


def assert_no_event_is_lost(profile: warplens.Profile, document: Document, what: str) -> None:
    """Against a count that goes through no code of ours; wrong values may be dropped, but never in silence."""
    entries = document["traceEvents"]
    timed = [entry for entry in entries if isinstance(entry, dict) and entry.get("ph") == "X"]
    noted = {note.code: note.count for note in profile.trace.quality.notes}
    dropped = noted.get("out_of_range", 0)
    assert profile.trace.meta.phases["X"] == len(timed), what
    begun = sum(isinstance(entry, dict) and entry.get("ph") == "B" for entry in entries)
    assert len(timed) - dropped <= len(profile.trace) <= len(timed) + begun, what
    if profile.trace.meta.format == "kineto" and not begun:
        work = sum(str(entry.get("cat")).lower() in GPU_CATEGORIES for entry in timed)
        assert work - dropped <= len(profile.gpu_events()) <= work, what
    strangers = [entry for entry in entries if not isinstance(entry, dict) or not isinstance(entry.get("ph"), str)]
    assert not strangers or noted.get("not_events", 0) or noted.get("bad_args", 0), what


def _host_time_is_counted_once(profile: warplens.Profile) -> None:
    tree = profile.tree("python", weight="cpu")
    tree.self_check()
    assert (tree.self_ns >= 0).all()
    durations = profile.trace.events.filter(pl.Series(profile.trace.is_kind(*CONTEXTS["python"], "runtime")))["dur_ns"]
    assert int(tree.total_ns[0]) <= durations.sum()


def assert_shares(table: warplens.Table) -> None:
    for column in table.columns:
        if "percent" in column.name:
            frame = table.frame
            if (
                column.name == "percent_of_roofline"
            ):  # a share of what is thought possible, and flagged or noted if over
                if any(note.startswith("percent_of_roofline over 100") for note in table.notes):
                    continue
                frame = frame.filter(pl.col("flag") == "") if "flag" in frame.columns else frame
            values = frame[column.name].drop_nulls().cast(pl.Float64)
            assert values.is_between(0.0, 100.0).all(), (table.name, column.name, values.to_list())


def _time_is_busy_or_idle(profile: warplens.Profile) -> None:
    for device, rows in profile.table("timeline").frame.group_by("device"):
        measures = dict(rows.select("measure", "time_ms").iter_rows())
        assert measures["busy"] + measures["idle"] == pytest.approx(measures["total"], rel=1e-9, abs=1e-9), device
        assert measures["busy"] <= measures["total"] * (1 + 1e-9), device
        parts = measures["computation"] + measures["exposed_communication"] + measures["exposed_memcpy"]
        assert parts == pytest.approx(measures["busy"], rel=1e-9, abs=1e-9), device
