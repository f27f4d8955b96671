"""Steady state: the longest stretch of iterations in which about as many requests generate."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np

from warplens.analyses.serving.iterations import served, windows
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.trace import Bools, Ints
from warplens.model.tree import Floats

SPREAD: Final = 1.2
"""Iterations are alike while the most requests (of prompts: tokens) are at most this many times the least."""
LEAST: Final = 3
SLOW: Final = 1.5
"""An iteration at either end of the stretch that takes longer than this many times the median is warm-up or tail."""
WHOLE_SHARE: Final = 0.9
"""One with fewer GPU events than this share of the median is cut off by the end of the recording."""


class Steady(NamedTuple):
    """`chosen` says of each iteration whether it is in steady state; `text` says what was left out, for notes."""

    chosen: Bools
    text: str


@shared
def steady_state(work: Workspace) -> Steady:
    iterations, times = served(work), windows(work)
    assert iterations is not None
    generating = np.array([span.mark.phase != "prefill" for span in iterations.spans])
    alike = _sizes(work, generating)
    rows = np.flatnonzero(generating if generating.any() else ~generating)
    rows = rows[np.argsort(times.start_ns[rows], kind="stable")]
    first, last = _longest(alike[rows])
    stretch = _trimmed(rows[first:last], times.time_ns, _event_counts(work))
    chosen = np.zeros(len(iterations), bool)
    if len(stretch) < LEAST:
        return Steady(
            chosen, f"no steady state: fewer than {LEAST} similar iterations in a row; rates are of all iterations"
        )
    # Prompts that run between two iterations of the stretch are part of what the server does then.
    within = (times.start_ns >= times.start_ns[stretch[0]]) & (times.end_ns <= times.end_ns[stretch[-1]])
    chosen[within & (~generating if generating.any() else generating)] = True
    chosen[stretch] = True
    return Steady(chosen, _text(chosen))


def _text(chosen: Bools) -> str:
    kept = np.flatnonzero(chosen)
    head, tail = int(kept[0]), len(chosen) - 1 - int(kept[-1])
    inside = int(kept[-1]) - int(kept[0]) + 1 - len(kept)
    omitted = [f"{head} before it" if head else "", f"{inside} in between" if inside else "",
               f"{tail} after it" if tail else ""]  # fmt: skip
    parts = ", ".join(part for part in omitted if part)
    text = f"rates are of the steady state, iterations {kept[0]} to {kept[-1]}"
    return f"{text}; omitted: {parts}" if parts else text


def _sizes(work: Workspace, generating: Bools) -> Floats:
    """What iterations are compared by: requests that generate; of prompts their tokens. 0 where it is not recorded."""
    iterations = served(work)
    assert iterations is not None
    marks = [span.mark for span in iterations.spans]
    return np.array(
        [
            float((mark.generation.requests if generates else mark.context.query_tokens) or 0)
            for mark, generates in zip(marks, generating.tolist(), strict=True)
        ]
    )


def _event_counts(work: Workspace) -> Ints:
    iterations = served(work)
    assert iterations is not None
    own = iterations.event_iteration
    return np.bincount(own[own >= 0], minlength=len(iterations))


def _longest(sizes: Floats) -> tuple[int, int]:
    """The longest range whose largest value is at most `SPREAD` times its smallest; of equal ones the last.

    >>> _longest(np.array([1, 8, 30, 32, 31, 30, 4]))
    (2, 6)
    """
    largest: deque[int] = deque()
    smallest: deque[int] = deque()
    best, first = (0, 0), 0
    for place, size in enumerate(sizes.tolist()):
        while largest and sizes[largest[-1]] <= size:
            largest.pop()
        while smallest and sizes[smallest[-1]] >= size:
            smallest.pop()
        largest.append(place)
        smallest.append(place)
        while sizes[largest[0]] > SPREAD * sizes[smallest[0]]:
            first += 1
            if largest[0] < first:
                largest.popleft()
            if smallest[0] < first:
                smallest.popleft()
        if place + 1 - first >= best[1] - best[0]:
            best = (first, place + 1)
    return best


def _trimmed(rows: Ints, time_ns: Ints, events: Ints) -> Ints:
    """The stretch without slow iterations at its ends and without one that the recording's end cuts off."""
    if len(rows) < LEAST:
        return rows
    usual, usual_events = float(np.median(time_ns[rows])), float(np.median(events[rows]))
    while len(rows) > LEAST and time_ns[rows[0]] > SLOW * usual:
        rows = rows[1:]
    while len(rows) > LEAST and (time_ns[rows[-1]] > SLOW * usual or events[rows[-1]] < WHOLE_SHARE * usual_events):
        rows = rows[:-1]
    return rows
