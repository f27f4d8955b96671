"""Follows each warp of a block through a kernel with numbers in place of its arguments, from barrier to barrier.

Whole-number arguments are taken to be some large number and the block to be the first of its grid, so that a loop over
tiles turns and a stage such as `(stage + 1) % stages` has a value in each turn. Loaded values are unknown: where they
decide, the way with barriers is taken, and a loop is left after some turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warplens_lab.cuda.activity import Mask
from warplens_lab.cuda.barrier_sites import BarrierSite, barrier_site
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import EXIT, Flow
from warplens_lab.cuda.lanes import LANES, THREAD, Value, varying
from warplens_lab.cuda.liveness import read_by
from warplens_lab.cuda.operands import address_parts, results
from warplens_lab.cuda.ptx import Statement

ASSUMED: Final = 1 << 12
"""Of the first whole-number argument, and as much more of each other: enough tiles for any ring of buffers."""
MOST_BARRIERS: Final = 16
"""Of a block, in all of NVIDIA's GPUs."""
MOST_EVENTS: Final = 32
MOST_TURNS: Final = 6
MOST_STEPS: Final = 60_000
"""Of all warps together: about a second."""
_FIRST_BLOCK: Final = {f"%{name}.{side}": value for name, value in (("ctaid", 0), ("nctaid", 1), ("clusterid", 0))
                       for side in "xyz"} | {"%cluster_ctarank": 0}  # fmt: skip


@dataclass(frozen=True)
class BarrierEvent:
    """A warp at a barrier."""

    site: BarrierSite
    number: int | None
    """None where it is not known. An argument's is as large as that is taken to be, so that it is no other's."""
    name: str
    """The number as text, or the argument that it is."""
    threads: int | None
    """0 for all threads of the block; None where it is not known."""


@dataclass(frozen=True)
class FollowedWarp:
    warp: int
    events: tuple[BarrierEvent, ...]
    blocks: tuple[int, ...]
    """The blocks that it was in, in the order of its first visits."""
    is_cut: bool
    """It was not followed to its end."""


@dataclass(frozen=True)
class FollowedBlock:
    warps: tuple[FollowedWarp, ...]
    is_certain: bool
    """Nothing that the warps may disagree on decided which barriers they come to."""


