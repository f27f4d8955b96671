"""The padding and the swizzle that suit given accesses best: all usual ones are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from warplens_lab.layouts.bases import is_power_of_two
from warplens_lab.layouts.memory import UNSWIZZLED, Offsets, Swizzle, padded, swizzled

Option = TypeVar("Option")
Cost = Callable[[Offsets], int]
_VECTOR_BITS: Final = (8, 16, 32, 64, 128)


def best_padding(shape: Sequence[int], order: Sequence[int], element_bits: int, cost: Cost) -> tuple[int, Offsets]:
    """Elements to leave free after each row, and where the elements then lie."""
    row = shape[order[0]]
    steps = [bits // element_bits for bits in _VECTOR_BITS if bits >= element_bits]
    options = [(step, padded(row, step, shape, order)) for step in dict.fromkeys(steps)]
    return _least(options, lambda option: cost(option[1]))


def best_swizzle(shape: Sequence[int], order: Sequence[int], element_bits: int, cost: Cost) -> tuple[Swizzle, Offsets]:
    row = shape[order[0]]
    options = [
        Swizzle(vector, per_phase, max_phase)
        for vector in (1, 2, 4, 8, 16)
        for per_phase in (1, 2, 4)
        for max_phase in (2, 4, 8, 16, 32)
        if vector * max_phase <= row and vector * element_bits <= 128 and is_power_of_two(row)
    ]
    pairs = [(option, swizzled(option, shape, order)) for option in (*options, UNSWIZZLED)]
    return _least(pairs, lambda pair: cost(pair[1]))


def _least(options: Sequence[Option], cost: Callable[[Option], int]) -> Option:
    """The first with the least cost; none at all ends the search, which takes most of the time of a check."""
    best, least = options[0], cost(options[0])
    for option in options[1:]:
        if not least:
            break
        own = cost(option)
        if own < least:
            best, least = option, own
    return best
