"""Which warps meet at the barriers of a block, as the hardware counts them, and the barriers that cannot be met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warplens_lab.cuda.barrier_sites import ARRIVE
from warplens_lab.cuda.following import FollowedBlock, FollowedWarp
from warplens_lab.cuda.lanes import LANES
from warplens_run.base.units import listed


def barrier_faults(followed: FollowedBlock, *, is_ordered_otherwise: bool) -> dict[str, str]:
    """Why barriers cannot be met, by their names.

    `is_ordered_otherwise`: warps wait for each other by other means too, which may keep those from meeting that would.
    """
    events = [event for warp in followed.warps for event in warp.events]
    if not followed.is_certain or any(event.number is None or event.threads is None for event in events):
        return {}
    uneven = {event.name: event.threads for event in events if event.threads and event.threads % LANES}
    if uneven:
        return {name: f"{threads} threads are not a multiple of {LANES}" for name, threads in uneven.items()}
    first = _Block(followed.warps)
    if first.stuck:
        return _unmet(first, followed)
    # The other way round: who meets must not depend on which warps come first.
    other = _Block(followed.warps[::-1])
    names = {event.number or 0: event.name for event in events}
    apart = [names[number] for number, met in first.met.items() if _differ(met, other.met.get(number, []))]
    return {} if is_ordered_otherwise else {name: _crowd(*_counts(name, followed)) for name in apart}


def _unmet(block: _Block, followed: FollowedBlock) -> dict[str, str]:
    """Of the barriers that warps wait at in vain, those whose numbers are wrong; all where they wait for each other."""
    wrong = {}
    for name in block.waited_at:
        needed, come = _counts(name, followed)
        if come < min(needed):
            wrong[name] = f"it waits for {min(needed)} threads and {come} come"
        elif come > min(needed) or len(needed) > 1:
            wrong[name] = _crowd(needed, come)
    return wrong or dict.fromkeys(block.waited_at, "all warps wait, here or at other barriers")


def _differ(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> bool:
    """Of as many meetings as both have: the last may lack what was not followed."""
    return any(sorted(a) != sorted(b) for a, b in zip(first, second, strict=False))


def _counts(name: str, followed: FollowedBlock) -> tuple[set[int], int]:
    """The numbers of threads that warps give a barrier, and the threads of all warps that come to it."""
    whole = LANES * len(followed.warps)
    own = [[event for event in warp.events if event.name == name] for warp in followed.warps]
    return {event.threads or whole for events in own for event in events}, LANES * sum(map(bool, own))


def _crowd(needed: set[int], come: int) -> str:
    if len(needed) > 1:
        return f"warps give it different numbers of threads, {listed([str(count) for count in sorted(needed)])}"
    if come <= min(needed):
        return "warps come to it again before the others have come"
    return f"it waits for {min(needed)} threads and {come} come: which of them meet is left to chance"


@dataclass
class _Barrier:
    needed: int
    """Threads; 0 for all of the block that have not ended."""
    arrived: list[int] = field(default_factory=list)
    """Warps, one that arrived twice listed twice."""


class _Block:
    """Lets each warp go on until it waits or ends, the first of those that can first, until none can."""

    def __init__(self, warps: Sequence[FollowedWarp]) -> None:
        self.met: dict[int, list[list[int]]] = {}
        self._events = {warp.warp: list(warp.events) for warp in warps}
        self._at = dict.fromkeys(self._events, 0)
        self._waiting: dict[int, int] = {}
        """The barrier that a warp waits at."""
        self._barriers: dict[int, _Barrier] = {}
        self._names = {event.number or 0: event.name for warp in warps for event in warp.events}
        self._cut = {warp.warp for warp in warps if warp.is_cut}
        while (warp := next((warp for warp in self._events if self._can_go(warp)), None)) is not None:
            self._go(warp)
        self.stuck = bool(self._waiting) and self._cut <= self._waiting.keys()

    @property
    def waited_at(self) -> list[str]:
        return [self._names[number] for number in sorted(set(self._waiting.values()))]

    def _can_go(self, warp: int) -> bool:
        return warp not in self._waiting and self._at[warp] < len(self._events[warp])

    def _go(self, warp: int) -> None:
        event = self._events[warp][self._at[warp]]
        self._at[warp] += 1
        number = event.number or 0
        barrier = self._barriers.setdefault(number, _Barrier(event.threads or 0))
        barrier.arrived.append(warp)
        if event.site.kind != ARRIVE:
            self._waiting[warp] = number
        for other in list(self._barriers):
            self._meet(other)

    def _meet(self, number: int) -> None:
        barrier = self._barriers[number]
        if barrier.needed:
            is_met = LANES * len(barrier.arrived) >= barrier.needed
        else:
            going = {warp for warp, events in self._events.items() if self._at[warp] < len(events)}
            is_met = going | self._cut | self._waiting.keys() <= set(barrier.arrived)
        if is_met and barrier.arrived:
            self.met.setdefault(number, []).append(barrier.arrived)
            del self._barriers[number]
            self._waiting = {warp: at for warp, at in self._waiting.items() if at != number}
