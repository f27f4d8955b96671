"""WL306: host code that launches nothing while the GPU waits, the user's own or a library's."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from finding_traces import GEMM
from support import SHARED, Opened, annotation, frame, kernel, launch, op
from warplens.model.edits import RemoveHostTime
from warplens.model.finding import Finding

Event = dict[str, Any]
TRANSFORMS = "transformers/image_transforms.py(333): normalize"
MS = 1000.0


def host_code(profile: warplens.Profile) -> Finding | None:
    return next((finding for finding in profile.findings() if finding.code == "WL306"), None)


def step(number: int, *inside: Event, length: float, work: float, launch_at: float) -> list[Event]:
    """A step of the user's with some events of the host, and a kernel that is launched at a time in it."""
    start, key = number * length, number + 1
    moved = [{**event, "ts": start + event["ts"]} for event in inside]
    return [
        annotation(f"ProfilerStep#{number}", start, length),
        frame("train.py(8): step", start + 5, length - 10),
        *moved,
        op("aten::mm", start + launch_at - 5, 20),
        launch(start + launch_at, 5, key),
        kernel(GEMM, start + launch_at + 10, work, key),
        launch(start + launch_at + 20, length - launch_at - 30, 100 + key, name="cudaDeviceSynchronize"),
    ]


def steps(*inside: Event, length: float = 375 * MS, work: float = 160 * MS, launch_at: float = 214 * MS) -> list[Event]:
    return [
        event for number in range(4) for event in step(number, *inside, length=length, work=work, launch_at=launch_at)
    ]


def test_wl306_fires_for_image_transforms_of_210_of_375_ms_with_their_place(opened: Opened) -> None:
    profile = opened(steps(frame(TRANSFORMS, 2 * MS, 210 * MS)))
    assert profile.clock is not None
    assert profile.clock.step_ms == pytest.approx(375, rel=0.01)
    finding = host_code(profile)
    assert finding is not None
    assert finding.title == "the GPU waits for host code in transformers/image_transforms.py"
    assert finding.place == "transformers/image_transforms.py:333 normalize"
    assert finding.bound
    assert 210 <= finding.gain_ms <= 1.12 * 210, "a bound, with what simulated gains are off by"
    assert finding.gain_ms <= finding.gain_high_ms <= 375
    assert "workers" in finding.advice
    first, rest = finding.rows
    assert (first.place, first.count) == (finding.place, 4)
    assert first.time_ms == pytest.approx(210, rel=0.01)
    assert rest.place == "train.py:8 step", "what the loop itself does before and after"
    assert "image_transforms.py" in profile.answer().verdict


def test_wl306_is_silent_where_the_gpu_works_meanwhile(opened: Opened) -> None:
    """The transforms run while the GPU works on the step before: it never waits."""
    events = []
    for number in range(4):
        start, key = number * 375 * MS, number + 1
        events += [
            annotation(f"ProfilerStep#{number}", start, 375 * MS), op("aten::mm", start + 5, 20),
            launch(start + 10, 5, key), kernel(GEMM, start + 20, 374.9 * MS, key),
            frame(TRANSFORMS, start + 2 * MS, 210 * MS), launch(start + 213 * MS, 161 * MS, 90 + key, name="cudaDeviceSynchronize"),
        ]  # fmt: skip
    assert host_code(opened(events)) is None


def test_wl306_is_silent_below_a_twentieth_of_the_step(opened: Opened) -> None:
    def waiting(ms: float) -> Finding | None:
        loop = frame("torch/utils/loop.py(1): run", 6, ms * MS - 10)
        code = frame(TRANSFORMS, 2 * MS, ms * MS - 4 * MS)
        events = steps(loop, code, launch_at=ms * MS, work=(370 - ms) * MS)
        return host_code(opened(events))

    assert waiting(19) is None
    assert waiting(26) is not None


def test_what_ops_and_the_framework_take_to_launch_is_not_host_code(opened: Opened) -> None:
    """Python of the framework for 210 ms, and of the program for 60 µs between each two ops."""
    framework = frame("torch/distributions/categorical.py(56): __init__", 2 * MS, 210 * MS)
    assert host_code(opened(steps(framework))) is None
    ops = [op("aten::add", 100 + 70 * number, 10) for number in range(3000)]
    calls = [launch(102 + 70 * number, 2, 0) for number in range(3000)]
    assert host_code(opened(steps(*ops, *calls))) is None


def test_a_thread_that_waits_for_another_one_that_launches_runs_no_host_code(opened: Opened) -> None:
    """The program's function waits for autograd's thread, whose ops follow each other."""
    events = steps(frame(TRANSFORMS, 2 * MS, 210 * MS))
    for number in range(4):
        start = 375 * MS * number + 2 * MS
        for place in range(300):
            ts, key = start + 700 * place, 1000 * (number + 1) + place
            name = "autograd::engine::evaluate_function: MmBackward0"
            events += [op(name, ts, 690, tid=2), launch(ts + 5, 5, key, tid=2), kernel(GEMM, ts + 15, 5, key)]
    assert host_code(opened(events)) is None


