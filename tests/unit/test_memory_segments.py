"""Ranges of a memory history that contradict each other."""

from __future__ import annotations

from random import Random

from warplens.analyses.memory.history import NEVER
from warplens.analyses.memory.segments import ReservedRanges


def test_what_is_reserved_anew_ended_before() -> None:
    ranges = ReservedRanges()
    ranges.reserve(100, 50, 0, 0, is_expandable=False)
    ranges.reserve(120, 50, 1, 0, is_expandable=False)
    ranges.give_back(120, 50, 2, 0, is_expandable=False)
    rows = ranges.frame().select("address", "bytes", "begin", "end").rows()
    assert rows == [(100, 50, 0, 1), (120, 50, 1, 2)]


def test_ranges_in_any_order_are_never_held_twice() -> None:
    for seed in range(200):
        rng, ranges = Random(seed), ReservedRanges()
        for event in range(30):
            change = rng.choice((ranges.reserve, ranges.give_back))
            change(rng.randrange(12), rng.randrange(5), event, 0, is_expandable=False)
            held = [row for row in ranges.rows if row.end == NEVER]
            taken = [byte for row in held for byte in range(row.address, row.address + row.bytes)]
            assert len(taken) == len(set(taken)), seed
