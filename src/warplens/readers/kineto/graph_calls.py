"""What events of graphs say beyond what every trace needs: kernels of captured launches, numbers of graphs and nodes.

ROCm's calls that launch a kernel name it (`kernel`, `grid`, `block`), also while a graph is captured. Kernels that a
graph ran can have a `graph id` and a `graph node id` (CUPTI). The text is read once more for them, and only where a
graph is joined with its capture: these fields for every event would cost all traces.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from msgspec import Raw

from warplens.model.event_records import LaunchGeometry
from warplens.model.graph_records import CapturedLaunch, GraphNodes
from warplens.model.kinds import NONE
from warplens.model.trace import Trace
from warplens.readers.kineto.adding import KIND_OF_CATEGORY
from warplens.readers.kineto.events import CUT, PIECE_BYTES, array_start, closings
from warplens.readers.kineto.records import NO_RAW, UNREADABLE

KERNEL_KEY: Final = b'"kernel"'
NODE_KEY: Final = b'"graph node id"'
ON_GPU: Final = ("kernel", "memcpy", "memset")


class _Event(msgspec.Struct, gc=False):
    cat: str = ""
    ts: float = math.nan
    args: Raw = NO_RAW


class _LaunchArgs(msgspec.Struct, gc=False):
    correlation: int = NONE
    kernel: str = ""
    grid: Raw = NO_RAW
    block: Raw = NO_RAW
    shared_memory: int = msgspec.field(name="shared memory", default=NONE)


class _NodeArgs(msgspec.Struct, gc=False):
    correlation: int = NONE
    stream: int = NONE
    graph: int = msgspec.field(name="graph id", default=NONE)
    node: int = msgspec.field(name="graph node id", default=NONE)


_EVENTS: Final = msgspec.json.Decoder(list[_Event], strict=False)
_LAUNCH: Final = msgspec.json.Decoder(_LaunchArgs, strict=False)
_NODE: Final = msgspec.json.Decoder(_NodeArgs, strict=False)


def captured_launches(text: bytes) -> dict[int, CapturedLaunch]:
    """By correlation, the calls of a text that name the kernel they launch."""
    if KERNEL_KEY not in text:
        return {}
    launches: dict[int, CapturedLaunch] = {}
    for event in _events(text, KERNEL_KEY, "runtime"):
        with contextlib.suppress(*UNREADABLE):
            args = _LAUNCH.decode(event.args)
            if args.correlation > 0 and args.kernel:
                grid, block = (bytes(part).decode(errors="replace") for part in (args.grid, args.block))
                geometry = LaunchGeometry(grid, block, shared_memory_bytes=args.shared_memory)
                launches.setdefault(args.correlation, CapturedLaunch(args.kernel, geometry))
    return launches


def graph_nodes(trace: Trace, text: bytes) -> GraphNodes:
    """The numbers of graph and node of the trace's GPU events, where the text has them."""
    if NODE_KEY not in text:
        return GraphNodes()
    recorded: dict[int, list[tuple[float, int, int, int]]] = {}
    for event in _events(text, NODE_KEY, *ON_GPU):
        with contextlib.suppress(*UNREADABLE):
            args = _NODE.decode(event.args)
            if args.correlation > 0 and math.isfinite(event.ts):
                recorded.setdefault(args.correlation, []).append((event.ts, args.stream, args.graph, args.node))
    gpu = trace.gpu_rows
    correlation = trace.ints("correlation")[gpu]
    gpu = gpu[np.isin(correlation, np.fromiter(recorded, np.int64, len(recorded)))]
    order = np.lexsort((trace.ints("stream")[gpu], trace.ints("start_ns")[gpu], trace.ints("correlation")[gpu]))
    gpu = gpu[order]
    rows, numbers = [], []
    for own in np.split(gpu, np.flatnonzero(np.diff(trace.ints("correlation")[gpu])) + 1):
        entries = sorted(recorded[int(trace.ints("correlation")[own[0]])]) if len(own) else []
        if len(entries) == len(own):  # else some are damaged, and which is which is not known
            rows.append(own)
            numbers += [entry[2:] for entry in entries]
    if not numbers:
        return GraphNodes()
    graph, node = np.array(numbers, np.int64).T
    return GraphNodes(np.concatenate(rows), graph, node)


def _events(text: bytes, key: bytes, *kinds: str) -> Iterator[_Event]:
    """Events of these kinds with a key among their arguments; pieces that do not decode are passed over."""
    position = array_start(text)
    view = memoryview(text)
    while 0 <= position < len(text):
        cut = CUT.search(text, position + PIECE_BYTES)
        end = len(text) if cut is None else cut.start() + 1
        if text.find(key, position, end) >= 0:
            for event in _decoded(view[position:end], is_last=cut is None):
                if KIND_OF_CATEGORY.get(event.cat.lower(), "") in kinds and key in bytes(event.args):
                    yield event
        position = -1 if cut is None else cut.end() - 1


def _decoded(piece: memoryview, *, is_last: bool) -> list[_Event]:
    content = bytes(piece)
    for end in [*closings(content, 0), len(content)] if is_last else [len(content)]:
        with contextlib.suppress(*UNREADABLE):
            return _EVENTS.decode(b"[" + content[:end] + b"]")
    return []
