"""Inductor's Triton kernels: bytes from the tensors their launch records.

A generated kernel reads or writes each of its tensors once, as far as is recorded; a tensor that it updates in
place is moved twice but recorded once. A kernel that looks rows up in a table does not read the table: its tensors
count for no more elements than the kernel iterates over.
"""

from __future__ import annotations

import re
from typing import Final

from warplens.costs.cost import Cost
from warplens.costs.tensors import Call

PREFIX: Final = "triton_"
LOOKUPS: Final = re.compile(r"embedding|index|gather|scatter")
APPROXIMATE: Final = "each recorded tensor is counted once"
KINDS: Final = {"poi": "pointwise", "red": "reduction", "per": "reduction", "tem": "template", "for": "pointwise"}


def triton_cost(call: Call) -> Cost | None:
    tensors = call.all_tensors
    if not tensors:
        return None
    numbers = [call.integer(argument) for argument in range(len(call.args)) if call.text(argument).isdigit()]
    points = iteration_space(call.op, numbers) or max(tensor.numel for tensor in tensors)
    limit = points if LOOKUPS.search(call.op) else max(tensor.stored for tensor in tensors)
    moved = sum(min(tensor.stored, limit) * tensor.item_bytes for tensor in tensors)
    widest = max(tensors, key=lambda tensor: tensor.bytes)
    kind = KINDS.get(call.op.removeprefix(PREFIX)[:3], "pointwise")
    params = (("elements", points), ("tensors", len(tensors)), ("kind", kind))
    return Cost("triton", float(points), moved, widest.dtype, params=params, approximate=APPROXIMATE)


def iteration_space(op: str, numbers: list[int]) -> int:
    """Points a kernel visits: the sizes are its last scalars, one for pointwise kernels, two for reductions.

    >>> iteration_space("triton_per_fused_add_0", [13, 8192, 768])
    6291456
    """
    if not numbers:
        return 0
    if op.startswith(("triton_red", "triton_per")) and len(numbers) > 1:
        return numbers[-2] * numbers[-1]
    return numbers[-1]
