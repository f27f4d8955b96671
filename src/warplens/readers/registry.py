"""The one list of formats. Content decides, never the file's name.

To add a format: a module with `read(text, meta, notes)` that fills a `TraceBuilder` and returns its trace, and an entry
in `FORMATS` with its place, above all that could take the file for their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from warplens import native_library
from warplens.extensions import READERS, extensions, offered
from warplens.model.budget import budget_of
from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers.shared.file_head import head_of
from warplens.readers.shared.stored_file import NotWholeError, StoredFile, slices, text_start
from warplens_run.base.errors import FormatError
from warplens_run.base.loading import loaded

Reader = Callable[[bytes, Meta, list[Note]], Trace | CallPaths]
"""(content, facts about the file, notes from unpacking it) → the profile."""
ChunkReader = Callable[[Iterable[bytes], Meta, list[Note]], Trace | None]
"""The same of a text in chunks; None where it leaves the file to the format's `Reader`."""
HEAD_BYTES: Final = 1 << 16
TRACE_KEYS: Final = re.compile(
    rb'"(?:traceEvents|ph|schemaVersion|deviceProperties|distributedInfo|displayTimeUnit|baseTimeNanoseconds)"\s*:'
)
"""With a header of all ranks' process groups, the first event of a trace comes megabytes later."""
READER: Final = "reader"
"""The fact that a package of others read the file, and which; what it read is not kept."""
HINT: Final = (
    "supported: profiles of PyTorch, JAX, Proton, Nsight (exported), rocprof, Chrome traces, "
    "memory snapshots of PyTorch"
)


class ProfileFormat(msgspec.Struct, frozen=True):
    """A kind of file: how to recognize it by its first bytes, and what reads it."""

    name: str
    matches: Callable[[bytes], bool]
    """Of a text it gets what follows a byte order mark and white space."""
    reader: str
    """Where its `Reader` is, `module:name`: imported when the format is met, for all together take long."""
    chunk_reader: str = ""
    """Where its `ChunkReader` is, if there is one."""
    is_binary: bool = False
    """Whether a leading byte that looks like white space is content."""


def _has(*patterns: bytes) -> Callable[[bytes], bool]:
    return lambda head: all(re.search(pattern, head) for pattern in patterns)


