"""Who holds memory, worked out for all allocations at once, against a reading of one event after the other."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from warplens.analyses.memory.classifying import PHASES, Passes
from warplens.analyses.memory.history import HELD, NEVER
from warplens.analyses.memory.labels import BACKWARD, FORWARD, OPTIMIZER
from warplens.analyses.memory.profiled import held_of

EVENTS = st.lists(st.tuples(st.integers(-1, 4), st.integers(-3, 3)), max_size=40)
LABELS = st.lists(st.sampled_from((FORWARD, BACKWARD, OPTIMIZER, "")), min_size=1, max_size=30)


def one_by_one(events: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Address, bytes, begin and end of each allocation."""
    rows: list[list[int]] = []
    live: dict[int, list[int]] = {}
    for number, (address, size) in enumerate(events):
        if address < 0 or not size:
            continue
        if size > 0:
            live[address] = [address, size, number, NEVER]
            rows.append(live[address])
        elif address in live:
            live.pop(address)[3] = number
        else:
            rows.append([address, -size, -1, number])
    return [(address, size, begin, end) for address, size, begin, end in rows]


@given(EVENTS)
def test_allocations_end_with_the_next_free_at_their_address(events: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(events, schema={"address": pl.Int64, "bytes": pl.Int64}, orient="row")
    held = held_of(frame)
    assert dict(held.schema) == HELD
    assert held.select("address", "bytes", "begin", "end").rows() == one_by_one(events)


@given(LABELS, st.data())
def test_passes_are_those_of_the_last_known_event(labels: list[str], data: st.DataObject) -> None:
    count = len(labels)
    passes = Passes(count, [(np.arange(count), pl.Series(labels))])
    phases, phase = [], 0
    for label in labels:
        phase = PHASES.get(label, 0) or phase
        phases.append(phase)
    starts = [0, *(event for event in range(1, count) if phases[event] != phases[event - 1])]
    backward = [event for event in starts if phases[event] == PHASES[BACKWARD]]
    begin = data.draw(st.integers(-1, count - 1))
    end = data.draw(st.one_of(st.integers(0, count - 1), st.just(NEVER)))
    one = np.array([begin]), np.array([end])
    following, next_backward = (bisect_right(events, max(begin, 0)) for events in (starts, backward))
    assert passes.is_left(*one).tolist() == [following < len(starts) and starts[following] <= end]
    assert passes.backward_within(*one).tolist() == [next_backward < len(backward) and backward[next_backward] < end]
    assert passes.in_backward(one[1]).tolist() == [end < count and phases[min(end, count - 1)] == PHASES[BACKWARD]]
