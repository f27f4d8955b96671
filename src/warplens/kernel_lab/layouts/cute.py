"""CuTe's layouts: `Shape:Stride` with nested modes, `Swizzle<B,M,S>`, and functions composed by `o`.

A layout maps a coordinate to an offset; within a mode, the first of nested shapes runs fastest. `Swizzle<B,M,S>` takes
B bits of an offset from bit M + S on and adds them, by exclusive-or, to the B bits from bit M on. Behind a pointer
(`Sw<3,4,3> o smem_ptr[16b](unset) o …`, which is how CuTe prints what TMA and wgmma use) it moves bytes, else elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from warplens.errors import UsageError
from warplens.kernel_lab.layouts.bases import Ints
from warplens.units import is_whole_number

IntTuple = int | tuple["IntTuple", ...]
LARGEST = 1 << 20
"""Elements of a tile; shared memory holds 228 KiB at most."""
_TOKEN = re.compile(r"\s*(?:(?P<number>_?-?\d+)|(?P<word>[A-Za-z∘]\w*)|(?P<mark>[<>(),:\[\]]))")


@dataclass(frozen=True)
class CuteSwizzle:
    bits: int
    base: int
    shift: int

    def __call__(self, offsets: Ints) -> Ints:
        mask = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        chosen = offsets & mask
        return offsets ^ (chosen >> self.shift if self.shift >= 0 else chosen << -self.shift)

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True)
class CuteLayout:
    shape: IntTuple
    stride: IntTuple

    @property
    def modes(self) -> tuple[CuteLayout, ...]:
        """The layout of each of the outermost modes."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return (self,)
        return tuple(CuteLayout(*pair) for pair in zip(self.shape, self.stride, strict=True))

    @property
    def size(self) -> int:
        return prod(leaves(self.shape))

    def at(self, index: Ints) -> Ints:
        """The offset of a coordinate that is one number; what exceeds the shape goes on in the last mode."""
        pairs = list(zip(leaves(self.shape), leaves(self.stride), strict=True))
        offset = np.zeros_like(index)
        for extent, step in pairs[:-1]:
            offset = offset + index % extent * step
            index = index // extent
        return offset + index * pairs[-1][1]

    def of(self, coordinates: Ints) -> Ints:
        """The offset of a coordinate with a number for each of the outermost modes."""
        offset = np.zeros(coordinates.shape[:-1], np.int64)
        for at, mode in enumerate(self.modes):
            offset = offset + mode.at(coordinates[..., at])
        return offset

    def __str__(self) -> str:
        return f"{tuple_text(self.shape)}:{tuple_text(self.stride)}"


@dataclass(frozen=True)
class CuteExpression:
    """Functions applied from right to left to a layout's offsets."""

    layout: CuteLayout
    outer: tuple[CuteSwizzle | CuteLayout | int, ...] = ()
    """From left to right."""
    pointer_bits: int = 0
    """Size of an element behind a pointer: swizzles are of bytes then; 0 where there is none."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(mode.size for mode in self.layout.modes)

    def offsets(self, coordinates: Ints) -> Ints:
        offsets = self.layout.of(coordinates)
        for part in reversed(self.outer):
            if isinstance(part, int):
                offsets = offsets + part
            elif isinstance(part, CuteLayout):
                offsets = part.at(offsets)
            elif self.pointer_bits:
                offsets = part(offsets * self.pointer_bits // 8) * 8 // self.pointer_bits
            else:
                offsets = part(offsets)
        return offsets


def leaves(value: IntTuple) -> list[int]:
    return [value] if isinstance(value, int) else [leaf for part in value for leaf in leaves(part)]


def tuple_text(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(tuple_text, value))})"


def compact(shape: IntTuple, step: int = 1) -> IntTuple:
    """CuTe's strides of a shape that is given without any: the first mode runs fastest."""
    if isinstance(shape, int):
        return step
    strides: list[IntTuple] = []
    for part in shape:
        strides.append(compact(part, step))
        step *= prod(leaves(part))
    return tuple(strides)


def parse_cute(text: str) -> CuteExpression:
    """
    >>> str(parse_cute("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)").layout)
    '(8,64):(64,1)'
    """
    return _Parser(text).expression()


