"""How the steps of a run are found, and which recording of it is kept."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warplens_run.base.errors import UsageError
from warplens_run.capture import step_search, steps
from warplens_run.capture.forward_watch import ForwardWatch
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.recorded_files import RecordedFiles, RecordedPart
from warplens_run.capture.step_search import StepSearch
from warplens_run.capture.steps import StepMarks, StepSource
from warplens_run.capture.torch_phases import FIRST, MEASURED, START, RecordingPhases
from warplens_run.formats.bundle import Staging
from warplens_run.formats.bundle_files import STEPS_FOUND_BY

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
FORWARD, OPTIMIZER, PROGRAM = StepSource.FORWARD, StepSource.OPTIMIZER, StepSource.PROGRAM


class Searcher:
    """Notes the calls that it gets."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def step(self) -> None:
        self.heard.append("step")

    def work_begins(self) -> None:
        self.heard.append("begin")

    def found(self, source: StepSource, *, is_anew: bool, at_begin: bool) -> None:
        self.heard.append(source.name.lower() + " anew" * is_anew)


@pytest.fixture
def searched() -> Iterator[tuple[StepMarks, Searcher, list[str]]]:
    """Marks with a recorder that searches and one that does not."""
    import torch  # noqa: F401 - only a program that has it is watched

    searcher, heard = Searcher(), []

    class Recorder:
        def step(self) -> None:
            heard.append("step")

    marks = StepMarks(lambda: [searcher, Recorder()], lambda: [searcher])
    marks.watch_optimizers()
    marks.watch_forwards()
    yield marks, searcher, heard
    marks.forget()


@needs_torch
def test_calls_of_the_outermost_module_are_steps_where_nothing_else_marks_them(
    searched: tuple[StepMarks, Searcher, list[str]],
) -> None:
    import torch

    _, searcher, heard = searched
    once, model = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    once(torch.ones(1, 2))
    for _ in range(3):
        model(torch.ones(1, 2))
    once(torch.ones(1, 2))
    assert searcher.heard == ["begin", "forward", "step", "step"], "the first that is called again, and not its parts"
    assert heard == [], "a guess is not for those who do not search"
    del model
    for _ in range(3):
        once(torch.ones(1, 2))
    assert searcher.heard[4:] == ["step", "step"], "the program has another model now"


@needs_torch
def test_forwards_are_not_steps_of_a_program_that_has_an_optimizer(
    searched: tuple[StepMarks, Searcher, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Own(torch.optim.SGD):
        """A class of which no instance has been made; PyTorch's hooks run in both steps."""

        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    _, searcher, heard = searched
    model = torch.nn.Linear(2, 2)
    torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = Own(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.ones(1, 2))
    assert searcher.heard == ["begin"]
    optimizer.step()
    assert searcher.heard[1:] == ["optimizer", "step"] and heard == ["step"]


@needs_torch
def test_a_better_source_begins_anew(
    searched: tuple[StepMarks, Searcher, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0.0)
    marks, searcher, heard = searched
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for _ in range(3):
            model(torch.ones(1, 2))
        optimizer.step()
    marks.mark()
    model(torch.ones(1, 2))
    marks.mark()
    assert searcher.heard == [
        "begin", "forward", "step", "step", "optimizer anew", "step", "step", "program", "step"
    ], "the program's first mark is of the iteration whose optimizer has been counted"  # fmt: skip
    assert heard == ["step"] * 3


@needs_torch
def test_an_optimizer_inside_backward_is_counted_with_the_next_forward(
    searched: tuple[StepMarks, Searcher, list[str]],
) -> None:
    """What a mark does to a profiler would crash the program inside an op."""
    import torch

    _, searcher, heard = searched
    model = torch.nn.Linear(2, 2)
    optimizers = {weight: torch.optim.SGD([weight], lr=0.1) for weight in model.parameters()}
    inside: list[int] = []

    def update(weight: Any) -> None:
        optimizers[weight].step()
        inside.append(len(heard))

    for weight in optimizers:
        weight.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
    assert searcher.heard == ["begin", "optimizer", "step", "step"]
    assert inside == [0, 0, 1, 1, 2, 2]


@needs_torch
def test_modules_compile_and_count_as_ever_while_they_are_watched() -> None:
    import torch

    before = torch.nn.Module.__call__
    called: list[str] = []
    watch = ForwardWatch(lambda module: called.append(type(module).__name__))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    model[0].register_forward_hook(lambda module, args, output: output + 1)
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True)
    function = torch.compile(lambda x: model(x).sum(), backend=backend, fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(1, 2))
        function(torch.ones(1, 2))
    assert called == ["OptimizedModule"] * 3, "calls inside a compiled function are not seen"
    assert len(graphs) == 2, "nothing is compiled twice"
    thread = threading.Thread(target=model, args=(torch.ones(1, 2),))
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 3))
    model(torch.ones(1, 2))
    assert called[3:] == ["Sequential"] * 3, "of every thread, and after one that failed"
    watch.retire()
    assert torch.nn.Module.__call__ is not before, "what has been compiled with it would be compiled again"
    watch.remove()
    assert torch.nn.Module.__call__ is before


