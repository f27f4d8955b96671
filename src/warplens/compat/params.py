"""The sizes and types of a costed call as TraceLens has them: the `param:` columns, by which its sheets group calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from warplens.compat.calls import Inputs
from warplens.compat.names import PARAMS, SHEET_OF
from warplens.costs import Call, Cost
from warplens.costs.convolution import Convolution
from warplens.costs.gemm import Gemm
from warplens.costs.ops import OPS
from warplens.costs.tensors import product

Params: TypeAlias = dict[str, Any]
RESAMPLED: Final = "upsample"

# How names of GEMM kernels spell which factors are transposed: Tensile's indices, and the last word of NVIDIA's.
TENSILE: Final = re.compile(r"C[a-z]{3}_A(?P<a>[a-z]{3})_B(?P<b>[a-z]{3})")
NVJET: Final = re.compile(r"^nvjet.*_(?P<a>[TN])(?P<b>[TN])[A-Z]*$")


def params_of(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    """The parameters of a call; those of our costs where the sheet of its op has none of its own."""
    sheet = SHEET_OF[call.op].sheet if call.op in SHEET_OF else ""
    find = FINDERS.get(sheet, _of_cost)
    try:
        return find(call, inputs, cost, kernels)
    except (IndexError, TypeError):  # fewer or other arguments than this version of the op has
        return _of_cost(call, inputs, cost, kernels)


def _of_cost(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    return {PARAMS.get(name, name): value for name, value in cost.params}


def _gemm(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    sizes = {"B": 1} | {name: value for name, value in cost.params if name in ("B", "M", "N", "K")}
    family = OPS.get(call.op)
    if not isinstance(family, Gemm):
        return sizes | _transposed(kernels)
    factors = family.a, family.b
    strides = [inputs.strides[at] if inputs.strides else None for at in factors]
    batch = {"B": sizes["B"]}
    return {
        **(batch if "bmm" in call.op else {}),
        **{name: sizes[name] for name in ("M", "N", "K")},
        "bias": bool(call.tensor(family.bias)),
        "stride_A": strides[0],
        "stride_B": strides[1],
        "dtype_A_B": tuple(inputs.types[at] for at in factors),
        **batch,
        **_transposed(kernels),
    }


def _transposed(kernels: list[str]) -> Params:
    """Whether the factors are transposed, as the name of the kernel has it."""
    for kernel in kernels:
        if match := TENSILE.search(kernel):
            return {"transpose": (match["a"] == "lik", match["b"] == "jlk")}
        if match := NVJET.search(kernel):
            return {"transpose": (match["a"] == "T", match["b"] == "T")}
    return {}


def _attention(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    sizes = _of_cost(call, inputs, cost, kernels)
    dropout, causal = DROPOUT_AND_CAUSAL.get(call.op, (None, None))
    return {
        **{name: sizes[name] for name in ("B", "N_Q", "H_Q", "N_KV", "H_KV", "d_h_qk", "d_h_v") if name in sizes},
        "dropout": (call.numbers(dropout) or (0.0,))[0] if dropout is not None else 0.0,
        "causal": call.flag(causal) if causal is not None else "causal" in str(sizes.get("mask", "")),
        "flash_impl": "flash" in call.op or "fmha" in call.op,
        "dtype_A_B": inputs.types[:2],
    }


DROPOUT_AND_CAUSAL: Final = {
    # which arguments they are
    "aten::_scaled_dot_product_flash_attention": (3, 4),
    "aten::_scaled_dot_product_efficient_attention": (5, 6),
    "aten::_scaled_dot_product_cudnn_attention": (5, 6),
}


def _convolution(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    family = OPS.get(call.op)
    if not isinstance(family, Convolution):
        return _of_cost(call, inputs, cost, kernels)
    x, weight = family.x, family.weight
    spatial = len(inputs.dims[x]) - 2
    bias = family.bias if family.gradient is None else weight + 1  # a backward op has the sizes of the bias there
    return {
        "convNd": f"conv{spatial}d",
        "input_shape": inputs.dims[x],
        "filter_shape": inputs.dims[weight],
        "dtype_input_weight": inputs.types[x : x + 2],
        "input_stride": inputs.strides[x] if inputs.strides else None,
        "weight_stride": inputs.strides[weight] if inputs.strides else None,
        "bias": bool(inputs.dims[bias]) if bias is not None else False,
        "stride": _each(call.integers(family.stride), spatial, 1),
        "padding": _each(call.integers(family.padding), spatial, 0),
        "dilation": _each(call.integers(family.dilation), spatial, 1),
        "transposed_conv": call.flag(family.transposed),
        "output_padding": _each(call.integers(family.output_padding), spatial, 0),
        "groups": call.integer(family.groups, 1),
    }


def _each(values: tuple[int, ...], spatial: int, default: int) -> tuple[int, ...]:
    """One number for each dimension."""
    return (values or (default,)) * spatial if len(values) < 2 else values


def _unary(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    if RESAMPLED in call.op:
        resized = (*inputs.dims[0][:2], *call.integers(1))
        return {
            "input_shape": inputs.dims[0],
            "output_shape": resized,
            "op_shape": resized,
            "dtype_in_out": inputs.types[:1] * 2,
            "stride_input": inputs.strides[0],
            "stride_output": None,
        }
    has_out = len(inputs.dims) > 1 and bool(inputs.dims[1])
    return {
        "op_shape": inputs.dims[0],
        "dtype_in_out": (inputs.types[0], inputs.types[1] if has_out else None),
        "stride_input": inputs.strides[0],
        "stride_output": inputs.strides[1] if has_out else None,
    }


def _binary(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    has_out = len(inputs.dims) > 2 and bool(inputs.dims[2])
    return {
        "shape_in1": inputs.dims[0],
        "shape_in2": inputs.dims[1],
        "dtype_in1_in2_out": (*inputs.types[:2], inputs.types[2] if has_out else None),
        "stride_input1": inputs.strides[0],
        "stride_input2": inputs.strides[1],
        "stride_output": inputs.strides[2] if has_out else None,
    }


def _norm(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    family = OPS.get(call.op)
    x = getattr(family, "main", 0)
    shape_at = getattr(family, "rows_from", None) or (1 if "layer_norm" in call.op else None)
    channels = product(call.integers(shape_at)) if shape_at is not None else inputs.dims[x][1]
    mask = call.flags(len(inputs.types) - 1) if "backward" in call.op else ()
    return {
        "op_shape": inputs.dims[x],
        "dtype_in_out": (inputs.types[x], None),
        "stride_input": inputs.strides[x],
        "stride_output": None,
        "num_channels": channels,
        "has_bias": mask[2] if len(mask) > 2 else "rms" not in call.op,
        "is_affine": mask[1] if len(mask) > 1 else True,
        "is_training": "rms" not in call.op,
        **({"output_mask": list(mask) or [True]} if "backward" in call.op else {}),
    }


def _reduction(call: Call, inputs: Inputs, cost: Cost, kernels: list[str]) -> Params:
    kind = next((word for word in ("mean", "max", "min", "norm") if word in call.op), "sum")
    return {
        "num_input_elems": product(inputs.dims[0]),
        "num_output_elems": dict(cost.params).get("kept", product(inputs.dims[0])),
        "dtype_in_out": (inputs.types[0], None),
        "reduce_type": kind,
    }


FINDERS: Final[dict[str, Callable[[Call, Inputs, Cost, list[str]], Params]]] = {
    "GEMM": _gemm,
    "SDPA": _attention,
    "CONV": _convolution,
    "UnaryElementwise": _unary,
    "BinaryElementwise": _binary,
    "Normalization": _norm,
    "Reduce": _reduction,
}
