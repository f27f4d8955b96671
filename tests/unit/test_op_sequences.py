"""`op_sequences`: the kernels that the calls of each op launch, in order."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, kernel, launch, memset, op

Event = dict[str, Any]


def linear(at: float, first: int, *, has_memset: bool = False, runs_at: float = 0) -> list[Event]:
    """linear → addmm with a product and a bias kernel, which run in that order; optionally a memset before them."""
    runs = runs_at or at + 100
    events = [op("aten::linear", at, 40), op("aten::addmm", at + 5, 30)]
    events += [launch(at + 10 + place, 1, first + place) for place in range(3 if has_memset else 2)]
    if has_memset:
        events.append(memset(runs - 5, 2, first + 2))
    return [*events, kernel("gemm", runs, 20, first), kernel("bias", runs + 20, 5, first + 1)]


def rows(profile: warplens.Profile) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["op"], row["kernels"]): row for row in profile.table("op_sequences").to_dicts()}


def test_calls_of_an_op_are_counted_by_the_sequence_that_they_launch(opened: Opened) -> None:
    events = [annotation("ProfilerStep#0", 0, 100), *linear(0, 1), *linear(200, 10), *linear(400, 20, has_memset=True)]
    found = rows(opened(events))
    twice, once = found["aten::linear", "gemm → bias"], found["aten::linear", "memset → gemm → bias"]
    assert [twice[name] for name in ("length", "count", "total_us", "mean_us", "host_us", "step_us")] == [
        2,
        2,
        50,
        25,
        80,
        25,
    ]
    assert [once[name] for name in ("length", "count", "total_us", "mean_us", "host_us")] == [3, 1, 27, 27, 40]
    assert twice["percent"] == pytest.approx(100 * 50 / 77)
    assert found["aten::addmm", "gemm → bias"]["count"] == 2, "inner ops have sequences of their own"
    assert set(found) == {
        (name, text) for name in ("aten::linear", "aten::addmm") for text in ("gemm → bias", "memset → gemm → bias")
    }


def test_kernels_are_in_the_order_in_which_they_run(opened: Opened) -> None:
    events = [
        op("aten::pair", 0, 50),
        launch(5, 1, 1),
        launch(10, 1, 2),
        kernel("a", 300, 5, 1),
        kernel("b", 200, 5, 2, stream=8),
    ]
    assert list(rows(opened(events))) == [("aten::pair", "b → a")]


def test_a_call_inside_a_call_of_the_same_op_is_part_of_it(opened: Opened) -> None:
    events = [
        op("aten::to", 0, 50),
        op("aten::copy_", 2, 46),
        op("aten::to", 5, 40),
        launch(10, 1, 1),
        kernel("copy", 100, 5, 1),
    ]
    found = rows(opened(events))
    assert {key: row["count"] for key, row in found.items()} == {("aten::to", "copy"): 1, ("aten::copy_", "copy"): 1}
    assert found["aten::to", "copy"]["host_us"] == 50


def test_the_same_kernels_in_another_order_or_number_are_another_sequence(opened: Opened) -> None:
    def call(at: float, first: int, *names: str) -> list[Event]:
        launches = [launch(at + 1 + place, 0.5, first + place) for place in range(len(names))]
        kernels = [kernel(name, at + 30 + 10 * place, 5, first + place) for place, name in enumerate(names)]
        return [op("aten::x", at, 20), *launches, *kernels]

    events = [*call(0, 1, "a", "b"), *call(100, 10, "b", "a"), *call(200, 20, "a", "b", "b"), *call(300, 30, "a", "b")]
    assert {text: row["count"] for (_, text), row in rows(opened(events)).items()} == {
        "a → b": 2, "b → a": 1, "a → b ×2": 1,
    }  # fmt: skip


def test_a_trace_without_ops_says_why_there_is_none(opened: Opened) -> None:
    table = opened([launch(0, 1, 1), kernel("a", 5, 5, 1)]).table("op_sequences")
    assert len(table) == 0 and table.notes == ("no GPU event of this trace has an op",)