def follow(evaluation: Evaluation, integers: Sequence[str]) -> FollowedBlock | None:
    """None where no barrier has a number but 0; `integers` are the parameters that are whole numbers."""
    assumed = {name: ASSUMED * (1 + at) for at, name in enumerate(integers)}
    statements = [s for block in evaluation.flow.order for s in evaluation.flow.blocks[block].statements]
    sites = [site for site in map(barrier_site, statements) if site]
    if all(site.number == "0" for site in sites):
        return None
    code, count = _Code(evaluation.flow), evaluation.shape[0]
    warps = [_Warp(evaluation, code, warp, assumed) for warp in range(count)]
    followed = tuple(warp.followed(MOST_STEPS // count) for warp in warps)
    choices: dict[tuple[int, int], set[object]] = {}
    for warp in warps:
        for at, key in warp.choices.items():
            choices.setdefault(at, set()).add(key)
    # What a function that is called does is not seen.
    is_whole = all(statement.base != "call" for statement in statements)
    return FollowedBlock(followed, is_whole and all(len(keys) == 1 and None not in keys for keys in choices.values()))


class _Code:
    """The statements that barriers and jumps depend on, and where the barriers are."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        blocks = {block: flow.blocks[block].statements for block in flow.order}
        self.with_barriers = {block for block, own in blocks.items() if any(map(barrier_site, own))}
        writers: dict[str, list[Statement]] = {}
        for own in blocks.values():
            for statement in own:
                for name in results(statement):
                    writers.setdefault(name, []).append(statement)
        waiting = [s for own in blocks.values() for s in own if s.is_branch or s.ends or barrier_site(s)]
        needed: set[int] = set()
        while waiting:
            statement = waiting.pop()
            if id(statement) not in needed:
                needed.add(id(statement))
                read = read_by(statement) | {address_parts(text)[0] for text in statement.operands}
                waiting += [writer for name in read for writer in writers.get(name, ())]
        self.needed = {block: [s for s in own if id(s) in needed] for block, own in blocks.items()}
        self._regions: dict[tuple[int, int], set[int]] = {}

    def region(self, block: int, side: int) -> set[int]:
        """The blocks on one way from the end of a block to where all its ways meet."""
        if (block, side) not in self._regions:
            limits = {block, self.flow.meeting(block)}
            self._regions[block, side] = self.flow.reached(side, limits) - limits
        return self._regions[block, side]

    def has_barriers(self, block: int, side: int) -> bool:
        return bool(self.region(block, side) & self.with_barriers) or side in self.with_barriers

    def loop_left(self, block: int, sides: Sequence[int]) -> frozenset[int] | None:
        """The innermost loop that one of the ways from the end of a block leaves."""
        left = [loop for loop in self.flow.loops if block in loop and not loop.issuperset(sides)]
        return min(left, key=len, default=None)


class _Warp(Evaluation):
    """The values of one warp's registers as it goes through the kernel, in place of a fixed point over all ways."""

    def __init__(self, evaluation: Evaluation, code: _Code, warp: int, integers: Mapping[str, int]) -> None:
        # The kernel, its flow and what stands for unknowns are those of the evaluation, so that warps can be compared.
        self.__dict__ |= vars(evaluation)
        self.shape = (1, LANES)
        self._special = {name: lanes[warp : warp + 1] for name, lanes in self._special.items()}
        self._special |= {name: np.full(self.shape, value, np.int64) for name, value in _FIRST_BLOCK.items()}
        self._values: dict[str, Value] = {}
        self._code, self._warp, self._integers = code, warp, integers
        self._turns: Counter[frozenset[int]] = Counter()
        self._chosen: Counter[int] = Counter()
        self.choices: dict[tuple[int, int], object] = {}
        """What decided where it was not known, by block and number of the decision: None where lanes may differ."""

    def followed(self, most_steps: int) -> FollowedWarp:
        events: list[BarrierEvent] = []
        visited: dict[int, None] = {}
        block, steps = self.flow.order[0], 0
        while block != EXIT and len(events) < MOST_EVENTS and steps < most_steps:
            visited[block] = None
            for statement in self._code.needed[block]:
                steps += 1
                site = barrier_site(statement)
                if site is None:
                    self._step(statement, block)
                elif self._is_active(statement, block):
                    events.append(self._event(site, block))
            block = self._following(block)
        return FollowedWarp(self._warp, tuple(events), tuple(visited), block != EXIT)

    def _event(self, site: BarrierSite, block: int) -> BarrierEvent:
        count = self._read(site.threads, block) if site.threads else self._number(0)
        threads = None if count.sources & self._integers.keys() else count.constant
        read = self._read(site.number, block)
        number, arguments = read.constant, read.sources & self._integers.keys()
        if number is None or not arguments:
            return BarrierEvent(site, number, "?" if number is None else str(number), threads)
        argument = min(arguments)
        more = number - self._integers[argument]
        if len(arguments) > 1 or not 0 <= more < MOST_BARRIERS:
            return BarrierEvent(site, None, "?", threads)
        return BarrierEvent(site, number, f"{argument}+{more}" if more else argument, threads)

    def _is_active(self, statement: Statement, block: int) -> bool:
        if not statement.guard:
            return True
        guard = self._read(statement.guard, block)
        if not guard.is_concrete:
            self._note_choice(block, guard)
            return True
        return bool(((guard.known != 0) != statement.is_negated).any())

    def _following(self, block: int) -> int:
        own = self.flow.blocks[block]
        jump = own.condition
        if jump is None:
            return own.successors[0]
        sides = tuple(dict.fromkeys(own.successors))
        condition = self._read(jump.guard or jump.operands[0], block)
        if jump.guard and condition.is_concrete:
            target, following = own.successors
            jumps = (condition.known != 0) != jump.is_negated
            loop = self._code.loop_left(block, sides)
            if loop is not None and not loop & self._code.with_barriers:
                # Nothing is seen of its turns, which may be thousands.
                self._turns[loop] += 1
                if self._turns[loop] > MOST_TURNS:
                    self._turns[loop] = 0
                    return next(side for side in sides if side not in loop)
            if jumps.all() or not jumps.any():
                return target if jumps.all() else following
            return self._likelier(block, sides)
        if any(self._code.has_barriers(block, side) for side in sides):
            # Where a table of targets leads is not worked out.
            self._note_choice(block, condition if jump.guard else varying(THREAD))
        return self._likelier(block, sides)

    def _note_choice(self, block: int, condition: Value) -> None:
        self._chosen[block] += 1
        self.choices[block, self._chosen[block]] = condition.key() if condition.is_known else None

    def _likelier(self, block: int, sides: Sequence[int]) -> int:
        """Into the loop for some turns, where it has barriers; else the way that has some, and not to the end."""
        loop = self._code.loop_left(block, sides)
        if loop is not None:
            self._turns[loop] += 1
            stays = bool(loop & self._code.with_barriers) and self._turns[loop] <= MOST_TURNS
            if not stays:
                self._turns[loop] = 0
            return next(side for side in sides if (side in loop) == stays)
        return max(sides[::-1], key=lambda side: (self._code.has_barriers(block, side), side != EXIT))

    def _write(self, name: str, statement: Statement, block: int, value: Value) -> None:
        """The last write counts, for the lanes that it is for."""
        if statement.guard:
            guard, before = self._read(statement.guard, block), self._read(name, block)
            if not guard.is_concrete:
                value = varying(THREAD, value.sources)
            else:
                active = (guard.known != 0) != statement.is_negated
                if not active.any():
                    return
                if not active.all():
                    value = _of_both(active, value, before)
        self._values[name] = value

    def _reaching(self, name: str) -> Value:
        return self._values[name]

    def _left(self, name: str, value: Value, block: int) -> Value:
        return value

    def _parameter(self, statement: Statement, block: int) -> Value:
        name = self._parameters.get(address_parts(statement.operands[1])[0], "")
        if name not in self._integers:
            return super()._parameter(statement, block)
        return replace(self._number(self._integers[name]), sources=frozenset((name,)))

    def _loaded(self, statement: Statement, block: int) -> Value:
        """What one address holds is the same for all warps."""
        value = super()._loaded(statement, block)
        if not value.is_known:
            return value
        address = self.address(statement.operands[1], block)
        return self._symbol(("loaded", id(statement), address.key()), block, value.sources)

    def _result(self, statement: Statement, block: int) -> Value:
        if statement.base == "shfl" and ".idx" in statement.name:
            shared, lane = (self._read(text, block) for text in statement.operands[1:3])
            if shared.is_known and lane.constant is not None:
                return Value(shared.terms, np.full(self.shape, shared.known[0, lane.constant % LANES], np.int64))
        return super()._result(statement, block)


def _of_both(active: Mask, value: Value, before: Value) -> Value:
    """Lanes that a guard keeps from writing have what was there."""
    if not value.is_known or not before.is_known or value.terms != before.terms:
        return varying(THREAD, value.sources)
    return Value(value.terms, np.where(active, value.known, before.known), sources=value.sources)