def test_ops_that_compute_on_the_cpu_belong_to_the_function_that_calls_them(opened: Opened) -> None:
    resize = frame("images.py(7): resize", 2 * MS, 210 * MS)
    functional = frame("torch/nn/functional.py(4000): interpolate", 3 * MS, 208 * MS)
    finding = host_code(opened(steps(resize, functional, op("aten::upsample_bicubic2d", 4 * MS, 206 * MS))))
    assert finding is not None
    assert finding.place == "images.py:7 resize"
    assert 208 <= finding.gain_ms <= 1.12 * 208, "a bound, with what simulated gains are off by"


def test_numpy_and_built_ins_belong_to_the_line_that_calls_them(opened: Opened) -> None:
    numpy = frame("numpy/_core/_methods.py(115): _mean", 2 * MS, 150 * MS)
    built_in = frame("<built-in method tanh of ufunc>", 152 * MS, 60 * MS)
    finding = host_code(opened(steps(numpy, built_in)))
    assert finding is not None
    assert finding.place == "train.py:8 step"


def test_without_stacks_a_range_that_the_program_names_is_the_place(opened: Opened) -> None:
    def named(ms: float) -> Finding | None:
        events = steps(annotation("transforms", 2 * MS, 210 * MS), op("aten::add", (2 + ms) * MS, (210 - ms) * MS - 9))
        return host_code(opened([event for event in events if event["cat"] != "python_function"]))

    finding = named(30)
    assert finding is not None
    assert finding.title == "the GPU waits for host code in transforms"
    assert finding.place == "transforms"
    finding = named(209)
    assert finding is not None, "an op that computes on the CPU in it"
    assert host_code(opened([event for event in steps() if event["cat"] != "python_function"])) is None


def test_waits_for_the_data_loader_belong_to_wl303(opened: Opened) -> None:
    loader = frame("torch/utils/data/dataloader.py(708): __next__", 2 * MS, 200 * MS)
    codes = {finding.code for finding in opened(steps(loader, frame("data.py(3): load", 3 * MS, 190 * MS))).findings()}
    assert "WL303" in codes
    assert "WL306" not in codes


def test_transforms_before_the_first_launch_of_a_run_without_steps_count(opened: Opened) -> None:
    """The GPU's own span is busy all the time."""
    events = step(0, frame(TRANSFORMS, 2 * MS, 210 * MS), length=375 * MS, work=155 * MS, launch_at=214 * MS)
    finding = host_code(opened([event for event in events if not event["name"].startswith("ProfilerStep")]))
    assert finding is not None
    assert finding.place == "transformers/image_transforms.py:333 normalize"
    assert 213 <= finding.gain_ms <= 1.12 * 213, "a bound, with what simulated gains are off by"


def test_one_gap_is_not_counted_by_two_rules(opened: Opened) -> None:
    """The gap in which the transforms run is no stall in one place, nor one of launches, besides."""
    found = {finding.code: finding for finding in opened(steps(frame(TRANSFORMS, 2 * MS, 210 * MS))).findings()}
    assert "WL306" in found
    assert not {"WL101", "WL104", "WL107"} & set(found)


def test_time_of_the_host_that_two_changes_remove_is_won_once(opened: Opened) -> None:
    model = opened(steps(frame(TRANSFORMS, 2 * MS, 210 * MS))).model_of_gains
    assert model is not None
    whole = RemoveHostTime(((380_000_000, 580_000_000), (755_000_000, 955_000_000), (1_130_000_000, 1_330_000_000)))
    half = RemoveHostTime(tuple((begin, begin + 100_000_000) for begin, _ in whole.ranges_ns))
    won = model.gain([whole]).gain_ms
    assert won == pytest.approx(200, rel=0.02)
    assert model.gain([half]).gain_ms == pytest.approx(100, rel=0.02)
    assert model.gain([half, whole]).gain_ms == pytest.approx(won)
    assert model.gain([whole, half]).gain_ms == pytest.approx(won)


def test_an_estimated_cost_of_recording_lowers_the_confidence(opened: Opened) -> None:
    """Where ops show what recording costs, the step without the profiler is an estimate, and the finding says so."""
    nested = [
        event
        for number in range(400)
        for event in (op("aten::t", 213 * MS - 30_000 + 60 * number, 50), op("aten::transpose", 213 * MS - 29_980 + 60 * number, 20))
    ]  # fmt: skip
    finding = host_code(opened(steps(frame(TRANSFORMS, 2 * MS, 180 * MS), *nested)))
    assert finding is not None
    assert "low confidence" in finding.evidence


POLICY = SHARED / "traces" / "programs" / "policy.zip"


@pytest.mark.skipif(not POLICY.exists(), reason="the shared traces are not here")
def test_numpy_between_gpu_work_is_named_after_the_function_that_calls_it() -> None:
    """An environment in numpy: line 8 defines the function that computes, line 23 is the loop that calls it."""
    profile = warplens.open(POLICY, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert "policy.py:8 step" in profile.verdict()
    finding = host_code(profile)
    assert finding is not None
    assert finding.place == "policy.py:8 step"
    assert 0.05 < finding.gain_percent / 100 < 0.2
