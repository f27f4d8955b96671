"""Embeddings, gathers and scatters: only the rows that are asked for are moved, and the indices themselves."""

from __future__ import annotations

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.tensors import Call, Tensor, product

FAMILY = "indexing"


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
    """SelectedRows of a source added into a table: `index_add_`, where the touched rows are read and written."""

    table: int
    index: int
    source: int

    def cost(self, call: Call) -> Cost | None:
        table, index, source = (call.tensor(argument) for argument in (self.table, self.index, self.source))
        if table is None or index is None or source is None:
            return None
        return _cost(index, source.numel, source, 3, flop=source.numel)


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
