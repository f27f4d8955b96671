"""What recording costs the host, estimated from the ops of a trace, and what a known step time says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import warplens
from support import annotation, kernel, launch, op
from warplens.analyses.graph.bounds import STEPS_DRIFT
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.host_gauge import LONGEST_NESTED_NS, MOST_PAUSES, nested_op_ns, pauses
from warplens.analyses.graph.recording_cost import (
    AS_RECORDED,
    ESTIMATED,
    PER_NESTED_OP,
    USUAL,
    USUAL_NESTED_NS,
    RecordingCost,
    fitted_cost,
    plain_lags,
    recording_cost,
)
from warplens.analyses.graph.simulating import simulate, step_ns

Opened = Callable[..., warplens.Profile]


def nested(at: float, own_us: float, name: str = "aten::t") -> list[dict[str, Any]]:
    """An op of which all but this is the op that it calls."""
    return [op(name, at, 2 + own_us), op("aten::view", at + own_us / 2, 2)]


def stepping(count: int, host_us: float, gpu_us: float) -> list[dict[str, Any]]:
    """Steps of one kernel each, in which the host records 100 nested ops, of 1 µs each, then launches."""
    events = []
    for number in range(count):
        at = host_us * number
        events += [annotation(f"ProfilerStep#{number}", at, host_us), launch(at + host_us - 10, 5, number + 1)]
        events += [kernel("gemm", max(at + host_us - 2, host_us - 2 + number * gpu_us), gpu_us, number + 1)]
        events += [event for place in range(100) for event in nested(at + 10 * place, 1)]
    return events


def simulated_ms(profile: warplens.Profile, per_op_ns: float) -> float:
    own = graph_of(profile.workspace)
    return step_ns(own, simulate(own, lag_ns=plain_lags(own, per_op_ns))) / 1e6


def test_the_gauge_is_the_mean_of_the_shorter_half_of_what_ops_take_beyond_the_one_they_call(opened: Opened) -> None:
    events = [event for number, own in enumerate((1, 2, 30, 40)) for event in nested(100 * number, own)]
    # Two callees, a call of the runtime and none: such ops do something themselves.
    events += [op("two", 500, 9), op("a", 501, 1), op("b", 503, 1), op("launches", 600, 9), launch(601, 5, 1)]
    assert nested_op_ns(opened(events).trace) == pytest.approx(1_500)
    assert nested_op_ns(opened(nested(0, 50)).trace) == LONGEST_NESTED_NS
    assert nested_op_ns(opened([op("alone", 0, 5)]).trace) == 0.0


def test_pauses_are_what_ops_take_more_than_usual_for_their_names_without_what_they_call(opened: Opened) -> None:
    steady = [op("aten::add", 100 * number, 10) for number in range(9)]
    waiting = [op("aten::item", 1000, 5000), launch(1001, 4995, 1, name="cudaStreamSynchronize")]
    assert pauses(opened([*steady, *waiting, op("aten::add", 7000, 10)]).trace) == 1.0
    assert pauses(opened([*steady, op("aten::add", 7000, 60)]).trace) == pytest.approx(1.5)
    assert pauses(opened([*steady, op("aten::add", 7000, 9000)]).trace) == MOST_PAUSES
    assert pauses(opened([op("aten::add", 0, 10), op("aten::add", 100, 90)]).trace) == 1.0, "too few to say"


def test_the_cost_follows_the_gauge_and_pauses_widen_it_upwards(opened: Opened) -> None:
    steady = stepping(3, host_us=2000, gpu_us=20)
    paused = [*steady, *[op("aten::add", 1100 + 20 * n, 10) for n in range(20)], op("aten::add", 3500, 400)]
    expected, low, high = PER_NESTED_OP
    assert recording_cost(opened(steady).workspace) == pytest.approx((1e3 * expected, 1e3 * low, 1e3 * high, ESTIMATED))
    slower = opened(paused)
    times = pauses(slower.trace)
    assert times > 1.1
    assert recording_cost(slower.workspace)[:3] == pytest.approx(
        (1e3 * expected * times, 1e3 * low * times, 1e3 * high * times**2)
    )


def test_without_nested_ops_the_cost_is_the_usual_one_or_none_at_all(opened: Opened) -> None:
    cost = recording_cost(opened([op("alone", 0, 5), launch(1, 3, 1), kernel("gemm", 10, 5, 1)]).workspace)
    expected, _, high = PER_NESTED_OP
    assert cost == (expected * USUAL_NESTED_NS, 0.0, high * USUAL_NESTED_NS, USUAL)
    nothing = recording_cost(opened([launch(1, 0, 1), kernel("gemm", 10, 5, 1)]).workspace)
    assert nothing == (0.0, 0.0, 0.0, AS_RECORDED)


def test_the_interval_of_the_step_is_that_of_the_cost_and_of_steps_that_drift(opened: Opened) -> None:
    profile = opened(stepping(4, host_us=2000, gpu_us=20))
    step, cost = profile.plain_step, recording_cost(profile.workspace)
    assert step is not None
    assert step.low_ms == pytest.approx((1 - STEPS_DRIFT) * simulated_ms(profile, cost.high_ns))
    assert step.high_ms == pytest.approx((1 + STEPS_DRIFT) * simulated_ms(profile, cost.low_ns))
    bounds = profile.bounds
    assert bounds is not None
    widths = bounds.fast_host_saves.high_ms - bounds.fast_host_saves.low_ms
    assert widths == pytest.approx(simulated_ms(profile, cost.low_ns) - simulated_ms(profile, cost.high_ns))


ASSUMED = RecordingCost(2_000.0, 1_000.0, 4_000.0, "assumed")


def test_where_the_host_decides_a_known_step_bounds_the_cost_from_both_sides(opened: Opened) -> None:
    profile = opened(stepping(4, host_us=2000, gpu_us=20))
    own = graph_of(profile.workspace)
    known_ms = simulated_ms(profile, 1_500)
    cost = fitted_cost(own, ASSUMED, 1e6 * known_ms)
    assert cost.per_op_ns == pytest.approx(1_500, rel=0.05)
    assert simulated_ms(profile, cost.low_ns) == pytest.approx(1.05 * known_ms, rel=0.01)
    assert simulated_ms(profile, cost.high_ns) == pytest.approx(0.95 * known_ms, rel=0.01)


def test_where_the_gpu_explains_the_step_it_bounds_the_cost_from_below_only(opened: Opened) -> None:
    """The GPU takes 1.7 ms. The host would, too, at 1,500 ns an op; a faster one would not be seen."""
    profile = opened(stepping(4, host_us=2000, gpu_us=1700))
    own = graph_of(profile.workspace)
    cost = fitted_cost(own, ASSUMED, 1e6 * simulated_ms(profile, 3_000))
    assert cost.high_ns == ASSUMED.high_ns
    assert simulated_ms(profile, cost.low_ns) == pytest.approx(1.05 * 1.7, rel=0.01)
    assert cost.low_ns <= cost.per_op_ns <= cost.high_ns


def test_costs_that_fit_no_estimate_are_those_of_the_known_step(opened: Opened) -> None:
    """The host must be faster than the estimate says; how much is left open where the GPU explains the step."""
    profile = opened(stepping(4, host_us=2000, gpu_us=1000))
    too_slow = RecordingCost(200.0, 100.0, 400.0, "assumed")
    cost = fitted_cost(graph_of(profile.workspace), too_slow, 1e6 * simulated_ms(profile, 8_000))
    assert cost.low_ns > too_slow.high_ns
    assert math.isfinite(cost.high_ns) and cost.low_ns <= cost.per_op_ns <= cost.high_ns


def test_gains_have_the_range_of_all_costs_that_fit(opened: Opened) -> None:
    """Host and GPU take equally long: what a faster GPU saves depends on how fast the host is, which the step hides."""
    profile = opened(stepping(4, host_us=2000, gpu_us=1700), step_ms=1.7)
    bounds = profile.bounds
    assert bounds is not None
    assert bounds.fast_gpu_saves.low_ms == pytest.approx(0.0, abs=0.1)
    assert bounds.fast_gpu_saves.high_ms > bounds.fast_gpu_saves.low_ms + 0.1
