"""A selection on the page gives the numbers that Warplens gives for that part of the trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from graph_traces import LAYER, capture, eager, replay
from page_profiles import opened_once
from support import ROOT, SAMPLES, annotation, nightly_after, write_trace

FOLLOWING = (
    "timeline", "kernel_categories", "kernels", "launch_categories", "ops", "op_shapes", "roofline", "gemm",
    "attention", "convolution", "norm", "transfer", "cost_coverage", "launches", "phases", "modules",
    "python_lines", "steps", "idle", "gaps", "short_kernels", "kernel_durations", "activity", "comm",
)  # fmt: skip
OF_THE_GPU = ("timeline", "idle")
"""Measures from the GPU's first to its last work; everything else also counts the host's calls."""
NOT_OF_A_PART = {"phases": {"span_us"}}
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"


def close(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return bool(found == pytest.approx(expected, rel=1e-5, abs=2e-6))
    return bool(expected == found)


def assert_same_rows(name: str, profile: warplens.Profile, found: list[dict[str, Any]]) -> None:
    if name == "timeline" and not len(profile.gpu_events()):
        return
    expected = profile.table(name).to_dicts()
    assert len(found) == len(expected), name
    for row, (want, have) in enumerate(zip(expected, found, strict=True)):
        for column in want.keys() - NOT_OF_A_PART.get(name, set()):
            assert close(want[column], have[column]), (name, row, column, want[column], have[column])


@pytest.mark.parametrize("trace", nightly_after(2, [TRAIN, *SAMPLES]), ids=lambda path: path.stem)
def test_a_range_over_everything_gives_the_tables_of_the_report(
    trace: Path, written: Callable[[Path], Path], look: Callable[..., Any]
) -> None:
    """Every table is made again from the events, and must come out as Python made it."""
    page = look(written(trace))
    profile = opened_once(trace)
    for span, names in (("span", [name for name in FOLLOWING if name not in OF_THE_GPU]), ("gpuSpan", OF_THE_GPU)):
        page.js(
            f"() => {{ const [a, b] = warplens.scene.{span}; "
            f"warplens.store.setTexts({{range: `${{a}}-${{b + {int(span == 'span')}}}`}}) }}"
        )
        for name in names:
            assert_same_rows(name, profile, page.table(name))
    page.assert_quiet()


def test_a_step_gives_the_numbers_of_that_step(written: Callable[[Path], Path], look: Callable[..., Any]) -> None:
    page = look(written(TRAIN))
    profile = opened_once(TRAIN)
    for row in profile.table("steps").to_dicts():
        page.state(steps=str(row["step"]), range="")
        events = profile.gpu_events().filter(pl.col("step") == row["step"])
        measures = {each["measure"]: each["time_ms"] for each in page.table("timeline") if each["device"] == "all"}
        assert measures["busy"] == pytest.approx(row["busy_ms"], abs=1e-6)
        assert measures["idle"] == pytest.approx(row["idle_ms"], abs=1e-6)
        assert measures["total"] == pytest.approx(row["gpu_ms"], abs=1e-6)
        assert sum(each["total_us"] for each in page.table("idle")) / 1e3 == pytest.approx(row["idle_ms"], abs=1e-6)
        expected = dict(events.group_by("kernel_category").agg(pl.col("dur_ns").sum() / 1000).iter_rows())
        found = {each["kernel_category"]: each["total_us"] for each in page.table("kernel_categories")}
        assert found == pytest.approx(expected)
        assert [each["step"] for each in page.table("steps")] == [row["step"]]
        for name, column in (("kernels", "total_us"), ("ops", "kernel_us"), ("modules", "kernel_us")):
            total = sum(each[column] for each in page.table(name))
            assert total == pytest.approx(events["dur_ns"].sum() / 1000), name


def test_calls_that_graphs_replay_are_those_of_the_selected_steps(
    tmp_path: Path, written: Callable[[Path], Path], show: Callable[..., Any]
) -> None:
    """Three steps, each with the graph and one more call of aten::mm by the host."""
    events = []
    for step in range(3):
        start = 1000 * (step + 1)
        events += [annotation(f"ProfilerStep#{step}", start - 100, 900), *replay(ts=start, correlation=500 + step)]
        events += eager([LAYER[3]], ts=start + 300, first=700 + step)
    run = tmp_path / "replayed"
    run.mkdir()
    write_trace(run / "rank0.json", events)
    write_trace(run / "capture.json", capture())
    page = show(written(run))
    page.js("() => { const [a, b] = warplens.scene.span; warplens.store.setTexts({range: `${a}-${b + 1}`}) }")
    assert_same_rows("ops", opened_once(run), page.table("ops"))
    page.state(steps="1,2", range="")
    calls = {row["op"]: (row["count"], row["replayed_calls"], row["kernel_us"]) for row in page.table("ops")}
    assert (calls["aten::mm"], calls["aten::addmm"]) == ((4, 2, 16.0), (2, 2, 8.0))
    page.assert_quiet()


def test_steps_add_up_to_what_belongs_to_steps(written: Callable[[Path], Path], look: Callable[..., Any]) -> None:
    page = look(written(TRAIN))
    kernels = opened_once(TRAIN).table("kernels").frame
    steps = page.js("() => warplens.scene.steps.map(each => String(each.step))")
    page.state(steps=",".join(steps), range="")
    assert sum(row["total_us"] for row in page.table("kernels")) == pytest.approx(kernels["step_us"].sum())


def test_a_range_takes_the_gpu_events_that_start_in_it(
    written: Callable[[Path], Path], look: Callable[..., Any]
) -> None:
    page = look(written(TRAIN))
    events = opened_once(TRAIN).gpu_events()
    first, last = events["start_ns"].min(), events["start_ns"].max()
    assert isinstance(first, int) and isinstance(last, int)
    start, end = first + (last - first) // 20, first + 9 * (last - first) // 10
    page.state(range=f"{start}-{end}", steps="")
    chosen = events.filter((pl.col("start_ns") >= start) & (pl.col("start_ns") < end))
    assert 0 < len(chosen) < len(events)
    assert sum(row["count"] for row in page.table("kernels")) == len(chosen)
    assert sum(row["percent"] for row in page.table("kernels")) == pytest.approx(100)
    measures = {each["measure"]: each["time_ms"] for each in page.table("timeline") if each["device"] == "all"}
    assert measures["total"] == pytest.approx((end - start) / 1e6)
    assert measures["busy"] + measures["idle"] == pytest.approx(measures["total"])


def test_a_table_that_cannot_follow_says_so(written: Callable[[Path], Path], look: Callable[..., Any]) -> None:
    page = look(written(TRAIN))
    page.state(range="0-1000", steps="")
    assert page.js("() => warplens.table('findings').followsSelection") is False
    assert page.js("() => warplens.table('kernels').followsSelection") is True
