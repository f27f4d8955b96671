"""Sequences of launches and of GPU events in one vocabulary, so that they can be compared."""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb
from warplens.passes.graphs.aligning import Nodes
from warplens.passes.graphs.captures import CapturedGraph
from warplens.passes.graphs.families import FamilyWords
from warplens.passes.graphs.replays import event_kinds

PLACES: Final = 8


class NodeMaker:
    """Names have the codes of the trace of the replays; those that it does not have come after them.

    Families are only looked at where some launch does not say which kernel it launches.
    """

    def __init__(self, trace: Trace, graphs: list[CapturedGraph], words: FamilyWords) -> None:
        self._trace = trace
        self._words = words
        self._codes = {_bare(trace.names[code]): code for code in _gpu_names(trace)}
        self._by_family = any(not name for graph in graphs for name in graph.kernels)
        self._op_bits: dict[tuple[int, int], int] = {}
        self._enclosing: dict[int, Ints] = {}
        self._kernel_bits = np.zeros(len(trace.names), np.int64)
        if self._by_family:
            codes = _gpu_names(trace)
            self._kernel_bits[codes] = words.kernel_bits([trace.names[code] for code in codes])

    def of_events(self, rows: Ints) -> Nodes:
        names = self._trace.ints("name")[rows].astype(np.int64)
        coded = np.array([self._codes[_bare(self._trace.names[name])] for name in names.tolist()], np.int64)
        texts = {code: self._trace.names[code] for code in set(coded.tolist())}
        return Nodes(event_kinds(self._trace, rows), coded, self._kernel_bits[names], coded, texts)

    def of_graph(self, graph: CapturedGraph) -> Nodes:
        size = len(self._trace.names)
        is_kernel = graph.kinds == CODE["kernel"]
        names = [
            self._codes.setdefault(_bare(name), size + len(self._codes)) if name and kernel else NONE
            for name, kernel in zip(graph.kernels, is_kernel.tolist(), strict=True)
        ]
        families = np.zeros(len(names), np.int64)
        if self._by_family:
            families = np.array([self._families(graph, op) for op in graph.ops.tolist()], np.int64)
        calls = _calls(graph)
        own = graph.capture.trace.names
        texts = {call: own[call // PLACES] if call >= 0 else "" for call in set(calls.tolist())}
        return Nodes(graph.kinds, np.array(names, np.int64), families, calls, texts)

    def _families(self, graph: CapturedGraph, op: int) -> int:
        """What an op and those around it can launch: anything, where the innermost is of no known family."""
        trace = graph.capture.trace
        if op < 0:
            return 0
        key = id(trace), op
        if key not in self._op_bits:
            own = self._words.op_bits(trace.names[trace.ints("name")[op]])
            outer = self._outer_op(trace, op)
            self._op_bits[key] = own | (self._families(graph, outer) if own and outer >= 0 else 0)
        return self._op_bits[key]

    def _outer_op(self, trace: Trace, op: int) -> int:
        if id(trace) not in self._enclosing:
            is_op, parent = trace.is_kind("op"), trace.ints("parent")
            ops = np.flatnonzero(is_op)
            enclosing = np.full(len(trace), NONE, np.int64)
            enclosing[ops] = climb(parent[ops], parent, is_op)
            self._enclosing[id(trace)] = enclosing
        return int(self._enclosing[id(trace)][op])


def _calls(graph: CapturedGraph) -> Ints:
    """The op of each launch and which of its launches it is, as one number; an op's later launches are alike."""
    ops = graph.ops
    begins = np.append(True, ops[1:] != ops[:-1])[: len(ops)]
    place = np.arange(len(ops)) - np.maximum.accumulate(np.where(begins, np.arange(len(ops)), 0))
    names = np.where(ops >= 0, graph.capture.trace.ints("name")[np.maximum(ops, 0)].astype(np.int64), NONE)
    calls: Ints = names * PLACES + np.minimum(place, PLACES - 1)
    return calls


def _gpu_names(trace: Trace) -> list[int]:
    codes: list[int] = np.unique(trace.ints("name")[trace.gpu_rows]).tolist()
    return codes


def _bare(name: str) -> str:
    """Symbols of code objects may end so."""
    return name.removesuffix(".kd")
