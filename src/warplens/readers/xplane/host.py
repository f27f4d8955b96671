"""What the events of a host thread in an `.xplane.pb` file are: Python frames, runtime calls, ops, XLA's own marks."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from warplens.readers.xplane.details import id_of
from warplens.readers.xplane.planes import XEvent, XLine, XPlane

PYTHON_FRAME: Final = re.compile(r"\$(?P<file>.+?):(?P<line>\d+) (?P<function>.*)", re.DOTALL)
RUNTIME_CALL: Final = re.compile(r"(?P<call>(?:cuda|cu|hip)[A-Z]\w*)(?: \(CudaGraph:\d+\))?")
XLA_CALL: Final = re.compile(r"PjitFunction\(.*|.*:XLA GPU module", re.DOTALL)
XLA_INTERNAL: Final = re.compile(
    r".*::|PJRT_|Wait for .* holds|ParseArguments|ThenExecuteCallback|RecordUsage|DevicePut|ComputeSemaphore"
    r"|cpp_pjit|shard_args|BUFFER_FLUSH|<UNKNOWN>"
)
"""What XLA and JAX mark by themselves outside the call of a jitted function; all that is inside one is theirs."""
XLA_THREADS: Final = re.compile(r"py_xla|tf_|pjrt|xla|Host Threads", re.IGNORECASE)


class HostKinds:
    """The kind and name of host events; what depends on the name alone is found out once per name.

    `launched` are the numbers of launches that have work on a GPU, `hlo_ops` the ops that some GPU event names.
    """

    def __init__(self, planes: list[XPlane], launched: set[int], hlo_ops: set[str]) -> None:
        self.step_name = _step_name(planes)
        self._launched = launched
        self._hlo_ops = hlo_ops
        self._kinds_by_name: dict[tuple[str, bool], tuple[str, str]] = {}

    def of(self, event: XEvent, is_internal: bool) -> tuple[str, str]:
        """`is_internal` where all but the user's own marks is XLA's."""
        if event.stats:
            described = self._by_stats(event)
            if described is not None:
                return described
        key = event.name, is_internal or "_src" in event.stats
        if key not in self._kinds_by_name:
            self._kinds_by_name[key] = self._by_name(*key)
        return self._kinds_by_name[key]

    def _by_stats(self, event: XEvent) -> tuple[str, str] | None:
        name = event.name
        if name.startswith("$") or RUNTIME_CALL.fullmatch(name):
            return None
        correlation = id_of(event.stats.get("correlation_id"))
        if correlation > 0:
            # XLA gives a launch the name of its kernel. Without work on a GPU it only built a graph.
            return "runtime" if correlation in self._launched else "other", name
        if "step_num" in event.stats:
            number = id_of(event.stats["step_num"])
            return "annotation", f"ProfilerStep#{number}" if name == self.step_name else f"{name} {number}"
        return None

    def _by_name(self, name: str, is_internal: bool) -> tuple[str, str]:
        if name.startswith("$"):
            frame = PYTHON_FRAME.fullmatch(name)
            return "python", f"{frame['file']}({frame['line']}): {frame['function']}" if frame else name[1:]
        call = RUNTIME_CALL.fullmatch(name)
        if call:
            return "runtime", call["call"]
        if name in self._hlo_ops or XLA_CALL.fullmatch(name):
            return "op", name
        if is_internal or not name or XLA_INTERNAL.match(name):
            return "other", name
        return "annotation", name


def _step_name(planes: list[XPlane]) -> str:
    """The StepTraceAnnotation that takes most time: a run may number "train" and "eval" steps alike."""
    total: Counter[str] = Counter()
    for plane in planes:
        for line in plane.lines if plane.device is None else ():
            for event in line.events:
                if "step_num" in event.stats:
                    total[event.name] += max(0, event.duration_ps)
    return total.most_common(1)[0][0] if total else ""


def inside_xla(line: XLine) -> list[bool]:
    """Which events of a thread are inside the call of a jitted function."""
    events = line.events
    if XLA_THREADS.match(line.name):
        return [True] * len(events)
    inside = [False] * len(events)
    opens = {name for name in {event.name for event in events} if XLA_CALL.fullmatch(name)}
    if not opens:
        return inside
    until: int | None = None
    for row in sorted(range(len(events)), key=lambda row: (events[row].offset_ps, -events[row].duration_ps)):
        event = events[row]
        inside[row] = until is not None and event.offset_ps < until
        if event.name in opens:
            until = max(until or event.offset_ps, event.offset_ps + event.duration_ps)
    return inside
