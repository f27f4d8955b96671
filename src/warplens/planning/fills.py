"""What rebuilt inputs are filled with: values in the range that the op expects.

Values are not recorded, so they are random: normal numbers, where nothing is known. An index must stay in bounds, a
variance above zero; the tables here say which argument is what. None of it changes which kernel runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from warplens.planning.invariants import invariant_fill, tensor_in
from warplens.planning.recorded import Recorded, RecordedTensor
from warplens_run.formats.replay_plan import Fill

INTEGERS: Final = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))


class FillRule(NamedTuple):
    ops: re.Pattern[str]
    argument: re.Pattern[str]
    fill: Fill


POOLING: Final = re.compile(r"max_pool([23])d_with_indices_backward|(?:adaptive|fractional)_max_pool([23])d_backward")
UNPOOLING: Final = re.compile(r"max_unpool[23]d")
ANY: Final = re.compile(".*")
INDEXING: Final = re.compile(r"_?(unsafe_)?index(_put_?|_put_impl_)?")
VALUES: Final = (
    FillRule(ANY, re.compile(r"running_var|save_var|save_invstd|invstd|rstd|var"), Fill("uniform", 0.5, 1.5)),
    FillRule(ANY, re.compile(r"(max_)?exp_avg_sqs?|state_sums?"), Fill("uniform", 1e-4, 1e-2)),
    FillRule(ANY, re.compile(r"state_steps?"), Fill("constant", 10)),
    FillRule(ANY, re.compile(r"found_inf"), Fill("constant", 0)),
    FillRule(re.compile(r"_(functional_)?assert_async"), re.compile("self"), Fill("constant", 1)),
    FillRule(re.compile(r"_linalg_check_errors"), re.compile("info"), Fill("constant", 0)),
    FillRule(ANY, re.compile(r"grad_scale|inv_scale|current_scale"), Fill("constant", 1)),
    FillRule(re.compile(r"_fused_\w+"), re.compile(r"lr"), Fill("constant", 1e-3)),
    FillRule(ANY, re.compile(r"philox_(seed|offset)|rng_state|unused"), Fill("integers", 0, 1000)),
    FillRule(ANY, re.compile(r"logsumexp"), Fill("uniform", 4, 8)),
    FillRule(re.compile(r"multinomial|bernoulli\w*"), re.compile(r"self|p"), Fill("uniform", 0.01, 0.99)),
    FillRule(re.compile(r"binary_cross_entropy(_backward)?"), re.compile(r"self|target"), Fill("uniform", 0.01, 0.99)),
    FillRule(re.compile(r"poisson|_standard_gamma|_sample_dirichlet"), re.compile("self"), Fill("uniform", 0.5, 1.5)),
    FillRule(re.compile(r"(log(2|10)?|r?sqrt|reciprocal|pow)_?"), re.compile("self"), Fill("uniform", 0.5, 1.5)),
    FillRule(re.compile(r"(acos|asin|atanh|erfinv|logit)_?"), re.compile("self"), Fill("uniform", 0.1, 0.9)),
    FillRule(re.compile(r"_log_softmax_backward_data"), re.compile("output"), Fill("uniform", -12, -8)),
    FillRule(re.compile(r"_softmax_backward_data"), re.compile("output"), Fill("uniform", 0, 0.01)),
)  # fmt: skip
DIVISIONS: Final = re.compile(r"(div|floor_divide|remainder|fmod)_?")
DIVISORS: Final = Fill("integers", 1, 4)


def fill_of(
    op: str, argument: str, tensor: RecordedTensor, arguments: Mapping[str, Recorded], position: int = 0
) -> Fill:
    """`op` without its namespace; `arguments` are those of the call by name, `position` the tensor's in its list."""
    if tensor.dtype in INTEGERS:
        if argument == "indices" and (plane := _pooled_plane(op, arguments)):
            return _windows(tensor, plane)
        if argument == "other" and DIVISIONS.fullmatch(op):
            return DIVISORS
    if tensor.dtype == "bool" and argument in ("mask", "indices") and (true := _true_count(op, tensor, arguments)):
        return Fill("ramp", -true, 0, 1)  # below zero is true, too
    if (fill := invariant_fill(op, argument, tensor, arguments, position)) is not None:
        return fill
    for rule in VALUES:
        if rule.argument.fullmatch(argument) and rule.ops.fullmatch(op):
            return rule.fill
    return Fill("integers", 0, 2) if tensor.dtype in INTEGERS or tensor.dtype == "bool" else Fill()


def _pooled_plane(op: str, arguments: Mapping[str, Recorded]) -> tuple[int, ...]:
    """The sides of what pooling takes its maxima from, or of what unpooling puts them in; none for other ops."""
    if UNPOOLING.fullmatch(op):
        size = arguments.get("output_size")
        return tuple(map(int, re.findall(r"\d{1,18}", size.text))) if size is not None else ()
    pooling = POOLING.fullmatch(op)
    pooled = tensor_in(arguments.get("self"))
    return pooled.shape[-int(pooling[1] or pooling[2]) :] if pooling and pooled is not None else ()


def _windows(tensor: RecordedTensor, plane: tuple[int, ...]) -> Fill:
    """Where pooling found its maxima: each in its own window, here in the corner. Neighbours write to neighbouring
    places, which indices from all over the plane would not, and that costs time.

    An address gives row and column, as long as the tensor is dense.
    """
    windows, strides = tensor.shape[-len(plane) :], tensor.stride[-len(plane) :]
    if len(windows) < len(plane) or any(many > side for many, side in zip(windows, plane, strict=True)):
        return Fill("constant", 0)
    digits: list[int] = []
    for axis, (many, stride) in enumerate(zip(windows, strides, strict=True)):
        step = max(plane[axis] // max(many, 1), 1) * math.prod(plane[axis + 1 :])
        digits += (max(stride, 1), max(many, 1), step)
    return Fill("digits", digits=tuple(digits))


def _true_count(op: str, mask: RecordedTensor, arguments: Mapping[str, Recorded]) -> int | None:
    """How many of a mask's values are true where others come with them, one for each; else None: any number will do."""
    if op.startswith("masked_scatter"):
        return min(_elements(arguments.get("source")), math.prod(mask.shape))
    if not INDEXING.fullmatch(op):
        return None
    listed = [tensor for tensor in arguments["indices"].tensors if tensor is not None]
    indices = [tensor for tensor in listed if tensor.dtype != "bool"]
    if indices:
        return indices[0].shape[-1] if indices[0].shape else None
    values, target = tensor_in(arguments.get("values")), tensor_in(arguments.get("self"))
    if len(listed) > 1 or values is None or target is None:
        return None
    has_row_each = len(values.shape) == 1 + len(target.shape) - len(mask.shape)
    return values.shape[0] if has_row_each and values.shape[0] > 1 else None


def _elements(value: Recorded | None) -> int:
    tensor = tensor_in(value)
    return math.prod(tensor.shape) if tensor is not None else 0
