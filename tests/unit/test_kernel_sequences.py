"""Sequences of kernels that a stream runs again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support import Opened, ends, kernel, launch, op
from warplens.analyses.work import kernel_sequences as sequences


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


@pytest.mark.parametrize("kind", ["layers", "one kernel"])
def test_four_hundred_thousand_kernels_take_seconds(kind: str) -> None:
    random, count = np.random.default_rng(0), 400_000
    layer = random.integers(0, 40, 60)
    codes = {
        "layers": np.resize(np.concatenate([np.tile(layer, 32), random.integers(0, 99, 30)]), count),
        "one kernel": np.zeros(count, np.int64),
    }[kind]
    stream = sequences._Stream(np.arange(count), codes, np.arange(0, 10 * count + 10, 10))
    with ends(kind):
        found = sequences._distinct(sequences._candidates(stream), count)
    if kind == "layers":
        assert 60 in [sequence.length for sequence in found]
    else:
        assert [(sequence.length, len(sequence.starts)) for sequence in found] == [(2, count // 2)]