class Host:
    """A backend that notes what is recorded."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.switched: list[str] = []
        self.works = self.may = True
        self.forgotten: list[bool] = []

    def may_switch(self) -> bool:
        return self.may

    def switch(self, before: str, after: str) -> None:
        assert self.busy.locked()
        self.switched.append(f"{before}→{after}")

    def has_work(self) -> bool:
        return self.works

    def forget_steps(self, *, with_profile: bool) -> None:
        self.forgotten.append(with_profile)

    def step(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, and whether the program is at its imports or inside an op."""
    now = [100.0]
    monkeypatch.setattr(step_search.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(step_search, "is_importing", lambda: now[0] < 105)
    monkeypatch.setattr(step_search, "is_inside_op", lambda: 200 < now[0] < 210)
    return now


def search(host: Host, *, frames: bool = False, early: bool = True) -> StepSearch:
    phases = RecordingPhases(RecordingPlan(steps=3, wait=2, early=early), can_be_light=False)
    return StepSearch(phases, host, wants_frames=frames)


def looked(begun: StepSearch, clock: list[float], *times: float) -> None:
    for clock[0] in times:
        begun.look()


def test_of_a_run_without_steps_two_seconds_are_recorded_after_its_imports(clock: list[float]) -> None:
    host = Host()
    looked(search(host), clock, 101, 104, 106, 107.9)
    assert host.switched == []
    begun = search(host)
    looked(begun, clock, 106, 108, 111, 140)
    assert host.switched == ["start→"], "what has been recorded without frames is what was wanted"
    begun.work_begins()
    assert host.switched[1:] == ["→first"], "a module that is called later may still be a step"


def test_where_no_op_ran_it_is_waited_for(clock: list[float]) -> None:
    host = Host()
    host.works = False
    begun = search(host)
    looked(begun, clock, 106, 108, 109, 110)
    assert host.switched == ["start→", "→start"] * 2
    host.works = True
    looked(begun, clock, 112, 120)
    assert host.switched[4:] == ["start→"]


def test_frames_are_recorded_in_a_second_part(clock: list[float]) -> None:
    host = Host()
    looked(search(host, frames=True), clock, 106, 108, 109, 110, 130)
    assert host.switched == ["start→", "→first", "first→"]


def test_short_programs_have_frames_too(clock: list[float]) -> None:
    host = Host()
    host.works = False
    begun = search(host, frames=True)
    looked(begun, clock, 106, 106.1, 106.25, 106.5, 106.75)
    assert host.switched == ["start→", "→start"] * 2, "after 0.25 s and after 0.5 s more"
    host.works = True
    looked(begun, clock, 107.7, 107.75, 108, 109.7)
    assert host.switched[4:] == ["start→", "→first"], "which is recorded for two seconds"
    looked(begun, clock, 109.75)
    assert host.switched[6:] == ["first→"]


def test_a_first_step_that_takes_long_is_cut_outside_of_ops(clock: list[float]) -> None:
    host = Host()
    begun = search(host)
    clock[0] = 199.5
    begun.work_begins()
    looked(begun, clock, 199.6, 202, 209, 211)
    assert host.switched == ["start→first", "first→"]


def test_what_the_program_chooses_takes_the_place_of_a_search(clock: list[float]) -> None:
    host = Host()
    begun = search(host)
    assert begun.record_rest()
    assert host.switched == ["start→", "→measured"] and host.forgotten == [True]
    assert not begun.record_rest()
    begun.work_begins()
    begun.found(OPTIMIZER, is_anew=True, at_begin=False)
    assert len(host.switched) == 2, "nothing is searched any more"
    assert not search(Host(), early=False).record_rest(), "the user has said which steps"
    host = Host()
    host.may = False
    assert not search(host).record_rest() and host.switched == [], "a graph is being captured"


def test_what_was_counted_is_forgotten_with_a_better_source(clock: list[float]) -> None:
    host = Host()
    begun = search(host)
    begun.work_begins()
    begun.found(FORWARD, is_anew=False, at_begin=True)
    assert (begun.steps_seen, host.forgotten) == (1, [])
    begun.found(OPTIMIZER, is_anew=True, at_begin=False)
    assert (begun.steps_seen, host.forgotten) == (0, [False])
    assert host.switched == ["start→first", "first→"]


@pytest.mark.parametrize(("part", "source", "at_begin", "seen", "text"), [
    (RecordedPart(MEASURED, 3, OPTIMIZER, 1, True), OPTIMIZER, False, 8, "recorded 3 of 8 steps, found by the optimizer's step"),
    (RecordedPart(FIRST, 1, FORWARD, 1, True), FORWARD, True, 1, "recorded 1 of 2 steps, found by the outermost module's forward; 3 were wanted"),
    (RecordedPart(MEASURED, 3, FORWARD, 1, True), OPTIMIZER, False, 1, "recorded 3 steps, found by the outermost module's forward"),
    (RecordedPart(FIRST, 0, PROGRAM, 2.04, True), PROGRAM, False, 1, "no whole step of 1 was recorded: the profile has 2.0 s of 9.0 s (--steps all records everything)"),
    (RecordedPart(START, 0, StepSource.NONE, 2, True), StepSource.NONE, False, 0, "no steps were found (no warplens.step(), no optimizer's step, no module that is called again): the profile has 2.0 s of 9.0 s, without Python frames (--steps all records everything)"),
    (RecordedPart(START, 0, StepSource.NONE, 2, False), StepSource.NONE, False, 0, ""),
])  # fmt: skip
def test_it_is_said_how_much_is_recorded_of_how_much(
    part: RecordedPart, source: StepSource, at_begin: bool, seen: int, text: str, clock: list[float]
) -> None:
    begun = search(Host(), frames=True)
    for _ in range(seen):
        begun._phases.advance()
    begun.found(source, is_anew=False, at_begin=at_begin)
    clock[0] += 9
    assert begun.summary(part, 3) == [text] * bool(text)
    facts = begun.facts(part, gpu=True, recorded=None)
    assert (facts.steps_marked, facts.steps_recorded) == (seen + at_begin, part.steps)
    assert facts.steps_found_by == part.source.name.lower()
    assert not part.source or STEPS_FOUND_BY[part.source.name.lower()] in text or not part.steps


def test_the_recording_of_the_greatest_worth_is_kept_with_what_belongs_to_it(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    files = RecordedFiles(staging)
    launches: list[int] = []
    files.follow(launches)
    kept = []
    for number, part in enumerate((
        RecordedPart(START, 0, StepSource.NONE, 1, True),
        RecordedPart(FIRST, 0, StepSource.NONE, 1, False),  # nothing in it
        RecordedPart(FIRST, 2, FORWARD, 1, True),
        RecordedPart(MEASURED, 0, FORWARD, 1, True),  # no whole step
        RecordedPart(MEASURED, 1, FORWARD, 1, True),
        RecordedPart(FIRST, 0, OPTIMIZER, 1, True),
        RecordedPart(FIRST, 1, OPTIMIZER, 1, True),
        RecordedPart(MEASURED, 3, OPTIMIZER, 1, True),
    )):  # fmt: skip
        files.begin()
        launches.append(number)
        files.trace.write_text(json.dumps({"traceEvents": [], "number": number}))
        files.take(part, [])
        kept.append(launches[:])
    assert kept == [[0], [0], [2], [2], [4], [4], [6], [7]]
    files.pack()
    (packed,) = staging.folder.iterdir()
    assert packed.name == "trace.json.gz"


@pytest.mark.parametrize("plan", [{"steps": 0}, {"steps": 1, "warmup": 1}, {"steps": 1, "data": "tree"}])
def test_what_cannot_be_searched_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="early needs a trace"):
        RecordingPlan(early=True, **plan)
