"""A trace of PyTorch's profiler folded into a tree of call paths, in the file format of Proton's trees.

Runs where the program runs, so it needs nothing but Python. `python -m warplens_run.capture.trace_to_tree TRACE TREE`
adds what the trace holds to the tree, which is gzipped. A path joins scopes and annotations, modules and Python frames
where recorded, ops, then the kernel; backward work stands under the forward op that created it, and a kernel that no
op launched under the call that did. The paths are those of `Profile.tree`.

What Warplens does inside the program is in none of them: neither its functions nor what they call in Python. Functions
of its own that stand around the program's are passed through.
"""

from __future__ import annotations

import functools
import gc
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.base.files import write_whole
from warplens_run.base.quoted_names import escape_names
from warplens_run.capture.path_tree import (
    COUNT,
    CPU_TIME,
    DEVICE_ID,
    DEVICE_TYPE,
    GPU_TIME,
    OWN,
    ROOT,
    Node,
    from_hatchet,
    pruned,
    to_hatchet,
)  # fmt: skip
from warplens_run.capture.scope_log import HEADER

OP: Final = "cpu_op"
ANNOTATION: Final = "user_annotation"
FRAME: Final = "python_function"
HOST: Final = (OP, ANNOTATION, FRAME)
RUNTIME: Final = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "xpu_driver")
GPU: Final = ("kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset")
BACKWARD: Final = "(backward)"
NO_LAUNCH: Final = "(no launch recorded)"
STEP: Final = "ProfilerStep#"
AFTER_STEPS: Final = "(after the last step)"
"""The mark that was open at the end: what follows the last step is not one."""
MODULE: Final = "nn.Module: "
ENGINE: Final = "autograd::engine::evaluate_function: "
NS_PER_US: Final = 1000
TRACE_SPAN: Final = "Trace"
"""The category of the span of what was recorded: an annotation without an end goes on while the profiler ends."""
EXEC: Final = "<built-in function exec>"
WORKLOADS: Final = "warplens_run/workloads/"
NO_ARGS: Final[dict[str, Any]] = {}


class _Role(Enum):
    """What a Python function is to the program; only functions of the program have nodes."""

    PROGRAM = None
    LAUNCHER = re.compile(
        r"(?:.*/)?warplens\(\d+\): <module>$|(?:.*/)?warplens/(?:cli/|__main__\.py)"
        r"|(?:.*/)?warplens_run/capture/launch\.py"
    )
    """Reaches the program through `exec` or a workload; whatever else it calls is its own."""
    AROUND = re.compile(
        r"(?:.*/)?warplens_run/capture/(?:(?:wrapping|graph_hooks)\.py"
        r"|steps\.py\(\d+\): step$|forward_watch\.py\(\d+\): __call__$|triton_launches\.py\(\d+\): launch_metadata$)"
    )
    """Calls the program, as a decorator or a method that is watched does."""
    OWN = re.compile(r"(?:.*/)?(?:warplens_run/(?:capture|counters|formats)/|warplens(?:_run)?/__\w+__\.py\()")
    """Records the program, as does whatever it calls."""


class _TreeCall:
    """A host event with its caller."""

    __slots__ = ("begin", "end", "event", "forward_thread", "has_op", "inner_us", "is_backward", "is_passed",
                 "is_runtime", "node", "outer", "role", "sequence")  # fmt: skip

    def __init__(self, event: dict[str, Any], outer: _TreeCall | None, begin: float, end: float) -> None:
        self.event, self.outer, self.begin, self.end = event, outer, begin, end
        category, args = event["cat"], event.get("args", NO_ARGS)
        self.is_runtime = category in RUNTIME
        self.role = _Role.PROGRAM
        if category == FRAME:
            self.role = _role(event["name"], None if outer is None else outer.role)
        # It has no node of its own, and what is inside stands where it would.
        self.is_passed = self.is_runtime or self.role is not _Role.PROGRAM
        self.has_op: bool = category == OP or (outer is not None and outer.has_op)
        self.inner_us = 0.0
        self.node: Node | None = None
        self.sequence: int = args.get("Sequence number", -1)
        # Where a backward op's forward op ran, by autograd's own count of threads; 0 for all other ops.
        self.forward_thread: int = args.get("Fwd thread id", 0)
        self.is_backward = self.sequence >= 0 and (self.forward_thread > 0 or event["name"].startswith(ENGINE))


