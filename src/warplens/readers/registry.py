"""The one list of formats. Content decides, never the file's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from warplens.errors import FormatError
from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers import kineto, rocprofv3, xplane

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
    Format("an SQLite database (Nsight Systems or rocpd)", _has(rb"\ASQLite format 3\0"), None),
    Format("a PyTorch ExecutionTrace", _has(rb'"schema"\s*:\s*"[^"]*chakra', rb'"nodes"\s*:'), None),
    Format("a rocprofv3 JSON file", _has(rb'\A\s*\{\s*"rocprofiler-sdk-tool"'), rocprofv3.read),
    Format("a Proton call tree (.hatchet)", _has(rb'\A\s*\[\s*\{\s*"(?:children|frame|metrics)"'), None),
    Format("an Nsight Compute CSV file", _has(rb'\A(?:==PROF==[^\n]*\n)*"ID","Process ID"'), None),
    Format("an XLA profile (xplane.pb)", _has(rb"\A\x0a[\s\S]{0,80}(?:/host:|/device:)"), xplane.read),
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


HINT = "it opens PyTorch (Kineto) and Chrome traces, rocprofv3 JSON and XLA profiles, plain, .gz or .zip"


def _looks_like(head: bytes) -> str:
    if not head.strip():
        return "only white space"
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head[:256])
    return "text, but not JSON" if printable > 0.9 * min(256, len(head)) else "binary data"
