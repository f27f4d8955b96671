"""What `kernel check` says of a CUDA C++ kernel besides the rest: bank conflicts, divergent branches, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warplens_lab.facts.tables import ranges

if TYPE_CHECKING:
    from warplens_lab.facts.records import BarrierUse, Branch, KernelFacts, SharedAccess, SourcePlace

_VERBS: Final = {"sync": "wait", "arrive": "arrive", "reduce": "reduce"}


def cuda_lines(facts: KernelFacts) -> Iterator[str]:
    for access in facts.shared:
        moved = f"{access.kind} of {access.layout}: {access.vector_bits} bits"
        yield f"shared      {moved}, {_conflict(access)}  {_at(access.place)}"
    for branch in facts.branches:
        if branch.is_divergent or branch.is_predicated:
            yield f"branch      {_branch(branch, facts.num_warps)}  {_at(branch.place)}"
    yield from _barriers([use for use in facts.barriers if use.is_named])


def _conflict(access: SharedAccess) -> str:
    if access.conflicts is None:
        return "bank conflicts unknown"
    return f"{1 + access.conflicts}-way bank conflict" if access.conflicts else "no bank conflict"


def _branch(branch: Branch, warps: int) -> str:
    if branch.is_predicated:
        how = "on loaded values" if branch.difference == "data" else "by lane"
        return f"{how}, no divergence: predicated"
    if branch.difference == "data":
        return f"on loaded values: lanes of a warp may {'leave the loop apart' if branch.turns else 'diverge'}"
    if branch.lanes is None:
        return "diverges: lanes of a warp go different ways"
    return f"diverges: {branch.lanes} of 32 lanes jump, in {branch.warps} of {warps} warps"


def _barriers(uses: list[BarrierUse]) -> Iterator[str]:
    """Named barriers with who arrives at them and who waits."""
    by_number: dict[str, list[BarrierUse]] = {}
    for use in uses:
        by_number.setdefault(use.number, []).append(use)
    for number, group in sorted(by_number.items()):
        threads = ", ".join(str(count) for count in sorted({use.threads for use in group if use.threads}))
        parts = [f"{_warps(use)} {_verb(use)} ({_at(use.place)})" for use in group]
        yield f"barrier {number:<3} {f'of {threads} threads: ' if threads else ''}{', '.join(parts)}"


def _warps(use: BarrierUse) -> str:
    return f"warps {ranges(use.warps)}" if len(use.warps) > 1 else f"warp {ranges(use.warps)}"


def _verb(use: BarrierUse) -> str:
    return f"{_VERBS[use.kind]}{'s' if len(use.warps) == 1 else ''}"


def _at(place: SourcePlace) -> str:
    return f"{Path(place.file).name}:{place.line}"
