"""The time limit on a learner's code is reported as such wherever it strikes. No test here depends on real time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
if not hasattr(signal, "setitimer"):
    pytest.skip("this system has no timer of CPU time", allow_module_level=True)

from warplens_lab.puzzles import child, limits
from warplens_lab.puzzles.catalogue import find
from warplens_lab.puzzles.checking import AnswerCheck, check_file
from warplens_lab.puzzles.child import check_answers
from warplens_lab.puzzles.files import text_of
from warplens_lab.tracing.interpreter.routing import load_interpreter

KERNEL = "long_row_sum"
FIRST_LINE_OF_KERNEL = 8
LONG = 1e6
"""CPU seconds that no test takes: here the signal comes when the test says so."""
MOMENTS = (*((events, "") for events in range(0, 8000, 110)), *((events, KERNEL) for events in range(0, 30000, 131)))


def answer(folder: Path, loop: str = "iter(int, 1)", extra: str = "") -> Path:
    """The solution of a puzzle with another loop, in lines 11 to 13: one without an end. `extra` stands below it."""
    text = text_of(find("long_row_sum"), "solution")
    assert "range(0, columns, BLOCK)" in text
    file = folder / "learner.py"
    file.write_text(text.replace("range(0, columns, BLOCK)", loop) + extra)
    return file


def line_of_the_answer(frame: FrameType | None) -> int:
    while frame is not None and Path(frame.f_code.co_filename).name != "learner.py":
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


@contextmanager
def signal_after(events: int, kernel: str = "") -> Iterator[Callable[[], tuple[str, int]]]:
    """Sends the timer's signal after so many calls and returns of any function, C functions too, under a limit.

    They are counted from the beginning, or from the first call of that kernel.
    It gives the function in which the signal came, and the line of the answer that it was called from, 0 for none.
    """
    count, struck = 0, ("", 0)
    enter, leave = limits._Running.__enter__, limits._Running.__exit__

    def enter_and_count(running: Any) -> None:
        def profile(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal count, struck
            begun = not kernel or count or frame.f_code.co_name == kernel
            count += bool(begun)
            if count > events and not struck[0] and running._counting:
                struck = (f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}", line_of_the_answer(frame))
                signal.raise_signal(signal.SIGPROF)

        enter(running)
        sys.setprofile(profile)

    def leave_and_stop(running: Any, *error: Any) -> None:
        try:
            leave(running, *error)
        finally:
            sys.setprofile(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits._Running, "__enter__", enter_and_count)
        patch.setattr(limits._Running, "__exit__", leave_and_stop)
        before = signal.signal(signal.SIGPROF, signal.SIG_IGN)  # a signal after the block must not end this process
        try:
            yield lambda: struck
        finally:
            signal.signal(signal.SIGPROF, before)


def changed_state() -> tuple[object, ...]:
    """What a launch changes in Triton while it runs."""
    interpreter = load_interpreter()
    builder, language = interpreter.interpreter_builder, interpreter.tl
    return (
        tuple(sorted(vars(builder))),
        builder.options,
        interpreter.GridExecutor.__call__,
        interpreter._implicit_cvt,
        type(builder).create_masked_load,
        tuple(sorted((name, id(value)) for name, value in vars(language).items() if not name.startswith("__"))),
        tuple(sorted((name, id(value)) for name, value in vars(language.tensor).items() if not name.startswith("__"))),
    )


def assert_sound(before: tuple[object, ...], folder: Path) -> None:
    assert changed_state() == before
    file = folder / "right.py"
    file.write_text(text_of(find("vector_add"), "solution"))
    assert check_file(file, find("vector_add")).report.passed
    assert sys.gettrace() is None


def the_line(check: AnswerCheck) -> int:
    (problem,) = check.report.problems
    assert problem.kind == "out_of_time"
    return problem.spots[0].line if problem.spots else 0


@pytest.mark.nightly
def test_wherever_the_limit_strikes_it_is_reported_with_its_statement(tmp_path: Path) -> None:
    puzzle = find("long_row_sum")
    check_file(answer(tmp_path, "range(0, columns, BLOCK)"), puzzle)  # all that a check needs is imported
    file, before = answer(tmp_path), changed_state()
    functions, lines = set(), set()
    for events, since in MOMENTS:
        with signal_after(events, since) as struck:
            check = check_file(file, puzzle, LONG)
        function, line = struck()
        reported = the_line(check)
        assert reported == line or (line == 0 and reported > 0), (events, function)
        assert bool(check.report.trouble) == (check.trace is None) == (reported < FIRST_LINE_OF_KERNEL)
        assert not check.stopped_midway
        functions.add(function)
        lines.add(reported)
    assert len(functions) > 60, (sorted(functions), lines)
    assert lines >= {1, 7, 10, 12, 13}
    assert_sound(before, tmp_path)


def test_a_loop_without_an_end_is_stopped_in_its_line(tmp_path: Path) -> None:
    # The timer starts to run in the loop itself: however slow this machine is, the answer is in the loop by then.
    soon = "\n\ndef soon():\n    signal.setitimer(signal.ITIMER_PROF, 0.02, 0.1)\n    return iter(int, 1)\n"
    check = check_file(answer(tmp_path, "soon()", f"{soon}\n\nimport signal\n"), find("long_row_sum"), LONG)
    assert the_line(check) in (11, 12, 13)
    assert check.report.problems[0].spots[0].program == "program 0"
    assert check.trace is not None
    assert check.trace.launches[0].accesses


def test_code_that_catches_every_error_is_stopped_all_the_same(tmp_path: Path) -> None:
    stubborn = """

