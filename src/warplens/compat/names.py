"""TraceLens' names of columns, measures, sheets and categories; those that stand beside ours are in `names.toml`.

Everything that gives figures in TraceLens' form takes its names from here. The name of an op decides its category and
its sheet, as there; an op that is not listed has the category that a few words in the name of its kernel say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAMES: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
TIMELINE_TYPES: Final[dict[str, str]] = _NAMES["timeline"]
PARAMS: Final[dict[str, str]] = _NAMES["params"]
DTYPES: Final[dict[str, str]] = _NAMES["dtypes"]
JAX_CATEGORIES: Final[dict[str, list[str]]] = _NAMES["jax"]

INPUTS: Final = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
"""Ours: input_dims, input_types, input_strides, concrete_inputs."""
KERNEL_INPUTS: Final = ("Input dims", "Input types", "Input strides", "Concrete Inputs")
PLACES: Final = ("process_name", "process_label", "thread_name")
CATEGORY: Final = "op category"
KERNEL_CATEGORY: Final = "kernel_category"
CATEGORY_TIMES: Final = "kernel_time_by_category"
DIRECT: Final = "total_direct_kernel_time"
SUBTREE: Final = "total_subtree_kernel_time"
KERNEL_US: Final = "Kernel duration (µs)"
KERNEL_TIME: Final = "Kernel Time (µs)"
PERCENT: Final = "Percentage (%)"
CUMULATIVE: Final = "Cumulative Percentage (%)"
OVERLAP: Final = ("overlapping_kernel_names", "overlapping_kernels_details", "overlap_pct")
PARAM: Final = "param: "
AGGREGATES: Final = ("mean", "median", "std", "min", "max")
"""What the report's sheets say of a group of calls."""


class Ops(Struct, frozen=True):
    """Ops of one sheet, and the categories of the forward and the backward ones."""

    forward: str
    names: tuple[str, ...]
    backward: str = ""
    sheet: str = ""


ONE_SHEET: Final = frozenset({"GEMM", "UnaryElementwise", "BinaryElementwise", "Normalization"})
"""Sheets with forward and backward ops together; of the others there are two, with `_fwd` and `_bwd` in their names."""

IS_BACKWARD: Final = re.compile("backward|_bwd", re.IGNORECASE)
IS_COMPILED: Final = re.compile(r"triton_(poi|red|per)_")
NAMED_LIKE: Final = (("triton", "triton"), ("record_param_comms", "record_param_comms"))
"""How the names of ops begin that are in no list, and their category."""
NATIVE_KERNELS: Final = "void at::native"
KERNEL_WORDS: Final = ("elementwise", "reduce", "multi_tensor_apply")
"""Categories, and the words of PyTorch's own kernels that have them, in this order."""
OTHER: Final = "other"


OPS: Final = tuple(msgspec.convert(entry, Ops) for entry in _NAMES["ops"])
CATEGORIES: Final = {
    op: entry.backward if entry.backward and IS_BACKWARD.search(op) else entry.forward
    for entry in OPS
    for op in entry.names
}
"""The category of each op that is listed."""
SHEET_OF: Final = {op: entry for entry in OPS if entry.sheet for op in entry.names}
OP_SHEETS: Final = {op: entry.sheet for op, entry in SHEET_OF.items()}


def op_category(op: str, kernel: str = "") -> str:
    """TraceLens' category of an op whose first kernel is `kernel`.

    >>> op_category("aten::addmm"), op_category("aten::gelu", "void at::native::vectorized_elementwise_kernel<4>()")
    ('GEMM', 'elementwise')
    """
    if op in CATEGORIES:
        return CATEGORIES[op]
    for start, category in NAMED_LIKE:
        if op.startswith(start):
            return category
    if kernel.startswith(NATIVE_KERNELS):
        return next((word for word in KERNEL_WORDS if word in kernel), OTHER)
    return OTHER


def build_sheet_category_to_op_names(op_to_perf_model_class_map: Mapping[str, str]) -> dict[str, list[str]]:
    """The ops of each sheet; `op_to_perf_model_class_map` of an analyzer says which sheet each op belongs to.

    >>> build_sheet_category_to_op_names(OP_SHEETS)["GEMM"][:2]
    ['aten::mm', 'aten::addmm']
    """
    ops: dict[str, list[str]] = {}
    for op, sheet in op_to_perf_model_class_map.items():
        ops.setdefault(sheet, []).append(op)
    return ops
