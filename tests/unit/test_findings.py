"""Findings: each code fires where it should, is silent just below its threshold, and claims no more than is there."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, frame, kernel, launch, memcpy, op
from warplens.advice import EXPLAIN, THRESHOLDS, explain

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"
NAMELESS = "zzqx_v7"


def found(profile: warplens.Profile) -> dict[str, dict[str, Any]]:
    return {row["code"]: row for row in profile.table("findings").to_dicts()}


def busy_then_idle(busy: float, idle: float) -> list[dict[str, Any]]:
    """A product, a wait in which the host prepares, and a product of 100 µs."""
    end = busy + idle
    return [
        frame("train.py(4): loop", 0, end + 200),
        op("aten::mm", 0, 5),
        launch(1, 1, 1),
        kernel(GEMM, 10, busy, 1),
        op("aten::mm", 10, end),
        launch(end + 5, 1, 2),
        kernel(GEMM, 10 + end, 100, 2),
    ]


def test_wl101_fires_from_a_tenth_of_idle_time_on(opened: Opened) -> None:
    assert "WL101" not in found(opened(busy_then_idle(800.001, 99.999)))
    finding = found(opened(busy_then_idle(800, 100)))["WL101"]
    assert finding["gain_percent"] == pytest.approx(10.0)
    assert finding["gain_ms"] == pytest.approx(0.1)
    assert finding["bound"] is True
    assert finding["title"] == "GPU idle 10.0 % of the time, mostly: host busy"
    assert finding["place"] == "train.py(4): loop"
    assert finding["evidence"] == "host busy 100 %; 100 % of it under this place"


def test_wl101_names_the_three_largest_causes(opened: Opened) -> None:
    """Gaps of 40, 30, 20 and 10 µs: no launch, queued in time, in the launch call, prepared too late."""
    events = [
        op("aten::mm", 0, 200),
        launch(2, 1, 2),
        launch(80, 30, 3),
        launch(125, 1, 4),
        kernel(GEMM, 0, 10),
        kernel(GEMM, 50, 5),
        kernel(GEMM, 85, 5, 2),
        kernel(GEMM, 110, 5, 3),
        kernel(GEMM, 125, 5, 4),
    ]
    evidence = found(opened(events))["WL101"]["evidence"]
    assert evidence.startswith("unknown 40 %, dependency 30 %, launch call 20 %")


def test_gains_are_per_step_where_steps_are_marked(opened: Opened) -> None:
    steps = [annotation(f"ProfilerStep#{number}", 250 * number, 250) for number in range(4)]
    finding = found(opened([*steps, *busy_then_idle(500, 400)]))["WL101"]
    assert finding["gain_ms"] == pytest.approx(0.4 / 4)
    assert finding["gain_percent"] == pytest.approx(40.0)


def test_wl101_and_the_verdict_hold_where_gpus_take_turns_without_a_gap_of_their_own(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 10, device=0), kernel(GEMM, 50, 10, device=1)])
    assert len(profile.table("idle")) == 0
    assert found(profile)["WL101"]["gain_ms"] == pytest.approx(0.040)
    assert "66.7 %" in profile.verdict()


def graph(share_us: float) -> list[dict[str, Any]]:
    """A graph with this much GPU time beside 100 µs outside."""
    inside = [kernel(GEMM, 100, share_us * 3 / 4, 9), kernel(ALL_REDUCE, 100 + share_us * 3 / 4, share_us / 4, 9)]
    return [
        launch(0, 2, 9, name="cudaGraphLaunch"),
        *inside,
        op("aten::mm", 10, 5),
        launch(11, 1, 1),
        kernel(GEMM, 0, 100, 1),
    ]


def test_wl102_fires_when_graphs_hold_half_of_the_gpu_time(opened: Opened) -> None:
    assert "WL102" not in found(opened(graph(96)))
    finding = found(opened(graph(300)))["WL102"]
    assert finding["title"] == "75 % of GPU time is inside graph launches; GEMM dominates them (75 %)"
    assert (finding["place"], finding["evidence"]) == ("cudaGraphLaunch", "2 kernels in graphs")
    assert (finding["gain_ms"], finding["bound"]) == (0.0, False)


def test_wl103_fires_above_one_percent_of_unknown_kernels(opened: Opened) -> None:
    assert "WL103" not in found(opened([kernel(GEMM, 0, 990), kernel(NAMELESS, 990, 10)]))
    finding = found(opened([kernel(GEMM, 0, 980), kernel(NAMELESS, 980, 20)]))["WL103"]
    assert finding["title"].startswith("2.0 % of GPU time")
    assert finding["place"] == NAMELESS
    assert finding["evidence"] == "1 kernel names, 1 launches"


def test_wl103_is_silent_once_a_rule_names_the_kernel(opened: Opened) -> None:
    events = [kernel(GEMM, 0, 980), kernel(NAMELESS, 980, 20)]
    assert "WL103" not in found(opened(events, rules=[warplens.Rule("Mine", contains="zzqx")]))


def short_launches(dur: float, period: float) -> list[dict[str, Any]]:
    """Twenty kernels of equal length, each launched when the one before is over."""
    events = [op("aten::mul", 0, 20 * period)]
    for number in range(20):
        ts = period * number
        events += [launch(ts + period - 3, 1, number + 1), kernel("elementwise_kernel", ts + period, dur, number + 1)]
    return events


def test_wl104_fires_when_most_events_are_short_and_the_gpu_waits_for_launches(opened: Opened) -> None:
    """19 waits of 45 µs in the 955 µs from the first start to the last end."""
    finding = found(opened(short_launches(5, 50)))["WL104"]
    assert finding["gain_ms"] == pytest.approx(19 * 0.045)
    assert finding["gain_percent"] == pytest.approx(100 * 19 * 45 / 955)
    assert (finding["bound"], finding["place"], finding["evidence"]) == (True, "aten::mul", "20 of 20 GPU events")


def test_wl104_is_silent_when_events_are_long_or_the_gpu_does_not_wait(opened: Opened) -> None:
    assert "WL104" not in found(opened(short_launches(10, 50)))
    assert "WL104" not in found(
        opened([op("aten::mul", 0, 9), *(kernel("elementwise_kernel", 5 * number, 5) for number in range(20))])
    )


def test_wl104_claims_no_more_than_the_idle_time(opened: Opened) -> None:
    findings = found(opened(short_launches(5, 50)))
    assert findings["WL104"]["gain_ms"] <= findings["WL101"]["gain_ms"]


def exposing(event: dict[str, Any], computed: float) -> list[dict[str, Any]]:
    return [kernel(GEMM, 0, computed), {**event, "ts": computed}]


def test_wl105_fires_when_a_tenth_is_communication_that_nothing_hides(opened: Opened) -> None:
    assert "WL105" not in found(opened(exposing(kernel(ALL_REDUCE, 0, 9.9, stream=20), 90.1)))
    finding = found(opened(exposing(kernel(ALL_REDUCE, 0, 20, stream=20), 80)))["WL105"]
    assert finding["gain_ms"] == pytest.approx(0.020)
    assert (finding["gain_percent"], finding["bound"]) == (pytest.approx(20.0), True)
    assert finding["evidence"] == "0.02 of 0.10 ms"


def test_wl105_is_silent_when_computation_hides_the_communication(opened: Opened) -> None:
    assert "WL105" not in found(opened([kernel(GEMM, 0, 100), kernel(ALL_REDUCE, 10, 50, stream=20)]))


def test_wl106_fires_when_a_twentieth_is_copies_that_nothing_hides(opened: Opened) -> None:
    assert "WL106" not in found(opened(exposing(memcpy(0, 4.9, stream=20), 95.1)))
    events = [op("aten::to", 0, 9), launch(1, 1, 3, name="cudaMemcpyAsync")]
    finding = found(opened([*events, *exposing(memcpy(0, 10, 3, stream=20), 90)]))["WL106"]
    assert finding["gain_ms"] == pytest.approx(0.010)
    assert (finding["gain_percent"], finding["bound"], finding["place"]) == (pytest.approx(10.0), True, "aten::to")


def test_wl106_is_silent_when_other_work_hides_the_copies(opened: Opened) -> None:
    assert "WL106" not in found(opened([kernel(GEMM, 0, 100), memcpy(10, 50, stream=20)]))


def test_findings_come_with_the_largest_gain_first(opened: Opened) -> None:
    gains = [row["gain_ms"] for row in opened(short_launches(5, 50)).table("findings").to_dicts()]
    assert len(gains) > 1
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("code", EXPLAIN)
def test_every_code_has_an_explanation_with_its_threshold_filled_in(code: str) -> None:
    assert "{" not in explain(code)
    assert any(f"{value:g} %" in explain(code) for value in THRESHOLDS.values())


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        (busy_then_idle(500, 600), "Host-bound: the GPU is idle 50.0 % of the time, mostly because the host is still preparing the next launch."),
        ([kernel(GEMM, 0, 0)], "No GPU time: every GPU event of this trace lasts 0 ns."),
        ([op("aten::mm", 0, 5)], "CPU only: this trace holds no GPU work."),
        ([kernel(GEMM, 0, 60), kernel(ALL_REDUCE, 60, 40)], "Communication-bound: 40.0 % of the time is communication that nothing hides."),
        ([kernel(GEMM, 0, 90), kernel("elementwise_kernel", 100, 10)], "GPU-bound: the GPU is busy 90.9 % of the time; GEMM takes 90 % of the GPU time."),
    ],
    ids=["host", "no durations", "no gpu", "communication", "gpu"],
)  # fmt: skip
def test_the_verdict_names_what_bounds_the_run(opened: Opened, events: list[dict[str, Any]], sentence: str) -> None:
    assert opened(events).verdict() == sentence


def test_a_gain_counts_only_what_lies_inside_the_steps(opened: Opened) -> None:
    """100 µs idle before the first step's first kernel, 40 in the step: the step can win 40."""
    events = [
        annotation("ProfilerStep#1", 200, 100),
        op("aten::mm", 200, 50),
        launch(210, 1, 1),
        launch(220, 1, 2),
        kernel(GEMM, 0, 110),
        kernel(GEMM, 210, 50, 1),
        kernel(GEMM, 300, 10, 2),
    ]
    finding = found(opened(events))["WL101"]
    assert finding["gain_ms"] == pytest.approx(0.040)
    assert finding["gain_percent"] == pytest.approx(40.0)


def test_wl107_names_the_place_of_a_few_long_gaps(opened: Opened) -> None:
    events = [op("aten::mm", 0, 10), op("aten::attention", 10, 5000), launch(1, 1, 1), launch(5005, 1, 2)]
    profile = opened([*events, kernel(GEMM, 5, 1000, 1), kernel("flash_fwd_kernel", 5006, 1000, 2)])
    finding = found(profile)["WL107"]
    assert finding["place"] == "aten::attention"
    assert finding["title"] == "100 % of the idle time is 1 gap of over 1 ms in one place"
    assert finding["gain_ms"] == pytest.approx(4.001)


def test_wl104_does_not_count_gaps_that_no_launch_explains(opened: Opened) -> None:
    events = [op("aten::mul", 0, 10_000), launch(1, 1, 1), launch(5005, 1, 2)]
    profile = opened([*events, kernel("mul_kernel", 5, 5, 1), kernel("mul_kernel", 5006, 5, 2)])
    assert "WL104" not in found(profile)
    assert "WL101" in found(profile)
