"""PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot`), pickled or as JSON, plain or packed.

Read: segments, blocks, the history of every device, stacks, the allocator's settings. Ignored: marks that programs put
beside the history, and what the graph compiler says of frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from warplens.model.budget import budget_of
from warplens.model.memory_snapshot import MemorySnapshot
from warplens.readers.memory_snapshot import PICKLE
from warplens.readers.memory_snapshot.decoding import SnapshotColumns
from warplens.readers.memory_snapshot.unpickling import loads
from warplens.readers.shared import stored_file
from warplens.readers.shared.gc_pause import gc_paused
from warplens.readers.shared.stored_file import StoredFile
from warplens_run.base.errors import FormatError

HINT: Final = (
    "to make one: torch.cuda.memory._record_memory_history() before the model is built, later "
    'torch.cuda.memory._dump_snapshot("snapshot.pickle")'
)


def read(path: Path, max_bytes: int = 0) -> MemorySnapshot:
    """The snapshot of a file; `max_bytes`: what it may unpack to."""
    return read_stored(stored_file.load(path, max_bytes))


def read_stored(file: StoredFile) -> MemorySnapshot:
    where = str(file.path)
    content, notes = file.unwrap()
    with gc_paused(), budget_of(len(content), where, file.max_bytes):
        document = _decoded(content, where)
        columns = SnapshotColumns(document)
    return MemorySnapshot(
        source=where,
        segments=columns.segments,
        blocks=columns.blocks,
        events=columns.events,
        frames=columns.stacks.frame_table(),
        stacks=columns.stacks.stack_table(),
        settings=columns.settings,
        size_bytes=len(file.stored),
        content_hash=file.content_hash,
        quality=columns.notes().with_notes(*notes) if notes else columns.notes(),
    )


def _decoded(content: bytes, where: str) -> dict[str, Any]:
    if PICKLE.match(content):
        document = loads(content, where)
    else:
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(
                f"not a memory snapshot of PyTorch ({_why(content, error)})", where=where, hint=HINT
            ) from None
    if isinstance(document, list) and all(isinstance(item, dict) and "blocks" in item for item in document):
        # torch.cuda.memory_snapshot(): the segments alone
        document = {"segments": document}
    if not isinstance(document, dict) or not {"segments", "device_traces"} & document.keys():
        kind = f"a pickled {type(document).__name__}" if PICKLE.match(content) else "JSON"
        raise FormatError(f"{kind}, but not a memory snapshot of PyTorch: it has no segments", where=where, hint=HINT)
    return document


def _why(content: bytes, error: Exception) -> str:
    """Only of what begins as JSON does is it of use where that is damaged."""
    return f"damaged JSON: {error}" if content.lstrip()[:1] in (b"{", b"[") else "neither a pickle nor JSON"
