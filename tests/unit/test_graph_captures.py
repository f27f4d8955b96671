"""Captures of graphs are recorded whenever they happen: with a class in the place of CUDAGraph that captures nothing."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warplens
from warplens_run.base.errors import UsageError
from warplens_run.capture import graph_captures
from warplens_run.capture.graph_captures import MOST_BYTES
from warplens_run.capture.plan import RecordingPlan
from warplens_run.formats.bundle import Staging

if any(importlib.util.find_spec(name) is None for name in ("torch", "triton")):
    pytest.skip("PyTorch or Triton is not installed", allow_module_level=True)

import torch

from launch_bundles import product, scale
from triton_stub import stubbed
from warplens_run.capture.torch_backend import TorchBackend
from warplens_run.capture.torch_recording import is_enabled
from warplens_run.capture.triton_launches import LaunchRecorder

HANDLE = 0x5EED
ADD = "aten::add.Tensor"


class FakeGraph:
    """Remembers whether a profiler was recording when it was called."""

    def __init__(self, *, ends_badly: bool = False) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.ends_badly = ends_badly

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        self.calls.append(("begin", is_enabled(torch)))
        if capture_error_mode == "wrong":
            raise RuntimeError("no such mode")

    def capture_end(self) -> None:
        self.calls.append(("end", is_enabled(torch)))
        if self.ends_badly:
            raise RuntimeError("the capture was invalidated")

    def instantiate(self) -> None:
        self.calls.append(("instantiate", is_enabled(torch)))

    def replay(self) -> None:
        self.calls.append(("replay", is_enabled(torch)))

    def pool(self) -> tuple[int, int]:
        return (0, 7)

    def raw_cuda_graph_exec(self) -> int:
        return HANDLE


@pytest.fixture(autouse=True)
def fake_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    for name in graph_captures.AROUND_GRAPHS:
        monkeypatch.setenv(name, "")


@pytest.fixture
def methods() -> Iterator[None]:
    """The classes have the methods afterwards that they had before."""
    classes = (FakeGraph, torch.autograd.profiler.record_function, torch.autograd.profiler.profile)
    before = [dict(vars(cls)) for cls in classes]
    yield
    assert [dict(vars(cls)) for cls in classes] == before


@contextlib.contextmanager
def captured(graph: FakeGraph, **options: Any) -> Iterator[None]:
    """As `torch.cuda.graph`: what is raised inside passes on, after the capture has ended."""
    graph.capture_begin(**options)
    try:
        yield
    finally:
        graph.capture_end()


class Run:
    """A recorded program: three steps of which the second is measured, unless other options are given."""

    def __init__(self, folder: Path, **options: Any) -> None:
        options = {"steps": 1, "wait": 1, "execution_trace": "none"} | options
        self.backend = TorchBackend(RecordingPlan(**options), Staging(folder / "run"))
        self.folder = self.backend.staging.folder
        self.backend.start()

    def stop(self) -> dict[str, Any]:
        self.backend.stop()
        path = self.folder / "graph_captures/captures.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def trace(self, name: str) -> list[dict[str, Any]]:
        return json.loads(gzip.decompress((self.folder / name).read_bytes()))["traceEvents"]

    def names(self, name: str, category: str) -> list[str]:
        return [event["name"] for event in self.trace(name) if event.get("cat") == category]


def work() -> torch.Tensor:
    return torch.ones(3) + 1


@pytest.mark.usefixtures("methods")
def test_a_capture_before_the_recorded_step_has_a_trace_of_its_own(tmp_path: Path) -> None:
    run, graph = Run(tmp_path), FakeGraph()
    with torch.profiler.record_function("capture_32_DECODE"), captured(graph, pool=(0, 7)):
        work()
    assert not is_enabled(torch)
    run.backend.step()
    graph.replay()
    work()
    run.backend.step()
    graph.replay()
    facts = run.stop()
    assert graph.calls == [("begin", True), ("end", True), ("replay", True), ("replay", False)]
    (capture,) = facts["captures"]
    assert capture["file"] == "graph_captures/0.json.gz"
    assert (capture["exec"], capture["pool"], capture["graph_id"]) == (hex(HANDLE), [0, 7], None)
    assert (capture["annotations"], capture["thread"]) == (["capture_32_DECODE"], threading.get_native_id())
    assert 0 < capture["start_ns"] <= capture["end_ns"]
    ((number, time_ns, thread),) = facts["replays"]
    assert (number, thread) == (0, threading.get_native_id())
    assert time_ns > capture["end_ns"]
    assert run.names(capture["file"], "cpu_op").count(ADD) == 1
    assert run.names(capture["file"], "user_annotation") == ["capture_32_DECODE"]
    assert any("work" in name for name in run.names(capture["file"], "python_function"))
    assert run.names("trace.json.gz", "cpu_op").count(ADD) == 1
    assert str(tmp_path) not in gzip.decompress((run.folder / capture["file"]).read_bytes()).decode()


def test_the_window_of_a_captures_trace_encloses_its_ops(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with captured(FakeGraph()):
        work()
    (capture,) = run.stop()["captures"]
    trace = json.loads(gzip.decompress((run.folder / capture["file"]).read_bytes()))
    base = trace.get("baseTimeNanoseconds", 0)
    (added,) = (event for event in trace["traceEvents"] if event["name"] == ADD)
    assert capture["start_ns"] <= base + added["ts"] * 1e3 <= capture["end_ns"]
    assert added["tid"] == capture["thread"]


def test_a_capture_in_the_recorded_window_is_in_its_trace(tmp_path: Path) -> None:
    run, graph = Run(tmp_path, steps=0, wait=0), FakeGraph()
    with captured(graph):
        work()
    graph.replay()
    facts = run.stop()
    assert [capture["file"] for capture in facts["captures"]] == ["trace.json.gz"]
    assert [number for number, _, _ in facts["replays"]] == [0]
    assert not list(run.folder.glob("graph_captures/*.gz"))


def test_scopes_around_and_inside_a_capture_are_in_its_trace(tmp_path: Path) -> None:
    session = warplens.start(str(tmp_path / "run"), data="trace", steps=1, wait=1, execution_trace="none")
    with warplens.scope("around"), captured(FakeGraph()), warplens.scope("inside"):
        work()
    warplens.step()
    work()
    warplens.step()
    path = warplens.finalize(session)
    assert path is not None
    events = json.loads(gzip.decompress((path / "graph_captures/0.json.gz").read_bytes()))["traceEvents"]
    regions = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    assert sorted(regions) == ["around", "inside"]


@pytest.mark.usefixtures("methods")
def test_what_a_program_raises_in_a_capture_passes_unharmed(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with pytest.raises(ZeroDivisionError), captured(FakeGraph()):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="invalidated"), captured(FakeGraph(ends_badly=True)):
        work()
    with pytest.raises(RuntimeError, match="no such mode"), captured(FakeGraph(), capture_error_mode="wrong"):
        work()
    assert not is_enabled(torch)
    facts = run.stop()
    assert [capture["why"] for capture in facts["captures"]] == ["", "the capture failed", "the capture failed"]
    assert [bool(capture["file"]) for capture in facts["captures"]] == [True, False, False]
    assert "2 graph captures of 3 not recorded: the capture failed (1–2)" in run.backend.notes


def test_captures_inside_each_other_share_a_trace(tmp_path: Path) -> None:
    run, outer, inner = Run(tmp_path), FakeGraph(), FakeGraph()
    with captured(outer), captured(inner):
        work()
    facts = run.stop()
    assert inner.calls == outer.calls == [("begin", True), ("end", True)]
    assert [capture["file"] for capture in facts["captures"]] == ["graph_captures/0.json.gz"] * 2
    assert [capture["number"] for capture in facts["captures"]] == [0, 1]


def test_captures_of_two_threads_that_overlap_leave_no_profiler_behind(tmp_path: Path) -> None:
    run, first, second = Run(tmp_path), FakeGraph(), FakeGraph()
    begun, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with captured(second):
            begun.set()
            may_end.wait(30)

    thread = threading.Thread(target=other)
    with captured(first):
        thread.start()
        assert begun.wait(30)
        work()
    assert is_enabled(torch)  # the second is still being captured, and nothing may wait for the device
    may_end.set()
    thread.join(30)
    run.backend.step()
    work()
    run.backend.step()
    facts = run.stop()
    assert not is_enabled(torch)
    assert [capture["file"] for capture in facts["captures"]] == ["graph_captures/0.json.gz"] * 2
    assert (run.folder / "trace.json.gz").exists()


def test_a_capture_of_another_thread_is_recorded(tmp_path: Path) -> None:
    run, graph = Run(tmp_path), FakeGraph()

    def capture() -> None:
        with captured(graph):
            work()

    thread = threading.Thread(target=capture)
    thread.start()
    thread.join(30)
    (facts,) = run.stop()["captures"]
    assert graph.calls == [("begin", True), ("end", True)]
    assert ADD in run.names(facts["file"], "cpu_op")


def test_a_mark_inside_a_capture_is_not_a_step(tmp_path: Path) -> None:
    """The optimizer of a step that is captured whole marks the end of a step that did not run."""
    run = Run(tmp_path)
    with captured(FakeGraph()):
        run.backend.step()
        run.backend.step()
    for _ in range(2):
        work()
        run.backend.step()
    run.stop()
    assert run.backend._phases.steps_seen == 2
    assert not run.backend.notes[1:]


def test_captures_over_the_limit_are_counted_and_named(tmp_path: Path) -> None:
    run = Run(tmp_path, graph_captures=1)
    graphs = [FakeGraph() for _ in range(3)]
    for graph in graphs:
        with captured(graph):
            work()
    facts = run.stop()
    assert [bool(capture["file"]) for capture in facts["captures"]] == [True, False, False]
    assert graphs[1].calls == [("begin", False), ("end", False)]
    assert (
        "2 graph captures of 3 not recorded: 1 capture had been recorded (option graph_captures) (1–2)"
        in run.backend.notes
    )


def test_captures_over_the_size_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_captures, "MOST_BYTES", 1)
    run = Run(tmp_path)
    for _ in range(2):
        with captured(FakeGraph()):
            work()
    facts = run.stop()
    assert MOST_BYTES > 1
    assert ["take 1" in capture["why"] for capture in facts["captures"]] == [True, True]
    assert not list(run.folder.glob("graph_captures/*.gz"))


def test_a_negative_number_of_captures_is_refused() -> None:
    with pytest.raises(UsageError, match="graph_captures cannot be negative"):
        RecordingPlan(graph_captures=-1)


def test_a_run_without_captures_has_no_file_of_them(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for _ in range(2):
        work()
        run.backend.step()
    assert run.stop() == {}


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@pytest.mark.parametrize("is_active", [True, False])
def test_a_profiler_of_the_programs_own_is_not_disturbed(is_active: bool, tmp_path: Path) -> None:
    run = Run(tmp_path)
    schedule = torch.profiler.schedule(wait=0, warmup=0 if is_active else 1, active=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
        with captured(FakeGraph()):
            work()
        if not is_active:
            profiler.step()
            work()
    assert sum(row.count for row in profiler.key_averages() if row.key == "aten::add") == 1
    (capture,) = run.stop()["captures"]
    assert capture["why"].startswith("a profiler of the program's own was")


def test_a_profiler_that_the_program_starts_inside_a_capture_replaces_ours(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with (
        captured(FakeGraph()),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
    ):
        work()
    assert sum(row.count for row in profiler.key_averages() if row.key == "aten::add") == 1
    (capture,) = run.stop()["captures"]
    assert capture["why"] == "the program started its own profiler"


def test_a_capture_while_the_window_warms_up_leaves_the_window_whole(tmp_path: Path) -> None:
    run = Run(tmp_path, wait=1, warmup=1)
    run.backend.step()  # the profiler is prepared here
    with captured(FakeGraph()):
        work()
    run.backend.step()
    work()
    run.backend.step()
    (capture,) = run.stop()["captures"]
    assert run.names(capture["file"], "cpu_op").count(ADD) == 1
    assert run.names("trace.json.gz", "cpu_op").count(ADD) == 1


def test_a_graph_that_is_dropped_in_its_capture_does_not_stop_the_steps(tmp_path: Path) -> None:
    run, graph = Run(tmp_path), FakeGraph()
    graph.capture_begin()
    del graph
    for _ in range(2):
        work()
        run.backend.step()
    (capture,) = run.stop()["captures"]
    assert capture["why"] == "the capture did not end"
    assert ADD in run.names("trace.json.gz", "cpu_op")


def test_a_graph_that_is_kept_has_its_handle_after_it_is_instantiated(tmp_path: Path) -> None:
    class Kept(FakeGraph):
        handle = 0

        def raw_cuda_graph_exec(self) -> int:
            if not self.handle:
                raise RuntimeError("not instantiated")
            return self.handle

    run, graph = Run(tmp_path), Kept()
    with captured(graph):
        work()
    assert run.backend._captures.facts[0].exec == ""
    graph.handle = 0xAB
    graph.instantiate()
    (capture,) = run.stop()["captures"]
    assert capture["exec"] == "0xab"


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torchscript_compiles_an_annotation_while_captures_are_watched(tmp_path: Path) -> None:
    run = Run(tmp_path)

    def annotated(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("region"):
            return x + 1

    scripted = torch.jit.script(annotated)
    assert scripted(torch.zeros(1)).item() == 1
    run.stop()


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_launches_into_a_graph_are_made_by_each_replay(tmp_path: Path) -> None:
    run, graph = Run(tmp_path, steps=0, wait=0), FakeGraph()
    recorder = LaunchRecorder(run.backend.is_measuring)
    run.backend.watch_launches(recorder)
    with stubbed():
        recorder.install()
        scale()
        with captured(graph):
            scale()
            product(64)
        graph.replay()
        graph.replay()
        recorder.remove()
    run.stop()
    assert recorder.order == [0, 0, 1, 0, 1]
    names = [recorder.launches[index].kernel.name for index in recorder.order[:3]]
    assert names == ["scale_shift", "scale_shift", "product"]


def test_a_tree_records_no_captures_and_does_not_disturb_them(tmp_path: Path) -> None:
    run, graph = Run(tmp_path, data="tree", steps=0, wait=0), FakeGraph()
    with captured(graph):
        work()
        run.backend._fold_piece(0.0)
        assert is_enabled(torch)
    run.stop()
