"""Where registers are written: of those with several writes, which of them meet in a block."""

from __future__ import annotations

import re
from functools import cached_property

from warplens_lab.cuda.flow import EXIT, Flow
from warplens_lab.cuda.operands import results
from warplens_lab.cuda.ptx import Statement

_NAME = re.compile(r"%?[A-Za-z_$][\w$@]*")


class Writes:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._blocks: dict[str, list[int]] = {}
        for block in flow.order:
            for statement in flow.blocks[block].statements:
                for name in results(statement):
                    self._blocks.setdefault(name, []).append(block)
        self.names = frozenset(self._blocks)
        self._several = {name for name, blocks in self._blocks.items() if len(blocks) > 1}
        self._left: dict[tuple[str, int], list[frozenset[int]]] = {}

    def count(self, name: str) -> int:
        return len(self._blocks.get(name, ()))

    def first_block(self, name: str) -> int:
        """The block that its loop is known by: the last that writes it, which is inside where the first is before."""
        return self._blocks[name][-1]

    def loops_left(self, name: str, block: int) -> list[frozenset[int]]:
        """Loops that write the register and that a block is not in."""
        key = (name, block)
        if key not in self._left:
            writers = set(self._blocks.get(name, ()))
            self._left[key] = [loop for loop in self._flow.loops if writers & loop and block not in loop]
        return self._left[key]

    def merged_at(self, block: int) -> set[str]:
        """Registers of which different writes reach the beginning of a block where they are still needed."""
        reaching: dict[str, set[int]] = {}
        for before in self._flow.predecessors[block]:
            for name, write in self._reaching[before]:
                reaching.setdefault(name, set()).add(write)
        return {name for name, writes in reaching.items() if len(writes) > 1 and name in self._needed[block]}

    @cached_property
    def sole(self) -> dict[tuple[int, str], int]:
        """The write that alone reaches a statement, of a register that it reads and that has several writes."""
        alone: dict[tuple[int, str], int] = {}
        for block in self._flow.order:
            reaching: dict[str, set[int]] = {}
            for before in self._flow.predecessors[block]:
                for name, write in self._reaching[before]:
                    reaching.setdefault(name, set()).add(write)
            for statement in self._flow.blocks[block].statements:
                for name in self._several & read_by(statement):
                    if len(writes := reaching.get(name, set())) == 1:
                        alone[id(statement), name] = next(iter(writes))
                for name in self._several.intersection(results(statement)):
                    kept = reaching.get(name, set()) if statement.guard else set()
                    reaching[name] = kept | {id(statement)}
        return alone

    @cached_property
    def _reaching(self) -> dict[int, set[tuple[str, int]]]:
        """The writes of registers with several of them that hold at the end of each block."""
        last: dict[int, dict[str, int]] = {}
        guarded: dict[int, set[str]] = {}
        for block in self._flow.order:
            last[block], guarded[block] = {}, set()
            for statement in self._flow.blocks[block].statements:
                for name in self._several.intersection(results(statement)):
                    last[block][name] = id(statement)
                    if statement.guard:
                        guarded[block].add(name)
        after: dict[int, set[tuple[str, int]]] = {block: set() for block in self._flow.order}
        changed = True
        while changed:
            changed = False
            for block in self._flow.order:
                own = last[block]
                before = set().union(*(after[p] for p in self._flow.predecessors[block]))
                kept = {(n, w) for n, w in before if n not in own or n in guarded[block]}
                if (new := kept | set(own.items())) != after[block]:
                    after[block], changed = new, True
        return after

    @cached_property
    def _needed(self) -> dict[int, set[str]]:
        """The registers with several writes that are read in or after each block before they are written."""
        read: dict[int, set[str]] = {}
        written: dict[int, set[str]] = {}
        for block in self._flow.order:
            read[block], written[block] = set(), set()
            for statement in self._flow.blocks[block].statements:
                read[block] |= (self._several & read_by(statement)) - written[block]
                if not statement.guard:
                    written[block] |= self._several.intersection(results(statement))
        needed = {block: set(names) for block, names in read.items()}
        needed[EXIT] = set()
        changed = True
        while changed:
            changed = False
            for block in reversed(self._flow.order):
                after = set().union(*(needed[s] for s in self._flow.blocks[block].successors if s in needed))
                if (new := read[block] | (after - written[block])) != needed[block]:
                    needed[block], changed = new, True
        return needed


def read_by(statement: Statement) -> set[str]:
    operands = statement.operands[1:] if results(statement) else statement.operands
    return {*_NAME.findall(" ".join(operands)), statement.guard}
