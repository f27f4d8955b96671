"""Triton kernels that Inductor launches, its own and those of the program: bytes from the tensors of the launch.

A generated kernel reads or writes each of its tensors once, as far as is recorded. Its arguments are those it updates
in place, those it reads, those it writes, in this order: where a pointwise kernel's last tensor is too small to be its
result, the first is read and written. A kernel that looks rows up in a table does not read the table: its tensors count
for no more elements than the kernel iterates over.

Its FLOPs are those of the ops that its name lists, each as much per element as the op table says: what Inductor fuses
is no other work. An op that it splits over several kernels is named, and counts, in each; it names at most ten.

A kernel of the program is recorded as an op with the kernel's name and a number (`sage_fwd_1`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from warplens.costs.attention import attention_by_sizes
from warplens.costs.cost import Cost
from warplens.costs.ops import OPS
from warplens.costs.pointwise import Pointwise
from warplens.costs.streams import ByteStream, Reduction
from warplens.costs.tensors import Call, Tensor

PREFIX: Final = "triton_"
OF_PROGRAM: Final = re.compile(r"(?P<kernel>[A-Za-z_]\w{0,200})_\d{1,9}", re.ASCII)
GATES: Final = re.compile(r"mul.{0,200}(?:silu|sigmoid)|gelu.{0,200}mul")
"""An activation of one tensor times another: with two tensors of one size, the first is the result as well."""
LOOKUPS: Final = re.compile(r"embedding|index|gather|scatter")
APPROXIMATE: Final = "each recorded tensor is counted once"
FUSED: Final = "_fused_"
VIEWS: Final = (
    *("_to_copy", "_unsafe_view", "constant_pad_nd", "detach", "expand", "permute", "select", "slice", "split"),
    *("squeeze", "t", "transpose", "unbind", "unsqueeze", "view"),
)
PER_ELEMENT: Final[dict[str, float]] = {
    name.removeprefix("aten::"): family.flop if isinstance(family, Pointwise | ByteStream | Reduction) else 0.0
    for name, family in OPS.items()
} | {"addmm": 1.0, "baddbmm": 1.0, **dict.fromkeys(VIEWS, 0.0)}
"""FLOPs per element of the ops that a kernel's name can list, without their namespace. A product has its cost on the op
that calls the library: only adding its bias is fused."""
KINDS: Final = {"poi": "pointwise", "red": "reduction", "per": "reduction", "tem": "template", "for": "pointwise"}


def triton_cost(call: Call) -> Cost | None:
    tensors = call.all_tensors
    if not tensors:
        return None
    numbers = [call.integer(argument) for argument in range(len(call.args)) if call.text(argument).isdigit()]
    points = iteration_space(call.op, numbers) or max(tensor.numel for tensor in tensors)
    limit = points if LOOKUPS.search(call.op) else max(tensor.stored for tensor in tensors)
    moved = sum(min(tensor.stored, limit) * tensor.item_bytes for tensor in tensors)
    if call.op.startswith("triton_poi") and is_updated(call.op, tensors, points):
        moved += tensors[0].bytes
    widest = max(tensors, key=lambda tensor: tensor.bytes)
    kind = KINDS.get(call.op.removeprefix(PREFIX)[:3], "pointwise")
    per_point = 1.0 if kind == "template" else flop_per_point(call.op)
    params = (("elements", points), ("tensors", len(tensors)), ("kind", kind))
    return Cost("triton", points * per_point, moved, widest.dtype, params=params, approximate=APPROXIMATE)


@cache
def flop_per_point(op: str) -> float:
    """What the ops in the name of a generated kernel compute per element; 1 where it names none that is known.

    >>> flop_per_point("triton_poi_fused_silu_0"), flop_per_point("triton_poi_fused__unsafe_view_mul_silu_2")
    (3.0, 4.0)
    >>> flop_per_point("triton_poi_fused__to_copy_11"), flop_per_point("triton_per_fused_0")
    (0.0, 1.0)
    """
    words = op.partition(FUSED)[2].split("_")[:-1]
    counts, at = [], 0
    while at < len(words):
        ends = range(len(words), at, -1)  # the longest name first: silu_backward is not silu
        end = next((end for end in ends if "_".join(words[at:end]) in PER_ELEMENT), at)
        counts += [PER_ELEMENT["_".join(words[at:end])]] if end > at else []
        at = max(end, at + 1)
    return sum(counts) if counts else 1.0


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


def is_updated(op: str, tensors: tuple[Tensor, ...], points: int) -> bool:
    """Whether a pointwise kernel's first tensor must be its result too: the last one cannot be, or has to be read.

    >>> x, bias = Tensor((512, 64), "bf16"), Tensor((64,), "bf16")
    >>> is_updated("triton_poi_fused_addmm_gelu_0", (x, bias), 32768)
    True
    >>> is_updated("triton_poi_fused_gelu_0", (x, x), 32768), is_updated("triton_poi_fused_mul_silu_0", (x, x), 32768)
    (False, True)
    """
    first, last = tensors[0], tensors[-1]
    if first.numel != points:
        return False
    if last.numel < points:
        return True
    return len(tensors) == 2 and first.dtype == last.dtype and GATES.search(op) is not None


def is_of_program(op: str, kernel: str) -> bool:
    """Whether the op is the launch of a Triton kernel of the program.

    >>> is_of_program("sage_fwd_1", "sage_fwd"), is_of_program("aten::mm", "mm")
    (True, False)
    """
    match = OF_PROGRAM.fullmatch(op)
    return match is not None and match["kernel"] == kernel


def program_cost(call: Call, *, is_attention: bool) -> Cost | None:
    """A kernel of the program: attention by the sizes of its first tensors, any other by the tensors it is handed."""
    tensors = call.all_tensors
    attention = attention_by_sizes(tensors) if is_attention else None
    if attention is not None or not tensors:
        return attention
    widest = max(tensors, key=lambda tensor: tensor.bytes)
    moved = sum(tensor.bytes for tensor in tensors)
    params = (("elements", widest.numel), ("tensors", len(tensors)), ("kind", "program"))
    return Cost("triton", float(widest.numel), moved, widest.dtype, params=params, approximate=APPROXIMATE)
