"""Sequences of kernels that a stream runs again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from support import SAMPLES, Opened, ends, kernel, launch, nightly_after, op
from warplens import native_library
from warplens.analyses.work import sequence_search
from warplens.analyses.work.sequence_search import find_sequences, found_in_python, found_natively
from warplens.model.trace import Ints


def run_of(names: str, stream: int = 7, begin: float = 0, each: float = 10, gap: float = 0) -> list[dict[str, Any]]:
    """A kernel per letter, one after the other."""
    return [kernel(f"{name}_kernel", begin + at * (each + gap), each, stream=stream) for at, name in enumerate(names)]


def rows(profile: Any) -> list[tuple[str, int, int]]:
    table = profile.table("kernel_sequences").to_dicts()
    return [(row["kernels"].replace("_kernel", ""), row["length"], row["count"]) for row in table]


def test_a_layer_is_found_whole_and_once_whatever_kernel_it_is_begun_with(opened: Opened) -> None:
    profile = opened(run_of("x" + "abcd" * 5 + "yz"))
    assert rows(profile) == [("a → b → c → d", 4, 5)]
    (row,) = profile.table("kernel_sequences").to_dicts()
    assert (row["total_us"], row["mean_us"], row["kernel_mean_us"], row["stream"]) == (200.0, 40.0, 10.0, 7)
    assert row["percent"] == pytest.approx(100 * 20 / 23)


def test_what_is_inside_a_longer_sequence_is_listed_where_it_runs_more_often(opened: Opened) -> None:
    profile = opened(run_of("abcabcd" * 3))
    assert rows(profile) == [("a → b → c → a → b → c → d", 7, 3), ("a → b → c", 3, 6)]
    assert "shares do not add up" in profile.table("kernel_sequences").notes[0]


def test_time_between_kernels_is_told_and_repeated_kernels_are_counted(opened: Opened) -> None:
    profile = opened(run_of("aaabaaabaaab", gap=2))
    (row,) = [row for row in profile.table("kernel_sequences").to_dicts() if row["length"] == 4]
    assert row["kernels"] == "a ×3 → b"
    assert row["gap_us"] == pytest.approx(3 * 3 * 2)
    assert row["mean_us"] == pytest.approx(46)


def test_streams_are_apart_and_what_runs_twice_is_no_sequence(opened: Opened) -> None:
    assert rows(opened(run_of("abab", 7) + run_of("abab", 9))) == []
    # Interleaved in time, but not on one stream.
    profile = opened(run_of("aaa", 7, each=10, gap=20) + run_of("bbb", 9, begin=15, each=10, gap=20))
    assert all("→" not in name for name, _, _ in rows(profile))


def test_the_op_is_the_one_in_which_it_begins_most_often(opened: Opened) -> None:
    events = []
    for at in range(4):
        begin = 100 * at
        events += [op("aten::norm" if at else "aten::first", begin, 40), op("aten::mm", begin + 50, 40)]
        events += [launch(begin + 5, 2, 2 * at + 1), launch(begin + 55, 2, 2 * at + 2)]
        events += [kernel("n", begin + 20, 10, 2 * at + 1), kernel("m", begin + 70, 10, 2 * at + 2)]
    (row,) = opened(events).table("kernel_sequences").to_dicts()
    assert (row["kernels"], row["count"], row["op"]) == ("n → m", 4, "aten::norm")


SEARCHES = {"native": found_natively, "Python": found_in_python}
needs_library = pytest.mark.skipif(native_library.library() is None, reason="the native library is not built")


@pytest.mark.parametrize("search", [pytest.param("native", marks=needs_library), "Python"])
@pytest.mark.parametrize("kind", nightly_after(1, ["layers", "one kernel"]))
def test_four_hundred_thousand_kernels_take_seconds(kind: str, search: str) -> None:
    random, count = np.random.default_rng(0), 400_000
    layer = random.integers(0, 40, 60)
    codes = {
        "layers": np.resize(np.concatenate([np.tile(layer, 32), random.integers(0, 99, 30)]), count),
        "one kernel": np.zeros(count, np.int64),
    }[kind]
    with ends(kind):
        found = SEARCHES[search](codes, np.arange(0, 10 * count + 10, 10))
    assert found is not None
    if kind == "layers":
        assert 60 in [sequence.length for sequence in found]
    else:
        assert [(sequence.length, len(sequence.starts)) for sequence in found] == [(2, count // 2)]


def random_codes(random: np.random.Generator) -> Ints:
    """Layers of a few kernels, repeated and nested, with others between them; or nothing but noise."""
    kernels = int(random.integers(1, 9))
    codes = random.integers(0, kernels, int(random.integers(0, 12)))
    for _ in range(int(random.integers(0, 5))):
        noise = random.integers(0, kernels, int(random.integers(0, 6)))
        codes = np.concatenate([np.tile(codes, int(random.integers(1, 6))), noise])[:3000]
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def plain(found: list[sequence_search.Sequence] | None) -> list[tuple[list[int], int, int]] | None:
    return found and [(sequence.starts.tolist(), sequence.length, sequence.time_ns) for sequence in found]


@needs_library
def test_the_native_library_finds_the_sequences_that_python_finds() -> None:
    random = np.random.default_rng(1)
    lengths = set()
    for _ in range(300):
        codes = random_codes(random)
        # Few durations: equal times leave the order to the rest of the rule.
        sums = np.concatenate([[0], np.cumsum(random.integers(0, int(random.integers(1, 9)), len(codes)))])
        expected = found_in_python(codes, sums)
        assert plain(found_natively(codes, sums)) == plain(expected), codes.tolist()
        lengths |= {sequence.length for sequence in expected}
    assert {2, 3, 5, 17} < lengths and max(lengths) > max(sequence_search.LENGTHS)


@needs_library
def test_codes_that_the_native_library_does_not_take_are_left_to_python() -> None:
    codes = np.array([7000, 8, 7000, 8, 7000, 8])
    sums = np.arange(7)
    assert found_natively(codes, sums) is None
    assert plain(find_sequences(codes, sums)) == [([0, 2, 4], 2, 6)]


@needs_library
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_table_of_a_sample_is_the_same_without_the_library(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    natively = warplens.open(sample).table("kernel_sequences").to_dicts()
    monkeypatch.setattr(sequence_search, "found_natively", lambda code, sums_ns: None)
    assert warplens.open(sample).table("kernel_sequences").to_dicts() == natively
