"""Traces of captures of GPU graphs: a file, a folder of them, or those that a capture bundle holds."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from warplens.model.call_paths import CallPaths
from warplens.model.graph_records import CapturedLaunch, CaptureIndex, CaptureRecord, ReplayRecord
from warplens.model.kinds import NONE
from warplens.model.trace import Meta, Trace
from warplens.readers import bundle, registry
from warplens.readers.shared import stored_file
from warplens.readers.shared.graph_files import GraphFiles
from warplens.readers.shared.stored_file import StoredFile
from warplens_run.base.errors import FormatError, UsageError
from warplens_run.formats.bundle_files import GRAPH_CAPTURE_INDEX, GRAPH_CAPTURES, TRACE

if TYPE_CHECKING:
    from warplens.readers.bundle.reader import Bundle

ENDINGS: Final = (".json", ".json.gz")
HINT: Final = "give traces that were recorded while the graphs were captured"
MOST_RECORDS: Final = 1_000_000


class _Capture(msgspec.Struct):
    number: int
    file: str = ""
    start_ns: int = 0
    end_ns: int = 0
    graph_id: int | None = None


class _Index(msgspec.Struct):
    version: int = 1
    captures: list[_Capture] = []
    replays: list[tuple[int, int, int | str]] = []


def find_captures(path: Path, max_bytes: int = 0) -> GraphFiles:
    """What the user gives as captures: a trace, a folder of traces, or a bundle."""
    found = bundle.find(path, max_bytes)
    if found is not None:
        held = of_bundle(found)
        own = found.stored(TRACE)
        files = held.files or ({TRACE: own} if own is not None else {})
        return _given(path, files, held.index)
    if not path.is_dir():
        return _given(path, {path.name: stored_file.load(path, max_bytes)})
    try:
        # Recorders put captures beside their trace, in a folder of their own.
        inside = (*path.iterdir(), *path.glob("*/*"))
        entries = sorted(entry for entry in inside if entry.name.endswith(ENDINGS) and entry.is_file())
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    index_name = Path(GRAPH_CAPTURE_INDEX).name
    index = next((entry for entry in entries if entry.name == index_name), None)
    stored: dict[str, StoredFile] = {}
    for entry in entries:
        if entry.name == index_name or registry.is_other_json(entry):
            continue
        is_empty = entry.stat().st_size == 0  # not worth more than a note where others are whole
        file = StoredFile(entry, b"") if is_empty else stored_file.load(entry, max_bytes)
        stored[entry.relative_to(path).as_posix()] = file
    return _given(path, stored, _index(index.read_bytes()) if index is not None else CaptureIndex())


def of_bundle(held: Bundle) -> GraphFiles:
    """The captures that a bundle holds, by their names in it."""
    contents = held.folder(GRAPH_CAPTURES)
    index = contents.pop(GRAPH_CAPTURE_INDEX, b"")
    files = {
        name: StoredFile(held.path / name, content, held.max_bytes)
        for name, content in sorted(contents.items())
        if name.endswith(ENDINGS) and content
    }
    return GraphFiles(files, _index(index) if index else CaptureIndex())


def read_capture(file: StoredFile) -> tuple[Trace, dict[int, CapturedLaunch]]:
    """The trace of a capture, not linked yet, and what its launches say of their kernels."""
    from warplens.readers.kineto.graph_calls import captured_launches

    text, notes = file.unwrap()
    trace = registry.read(text, Meta(source=str(file.path), format=""), notes, max_bytes=file.max_bytes)
    if isinstance(trace, CallPaths):
        raise FormatError("sums by call path, not a trace", where=str(file.path), hint=HINT)
    return trace, captured_launches(text)


def _given(path: Path, files: dict[str, StoredFile], index: CaptureIndex = CaptureIndex()) -> GraphFiles:  # noqa: B008
    if not files:
        raise UsageError(f"{path} has no traces of captures", hint=HINT)
    texts = [f"{name} {file.content_hash}" for name, file in files.items()]
    digest = hashlib.blake2b("\0".join([*texts, repr(index)]).encode("utf-8", "replace"), digest_size=16)
    return GraphFiles(files, index, is_given=True, content_hash=digest.hexdigest())


def _index(text: bytes) -> CaptureIndex:
    """What the recorder says; nothing where that is damaged, as the traces say nearly the same."""
    try:
        index = msgspec.json.decode(text, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return CaptureIndex()
    captures = tuple(
        CaptureRecord(entry.number, entry.file, entry.start_ns, entry.end_ns,
                      NONE if entry.graph_id is None else entry.graph_id)
        for entry in index.captures[:MOST_RECORDS]
    )  # fmt: skip
    replays = tuple(ReplayRecord(number, time, str(thread)) for number, time, thread in index.replays[:MOST_RECORDS])
    return CaptureIndex(captures, replays)
