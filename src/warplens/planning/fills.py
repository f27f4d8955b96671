"""What rebuilt inputs are filled with: values in the range that the op expects.

Values are not recorded, so they are random: normal numbers, where nothing is known. An index must stay in bounds, a
variance above zero; the tables here say which argument is what. None of it changes which kernel runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from warplens.planning.recorded import Recorded, RecordedTensor
from warplens.replay.plan_file import Fill

INTEGERS: Final = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))


class Bound(NamedTuple):
    """An index: it stays below a side of another argument (`side`: its number, the name of the argument that holds it,
    "place" for the index's place in its list, "plane" for the product of the last two, "all" for all) or below a number
    that is passed."""

    ops: re.Pattern[str]
    argument: str
    of: str
    side: int | str = ""


class Values(NamedTuple):
    ops: re.Pattern[str]
    argument: re.Pattern[str]
    fill: Fill


ANY: Final = re.compile(".*")
BOUNDS: Final = (
    Bound(re.compile(r"embedding|_embedding_bag\w*"), "indices", "weight", 0),
    Bound(re.compile(r"embedding_dense_backward"), "indices", "num_weights"),
    Bound(re.compile(r"embedding_renorm_?"), "indices", "self", 0),
    Bound(re.compile(r"index_(select|add|copy|fill|reduce)_?"), "index", "self", "dim"),
    Bound(re.compile(r"gather|scatter\w*|_scatter\w*"), "index", "self", "dim"),
    Bound(re.compile(r"nll_loss\w*|cross_entropy\w*"), "target", "self", 1),
    Bound(re.compile(r"_?(unsafe_)?index(_put_?|_put_impl_)?"), "indices", "self", "place"),
    Bound(re.compile(r"max_pool2d_with_indices_backward"), "indices", "self", "plane"),
    Bound(re.compile(r"take|put_?"), "index", "self", "all"),
)
VALUES: Final = (
    Values(ANY, re.compile(r"running_var|save_var|save_invstd|invstd|rstd|var"), Fill("uniform", 0.5, 1.5)),
    Values(ANY, re.compile(r"(max_)?exp_avg_sqs?|state_sums?"), Fill("uniform", 1e-4, 1e-2)),
    Values(ANY, re.compile(r"state_steps?"), Fill("constant", 10)),
    Values(ANY, re.compile(r"found_inf"), Fill("constant", 0)),
    Values(ANY, re.compile(r"grad_scale|inv_scale|current_scale"), Fill("constant", 1)),
    Values(re.compile(r"_fused_\w+"), re.compile(r"lr"), Fill("constant", 1e-3)),
    Values(ANY, re.compile(r"philox_(seed|offset)|rng_state|unused"), Fill("integers", 0, 1000)),
    Values(ANY, re.compile(r"logsumexp"), Fill("uniform", 4, 8)),
    Values(re.compile(r"multinomial|bernoulli\w*"), re.compile(r"self|p"), Fill("uniform", 0.01, 0.99)),
    Values(re.compile(r"(log(2|10)?|r?sqrt|reciprocal|pow)_?"), re.compile("self"), Fill("uniform", 0.5, 1.5)),
    Values(re.compile(r"(acos|asin|atanh|erfinv|logit)_?"), re.compile("self"), Fill("uniform", 0.1, 0.9)),
    Values(re.compile(r"_log_softmax_backward_data"), re.compile("output"), Fill("uniform", -12, -8)),
    Values(re.compile(r"_softmax_backward_data"), re.compile("output"), Fill("uniform", 0, 0.01)),
)  # fmt: skip
LENGTHS: Final = {
    # running totals of sequence lengths: the argument that has the longest one
    "cum_seq_q": "max_q", "cum_seq_k": "max_k", "cu_seqlens_q": "max_seqlen_q", "cu_seqlens_k": "max_seqlen_k",
}  # fmt: skip
OFFSETS: Final = re.compile(r"offsets")


def fill_of(op: str, argument: str, tensor: RecordedTensor, given: Mapping[str, Recorded], place: int = 0) -> Fill:
    """`op` without its namespace; `given` are the call's arguments by name, `place` the tensor's in its list."""
    if argument in LENGTHS:
        longest = _number(given.get(LENGTHS[argument])) or 1
        count = tensor.shape[0] if tensor.shape else 1
        return Fill("ramp", 0, longest * max(count - 1, 0), longest)
    if argument == "offsets" and "embedding_bag" in op:
        total = _size(given.get("indices"), "all") or 0
        count = tensor.shape[0] if tensor.shape else 1
        return Fill("ramp", 0, total, total // max(count, 1))
    if tensor.dtype in INTEGERS:
        for bound in BOUNDS:
            if bound.argument == argument and bound.ops.fullmatch(op):
                return Fill("integers", 0, max(_limit(bound, given, place), 1))
    for rule in VALUES:
        if rule.argument.fullmatch(argument) and rule.ops.fullmatch(op):
            return rule.fill
    return Fill("integers", 0, 2) if tensor.dtype in INTEGERS or tensor.dtype == "bool" else Fill()


def _limit(bound: Bound, given: Mapping[str, Recorded], place: int) -> int:
    other = given.get(bound.of)
    if bound.side == "":
        return _number(other) or 1
    side = place if bound.side == "place" else bound.side
    if isinstance(side, str) and side not in ("plane", "all"):
        side = _number(given.get(side)) or 0
    found = _size(other, side)
    if found is None and bound.side == 1:  # a single sample without a batch
        found = _size(other, 0)
    return found or 1


def _size(other: Recorded | None, side: int | str) -> int | None:
    tensor = other.tensors[0] if other is not None and other.kind == "tensor" and other.tensors else None
    if tensor is None:
        return None
    if isinstance(side, str):
        sides = tensor.shape[-2:] if side == "plane" else tensor.shape
        product = 1
        for each in sides:
            product *= each
        return product
    return tensor.shape[side] if -len(tensor.shape) <= side < len(tensor.shape) else None


def _number(value: Recorded | None) -> int | None:
    text = value.text if value is not None else ""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