def fold(document: dict[str, Any], root: Node) -> None:
    """Add the events of a trace to a tree."""
    events = [event for event in document.get("traceEvents", []) if event.get("ph") == "X" and "ts" in event]
    _end_open_marks(events)
    threads = _threads(event for event in events if event.get("cat") in (*HOST, *RUNTIME))
    calls = [call for thread_calls in threads.values() for call in thread_calls]
    # Who called and who created started earlier, on whichever thread: both have their nodes by then.
    calls.sort(key=lambda call: call.event["ts"])
    forward = _forward_ops(threads)
    for call in calls:
        call.node = _node_of(call, root, forward)
        if not call.is_passed:
            call.node.add(CPU_TIME, max(0, round((call.end - call.begin - call.inner_us) * NS_PER_US)))
    _add_metrics(document.get(HEADER, []), threads)
    launches = {call.event.get("args", NO_ARGS).get("correlation"): call for call in calls if call.is_runtime}
    for event in events:
        if event.get("cat") in GPU:
            _add_kernel(_launcher(launches.get(event.get("args", {}).get("correlation")), root), event)


def _end_open_marks(events: list[dict[str, Any]]) -> None:
    ends = [event["ts"] + event.get("dur", 0) for event in events if event.get("cat") == TRACE_SPAN]
    for event in events if ends else ():
        if event.get("args", NO_ARGS).get("finished") is False:
            event["dur"] = max(0, min(event.get("dur", 0), max(ends) - event["ts"]))


def _launcher(launch: _TreeCall | None, root: Node) -> Node:
    if launch is None or launch.node is None:
        return root.child(NO_LAUNCH)
    return launch.node if launch.has_op else launch.node.child(launch.event["name"])


def _add_kernel(above: Node, event: dict[str, Any]) -> None:
    leaf = above.child(event["name"])
    leaf.add(GPU_TIME, round(event.get("dur", 0) * NS_PER_US))
    leaf.add(COUNT, 1)
    leaf.metrics[DEVICE_ID] = str(event.get("args", {}).get("device", 0))
    leaf.metrics[DEVICE_TYPE] = "CUDA"


