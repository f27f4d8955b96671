"""The conservation laws on every real trace at hand: what is counted is counted once, and parts add up."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import polars as pl
import pytest

import warplens
from support import real_traces
from warplens.analyses.trees.call_tree import CONTEXTS
from warplens.model.trace import Meta
from warplens.passes import run_passes
from warplens.readers import registry
from warplens.readers.shared import stored_file


@pytest.fixture(params=real_traces(), ids=lambda path: f"{path.parent.name}/{path.name}")
def trace_file(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


class Event(msgspec.Struct):
    ph: str = ""


class Document(msgspec.Struct):
    traceEvents: list[Event]  # noqa: N815


def phases(path: Path) -> list[Event]:
    """The phase of every event, through no code of ours: all of their fields would take as long as the reader."""
    document = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Document | list[Event])
    return document.traceEvents if isinstance(document, Document) else document


def test_everything_adds_up(trace_file: Path) -> None:
    text, notes = stored_file.load(trace_file).unwrap()
    read = registry.read(text, Meta(source=str(trace_file), format=""), notes)
    profile = warplens.Profile(run_passes(read, check_each=True))
    _every_event_is_there(profile, trace_file)
    _sums_agree(profile)
    _time_is_busy_or_idle(profile)
    _no_percentage_is_over_100(profile)
    _idle_causes_are_all_of_the_idle_time(profile)


def _every_event_is_there(profile: warplens.Profile, path: Path) -> None:
    complete = sum(event.ph == "X" for event in phases(path))
    assert len(profile.trace) - profile.trace.frames.height == complete, "callers that were only named are no events"
    assert profile.trace.meta.phases["X"] == complete


def _sums_agree(profile: warplens.Profile) -> None:
    events = profile.gpu_events()
    total_us, count = events["dur_ns"].sum() / 1000, len(events)
    for name, column in (
        ("kernel_categories", "total_us"),
        ("kernels", "total_us"),
        ("launch_categories", "total_us"),
        ("ops", "kernel_us"),
        ("modules", "kernel_us"),
        ("python_lines", "kernel_us"),
        ("kernel_durations", "total_us"),
    ):
        frame = profile.table(name).frame
        assert frame[column].sum() == pytest.approx(total_us, rel=1e-9, abs=1e-6), name
        if name != "ops":
            assert frame["count"].sum() == count, name
    in_ops = events.filter(pl.col("op_row") == pl.col("owner"), pl.col("op_row") >= 0)["dur_ns"].sum() / 1000
    assert profile.table("op_shapes").frame["kernel_us"].sum() == pytest.approx(in_ops, rel=1e-9, abs=1e-6)
    for context in CONTEXTS:
        tree = profile.tree(context)
        tree.self_check()
        assert int(tree.total_ns[0]) == events["dur_ns"].sum()
        assert int(tree.total_count[0]) == count


def _time_is_busy_or_idle(profile: warplens.Profile) -> None:
    for _, rows in profile.table("timeline").frame.group_by("device"):
        measures = dict(rows.select("measure", "time_ms").iter_rows())
        assert measures["busy"] + measures["idle"] == pytest.approx(measures["total"], abs=1e-9)
        assert measures["busy"] <= measures["total"] + 1e-9
        assert measures["exposed_communication"] <= measures["communication"] + 1e-9
        parts = measures["computation"] + measures["exposed_communication"] + measures["exposed_memcpy"]
        assert parts == pytest.approx(measures["busy"], abs=1e-9)
    steps = profile.table("steps").frame
    if len(steps):
        assert (steps["busy_ms"] + steps["idle_ms"] - steps["gpu_ms"]).abs().max() < 1e-6  # type: ignore[operator]


def _no_percentage_is_over_100(profile: warplens.Profile) -> None:
    for table in profile.tables():
        for column in table.columns:
            if "percent" in column.name and len(table):
                frame = table.frame
                if column.name == "percent_of_roofline":  # a share of what is thought possible, and flagged if over
                    frame = frame.filter(pl.col("flag") == "")
                values = frame[column.name].drop_nulls()
                if not len(values):
                    continue
                assert values.is_finite().all(), (table.name, column.name)
                assert values.max() <= 100.0, (table.name, column.name)  # type: ignore[operator]
                assert values.min() >= 0.0, (table.name, column.name)  # type: ignore[operator]


def _idle_causes_are_all_of_the_idle_time(profile: warplens.Profile) -> None:
    timeline = profile.table("timeline").frame.filter(pl.col("measure") == "idle", pl.col("device") != "all")
    idle_us = profile.table("idle").frame["total_us"].sum()
    assert idle_us == pytest.approx(timeline["time_ms"].sum() * 1000, abs=1e-3)
    gaps = profile.table("gaps").frame.drop_nulls("host_us")
    parts = pl.sum_horizontal("host_us", "launch_us", "dependency_us")
    assert gaps.filter((parts - pl.col("gap_us")).abs() > 1e-6).is_empty(), "the parts of a gap are all of it"
    by_cause = profile.table("idle").frame.group_by("cause").agg(pl.col("total_us").sum())
    dependency_us = by_cause.filter(pl.col("cause") == "dependency")["total_us"].sum()
    assert dependency_us == pytest.approx(gaps["dependency_us"].sum(), abs=1e-3)
