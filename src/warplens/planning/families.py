"""Families: units that differ in one growing size only, such as attention over a growing cache.

Two units belong together where op and dtypes agree and their shapes are equal once one number is replaced by a star:
[16, 1, 9] and [16, 1, 10] both read [16, 1, *]. The starred numbers must grow in equal steps; layers of 64, 128 and 512
channels are not a family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from warplens_run.formats.replay_plan import Argument, Unit

SMALLEST: Final = 3
"""Two sizes are two layers; three in equal steps are a series."""
LONGEST_NAME: Final = 60
Key = tuple[object, ...]


def with_families(units: Sequence[Unit]) -> list[Unit]:
    keys = [list(_keys(unit)) for unit in units]
    sizes: dict[Key, list[int]] = {}
    for unit_keys in keys:
        for key, size, _ in unit_keys:
            sizes.setdefault(key, []).append(size)
    counts = {key: len(key_sizes) for key, key_sizes in sizes.items() if _grows(key_sizes)}
    names: dict[Key, str] = {}
    named_units = []
    for unit, unit_keys in zip(units, keys, strict=True):
        # Each unit goes where most others are.
        best = max(
            (candidate for candidate in unit_keys if candidate[0] in counts),
            key=lambda candidate: counts[candidate[0]],
            default=None,
        )
        if best is None:
            named_units.append(unit)
            continue
        name = names.setdefault(best[0], f"{unit.op} {best[2]} #{len(names) + 1}")
        named_units.append(replace(unit, family=name))
    return named_units


def _grows(sizes: Sequence[int]) -> bool:
    """
    >>> _grows([9, 10, 11, 12]), _grows([64, 128, 512]), _grows([1, 9, 10, 11])
    (True, False, True)
    """
    steps = Counter(after - before for before, after in pairwise(sorted(set(sizes))))
    if sum(steps.values()) < SMALLEST - 1:
        return False
    return 2 * steps.most_common(1)[0][1] > sum(steps.values())


def _keys(unit: Unit) -> Iterator[tuple[Key, int, str]]:
    """For each number among the shapes: the unit with it starred, the number, and the shapes as text."""
    shapes = list(_shapes(unit.arguments))
    dtypes = tuple(_dtypes(unit.arguments))
    for number in dict.fromkeys(side for shape in shapes for side in shape if side > 0):
        starred = [["*" if side == number else side for side in shape] for shape in shapes]
        text = " ".join("[" + ", ".join(map(str, shape)) + "]" for shape in starred)
        short = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."
        yield (unit.op, unit.overload, dtypes, text), number, short


def _shapes(arguments: Sequence[Argument]) -> Iterator[tuple[int, ...]]:
    for argument in arguments:
        if argument.tensor is not None:
            yield argument.tensor.shape
        yield from _shapes(argument.items)


def _dtypes(arguments: Sequence[Argument]) -> Iterator[str]:
    for argument in arguments:
        if argument.tensor is not None:
            yield argument.tensor.dtype
        yield from _dtypes(argument.items)
