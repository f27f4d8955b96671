"""Steps that are timed without the profiler, and steps that are recorded with the GPU's activity only."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warplens
from support import SAMPLES, run_python
from warplens.analyses.graph.recording_cost import recording_cost
from warplens.model.trace import Meta
from warplens.passes import run_passes
from warplens.readers.kineto.reader import read
from warplens_run.base.errors import UsageError
from warplens_run.capture import scopes, torch_backend
from warplens_run.capture.plain_steps import PlainSteps, wait_for_gpu
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.torch_backend import TorchBackend
from warplens_run.capture.torch_phases import RecordingPhases
from warplens_run.capture.triton_hook import TritonHook
from warplens_run.formats.bundle import Staging

SAMPLE = next(path for path in SAMPLES if path.name == "resnet50_train.json.gz")
FACTS: dict[str, Any] = {"status": "complete", "backend": "torch", "command": ["warplens"], "notes": [], "gpu": True}


def plain_steps(*settled: bool, has_gpu: bool = True) -> PlainSteps:
    """With a clock that advances by one second from reading to reading."""
    answers, seconds = iter(settled), iter(range(100))
    return PlainSteps(lambda: next(answers), has_gpu=has_gpu, clock=lambda: float(next(seconds)))


def test_the_clock_is_read_at_marks_and_the_gpu_waited_for_at_both_ends_only() -> None:
    plain = plain_steps(True, True)
    plain.mark()
    plain.begin("before", 3)
    for _ in range(4):
        plain.mark()
    (window,) = plain.windows
    assert (window.position, window.steps, window.seconds, window.step_seconds) == ("before", 3, 3.0, (1.0, 1.0, 1.0))


@pytest.mark.parametrize("settled", [(False,), (True, False)])
def test_a_window_without_a_wait_at_its_ends_is_none(settled: tuple[bool, ...]) -> None:
    plain = plain_steps(*settled)
    plain.begin("after", 2)
    plain.mark()
    plain.mark()
    plain.mark()
    plain.finish()
    assert plain.windows == []


@pytest.mark.parametrize(("has_gpu", "marks", "steps"), [(True, 5, []), (False, 5, [5]), (False, 1, [])])
def test_a_program_that_ends_in_a_window_leaves_it_only_where_no_wait_is_needed(
    has_gpu: bool, marks: int, steps: list[int]
) -> None:
    plain = plain_steps(True, has_gpu=has_gpu)
    plain.begin("after", 8)
    for _ in range(marks):
        plain.mark()
    plain.finish()
    assert [window.steps for window in plain.windows] == steps


@pytest.mark.parametrize(("plan", "has_gpu", "names", "windows"), [
    # Each letter is a step: recorded in full (m), for arguments (a), lightly (l) or not at all (.)
    ({"steps": 2, "wait": 2, "light_steps": 3}, True, ".ammlll" + "." * 14, {8: ("after", 2), 10: ("after", 8)}),
    ({"steps": 2, "wait": 2, "light_steps": 3}, False, ".amm" + "." * 14, {5: ("after", 2), 7: ("after", 8)}),
    ({"steps": 1, "wait": 4, "light_steps": 0}, True, "...am", {1: ("before", 2)}),
    ({"steps": 1, "wait": 20, "light_steps": 1}, True, "." * 19 + "aml", {9: ("before", 10)}),
    ({"steps": 1, "wait": 4, "warmup": 2, "execution_trace": "none"}, True, "......mlll", {1: ("before", 3)}),
    ({"steps": 1, "wait": 4, "warmup": 2}, True, ".....amlll", {1: ("before", 4)}),
    ({"steps": 1, "wait": 0, "light_steps": 2}, True, "mall....", {5: ("after", 2), 7: ("after", 8)}),
    ({"steps": 1, "wait": 3, "data": "tree"}, True, "...m...", {1: ("before", 2), 5: ("after", 2)}),
    ({}, True, "mmm", {}),
])  # fmt: skip
def test_which_steps_are_recorded_and_which_are_timed(
    plan: dict[str, Any], has_gpu: bool, names: str, windows: dict[int, tuple[str, int]]
) -> None:
    phases = RecordingPhases(RecordingPlan(**plan), can_be_light=has_gpu)
    seen, found = "", {}
    for step in range(len(names)):
        seen += (phases.now or ".")[0]
        window = phases.plain_window()
        if window is not None:
            found[step] = window
        phases.advance(is_recorded=True)
        phases.has_arguments |= seen[-1] == "a"
    assert (seen, found) == (names, windows)


def test_light_steps_cannot_be_negative() -> None:
    with pytest.raises(UsageError, match="light_steps cannot be negative"):
        RecordingPlan(light_steps=-1)


class FakeTorch:
    """PyTorch with a GPU that notes what is asked of it."""

    def __init__(self, asked: list[str]) -> None:
        self.is_capturing = False
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            is_current_stream_capturing=lambda: self.is_capturing,
            synchronize=lambda: asked.append("wait"),
        )
        self.autograd = SimpleNamespace(profiler=SimpleNamespace(profile=type("profile", (), {})))
        self._C = SimpleNamespace(_autograd=SimpleNamespace(_profiler_enabled=lambda: False))
        kinds = SimpleNamespace(CUDA="cuda")
        self.profiler = SimpleNamespace(ProfilerActivity=kinds, supported_activities=lambda: {"cuda"})


class FakeRecording:
    """Writes a trace with nothing to read in it."""

    asked: Sequence[str] = ()
    every_thread = records_scopes = False

    def __init__(self, torch: Any, **settings: Any) -> None:
        self.name = "light" if settings["gpu_only"] else "arguments" if settings["execution_trace"] else "full"
        self.calls = settings["execution_trace"]
        assert settings["shapes"] != settings["gpu_only"]

    def prepare(self) -> None:
        self.asked.append("load")  # type: ignore[attr-defined]

    def start(self) -> None:
        self.asked.append(self.name)  # type: ignore[attr-defined]

    def toggle(self, is_on: bool) -> bool:
        return True

    def stop(self, trace: Path) -> bool:
        trace.write_text('{"traceEvents": [{"cat": "cpu_op"}]}')
        if self.calls is not None:
            self.calls.write_text("{}")
        self.asked.append("end")  # type: ignore[attr-defined]
        return True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a backend asks of PyTorch, in order."""
    asked: list[str] = []
    monkeypatch.setattr(FakeRecording, "asked", asked)
    monkeypatch.setattr(torch_backend, "Recording", FakeRecording)
    monkeypatch.setattr(torch_backend, "import_torch", lambda: FakeTorch(asked))
    return asked


