"""Arguments whose values must obey an invariant, as a table: offsets that follow each other, lengths that add up, pages
and indices in bounds, permutations. An op that is given anything else ends in an assert, or reads where nothing is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from warplens.planning.recorded import Recorded, RecordedTensor, contiguous
from warplens_run.formats.replay_plan import Fill

Arguments = Mapping[str, Recorded]


class Invariant(NamedTuple):
    ops: str
    """Names without a namespace, as a pattern."""
    argument: str
    """Its name, as a pattern."""
    kind: str
    """A key of `KINDS`."""
    of: str = ""
    """What its values count: the name of an argument, alternatives divided by |."""
    side: int | str = ""
    """Which side of it: a number, the name of the argument that holds one, a key of `SIDES`; empty: its own value."""


ANY: Final = r"\w*"
INDEXED: Final = r"index_(select|add|copy|fill|reduce)_?"
GATHERED: Final = r"gather|scatter\w*|_scatter\w*"
LISTED: Final = r"_?(unsafe_)?index(_put_?|_put_impl_)?|_unsafe_masked_index(_put_accumulate)?"
RAGGED: Final = r"_?jagged_to_padded_dense\w*"
RECURRENT: Final = r"gru|lstm|rnn_(tanh|relu)|_pad_packed_sequence"
CTC: Final = r"_?(use_)?(cudnn_|miopen_)?ctc_loss(_backward)?"
INVARIANTS: Final = (
    # running totals of sequence lengths, the first of them 0
    Invariant(ANY, r"cu(m_seq|_seqlens)_q", "totals", "query|q", "rows"),
    Invariant(ANY, r"cu(m_seq|_seqlens)_k(_new)?", "totals", "key|k", "rows"),
    Invariant(ANY, r"cu_seqlens", "totals", "qkv|query|q", "rows"),
    Invariant(RAGGED, r"offsets", "totals", "values", 0),
    Invariant(r"_?padded_dense_to_jagged\w*", r"offsets", "totals", "dense", "two"),
    Invariant(r"_nested_from_padded_tensor", r"offsets", "totals", "padded", "two"),
    Invariant(r"_nested_view_from_jagged", r"offsets", "totals", "self", 0),
    Invariant(r"_?segment_reduce(_backward)?", r"offsets", "totals", "data", "own"),
    # where pieces begin, and where they end
    Invariant(r"_?embedding_bag\w*", r"offsets", "starts", "indices", "all"),
    Invariant(r"_(scaled_)?grouped_mm(_v2)?", r"offs", "ends", "self", "grouped"),
    # lengths that add up
    Invariant(r"_?segment_reduce(_backward)?", r"lengths", "shares", "data", "own"),
    Invariant(r"repeat_interleave", r"repeats", "shares", "output_size"),
    Invariant(CTC, r"target_lengths", "shares", "targets", "all"),
    Invariant(RECURRENT, r"batch_sizes", "shares", "data", 0),
    Invariant(r"_pack_padded_sequence_backward", r"batch_sizes", "shares", "grad", 0),
    # lengths of which each is as long as there is room
    Invariant(r"_pack_padded_sequence", r"lengths", "all", "input", "batch_first"),
    Invariant(CTC, r"input_lengths", "all", "log_probs", 0),
    Invariant(ANY, r"seqlen_k", "all", "max_seqlen_k"),
    Invariant(ANY, r"seqused_k|seq_lens|context_lens|cache_seqlens", "all", "max_k|max_seqlen_k|max_seq_len"),
    # pages of a cache, and places in it, none of them twice
    Invariant(ANY, r"(block|page)_tables?", "each once", "key_cache|k_cache|kcache|key|k", 0),
    Invariant(ANY, r"slot_mapping", "each once", "key_cache|k_cache|kcache", "two"),
    # indices
    Invariant(r"embedding|_embedding_bag(_forward_only)?", r"indices", "below", "weight", 0),
    Invariant(
        r"embedding_dense_backward|_embedding_bag_\w{0,60}backward", r"(maximum_)?indices", "below", "num_weights"
    ),
    Invariant(r"_embedding_bag_\w{0,60}backward", r"offset2bag", "below", "grad", 0),
    Invariant(r"embedding_renorm_?", r"indices", "below", "self", 0),
    Invariant(INDEXED, r"index", "below", "self", "dim"),
    Invariant(GATHERED, r"index", "chosen", "self", "dim"),
    Invariant(LISTED, r"indices", "below", "self", "position"),
    Invariant(r"take|put_?", r"index", "below", "self", "all"),
    Invariant(r"cummaxmin_backward", r"indices", "below", "input", "dim"),
    Invariant(r"nll_loss\w*|cross_entropy\w*|multi_margin_loss\w*", r"target", "below", "self", 1),
    Invariant(CTC, r"targets", "above 0", "log_probs", 2),
    Invariant(ANY, r"topk_(ids|indices)|expert_ids", "chosen", "num_experts"),
    Invariant(ANY, r"(LU_)?pivots", "rows from 1"),
    # boxes: the image's number and two corners
    Invariant(r"roi_\w+|_roi_\w+|ps_roi_\w+|_ps_roi_\w+", r"rois", "boxes"),
    # sorted numbers
    Invariant(r"searchsorted", r"sorted_sequence", "sorted"),
    Invariant(r"searchsorted", r"sorter", "below", "sorted_sequence", -1),
    Invariant(r"bucketize", r"boundaries", "sorted"),
)  # fmt: skip
GROUP_MULTIPLE: Final = 16
"""Groups along the inner side of a product begin at whole vectors of 16 bytes."""


class Counted(NamedTuple):
    """What the values of an argument count."""

    total: int = 0
    """How many of it there are; 0 where that is not known."""
    side: int = -1
    """Which of its sides they are."""


def _totals(tensor: RecordedTensor, counted: Counted) -> Fill:
    """Pieces of one length: together they have all there is, and none is longer than the longest."""
    return Fill("ramp", 0, counted.total, -(-counted.total // max(_count(tensor) - 1, 1)))


def _ends(tensor: RecordedTensor, counted: Counted) -> Fill:
    groups, total = _count(tensor), counted.total
    each = -(-total // groups)
    aligned = -(-each // GROUP_MULTIPLE) * GROUP_MULTIPLE
    step = aligned if aligned * (groups - 1) < total else each
    return Fill("ramp", step, total, step)


def _shares(tensor: RecordedTensor, counted: Counted) -> Fill:
    count = _count(tensor)
    total = counted.total or count
    return Fill("shares", total, step=count) if total % count else Fill("constant", total // count)


def _below(tensor: RecordedTensor, counted: Counted) -> Fill:
    """Where there are as many for each place, each of them is there as often: a permutation, or a token for each of its
    experts. Writing to one place twice takes longer."""
    total = counted.total
    is_permutation = total > 1 and len(tensor.shape) > 0 and math.prod(tensor.shape) % total == 0
    return Fill("permutation" if is_permutation and 0 not in tensor.shape else "integers", 0, max(total, 1))


def _chosen(tensor: RecordedTensor, counted: Counted) -> Fill:
    """The chosen few along a side, none of them twice and all of them as often: top-k."""
    total, side = counted.total, counted.side
    few = tensor.shape[side] if -len(tensor.shape) <= side < len(tensor.shape) else 1
    if not 1 < few <= total or tensor.stride != contiguous(tensor.shape):
        return Fill("integers", 0, max(total, 1))
    apart, step = total // few, tensor.stride[side]
    return Fill("digits", digits=(step, few, apart, few if step == 1 else 1, apart, 1))


def _count(tensor: RecordedTensor) -> int:
    return max(tensor.shape[-1], 1) if tensor.shape else 1


KINDS: Final[Mapping[str, Callable[[RecordedTensor, Counted], Fill]]] = {
    # what the values are, of a tensor and what they count
    "totals": _totals,
    "starts": lambda tensor, counted: Fill("ramp", 0, counted.total, counted.total // _count(tensor)),
    "ends": _ends,
    "shares": _shares,
    "all": lambda tensor, counted: Fill("constant", max(counted.total, 1)),
    "each once": lambda tensor, counted: Fill("ramp", 0, max(counted.total - 1, 0), 1),
    "below": _below,
    "above 0": lambda tensor, counted: Fill("integers", 1, max(counted.total, 2)),
    "chosen": _chosen,
    "rows from 1": lambda tensor, counted: Fill("integers", 1, _count(tensor) + 1),
    "boxes": lambda tensor, counted: Fill("digits", digits=(1, 5, 8)),
    "sorted": lambda tensor, counted: Fill("ramp", 0, _count(tensor), 1),
}
WITH_FLOATS: Final = ("boxes", "sorted")
"""The others are of whole numbers."""


def _grouped(arguments: Arguments, tensor: RecordedTensor) -> int:
    """The rows, columns or inner side of a product, whichever is divided into groups."""
    second = tensor_in(arguments.get("mat2"))
    if second is None:
        return 0
    sides = {(2, 3): tensor.shape[:1], (3, 2): second.shape[-1:], (2, 2): tensor.shape[-1:]}
    return math.prod(sides.get((len(tensor.shape), len(second.shape)), (0,)))


SIDES: Final[Mapping[str, Callable[[Arguments, RecordedTensor], int]]] = {
    # sides by name: how many values of an argument they are
    "all": lambda arguments, tensor: math.prod(tensor.shape),
    "rows": lambda arguments, tensor: math.prod(tensor.shape[:-2]),
    "two": lambda arguments, tensor: math.prod(tensor.shape[:2]),
    "grouped": _grouped,
}
TABLE: Final = tuple((re.compile(row.ops), re.compile(row.argument), row) for row in INVARIANTS)


def invariant_fill(op: str, argument: str, tensor: RecordedTensor, arguments: Arguments, position: int) -> Fill | None:
    """Values that obey the invariant of an argument; None where it has none. `op` is without its namespace."""
    is_whole = "int" in tensor.dtype
    for ops, names, row in TABLE:
        if (is_whole or row.kind in WITH_FLOATS) and names.fullmatch(argument) and ops.fullmatch(op):
            return KINDS[row.kind](tensor, _counted(row, tensor, arguments, position))
    return None


def _counted(row: Invariant, tensor: RecordedTensor, arguments: Arguments, position: int) -> Counted:
    counted = next((arguments[name] for name in row.of.split("|") if name in arguments), None)
    if row.side == "":
        return Counted(number_in(counted) or 0)
    whole = tensor_in(counted)
    if whole is None:
        return Counted()
    if isinstance(row.side, str) and row.side in SIDES:
        return Counted(SIDES[row.side](arguments, whole))
    if row.side == "own":
        side = len(tensor.shape) - 1
    elif row.side == "position":
        side = _dimension(arguments.get(row.argument), position)
    else:
        side = row.side if isinstance(row.side, int) else number_in(arguments.get(row.side)) or 0
    if side == 1 and len(whole.shape) == 1:  # a single sample without a batch
        side = 0
    return Counted(whole.shape[side], side) if -len(whole.shape) <= side < len(whole.shape) else Counted()


def _dimension(listed: Recorded | None, position: int) -> int:
    """Which side of the indexed tensor the index at that place is for: a mask before it takes as many as it has."""
    before = listed.tensors[:position] if listed is not None else ()
    masks = [tensor for tensor in before if tensor is not None and tensor.dtype == "bool"]
    return position + sum(len(tensor.shape) - 1 for tensor in masks)


def tensor_in(value: Recorded | None) -> RecordedTensor | None:
    return value.tensors[0] if value is not None and value.kind == "tensor" and value.tensors else None


def number_in(value: Recorded | None) -> int | None:
    """
    >>> number_in(Recorded("scalar", "-1")), number_in(Recorded("scalar", "True")), number_in(Recorded("unknown"))
    (-1, 1, None)
    """
    text = value.text.strip() if value is not None else ""
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
