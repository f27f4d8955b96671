"""What sizes say of allocations from before the recording: parameters, gradients and states of an optimizer come in the
same sizes, so that those on record tell what the others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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


def by_size(held: pl.DataFrame, end_label: pl.Series) -> pl.DataFrame:
    """`held` with other categories where sizes tell more. `end_label`: the part of the program that frees."""
    rows = held.select("requested_bytes", "category", "how", "begin", "end", end_label.alias("end_label"))
    rows = rows.with_row_index("row")
    has_optimizer = STATE in held["category"] or OPTIMIZER in end_label
    before = rows.filter(pl.col("category") == BEFORE).select("row", "requested_bytes")
    decided = _copies(before, _most_gradients(held), has_optimizer=has_optimizer)
    states, parameters = (
        set(rows.filter(pl.col("category") == category)["requested_bytes"].to_list())
        for category in (STATE, PARAMETERS)
    )
    sizes = dict(before.iter_rows())
    parameters |= {sizes[row] for row, (category, _) in decided.items() if category == PARAMETERS}
    replaced = (pl.col("category") == UNKNOWN) & (pl.col("begin") < 0) & (pl.col("end_label") == OPTIMIZER)
    for row in rows.filter(replaced & pl.col("requested_bytes").is_in(list(states)))["row"]:
        decided[row] = STATE, "allocated before the recording, replaced in the optimizer's step"
    unfinished = (pl.col("category") == TEMPORARY) & (pl.col("end") == NEVER) & pl.col("how").str.contains("backward")
    of_parameter = rows.filter(unfinished & pl.col("requested_bytes").is_in(list(parameters)))
    for row, how in of_parameter.select("row", "how").iter_rows():
        decided[row] = GRADIENTS, f"{how}, and of a parameter's size"
    return with_texts(held, ("category", "how"), decided)


def with_texts(frame: pl.DataFrame, columns: Sequence[str], texts: Mapping[int, Sequence[str]]) -> pl.DataFrame:
    """The frame with other texts in some rows.

    >>> with_texts(pl.DataFrame({"name": ["a", "b"]}), ["name"], {1: ["c"]})["name"].to_list()
    ['a', 'c']
    """
    if not texts:
        return frame
    rows = [(row, *values) for row, values in texts.items()]
    changed = pl.DataFrame(rows, schema={"row": pl.UInt32, **dict.fromkeys(columns, pl.String)}, orient="row")
    return frame.with_row_index("row").update(changed, on="row").drop("row")


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


def _copies(before: pl.DataFrame, gradients: Counter[int], *, has_optimizer: bool) -> dict[int, Decision]:
    """What was there all the time as often as the gradients: first the parameters, then states.

    `before`: rows and sizes of what was held all the time."""
    rows: dict[int, list[int]] = {}
    for row, size in before.iter_rows():
        rows.setdefault(size, []).append(row)
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
