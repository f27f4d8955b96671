"""What the accesses of two compilations cost: passes over shared memory, sectors and widths of global memory.

A matched access counts as often as the first compilation makes it: how often a loop turns, how far it is unrolled and
how wide the access is change nothing, a conflict does. An access that only one of the two makes counts as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from warplens_lab.comparing.access_matching import Kind, Match, matched_accesses, matched_shared
from warplens_lab.comparing.verdicts import CHANGED, REGRESSION, SAME, FactDifference, verdict_of
from warplens_lab.facts.records import Access, KernelFacts, SharedAccess

_VECTOR: Final = re.compile(r"(?<=[a-z6])[1-4]$")
"""Of CUDA's vector types: float4, half2, bfloat162."""


@dataclass(frozen=True)
class Cost:
    """What an access takes of a resource and what it would take at best: all warps of a block, a loop's body once."""

    taken: float
    needed: float
    in_loop: bool
    text: str

    @property
    def ratio(self) -> float:
        return self.taken / self.needed


def conflict_differences(before: KernelFacts, after: KernelFacts) -> list[FactDifference]:
    """Passes over shared memory that bank conflicts add, in all and by access; none where they are not known."""

    def cost(access: SharedAccess) -> Cost | None:
        taken, needed = access.wavefronts, access.wavefronts_needed
        return Cost(taken, needed, access.in_loop, f"{taken / needed:.4g}") if taken and needed else None

    return _differences("extra_wavefronts", "bank conflict of {}, ways", matched_shared(before, after), cost)


def sector_differences(before: KernelFacts, after: KernelFacts) -> list[FactDifference]:
    """Sectors that warps touch beyond those that their bytes fill, of CUDA C++."""

    def cost(access: Access) -> Cost | None:
        times, taken, needed = max(access.instructions, 1), access.sectors, access.sectors_needed
        return Cost(times * taken, times * needed, access.in_loop, f"{taken} of {needed}") if taken and needed else None

    return _differences("extra_sectors", "sectors of {}", matched_accesses(before, after), cost)


def _differences(
    measure: str, share: str, matches: Sequence[Match[Kind]], cost: Callable[[Kind], Cost | None]
) -> list[FactDifference]:
    """What all accesses take beyond what they need, then each whose share changed.

    The total decides, that in loops first: an access that got worse where all together got better is a change.
    """
    pairs = list(_priced(matches, cost))
    if not pairs:
        return []
    totals = [
        _total(f"{measure}_in_loops", pairs, [pair for pair in pairs if pair.in_loop]),
        _total(measure, pairs, pairs),
    ]
    rows = [*totals, *_shares(share, pairs)]
    decisive = next((total.verdict for total in totals if total.verdict != SAME), SAME)
    if decisive == REGRESSION:
        return rows
    return [replace(row, verdict=CHANGED) if row.verdict == REGRESSION else row for row in rows]


@dataclass(frozen=True)
class _Pair:
    name: str
    before: Cost | None
    after: Cost | None

    @property
    def in_loop(self) -> bool:
        return (self.before or self.after or _NOTHING).in_loop

    def extra(self, cost: Cost | None) -> float:
        weight = (self.before or self.after or _NOTHING).needed
        return weight * (cost.ratio - 1) if cost else 0.0


_NOTHING = Cost(0, 1, False, "")


def _priced(matches: Sequence[Match[Kind]], cost: Callable[[Kind], Cost | None]) -> Iterator[_Pair]:
    """Without those whose cost one of the two does not know."""
    for match in matches:
        before = cost(match.before) if match.before else None
        after = cost(match.after) if match.after else None
        if (match.before is None or before) and (match.after is None or after):
            yield _Pair(match.name, before, after)


def _total(name: str, pairs: Sequence[_Pair], counted: Sequence[_Pair]) -> FactDifference:
    """None where a compilation has no such access at all: what is new is a change."""
    before = round(sum(pair.extra(pair.before) for pair in counted)) if any(pair.before for pair in pairs) else None
    after = round(sum(pair.extra(pair.after) for pair in counted)) if any(pair.after for pair in pairs) else None
    return FactDifference(name, before, after, verdict_of("lower", before, after) if before or after else SAME)


def _shares(share: str, pairs: Sequence[_Pair]) -> Iterator[FactDifference]:
    for pair in pairs:
        if pair.before and pair.after and pair.before.ratio != pair.after.ratio:
            verdict = verdict_of("lower", pair.before.ratio, pair.after.ratio)
            yield FactDifference(share.format(pair.name), pair.before.text, pair.after.text, verdict)


def width_differences(before: KernelFacts, after: KernelFacts) -> Iterator[FactDifference]:
    """Accesses of another width. Elements of another type are moved in other widths without being worse for it."""
    for match in matched_accesses(before, after):
        if match.before is None or match.after is None:
            continue
        first, second = (None if a.is_tma else a.width_bits or None for a in (match.before, match.after))
        if first != second:
            is_same_type = _element(match.before, before) == _element(match.after, after)
            verdict = verdict_of("higher" if is_same_type else "", first, second)
            yield FactDifference(f"width of {match.name}, bits", first, second, verdict)


def _element(access: Access, facts: KernelFacts) -> str:
    """The type of one element: in CUDA C++ that of the pointer, half for `half2*`; else as the access moves it."""
    types = {name: text for text, _, name in (part.rpartition(" ") for part in facts.signature.split(", "))}
    declared = types.get(access.argument, "") if facts.is_cuda else ""
    scalar = _VECTOR.sub("", declared.removeprefix("const ").removesuffix("*").removesuffix(" const").strip())
    return scalar or access.element