def forever():
    while True:
        try:
            signal.raise_signal(signal.SIGPROF)
            caught = False
        except Exception:
            caught = True


import signal
"""
    check = check_file(answer(tmp_path, "forever()", stubborn), find("long_row_sum"), LONG)
    assert the_line(check) == 20
    assert not check.stopped_midway


def test_a_launch_that_ends_after_the_limit_is_over_the_limit(tmp_path: Path) -> None:
    file = answer(tmp_path, "late(columns, BLOCK)")
    file.write_text(file.read_text().replace("import triton\n", "import triton\nfrom late import late\n", 1))
    (tmp_path / "late.py").write_text(
        "import signal\n\n\ndef late(*sizes):\n    signal.raise_signal(signal.SIGPROF)\n    return ()\n"
    )
    check = check_file(file, find("long_row_sum"), LONG)
    assert the_line(check) == 12
    assert not check.stopped_midway


@pytest.mark.nightly
@pytest.mark.usefixtures("warm_runner")
def test_code_elsewhere_is_stopped_too_and_the_next_answer_gets_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "import signal\n\n\ndef spin():\n    while True:\n        signal.raise_signal(signal.SIGPROF)\n"
    )
    file = answer(tmp_path, "spin()")
    file.write_text(file.read_text().replace("import triton\n", "import triton\nfrom elsewhere import spin\n", 1))
    right = tmp_path / "right.py"
    right.write_text(text_of(find("vector_add"), "solution"))
    folder = tmp_path / "traces"
    folder.mkdir()
    answers = [(file, find("long_row_sum")), (right, find("vector_add"))]
    stopped, passed = check_answers(answers, folder, LONG / 1000)
    assert [problem.kind for problem in stopped.report.problems] == ["out_of_time"]
    assert stopped.report.problems[0].spots[0].line == 12
    assert passed.report.passed


def test_a_file_that_does_not_end_when_it_is_imported_is_named_with_its_line(tmp_path: Path) -> None:
    file = answer(tmp_path, extra="\n\nimport signal\nwhile True:\n    signal.raise_signal(signal.SIGPROF)\n")
    check = check_file(file, find("long_row_sum"), LONG)
    assert check.report.trouble == "learner.py, line 19: was still running when the time was up, outside of its kernel"
    assert the_line(check) == 19


@pytest.mark.parametrize(("ending", "trouble"), [
    ("time.sleep(3600)", "its process took longer than 1 s and was stopped"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "its process was killed, as the system does where memory runs out"),
], ids=["silent", "killed"])  # fmt: skip
def test_a_silent_answer_is_distinguished_from_one_that_the_system_kills(
    ending: str, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = answer(tmp_path, extra=f"\n\nimport os, signal, time\n{ending}\n")
    # However slow this machine is, the first does not end by itself, and the second has all the time it needs.
    monkeypatch.setattr(child, "START_SECONDS", 0 if "sleep" in ending else LONG)
    (result,) = check_answers([(file, find("long_row_sum"))], tmp_path, 1.0)
    assert result.report.trouble == f"learner.py: {trouble}"
    assert result.trace is None
