"""The one list of formats. Content decides, never the file's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from warplens.errors import FormatError
from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers import (
    execution_trace,
    kineto,
    ncu,
    proton_trace,
    proton_tree,
    rocprofv3,
    sqlite_file,
    xplane,
    xplane_json,
)

HEAD_BYTES = 1 << 16
Reader = Callable[[bytes, Meta, list[Note]], Trace | CallPaths]


@dataclass(frozen=True)
class Format:
    """A kind of file: how to tell it from its first bytes and, if it can be read, how."""

    name: str
    matches: Callable[[bytes], bool]
    read: Reader | None


def _has(*patterns: bytes) -> Callable[[bytes], bool]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda head: all(pattern.search(head) for pattern in compiled)


FORMATS = (
    Format("an Nsight Systems report (.nsys-rep)", _has(rb"\ANVIDIA Tegra Profiler Report "), None),
    Format("an SQLite database (Nsight Systems or rocpd)", _has(rb"\ASQLite format 3\0"), sqlite_file.read),
    Format(
        "a PyTorch ExecutionTrace",
        _has(rb'"schema"\s*:\s*"\d+\.\d+\.\d+(?:-chakra[^"]*)?"', rb'"nodes"\s*:\s*\['),
        execution_trace.read,
    ),
    Format("a rocprofv3 JSON file", _has(rb'\A\s*\{\s*"rocprofiler-sdk-tool"'), rocprofv3.read),
    Format("a Proton call tree", _has(rb'\A\s*\[?\s*\{\s*"(?:children|frame|metrics)"'), proton_tree.read),
    Format("a Proton call tree (msgpack)", proton_tree.is_msgpack, proton_tree.read),
    Format("an Nsight Compute report", ncu.is_report, ncu.refuse_report),
    Format("an Nsight Compute CSV file", ncu.matches, ncu.read),
    Format("an XLA profile (xplane.pb)", _has(rb"\A\x0a[\s\S]{0,80}(?:/host:|/device:)"), xplane.read),
    Format("a Proton trace", _has(rb'\A\s*\{[\s\S]*?"call_stack"\s*:\s*\[\s*"ROOT"'), proton_trace.read),
    Format(
        "a JAX trace (.trace.json)",
        _has(rb'"highres-ticks"', rb'"name"\s*:\s*"/(?:host:CPU|device:\w+:\d+)"'),
        xplane_json.read,
    ),
    Format("trace-event JSON", _has(rb"\A(?:\xef\xbb\xbf)?\s*[\[{]"), kineto.read),
)


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace | CallPaths:
    """The profile of an unwrapped file, by the first format whose marks its head bears."""
    head = text[:HEAD_BYTES]
    entry = next((entry for entry in FORMATS if entry.matches(head)), None)
    if entry is None:
        raise FormatError(f"not a profile this version knows ({_looks_like(head)})", where=meta.source, hint=HINT)
    if entry.read is None:
        raise FormatError(f"this is {entry.name}; this version cannot read it", where=meta.source, hint=HINT)
    return entry.read(text, meta, notes)


HINT = "it opens profiles of PyTorch, JAX, Proton, Nsight (exported), rocprofv3 and Chrome traces; see: warplens --help"


def _looks_like(head: bytes) -> str:
    if not head.strip():
        return "only white space"
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head[:256])
    return "text, but not JSON" if printable > 0.9 * min(256, len(head)) else "binary data"
