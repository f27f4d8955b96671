"""What recording costs the host, estimated from the ops of a trace, and what a known step time says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warplens
from support import annotation, frame, kernel, launch, op
from warplens.analyses.graph.bounds import STEPS_DRIFT
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.recorded_load import FRAME_NS, RecordedLoad
from warplens.analyses.graph.recording_cost import (
    AS_RECORDED,
    USUAL_SHARE,
    RecordingCost,
    fitted_cost,
    plain_lags,
    recording_cost,
)
from warplens.analyses.graph.simulating import simulate, step_ns

Opened = Callable[..., warplens.Profile]


def stepping(count: int, host_us: float, gpu_us: float) -> list[dict[str, Any]]:
    """Steps of one kernel each, in which the host records 100 ops of 12 µs each, then launches."""
    events = []
    for number in range(count):
        at = host_us * number
        events += [annotation(f"ProfilerStep#{number}", at, host_us), launch(at + host_us - 10, 5, number + 1)]
        events += [kernel("gemm", max(at + host_us - 2, host_us - 2 + number * gpu_us), gpu_us, number + 1)]
        events += [op("aten::add", at + 15 * place, 12) for place in range(100)]
    return events


def simulated_ms(profile: warplens.Profile, share: float) -> float:
    own = graph_of(profile.workspace)
    return step_ns(own, simulate(own, lag_ns=plain_lags(own, share))) / 1e6


def load_us(profile: warplens.Profile, begin_us: float, end_us: float) -> float:
    """Of the thread that the ops of these tests run on."""
    (lane,) = set(profile.trace.ints("lane")[profile.trace.rows_of("op")].tolist())
    ranges = (np.array([value], np.int64) for value in (lane, 1e3 * begin_us, 1e3 * end_us))
    return float(RecordedLoad(profile.trace).between(*ranges)[0]) / 1e3


def test_the_cost_is_a_share_of_the_time_inside_ops_however_they_nest(opened: Opened) -> None:
    profile = opened(
        [op("outer", 0, 40), op("inner", 10, 20), op("innermost", 12, 4), op("next", 60, 10), launch(80, 9, 1)]
    )
    assert load_us(profile, 0, 100) == pytest.approx(50), "40 and 10: each moment once, calls outside of ops not"
    assert load_us(profile, 5, 15) == pytest.approx(10)
    assert load_us(profile, 35, 65) == pytest.approx(10)
    assert load_us(profile, 42, 58) == 0


def test_frames_cost_time_of_their_own(opened: Opened) -> None:
    events = [frame("model.py(1): forward", 0, 100), frame("model.py(2): block", 10, 50), op("aten::mm", 20, 10)]
    assert load_us(opened(events), 0, 100) == pytest.approx(10 + 2 * FRAME_NS / 1e3, abs=0.01)
    assert load_us(opened(events), 5, 100) == pytest.approx(10 + FRAME_NS / 1e3, abs=0.01)


def test_what_ops_compute_is_no_overhead_but_what_they_call_is(opened: Opened) -> None:
    """A convolution on the CPU and a loader of data take their time themselves; an op that was stopped once does not."""
    loading = [op("enumerate(DataLoader)", 0, 900), op("aten::stack", 100, 20)]
    assert load_us(opened([*loading, op("aten::add", 2000, 10)]), 0, 3000) == pytest.approx(30)
    adding = [op("aten::add", 1000 * number, 900 if number == 3 else 10) for number in range(5)]
    assert load_us(opened(adding), 0, 5000) == pytest.approx(940)
    launching = [op("aten::_foreach_add_", 0, 200), *(launch(5 + 10 * number, 5, number) for number in range(9))]
    assert load_us(opened(launching), 0, 300) == pytest.approx(200), "22 µs for each launch"


def test_without_ops_the_calls_are_what_is_recorded(opened: Opened) -> None:
    profile = opened([launch(10, 5, 1), kernel("gemm", 30, 5, 1)])
    lane = profile.trace.ints("lane")[profile.trace.runtime_rows].astype(np.int64)
    load = RecordedLoad(profile.trace).between(lane, np.array([0]), np.array([100_000]))
    assert load.tolist() == [5_000.0]
    assert recording_cost(profile.workspace) == (0.0, 0.0, 0.0, AS_RECORDED)


def test_without_a_known_step_the_cost_is_the_usual_share(opened: Opened) -> None:
    assert recording_cost(opened(stepping(3, host_us=2000, gpu_us=20)).workspace) == USUAL_SHARE


def test_the_interval_of_the_step_is_that_of_the_cost_and_of_steps_that_drift(opened: Opened) -> None:
    profile = opened(stepping(4, host_us=2000, gpu_us=20))
    step, cost = profile.plain_step, recording_cost(profile.workspace)
    assert step is not None
    assert step.low_ms == pytest.approx((1 - STEPS_DRIFT) * simulated_ms(profile, cost.high))
    assert step.high_ms == pytest.approx((1 + STEPS_DRIFT) * simulated_ms(profile, cost.low))
    bounds = profile.bounds
    assert bounds is not None
    widths = bounds.fast_host_saves.high_ms - bounds.fast_host_saves.low_ms
    assert widths == pytest.approx(simulated_ms(profile, cost.low) - simulated_ms(profile, cost.high))


ASSUMED = RecordingCost(0.4, 0.1, 0.7, "assumed")


def test_where_the_host_decides_a_known_step_bounds_the_cost_from_both_sides(opened: Opened) -> None:
    profile = opened(stepping(4, host_us=2000, gpu_us=20))
    own = graph_of(profile.workspace)
    known_ms = simulated_ms(profile, 0.5)
    cost = fitted_cost(own, ASSUMED, 1e6 * known_ms)
    assert cost.share == pytest.approx(0.5, rel=0.05)
    assert simulated_ms(profile, cost.low) == pytest.approx(1.05 * known_ms, rel=0.01)
    assert simulated_ms(profile, cost.high) == pytest.approx(0.95 * known_ms, rel=0.01)


def test_where_the_gpu_explains_the_step_it_bounds_the_cost_from_below_only(opened: Opened) -> None:
    """The GPU takes 1.7 ms. The host would, too, at a quarter of its time in ops; a faster one would not be seen."""
    profile = opened(stepping(4, host_us=2000, gpu_us=1700))
    own = graph_of(profile.workspace)
    cost = fitted_cost(own, ASSUMED, 1e6 * simulated_ms(profile, 0.5))
    assert cost.high == ASSUMED.high
    assert simulated_ms(profile, cost.low) == pytest.approx(1.05 * 1.7, rel=0.01)
    assert cost.low <= cost.share <= cost.high


def test_costs_that_fit_no_estimate_are_those_of_the_known_step(opened: Opened) -> None:
    """The host must be faster than the estimate says; how much is left open where the GPU explains the step."""
    profile = opened(stepping(4, host_us=2000, gpu_us=1000))
    too_slow = RecordingCost(0.05, 0.03, 0.08, "assumed")
    cost = fitted_cost(graph_of(profile.workspace), too_slow, 1e6 * simulated_ms(profile, 0.6))
    assert cost.low > too_slow.high
    assert math.isfinite(cost.high) and cost.low <= cost.share <= cost.high


def test_gains_have_the_range_of_all_costs_that_fit(opened: Opened) -> None:
    """Host and GPU take equally long: what a faster GPU saves depends on how fast the host is, which the step hides."""
    profile = opened(stepping(4, host_us=2300, gpu_us=1700), step_ms=1.7)
    bounds = profile.bounds
    assert bounds is not None
    assert bounds.fast_gpu_saves.low_ms == pytest.approx(0.0, abs=0.1)
    assert bounds.fast_gpu_saves.high_ms > bounds.fast_gpu_saves.low_ms + 0.1