def _is_ncu_page(head: bytes) -> bool:
    words = (
        b"Process",
        b"==PROF==",
        b"==ERROR==",
        b"==WARNING==",
        b'"Kernel Name","',
        b'"File Path","',
        b'"Line No","',
    )
    if not (any(word in head for word in words) or head.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return False
    from warplens.readers.ncu.reader import matches

    return matches(head)


EXECUTION_TRACE: Final = ProfileFormat(
    "a PyTorch ExecutionTrace",
    _has(rb'"schema"\s*:\s*"\d+\.\d+\.\d+(?:-chakra[^"]*)?"', rb'"nodes"\s*:\s*\['),
    "warplens.readers.execution_trace.join:refuse_alone",
)
FORMATS: Final = (
    ProfileFormat(
        "an Nsight Systems report (.nsys-rep)",
        _has(rb"\ANVIDIA Tegra Profiler Report "),
        "warplens.readers.nsys.report:read",
        is_binary=True,
    ),
    ProfileFormat(
        "an Nsight Compute report (.ncu-rep)", _has(rb"\ANVR\0"), "warplens.readers.ncu.report:read", is_binary=True
    ),
    ProfileFormat(
        "an SQLite database (Nsight Systems or rocpd)",
        _has(rb"\ASQLite format 3\0"),
        "warplens.readers.sqlite_file:read",
        is_binary=True,
    ),
    EXECUTION_TRACE,
    ProfileFormat(
        "a rocprofv3 JSON file", _has(rb'\A\{\s*"rocprofiler-sdk-tool"'), "warplens.readers.rocm.rocprofv3:read"
    ),
    ProfileFormat(
        "a rocprof JSON file (before version 3)",
        _has(rb'\A\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}', rb'"name"\s*:\s*"(?:CPU H(?:IP|SA) API|COPY|GPU\d+)"\s*\}'),
        "warplens.readers.rocm.rocprof_v1:read",
    ),
    ProfileFormat(
        "a Proton call tree",
        _has(rb'\A(?:\[\s*)?\{\s*"(?:children|frame|metrics)"'),
        "warplens.readers.proton.tree:read",
    ),
    ProfileFormat(
        "a Proton call tree (msgpack)",
        _has(rb"\A[\x91-\x9f][\x81-\x84](?:\xa5frame|\xa7metrics|\xa8children)"),
        "warplens.readers.proton.tree:read",
        is_binary=True,
    ),
    ProfileFormat("an Nsight Compute CSV file", _is_ncu_page, "warplens.readers.ncu.reader:read"),
    ProfileFormat(
        "an XLA profile (xplane.pb)",
        _has(rb'\A\x0a(?!\s*[\[{]\s*["{])[\s\S]{0,80}(?:/host:|/device:)'),  # JSON may begin with an empty line
        "warplens.readers.xplane.reader:read",
        is_binary=True,
    ),
    ProfileFormat(
        "a Proton trace", _has(rb"\A\{", rb'"call_stack"\s*:\s*\[\s*"ROOT"'), "warplens.readers.proton.trace:read"
    ),
    ProfileFormat(
        "a JAX trace (.trace.json)",
        _has(rb'"highres-ticks"', rb'"name"\s*:\s*"/(?:host:CPU|device:\w+:\d+)"'),
        "warplens.readers.xplane.trace_json:read",
    ),
    ProfileFormat(
        "trace-event JSON",
        _has(rb"\A[\[{]"),
        "warplens.readers.kineto.reader:read",
        "warplens.readers.kineto.reader:read_chunks",
    ),
)


def read(
    text: bytes, meta: Meta, notes: list[Note], *, max_bytes: int = 0, was_tried: bool = False, stored: bytes = b""
) -> Trace | CallPaths:
    """The profile of an unpacked file, by the first format that its first bytes match.

    `max_bytes`: what the user allows it to take. `was_tried`: its chunks were, and left to the format's own reader.
    `stored` is the file as it was before unpacking.
    """
    start = text_start(text)
    head = text[start : start + HEAD_BYTES]
    entry = _format_of(text[:HEAD_BYTES], head)
    if entry is None or _is_without_keys(entry, head):
        entry, meta = _offered(text[:HEAD_BYTES], head, meta) or (entry, meta)
    if entry is None:
        raise _unknown(stored, text[:HEAD_BYTES], meta)
    if start and not entry.is_binary:
        text = text[start:]
    if entry.chunk_reader and not was_tried:
        trace: Trace | None = loaded(entry.chunk_reader)(slices(text), meta, notes)
        if trace is not None:
            return trace
    reader: Reader = loaded(entry.reader)
    with budget_of(len(text), meta.source, max_bytes):
        return reader(text, meta, notes)


def is_other_json(path: Path) -> bool:
    """Whether a file is JSON without any key of a trace or another profile: settings, results, an index of captures."""
    head = head_of(path, HEAD_BYTES)
    return _is_without_keys(_format_of(head, head), head)


def _is_without_keys(entry: ProfileFormat | None, head: bytes) -> bool:
    return entry is FORMATS[-1] and not TRACE_KEYS.search(head[:HEAD_BYTES])


def read_stored(file: StoredFile, meta: Meta, notes: Sequence[Note]) -> Trace | CallPaths:
    """The profile of a file as it is stored; where a reader takes chunks, it is unpacked while it is read."""
    trace = _read_chunks(file, meta, list(notes))
    if trace is not None:
        return trace
    text, unpacking = file.unwrap()
    return read(text, meta, [*unpacking, *notes], max_bytes=file.max_bytes, was_tried=True, stored=file.stored)


def _read_chunks(file: StoredFile, meta: Meta, notes: list[Note]) -> Trace | None:
    if native_library.library() is None:
        return None
    try:
        chunks = file.chunks()
        first_bytes, head = _heads(chunks)
        entry = _format_of(first_bytes, head[:HEAD_BYTES])
        if entry is None or not entry.chunk_reader or (_is_without_keys(entry, head) and offered(READERS)):
            return None
        reader: ChunkReader = loaded(entry.chunk_reader)
        return reader(chain((head,), chunks), meta, notes)
    except NotWholeError:
        return None


def _heads(chunks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The first bytes of a content, and all that was taken of its text behind white space."""
    first = next(chunks, b"")
    head = first[text_start(first) :]
    first = first[:HEAD_BYTES]
    for chunk in chunks if len(head) < HEAD_BYTES else ():
        first += chunk[: HEAD_BYTES - len(first)]
        head = head + chunk if head else chunk.lstrip()
        if len(head) >= HEAD_BYTES:
            break
    return first, head


def _format_of(first_bytes: bytes, head: bytes) -> ProfileFormat | None:
    """The first format that matches a content's first bytes or, of a text, those behind white space."""
    return next((entry for entry in FORMATS if entry.matches(first_bytes if entry.is_binary else head)), None)


def _offered(first_bytes: bytes, head: bytes, meta: Meta) -> tuple[ProfileFormat, Meta] | None:
    """The first format of another package that matches; the profile's facts say whose reader it was."""
    for extension, entry in extensions(READERS, ProfileFormat):
        if entry.matches(first_bytes if entry.is_binary else head):
            return entry, msgspec.structs.replace(meta, facts={**meta.facts, READER: extension.package})
    return None


def _unknown(stored: bytes, first_bytes: bytes, meta: Meta) -> FormatError:
    from warplens.readers.other_files import describe

    what, hint = describe(stored, first_bytes)
    return FormatError(f"not a known profile format ({what})", where=meta.source, hint=hint or HINT)
