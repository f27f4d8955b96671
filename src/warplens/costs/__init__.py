"""Costs: FLOPs and bytes of an op call, from its recorded arguments."""

from __future__ import annotations

from typing import Final

from warplens.costs.cost import MATRIX, VECTOR, Cost
from warplens.costs.family import Family
from warplens.costs.indexing import IndexedElements
from warplens.costs.lists import MultiTensor
from warplens.costs.ops import FOREACH_FLOP, OPS
from warplens.costs.pointwise import SAME_TENSOR, Pointwise, is_in_place
from warplens.costs.tensors import Call, Tensor, parse_call
from warplens.costs.triton import PREFIX, triton_cost

FOREACH: Final = "aten::_foreach_"
OTHER_LIBRARIES: Final = frozenset(
    {
        "vllm", "_C", "_C_cache_ops", "_C_custom_ar", "_moe_C", "_rocm_C", "_vllm_fa2_C", "_vllm_fa3_C", "_flashmla_C",
        "sglang", "sgl_kernel", "sglang_profiler", "aiter", "flash_attn", "flash_attn_3", "flashinfer", "bitsandbytes",
        "torchao", "tex", "symm_mem",
    }
)  # fmt: skip
"""Namespaces whose ops are in `serving`, which is loaded when a trace names one."""
OTHER_NAMES: Final = frozenset(
    {"aten::_weight_int4pack_mm", "aten::_weight_int8pack_mm", "aten::_scaled_mm_v2", "_Linear", "_LayerNormLinear"}
)

__all__ = [
    "MATRIX",
    "VECTOR",
    "Call",
    "Cost",
    "Tensor",
    "assumed_pointwise",
    "cost_of",
    "cost_or_reason",
    "has_model",
    "is_of_serving",
    "parse_call",
]


def is_of_serving(op: str) -> bool:
    """Whether the op may be one of a serving engine or another kernel library, by its namespace."""
    return op.partition("::")[0] in OTHER_LIBRARIES or op.partition(".")[0] in OTHER_NAMES


def has_model(op: str) -> bool:
    """Whether the op table knows the op; its cost also needs the shapes."""
    name = op.partition(".")[0]
    if is_of_serving(name):
        return _serving(name) is not None
    return name in OPS or name.startswith((FOREACH, PREFIX)) or (is_in_place(name) and name[:-1] in OPS)


def _serving(name: str) -> Family | None:
    from warplens.costs.serving import serving_family

    return serving_family(name)


def cost_of(call: Call, chunks: int = 0) -> Cost | None:
    """The cost of a call, or None where the op has no model or too little was recorded.

    `chunks` is the number of blocks its kernels ran, which sizes the lists of optimizers.

    >>> from warplens.costs import Call, Tensor, cost_of
    >>> cost = cost_of(Call("aten::mm", (Tensor((128, 64), "bf16"), Tensor((64, 32), "bf16"))))
    >>> cost.flop, cost.bytes, cost.params_text
    (524288, 28672.0, 'B=1 M=128 N=32 K=64 layout=nn')
    """
    result = cost_or_reason(call, chunks)
    return result if isinstance(result, Cost) else None


def cost_or_reason(call: Call, chunks: int = 0) -> Cost | str | None:
    """The cost of a call; where there is none the reason, or None where its arguments are not recorded."""
    name = call.op.partition(".")[0]
    if name.startswith(PREFIX):
        return triton_cost(call)
    if is_of_serving(name):
        family = _serving(name)
    else:
        family = OPS.get(name) or (OPS.get(name[:-1]) if is_in_place(name) else None)
    if family is None and name.startswith(FOREACH):
        family = _foreach(call, name)
    if isinstance(family, MultiTensor | IndexedElements):
        return family.cost(call, chunks)
    return family.cost(call) if family is not None else None


def _foreach(call: Call, name: str) -> MultiTensor:
    """Every list is read; the first one, or a new one, is written."""
    lists = sum(isinstance(arg, tuple) for arg in call.args)
    kind = name.removeprefix(FOREACH).rstrip("_")
    return MultiTensor(max(1, lists), 1, FOREACH_FLOP.get(kind, 1.0), note=SAME_TENSOR if kind == "addcmul" else "")


def assumed_pointwise(call: Call) -> Cost | None:
    """The cost of an op that is not in the table but whose kernels are all elementwise."""
    return Pointwise(len(call.args)).cost(call)
