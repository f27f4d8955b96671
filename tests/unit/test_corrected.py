"""The timeline as it nearly was without the profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from support import ROOT, SHARED, Opened, annotation, frame, kernel, launch, op

WHAT_IF = SHARED / "traces" / "whatif"
SAMPLES = sorted((ROOT / "samples" / "kineto").glob("*.json.gz"))


def two_steps() -> list[dict[str, Any]]:
    """In each step 100 µs of ops before a launch, of which the recording takes a part."""
    events: list[dict[str, Any]] = []
    for step in range(2):
        at = 200 * step
        events += [annotation(f"ProfilerStep#{step}", at, 200), op("aten::linear", at + 10, 120)]
        events += [op("aten::view", at + 20 + 10 * number, 1) for number in range(8)]
        events += [launch(at + 110, 10, step + 1), kernel("gemm", at + 125, 30, step + 1)]
    return events


def test_the_host_is_shortened_and_gpu_events_keep_their_durations(opened: Opened) -> None:
    profile = opened(two_steps())
    corrected = profile.corrected()
    before, after = profile.trace, corrected.trace
    gpu = before.gpu_rows
    assert (after.ints("dur_ns")[gpu] == before.ints("dur_ns")[gpu]).all()
    assert after.ints("start_ns")[gpu[0]] < before.ints("start_ns")[gpu[0]]
    host = np.setdiff1d(np.arange(len(before)), gpu)
    assert (after.ints("dur_ns")[host] <= before.ints("dur_ns")[host]).all()
    step_ms = profile.table("bounds").frame["step_ms"].to_list()[1]
    assert np.ptp(after.steps["start_ns"].to_numpy()) == pytest.approx(1e6 * step_ms, abs=1_000)


def test_nothing_is_taken_off_twice(opened: Opened) -> None:
    corrected = opened(two_steps()).corrected()
    recorded_ms, plain_ms = corrected.table("bounds").frame["step_ms"].to_list()[:2]
    assert plain_ms == recorded_ms
    assert [note for note in corrected.trace.quality.notes if note.code == "corrected_times"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_is_inside_something_stays_inside_and_streams_keep_their_order(path: Path) -> None:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    if profile.step_model is None:
        pytest.skip("no launches recorded")
    trace = profile.corrected().trace
    start, duration, parent = (trace.ints(name) for name in ("start_ns", "dur_ns", "parent"))
    end = start + duration
    assert (start >= 0).all()
    assert (duration >= 0).all()
    inner = np.flatnonzero((parent >= 0) & (trace.ints("lane")[np.maximum(parent, 0)] == trace.ints("lane")))
    assert (start[inner] >= start[parent[inner]] - 1).all(), "to the rounded nanosecond"
    assert (end[inner] <= end[parent[inner]] + 1).all()
    for lane in np.unique(trace.ints("lane")).tolist():
        assert (np.diff(start[trace.ints("lane") == lane]) >= 0).all()


@pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")
@pytest.mark.parametrize(("name", "step_ms"), [("S_good", 21.425), ("L_sync", 53.185)])
def test_corrected_steps_take_the_time_of_plain_ones(name: str, step_ms: float) -> None:
    profile = warplens.open(WHAT_IF / f"{name}.json.gz", step_ms=step_ms)
    assert isinstance(profile, warplens.Profile)
    steps = profile.corrected().table("steps").frame["gpu_ms"].to_list()
    assert np.median(steps) == pytest.approx(step_ms, rel=0.05)


def test_without_launches_times_cannot_be_corrected(opened: Opened) -> None:
    with pytest.raises(warplens.WarplensError, match="no GPU event of the trace has a recorded launch"):
        opened([frame("main.py(3): main", 0, 100), kernel("gemm", 10, 20)]).corrected()
