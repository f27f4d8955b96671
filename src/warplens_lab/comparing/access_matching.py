"""The accesses of two compilations of a kernel, matched one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product
from typing import Final, Generic, TypeVar

from warplens_lab.facts.records import Access, KernelFacts, SharedAccess

Kind = TypeVar("Kind", bound=Access | SharedAccess)
MOST_COMPARED: Final = 400
"""Pairs of lines whose texts are compared for likeness; where a kernel has more, their order decides."""


@dataclass(frozen=True)
class Match(Generic[Kind]):
    """An access in both compilations; None where only the other has it."""

    name: str
    before: Kind | None
    after: Kind | None


def matched_accesses(before: KernelFacts, after: KernelFacts) -> list[Match[Access]]:
    """Accesses of global memory, by the pointer that they go through."""

    def named(facts: KernelFacts) -> list[_Named[Access]]:
        return [_Named(access, access.argument, facts) for access in facts.accesses]

    return _matched(named(before), named(after), "?")


def matched_shared(before: KernelFacts, after: KernelFacts) -> list[Match[SharedAccess]]:
    """Accesses of shared memory, by the array's name in CUDA C++; Triton's tiles have none."""

    def named(facts: KernelFacts) -> list[_Named[SharedAccess]]:
        arrays = ("" if access.layout.startswith("#") else access.layout.partition("[")[0] for access in facts.shared)
        return [_Named(access, name, facts) for access, name in zip(facts.shared, arrays, strict=True)]

    return _matched(named(before), named(after), "a tile")


class _Named(Generic[Kind]):
    """An access with what it is matched by: lines move when a kernel is edited, so that their numbers say nothing."""

    def __init__(self, access: Kind, name: str, facts: KernelFacts) -> None:
        self.access: Kind = access
        self.name = name
        # Through which instruction memory is read or written is another measure.
        if access.kind == "async copy":
            self.direction = "store" if isinstance(access, SharedAccess) else "load"
        else:
            self.direction = next((word for word in ("store", "atomic") if word in access.kind), "load")
        self.text = next((line.source for line in facts.lines if line.place.line == access.place.line), "")


def _matched(before: Sequence[_Named[Kind]], after: Sequence[_Named[Kind]], unnamed: str) -> list[Match[Kind]]:
    """By name and text of the line, then by name, then those whose name only one of the two has: it was changed."""
    common = {one.name for one in before} & {one.name for one in after}
    keys: tuple[Callable[[_Named[Kind]], tuple[str | None, ...]], ...] = (
        lambda one: (one.direction, one.name, one.text),
        lambda one: (one.direction, one.name),
        lambda one: (one.direction, one.name if one.name in common else None),
    )
    partners: dict[int, int] = {}
    for key in keys:
        for wanted in dict.fromkeys(map(key, before)):
            first = [at for at, one in enumerate(before) if at not in partners and key(one) == wanted]
            second = [at for at, one in enumerate(after) if at not in partners.values() and key(one) == wanted]
            partners |= _most_alike({at: before[at].text for at in first}, {at: after[at].text for at in second})
    added = [other for at, other in enumerate(after) if at not in partners.values()]
    counts: Counter[str] = Counter()
    matches = []
    for at, one in enumerate((*before, *added)):
        counts[one.direction + one.name] += 1
        number = counts[one.direction + one.name]
        name = f"{one.direction}{f' {number}' if number > 1 else ''} of {one.name or unnamed}"
        is_added = at >= len(before)
        partner = one if is_added else after[partners[at]] if at in partners else None
        matches.append(Match(name, None if is_added else one.access, partner.access if partner else None))
    return matches


def _most_alike(first: dict[int, str], second: dict[int, str]) -> dict[int, int]:
    """As many pairs as the shorter has: in order, or where one has more, those whose lines are most alike."""
    if len(first) == len(second) or len(first) * len(second) > MOST_COMPARED:
        return dict(zip(first, second, strict=False))
    pairs = list(product(first, second))
    likeness = {(a, b): SequenceMatcher(None, first[a], second[b], autojunk=False).ratio() for a, b in pairs}
    chosen: dict[int, int] = {}
    for one, other in sorted(pairs, key=lambda pair: -likeness[pair]):
        if one not in chosen and other not in chosen.values():
            chosen[one] = other
    return chosen
