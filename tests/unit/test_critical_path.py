"""The critical path: against another program's on its own test traces, and what its tables sum up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import warplens
from support import SHARED, Opened, annotation, frame, kernel, launch, op
from warplens.analyses.graph.building import step_graph
from warplens.analyses.graph.critical_path import path_nodes
from warplens.analyses.graph.records import CALL, RETURN
from warplens.analyses.graph.simulating import simulate
from warplens.model.trace import SIDE_FRAMES, Trace

FOLDER = SHARED / "traces" / "ranks" / "critical_path"
ORACLE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "critical_path_hta.json").read_text())
LAUNCH_BOUND = {"cuda_event_sync_multi_stream.json.gz": {1411}}
"""A memset that ended 15 µs before the kernel after it began: that one waited for its launch, not for the memset."""


def with_one_step(trace: Trace, name: str, instance: int) -> Trace:
    """The trace with this annotation as its only step."""
    rows = [row for row in trace.rows_of("annotation") if trace.names[trace.ints("name")[row]] == name]
    if not rows:
        return replace(trace, steps=trace.steps.clear())
    start = int(trace.ints("start_ns")[rows[instance]])
    step = (0, name, start, start + int(trace.ints("dur_ns")[rows[instance]]))
    return replace(trace, steps=pl.DataFrame([step], schema=SIDE_FRAMES["steps"], orient="row"))


@pytest.mark.skipif(not FOLDER.exists(), reason="the shared traces are not here")
@pytest.mark.parametrize("oracle", ORACLE["paths"], ids=lambda oracle: f"{oracle['trace']}-{oracle['instance']}")
def test_the_path_to_the_last_gpu_event_is_the_one_that_hta_finds(oracle: dict[str, Any]) -> None:
    trace = with_one_step(warplens.open(FOLDER / oracle["trace"]).trace, oracle["annotation"], oracle["instance"])
    graph = step_graph(trace, trace.steps["step"].to_numpy().astype(np.int64))
    times = simulate(graph)
    ends = times[graph.is_work].max()
    until = np.where((times > ends) | ((times == ends) & ~graph.is_work), -np.inf, times)
    nodes = [step.node for step in path_nodes(graph, until, graph.lag_ns)]
    is_call = np.isin(graph.kind[nodes], (CALL, RETURN))
    calls = trace.ints("correlation")[graph.row[nodes][is_call]]
    rows = graph.row[nodes][graph.is_work[nodes]]
    only_hta = LAUNCH_BOUND.get(oracle["trace"], set())
    assert set(trace.ints("correlation")[rows].tolist()) == set(oracle["gpu_correlations"]) - only_hta
    if not only_hta:
        assert set(calls.tolist()) <= set(oracle["call_correlations"]), "and every call on it is on theirs"
        assert trace.ints("dur_ns")[rows].sum() / 1e3 == oracle["gpu_us"]


MODULE = "nn.Module: Linear_0"


def a_host_bound_program() -> list[dict[str, Any]]:
    """Two launches inside a module and a line of the user's, the second by an op; the GPU waits for the host."""
    return [
        frame("train.py(3): step", 0, 400), frame(MODULE, 10, 380), op("aten::mm", 200, 180),
        launch(20, 5, 1), kernel("sm90_xmma_gemm_f32", 28, 10, 1), launch(320, 5, 2),
        kernel("sm90_xmma_gemm_f32", 328, 100, 2),
    ]  # fmt: skip


def test_segments_name_the_module_and_the_line_around_them(opened: Opened) -> None:
    rows = opened(a_host_bound_program()).table("critical_path").to_dicts()
    assert {(row["module"], row["python_line"]) for row in rows} == {("Linear_0", "train.py:3 step")}
    assert [row["op"] for row in rows if row["kind"] == "work"] == ["aten::mm"]


def test_the_path_begins_with_work_from_before_the_steps(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("before", 8, 300, 1), annotation("ProfilerStep#1", 50, 100),
        launch(60, 5, 2), kernel("within", 309, 10, 2),
    ]  # fmt: skip
    rows = opened(events).table("critical_path").to_dicts()
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("work", "before"),
        ("pause", "within"),
        ("work", "within"),
    ]
    assert (rows[0]["recorded_ms"], rows[0]["time_us"]) == (0.008, 300)


def test_the_sums_divide_the_whole_path_by_kind_category_op_module_and_line(opened: Opened) -> None:
    profile = opened(a_host_bound_program())
    length = sum(row["time_us"] for row in profile.table("critical_path").to_dicts())
    rows = profile.table("critical_path_sums").to_dicts()
    divisions = {by: [row for row in rows if row["by"] == by] for by in dict.fromkeys(row["by"] for row in rows)}
    assert list(divisions) == ["kind", "category", "op", "module", "python_line"]
    for division in divisions.values():
        assert sum(row["time_us"] for row in division) == pytest.approx(length)
        assert sum(row["percent"] for row in division) == pytest.approx(100, abs=0.01)
        assert [row["time_us"] for row in division] == sorted((row["time_us"] for row in division), reverse=True)
    for row in rows:
        assert row["host_us"] + row["work_us"] + row["wait_us"] == pytest.approx(row["time_us"], abs=1e-5)
    assert {row["name"]: row["work_us"] for row in divisions["category"]}["GEMM"] == pytest.approx(100)
    assert [(row["name"], row["count"]) for row in divisions["module"]] == [("Linear_0", 5)]


def test_without_stacks_the_path_is_not_divided_by_modules_and_lines(opened: Opened) -> None:
    events = [launch(0, 5, 1), kernel("k", 8, 10, 1)]
    rows = opened(events).table("critical_path_sums").to_dicts()
    assert {row["by"] for row in rows} == {"kind", "category", "op"}
    assert [row["name"] for row in rows if row["by"] == "op"] == ["(none)"]
