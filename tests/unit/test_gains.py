"""Gains of findings as time of the step: the step is simulated with the change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import warplens
from finding_traces import ELEMENTWISE, GEMM, H200, rule_findings
from support import ROOT, SHARED, Opened, annotation, kernel, launch, op
from warplens.advice.gains import with_step_gains, within_bounds
from warplens.analyses.graph.subsets import subset_steps_ms
from warplens.analyses.graph.what_if import best_first
from warplens.model.clock import Clock
from warplens.model.edits import (
    CaptureGraph,
    FuseWork,
    RemoveHostTime,
    RemoveWaits,
    ReplaceWork,
    ScaleWork,
    StepChange,
    WorkOfRows,
)
from warplens.model.finding import Finding, gain_text, ranked

WHAT_IF = SHARED / "traces" / "whatif"
PLAIN_MS = {
    "S_good": 21.425, "S_vocab": 21.13, "S_attention": 26.781, "S_optimizer": 34.303, "S_sync": 21.888,
    "L_good": 49.345, "L_vocab": 75.567, "L_attention": 118.198, "L_sync": 53.185, "L_all": 164.958,
}  # fmt: skip
"""Steps of a small GPT on an H200 without a profiler: bound by the host (S) and by the GPU (L), each with a fault."""
needs_traces = pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")


def recorded(name: str) -> warplens.Profile:
    profile = warplens.open(WHAT_IF / f"{name}.json.gz", step_ms=PLAIN_MS[name])
    assert isinstance(profile, warplens.Profile)
    return profile


def the(code: str, findings: list[Finding]) -> Finding:
    (finding,) = [finding for finding in findings if finding.code == code]
    return finding


@needs_traces
@pytest.mark.parametrize(("fault", "code", "within_ms"), [
    ("S_vocab", "WL201", 0.3), ("S_attention", "WL204", 1.5), ("S_optimizer", "WL208", 1.55), ("S_sync", "WL301", 1.0),
    ("L_vocab", "WL201", 3.1), ("L_attention", "WL204", 8.3), ("L_sync", "WL301", 1.0),
])  # fmt: skip
def test_a_gain_is_what_the_repaired_program_wins(fault: str, code: str, within_ms: float) -> None:
    won_ms = PLAIN_MS[fault] - PLAIN_MS[f"{fault[0]}_good"]
    profile = recorded(fault)
    finding = the(code, profile.findings())
    assert profile.step_model is not None
    assert profile.step_model.gain(finding.edits).gain_ms == pytest.approx(won_ms, abs=within_ms)
    assert finding.gain_low_ms <= finding.gain_ms <= finding.gain_high_ms
    assert not finding.bound or won_ms <= finding.gain_ms


@needs_traces
def test_faults_that_are_mended_together_win_what_the_program_without_them_wins() -> None:
    profile = recorded("L_all")
    codes = ("WL201", "WL204", "WL208", "WL301")
    edits = [edit for finding in profile.findings() if finding.code in codes for edit in finding.edits]
    assert profile.step_model is not None
    assert profile.step_model.gain(edits).gain_ms == pytest.approx(PLAIN_MS["L_all"] - PLAIN_MS["L_good"], rel=0.12)


@needs_traces
def test_gpu_time_that_the_step_does_not_wait_for_is_listed_apart() -> None:
    findings = recorded("S_vocab").findings()
    vocabulary = the("WL201", findings)
    assert vocabulary.saves_only_gpu_time
    assert (vocabulary.gain_ms, vocabulary.gpu_gain_ms) == (pytest.approx(0, abs=0.01), pytest.approx(0.84, abs=0.05))
    assert findings[-1] is vocabulary
    assert not the("WL104", findings).saves_only_gpu_time


def products(every_us: float) -> list[dict[str, Any]]:
    """Four steps with a product of 100 µs each, launched every so often."""
    events, at = [], 0.0
    for number in range(4):
        events += [annotation(f"ProfilerStep#{number}", at, every_us), op("aten::mm", at + 1, 20)]
        events += [launch(at + 10, 5, number + 1), kernel(GEMM, at + 18, 100, number + 1)]
        at += every_us
    return events


def test_launches_that_the_gpu_waits_for_are_captured_as_a_graph(opened: Opened) -> None:
    assert the("WL101", opened(products(every_us=500), H200).findings()).edits == (CaptureGraph(),)


@pytest.mark.parametrize(("every_us", "least_ms", "most_ms"), [(500, -1e-6, 1e-6), (101, 0.010, 0.012)])
def test_faster_kernels_win_only_where_the_gpu_is_the_limit(
    every_us: float, least_ms: float, most_ms: float, opened: Opened
) -> None:
    """Of 101 µs the host takes 90 without what recording an op of 20 µs usually costs."""
    model = opened(products(every_us), H200).step_model
    assert model is not None
    assert least_ms <= model.gain([ScaleWork(WorkOfRows("kernels", (0,)), 0.5)]).gain_ms <= most_ms


def test_many_launches_become_a_few_with_a_share_of_their_time(opened: Opened) -> None:
    """Ten launches of 2 µs in 100 µs of the host become one."""
    events = [annotation("ProfilerStep#0", 0, 200), annotation("ProfilerStep#1", 200, 200)]
    for step in range(2):
        for at in range(10):
            number = 10 * step + at + 1
            events += [
                launch(200 * step + 10 * at + 50, 3, number),
                kernel(ELEMENTWISE, 200 * step + 10 * at + 58, 2, number),
            ]
    model = opened(events).step_model
    assert model is not None
    gain = model.gain([ReplaceWork(WorkOfRows("kernels", (0,)), 0.5, 1)])
    assert gain.gain_ms == pytest.approx(0.090, abs=0.002), "of nine launches the host's time"


def launched_ahead(host_us: float) -> list[dict[str, Any]]:
    """Four steps of three products of 100 µs, each launched so long after the last one, and an elementwise kernel."""
    events = []
    for step in range(4):
        begin, number = 4 * host_us * step, 4 * step + 1
        events.append(annotation(f"ProfilerStep#{step}", begin, 4 * host_us))
        for place in range(4):
            name, dur = (GEMM, 100) if place < 3 else (ELEMENTWISE, 5)
            called = begin + host_us * place
            events.append(launch(called + 1, 2, number + place))
            events.append(kernel(name, max(called + 8, 305 * step + 100 * place + 20), dur, number + place))
    return events


def test_a_kernel_in_the_place_of_others_does_not_profit_from_what_makes_those_faster(opened: Opened) -> None:
    """Three products of 100 µs a step, as one of 0.8 of their time or in 0.1 of it each; in either order."""
    model = opened(launched_ahead(host_us=3), H200).step_model
    assert model is not None
    products = WorkOfRows("kernels", (0,))
    faster, fused = ScaleWork(products, 0.1), FuseWork(products, 0.8)
    alone_ms, scaled_ms = model.gain([fused]).step_ms, model.gain([faster]).step_ms
    assert (alone_ms, scaled_ms) == (pytest.approx(0.246, abs=0.003), pytest.approx(0.037, abs=0.003))
    assert model.gain([faster, fused]).step_ms == model.gain([fused, faster]).step_ms == pytest.approx(alone_ms)
    changes = [StepChange("faster", (faster,)), StepChange("fused", (fused,))]
    together = best_first(model, changes)
    assert [row["fixes"] for row in together.to_dicts()] == ["", "faster"]
    assert "fused would win nothing besides" in together.notes[0]
    assert subset_steps_ms(model, changes)[3] == pytest.approx(alone_ms)


@pytest.mark.parametrize(("calls", "launches"), [(1, 2), (2, 3), (9, 4)])
def test_a_call_in_the_place_of_others_takes_the_host_as_long_as_some_of_them(
    opened: Opened, calls: int, launches: int
) -> None:
    model = opened(launched_ahead(host_us=400), H200).step_model
    assert model is not None
    host_ms = model.step_ms / 4
    fused = model.gain([FuseWork(WorkOfRows("kernels", (0,)), 0.0, calls)])
    assert fused.step_ms == pytest.approx(launches * host_ms, rel=0.02)


def test_a_wait_of_the_host_is_won_where_the_gpu_then_runs_on(opened: Opened) -> None:
    """The host waits for 300 µs, then takes 100 µs to launch the next 300 µs of work."""
    events, at = [], 0.0
    for step in range(3):
        events += [annotation(f"ProfilerStep#{step}", at, 420), launch(at + 100, 5, step + 1)]
        events += [kernel(GEMM, at + 108, 300, step + 1)]
        events += [launch(at + 110, 305, step + 11, name="cudaStreamSynchronize")]
        at += 420
    profile = opened(events)
    assert profile.step_model is not None
    gain = profile.step_model.gain([RemoveWaits()])
    assert gain.step_ms == pytest.approx(0.301, abs=0.002)
    assert gain.gain_ms == pytest.approx(profile.step_model.step_ms - gain.step_ms)


def test_without_launches_a_gain_stays_what_the_tables_say(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 100), kernel(GEMM, 300, 100)])
    assert [finding.gain_ms for finding in profile.findings()] == [
        finding.gain_ms for finding in rule_findings(profile)
    ]


def test_a_gain_that_is_not_simulated_is_as_sure_as_its_rule() -> None:
    found = Finding(code="WL202", title="x", gain_ms=10.0, gain_high_ms=10.0, gpu_gain_ms=10.0, evidence="", advice="")
    (finding,) = with_step_gains([found], None)
    assert (finding.gain_low_ms, finding.gain_high_ms) == (8.0, 12.0)
    (bound,) = with_step_gains([replace(found, bound=True)], None)
    assert (bound.gain_low_ms, bound.gain_high_ms) == (0.0, 10.0)
    assert (gain_text(finding), gain_text(bound)) == ("10.0 ms (8.0 to 12.0)", "≤ 10.0 ms")
    only_gpu = replace(found, gain_ms=0.0)
    only_gpu = replace(only_gpu, gain_high_ms=0.0)
    assert gain_text(only_gpu) == "no gain in step time (GPU-side 10.00 ms)"
    assert repr(finding) == "<Finding WL202: x · 10.0 ms (8.0 to 12.0)>"


def test_no_gain_of_a_graph_exceeds_what_a_host_without_time_and_latency_would_save() -> None:
    profile = warplens.open(ROOT / "samples" / "faults" / "launch_bound.before.json.gz", cache=False)
    answer = profile.answer()
    (finding,) = [finding for finding in answer.findings if finding.code == "WL104"]
    (host,) = [saving.at_most_ms for saving in answer.savings if saving.of == "host"]
    assert finding.high_ms is not None and finding.gain_ms <= finding.high_ms <= host


def test_the_bound_of_a_graph_holds_for_kernels_without_a_pause(opened: Opened) -> None:
    """Four steps of ten kernels of 2 µs, each launched 50 µs after the last one."""
    events: list[dict[str, Any]] = []
    for number in range(40):
        if number % 10 == 0:
            events.append(annotation(f"ProfilerStep#{number // 10}", 50 * number, 500))
        events += [launch(50 * number + 10, 5, number + 1), kernel(ELEMENTWISE, 50 * number + 18, 2, number + 1)]
    profile = opened(events)
    finding = the("WL104", profile.findings())
    assert profile.step_model is not None and finding.edits == (CaptureGraph(),)
    expected_ms = profile.step_model.gain(finding.edits).gain_ms
    assert finding.bound and expected_ms == pytest.approx(0.5 - 10 * 0.00245, abs=0.001)
    assert finding.gain_ms == pytest.approx(0.5 - 10 * 0.002)


def test_a_finding_is_no_more_than_its_kind_of_change_can_save() -> None:
    clock = Clock(100.0, 90.0, 110.0, "estimated", 130.0)
    at_most_ms = {"host": 40.0, "GPU": 20.0, "communication": 30.0}
    host, mixed = (RemoveHostTime(((0, 1),)),), (RemoveWaits(),)
    gpu, communication = ((ScaleWork(WorkOfRows(table, (0,)), 0.5),) for table in ("kernels", "comm"))
    limits_ms = {host: 40.0, gpu: 20.0, communication: 30.0, mixed: 110.0, (*host, *gpu): 110.0, (): 40.0}
    for edits, limit_ms in limits_ms.items():
        gains = {"gain_ms": 50.0, "gain_low_ms": 45.0, "gain_high_ms": 200.0, "gain_percent": 50.0}
        estimated, bound = (
            Finding(code="", title="", evidence="", advice="", edits=edits, bound=bound, **gains)
            for bound in (False, True)
        )
        (estimated, bound) = within_bounds([estimated, bound], clock, at_most_ms)
        assert (estimated.gain_ms, estimated.gain_high_ms) == (min(50.0, limit_ms), limit_ms)
        assert (bound.gain_ms, bound.gain_low_ms, bound.gain_high_ms) == (limit_ms, 0.0, limit_ms)


def test_a_gain_of_tables_alone_has_an_interval() -> None:
    finding = Finding(code="", title="", evidence="", advice="", gain_ms=10, gain_low_ms=10, gain_high_ms=10)
    (finding,) = within_bounds(with_step_gains([finding], None), None, {})
    assert (finding.gain_low_ms, finding.gain_high_ms) == (8.0, 12.0)


@pytest.mark.parametrize(("high_ms", "text"), [(4.0, "no gain in step time (GPU-side 30.00 ms)"), (12.0, "≤ 12.0 ms")])
def test_gpu_time_that_the_step_does_not_wait_for_is_promised_only_where_it_may(high_ms: float, text: str) -> None:
    clock = Clock(100.0, 90.0, 110.0, "estimated", 130.0)
    finding = Finding(code="", title="", evidence="", advice="", gain_high_ms=high_ms, gpu_gain_ms=30.0)
    (finding,) = within_bounds([finding], clock, {})
    assert gain_text(finding, clock) == text


def test_a_bound_of_much_that_is_expected_to_be_little_leads_no_list() -> None:
    clock = Clock(100.0, 90.0, 110.0, "estimated", 130.0)
    estimate = Finding(code="WL201", title="", evidence="", advice="", gain_ms=12, gain_low_ms=9, gain_high_ms=15)
    bound = Finding(code="WL205", title="", evidence="", advice="", gain_ms=8, gain_high_ms=14, bound=True)
    first, second = ranked(within_bounds([bound, estimate], clock, {}))
    assert (first.code, second.code, second.gain_ms) == ("WL201", "WL205", 14)
