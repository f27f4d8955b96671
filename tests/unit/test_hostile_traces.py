"""Small trace files in which everything is one: one key, one stack, one number. Time grows with the file, not its square.

Where counting is possible, the tests count; the others are of a size at which the square has no end in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import Opened, ends, frame, kernel, launch, op
from warplens.readers.execution_trace.agreement import record_ids
from warplens.readers.kineto import triton_calls as facts_of_launches
from warplens.readers.kineto.triton_calls import triton_calls
from warplens.readers.shared.nearest_word import NearestWord

MANY = 50_000


class CountedText(bytes):
    """Counts the bytes that are searched."""

    searched = 0

    def find(self, word: bytes, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().find(word, start, end)
        self.searched += (at if at >= 0 else len(self)) - start
        return at

    def rfind(self, word: bytes, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().rfind(word, start, end)
        self.searched += (len(self) if end is None else end) - max(at, start)
        return at


def test_the_nearest_word_is_the_same_as_by_a_search_from_each_place() -> None:
    text = b"..ab.abab...b.a.ab" * 3
    nearest = NearestWord(text, b"ab")
    before = [nearest.before(place) for place in range(len(text) + 1)]
    assert before == [text.rfind(b"ab", 0, place) for place in range(len(text) + 1)]
    after = [nearest.after(place) for place in range(len(text) + 1)]
    found = [text.find(b"ab", place) for place in range(len(text) + 1)]
    assert after == [at if at >= 0 else len(text) for at in found]


@pytest.mark.parametrize("reads", [record_ids, triton_calls])
@pytest.mark.parametrize("around", [b"", b"{", b"}", b'{"External id":'])
@pytest.mark.parametrize("key", [b'"Record function id": 5,', b'"kernel_backend": "triton",'])
def test_a_text_of_one_key_is_searched_a_few_times_and_not_once_per_key(
    reads: Callable[[bytes], object], around: bytes, key: bytes
) -> None:
    text = CountedText(around + key * 5000 + around)
    reads(text)
    assert text.searched < 5 * len(text)


def test_an_object_with_a_key_many_times_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(facts_of_launches.bounded, "decoded", lambda text: decoded.append(text) or {"External id": 7})
    assert list(triton_calls(b'{"External id": 7, ' + b'"kernel_backend": "triton", ' * 1000 + b'"x": 1}')) == [7]
    assert len(decoded) == 1


def test_ends_of_other_names_do_not_search_all_that_is_open(opened: Opened) -> None:
    begins = [{"ph": "B", "cat": "cpu_op", "name": "a", "ts": number, "pid": 1, "tid": 1} for number in range(MANY)]
    closes = [{"ph": "E", "name": "b", "ts": MANY + number, "pid": 1, "tid": 1} for number in range(MANY)]
    with ends(f"{MANY} ends"):
        trace = opened([*begins, *closes]).trace
    assert len(trace) == MANY
    assert trace.ints("depth").max() == MANY - 1


def test_the_latest_begin_of_a_name_is_closed_also_after_others_were_dropped(opened: Opened) -> None:
    def event(phase: str, name: str, ts: int) -> dict[str, Any]:
        return {"ph": phase, "cat": "cpu_op", "name": name, "ts": ts, "pid": 1, "tid": 1}

    phases = [("B", "a"), ("B", "b"), ("B", "a"), ("B", "c"), ("E", "b"), ("B", "c"), ("E", "a"), ("E", "a")]
    trace = opened([event(phase, name, ts) for ts, (phase, name) in enumerate(phases)]).trace
    lengths = {trace.names[name]: ns for name, ns in trace.events.select("name", "dur_ns").iter_rows()}
    assert lengths == {"b": 3000, "a": 6000}


def deep_stack(levels: int, name: Callable[[int], str]) -> list[dict[str, Any]]:
    """Ops inside each other, of which every second launches a kernel."""
    events: list[dict[str, Any]] = []
    for level in range(levels):
        events.append(op(name(level), 10 * level, 40 * levels - 20 * level))
        if level % 2:
            events += [launch(10 * level + 2, 3, level), kernel("gemm", 10 * level + 6, 2, level)]
    return events


@pytest.mark.parametrize("names", [1, 3, 40])
def test_the_ops_of_deep_stacks_are_the_same_by_call_as_by_level(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, names: int
) -> None:
    events = deep_stack(60, lambda level: f"aten::op{level * 7 % names}")
    by_level = opened(events).table("ops").to_dicts()
    monkeypatch.setattr("warplens.analyses.work.ops.DEEP", 4)
    assert opened(events).table("ops").to_dicts() == by_level


def test_deep_stacks_take_no_longer_than_flat_ones(opened: Opened) -> None:
    with ends("a stack of 20,000 ops"):
        table = opened(deep_stack(20_000, lambda level: f"aten::op{level}")).table("ops").frame
    outermost = table.filter(op="aten::op0").to_dicts()[0]
    assert outermost["subtree_kernel_us"] == 10_000 * 2


def test_modules_that_are_nested_too_deep_are_one_row(opened: Opened) -> None:
    """As many levels as calls: their paths written out would be the square of them, 13 GB of a file of 18 MB."""
    events: list[dict[str, Any]] = []
    for level in range(1, 301):
        facts = {"Python id": level, "Python parent id": level - 1 or None, "Python module id": level}
        events.append(frame(f"nn.Module: Layer_{level}", 10 * level, 12_000 - 20 * level, **facts))
        events += [op("aten::mm", 10 * level + 1, 7), launch(10 * level + 2, 3, level)]
        events += [kernel("gemm", 10 * level + 6, 2, level)]
    modules = opened(events).table("modules").frame
    assert modules["kernel_us"].sum() == 600
    assert modules["subtree_kernel_us"].max() == 600
    deeper = modules.filter(modules["module"].str.ends_with("/…")).to_dicts()
    assert [row["count"] for row in deeper] == [300 - 101]
    assert modules["depth"].max() == 101
