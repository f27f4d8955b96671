"""What the cost of an op needs besides its own arguments: the iteration around it, and the calls inside it.

Attention of a serving engine reads the lengths of its requests from the engine's mark of the iteration; a layer of
experts is handed no weights, but the calls inside it are. Traces without such ops pay nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.workspace import Workspace
from warplens.costs import Call, is_of_serving, parse_call
from warplens.model.iteration_marks import IterationMark
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb
from warplens.passes.survey import is_graph_launch

MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Spreads the codes of inner calls, so that sums of them tell sets apart."""


class CallContext(NamedTuple):
    mark: IterationMark | None = None
    inner: tuple[Call, ...] = ()
    cache_dtype: str = ""
    replayed: bool = False


class CallContexts(msgspec.Struct, frozen=True):
    """`code` numbers for each op row that was asked for its context in `contexts`; 0 is none."""

    code: Ints
    contexts: list[CallContext]


NOTHING: Final = CallContext()


def call_contexts(work: Workspace, op_row: Ints) -> CallContexts:
    """The contexts of the op calls in these rows; -1 stands for no op."""
    trace = work.trace
    none = CallContexts(np.zeros(len(op_row), np.int64), [NOTHING])
    serving = [code for code in trace.host_names.tolist() if is_of_serving(trace.names[code])]
    if not serving:
        return none
    from warplens.costs.serving import cache_argument, reads_inner_calls, reads_lengths

    names = trace.ints("name")
    of_attention = _named(trace, [code for code in serving if reads_lengths(trace.names[code])])
    of_layers = _named(trace, [code for code in serving if reads_inner_calls(trace.names[code])])
    writers = [(code, place) for code in serving if (place := cache_argument(trace.names[code])) is not None]
    is_asked = (op_row >= 0) & (of_attention | of_layers)[names[np.maximum(op_row, 0)]]
    rows, row_of_event = np.unique(op_row[is_asked], return_inverse=True)
    if not len(rows):
        return none
    mark_code, marks = _marks(trace, np.where(of_attention[names[rows]], rows, NONE))
    inner_code, inner = _inner_calls(trace, rows, of_layers)
    replayed = climb(rows, trace.ints("parent"), is_graph_launch(trace, np.arange(len(trace)))) >= 0
    keys = (mark_code * len(inner) + inner_code) * 2 + replayed
    unique, context_of_row = np.unique(keys, return_inverse=True)
    dtype = _cache_dtype(trace, writers)
    contexts = [
        CallContext(marks[key // 2 // len(inner)], inner[key // 2 % len(inner)], dtype, bool(key % 2))
        for key in unique.tolist()
    ]
    code = np.zeros(len(op_row), np.int64)
    code[is_asked] = context_of_row[row_of_event] + 1
    return CallContexts(code, [NOTHING, *contexts])


def _named(trace: Trace, codes: list[int]) -> Bools:
    """By name code, whether it is one of these."""
    chosen = np.zeros(len(trace.names), bool)
    chosen[codes] = True
    return chosen


def _marks(trace: Trace, rows: Ints) -> tuple[Ints, list[IterationMark | None]]:
    """The nearest mark around each row that has the lengths of its requests; 0 for none."""
    from warplens.costs.lengths import lengths_of
    from warplens.model.iteration_marks import parse_mark

    names, is_annotation = trace.ints("name"), trace.ints("kind") == CODE["annotation"]
    marks: list[IterationMark | None] = [None]
    number = np.zeros(len(trace.names), np.int64)
    for code in np.unique(names[is_annotation]).tolist():
        mark = parse_mark(trace.names[code])
        groups = (mark.context, mark.generation) if mark is not None else ()
        if any((lengths := lengths_of(sums)) is not None and lengths.queries for sums in groups):
            number[code] = len(marks)
            marks.append(mark)
    if len(marks) == 1:
        return np.zeros(len(rows), np.int64), marks
    reached = climb(rows, trace.ints("parent"), is_annotation & (number[names] > 0))
    return np.where(reached >= 0, number[names[np.maximum(reached, 0)]], 0), marks


def _inner_calls(trace: Trace, rows: Ints, of_layers: Bools) -> tuple[Ints, list[tuple[Call, ...]]]:
    """For each row the calls inside it that say something about experts; equal sets share a number, 0 is none."""
    names, specs = trace.ints("name").astype(np.int64), trace.ints("spec").astype(np.int64)
    layers = rows[of_layers[names[rows]]]
    nothing: list[tuple[Call, ...]] = [()]
    if not len(layers):
        return np.zeros(len(rows), np.int64), nothing
    is_layer = np.zeros(len(trace), bool)
    is_layer[layers] = True
    inside = np.flatnonzero((trace.ints("kind") == CODE["op"]) & (specs >= 0) & ~is_layer)
    layer = climb(inside, trace.ints("parent"), is_layer)
    inside, layer = inside[layer >= 0], layer[layer >= 0]
    pairs, pair_of_row = np.unique(names[inside] * len(trace.specs) + specs[inside], return_inverse=True)
    calls = [_call(trace, pair) for pair in pairs.tolist()]
    tells = np.array([_tells_of_experts(call) for call in calls], bool)
    kept = tells[pair_of_row] if len(calls) else np.zeros(0, bool)
    found = np.unique(np.searchsorted(layers, layer[kept]) * max(1, len(pairs)) + pair_of_row[kept])
    place, pair = found // max(1, len(pairs)), found % max(1, len(pairs))
    sums = np.zeros(len(layers), np.uint64)
    np.add.at(sums, place, (pair.astype(np.uint64) + np.uint64(1)) * MIX ^ (pair.astype(np.uint64) << np.uint64(32)))
    _, first, number = np.unique(sums, return_index=True, return_inverse=True)
    sets = [tuple(calls[code] for code in pair[place == layer_place].tolist()) for layer_place in first.tolist()]
    code = np.zeros(len(rows), np.int64)
    code[np.searchsorted(rows, layers)] = number + 1
    return code, nothing + sets


def _call(trace: Trace, pair: int) -> Call:
    name, spec = divmod(pair, len(trace.specs))
    return parse_call(trace.names[name], *trace.specs.row(spec))


def _tells_of_experts(call: Call) -> bool:
    """Stacks of matrices, lists of chosen experts, buffers, and ops that have the products' cost themselves."""
    if call.op.partition(".")[0] == "aten::empty":
        return len(call.integers(0)) == 2
    return any(len(tensor.shape) == 3 for tensor in call.all_tensors) or "topk" in call.op.lower() or "moe" in call.op


def _cache_dtype(trace: Trace, writers: list[tuple[int, int]]) -> str:
    """Element type of the key and value cache, by the ops that write it; empty where they differ."""
    names, specs = trace.ints("name").astype(np.int64), trace.ints("spec").astype(np.int64)
    dtypes = set()
    for code, place in writers:
        for spec in np.unique(specs[(names == code) & (specs >= 0)]).tolist():
            cache = _call(trace, code * len(trace.specs) + spec).tensor(place)
            dtypes |= {cache.dtype} if cache else set()
    return dtypes.pop() if len(dtypes) == 1 else ""
