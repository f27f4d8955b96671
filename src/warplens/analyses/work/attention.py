"""Which GPU work is part of attention that is not fused: products and a softmax on a stored score matrix.

Equal sizes alone are no evidence: a router or a loss can have as many elements. What counts is the order on a stream:
a batched product writes the scores, elementwise ops work on them, a softmax follows, and the next product reads as many
elements. In the backward pass, two products come before the softmax and two after it. Where modules or Python frames
are recorded, the products and the softmax have to belong to one call of them; products on other tensors may then come
before the softmax, if their result is added to the scores, such as a position bias.

Copies that such a product needs belong to it: `q @ k.transpose(-1, -2)` of permuted tensors copies both inside
`aten::matmul`, and a fused call takes tensors of any strides and returns the layout that the next op wants.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.roofline.costing import Costing, costing
from warplens.analyses.shared import shared
from warplens.analyses.work.modules import AUTOGRAD_CALLS, line_context, module_context
from warplens.analyses.workspace import Workspace
from warplens.costs import Cost
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints

MATRIX_FAMILIES: Final = ("gemm", "grouped gemm", "convolution", "attention", "moe")
ON_SCORES: Final = ("softmax", "pointwise", "cast", "copy")
"""Families of the ops that work on a stored score matrix."""
NEAR: Final = 6
"""Between a copy inside a product's op and the product are at most some casts, another copy and a memset."""
REACH: Final = 4
"""How many products before its softmax the one that writes the scores may be."""


class CostSizes(msgspec.Struct, frozen=True):
    """Per cost what kind of work it is and the elements it works on, 0 for none; the last entry is for no cost."""

    is_product: Bools
    is_softmax: Bools
    is_backward: Bools
    elements: Ints
    """Of ops that work on all elements of a tensor."""
    written: Ints
    """By a batched product."""
    read_first: Ints
    read_second: Ints

    def take(self, costs: Ints) -> CostSizes:
        return CostSizes(
            self.is_product[costs],
            self.is_softmax[costs],
            self.is_backward[costs],
            self.elements[costs],
            self.written[costs],
            self.read_first[costs],
            self.read_second[costs],
        )

    def reads(self, calls: Ints, elements: Ints) -> Bools:
        is_read: Bools = (self.read_first[calls] == elements) | (self.read_second[calls] == elements)
        return is_read


class OrderedCalls(msgspec.Struct, frozen=True):
    """The calls that can be part of attention, in the order of their streams."""

    sizes: CostSizes
    lane: Ints
    step: Ints
    path: Ints
    """Host event of the module call, else of the user's function call, around it; -1 where neither is recorded."""


class ScoreParts(msgspec.Struct, frozen=True):
    """Stretches of one stream from the first to the last product on scores of a size, by number of call."""

    first: Ints
    last: Ints
    elements: Ints


@shared
def score_elements(work: Workspace) -> Ints:
    """For each GPU event the elements of the stored scores that it works on as part of attention, 0 for none."""
    costs, found = costing(work), np.zeros(len(work.gpu), np.int64)
    sizes = _cost_sizes(costs.costs)
    scores = _possible_scores(sizes)
    if not len(scores):
        return found
    cost = np.append(costs.groups["cost"].to_numpy(), NONE)[costs.event_group]
    own = sizes.take(cost)
    events = np.flatnonzero(own.is_product | np.isin(own.elements, scores))
    calls, call_of_event = _calls(work, costs, sizes.take(cost[events]), events)
    parts = _score_parts(work, calls)
    found[events] = _elements_of_calls(calls, parts)[call_of_event]
    return _with_operand_copies(work, found, own, is_copy=_are_copies(costs.costs)[cost])


def _are_copies(costs: list[Cost]) -> Bools:
    """Per cost whether it only changes the order of a tensor in memory; the last entry is for no cost."""
    return np.array([cost.family == "copy" and ("strides", "other") in cost.params for cost in costs] + [False], bool)


