"""Scopes: cheap while nothing records, nested, re-entrant, one stack per thread."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

import pytest

from support import HANG_SECONDS
from warplens_run.base.errors import UsageError
from warplens_run.capture import scopes
from warplens_run.capture.scopes import enter_scope, exit_scope, scope


class Recorder:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def enter(self, name: str, metrics: Any) -> str:
        self.heard.append(("enter", name, dict(metrics), threading.current_thread().name))
        return name

    def exit(self, handle: str, depth: int) -> None:
        self.heard.append(("exit", handle, depth, threading.current_thread().name))

    @property
    def path(self) -> list[str]:
        return [f"{'+' if what == 'enter' else '-'}{name}" for what, name, *_ in self.heard]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    heard = Recorder()
    scopes.set_recorders((heard,))
    yield heard
    scopes.set_recorders(())


def test_nothing_is_heard_without_a_session() -> None:
    heard = Recorder()
    with scope("a", {"flops": 1}):
        scopes.set_recorders((heard,))
    scopes.set_recorders(())
    assert heard.heard == [], "a scope entered before recording is not left in it"


def test_scopes_nest_and_carry_metrics(recorder: Recorder) -> None:
    with scope("outer"), scope("inner", {"flops": 2, "tokens": 3.5}):
        pass
    assert recorder.path == ["+outer", "+inner", "-inner", "-outer"]
    assert recorder.heard[1][2] == {"flops": 2.0, "tokens": 3.5}
    assert [depth for what, _, depth, _ in recorder.heard if what == "exit"] == [1, 0]


def test_one_scope_enters_itself(recorder: Recorder) -> None:
    again = scope("again")
    with again, again:
        pass
    assert recorder.path == ["+again", "+again", "-again", "-again"]


def test_a_scope_closes_when_its_block_raises(recorder: Recorder) -> None:
    with pytest.raises(KeyError), scope("fails"):
        raise KeyError
    assert recorder.path == ["+fails", "-fails"]


def test_a_decorated_function_keeps_its_name_and_value(recorder: Recorder) -> None:
    @scope("work", {"bytes": 8})
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Twice.")
    assert recorder.path == ["+work", "-work"]


def test_each_thread_has_its_own_stack(recorder: Recorder) -> None:
    shared = scope("shared")
    both_inside = threading.Barrier(2, timeout=HANG_SECONDS)

    def work() -> None:
        with shared:
            both_inside.wait()
            both_inside.wait()

    threads = [threading.Thread(target=work, name=name) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("one", "two"):
        own = [what for what, _, _, thread in recorder.heard if thread == name]
        assert own == ["enter", "exit"]


def test_enter_and_exit_without_a_block(recorder: Recorder) -> None:
    enter_scope("a", {"flops": 1})
    enter_scope("b")
    with pytest.raises(UsageError, match="innermost scope is 'b'"):
        exit_scope("a")
    exit_scope("b")
    exit_scope()
    exit_scope()  # nothing is open: nothing happens
    assert recorder.path == ["+a", "+b", "-b", "-a"]


def test_exit_scope_leaves_blocks_alone(recorder: Recorder) -> None:
    with scope("block"):
        exit_scope()
    assert recorder.path == ["+block", "-block"]


def test_a_metric_must_be_a_number(recorder: Recorder) -> None:
    with pytest.raises(UsageError, match="not a number"), scope("bad", {"flops": "many"}):  # type: ignore[dict-item]
        pass
    assert recorder.heard == []


def test_what_is_no_finite_number_is_left_out_and_counted(recorder: Recorder) -> None:
    scopes.take_omitted_count()
    with scope("s", {"flops": 1, "loss": math.nan, "ratio": -math.inf}):
        pass
    assert recorder.heard[0][2] == {"flops": 1.0}
    assert (scopes.take_omitted_count(), scopes.take_omitted_count()) == (2, 0)


def test_numbers_of_numpy_are_numbers(recorder: Recorder) -> None:
    import numpy as np

    with scope("s", {"a": np.float32(1.5), "b": np.int64(-2), "c": np.bool_(True)}):
        pass
    assert recorder.heard[0][2] == {"a": 1.5, "b": -2.0, "c": 1.0}


def test_a_name_may_be_anything(recorder: Recorder) -> None:
    for name in (5, ""):
        with scope(name):  # type: ignore[arg-type]
            pass
    assert recorder.path == ["+5", "-5", "+(unnamed)", "-(unnamed)"]


def test_scopes_of_generators_close_in_any_order(recorder: Recorder) -> None:
    def turns(name: str) -> Iterator[None]:
        with scope(name):
            yield

    first, second = turns("first"), turns("second")
    next(first), next(second)
    list(first), list(second)
    with scope("after"):
        pass
    assert recorder.path == ["+first", "+second", "-first", "-second", "+after", "-after"]


def test_scopes_of_tasks_close_in_any_order(recorder: Recorder) -> None:
    @scope("work")
    async def work(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async def both() -> list[int]:
        return await asyncio.gather(work(1), work(3))

    assert asyncio.run(both()) == [1, 3]
    assert recorder.path == ["+work", "+work", "-work", "-work"]


def test_a_decorated_generator_runs_inside_its_scope(recorder: Recorder) -> None:
    @scope("counting")
    def counting() -> Generator[int, str, str]:
        heard = yield 1
        return heard

    steps = counting()
    assert recorder.path == []
    assert next(steps) == 1
    with pytest.raises(StopIteration) as ended:
        steps.send("two")
    assert ended.value.value == "two"
    assert recorder.path == ["+counting", "-counting"]


def test_an_async_generator_runs_inside_its_scope(recorder: Recorder) -> None:
    @scope("tokens")
    async def tokens() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    async def read() -> list[int]:
        return [token async for token in tokens()]

    assert asyncio.run(read()) == [1, 2]
    assert recorder.path == ["+tokens", "-tokens"]


def test_a_scope_that_opens_while_paused_does_not_close_the_one_around_it(recorder: Recorder) -> None:
    enter_scope("heard")
    scopes.set_recorders(())
    enter_scope("paused")
    exit_scope("paused")
    scopes.set_recorders((recorder,))
    exit_scope("heard")
    assert recorder.path == ["+heard", "-heard"]


def test_exit_scope_finds_its_scope_below_a_block(recorder: Recorder) -> None:
    enter_scope("outer")
    with scope("block"):
        exit_scope("outer")
    assert recorder.path == ["+outer", "+block", "-outer", "-block"]


def test_a_scope_costs_little_while_nothing_records() -> None:
    """Counted instead of timed: its three methods, which call nothing. That is 0.4 µs where a call takes 0.05."""
    calls: list[str] = []

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_name if event == "call" else argument.__name__)

    sys.setprofile(count)
    try:
        with scope("idle"):
            pass
    finally:
        sys.setprofile(None)
    assert calls == ["__init__", "__enter__", "__exit__", "setprofile"]
