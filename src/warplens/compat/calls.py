"""What TraceLens' frames are made of: GPU events, the op or launch that each is booked on, and what is inside an op.

An event is identified by its `UID`: the number of its row in the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.work.call_times import call_times
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.compat.names import INPUTS, PLACES
from warplens.model.intervals import length, union
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.model.tree import Floats
from warplens.passes.climb import DEEP, climb
from warplens_run.base import bounded

PASSED_THROUGH: Final = "execute"
"""Ops of this name only run what a compiler made of others: the op around them is what launches."""
RECOMPUTE: Final = ("torch/utils/checkpoint.py", "recompute_fn")
"""What the name of the Python frame contains in which checkpointed activations are computed again."""
HOST_LABEL: Final = "CPU"
"""How Kineto labels the process of the host."""
UNKNOWN: Final = "Unknown"


class Inputs(NamedTuple):
    """The recorded arguments of a call, as nested tuples; None where they are not recorded."""

    dims: Any = None
    types: Any = None
    strides: Any = None
    concrete: Any = None

    def named(self, names: Sequence[str] = INPUTS) -> dict[str, Any]:
        return dict(zip(names, self, strict=True))


class Inside(msgspec.Struct, frozen=True, dict=True):
    """The GPU events (places in `gpu`) inside each row that has any, and the time in which any of them ran."""

    rows: Ints
    first: Ints
    events: Ints
    busy_us: Floats

    @cached_property
    def _place(self) -> dict[int, int]:
        return {row: at for at, row in enumerate(self.rows.tolist())}

    def of(self, row: int) -> Ints:
        at = self._place.get(row, NONE)
        return self.events[self.first[at] : self.first[at + 1]] if at >= 0 else self.events[:0]

    def busy(self, row: int) -> float:
        at = self._place.get(row, NONE)
        return float(self.busy_us[at]) if at >= 0 else 0.0


class Calls:
    """The GPU events of a trace and the host's events that they belong to."""

    def __init__(self, work: Workspace, *, include_unlinked: bool = False) -> None:
        self.work = work
        self.include_unlinked = include_unlinked
        self.trace = work.trace
        self.gpu = work.gpu
        self.names = work.trace.names

    def name(self, row: int) -> str:
        return self.names[int(self.trace.ints("name")[row])]

    @cached_property
    def start_ns(self) -> Ints:
        return self.gpu["start_ns"].to_numpy()

    @cached_property
    def dur_ns(self) -> Ints:
        return self.gpu["dur_ns"].to_numpy()

    @cached_property
    def stream(self) -> Ints:
        return self.gpu["stream"].to_numpy()

    @cached_property
    def kernel(self) -> list[str]:
        return self.gpu["kernel"].to_list()

    @cached_property
    def category(self) -> list[str]:
        return self.gpu["kernel_category"].to_list()

    @cached_property
    def caller(self) -> list[str]:
        """The name of the op, or of the launch, that each GPU event is booked on."""
        return self.gpu["op"].to_list()

    @cached_property
    def op(self) -> Ints:
        """The innermost op around the launch of each GPU event; -1 for none."""
        return self.gpu["op_row"].to_numpy().astype(np.int64)

    @cached_property
    def launch(self) -> Ints:
        return self.gpu["launch"].to_numpy().astype(np.int64)

    @cached_property
    def is_linked(self) -> Bools:
        return (self.launch >= 0) | (self.op >= 0)

    @cached_property
    def is_counted(self) -> Bools:
        """Which GPU events the timeline counts: those with a recorded launch, or all."""
        counted: Bools = self.is_linked | self.include_unlinked
        return counted

    @cached_property
    def is_communication(self) -> Bools:
        is_communication: Bools = (self.gpu["kernel_category"] == COMMUNICATION).to_numpy()
        return is_communication

    @cached_property
    def is_op(self) -> Bools:
        return self.trace.is_kind("op")

    @cached_property
    def launcher(self) -> Ints:
        """The op that launches each GPU event; the launch itself outside ops, -1 where neither is recorded."""
        name = self.trace.ints("name")
        passed = np.array([text == PASSED_THROUGH for text in self.names], bool)[name]
        leaf = climb(self.op, self.trace.ints("parent"), self.is_op & ~passed)
        return np.where(leaf >= 0, leaf, self.launch)

    @cached_property
    def direct(self) -> Inside:
        """The GPU events that each launcher launches itself; collectives have rows of their own in other frames."""
        events = np.flatnonzero(self.is_linked & (self.launcher >= 0) & ~self.is_communication)
        return self._inside(self.launcher[events], events)

    @cached_property
    def subtree(self) -> Inside:
        """All GPU events inside each op, and those of launches outside ops."""
        outside = np.flatnonzero((self.op < 0) & (self.launch >= 0))
        return self._above(self.op, self.work.enclosing_op, (self.launch[outside], outside))

    @cached_property
    def backward(self) -> Inside:
        """The GPU events of the backward pass of each op, and of the ops inside it."""
        forward = self.trace.ints("forward").astype(np.int64)
        made = climb(self.op, self.trace.ints("parent"), self.is_op & (forward >= 0))
        return self._above(np.where(made >= 0, forward[np.maximum(made, 0)], NONE), self.work.enclosing_op)

    @cached_property
    def module(self) -> Ints:
        """The call of a module around the launch of each GPU event; -1 for none."""
        return climb(np.where(self.op >= 0, self.op, self.launch), self.trace.ints("parent"), self._is_module)

    @cached_property
    def modules(self) -> Inside:
        """All GPU events inside each call of a module."""
        parent = self.trace.ints("parent")
        up = np.full(len(self.trace), NONE, np.int64)
        rows = np.flatnonzero(self._is_module)
        up[rows] = climb(parent[rows].astype(np.int64), parent, self._is_module)
        return self._above(self.module, up)

    @cached_property
    def _is_module(self) -> Bools:
        return self.trace.is_kind("module")

    @cached_property
    def recomputed(self) -> Bools:
        """Which rows of the trace are inside the frame in which checkpointed activations are computed again."""
        name = self.trace.ints("name")
        is_frame = np.array([all(part in text for part in RECOMPUTE) for text in self.names], bool)[name]
        rows = np.arange(len(self.trace))
        inside: Bools = climb(rows, self.trace.ints("parent"), is_frame) >= 0
        return inside

    @cached_property
    def is_recomputed(self) -> Bools:
        """Which GPU events were launched there."""
        anchor = np.where(self.op >= 0, self.op, self.launch)
        recomputed: Bools = np.where(anchor >= 0, self.recomputed[np.maximum(anchor, 0)], False)
        return recomputed

    def _above(self, at: Ints, up: Ints, others: tuple[Ints, Ints] | None = None) -> Inside:
        """The events inside each row from `at` upwards; `others` are more rows and the events inside them."""
        events = np.arange(len(at))
        pairs = [] if others is None else [others]
        for _ in range(DEEP):
            events, at = events[at >= 0], at[at >= 0]
            if not len(at):
                break
            pairs.append((at, events))
            at = up[at]
        none = np.zeros(0, np.int64)
        return self._inside(
            *(np.concatenate([none, *part]) for part in zip(*pairs, strict=True)) if pairs else (none, none)
        )

    def _inside(self, owner: Ints, events: Ints) -> Inside:
        order = np.lexsort((self.start_ns[events], owner))
        owner, events = owner[order], events[order]
        first = np.flatnonzero(np.append(True, np.diff(owner) != 0)) if len(owner) else order
        busy = call_times(owner, self.start_ns[events], self.dur_ns[events]).union_ns
        return Inside(owner[first], np.append(first, len(owner)), events, busy / 1000)

    def inputs(self, row: int) -> Inputs:
        """The arguments of a call; one object for all calls with the same."""
        spec = int(self.trace.ints("spec")[row])
        if spec not in self._inputs:
            self._inputs[spec] = Inputs(*map(nested, self.trace.specs.row(spec))) if spec >= 0 else Inputs()
        return self._inputs[spec]

    def input_lists(self, row: int) -> dict[str, Any]:
        """The same by TraceLens' names, as nested lists."""
        spec = int(self.trace.ints("spec")[row])
        if spec not in self._input_lists:
            named = self.inputs(row).named()
            self._input_lists[spec] = {name: _as_lists(value) for name, value in named.items()}
        return self._input_lists[spec]

    @cached_property
    def _input_lists(self) -> dict[int, dict[str, Any]]:
        return {}

    @cached_property
    def _inputs(self) -> dict[int, Inputs]:
        return {}

    def place(self, row: int) -> dict[str, str]:
        """The process and the thread of a call."""
        lane = int(self.trace.ints("lane")[row])
        if lane not in self._places:
            process, thread = self.trace.lanes.row(lane)[2:]
            label = HOST_LABEL if process else UNKNOWN
            self._places[lane] = dict(zip(PLACES, (process or UNKNOWN, label, thread or UNKNOWN), strict=True))
        return self._places[lane]

    @cached_property
    def _places(self) -> dict[int, dict[str, str]]:
        return {}

    def numbers(self, row: int) -> dict[str, Any]:
        """The process and the thread of a call as numbers, where they are."""
        return self.lane_numbers(int(self.trace.ints("lane")[row]))

    def lane_numbers(self, lane: int) -> dict[str, Any]:
        process, thread = self.trace.lanes.row(lane)[:2]
        return {"pid": _number(process), "tid": _number(thread)}

    def external_id(self, row: int) -> int | None:
        external = int(self.trace.ints("external_id")[row])
        return None if external == NONE else external

    @cached_property
    def has_backward(self) -> Bools:
        """Which rows of the trace are forward ops that the backward pass names."""
        forward = self.trace.ints("forward")
        marked = np.zeros(len(self.trace), bool)
        marked[forward[forward >= 0]] = True
        return marked

    @cached_property
    def uid(self) -> list[int]:
        """The number of each GPU event among all events."""
        return self.gpu["id"].to_list()

    def busy_us(self, events: Ints) -> float:
        """The time in which any of these events ran."""
        start = self.start_ns[events]
        return length(union(start, start + self.dur_ns[events])) / 1000

    def details(self, events: Ints) -> list[dict[str, Any]]:
        """Name, duration in µs and stream of each event."""
        return [
            {"name": self.kernel[event], "dur": float(self.dur_ns[event]) / 1000, "stream": self.stream_of(event)}
            for event in events.tolist()
        ]

    def stream_of(self, event: int) -> int | None:
        stream = int(self.stream[event])
        return None if stream == NONE else stream

    def call_stack(self, row: int, wanted: Sequence[str] = ("nn.Module",)) -> list[str]:
        """The name of a call, and of what is around it where that contains one of these texts, from the inside out."""
        parent, stack = self.trace.ints("parent"), [self.name(row)]
        at = int(parent[row])
        while at >= 0:
            name = self.name(at)
            if any(text in name for text in wanted):
                stack.append(name)
            at = int(parent[at])
        return stack


def nested(text: str) -> Any:
    """Recorded lists as tuples; None where nothing is recorded."""
    try:
        return _as_tuples(msgspec.json.decode(text)) if text else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, tuple) else value


def _number(text: str) -> int | str:
    return bounded.whole(text) if bounded.is_whole(text, 0) else text
