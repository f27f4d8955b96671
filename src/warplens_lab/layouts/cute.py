"""CuTe's layouts: shapes and strides with nested modes, `Swizzle<B,M,S>`, and compositions of both.

A layout maps a coordinate to an offset; within a mode, the first of nested shapes runs fastest. `Swizzle<B,M,S>` takes
B bits of an offset from bit M + S on and adds them, by exclusive-or, to the B bits from bit M on. Behind a pointer
(`Sw<3,4,3> o smem_ptr[16b](unset) o …`, which is how CuTe prints what TMA and wgmma use) it moves bytes, else elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from warplens_lab.layouts.bases import Ints

IntTuple = int | tuple["IntTuple", ...]


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
    element: str = ""
    """The type of an element, where the text names it."""

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
    """CuTe's strides of a shape that is given without any: the first mode runs fastest.

    >>> compact((8, (4, 2)))
    (1, (8, 32))
    """
    if isinstance(shape, int):
        return step
    strides: list[IntTuple] = []
    for part in shape:
        strides.append(compact(part, step))
        step *= prod(leaves(part))
    return tuple(strides)


def compact_right(shape: IntTuple, step: int = 1) -> IntTuple:
    """The strides of `GenRowMajor`: the last mode runs fastest, in nested shapes too.

    >>> compact_right((8, (4, 2)))
    (8, (2, 1))
    """
    if isinstance(shape, int):
        return step
    strides: list[IntTuple] = []
    for part in reversed(shape):
        strides.append(compact_right(part, step))
        step *= prod(leaves(part))
    return tuple(reversed(strides))


def compact_ordered(shape: Sequence[IntTuple], order: Sequence[int]) -> tuple[IntTuple, ...]:
    """The strides where the mode with the smallest number in `order` runs fastest.

    >>> compact_ordered((8, 64), (2, 1))
    (64, 1)
    """
    strides: dict[int, IntTuple] = {}
    step = 1
    for mode in sorted(range(len(shape)), key=lambda at: order[at]):
        strides[mode] = compact(shape[mode], step)
        step *= prod(leaves(shape[mode]))
    return tuple(strides[mode] for mode in range(len(shape)))


def tiled(atom: CuteLayout, shape: Sequence[int], order: Sequence[int]) -> CuteLayout:
    """`tile_to_shape` of an atom without gaps: atoms follow each other until they fill the shape."""
    modes = [*atom.modes, *[CuteLayout(1, 0)] * (len(shape) - len(atom.modes))]
    counts = [-(-extent // mode.size) for extent, mode in zip(shape, modes, strict=True)]
    steps = leaves(compact_ordered(counts, order))
    filled = [
        _beside(*each, atom.size * step) for each, step in zip(zip(modes, counts, strict=True), steps, strict=True)
    ]
    return CuteLayout(tuple(mode.shape for mode in filled), tuple(mode.stride for mode in filled))


def _beside(mode: CuteLayout, count: int, step: int) -> CuteLayout:
    if count == 1:
        return mode
    if mode.size == 1:
        return CuteLayout(count, step)
    extents, strides = leaves(mode.shape), leaves(mode.stride)
    if extents[-1] * strides[-1] == step:  # the copies go on where the mode ends
        extents[-1] *= count
    else:
        extents.append(count)
        strides.append(step)
    return CuteLayout(extents[0], strides[0]) if len(extents) == 1 else CuteLayout(tuple(extents), tuple(strides))
