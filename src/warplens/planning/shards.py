"""Shards of parameters: where gradients are reduced and scattered (FSDP and the like), a rank steps over its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from warplens.model.trace import Trace
from warplens.planning.recorded import RecordedTensor, contiguous

REDUCE_SCATTER: Final = "reduce_scatter"


@dataclass(frozen=True)
class Sharding:
    """Each tensor is cut along its first side into as many parts as there are ranks."""

    ranks: int
    rank: int

    def shards(self, tensors: Sequence[RecordedTensor]) -> list[RecordedTensor]:
        """The rank's own; without those of which it has nothing."""
        own = [(tensor, self._rows(tensor.shape[0])) for tensor in tensors if tensor.shape]
        shapes = [(tensor, (rows, *tensor.shape[1:])) for tensor, rows in own if rows]
        return [replace(tensor, shape=shape, stride=contiguous(shape)) for tensor, shape in shapes]

    def _rows(self, whole: int) -> int:
        most = -(-whole // self.ranks)
        return max(0, min(most, whole - self.rank * most))


def shardings(trace: Trace) -> tuple[Sharding, ...]:
    """One per size of a group that gradients are reduced and scattered in; ranks of a group follow each other."""
    scattered = trace.collectives.filter(pl.col("collective").str.contains(REDUCE_SCATTER, literal=True))
    sizes = sorted({size for size in scattered["group_size"].to_list() if size is not None and size > 1})
    rank = trace.meta.distributed.rank if trace.meta.distributed is not None else 0
    return tuple(Sharding(size, rank % size) for size in sizes)
