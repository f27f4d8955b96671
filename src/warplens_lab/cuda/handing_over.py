"""Who produces, who consumes and who takes turns: the groups of warps of a block, and the barriers between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations
from typing import Final

from warplens_lab.cuda.barrier_sites import ARRIVE, barrier_site
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.following import BarrierEvent, FollowedBlock, FollowedWarp
from warplens_lab.cuda.operands import immediate
from warplens_lab.cuda.ptx import Statement
from warplens_lab.facts.locations import users_place
from warplens_lab.facts.records import LoopSchedule, SchedulePartition, ScheduleStep, SourcePlace
from warplens_lab.facts.schedule_words import role_of
from warplens_lab.facts.tables import ranges
from warplens_run.base.units import listed

_FILLS: Final = frozenset({"shared store", "async copy", "tma copy"})
_USES: Final = frozenset({"shared load", "product"})
_OPERATIONS: Final = (
    (r"cp\.async\.bulk\.(?:tensor\.)?[\w.]{0,80}global\.shared", "tma store"),
    (r"cp\.async\.bulk\.(?!commit|wait|prefetch)", "tma copy"),
    (r"cp\.async\.c[ag]\.", "async copy"),
    (r"(?:mma\.|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)", "product"),
    (r"(?:ldmatrix|ldu?\.(?:[\w:]{1,40}\.){0,10}shared|wmma\.load\.[\w.]{0,80}shared)", "shared load"),
    (r"(?:stmatrix|st\.(?:[\w:]{1,40}\.){0,10}shared|wmma\.store\.[\w.]{0,80}shared)", "shared store"),
    (r"ldu?\.(?!(?:[\w:]{1,40}\.){0,10}(?:param|local|const))", "load"),
    (r"(?:st\.(?!(?:[\w:]{1,40}\.){0,10}(?:param|local))|red\.)", "store"),
    (r"mbarrier\.(?:try|test)_wait", "wait"),
    (r"mbarrier\.(?:arrive|complete_tx)", "signal"),
)
"""What a statement does, by its name: the first that fits."""
_PATTERNS: Final = tuple((re.compile(pattern), kind) for pattern, kind in _OPERATIONS)
_MOST_HANDED: Final = 4
"""Pairs of groups that the sentence names one by one."""
_THOSE: Final = {
    "produces": "those that produce",
    "consumes": "those that consume",
    "takes turns": "those that take turns",
    "takes part": "the others",
}
_CUTLASS = re.compile(r"Kernel\w{0,80}?WarpSpecialized(?P<pattern>Pingpong|Cooperative)?")
_CUTLASS_SENTENCES: Final = {
    "Pingpong": "ping-pong: one group of warps loads tiles, two take turns: one multiplies while the other stores",
    "Cooperative": "producer/consumer: one group of warps loads tiles, two multiply the halves of each together",
    "": "producer/consumer: one group of warps loads tiles, another multiplies them",
}


@dataclass(frozen=True, eq=False)
class _Group:
    """Warps that come to the same barriers in the same order."""

    warps: tuple[int, ...]
    events: tuple[BarrierEvent, ...]
    statements: tuple[Statement, ...]
    """All that they get to, in the order of their first visits."""

    @property
    def name(self) -> str:
        return f"warp{'s' if len(self.warps) > 1 else ''} {ranges(self.warps)}"

    @cached_property
    def kinds(self) -> frozenset[str]:
        return frozenset(_kind(s.name) for s in self.statements) - {"", "wait", "signal"}

    def names(self, *, arriving: bool) -> set[str]:
        """The barriers that it only arrives at, or that it waits at."""
        return {e.name for e in self.events if (e.site.kind == ARRIVE) == arriving and e.name != "0"}


Edges = Mapping[tuple[_Group, _Group], Sequence[str]]
"""Who hands over to whom, and by which barriers."""


def block_schedule(followed: FollowedBlock, evaluation: Evaluation) -> LoopSchedule | None:
    """None where no warps only arrive at a barrier that others wait at."""
    groups = list(_groups(followed.warps, evaluation))
    edges = {
        (giver, taker): sorted(giver.names(arriving=True) & taker.names(arriving=False), key=_order)
        for giver, taker in permutations(groups, 2)
    }
    edges = {pair: names for pair, names in edges.items() if names}
    if not edges:
        return None
    taking_turns = [group for group in groups if _takes_turns(group, edges)]
    producers = [g for g, taker in edges if g.kinds & _FILLS and taker.kinds & _USES and g not in taking_turns]
    consumers = [taker for g, taker in edges if g in producers and taker not in producers]
    pattern = "ping-pong" if taking_turns else "producer/consumer" if producers and consumers else "hand-over"
    roles = dict.fromkeys(groups, "takes part")
    roles |= dict.fromkeys(consumers, "consumes") | dict.fromkeys(producers, "produces")
    roles |= dict.fromkeys(taking_turns, "takes turns")
    steps = tuple(step for group in groups for step in _steps(group))
    place = min(step.place for step in steps if step.waits_for)
    partitions = tuple(SchedulePartition(g.name, roles[g], len(g.warps), _registers(g)) for g in groups)
    return LoopSchedule(place, pattern, 1, _sentence(pattern, roles, edges), partitions, steps)


def schedule_by_name(text: str, place: SourcePlace) -> LoopSchedule | None:
    """CUTLASS names a kernel's schedule, whose barriers are in shared memory."""
    match = _CUTLASS.search(text)
    if match is None:
        return None
    sentence = _CUTLASS_SENTENCES[match["pattern"] or ""]
    return LoopSchedule(place, sentence.partition(":")[0], 1, f"{sentence} ({match[0]} of CUTLASS)")