def recorded(folder: Path, marks: int, **plan: Any) -> tuple[TorchBackend, Path]:
    staging = Staging(folder / "run")
    backend = TorchBackend(RecordingPlan(**plan), staging)
    backend.start()
    for _ in range(marks):
        backend.step()
    backend.stop()
    return backend, staging.folder


def test_a_recording_with_all_its_parts_waits_for_the_gpu_only_around_what_it_times(
    tmp_path: Path, asked: list[str]
) -> None:
    backend, folder = recorded(tmp_path, 40, steps=2, wait=8, light_steps=3)
    around = ["wait", "wait"]
    assert asked == [*around, "arguments", "end", "full", "end", "light", "end", *around, *around]
    timing = json.loads((folder / "timing.json").read_text())
    assert [(window["position"], window["steps"]) for window in timing["windows"]] == [
        ("before", 6),
        ("after", 2),
        ("after", 8),
    ]
    marks = timing["light_marks_ns"]
    assert len(marks) == 4 and marks == sorted(marks)
    assert (folder / "light.json.gz").exists()
    assert backend.notes == []


def test_with_counters_a_second_of_steps_is_timed_after_the_other_windows(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = (0.01 * turn for turn in range(10**6))
    made = torch_backend.PlainSteps
    monkeypatch.setattr(
        torch_backend, "PlainSteps", lambda *given, **named: made(*given, **named, clock=lambda: next(seconds))
    )
    _, folder = recorded(tmp_path, 140, steps=2, wait=8, light_steps=3, counters=True)
    timing = json.loads((folder / "timing.json").read_text())
    assert [(window["position"], window["steps"]) for window in timing["windows"]] == [
        ("before", 6),
        ("after", 2),
        ("after", 8),
        ("after", 100),
    ]
    assert all(window["start_ns"] > 1e18 for window in timing["windows"])


@pytest.mark.parametrize(("seconds", "steps"), [(0.0, []), (0.5, [(2, 0.5), (4, 1.0)]), (2.0, [(2, 2.0)])])
def test_the_window_for_samples_takes_about_a_second(seconds: float, steps: list[tuple[int, float]]) -> None:
    clock = (turn * seconds / 2 for turn in range(10**6))
    plain = PlainSteps(lambda: True, clock=lambda: next(clock))
    plain.begin_sampled()
    assert not plain.is_open, "no time of a step is known yet"
    if seconds:
        plain.begin("after", 2)
        plain.mark()
        plain.mark()
    plain.begin_sampled()
    for _ in range(10):
        plain.mark()
    assert [(window.steps, window.seconds) for window in plain.windows] == steps


@pytest.mark.parametrize(("steps", "light"), [(6, 2), (5, 1), (4, 0)])
def test_of_a_light_pass_that_the_program_does_not_finish_whole_steps_are_kept(
    tmp_path: Path, asked: list[str], steps: int, light: int
) -> None:
    backend, folder = recorded(tmp_path, steps, steps=2, wait=2, light_steps=3)
    (note,) = backend.notes
    assert note.startswith(f"the light pass has {light} of 3 steps: the program ended")
    assert (folder / "light.json.gz").exists() == (folder / "timing.json").exists() == bool(light)
    if light:
        assert len(json.loads((folder / "timing.json").read_text())["light_marks_ns"]) == light + 1


def test_a_pause_ends_the_light_pass_and_the_window(tmp_path: Path, asked: list[str]) -> None:
    backend = TorchBackend(RecordingPlan(steps=1, wait=1, light_steps=3), Staging(tmp_path / "run"))
    backend.start()
    for _ in range(3):
        backend.step()
    assert asked[-1] == "light"
    backend.pause()
    assert asked[-1] == "end"
    backend.resume()
    for _ in range(3):
        backend.step()
    assert asked[-1] == "wait", "a window has begun"
    backend.pause()
    backend.resume()
    for _ in range(2):
        backend.step()
    backend.stop()
    assert [window.steps for window in backend._plain.windows] == []
    assert "the light pass has 1 of 3 steps" in backend.notes[-1]


def test_no_wait_spoils_a_graph_that_is_being_captured() -> None:
    asked: list[str] = []
    torch = FakeTorch(asked)
    assert wait_for_gpu(torch) and asked == ["wait"]
    torch.is_capturing = True
    assert not wait_for_gpu(torch)
    assert asked == ["wait"]


def test_launches_of_triton_are_scopes_only_while_scopes_are_recorded() -> None:
    class Recorder:
        def enter(self, name: str, metrics: Any) -> str:
            entered.append(name)
            return name

        def exit(self, handle: str, depth: int) -> None:
            left.append(handle)

    entered: list[str] = []
    left: list[str] = []
    is_heard = [True]
    hook = TritonHook(lambda: is_heard[0])
    scopes.set_recorders((Recorder(),))
    try:
        hook.on_launch({"name": "recorded", "flops": 8})
        hook.on_return({})
        is_heard[0] = False
        with scopes.scope("outer"):
            hook.on_launch({"name": "plain"})
            is_heard[0] = True
            hook.on_return({})
            assert left == ["recorded"], "what was not entered is not left, nor is the scope around it"
    finally:
        scopes.set_recorders(())
    assert entered == ["recorded", "outer"]


BASE_NS = 1_790_857_026_000_000_000


def light_events() -> list[dict[str, Any]]:
    """Two steps of 100 µs, a launch in each; the kernel of the first runs while the second step does."""
    events = []
    for correlation, (launch_us, kernel_us) in enumerate([(1010, 1120), (1130, 1160), (1230, 1260)], start=1):
        common = {"ph": "X", "pid": 1, "args": {"correlation": correlation, "device": 0, "stream": 7}}
        events += [
            {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launch_us, "dur": 5, "tid": 1},
            {**common, "cat": "kernel", "name": "add_kernel", "ts": kernel_us, "dur": 20, "pid": 0, "tid": 7},
        ]
    return events


def made(target: Path, timing: str | None, light: bytes | None = None) -> Path:
    staging = Staging(target)
    staging.path("trace.json.gz").write_bytes(SAMPLE.read_bytes())
    if timing is not None:
        staging.path("timing.json").write_text(timing)
    if light is not None:
        staging.path("light.json.gz").write_bytes(light)
    return staging.finish(FACTS)


def timing_text(*windows: tuple[str, int, float], marks: Sequence[int] = ()) -> str:
    rows = [{"position": position, "steps": steps, "seconds": seconds} for position, steps, seconds in windows]
    return json.dumps({"version": 1, "windows": rows, "light_marks_ns": list(marks)})


def opened(path: Path, *, cache: bool = False) -> warplens.Profile:
    profile = warplens.open(path, cache=cache)
    assert isinstance(profile, warplens.Profile)
    return profile


def notes(profile: warplens.Profile) -> set[str]:
    return {row["code"] for row in profile.table("quality").to_dicts()}


def test_the_plain_step_is_the_window_before_the_recording_else_the_longest_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    path = made(tmp_path / "both", timing_text(("before", 2, 0.1), ("after", 8, 0.8)))
    for _ in range(2):  # read, and from the cache
        assert opened(path, cache=True).meta.plain_step_ns == pytest.approx(50e6)
    after = made(tmp_path / "after.zip", timing_text(("after", 2, 0.4), ("after", 8, 0.8)))
    assert opened(after).meta.plain_step_ns == pytest.approx(100e6)
    assert "plain_steps_after" not in notes(opened(path))
    assert "plain_steps_after" in notes(opened(after))


def test_the_recordings_cost_is_fitted_to_the_measured_step_unless_one_is_given(tmp_path: Path) -> None:
    plain = opened(made(tmp_path / "none", None))
    assert "no_plain_steps" in notes(plain)
    assert recording_cost(plain.workspace).origin.startswith("estimated")
    measured = opened(made(tmp_path / "measured", timing_text(("before", 10, 0.35))))
    assert "no_plain_steps" not in notes(measured)
    cost = recording_cost(measured.workspace)
    assert cost.origin == "so the simulated step takes the time measured without the profiler"
    given = warplens.open(tmp_path / "measured", cache=False, step_ms=35.0)
    assert isinstance(given, warplens.Profile)
    assert recording_cost(given.workspace).origin == "so the simulated step takes the given time"
    assert recording_cost(given.workspace).share == pytest.approx(cost.share)


@pytest.mark.parametrize("text", [
    "", "[]", "{", '{"version": 2}', '{"version": 1, "windows": [{"position": "before", "steps": 0, "seconds": 1}]}',
    '{"version": 1, "windows": [{"position": "before", "steps": 2, "seconds": -1}]}', '{"version": 1, "windows": 3}', "\x00",
])  # fmt: skip
def test_damaged_times_are_a_note(tmp_path: Path, text: str) -> None:
    profile = opened(made(tmp_path / "run", text, b"light"))
    assert "timing_damaged" in notes(profile)
    assert (profile.meta.plain_step_ns, profile.workspace.light) == (None, None)


def light_bytes(**header: Any) -> bytes:
    return gzip.compress(json.dumps({**header, "traceEvents": light_events()}).encode(), mtime=0)


def test_the_light_pass_has_its_steps_by_the_marks_and_gpu_events_those_of_their_launches(tmp_path: Path) -> None:
    marks = [BASE_NS + us * 1000 for us in (1000, 1100, 1200)]
    path = made(tmp_path / "run", timing_text(marks=marks), light_bytes(baseTimeNanoseconds=BASE_NS))
    workspace = opened(path).workspace
    assert "light" not in vars(workspace), "nothing is read until it is asked for"
    light = workspace.light
    assert light is not None
    assert light.steps.select("step", "start_ns", "end_ns").rows() == [(0, 0, 100_000), (1, 100_000, 200_000)]
    assert light.ints("step")[light.rows_of("runtime")].tolist() == [0, 1, -1]
    assert light.ints("step")[light.gpu_rows].tolist() == [0, 1, -1], "the last launch comes after the last mark"
    assert workspace.light is light


def test_times_without_a_base_are_those_since_1970(tmp_path: Path) -> None:
    marks = [us * 1000 for us in (1000, 1100, 1200)]
    light = opened(made(tmp_path / "run", timing_text(marks=marks), light_bytes())).workspace.light
    assert light is not None
    assert light.ints("step")[light.gpu_rows].tolist() == [0, 1, -1]


CLOCKS = """
import json, time, torch
torch.ones(2) + 1
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
profiler.start()
marks = [time.time_ns()]
for _ in range(20):
    time.sleep(0.0002)  # far less than clocks of two kinds differ by, and more than readings of one do
    torch.ones(2) + 1
    time.sleep(0.0002)
    marks.append(time.time_ns())
time.sleep(0.0002)
torch.ones(2) * 2
profiler.stop()
profiler.export_chrome_trace("trace.json")
print(json.dumps(marks))
"""


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_marks_and_the_times_of_a_trace_are_of_one_clock(tmp_path: Path) -> None:
    (tmp_path / "clocks.py").write_text(CLOCKS)
    done = run_python(["clocks.py"], tmp_path, dict(os.environ))
    assert done.returncode == 0, done.stderr
    text, meta = (tmp_path / "trace.json").read_bytes(), Meta(source="trace.json", format="")
    trace = run_passes(read(text, meta, [], step_marks_ns=json.loads(done.stdout.splitlines()[-1])))
    names = trace.ints("name")
    steps = {
        operator: trace.ints("step")[names == trace.names.index(f"aten::{operator}")].tolist()
        for operator in ("add", "mul")
    }
    assert steps == {"add": list(range(20)), "mul": [-1]}


@pytest.mark.parametrize(("marks", "text"), [
    ([], None), ([5], None), ([1000, 1000], None), ([1000, 2000], ""), ([1000, 2000], "{"), ([1000, 2000], '{"traceEvents": []}'),
])  # fmt: skip
def test_a_light_pass_that_cannot_be_read_is_none(tmp_path: Path, marks: list[int], text: str | None) -> None:
    light = light_bytes() if text is None else text.encode()
    profile = opened(made(tmp_path / "run", timing_text(("before", 2, 0.1), marks=marks), light))
    assert profile.workspace.light is None
