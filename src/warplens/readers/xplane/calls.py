"""Which host event GPU work in an `.xplane.pb` file belongs to: its launch, its HLO op, the call of its program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from warplens.model.builder import TraceBuilder
from warplens.readers.xplane.host import XLA_CALL


class TimedCall(NamedTuple):
    """An event on a host thread."""

    event: int
    lane: int
    start_ns: int
    dur_ns: int


class HloWork(NamedTuple):
    """A GPU event that names the HLO op it belongs to."""

    event: int
    start_ns: int
    correlation: int
    hlo_op: str


class HostCalls:
    """The host events that GPU work can belong to, collected as they are added to the builder."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._launches: dict[int, TimedCall] = {}
        self._ops: dict[str, list[TimedCall]] = {}
        self._programs: dict[int, list[TimedCall]] = {}
        self._spans: dict[int, _Spans] = {}
        self._op_of: dict[int, TimedCall] = {}

    def add(self, kind: str, name: str, call: TimedCall, correlation: int) -> None:
        if kind == "runtime" and correlation > 0:
            self._launches[correlation] = call
        elif kind == "op":
            self._ops.setdefault(name, []).append(call)
            if XLA_CALL.fullmatch(name):
                self._programs.setdefault(call.lane, []).append(call)

    def tie_to_hlo_ops(self, works: Iterable[HloWork]) -> None:
        """GPU work ↔ the host's event for its HLO op, where launches are on a thread line of their own (ROCm).

        The op is the one of that name during which the launch began. Where several threads run it at that moment,
        it is that of the thread to which all clear cases of the launching line lead; else none is chosen.
        """
        spans = {name: _Spans(calls) for name, calls in self._ops.items()}
        candidates: list[tuple[HloWork, int, list[TimedCall]]] = []
        partners: dict[int, set[int]] = {}
        for work in works:
            launch = self._launches.get(work.correlation)
            if launch is not None and work.hlo_op in spans:
                around = spans[work.hlo_op].around(launch.start_ns)
                candidates.append((work, launch.lane, around))
                if len(around) == 1:
                    partners.setdefault(launch.lane, set()).add(around[0].lane)
        for work, lane, around in candidates:
            if len(around) > 1 and len(partners.get(lane, ())) == 1:
                around = [op for op in around if op.lane in partners[lane]]
            if len(around) == 1:
                self._tie(work, around[0])

    def _tie(self, work: HloWork, op: TimedCall) -> None:
        self._op_of[work.event] = op
        for event in (work.event, op.event):
            self._builder.set_external_id(event, op.event + 1)

    def program_call(self, work: HloWork) -> TimedCall | None:
        """The innermost call of a jitted function or its program around the launch of a GPU event.

        Where there is none, the launch itself; None where that is not recorded either.
        """
        launch = self._launches.get(work.correlation)
        for call in (launch, self._op_of.get(work.event)):
            if call is not None:
                around = self._programs_around(call)
                if around:
                    return around[-1]
        return launch

    def _programs_around(self, call: TimedCall) -> list[TimedCall]:
        if call.lane not in self._spans:
            self._spans[call.lane] = _Spans(self._programs.get(call.lane, []))
        return self._spans[call.lane].around(call.start_ns)


class _Spans:
    """Intervals that can be asked which of them hold a moment."""

    def __init__(self, calls: list[TimedCall]) -> None:
        # Of two that start together the longer is the outer one.
        self._calls = sorted(calls, key=lambda call: (call.start_ns, -call.dur_ns, call.event))
        self._starts = [call.start_ns for call in self._calls]
        self._longest = max((call.dur_ns for call in calls), default=0)

    def around(self, moment: int) -> list[TimedCall]:
        """The intervals that hold `moment`, by start."""
        first, last = bisect_left(self._starts, moment - self._longest), bisect_right(self._starts, moment)
        return [call for call in self._calls[first:last] if call.start_ns + call.dur_ns > moment]
