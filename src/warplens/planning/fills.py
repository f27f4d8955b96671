"""What rebuilt inputs are filled with: values in the range that the op expects.

Values are not recorded, so they are random: normal numbers, where nothing is known. An index must stay in bounds, a
variance above zero; the tables here say which argument is what. None of it changes which kernel runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from warplens.planning.recorded import Recorded, RecordedTensor
from warplens.replay.plan_file import Fill

INTEGERS: Final = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))


class Bound(NamedTuple):
    """An index: it stays below a number that is passed, or below a side of another argument. `side` is its number, the
    name of the argument that holds it, "position" for the side that the index's position in its list stands for, or
    "all" for the product of all sides."""

    ops: re.Pattern[str]
    argument: str
    of: str
    side: int | str = ""


class FillRule(NamedTuple):
    ops: re.Pattern[str]
    argument: re.Pattern[str]
    fill: Fill


POOLING: Final = re.compile(r"max_pool([23])d_with_indices_backward|(?:adaptive|fractional)_max_pool([23])d_backward")
UNPOOLING: Final = re.compile(r"max_unpool[23]d")
PIVOTS: Final = re.compile(r"(LU_)?pivots")
ANY: Final = re.compile(".*")
INDEXING: Final = re.compile(r"_?(unsafe_)?index(_put_?|_put_impl_)?")
BOUNDS: Final = (
    Bound(re.compile(r"embedding|_embedding_bag(_forward_only)?"), "indices", "weight", 0),
    Bound(re.compile(r"embedding_dense_backward|_embedding_bag_\w*backward"), "indices", "num_weights"),
    Bound(re.compile(r"_embedding_bag_\w*backward"), "offset2bag", "grad", 0),
    Bound(re.compile(r"embedding_renorm_?"), "indices", "self", 0),
    Bound(re.compile(r"index_(select|add|copy|fill|reduce)_?"), "index", "self", "dim"),
    Bound(re.compile(r"gather|scatter\w*|_scatter\w*"), "index", "self", "dim"),
    Bound(re.compile(r"nll_loss\w*|cross_entropy\w*|multi_margin_loss\w*"), "target", "self", 1),
    Bound(INDEXING, "indices", "self", "position"),
    Bound(re.compile(r"take|put_?"), "index", "self", "all"),
)
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
LENGTHS: Final = {
    # running totals of sequence lengths: the argument whose rows they count
    "cum_seq_q": "query", "cum_seq_k": "key", "cu_seqlens_q": "query", "cu_seqlens_k": "key",
}  # fmt: skip
PACKED: Final = {
    # how many sequences still run at each step: the argument that has all of their steps in one row after the other
    "_pad_packed_sequence": "data", "_pack_padded_sequence_backward": "grad",
}  # fmt: skip
SEGMENTS: Final = re.compile(r"_?segment_reduce(_backward)?")
GROUPED: Final = re.compile(r"_(scaled_)?grouped_mm(_v2)?")
GROUP_MULTIPLE: Final = 16
"""Groups along the inner side of a product begin at whole vectors of 16 bytes."""
DIVISIONS: Final = re.compile(r"(div|floor_divide|remainder|fmod)_?")
DIVISORS: Final = Fill("integers", 1, 4)


def fill_of(
    op: str, argument: str, tensor: RecordedTensor, arguments: Mapping[str, Recorded], position: int = 0
) -> Fill:
    """`op` without its namespace; `arguments` are those of the call by name, `position` the tensor's in its list."""
    shared = _shared_out(op, argument, tensor, arguments)
    if shared is not None:
        return shared
    if tensor.dtype in INTEGERS:
        if argument == "indices" and (plane := _pooled_plane(op, arguments)):
            return _windows(tensor, plane)
        if PIVOTS.fullmatch(argument) and tensor.shape:  # rows, counted from 1
            return Fill("integers", 1, max(tensor.shape[-1], 1) + 1)
        if argument == "other" and DIVISIONS.fullmatch(op):
            return DIVISORS
        for bound in BOUNDS:
            if bound.argument == argument and bound.ops.fullmatch(op):
                return Fill("integers", 0, max(_limit(bound, arguments, position), 1))
    for rule in VALUES:
        if rule.argument.fullmatch(argument) and rule.ops.fullmatch(op):
            return rule.fill
    return Fill("integers", 0, 2) if tensor.dtype in INTEGERS or tensor.dtype == "bool" else Fill()


