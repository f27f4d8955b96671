"""Attention as one fused call instead of products and a softmax on stored scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from warplens.planning.recorded import contiguous
from warplens.planning.schemas import parse_schema
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.unit_edits import PRODUCTS, NoExperiment, tensors_of
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import DTYPES, Argument, Storage, TensorView, Times, Unit

SOFTMAX: Final = "aten::_softmax"
SOFTMAX_BACKWARD: Final = "aten::_softmax_backward_data"
MASKING: Final = ("aten::masked_fill_", "aten::masked_fill", "aten::triu", "aten::tril", "aten::where")
FUSED, IN_PARTS = "warplens::attention", "warplens::attention_in_parts"
TRAINING: Final = "_with_gradients"
"""What is added to an op's name for its forward and backward pass together."""
BACKENDS: Final = {
    # variants: which of PyTorch's kernels may be chosen, by its name there; none: PyTorch's own choice
    "fused": "",
    "fused, flash": "FLASH_ATTENTION",
    "fused, memory-efficient": "EFFICIENT_ATTENTION",
    "fused, cuDNN": "CUDNN_ATTENTION",
}
CAUSAL: Final = "the mask is taken as causal"


@dataclass(frozen=True)
class AttentionSizes:
    """Of one call."""

    batch: tuple[int, int]
    """Sequences and heads."""
    queries: int
    keys: int
    width: int
    """Of queries and keys."""
    value_width: int
    dtype: str


def fused_attention(members: Sequence[UnitInStep]) -> tuple[list[Variant], list[Unit]]:
    """The units replaced by one call per softmax, forward or with its gradients, and the units that takes."""
    softmax = [member for member in members if member.unit.op == SOFTMAX]
    sizes = {_sizes(member.unit, members) for member in softmax}
    if len(sizes) != 1:
        raise NoExperiment(
            "scores of several sizes are not run as one attention" if sizes else "no softmax was recorded"
        )
    is_masked = any(member.unit.op in MASKING for member in members)
    forward = sum(member.calls for member in softmax)
    trained = sum(member.calls for member in members if member.unit.op == SOFTMAX_BACKWARD)
    return _variants(members, sizes.pop(), trained or forward, is_training=trained > 0, is_causal=is_masked)


def unmasked_attention(members: Sequence[UnitInStep]) -> tuple[list[Variant], list[Unit]]:
    """Fused attention with the causal flag instead of a mask."""
    forward = [member for member in members if "backward" not in member.unit.op]
    trained = sum(member.calls for member in members if "backward" in member.unit.op)
    sizes = {_recorded_sizes(member.unit) for member in forward}
    if len(sizes) != 1:
        raise NoExperiment("attention of several sizes is not run as one" if sizes else "no forward pass was recorded")
    calls = sum(member.calls for member in forward)
    return _variants(members, sizes.pop(), trained or calls, is_training=trained > 0, is_causal=True)


def _sizes(softmax: Unit, members: Sequence[UnitInStep]) -> AttentionSizes:
    scores = tensors_of(softmax)[0].shape
    queries, keys = scores[-2:]
    pairs = [
        tuple(matrices[-2:])
        for member in members
        if PRODUCTS.match(member.unit.op)
        and len(matrices := [tensor for tensor in tensors_of(member.unit) if len(tensor.shape) > 2]) > 1
    ]
    widths = {first.shape[-1] for first, second in pairs
              if (first.shape[-2], second.shape[-1]) == (queries, keys)}  # fmt: skip
    value_widths = {second.shape[-1] for first, second in pairs if first.shape[-2:] == (queries, keys)}
    if not widths or not value_widths:
        raise NoExperiment("the products around the softmax were not recorded")
    batch = (scores[0], scores[1]) if len(scores) == 4 else (1, math.prod(scores[:-2]))
    return AttentionSizes(batch, queries, keys, min(widths), min(value_widths), pairs[0][0].dtype)


def _recorded_sizes(unit: Unit) -> AttentionSizes:
    schema = parse_schema(unit.schema)
    names = [parameter.name for parameter in schema.parameters] if schema is not None else []
    views = {name: argument.tensor for name, argument in zip(names, unit.arguments, strict=False)}
    query, key, value = (views.get(name) for name in ("query", "key", "value"))
    if query is None or key is None or value is None or len(query.shape) != 4 or query.shape[1] != key.shape[1]:
        raise NoExperiment(f"{unit.op} is not attention on queries, keys and values of as many heads")
    batch = (query.shape[0], query.shape[1])
    return AttentionSizes(batch, query.shape[2], key.shape[2], query.shape[3], value.shape[3], query.dtype)


def _variants(
    members: Sequence[UnitInStep], sizes: AttentionSizes, calls: float, *, is_training: bool, is_causal: bool
) -> tuple[list[Variant], list[Unit]]:
    ending = TRAINING if is_training else ""
    before = tuple(UnitCalls(member.unit.id, member.calls) for member in members)
    traced_ns = sum(member.calls * member.unit.times.median_ns for member in members) / calls
    reference = attention_unit("attention.parts", IN_PARTS + ending, sizes, traced_ns, is_causal=is_causal)
    variants, units = [], [reference]
    for number, (name, backend) in enumerate(BACKENDS.items()):
        unit = attention_unit(
            f"attention.fused{number}", FUSED + ending, sizes, traced_ns, is_causal=is_causal, backend=backend
        )
        units.append(unit)
        swap = Swap(before, (UnitCalls(unit.id, calls),), reference=reference.id)
        notes = (CAUSAL,) if is_causal else ()
        variants.append(Variant(name, (swap,), notes=notes))
    return variants, units


def attention_unit(name: str, op: str, sizes: AttentionSizes, ns: float, *, is_causal: bool, backend: str = "") -> Unit:
    """A call of one of the project's own ops for attention."""
    shapes = list(_shapes(sizes, is_training=op.endswith(TRAINING)))
    items = [math.prod(shape) for shape in shapes]
    tensors = [
        Argument("tensor", tensor=TensorView(number, shape, contiguous(shape), sizes.dtype))
        for number, shape in enumerate(shapes)
    ]
    return Unit(
        id=name,
        op=op,
        kernels=(),
        count=1,
        times=Times(round(ns), ns, ns, ns, round(ns), round(ns)),
        api="ATen op",
        arguments=(
            *tensors,
            Argument("bool", is_causal),
            Argument("float", sizes.width**-0.5),
            Argument("str", backend),
        ),
        storages=tuple(Storage(count * DTYPES[sizes.dtype], sizes.dtype) for count in items),
    )


def _shapes(sizes: AttentionSizes, *, is_training: bool) -> Iterator[tuple[int, ...]]:
    """Of query, key, value, and of the gradient of the result."""
    yield (*sizes.batch, sizes.queries, sizes.width)
    yield (*sizes.batch, sizes.keys, sizes.width)
    yield (*sizes.batch, sizes.keys, sizes.value_width)
    if is_training:
        yield (*sizes.batch, sizes.queries, sizes.value_width)
