"""Blocks of a kernel and how control goes between them: loops, and where lanes that parted meet again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from warplens_lab.cuda.ptx import Statement

EXIT = -1


@dataclass(frozen=True)
class Block:
    statements: tuple[Statement, ...]
    successors: tuple[int, ...]

    @property
    def condition(self) -> Statement | None:
        """The conditional jump that ends it."""
        last = self.statements[-1] if self.statements else None
        is_choice = last is not None and len(set(self.successors)) > 1 and (last.guard or last.base == "brx")
        return last if is_choice else None


class Flow:
    """The first block is where the kernel begins; leaving it is the successor `EXIT`."""

    def __init__(self, items: Sequence[Statement | str]) -> None:
        self.blocks = _blocks(items)

    @cached_property
    def order(self) -> list[int]:
        """Blocks that can be reached, each before those after it except along loops."""
        seen: set[int] = set()
        finished: list[int] = []
        stack = [(0, iter(self.blocks[0].successors))] if self.blocks else []
        seen.add(0)
        while stack:
            block, successors = stack[-1]
            following = next((s for s in successors if s != EXIT and s not in seen), None)
            if following is None:
                finished.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].successors)))
        return finished[::-1]

    @cached_property
    def predecessors(self) -> dict[int, list[int]]:
        before: dict[int, list[int]] = {block: [] for block in (*self.order, EXIT)}
        for block in self.order:
            for successor in dict.fromkeys(self.blocks[block].successors):
                before[successor].append(block)
        return before

    @cached_property
    def post_dominators(self) -> dict[int, set[int]]:
        """Blocks that every way from a block to the end goes through, itself included."""
        everything = {*self.order, EXIT}
        after: dict[int, set[int]] = dict.fromkeys(self.order, everything)
        after[EXIT] = {EXIT}
        changed = True
        while changed:
            changed = False
            for block in reversed(self.order):
                common = set.intersection(*(after[s] for s in self.blocks[block].successors or (EXIT,)))
                if after[block] != (new := common | {block}):
                    after[block], changed = new, True
        return after

    def meeting(self, block: int) -> int:
        """Where all ways from a block come together first."""
        others = self.post_dominators[block] - {block}
        return max(others, key=lambda other: len(self.post_dominators[other]), default=EXIT)

    def joins(self, block: int) -> set[int]:
        """Blocks in which lanes that took different ways at the end of `block` come together."""
        meeting = self.meeting(block)
        sides = [self.reached(s, {block, meeting}) for s in dict.fromkeys(self.blocks[block].successors)]
        return {b for at, side in enumerate(sides) for b in side if any(b in other for other in sides[at + 1 :])}

    def parted(self, block: int) -> set[int]:
        """Blocks that only some of the lanes may be in, if they take different ways at the end of `block`."""
        meeting = self.meeting(block)
        sides = (self.reached(s, {block, meeting}) for s in self.blocks[block].successors)
        return set().union(*sides) - {meeting}

    def reached(self, begin: int, limits: set[int]) -> set[int]:
        """Blocks on the ways from `begin` up to the limits, these included."""
        reached, waiting = {begin}, [begin]
        while waiting:
            block = waiting.pop()
            if block == EXIT or block in limits:
                continue
            for successor in self.blocks[block].successors:
                if successor not in reached:
                    reached.add(successor)
                    waiting.append(successor)
        return reached

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """The blocks of each loop, by its head."""
        position = {block: at for at, block in enumerate(self.order)}
        bodies: dict[int, set[int]] = {}
        for block in self.order:
            for head in self.blocks[block].successors:
                if head != EXIT and position[head] <= position[block]:
                    bodies.setdefault(head, {head}).update(self._back(block, head))
        return [frozenset(body) for body in bodies.values()]

    def _back(self, block: int, head: int) -> set[int]:
        body, waiting = {head, block}, [block] if block != head else []
        while waiting:
            for before in self.predecessors[waiting.pop()]:
                if before not in body:
                    body.add(before)
                    waiting.append(before)
        return body

    def in_loop(self, block: int) -> bool:
        return any(block in loop for loop in self.loops)


def _blocks(items: Sequence[Statement | str]) -> list[Block]:
    groups: list[list[Statement]] = [[]]
    labels: dict[str, int] = {}
    for item in items:
        if isinstance(item, str):
            if groups[-1]:
                groups.append([])
            labels[item] = len(groups) - 1
            continue
        groups[-1].append(item)
        if item.is_branch or item.ends:
            groups.append([])
    return [Block(tuple(group), _successors(group, at, labels, len(groups))) for at, group in enumerate(groups)]


def _successors(group: Sequence[Statement], at: int, labels: dict[str, int], count: int) -> tuple[int, ...]:
    following = at + 1 if at + 1 < count else EXIT
    last = group[-1] if group else None
    if last is None or not (last.is_branch or last.ends):
        return (following,)
    if last.ends:
        return (EXIT, following) if last.guard else (EXIT,)
    if last.base == "brx":
        # Its targets are in a table; every label may be one.
        return tuple(dict.fromkeys(labels.values())) or (following,)
    target = labels.get(last.operands[-1], EXIT) if last.operands else EXIT
    return (target, following) if last.guard else (target,)