def _with_operand_copies(work: Workspace, scores: Ints, sizes: CostSizes, is_copy: Bools) -> Ints:
    """The same with the copies of what products on scores read and write.

    Those are copies within the op that makes the product (`aten::matmul`, `einsum`), that of its result right after it,
    and that of a gradient right before it. What a program copies ahead of the forward pass, such as keys repeated for
    groups of heads, a fused call needs as well.
    """
    lane = work.trace.ints("lane")[work.gpu["id"].to_numpy()]
    order = np.lexsort((work.gpu["start_ns"].to_numpy(), lane))
    lane, outer = lane[order], _outermost_ops(work)[order]
    sizes, product_scores = sizes.take(order), np.where(sizes.is_product[order], scores[order], 0)
    copies = np.flatnonzero(is_copy[order] & (scores[order] == 0))
    is_autograd = np.array([name.startswith(AUTOGRAD_CALLS) for name in work.trace.names] + [False], bool)
    of_autograd = is_autograd[np.append(work.trace.ints("name"), len(is_autograd) - 1)[outer]]
    found: Ints = scores.copy()
    for distance in (*range(-NEAR, 0), *range(1, NEAR + 1)):
        product = np.clip(copies + distance, 0, len(order) - 1)
        elements, own = sizes.elements[copies], product_scores[product]
        is_operand = (own > 0) & (elements != own) & (lane[product] == lane[copies])
        is_operand &= sizes.reads(product, elements) | (sizes.written[product] == elements)
        belongs = (outer[product] == outer[copies]) & (outer[copies] != NONE)
        if distance == -1:
            belongs |= sizes.written[product] == elements
        if distance == 1:
            belongs |= of_autograd[product]
        found[order[copies[is_operand & belongs]]] = own[is_operand & belongs]
    return found


def _outermost_ops(work: Workspace) -> Ints:
    """For each GPU event the row of the outermost op around its launch, -1 for none."""
    owner, enclosing = work.gpu["owner"].to_numpy().astype(np.int64), work.enclosing_op
    outermost = np.where(work.trace.ints("kind")[owner] == CODE["op"], owner, NONE)
    while len(inside := np.flatnonzero((outermost >= 0) & (enclosing[outermost] >= 0))):
        outermost[inside] = enclosing[outermost[inside]]
    return outermost


def _cost_sizes(costs: list[Cost]) -> CostSizes:
    rows = [_sizes_of(cost) for cost in costs]
    rows.append((False, False, False, 0, 0, 0, 0))
    columns = list(zip(*rows, strict=True))
    flags = (np.array(column, bool) for column in columns[:3])
    return CostSizes(*flags, *(np.array(column, np.int64) for column in columns[3:]))


def _sizes_of(cost: Cost) -> tuple[bool, bool, bool, int, int, int, int]:
    params = dict(cost.params)
    is_product = cost.family in MATRIX_FAMILIES
    elements = int(params.get("elements", 0)) if cost.family in ON_SCORES else 0
    written = read_first = read_second = 0
    if cost.family == "gemm" and int(params.get("B", 0)) > 1:
        batch, m, n, k = (int(params[name]) for name in "BMNK")
        written, read_first, read_second = batch * m * n, batch * m * k, batch * k * n
    is_backward = params.get("pass") == "backward"
    return is_product, cost.family == "softmax", is_backward, elements, written, read_first, read_second


def _possible_scores(sizes: CostSizes) -> Ints:
    """Elements of a softmax that some product writes and some reads: without any there is nothing to look for."""
    softmax = np.unique(sizes.elements[sizes.is_softmax])
    is_read = np.isin(softmax, sizes.read_first) | np.isin(softmax, sizes.read_second)
    return softmax[(softmax > 0) & is_read & np.isin(softmax, sizes.written)]


