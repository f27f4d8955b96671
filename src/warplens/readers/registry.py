"""The one list of formats. Content decides, never the file's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from warplens.errors import FormatError
from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace

HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class ProfileFormat:
    """A kind of file: how to tell it from its first bytes and which module of this room reads it, if one does."""

    name: str
    matches: Callable[[bytes], bool]
    module: str
    function: str = "read"

    def read(self, text: bytes, meta: Meta, notes: list[Note]) -> Trace | CallPaths:
        found: Trace | CallPaths = _function(self.module, self.function)(text, meta, notes)
        return found


def _function(module: str, name: str) -> Callable[..., Trace | CallPaths]:
    """Readers are loaded when their format is met: all of them together cost more than reading a small trace."""
    function: Callable[..., Trace | CallPaths] = getattr(import_module(f"warplens.readers.{module}"), name)
    return function


def _has(*patterns: bytes) -> Callable[[bytes], bool]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda head: all(pattern.search(head) for pattern in compiled)


def _also(module: str, function: str, first: bytes) -> Callable[[bytes], bool]:
    """What a reader itself says of a head that could be its own by `first`."""
    pattern = re.compile(first)
    return lambda head: bool(pattern.search(head)) and bool(_function(module, function)(head))


FORMATS = (
    ProfileFormat("an Nsight Systems report (.nsys-rep)", _has(rb"\ANVIDIA Tegra Profiler Report "), ""),
    ProfileFormat("an SQLite database (Nsight Systems or rocpd)", _has(rb"\ASQLite format 3\0"), "sqlite_file"),
    ProfileFormat(
        "a PyTorch ExecutionTrace",
        _has(rb'"schema"\s*:\s*"\d+\.\d+\.\d+(?:-chakra[^"]*)?"', rb'"nodes"\s*:\s*\['),
        "execution_trace.reader",
    ),
    ProfileFormat("a rocprofv3 JSON file", _has(rb'\A\s*\{\s*"rocprofiler-sdk-tool"'), "rocm.rocprofv3"),
    ProfileFormat("a Proton call tree", _has(rb'\A\s*\[?\s*\{\s*"(?:children|frame|metrics)"'), "proton.tree"),
    ProfileFormat("a Proton call tree (msgpack)", _also("proton.tree", "is_msgpack", rb"\A[\x80-\xdf]"), "proton.tree"),
    ProfileFormat(
        "an Nsight Compute report (.ncu-rep)",
        _also("ncu.reader", "is_report", rb"\ANVR\0"),
        "ncu.reader",
        "refuse_report",
    ),
    ProfileFormat(
        "an Nsight Compute CSV file",
        _also("ncu.reader", "matches", rb"Process|==PROF==|\A\xff\xfe|\A\xfe\xff"),
        "ncu.reader",
    ),
    ProfileFormat("an XLA profile (xplane.pb)", _has(rb"\A\x0a[\s\S]{0,80}(?:/host:|/device:)"), "xplane.reader"),
    ProfileFormat("a Proton trace", _has(rb'\A\s*\{[\s\S]*?"call_stack"\s*:\s*\[\s*"ROOT"'), "proton.trace"),
    ProfileFormat(
        "a JAX trace (.trace.json)",
        _has(rb'"highres-ticks"', rb'"name"\s*:\s*"/(?:host:CPU|device:\w+:\d+)"'),
        "xplane.trace_json",
    ),
    ProfileFormat("trace-event JSON", _has(rb"\A(?:\xef\xbb\xbf)?\s*[\[{]"), "kineto.reader"),
)


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace | CallPaths:
    """The profile of an unwrapped file, by the first format whose marks its head bears."""
    head = text[:HEAD_BYTES]
    entry = next((entry for entry in FORMATS if entry.matches(head)), None)
    if entry is None:
        raise FormatError(f"not a profile this version knows ({_looks_like(head)})", where=meta.source, hint=HINT)
    if not entry.module:
        raise FormatError(f"this is {entry.name}, which only Nsight reads", where=meta.source, hint=EXPORT)
    return entry.read(text, meta, notes)


HINT = "it opens profiles of PyTorch, JAX, Proton, Nsight (exported), rocprofv3 and Chrome traces; see: warplens --help"
EXPORT = "export it: nsys export --type sqlite report.nsys-rep"


def _looks_like(head: bytes) -> str:
    if not head.strip():
        return "only white space"
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head[:256])
    return "text, but not JSON" if printable > 0.9 * min(256, len(head)) else "binary data"
