"""What sizes say of allocations from before the recording: parameters, gradients and states of an optimizer come in the
same sizes, so that those on record tell what the others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.memory.categories import BEFORE, GRADIENTS, PARAMETERS, STATE, TEMPORARY, UNKNOWN
from warplens.analyses.memory.history import NEVER
from warplens.analyses.memory.labels import OPTIMIZER

ENOUGH: Final = 0.9
"""Of the gradients' bytes that must have their like: weights that are shared or frozen have not."""
WITH_TWO_STATES: Final = 3
"""Copies of the parameters' sizes: Adam's two states beside the parameters are known without a step on record."""
Decision = tuple[str, str]


def by_size(held: pl.DataFrame, end_labels: Sequence[str]) -> pl.DataFrame:
    """`held` with other categories where sizes tell more. `end_labels`: by row, the part of the program that frees."""
    sizes, categories, hows = (held[name].to_list() for name in ("requested_bytes", "category", "how"))
    gradients = _most_gradients(held)
    has_optimizer = STATE in categories or OPTIMIZER in end_labels
    before = [row for row, category in enumerate(categories) if category == BEFORE]
    decided = _copies(before, sizes, gradients, has_optimizer=has_optimizer)
    states = {size for size, category in zip(sizes, categories, strict=True) if category == STATE}
    parameters = {size for size, category in zip(sizes, categories, strict=True) if category == PARAMETERS}
    parameters |= {sizes[row] for row, (category, _) in decided.items() if category == PARAMETERS}
    begins, ends = held["begin"].to_list(), held["end"].to_list()
    for row, category in enumerate(categories):
        if category == UNKNOWN and begins[row] < 0 and end_labels[row] == OPTIMIZER and sizes[row] in states:
            decided[row] = STATE, "allocated before the recording, replaced in the optimizer's step"
        if category == TEMPORARY and ends[row] == NEVER and sizes[row] in parameters and "backward" in hows[row]:
            decided[row] = GRADIENTS, f"{hows[row]}, and of a parameter's size"
    for row, (category, how) in decided.items():
        categories[row], hows[row] = category, how
    texts = {"category": categories, "how": hows}
    return held.with_columns(pl.Series(name, values, dtype=pl.String) for name, values in texts.items())


def _most_gradients(held: pl.DataFrame) -> Counter[int]:
    """How many gradients of each size there are when most of them are held: those of one step."""
    rows = held.filter((pl.col("category") == GRADIENTS) & (pl.col("begin") >= 0))
    if not len(rows):
        return Counter()
    begin, end, size = (rows[name].to_numpy() for name in ("begin", "end", "bytes"))
    order = np.argsort(np.concatenate([begin, end]), kind="stable")
    moments = np.concatenate([begin, end])[order]
    most = int(moments[np.argmax(np.cumsum(np.concatenate([size, -size])[order]))])
    return Counter(rows.filter((pl.col("begin") <= most) & (pl.col("end") > most))["requested_bytes"].to_list())


def _copies(
    before: Sequence[int], sizes: Sequence[int], gradients: Counter[int], *, has_optimizer: bool
) -> dict[int, Decision]:
    """What was there all the time as often as the gradients: first the parameters, then states."""
    rows: dict[int, list[int]] = {}
    for row in before:
        rows.setdefault(sizes[row], []).append(row)
    whole = sum(size * count for size, count in gradients.items())
    copies = 0
    while whole and _like(gradients, rows, copies + 1) >= ENOUGH * whole:
        copies += 1
    decided: dict[int, Decision] = {}
    for size, count in gradients.items() if copies else ():
        for place, row in enumerate(rows.get(size, ())[: count * copies]):
            if place < count:
                decided[row] = PARAMETERS, "held all the time, in the sizes of the gradients"
            elif has_optimizer or copies >= WITH_TWO_STATES:
                decided[row] = STATE, "held all the time, in the sizes of the gradients once more"
    return decided


def _like(gradients: Counter[int], rows: dict[int, list[int]], copies: int) -> int:
    """Bytes of the gradients that this many allocations of the same size are there for."""
    return sum(size * count for size, count in gradients.items() if len(rows.get(size, ())) >= copies * count)
