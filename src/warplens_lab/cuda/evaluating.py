"""Follows every register of a kernel for all lanes of a block, to a fixed point over its loops and branches.

Registers that are written in several places begin as what their first write says and lose it where another disagrees.
Where lanes part at a branch, registers that were written on both ways differ afterwards; where they leave a loop at
different times, so does what the loop computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from warplens_lab.cuda.arithmetic import OPERATIONS, any_of, combine
from warplens_lab.cuda.counting import Counters
from warplens_lab.cuda.flow import EXIT, Flow
from warplens_lab.cuda.lanes import (
    DATA,
    EDGE,
    LANES,
    THREAD,
    UNIFORM,
    Value,
    added,
    added_strided,
    varying,
    worst,
)
from warplens_lab.cuda.liveness import Writes
from warplens_lab.cuda.operands import address_parts, immediate, is_register, results
from warplens_lab.cuda.ptx import PtxKernel, Statement
from warplens_lab.cuda.special_registers import special_registers

MOST_PASSES: Final = 40
MOST_STATEMENTS: Final = 40_000
_FROM_MEMORY: Final = ("ld", "ldu", "atom", "tex", "tld4", "suld", "ldmatrix")
_SAME_IN_ALL: Final = ("vote", "activemask", "match", "redux", "barrier", "bar")


class Evaluation:
    """Values of registers once nothing changes any more; `names` are the kernel's parameters as the source has them."""

    def __init__(self, kernel: PtxKernel, flow: Flow, block: Sequence[int], names: Sequence[str]) -> None:
        self.kernel, self.flow = kernel, flow
        self._special = special_registers(block)
        self.shape = next(iter(self._special.values())).shape
        self._parameters = dict(zip(kernel.parameters, names, strict=False))
        self._writes = Writes(flow)
        self._values: dict[str, Value] = {}
        self._written: dict[str, dict[int, Value]] = {}
        self._symbols: dict[object, str] = {}
        self._born: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self._counters = Counters()
        self.branches: dict[int, Value] = {}
        """Predicate of the conditional jump at the end of a block."""
        self._parted: dict[str, str] = {}
        self._reader: Statement | None = None
        """The statement whose operands are read: where one write alone reaches it, the others say nothing."""
        self.is_complete = len(kernel.items) <= MOST_STATEMENTS and self._run()

    def _run(self) -> bool:
        for _ in range(MOST_PASSES):
            before = {name: value.key() for name, value in self._values.items()}, dict(self._parted)
            for block in self.flow.order:
                for statement in self.flow.blocks[block].statements:
                    self._step(statement, block)
            self._part()
            if before == ({name: value.key() for name, value in self._values.items()}, self._parted):
                return True
        return False

    def _part(self) -> None:
        """Registers that differ between lanes because of the way that these took."""
        for block in self.flow.order:
            jump = self.flow.blocks[block].condition
            if jump is None:
                continue
            self._reader = jump
            condition = self._read(jump.guard or jump.operands[0], block)
            self.branches[block] = condition
            if condition.difference == UNIFORM:
                continue
            for join in self.flow.joins(block) - {EXIT}:
                for name in self._writes.merged_at(join):
                    self._parted[name] = worst((self._parted.get(name, UNIFORM), condition.difference))

    @property
    def addresses(self) -> dict[str, str]:
        """Arrays by the unknown that stands for where they begin."""
        keys = ((key, symbol) for key, symbol in self._symbols.items() if isinstance(key, tuple))
        return {symbol: str(key[1]) for key, symbol in keys if key[0] == "address"}

    def value(self, operand: str, block: int, reader: Statement | None = None) -> Value:
        """What an operand of a statement in a block is, after all."""
        self._reader = reader
        return self._read(operand, block)

    def address(self, operand: str, block: int, reader: Statement | None = None) -> Value:
        """Of a memory operand, `[%rd1+16]`."""
        self._reader = reader
        base, offset = address_parts(operand)
        value = self._read(base, block)
        number = self._number(offset)
        return added(value, number) if value.is_known else added_strided(value, number) or value

    def _step(self, statement: Statement, block: int) -> None:
        names = results(statement)
        if not names:
            return
        self._reader = statement
        value = self._result(statement, block)
        for at, name in enumerate(names):
            self._write(name, statement, block, value if at == 0 else self._second(statement, value, name))

    def _second(self, statement: Statement, first: Value, name: str) -> Value:
        """A vector's other elements, and the other predicate of `setp`."""
        if statement.base == "setp" and first.is_concrete:
            return replace(first, lanes=1 - first.known)
        return self._symbol(("of", id(statement), name), -1, first.sources) if first.is_known else first

    def _write(self, name: str, statement: Statement, block: int, value: Value) -> None:
        if statement.guard:
            guard = self._read(statement.guard, block)
            if guard.difference != UNIFORM and self._writes.count(name) > 1:
                value = varying(worst((guard.difference, value.difference)), value.sources | guard.sources)
        if self._writes.count(name) <= 1:
            self._values[name] = value
            return
        written = self._written.setdefault(name, {})
        written[id(statement)] = value
        self._values[name] = self._merged(name, list(written.values()), block)

    def _merged(self, name: str, values: Sequence[Value], block: int) -> Value:
        sources = frozenset[str]().union(*(value.sources for value in values))
        # Where lanes part in one warp of the grid at most, the others still have what they share.
        if name in self._parted and not (self._parted[name] == EDGE and _rise_alike(values)):
            return varying(worst((self._parted[name], *(value.difference for value in values))), sources)
        if not all(value.is_known for value in values):
            return varying(worst(value.difference for value in values), sources)
        first = values[0]
        if all(value.key() == first.key() for value in values) and len(values) == self._writes.count(name):
            return first
        steps = first.steps()
        if not _rise_alike(values):
            return varying(worst((THREAD, *(value.difference for value in values))), sources)
        counter = self._symbol(("written", name), self._writes.first_block(name), sources)
        self._counters.note(counter, values)
        return replace(added(counter, Value((), steps)), sources=sources)

    def _result(self, statement: Statement, block: int) -> Value:
        base = statement.base
        if base == "ld" and ".param" in statement.name:
            return self._parameter(statement, block)
        if base in _FROM_MEMORY:
            return self._loaded(statement, block)
        operands = [self._read(text, block) for text in statement.operands[1:]]
        _, sources = any_of(operands)
        if base in _SAME_IN_ALL or (base == "shfl" and self._is_broadcast(statement, operands)):
            return self._symbol(("once", id(statement)), block, sources)
        if base in ("shfl", "call", "elect"):
            return varying(THREAD if base == "elect" else DATA, sources)
        if base == "mad":
            product = self._computed(statement.name.replace("mad", "mul", 1), operands[:2], block)
            return self._computed(
                statement.name.replace("mad", "add", 1).replace(".lo", ""), [product, operands[2]], block
            )
        return self._computed(statement.name, operands, block)

    def _computed(self, name: str, operands: list[Value], block: int) -> Value:
        reason, sources = any_of(operands)
        result = self._worked_out(name, operands, block)
        if result is not None:
            return result
        if reason == UNIFORM and all(value.is_known for value in operands):
            symbol = self._symbol((name, *(value.key() for value in operands)), block, sources)
            self._note_range(name, operands, symbol)
            return symbol
        return varying(reason or THREAD, sources)

    def _worked_out(self, name: str, operands: list[Value], block: int) -> Value | None:
        base = name.partition(".")[0]
        if name.endswith(".pred") and base in ("and", "or", "xor", "not"):
            return combine(name, operands)
        operation = OPERATIONS.get(base)
        if operation is None:
            return None
        result = operation(name, operands)
        if base == "setp" and result is not None and not result.is_known and self._counters.agree(name, operands):
            result = self._symbol(("turns", name, *(value.key() for value in operands[:2])), block, result.sources)
        if base == "setp" and len(operands) > 2:
            joined = [value for value in (result, operands[2]) if value is not None]
            logic = next((part for part in name.split(".") if part in ("and", "or", "xor")), "and")
            return combine(f"{logic}.pred", joined) if len(joined) == 2 else None
        return result

    def _is_broadcast(self, statement: Statement, operands: Sequence[Value]) -> bool:
        """`__shfl_sync(x, 0)`: all lanes get what one of them has."""
        return (
            ".idx" in statement.name
            and len(operands) > 2
            and operands[1].is_uniform
            and operands[2].constant == LANES - 1
        )

    def _parameter(self, statement: Statement, block: int) -> Value:
        base, offset = address_parts(statement.operands[1])
        if base not in self._parameters and base not in self.kernel.parameters:
            return varying(DATA)
        name = self._parameters.get(base, base)
        return self._symbol(("parameter", base, offset), 0, frozenset((name,)))

    def _loaded(self, statement: Statement, block: int) -> Value:
        has_address = len(statement.operands) > 1
        address = self.address(statement.operands[1], block, statement) if has_address else varying(DATA)
        if statement.base in ("ld", "ldu") and address.is_known and address.is_uniform:
            return self._symbol(("once", id(statement)), block, address.sources)
        return varying(DATA, address.sources)

    def _note_range(self, name: str, operands: Sequence[Value], symbol: Value) -> None:
        masks = [value.constant for value in operands if value.constant is not None and value.constant >= 0]
        if name.startswith("and") and masks:
            self.ranges[symbol.terms[0][0]] = (0, masks[0])

    def _symbol(self, key: object, block: int, sources: frozenset[str] = frozenset()) -> Value:
        name = self._symbols.setdefault(key, f"s{len(self._symbols)}")
        self._born.setdefault(name, block)
        return Value(((name, 1),), np.zeros(self.shape, np.int64), sources=sources)

    def _number(self, number: int) -> Value:
        return Value((), np.full(self.shape, number, np.int64))

    def _read(self, text: str, block: int) -> Value:
        text = text.strip()
        if text.startswith("!"):
            return combine("not.pred", [self._read(text[1:], block)]) or self._read(text[1:], block)
        number = immediate(text)
        if number is not None:
            return self._number(number)
        if text in self._special:
            return Value((), self._special[text])
        if is_register(text) and not text.startswith("%") and text not in self._writes.names:
            return self._symbol(("address", text), 0)
        if text in self._values:
            return self._left(text, self._reaching(text), block)
        # Special registers that are the same for a block, numbers with a point, and what is not written yet.
        return self._symbol(("other", text), 0)

    def _reaching(self, name: str) -> Value:
        write = self._writes.sole.get((id(self._reader), name)) if self._reader is not None else None
        return self._written.get(name, {}).get(write, self._values[name]) if write is not None else self._values[name]

    def _left(self, name: str, value: Value, block: int) -> Value:
        """Lanes that left a loop in different turns hold different counts of it, in more than one warp of the grid."""
        if not value.is_known or not value.terms:
            return value
        for loop in self._writes.loops_left(name, block):
            born = any(self._born.get(symbol, 0) in loop for symbol, _ in value.terms)
            reasons = [self.branches[exit].difference for exit in self._exits(loop) if exit in self.branches]
            if born and worst(reasons) not in (UNIFORM, EDGE):
                return varying(worst(reasons), value.sources)
        return value

    def _exits(self, loop: frozenset[int]) -> Iterator[int]:
        return (block for block in loop if any(s not in loop for s in self.flow.blocks[block].successors))


def _rise_alike(values: Sequence[Value]) -> bool:
    """Whether all are known but for what the lanes of a warp share, which alone differs between them."""
    if not all(value.is_known for value in values):
        return False
    return all(np.array_equal(value.steps(), values[0].steps()) for value in values[1:])