def _shared_out(op: str, argument: str, tensor: RecordedTensor, arguments: Mapping[str, Recorded]) -> Fill | None:
    """Lengths, offsets and masks, whose values must add up to what another argument has room for."""
    count = max(tensor.shape[0], 1) if tensor.shape else 1
    if argument in LENGTHS:
        return _equal_lengths(arguments.get(LENGTHS[argument]), count - 1)
    if argument == "offsets" and "embedding_bag" in op:
        total = _size(arguments.get("indices"), "all") or 0
        return Fill("ramp", 0, total, total // count)
    if argument == "offs" and GROUPED.fullmatch(op):
        return _group_ends(arguments, count)
    if argument == "repeats" and op == "repeat_interleave":
        return _shares(_number(arguments.get("output_size")) or count, count)
    if argument == "lengths" and op == "_pack_padded_sequence":
        is_batch_first = _is_true(arguments.get("batch_first"))
        return Fill("constant", max(_size(arguments.get("input"), 1 if is_batch_first else 0) or 1, 1))
    if argument == "batch_sizes" and op in PACKED:
        return _shares(_size(arguments.get(PACKED[op]), 0) or count, count)
    if argument in ("lengths", "offsets") and SEGMENTS.fullmatch(op) and tensor.shape:
        return _segments(argument, tensor, _size(arguments.get("data"), len(tensor.shape) - 1) or 0)
    if tensor.dtype == "bool" and argument in ("mask", "indices") and (true := _true_count(op, tensor, arguments)):
        return Fill("ramp", -true, 0, 1)  # below zero is true, too
    return None


def _group_ends(arguments: Mapping[str, Recorded], groups: int) -> Fill:
    """Where each group of a grouped product ends, in rows, columns or along the inner side, whichever is divided."""
    first, second = _tensor(arguments.get("self")), _tensor(arguments.get("mat2"))
    if first is None or second is None:
        return Fill("constant", 0)
    sides = {(2, 3): first.shape[0], (3, 2): second.shape[-1], (2, 2): first.shape[-1]}
    total = sides.get((len(first.shape), len(second.shape)), 0)
    each = -(-total // max(groups, 1))
    aligned = -(-each // GROUP_MULTIPLE) * GROUP_MULTIPLE
    step = aligned if aligned * (groups - 1) < total else each
    return Fill("ramp", step, total, step)


def _shares(total: int, count: int) -> Fill:
    """Whole numbers that add up to the total."""
    return Fill("shares", total, step=count) if total % count else Fill("constant", total // count)


def _segments(argument: str, tensor: RecordedTensor, total: int) -> Fill:
    """How long the pieces of one side are, or where they begin and end; those of the next row follow."""
    count = max(tensor.shape[-1], 1)
    return _shares(total, count) if argument == "lengths" else Fill("ramp", 0, total, -(-total // max(count - 1, 1)))


def _pooled_plane(op: str, arguments: Mapping[str, Recorded]) -> tuple[int, ...]:
    """The sides of what pooling takes its maxima from, or of what unpooling puts them in; none for other ops."""
    if UNPOOLING.fullmatch(op):
        size = arguments.get("output_size")
        return tuple(map(int, re.findall(r"\d{1,18}", size.text))) if size is not None else ()
    pooling = POOLING.fullmatch(op)
    pooled = _tensor(arguments.get("self"))
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


def _equal_lengths(rows: Recorded | None, sequences: int) -> Fill:
    """Running totals of sequences of one length: together they have all rows, and none is longer than the longest."""
    tensor = _tensor(rows)
    total = math.prod(tensor.shape[:-2]) if tensor is not None else 0
    return Fill("ramp", 0, total, -(-total // max(sequences, 1)))


def _true_count(op: str, mask: RecordedTensor, arguments: Mapping[str, Recorded]) -> int | None:
    """How many of a mask's values are true where others come with them, one for each; else None: any number will do."""
    if op.startswith("masked_scatter"):
        return min(_size(arguments.get("source"), "all") or 0, math.prod(mask.shape))
    if not INDEXING.fullmatch(op):
        return None
    listed = [tensor for tensor in arguments["indices"].tensors if tensor is not None]
    indices = [tensor for tensor in listed if tensor.dtype != "bool"]
    if indices:
        return indices[0].shape[-1] if indices[0].shape else None
    values, target = _tensor(arguments.get("values")), _tensor(arguments.get("self"))
    if len(listed) > 1 or values is None or target is None:
        return None
    has_row_each = len(values.shape) == 1 + len(target.shape) - len(mask.shape)
    return values.shape[0] if has_row_each and values.shape[0] > 1 else None


def _limit(bound: Bound, arguments: Mapping[str, Recorded], position: int) -> int:
    indexed = arguments.get(bound.of)
    if bound.side == "":
        return _number(indexed) or 1
    side = _dimension(arguments.get(bound.argument), position) if bound.side == "position" else bound.side
    if isinstance(side, str) and side != "all":
        side = _number(arguments.get(side)) or 0
    size = _size(indexed, side)
    if size is None and bound.side == 1:  # a single sample without a batch
        size = _size(indexed, 0)
    return size or 1


def _dimension(listed: Recorded | None, position: int) -> int:
    """Which side of the indexed tensor the index at that place is for: a mask before it takes as many as it has."""
    before = listed.tensors[:position] if listed is not None else ()
    masks = [tensor for tensor in before if tensor is not None and tensor.dtype == "bool"]
    return position + sum(len(tensor.shape) - 1 for tensor in masks)


def _tensor(value: Recorded | None) -> RecordedTensor | None:
    return value.tensors[0] if value is not None and value.kind == "tensor" and value.tensors else None


def _size(value: Recorded | None, side: int | str) -> int | None:
    tensor = _tensor(value)
    if tensor is None:
        return None
    if isinstance(side, str):
        return math.prod(tensor.shape)
    return tensor.shape[side] if -len(tensor.shape) <= side < len(tensor.shape) else None


def _is_true(value: Recorded | None) -> bool:
    return value is not None and value.text.strip().lower() in ("true", "1")


def _number(value: Recorded | None) -> int | None:
    text = value.text if value is not None else ""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
