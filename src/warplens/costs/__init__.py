"""Costs: FLOPs and bytes of an op call, from its recorded arguments."""

from __future__ import annotations

from warplens.costs.cost import MATRIX, VECTOR, Cost
from warplens.costs.lists import MultiTensor
from warplens.costs.ops import FOREACH_FLOP, OPS
from warplens.costs.pointwise import SAME_TENSOR, Pointwise, is_in_place
from warplens.costs.tensors import Call, Tensor, parse_call
from warplens.costs.triton import PREFIX, triton_cost

FOREACH = "aten::_foreach_"

__all__ = ["MATRIX", "VECTOR", "Call", "Cost", "Tensor", "assumed_pointwise", "cost_of", "has_model", "parse_call"]


def has_model(op: str) -> bool:
    """Whether the op table knows the op; its cost also needs the shapes."""
    name = op.partition(".")[0]
    return name in OPS or name.startswith((FOREACH, PREFIX)) or (is_in_place(name) and name[:-1] in OPS)


def cost_of(call: Call, chunks: int = 0) -> Cost | None:
    """The cost of a call, or None where the op has no model or too little was recorded.

    `chunks` is the number of blocks its kernels ran, which sizes the lists of optimizers.

    >>> from warplens.costs import Call, Tensor, cost_of
    >>> cost = cost_of(Call("aten::mm", (Tensor((128, 64), "bf16"), Tensor((64, 32), "bf16"))))
    >>> cost.flop, cost.bytes, cost.params_text
    (524288, 28672.0, 'B=1 M=128 N=32 K=64 layout=nn')
    """
    name = call.op.partition(".")[0]
    if name.startswith(PREFIX):
        return triton_cost(call)
    family = OPS.get(name) or (OPS.get(name[:-1]) if is_in_place(name) else None)
    if family is None and name.startswith(FOREACH):
        family = _foreach(call, name)
    if isinstance(family, MultiTensor):
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
