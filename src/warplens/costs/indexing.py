"""Embeddings, gathers and scatters: only the rows that are asked for are moved, and the indices themselves."""

from __future__ import annotations

import re

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.tensors import MAX_ELEMENTS, Call, Tensor, product

FAMILY = "indexing"
GATHER = re.compile(r"vectorized_gather_kernel<(\d{1,2}),")
"""Bytes that a thread moves at once."""
GATHER_THREADS = 256
ELEMENTS = re.compile(r"index_elementwise_kernel<(\d{1,4}), (\d{1,2}),")
"""Threads of a block, and elements of a thread."""
FROM_GRID = "elements are counted from the launch grid, to within one block; indices are not recorded"
NO_INDICES = "indices are not recorded; every value is taken to have one place"


def _cost(index: Tensor, moved_elements: int, table: Tensor, sides: float, flop: float = 0.0) -> Cost:
    """`sides`: how often each moved element is read or written."""
    moved = index.bytes + sides * moved_elements * table.item_bytes
    params = (("elements", moved_elements), ("indices", index.numel), ("table", product(table.shape[:1])))
    return Cost(FAMILY, flop, moved, table.dtype, params=params)


class SelectedRows(Struct, frozen=True):
    """Whole slices along one dimension, picked by a list of indices: `embedding`, `index_select`."""

    table: int
    index: int
    dim: int | None = None

    def cost(self, call: Call) -> Cost | None:
        table, index = call.tensor(self.table), call.tensor(self.index)
        if table is None or index is None or not table.shape:
            return None
        size = table.shape[call.integer(self.dim) % len(table.shape)]
        return _cost(index, table.numel // max(1, size) * index.numel, table, 2)


class Elements(Struct, frozen=True):
    """One element per index (`gather`), or written or added to one place per index (`scatter`)."""

    table: int = 0
    index: int = 2
    sides: float = 2.0
    adds: bool = False

    def cost(self, call: Call) -> Cost | None:
        table, index = call.tensor(self.table), call.tensor(self.index)
        if table is None or index is None:
            return None
        return _cost(index, index.numel, table, self.sides, flop=index.numel * self.adds)


class AddedRows(Struct, frozen=True):
    """Slices of a source put into a table: added (`index_add_`), where the touched ones are read too, or copied."""

    table: int
    index: int
    source: int
    adds: bool = True

    def cost(self, call: Call) -> Cost | None:
        table, index, source = (call.tensor(argument) for argument in (self.table, self.index, self.source))
        if table is None or index is None or source is None:
            return None
        return _cost(index, source.numel, source, 3 if self.adds else 2, flop=source.numel * self.adds)


class IndexedElements(Struct, frozen=True):
    """`index`, whose indices are not recorded: the launch tells how much it picks.

    Whole rows have one column of blocks each, as high as the row is long; single elements share blocks of so many.
    """

    def cost(self, call: Call, chunks: int = 0) -> Cost | None:
        table, rows, elements = call.tensor(0), GATHER.search(call.kernel), ELEMENTS.search(call.kernel)
        if table is None or not table.shape or not 0 < chunks <= MAX_ELEMENTS or not table.numel:
            return None
        row = table.numel // table.shape[0]
        if rows:
            blocks_per_row = max(1, -(-int(row * table.item_bytes) // (GATHER_THREADS * max(1, int(rows[1])))))
            picked, moved, why = chunks // blocks_per_row * row, 8.0 * (chunks // blocks_per_row), ""
        elif elements:
            picked, moved, why = chunks * int(elements[1]) * int(elements[2]), 0.0, FROM_GRID
        else:
            return None
        moved += 2 * picked * table.item_bytes
        params = (("elements", picked), ("table", table.shape[0]))
        return Cost(FAMILY, 0.0, moved, table.dtype, params=params, approximate=why)


class PutValues(Struct, frozen=True):
    """`index_put_`: each value is written, or added, to one place; the list of indices is not recorded."""

    table: int = 0
    values: int = 2
    accumulate: int = 3

    def cost(self, call: Call) -> Cost | None:
        table, values = call.tensor(self.table), call.tensor(self.values)
        if table is None or values is None or values.numel < 2:
            return None  # one value for all places says nothing of their number
        adds = call.flag(self.accumulate)
        moved = values.bytes + (2 if adds else 1) * values.numel * table.item_bytes
        params = (("elements", values.numel), ("table", product(table.shape[:1])))
        return Cost(FAMILY, values.numel * adds, moved, table.dtype, params=params, approximate=NO_INDICES)


class EmbeddingBackward(Struct, frozen=True):
    """Reads the gradient and the indices; writes the whole table's gradient, as many rows as `rows` says."""

    gradient: int = 0
    index: int = 1
    rows: int = 2

    def cost(self, call: Call) -> Cost | None:
        gradient, index = call.tensor(self.gradient), call.tensor(self.index)
        rows = call.integer(self.rows)
        if gradient is None or index is None or not gradient.shape or rows <= 0:
            return None
        written = rows * gradient.shape[-1] * gradient.item_bytes
        params = (("elements", gradient.numel), ("indices", index.numel), ("table", rows))
        moved = gradient.bytes + index.bytes + written
        return Cost(FAMILY, gradient.numel, moved, gradient.dtype, params=params)
