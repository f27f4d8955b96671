"""Ops over lists of tensors: `cat`, and the optimizers' foreach and fused ones.

Of a long list (over 30 tensors) PyTorch's profiler records no shapes at all, and never the dtypes. What remains is the
launch: multi-tensor kernels cut every tensor into chunks of 65,536 elements and give each chunk one block, so their
number gives the elements, to within the last chunk of each tensor.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.tensors import Call

CHUNK: Final = 65_536
"""Elements per block of a multi-tensor kernel (kChunkSize of PyTorch's MultiTensorApply.cuh)."""
FROM_GRID: Final = "elements are counted from the launch grids, to within one chunk per tensor"
SIZE_UNKNOWN: Final = "element size is taken as 4 bytes"


class JoinedTensors(Struct, frozen=True):
    """`cat` and `stack`: every element is read and written once."""

    tensors: int = 0

    def cost(self, call: Call) -> Cost | None:
        members = call.tensors(self.tensors)
        if not members:
            return None
        elements = sum(member.numel for member in members)
        size = call.list_item_bytes or 4.0
        read = sum(member.stored for member in members)
        params = (("elements", elements), ("tensors", len(members)))
        why = "" if call.list_item_bytes else SIZE_UNKNOWN
        return Cost("cat", 0.0, (read + elements) * size, "", unit="", params=params, approximate=why)


class MultiTensor(Struct, frozen=True):
    """A foreach op or a fused optimizer: `reads` and `writes` are passes over the whole list."""

    reads: int = 1
    writes: int = 1
    flop: float = 1.0
    family: str = "optimizer"
    one_more_if: int | None = None
    """Argument that says, by not being 0 or False, that one more state is read and written."""
    note: str = ""

    def cost(self, call: Call, chunks: int = 0) -> Cost | None:
        members = call.tensors(0)
        elements = sum(member.numel for member in members) or chunks * CHUNK
        if not elements:
            return None
        size = call.list_item_bytes or 4.0
        notes = [] if members else [FROM_GRID]
        notes += [] if call.list_item_bytes else [SIZE_UNKNOWN]
        notes += [self.note] if self.note else []
        more = call.text(self.one_more_if) not in ("", "False", "0", "0.")
        passes = self.reads + self.writes + 2 * more
        params = (("elements", elements), ("passes", passes))
        moved = elements * size * passes
        dtype = call.list_dtype or {2.0: "bf16", 8.0: "fp64"}.get(size, "fp32")
        return Cost(self.family, elements * self.flop, moved, dtype, params=params, approximate="; ".join(notes))
