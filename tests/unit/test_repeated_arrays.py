"""Traces with the key `traceEvents` more than once: the last counts, as for JSON's readers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import warplens
from warplens_run.base.errors import FormatError

FIRST = '{"ph":"X","cat":"kernel","name":"first","ts":1,"dur":7,"args":{"stream":7}}'
LAST = '{"ph":"X","cat":"kernel","name":"last","ts":1,"dur":9,"args":{"stream":7}}'
TWICE = {
    "the first is empty": '{"traceEvents": [], "traceEvents": [LAST]}',
    "the first is empty but for a space": '{"schemaVersion": 1, "traceEvents": [ ], "x": {"y": [1]}, "traceEvents" : [LAST], "z": 2}',
    "both have events": '{"traceEvents": [FIRST, FIRST], "traceEvents": [LAST]}',
    "three of them": '{"traceEvents": [FIRST], "traceEvents": [], "traceEvents": [LAST]}',
    "three with events": '{"traceEvents": [FIRST], "traceEvents": [FIRST, FIRST], "traceEvents": [LAST]}',
    "the first is inside of another object": '{"x": {"traceEvents": [FIRST]}, "traceEvents": [LAST]}',
    "the first is damaged": '{"traceEvents": [FIRST, nonsense, FIRST], "traceEvents": [LAST]}',
}  # fmt: skip


@pytest.mark.parametrize("case", TWICE)
def test_of_two_arrays_of_events_the_last_counts(case: str, tmp_path: Path) -> None:
    """As JSON's readers have it; what is not read is counted."""
    text = TWICE[case]
    path = tmp_path / "twice.json"
    path.write_text(text.replace("FIRST", FIRST).replace("LAST", LAST))
    profile = warplens.open(path, cache=False)
    assert [(row["kernel"], row["total_us"]) for row in profile.table("kernels").to_dicts()] == [("last", 9.0)]
    skipped = [note.count for note in profile.trace.quality.notes if note.code == "repeated_array"]
    assert skipped == ([text.count("FIRST")] if "FIRST" in text else [])


def test_an_array_of_that_name_elsewhere_is_not_a_second_one(tmp_path: Path) -> None:
    path = tmp_path / "once.json"
    for tail in (
        '"x": {"traceEvents": [FIRST]}',
        '"x": "\\"traceEvents\\": [", "y": ["traceEvents", []]',
        '"traceEvents": 7',
    ):
        path.write_text(f'{{"traceEvents": [{LAST}], {tail.replace("FIRST", FIRST)}}}')
        profile = warplens.open(path, cache=False)
        assert profile.table("kernels").to_dicts()[0]["kernel"] == "last"
        assert "repeated_array" not in [note.code for note in profile.trace.quality.notes]


def test_a_last_array_without_events_is_the_one_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(f'{{"traceEvents": [{FIRST}], "traceEvents": []}}')
    with pytest.raises(FormatError, match="no trace events"):
        warplens.open(path, cache=False)


def test_many_arrays_and_brackets_take_time_by_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text("{" + '"traceEvents": [],' * 20_000 + '"x": "\\"' + '\\"' * 200_000)
    begun = time.process_time()
    with pytest.raises(FormatError):
        warplens.open(path, cache=False)
    assert time.process_time() - begun < 2
