"""Ops that compute each element of the result from the same element of the inputs."""

from __future__ import annotations

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.tensors import ITEM_BYTES, MAX_ELEMENTS, Call, Tensor, product

FAMILY = "pointwise"
SAME_TENSOR = "both factors are counted, also where they are one tensor"
KINDS = (
    # narrowest to widest, from the kind that yields to the kind that prevails
    ("bool",),
    ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    ("fp4", "fp8", "fp16", "bf16", "fp32", "fp64"),
    ("complex32", "complex64", "complex128"),
)
KIND = {dtype: kind for kind, dtypes in enumerate(KINDS) for dtype in dtypes}
FLOAT, COMPLEX = 2, 3
COMPLEX_OF = {"fp16": "complex32", "bf16": "complex64", "fp32": "complex64", "fp64": "complex128"}
NUMBER = {"fp64": "fp32", "complex128": "complex64"}
"""A Python number is recorded as a 0-dimensional tensor of the widest type, but counts as the default one."""


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that these shapes stretch to.

    >>> broadcast([(4, 1), (3,), ()])
    (4, 3)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def promoted(tensors: list[Tensor]) -> str:
    """The dtype of a result: the widest; 0-dimensional tensors count only where they are of a prevailing kind.

    >>> promoted([Tensor((8,), "bf16"), Tensor((), "fp64")]), promoted([Tensor((8,), "int64"), Tensor((), "fp64")])
    ('bf16', 'fp32')
    """
    deciding = [tensor.dtype for tensor in tensors if tensor.shape]
    if not deciding:
        return _widest([tensor.dtype for tensor in tensors])
    kind = max(KIND[dtype] for dtype in deciding)
    single = [tensor.dtype for tensor in tensors if not tensor.shape and KIND[tensor.dtype] > kind]
    if kind == FLOAT and single:
        return COMPLEX_OF.get(_widest(deciding), "complex64")
    return _widest(deciding + [NUMBER.get(dtype, dtype) for dtype in single])


def _widest(dtypes: list[str]) -> str:
    kind = max(KIND[dtype] for dtype in dtypes)
    candidates = {dtype for dtype in dtypes if KIND[dtype] == kind}
    if kind == COMPLEX:
        candidates |= {COMPLEX_OF[dtype] for dtype in dtypes if dtype in COMPLEX_OF}
    if candidates >= {"bf16", "fp16"}:
        candidates.add("fp32")
    if candidates >= {"uint8", "int8"}:
        candidates.add("int16")
    return max(candidates, key=KINDS[kind].index)


class Pointwise(Struct, frozen=True):
    """The first `inputs` arguments are the operands; a tensor after them is the place for the result."""

    inputs: int = 1
    flop: float = 1.0
    """Operations per element; an exponential or the like counts as one."""
    result: str = ""
    """dtype of the result, where it is not that of the operands (`bool` for comparisons)."""
    extra_result: str = ""
    """dtype of a second result of the same shape, such as a dropout's mask."""
    family: str = FAMILY
    may_alias: bool = False
    """Optimizers pass one tensor as the second and third operand; profiles do not record which."""

    def cost(self, call: Call) -> Cost | None:
        operands = [arg for arg in call.args[: self.inputs] if isinstance(arg, Tensor)]
        if not operands:
            return None
        shape = broadcast([operand.shape for operand in operands])
        numel = product(shape)
        if numel > MAX_ELEMENTS:
            return None
        dtype = promoted(operands)
        written = ITEM_BYTES[self._result_dtype(call, operands, dtype)]
        written += ITEM_BYTES[self.extra_result] if self.extra_result else 0
        moved = sum(operand.bytes for operand in operands) + numel * written
        why = SAME_TENSOR if self.may_alias and len(operands) == 3 and operands[1] == operands[2] else ""
        return Cost(self.family, numel * self.flop, moved, dtype, params=(("elements", numel),), approximate=why)

    def _result_dtype(self, call: Call, operands: list[Tensor], dtype: str) -> str:
        if is_in_place(call.op) and isinstance(call.args[0], Tensor):
            return call.args[0].dtype
        out = next((arg for arg in call.args[self.inputs :] if isinstance(arg, Tensor)), None)
        return self.result or (out.dtype if out else dtype)


def is_in_place(op: str) -> bool:
    """`aten::add_` and `aten::add_.Tensor`, but not `aten::__and__`."""
    name = op.partition(".")[0]
    return name.endswith("_") and not name.endswith("__")
