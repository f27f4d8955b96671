"""The step's graph: simulated unedited it gives the recorded times; edges say what waits for what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from native_reading import needs_library
from support import SAMPLES, SHARED, Opened, annotation, kernel, launch, memcpy, op, real_traces
from warplens import native_library
from warplens.analyses.graph.building import graph_of, has_graph, step_graph, usual_steps
from warplens.analyses.graph.critical_path import path_nodes
from warplens.analyses.graph.recording_cost import (
    NOT_DECIDED,
    RecordingCost,
    fitted_cost,
    plain_lags,
    recording_cost,
)
from warplens.analyses.graph.records import EDGE_KINDS, MARK, NODE_KINDS, WORK, StepGraph
from warplens.analyses.graph.simulating import simulate, simulate_many, step_ns

WHAT_IF = SHARED / "traces" / "whatif"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"


def graph(profile: warplens.Profile) -> StepGraph:
    return graph_of(profile.workspace)


def edges(profile: warplens.Profile) -> list[tuple[str, str, str, float]]:
    """(source, kind, target, lag in µs); calls and GPU events by name, marks by step."""
    own, trace = graph(profile), profile.trace

    def label(node: int) -> str:
        kind = NODE_KINDS[own.kind[node]]
        if kind == "mark":
            return f"mark {own.step[node]}"
        name = trace.names[trace.ints("name")[own.row[node]]]
        return f"return of {name}" if kind == "return" else name

    return [
        (label(source), EDGE_KINDS[kind], label(target), round(lag / 1e3, 3))
        for source, kind, target, lag in zip(own.source, own.edge_kind, own.target, own.lag_ns, strict=True)
    ]


def bounds_ms(profile: warplens.Profile) -> dict[str, float]:
    return {row["case"]: row["step_ms"] for row in profile.table("bounds").to_dicts()}


@pytest.mark.parametrize("path", real_traces(), ids=lambda path: path.name)
def test_every_recorded_time_comes_out_of_the_unedited_graph(path: Path) -> None:
    profile = warplens.open(path)
    if not isinstance(profile, warplens.Profile) or not has_graph(profile.workspace):
        pytest.skip("no launches recorded")
    own = step_graph(profile.trace, profile.trace.steps["step"].to_numpy().astype(np.int64))
    times = simulate(own)
    assert np.abs(times - own.recorded_ns).max() <= 1.0, "nanoseconds"
    assert (own.residual_ns >= 0).all()
    assert (own.source < own.target).all()
    assert (own.host_ns <= np.maximum(own.lag_ns, 0) + 1e-6).all()
    work = np.flatnonzero(own.kind == WORK)
    rows, nodes = np.unique(own.row[work], return_counts=True)
    assert set(np.unique(nodes)) <= {1, 2}, "each GPU event once; a copy that outlasts its call in two parts"
    durations = np.bincount(own.row[work], own.weight_ns[work], len(profile.trace))[rows]
    assert (durations == profile.trace.ints("dur_ns")[rows]).all()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_critical_path_is_one_chain_from_the_first_moment_to_the_last(path: Path) -> None:
    profile = warplens.open(path, cache=False)
    if not has_graph(profile.workspace):
        pytest.skip("no launches recorded")
    own = graph(profile)
    lags = plain_lags(own, recording_cost(profile.workspace).per_op_ns)
    times = simulate(own, lag_ns=lags)
    path_of = path_nodes(own, times, lags)
    assert path_of[-1].node == int(np.argmax(times))
    assert [own.source[after.edge] for after in path_of[1:]] == [before.node for before in path_of[:-1]]
    rows = profile.table("critical_path").to_dicts()
    starts, lengths = ([row[name] for row in rows] for name in ("start_ms", "time_us"))
    ends = [start + length / 1e3 for start, length in zip(starts, lengths, strict=True)]
    assert starts[1:] == pytest.approx(ends[:-1]), "without a gap"
    assert sum(row["percent"] for row in rows) == pytest.approx(100, abs=0.01)
    first = path_of[0].node
    assert sum(lengths) / 1e3 == pytest.approx((times.max() - times[first] + own.weight_ns[first]) / 1e6)


def host_bound(count: int = 3) -> list[dict[str, Any]]:
    """Kernels of 10 µs, launched every 100 µs: the GPU waits for the host."""
    return [
        event for at in range(count) for event in (launch(100 * at, 5, at + 1), kernel(GEMM, 100 * at + 8, 10, at + 1))
    ]


def test_a_faster_gpu_wins_next_to_nothing_where_the_host_is_the_limit(opened: Opened) -> None:
    """By the last kernel alone; without ops nothing tells what recording cost."""
    times = bounds_ms(opened(host_bound()))
    assert times["recorded"] == pytest.approx(0.218)
    assert times["plain"] == pytest.approx(0.218)
    assert times["fast GPU"] == pytest.approx(times["plain"] - 0.010)
    assert times["fast host"] == pytest.approx(3 * 0.010)


def test_a_faster_host_wins_next_to_nothing_where_the_gpu_is_the_limit(opened: Opened) -> None:
    """Three kernels of 1 ms, launched within 30 µs, 2 µs between them."""
    events = [launch(10 * at, 5, at + 1) for at in range(3)]
    events += [kernel(GEMM, 8 + 1002 * at, 1000, at + 1) for at in range(3)]
    times = bounds_ms(opened(events))
    assert times["recorded"] == pytest.approx(3.012)
    assert times["fast host"] == pytest.approx(3.0), "neither the first launch nor the pauses take time"
    assert times["fast GPU"] == pytest.approx(0.033, abs=0.01)


def test_a_call_that_waits_returns_after_the_work_launched_before_it(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel(GEMM, 8, 500, 1), launch(20, 500, 2, name="cudaStreamSynchronize"),
        launch(540, 5, 3), kernel(GEMM, 548, 10, 3),
    ]  # fmt: skip
    profile = opened(events)
    assert (GEMM, "sync", "return of cudaStreamSynchronize", 12.0) in edges(profile)
    own = graph(profile)
    waits = own.edge_kind == EDGE_KINDS.index("sync")
    without = simulate(own, lag_ns=np.where(waits, -np.inf, own.lag_ns))
    assert without.max() - without.min() == pytest.approx(508_000 + 1000 + 10_000), (
        "the second kernel follows the first"
    )


def test_a_copy_of_pageable_memory_holds_the_host_up_and_one_of_pinned_memory_does_not(opened: Opened) -> None:
    events = [
        launch(0, 120, 1, name="cudaMemcpyAsync"), memcpy(10, 100, 1, name="Memcpy HtoD (Pageable -> Device)"),
        launch(130, 5, 2, name="cudaMemcpyAsync"), memcpy(140, 100, 2), launch(150, 5, 3), kernel(GEMM, 241, 10, 3),
    ]  # fmt: skip
    kinds = [(source, target) for source, kind, target, _ in edges(opened(events)) if kind == "sync"]
    assert kinds == [("Memcpy HtoD (Pageable -> Device)", "return of cudaMemcpyAsync")]


def test_a_launch_into_a_full_queue_waits_for_the_event_that_makes_room(opened: Opened) -> None:
    events = [launch(0, 5, 1), kernel(GEMM, 8, 400, 1), launch(10, 402, 2), kernel(GEMM, 410, 10, 2)]
    assert (GEMM, "queue", "return of cudaLaunchKernel", 4.0) in edges(opened(events))


def test_a_late_event_waits_for_the_stream_that_ended_just_before_it(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("copy", 8, 300, 1, stream=20), launch(10, 5, 2), kernel(GEMM, 310, 50, 2, stream=7),
    ]  # fmt: skip
    profile = opened(events)
    assert ("copy", "wait", GEMM, 2.0) in edges(profile)
    times = bounds_ms(profile)
    assert times["plain"] - times["no stream waits"] == pytest.approx(0.05, abs=0.005), "both run at once"


@pytest.mark.parametrize(("second_begins", "previous"), [(99.9, "first"), (99, "first"), (40, "zeroth")])
def test_a_kernel_that_begins_just_before_the_last_one_ends_waits_for_it(
    opened: Opened, second_begins: float, previous: str
) -> None:
    """As programmatic dependent launch does; a kernel that begins in the middle of another runs beside it."""
    profile = opened([
        launch(0, 2, 1), launch(3, 2, 2), launch(6, 2, 3),
        kernel("zeroth", 10, 10, 1), kernel("first", 20, 80, 2), kernel("second", second_begins, 101 - second_begins, 3),
    ])  # fmt: skip
    before = [source for source, kind, target, _ in edges(profile) if kind == "stream" and target == "second"]
    assert before == [previous]
    recorded = simulate(graph(profile)) == pytest.approx(graph(profile).recorded_ns)
    assert recorded
    assert bool(graph(profile).unexplained_ns) == (previous != "first")


def test_a_wait_that_nothing_explains_is_kept_and_named(opened: Opened) -> None:
    """The fourth kernel begins 480 µs after its launch instead of 8."""
    profile = opened([*host_bound(3), launch(320, 5, 9), kernel(GEMM, 800, 10, 9)])
    residual = graph(profile).residual_ns
    assert (residual > 0).sum() == 1
    assert residual.max() == pytest.approx(472_000)
    (row,) = [row for row in profile.table("critical_path").to_dicts() if row["kind"] == "unexplained"]
    assert (row["time_us"], row["kernel_category"]) == (pytest.approx(472), "GEMM")
    assert profile.table("bounds").notes[1].startswith("0.47 of 0.81 ms are waits that nothing recorded explains")


def test_a_thread_that_waited_for_another_goes_on_after_it(opened: Opened) -> None:
    """`backward` on thread 1 runs on thread 2; thread 3 works on its own all the time."""
    events = [
        op("forward", 0, 20), launch(5, 5, 1), kernel("f", 13, 5, 1), op("backward", 30, 200),
        op("b", 50, 150, tid=2), launch(60, 5, 2, tid=2), kernel("b1", 68, 5, 2), launch(160, 5, 3, tid=2),
        kernel("b2", 168, 5, 3), op("optimizer", 240, 20), launch(245, 5, 4), kernel("o", 253, 5, 4),
    ]  # fmt: skip
    events += [op("poll", at, 4, tid=3) for at in range(0, 260, 10)]
    events += [
        launch(2, 1, 5, name="cudaEventSynchronize", tid=3),
        launch(252, 1, 6, name="cudaEventSynchronize", tid=3),
    ]
    own = graph(opened(events))
    handovers = np.flatnonzero(own.edge_kind == EDGE_KINDS.index("handover"))
    # Calls begin 5, 60, 160 and 245 µs after the start: 1 → 2 and 2 → 1. The run begins on thread 3, 2 µs before.
    assert own.lag_ns[handovers].tolist() == pytest.approx([2_000, 55_000, 85_000])


def steps_of(lengths: list[float], work_us: float) -> list[dict[str, Any]]:
    """Steps with one kernel each, launched 10 µs after their beginning."""
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        events += [annotation(f"ProfilerStep#{number}", at, length), launch(at + 10, 5, number + 1)]
        events += [kernel(GEMM, at + 18, work_us, number + 1)]
        at += length
    return events


def test_the_time_of_a_step_is_the_usual_one_without_the_first(opened: Opened) -> None:
    own = graph(opened(steps_of([900, 400, 500, 450], work_us=20)))
    assert (own.kind == MARK).sum() == 5
    assert step_ns(own, simulate(own)) == pytest.approx(450_000)


def test_where_the_host_runs_ahead_the_gpu_sets_the_time_of_a_step(opened: Opened) -> None:
    events, at = [], 18.0
    for number in range(4):
        events += [annotation(f"ProfilerStep#{number}", 100 * number, 100), launch(100 * number + 10, 5, number + 1)]
        events += [kernel(GEMM, at, 1000, number + 1)]
        at += 1001
    own = graph(opened(events))
    assert step_ns(own, simulate(own)) == pytest.approx(1_001_000)


def test_of_many_steps_some_stand_for_all(monkeypatch: pytest.MonkeyPatch, opened: Opened) -> None:
    monkeypatch.setattr("warplens.analyses.graph.building.MOST_EVENTS", 4)
    assert usual_steps(opened(steps_of([100] * 10, work_us=20)).trace).tolist() == [1, 2, 3, 4]


@pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")
@pytest.mark.parametrize(("name", "step_ms"), [("S_good", 21.425), ("S_all", 44.094), ("L_sync", 53.185)])
def test_the_host_is_scaled_until_the_simulated_step_takes_its_plain_time(name: str, step_ms: float) -> None:
    profile = warplens.open(WHAT_IF / f"{name}.json.gz", step_ms=step_ms)
    assert bounds_ms(profile)["plain"] == pytest.approx(step_ms, rel=0.01)
    assert "so the simulated step takes the given time" in profile.table("bounds").notes[0]


@pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")
def test_bounds_say_whether_a_faster_host_or_a_faster_gpu_would_help() -> None:
    """S is bound by the host: as a graph its step takes 5.8 ms. L is bound by the GPU."""
    small = bounds_ms(warplens.open(WHAT_IF / "S_good.json.gz", step_ms=21.425))
    assert small["plain"] - small["fast GPU"] < 0.2
    assert small["fast host"] == pytest.approx(5.8, abs=1.0)
    assert small["fast host"] <= 5.8, "a bound"
    profile = warplens.open(WHAT_IF / "L_good.json.gz", step_ms=49.345)
    assert isinstance(profile, warplens.Profile) and profile.bounds is not None
    large = bounds_ms(profile)
    assert large["plain"] - profile.bounds.with_pauses_ms < 0.2
    assert large["plain"] - large["fast host"] < 0.04 * large["plain"], "the pauses between its kernels"
    assert large["fast GPU"] < 0.6 * large["plain"]


def test_a_time_that_no_host_could_reach_is_not_fitted(opened: Opened) -> None:
    own = graph(opened(steps_of([400, 400, 400], work_us=300)))
    assumed = RecordingCost(2_000.0, 1_000.0, 3_000.0, "assumed")
    too_short = fitted_cost(own, assumed, 100_000)
    assert (too_short.per_op_ns, too_short.origin) == (2_000.0, f"assumed; {NOT_DECIDED}")
    longer = fitted_cost(own, assumed, 500_000)
    assert longer.per_op_ns < 0
    assert step_ns(own, simulate(own, lag_ns=plain_lags(own, longer.per_op_ns))) == pytest.approx(500_000, rel=0.01)


def test_without_launches_there_is_no_graph(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 10), kernel(GEMM, 20, 10)])
    for name in ("bounds", "critical_path", "critical_path_sums"):
        table = profile.table(name)
        assert (len(table), table.notes) == (0, ("no GPU event of the trace has a recorded launch",))


@needs_library
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_native_library_simulates_as_python_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(warplens.open(path).workspace)
    scales = np.random.default_rng(5).uniform(0, 2, (1, 6))
    variants = graph.weight_ns[:, None] * scales, graph.lag_ns[:, None] * scales[:, ::-1]
    native = simulate(graph), simulate_many(graph, *variants)
    monkeypatch.setenv("WARPLENS_NATIVE", "0")
    assert (native[0] == simulate(graph)).all()
    assert (native[1] == simulate_many(graph, *variants)).all()


@needs_library
@pytest.mark.parametrize(
    ("first_edge", "source"), [([0, 1, 0], [0]), ([1, 1, 1], [0]), ([0, 0, 1], [2]), ([0, 0, 1], [-1])]
)
def test_the_native_library_refuses_edges_that_lead_outside(first_edge: list[int], source: list[int]) -> None:
    library = native_library.library()
    assert library is not None
    edges = [np.array(column, np.int64) for column in (first_edge, source)]
    lags, weights, times = np.zeros(1), np.ones(2), np.zeros(2)
    addresses = [column.ctypes.data for column in (*edges, lags, weights, times)]
    assert not library.wl_simulate(*addresses[:2], 2, *addresses[2:4], 1, addresses[4])
    assert times.tolist() == [0, 0]