class _Parser:
    """One function per rule of the grammar; errors name the part that is wrong and where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0

    def _tokens(self) -> Iterator[tuple[str, int]]:
        at = 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None:
                start = at + len(self.text[at:]) - len(self.text[at:].lstrip())
                raise self._error(f"{self.text[start]!r} is not part of a CuTe layout", start)
            yield match[0].strip(), match.end() - len(match[0].lstrip())
            at = match.end()

    def _error(self, problem: str, place: int | None = None) -> UsageError:
        if place is None:
            place = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        where = (
            f"at character {place + 1} of {self.text!r}" if place < len(self.text) else f"at the end of {self.text!r}"
        )
        return UsageError(f"{problem}, {where}", hint="such as Swizzle<3,4,3> o (8,64):(64,1)")

    def expression(self) -> CuteExpression:
        parts: list[CuteSwizzle | CuteLayout | int] = []
        pointer_bits = 0
        while True:
            if self._peek() == "smem_ptr":
                pointer_bits = self._pointer()
            else:
                parts.append(self._term())
            if self._peek() not in ("o", "∘"):
                break
            self.at += 1
        if self.at < len(self.tokens):
            raise self._error(f"{self._peek()!r} is not expected here; layouts are composed by 'o'")
        last = parts.pop() if parts else 0
        if isinstance(last, int) and not self.text.strip().lstrip("_").isdigit():
            raise self._error("the last part of a composition is not a layout", len(self.text))
        if isinstance(last, CuteSwizzle):
            raise self._error(f"{last} is not applied to a layout; write {last} o Shape:Stride", len(self.text))
        layout = CuteLayout(last, 1) if isinstance(last, int) else last
        if layout.size > LARGEST:
            raise self._error(f"{tuple_text(layout.shape)} has {layout.size:,} elements, more than {LARGEST:,}", 0)
        return CuteExpression(layout, tuple(parts), pointer_bits)

    def _term(self) -> CuteSwizzle | CuteLayout | int:
        word = self._peek()
        if word in ("Swizzle", "Sw"):
            return self._swizzle()
        if word == "Layout":
            return self._spelled_out()
        start = self.at
        shape = self._tuple()
        if self._peek() != ":":
            return shape if isinstance(shape, int) else self._layout(shape, compact(shape), start)
        self.at += 1
        return self._layout(shape, self._tuple(), start)

    def _layout(self, shape: IntTuple, stride: IntTuple, start: int) -> CuteLayout:
        if any(extent < 1 for extent in leaves(shape)):
            raise self._error(f"the shape {tuple_text(shape)} has an extent below 1", self.tokens[start][1])
        if not _congruent(shape, stride):
            raise self._error(
                f"the stride {tuple_text(stride)} is not nested as the shape {tuple_text(shape)} is",
                self.tokens[start][1],
            )
        return CuteLayout(shape, stride)

    def _spelled_out(self) -> CuteLayout:
        """`Layout<Shape<_8,_64>,Stride<_64,_1>>`"""
        start = self.at
        self.at += 1
        self._expect("<")
        shape = self._tuple()
        stride = compact(shape)
        if self._peek() == ",":
            self.at += 1
            stride = self._tuple()
        self._expect(">")
        return self._layout(shape, stride, start)

    def _swizzle(self) -> CuteSwizzle:
        start = self.tokens[self.at][1]
        self.at += 1
        numbers = self._list("<", ">") if self._peek() == "<" else []
        if len(numbers) != 3 or not all(isinstance(number, int) for number in numbers):
            raise self._error("a swizzle has three numbers, Swizzle<B,M,S>", start)
        bits, base, shift = (number for number in numbers if isinstance(number, int))
        if bits < 0 or base < 0 or max(bits, base, abs(shift)) > 30:
            raise self._error(f"Swizzle<{bits},{base},{shift}>: B and M are at least 0, none is above 30", start)
        if abs(shift) < bits:
            raise self._error(f"Swizzle<{bits},{base},{shift}>: S must be at least B, or the bits would overlap", start)
        return CuteSwizzle(bits, base, shift)

    def _pointer(self) -> int:
        """`smem_ptr[16b](unset)`"""
        match = re.match(r"smem_ptr\[(\d+)b\](?:\(\w+\))?", self.text[self.tokens[self.at][1] :])
        if match is None or int(match[1]) not in (8, 16, 32, 64, 128):
            raise self._error("a pointer is written smem_ptr[16b](unset), with 8, 16, 32, 64 or 128 bits")
        end = self.tokens[self.at][1] + match.end()
        while self.at < len(self.tokens) and self.tokens[self.at][1] < end:
            self.at += 1
        return int(match[1])

    def _tuple(self) -> IntTuple:
        token = self._peek()
        if token in ("Shape", "Stride"):
            self.at += 1
            return tuple(self._list("<", ">"))
        if token == "(":
            return tuple(self._list("(", ")"))
        if not token or not is_whole_number(token.lstrip("_").removeprefix("-")):
            raise self._error(f"expected a number or '(', got {token[:40] or 'nothing'!r}")
        self.at += 1
        return int(token.lstrip("_"))

    def _list(self, opening: str, closing: str) -> list[IntTuple]:
        self._expect(opening)
        values = [self._tuple()]
        while self._peek() == ",":
            self.at += 1
            values.append(self._tuple())
        self._expect(closing)
        return values

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"expected {mark!r}, got {self._peek() or 'nothing'!r}")
        self.at += 1

    def _peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""


def _congruent(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(_congruent(*pair) for pair in zip(shape, stride, strict=True))