def _threads(events: Iterable[dict[str, Any]]) -> dict[Any, list[_TreeCall]]:
    """Every host event with its caller, callers first, per thread."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        threads.setdefault((event.get("pid"), event.get("tid")), []).append(event)
    return {thread: _nested(thread_events) for thread, thread_events in threads.items()}


@functools.cache
def _role(name: str, caller: _Role | None) -> _Role:
    """The role of a function with the role of its caller."""
    for role in (_Role.LAUNCHER, _Role.AROUND, _Role.OWN):
        if role.value.match(name):
            return role
    is_launchers = caller is _Role.LAUNCHER and name != EXEC and WORKLOADS not in name
    return _Role.OWN if caller is _Role.OWN or is_launchers else _Role.PROGRAM


def _nested(events: list[dict[str, Any]]) -> list[_TreeCall]:
    """By time. A call that outlives its caller stays inside it if most of its time is, and else comes after it.

    An annotation opens inside a call of `__enter__` and closes long after it, and a step may end inside a scope.
    """
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    calls: list[_TreeCall] = []
    stack: list[_TreeCall] = []
    for event in events:
        begin, end = event["ts"], event["ts"] + event.get("dur", 0)
        free = begin
        while stack and (stack[-1].end <= begin or (stack[-1].end - begin) * 2 < end - begin):
            free = max(free, stack.pop().end)
        outer = stack[-1] if stack else None
        if outer is not None:
            end = min(end, outer.end)
        call = _TreeCall(event, outer, min(free, end), end)
        if outer is not None and not call.is_runtime:
            outer.inner_us += call.end - call.begin
        calls.append(call)
        stack.append(call)
    return calls


def _forward_ops(threads: dict[Any, list[_TreeCall]]) -> dict[tuple[int, int], _TreeCall]:
    """(thread of the forward pass, sequence number) → the innermost op with that number: the one that a node of
    autograd stands for. Autograd counts threads by itself: each number is the thread that most sequence numbers fit.
    """
    forward_calls: dict[Any, dict[int, _TreeCall]] = {}
    sequences: dict[int, set[int]] = {}
    for thread, calls in threads.items():
        for call in calls:
            if call.is_backward:
                sequences.setdefault(call.forward_thread, set()).add(call.sequence)
            elif call.sequence >= 0:
                forward_calls.setdefault(thread, {})[call.sequence] = call
    fits = Counter({(number, thread): len(needs & thread_calls.keys()) for number, needs in sequences.items()
                    for thread, thread_calls in forward_calls.items()})  # fmt: skip
    homes: dict[int, Any] = {}
    for (number, thread), _ in fits.most_common():
        if number not in homes and thread not in homes.values():
            homes[number] = thread
    for (number, thread), _ in fits.most_common():
        homes.setdefault(number, thread)
    return {
        (number, sequence): call for number, thread in homes.items() for sequence, call in forward_calls[thread].items()
    }


def _node_of(call: _TreeCall, root: Node, forward: dict[tuple[int, int], _TreeCall]) -> Node:
    """The node of a call whose callers have theirs."""
    above = root if call.outer is None or call.outer.node is None else call.outer.node
    if call.is_passed:
        return above
    if call.is_backward:
        created = forward.get((call.forward_thread, call.sequence))
        if created is not None and created.node is not None and created.event["ts"] < call.event["ts"]:
            above = created.node.child(BACKWARD)
    return above.child(_label(call.event))


def _label(event: dict[str, Any]) -> str:
    if event.get("args", NO_ARGS).get("finished") is False and event["name"].startswith(STEP):
        return AFTER_STEPS
    return label(event["name"])


@functools.cache
def label(name: str) -> str:
    """A name as a tree has it: all steps under one, for a tree is about code and not about time."""
    if name.startswith(STEP):
        return STEP.rstrip("#")
    if name.startswith(MODULE):
        return name[len(MODULE) :]
    frame, separator, function = name.rpartition("): ")
    if separator and "(" in frame:
        file, _, line = frame.rpartition("(")
        if line.isdigit():
            return f"{file}:{line}@{function}"
    return name


def _add_metrics(log: list[list[Any]], threads: dict[Any, list[_TreeCall]]) -> None:
    scope_calls: dict[tuple[Any, str], list[_TreeCall]] = {}
    if log:
        for (_, thread), calls in threads.items():
            for call in calls:
                if call.event["cat"] == ANNOTATION:
                    scope_calls.setdefault((thread, call.event["name"]), []).append(call)
    for thread, name, occurrence, metrics in log:
        calls = scope_calls.get((thread, name), [])
        node = calls[occurrence].node if occurrence < len(calls) else None
        for metric, value in metrics.items():
            if node is not None:
                # A user's "count" is none of kernels.
                node.add(f"{metric} of scopes" if metric in OWN else metric, value)


def devices_of(document: dict[str, Any]) -> dict[str, Any]:
    """The device table as Proton writes it, from what the profiler's header knows."""
    listed: dict[str, dict[str, Any]] = {}
    for device in document.get("deviceProperties", []):
        arch = f"{device.get('computeMajor', 0)}{device.get('computeMinor', 0)}"
        listed[str(device.get("id", len(listed)))] = {
            "arch": arch, "num_sms": device.get("numSms", 0), "name": device.get("name", ""),
            "memory_bytes": device.get("totalGlobalMem", 0),
        }  # fmt: skip
    return {"CUDA": listed} if listed else {}


def fold_file(trace: Path, tree: Path) -> int:
    """Add a trace file to a tree file, which is replaced whole; returns in how many names quotes had to be escaped."""
    text, escaped_names = trace.read_bytes(), 0
    try:
        document = json.loads(text.decode(errors="replace"))
    except ValueError:
        text, escaped_names = escape_names(text)
        document = json.loads(text.decode(errors="replace"))
    root, devices = Node(ROOT), devices_of(document)
    if tree.exists():
        stored = json.loads(gzip.decompress(tree.read_bytes()))
        root, devices = from_hatchet(stored), devices or stored[1]
    fold(document, root)
    pruned(root)
    write_whole(tree, gzip.compress(json.dumps(to_hatchet(root, devices)).encode(), mtime=0))
    return escaped_names


if __name__ == "__main__":
    # A process this short leaves the collector of cycles nothing to do but look, over and over.
    gc.disable()
    try:
        sys.stderr.write(str(fold_file(Path(sys.argv[1]), Path(sys.argv[2]))))
    except WarplensError as error:
        sys.exit(str(error))