def _calls(work: Workspace, costs: Costing, sizes: CostSizes, events: Ints) -> tuple[OrderedCalls, Ints]:
    """The calls of some events in the order of their streams, and for each of the events the number of its call."""
    gpu = work.gpu[events]
    lane = work.trace.ints("lane")[gpu["id"].to_numpy()].astype(np.int64)
    order = np.lexsort((gpu["start_ns"].to_numpy(), lane))
    _, first, call_of_ordered = np.unique(costs.event_call[events][order], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    call_of_event = np.empty(len(events), np.int64)
    call_of_event[order] = rank[call_of_ordered]
    firsts = order[np.sort(first)]
    module, line = (context(work).row[events][firsts] for context in (module_context, line_context))
    path = np.where(module >= 0, module, line)
    return OrderedCalls(sizes.take(firsts), lane[firsts], gpu["step"].to_numpy()[firsts], path), call_of_event


def _score_parts(work: Workspace, calls: OrderedCalls) -> ScoreParts:
    """The stretches around each softmax that has a product on the same scores on both sides."""
    anchors = np.flatnonzero(calls.sizes.is_product | calls.sizes.is_softmax)
    found = Softmaxes(calls, anchors, np.flatnonzero(calls.sizes.is_softmax[anchors]))
    writers, (reader, last) = _writers(found), _readers(found)
    kept = (writers.anchor >= 0) & (reader >= 0)
    written, read, between = (calls.path[anchors[column]] for column in (writers.anchor, reader, found.anchor))
    is_known = (written >= 0) & (read >= 0) & (between >= 0)
    kept &= ~is_known | ((written == read) & _is_within(work, between, written))
    before = np.maximum(anchors[found.anchor] - 1, 0)
    is_bias_added = is_known & ~calls.sizes.is_product[before] & (calls.sizes.elements[before] == found.elements)
    kept &= (writers.unrelated == 0) | is_bias_added
    return ScoreParts(anchors[writers.first[kept]], anchors[last[kept]], found.elements[kept])


class Softmaxes(msgspec.Struct, frozen=True):
    """The softmaxes among the anchors: calls that are products or softmaxes, in the order of their streams."""

    calls: OrderedCalls
    anchors: Ints
    anchor: Ints

    @property
    def elements(self) -> Ints:
        return self.calls.sizes.elements[self.anchors[self.anchor]]

    @property
    def is_backward(self) -> Bools:
        return self.calls.sizes.is_backward[self.anchors[self.anchor]]

    def products_at(self, distance: int) -> Neighbours:
        """The anchor so far from each softmax, if it is a product on the same stream and of the same step."""
        calls, sizes = self.calls, self.calls.sizes
        anchor = self.anchor + distance
        inside = (anchor >= 0) & (anchor < len(self.anchors))
        anchor = np.clip(anchor, 0, len(self.anchors) - 1)
        product, softmax = self.anchors[anchor], self.anchors[self.anchor]
        same = (calls.lane[product] == calls.lane[softmax]) & (calls.step[product] == calls.step[softmax])
        is_product = inside & same & sizes.is_product[product]
        reads, writes = sizes.reads(product, self.elements), sizes.written[product] == self.elements
        return Neighbours(anchor, is_product, is_product & reads, is_product & writes)


class Neighbours(NamedTuple):
    """Per softmax an anchor, whether that is a product, and whether it reads or writes as many elements."""

    anchor: Ints
    is_product: Bools
    reads: Bools
    writes: Bools


class Writers(msgspec.Struct, frozen=True):
    """Per softmax the anchor that writes its scores, the first one that works on them (-1 for none), and the number of
    products on other tensors that are between them."""

    anchor: Ints
    first: Ints
    unrelated: Ints


def _writers(found: Softmaxes) -> Writers:
    """In the backward pass the product for the values' gradient reads as many elements, before or after the writer."""
    count, is_backward = len(found.anchor), found.is_backward
    writer, first = np.full(count, NONE, np.int64), np.full(count, NONE, np.int64)
    unrelated = np.zeros(count, np.int64)
    searching, has_read = np.ones(count, bool), np.zeros(count, bool)
    for distance in range(1, REACH + 1):
        anchor, is_product, reads, writes = found.products_at(-distance)
        is_pair = is_backward & reads & (first == anchor + 1) & ~has_read
        first[is_pair] = anchor[is_pair]
        hit = searching & writes
        writer[hit] = first[hit] = anchor[hit]
        searching &= is_product & ~hit & (~reads | (is_backward & ~has_read))
        unrelated += searching & ~reads
        has_read |= reads & ~hit
    return Writers(writer, first, unrelated)


def _readers(found: Softmaxes) -> tuple[Ints, Ints]:
    """Per softmax the next anchor if it reads as many elements, else -1; and the second one of a backward pass."""
    anchor, _, reads, _ = found.products_at(1)
    second = found.products_at(2)
    reader = np.where(reads, anchor, NONE)
    return reader, np.where(found.is_backward & second.reads, second.anchor, reader)


def _is_within(work: Workspace, inner: Ints, outer: Ints) -> Bools:
    """Whether one host event is another, or inside of it."""
    lane, start, duration = (work.trace.ints(name) for name in ("lane", "start_ns", "dur_ns"))
    begins = (lane[inner] == lane[outer]) & (start[inner] >= start[outer])
    ends = start[inner] + duration[inner] <= start[outer] + duration[outer]
    is_within: Bools = (inner == outer) | (begins & ends)
    return is_within


def _elements_of_calls(calls: OrderedCalls, parts: ScoreParts) -> Ints:
    """For each call the elements of the scores it works on: all on that many within such a stretch."""
    sizes, number = calls.sizes, np.arange(len(calls.lane))
    if not len(parts.first):
        return np.zeros(len(number), np.int64)
    part = np.searchsorted(parts.first, number, side="right") - 1
    elements = np.where((part >= 0) & (number <= parts.last[part]), parts.elements[part], 0)
    touches = sizes.reads(number, elements) | (sizes.written == elements) | (sizes.elements == elements)
    return np.where((elements > 0) & touches, elements, 0)