def _groups(warps: Sequence[FollowedWarp], evaluation: Evaluation) -> Iterator[_Group]:
    alike: dict[tuple[BarrierEvent, ...], list[FollowedWarp]] = {}
    for warp in warps:
        alike.setdefault(warp.events, []).append(warp)
    for events, own in alike.items():
        if events:
            blocks = own[0].blocks
            statements = tuple(s for block in blocks for s in evaluation.flow.blocks[block].statements)
            yield _Group(tuple(warp.warp for warp in own), events, statements)


def _takes_turns(group: _Group, edges: Edges) -> bool:
    """It gets its turn from warps that do the same, and gives it to such."""
    gives = any(giver == group and taker.kinds == group.kinds for giver, taker in edges)
    return gives and any(taker == group and giver.kinds == group.kinds for giver, taker in edges)


@cache
def _kind(name: str) -> str:
    return next((kind for pattern, kind in _PATTERNS if pattern.match(name)), "")


def _steps(group: _Group) -> Iterator[ScheduleStep]:
    """Each line's operations once, however far loops were unrolled."""
    names: dict[object, set[str]] = {}
    for event in group.events:
        names.setdefault(event.site, set()).add(event.name)
    listed_steps: dict[tuple[SourcePlace, str, str], set[str]] = {}
    for statement in group.statements:
        site, place = barrier_site(statement), users_place(statement.frames)
        if site is not None and site in names:
            kind = "signal" if site.kind == ARRIVE else "wait"
            listed_steps.setdefault((site.place, kind, f"bar.{site.kind}"), set()).update(names[site])
        elif site is None and place is not None and (kind := _kind(statement.name)):
            listed_steps.setdefault((SourcePlace(place.file, place.line), kind, _operation(statement)), set())
    for order, ((place, kind, operation), own) in enumerate(listed_steps.items()):
        named = _barriers(sorted(own, key=_order)) if own else ""
        waits_for, signals = (named, "") if kind == "wait" else ("", named)
        yield ScheduleStep(place, group.name, order, kind, operation, 0, None, waits_for=waits_for, signals=signals)


def _operation(statement: Statement) -> str:
    """
    >>> _operation(Statement("cp.async.bulk.tensor.2d.shared::cluster.global", (), ()))
    'cp.async.bulk.tensor'
    """
    words = statement.name.split(".")
    return ".".join(words[: 4 if "bulk" in words and "tensor" in words else 3 if "bulk" in words else 2])


def _registers(group: _Group) -> int:
    """Per thread, as the warps ask for them."""
    asked = [immediate(s.operands[0]) for s in group.statements if s.base == "setmaxnreg" and s.operands]
    return asked[-1] or 0 if asked else 0


def _sentence(pattern: str, roles: Mapping[_Group, str], edges: Edges) -> str:
    by_role: dict[str, list[_Group]] = {}
    for group, role in roles.items():
        by_role.setdefault(role, []).append(group)
    parts = [
        f"{group.name} {role if len(group.warps) == 1 else role.removesuffix('s')}{_does(group)}"
        for role in ("produces", "consumes")
        for group in by_role.get(role, ())
    ]
    if taking_turns := by_role.get("takes turns"):
        parts.append(f"{listed([group.name for group in taking_turns])} take turns{_does(taking_turns[0])}")
    is_short = len(edges) <= _MOST_HANDED
    handed: dict[tuple[str, str], set[str]] = {}
    for (giver, taker), names in edges.items():
        pair = (giver.name, taker.name) if is_short else (_THOSE[roles[giver]], _THOSE[roles[taker]])
        handed.setdefault(pair, set()).update(names)
    texts = [
        f"{_barriers(sorted(own, key=_order))} {f'from {giver} to {taker}' if giver != taker else f'among {giver}'}"
        for (giver, taker), own in handed.items()
    ]
    return f"{pattern}: {'; '.join([*parts, f'handed over by {listed(texts)}'])}"


def _does(group: _Group) -> str:
    role = role_of(sorted(group.kinds))
    return f" ({role})" if role != "waits" else ""


def _barriers(names: Sequence[str]) -> str:
    numbers = [int(name) for name in names if name.isdecimal()]
    texts = [ranges(numbers)] * bool(numbers) + [name for name in names if not name.isdecimal()]
    return f"barrier{'s' if len(names) > 1 else ''} {', '.join(texts)}"


def _order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 10, name)
