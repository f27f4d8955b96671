"""The barriers of a block: which warps come to each, with which numbers, and which cannot be met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warplens_lab.cuda.activity import Activity
from warplens_lab.cuda.barrier_sites import ARRIVE, BarrierSite, barrier_site
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import EXIT
from warplens_lab.cuda.following import MOST_BARRIERS, BarrierEvent, FollowedBlock
from warplens_lab.cuda.lanes import EDGE, UNIFORM
from warplens_lab.cuda.meetings import barrier_faults
from warplens_lab.facts.locations import users_place
from warplens_lab.facts.records import BarrierUse, SourcePlace
from warplens_lab.facts.tables import ranges

_WAITS: Final = ("mbarrier", "cluster", ".acquire", ".volatile", ".cas", ".exch")


@dataclass(frozen=True)
class _Visit:
    """A warp at a barrier; `numbers` are all that it may come with, empty where they are not known."""

    warp: int
    numbers: frozenset[int]
    name: str
    threads: int | None


def barriers(
    evaluation: Evaluation, activity: Activity, followed: FollowedBlock | None, *, is_assumed: bool
) -> tuple[BarrierUse, ...]:
    """One record per line, kind, number of threads and warps that come with the same numbers.

    `is_assumed`: nothing says how many threads a block has, so that others may come.
    """
    faults = _faults(evaluation, followed, is_assumed=is_assumed) if followed else {}
    parting = list(_parting(evaluation))
    # Of a loop that was unrolled, not all of whose turns were followed, the others are the same.
    visited = {(event.site.place, event.site.kind) for w in (followed.warps if followed else ()) for event in w.events}
    uses: dict[tuple[SourcePlace, str, int], list[tuple[_Visit, bool, SourcePlace | None]]] = {}
    for block in evaluation.flow.order:
        for statement in evaluation.flow.blocks[block].statements:
            site = barrier_site(statement)
            if site is None:
                continue
            apart = next((line for line, blocks in parting if block in blocks), None) if site.kind != ARRIVE else None
            warps = np.flatnonzero(activity.of(block, statement).any(axis=1)).tolist()
            in_loop = evaluation.flow.in_loop(block)
            visits = _visits(site, followed)
            if (site.place, site.kind) not in visited:
                visits = _possible(site, evaluation, block, warps)
            for visit in visits:
                uses.setdefault((site.place, site.kind, visit.threads or 0), []).append((visit, in_loop, apart))
    return tuple(use for key in sorted(uses) for use in _together(key, uses[key], faults))


def _visits(site: BarrierSite, followed: FollowedBlock | None) -> list[_Visit]:
    return [
        _Visit(warp.warp, _numbers(event), event.name, event.threads or None)
        for warp in (followed.warps if followed else ())
        for event in warp.events
        if event.site == site
    ]


def _numbers(event: BarrierEvent) -> frozenset[int]:
    return frozenset((event.number,)) if event.number is not None and event.number < MOST_BARRIERS else frozenset()


def _possible(site: BarrierSite, evaluation: Evaluation, block: int, warps: list[int]) -> list[_Visit]:
    """By the values of all ways together, where no warp was followed to it."""
    first, last = _ends(site.number, evaluation, block)
    numbers = frozenset(range(first, last + 1)) if first is not None and last is not None else frozenset[int]()
    threads = _ends(site.threads, evaluation, block)[0] if site.threads else None
    return [_Visit(warp, numbers, "?", threads) for warp in warps]


def _together(
    key: tuple[SourcePlace, str, int], visits: list[tuple[_Visit, bool, SourcePlace | None]], faults: dict[str, str]
) -> Iterator[BarrierUse]:
    """Where a loop was unrolled, all its turns; warps that come with other numbers apart."""
    place, kind, threads = key
    by_warp: dict[int, list[_Visit]] = {}
    for visit, _, _ in visits:
        by_warp.setdefault(visit.warp, []).append(visit)
    groups: dict[tuple[frozenset[int], tuple[str, ...]], list[int]] = {}
    for warp, own in sorted(by_warp.items()):
        numbers = frozenset[int]().union(*(visit.numbers for visit in own))
        named = tuple(sorted({visit.name for visit in own if not visit.numbers}))
        groups.setdefault((numbers, named), []).append(warp)
    for (numbers, named), warps in groups.items():
        names = [ranges(sorted(numbers))] * bool(numbers) + list(named)
        fault = next((faults[str(name)] for name in (*sorted(numbers), *named) if str(name) in faults), "")
        yield BarrierUse(
            place, kind, None if named else min(numbers), None if named else max(numbers), threads or None,
            tuple(warps), any(in_loop for _, in_loop, _ in visits),
            next((apart for _, _, apart in visits if apart is not None), None), ", ".join(names), fault,
        )  # fmt: skip


def _faults(evaluation: Evaluation, followed: FollowedBlock, *, is_assumed: bool) -> dict[str, str]:
    faults = barrier_faults(followed, is_ordered_otherwise=_is_ordered_otherwise(evaluation))
    if not is_assumed:
        return faults
    # A barrier that every warp of the block comes to may be right for a block of another size.
    everybody = {event.name for event in followed.warps[0].events}
    for warp in followed.warps:
        everybody &= {event.name for event in warp.events}
    return {name: text for name, text in faults.items() if name not in everybody}


def _is_ordered_otherwise(evaluation: Evaluation) -> bool:
    """Barriers in shared memory or of a cluster, and flags that warps wait for."""
    statements = (s for block in evaluation.flow.order for s in evaluation.flow.blocks[block].statements)
    return any(
        statement.base == "mbarrier" or any(word in statement.name for word in _WAITS) for statement in statements
    )


def _ends(operand: str, evaluation: Evaluation, block: int) -> tuple[int | None, int | None]:
    """An operand's lowest and highest value."""
    value = evaluation.value(operand, block)
    if not value.is_known or not value.is_uniform:
        return None, None
    low, high = int(value.known.min()), int(value.known.max())
    for symbol, factor in value.terms:
        if symbol not in evaluation.ranges:
            return None, None
        ends = [factor * end for end in evaluation.ranges[symbol]]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _parting(evaluation: Evaluation) -> Iterator[tuple[SourcePlace, set[int]]]:
    """Conditions that part the lanes of a warp, and the blocks that these are in apart.

    Lanes that have ended are not waited for, so a condition after which the others only end does not count.
    """
    flow = evaluation.flow
    for block, condition in evaluation.branches.items():
        jump = flow.blocks[block].condition
        place = users_place(jump.frames) if jump else None
        meeting = flow.meeting(block)
        only_ends = meeting == EXIT or all(statement.ends for statement in flow.blocks[meeting].statements)
        # How often a loop turns may be the same for all lanes although each compares an index of its own.
        leaves = condition.difference == EDGE and any(
            block in loop and not set(flow.blocks[block].successors) <= loop for loop in flow.loops
        )
        if place is not None and condition.difference != UNIFORM and not only_ends and not leaves:
            yield SourcePlace(place.file, place.line), flow.parted(block)
