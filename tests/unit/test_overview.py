"""The head of a page: a trace in a few numbers, and its step with any of its findings mended."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

import warplens
from page_reader import PageData
from support import SAMPLES, Opened, annotation, kernel, launch, op
from warplens.analyses.graph.subsets import subset_steps_ms
from warplens.model.edits import CaptureGraph, RemoveWaits, ScaleHost, StepChange
from warplens.outputs.html import page_bytes
from warplens.outputs.html.tiles import gains_base, page_tiles
from warplens.profiles.what_if import scaling

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"
H100 = "H100 SXM"
PEAK = 989.4e12
"""Data sheet of the H100: FLOP/s of dense bf16 products."""
SIZE = 4096
PRODUCT = {
    "Input Dims": [[SIZE, SIZE], [SIZE, SIZE]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
    "Concrete Inputs": ["", ""],
}


def steps_of_products(count: int = 3, step_us: int = 1000, **args: Any) -> list[dict[str, Any]]:
    """Steps with one product of 4096³ each, which takes 400 µs; its launch returns long before."""
    events = []
    for at in range(count):
        begin = at * step_us
        events += [annotation(f"ProfilerStep#{at}", begin, step_us), op("aten::mm", begin + 10, 20, **args)]
        events += [launch(begin + 15, 5, at + 1), kernel(GEMM, begin + 25, 400, at + 1)]
    return events


def labels(profile: warplens.Profile) -> list[str]:
    return [tile.label for tile in page_tiles(profile.document(), profile.overview())]


def test_mfu_is_the_operations_of_a_step_over_its_plain_time_and_the_data_sheets_peak(opened: Opened) -> None:
    profile = opened(steps_of_products(**PRODUCT), gpu=H100)
    overview = profile.overview()
    assert profile.step_model is not None and profile.clock is not None
    step_ms = profile.clock.step_ms
    assert step_ms == pytest.approx(profile.step_model.step_ms, abs=1e-6)
    assert step_ms < profile.clock.recorded_ms == pytest.approx(1.0), "an op and a call were recorded in each step"
    assert overview.model_tflop == pytest.approx(2 * SIZE**3 / 1e12)
    assert (overview.peak_of, overview.peak_tflops) == ("matrix bf16", PEAK / 1e12)
    assert overview.mfu_percent == pytest.approx(100 * 2 * SIZE**3 / (step_ms / 1e3) / PEAK)
    assert profile.bounds is not None and profile.bounds.fast_host_ms == pytest.approx(0.400, abs=0.01)
    assert labels(profile)[-1] == "MFU"


def test_two_gpus_have_twice_the_peak(opened: Opened) -> None:
    events = steps_of_products(**PRODUCT)
    other = [
        {**event, "args": {**event["args"], "correlation": event["args"]["correlation"] + 10, "device": 1}, "pid": 1}
        if event["cat"] == "kernel"
        else {**event, "tid": 2, "args": {**event["args"], "correlation": event["args"].get("correlation", -10) + 10}}
        for event in events
        if event["cat"] != "user_annotation"
    ]
    one, two = (opened(chosen, gpu=H100).overview() for chosen in (events, events + other))
    assert one.peak_tflops is not None
    assert two.peak_tflops == pytest.approx(2 * one.peak_tflops)
    assert two.model_tflop == pytest.approx(2 * 2 * SIZE**3 / 1e12)


def test_without_shapes_or_a_known_gpu_there_is_no_mfu(opened: Opened) -> None:
    assert labels(opened(steps_of_products(), gpu=H100)) == ["Step", "Bound", "GPU busy"]
    assert "MFU" not in labels(opened(steps_of_products(**PRODUCT)))


def test_without_launches_only_what_was_recorded_is_told(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 100 * at, 50) for at in range(4)])
    assert labels(profile) == ["Run", "GPU busy"]
    assert profile.clock is not None and profile.fix_subsets() is None
    assert gains_base(profile.clock) == "Gains are of one run: 350.0 µs (measured, as recorded)."


def test_without_gpu_work_there_are_no_tiles(opened: Opened) -> None:
    assert labels(opened([op("aten::mm", 0, 10)])) == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_subset_of_findings_takes_what_simulating_it_alone_gives(path: Any) -> None:
    profile = warplens.open(path, cache=False)
    subsets, model = profile.fix_subsets(), profile.model_of_gains
    if subsets is None or model is None:
        pytest.skip("no finding is simulated")
    assert len(subsets.step_ms) == 2 ** len(subsets.rows)
    findings = profile.findings()
    for size in range(len(subsets.rows) + 1):
        mended = set(subsets.rows[:size])
        changes = [StepChange("", findings[row].edits) for row in sorted(mended)]
        assert subsets.with_rows(mended) == pytest.approx(model.changed_ms(changes), abs=1e-9)
    alone = [subsets.step_ms[0] - subsets.with_rows({row}) for row in subsets.rows]
    for row, alone_ms in zip(subsets.rows, alone, strict=True):
        finding = findings[row]
        if finding.bound:
            assert alone_ms <= finding.gain_ms
        elif not finding.saves_only_gpu_time:
            assert max(alone_ms, 0.0) == pytest.approx(finding.gain_ms, abs=1e-6)
    assert profile.clock is not None
    assert subsets.unchanged_ms == (profile.clock.low_ms, profile.clock.high_ms)
    # Of a clock that is recorded or given no host is known to be faster or slower.
    for steps_ms, cost_ns, sign in ((subsets.fast_ms, model.cost.high, -1), (subsets.slow_ms, model.cost.low, 1)):
        assert len(steps_ms) == len(subsets.step_ms)
        if cost_ns != model.cost.share:
            assert sign * (steps_ms[0] - subsets.step_ms[0]) >= -1e-6


def test_subsets_of_all_kinds_of_changes_leave_each_other_alone(opened: Opened) -> None:
    events = [*steps_of_products(2), launch(430, 200, 9, name="cudaDeviceSynchronize")]
    profile = opened(events)
    model = profile.step_model
    assert model is not None
    changes = [
        scaling(profile.table, "kernel=*", 0.5), StepChange("host", (ScaleHost(0.5),)),
        StepChange("sync", (RemoveWaits(),)), StepChange("graph", (CaptureGraph(),)),
    ]  # fmt: skip
    times = subset_steps_ms(model, changes)
    for size in range(5):
        for chosen in combinations(range(4), size):
            number = sum(1 << place for place in chosen)
            assert times[number] == pytest.approx(model.changed_ms([changes[place] for place in chosen]), abs=1e-9)


@pytest.mark.parametrize("path", SAMPLES[:2], ids=lambda path: path.stem)
def test_segments_of_the_critical_path_are_where_their_events_were_recorded(path: Any) -> None:
    profile = warplens.open(path, cache=False)
    start, duration = (profile.trace.ints(name) for name in ("start_ns", "dur_ns"))
    rows = profile.table("critical_path").to_dicts()
    for row in rows:
        assert row["recorded_us"] >= row["time_us"] - 0.002 or row["kind"] != "host", "recording costs time"
        if row["kind"] == "work":
            begin, end = start[row["id"]], start[row["id"]] + duration[row["id"]]
            since = row["recorded_ms"] * 1e6
            assert begin - 2 <= since <= since + row["recorded_us"] * 1e3 <= end + 2
            if row["kernel_category"] != "Memory Ops":  # a copy that outlasts its call is in two parts
                assert (since, row["recorded_us"] * 1e3) == pytest.approx((begin, end - begin), abs=2)
    begins = [row["recorded_ms"] for row in rows]
    assert begins == sorted(begins), "one after the other, as recorded too"


def test_the_page_has_tiles_subsets_and_the_path_only_where_they_can_be_simulated(opened: Opened) -> None:
    def header(profile: warplens.Profile, mode: Any = "report") -> dict[str, Any]:
        return PageData(page_bytes(profile.document(mode=mode)).decode()).header

    full, bare = (header(opened(events)) for events in (steps_of_products(), [kernel(GEMM, 0, 50)]))
    assert [tile["table"] for tile in full["tiles"]] == ["step_time", "bounds", "breakdown"]
    assert full["criticalPath"]["kind"]["rows"] > 0
    assert bare["criticalPath"] is None
    assert "bounds" not in [table["name"] for table in bare["tables"]]
    chart = header(opened(steps_of_products()), "gantt")
    assert chart["tiles"] == []
    assert chart["criticalPath"] is not None


def test_a_given_step_time_is_the_plain_one(opened: Opened) -> None:
    profile = opened(steps_of_products(**PRODUCT), gpu=H100, step_ms=0.9)
    overview = profile.overview()
    assert profile.clock is not None and (profile.clock.step_ms, profile.clock.source) == (pytest.approx(0.9), "given")
    assert overview.mfu_percent == pytest.approx(100 * 2 * SIZE**3 / 0.9e-3 / PEAK)
    (step, bound, busy, *_) = page_tiles(profile.document(), overview)
    assert (step.value, step.note) == ("900.0 µs", "measured, given · 1,000.0 µs recorded")
    assert (bound.value, bound.note) == ("Host-bound", "host ≤ 519.0 µs · GPU nothing")
    assert (busy.value, busy.note) == ("44.4 %", "400.0 µs of the step")


def test_without_steps_the_run_begins_on_the_host(opened: Opened) -> None:
    events = [event for event in steps_of_products(2) if event["cat"] != "user_annotation"]
    profile = opened(events)
    whole, _, busy, *_ = page_tiles(profile.document(), profile.overview())
    assert (whole.label, busy.note) == ("Run", "0.8 ms of the run")
