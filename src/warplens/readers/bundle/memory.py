"""The memory snapshot of a bundle, and what its capture noted beside it: read when they are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from warplens.model.memory_facts import MemoryFacts, RecordedMemory, no_memory, parse_facts
from warplens.model.memory_snapshot import MemorySnapshot
from warplens.model.quality import Note
from warplens.readers.bundle.contents import Contents
from warplens.readers.bundle.manifest import NOT_JSON
from warplens.readers.shared.stored_file import StoredFile
from warplens_run.base.errors import FormatError
from warplens_run.formats.bundle_files import MEMORY_FACTS, MEMORY_SNAPSHOT, MEMORY_SNAPSHOT_OOM


class StoredMemory(msgspec.Struct, frozen=True):
    contents: Contents
    path: Path
    max_bytes: int = 0

    def read(self) -> RecordedMemory:
        """What cannot be read is a note of the snapshot, and costs only that part."""
        facts, notes = self._facts()
        try:
            snapshot = self._snapshot()
        except FormatError as error:
            snapshot = no_memory().snapshot
            notes = [*notes, Note("memory_unread", detail=error.message)]
        return RecordedMemory(replace(snapshot, quality=snapshot.quality.with_notes(*notes)), facts)

    def _facts(self) -> tuple[MemoryFacts, list[Note]]:
        try:
            return parse_facts(self.contents.read(MEMORY_FACTS)), []
        except KeyError:
            return MemoryFacts(), []
        except (FormatError, *NOT_JSON) as error:
            return MemoryFacts(), [Note("memory_unread", detail=f"{MEMORY_FACTS}: {error}")]

    def _snapshot(self) -> MemorySnapshot:
        from warplens.readers.memory_snapshot.reader import read_stored  # few bundles have one

        name = next(name for name in (MEMORY_SNAPSHOT, MEMORY_SNAPSHOT_OOM) if name in self.contents.sizes)
        return read_stored(StoredFile(self.path / name, self.contents.read(name), self.max_bytes))


def memory_of(contents: Contents, path: Path, max_bytes: int) -> StoredMemory | None:
    """None where a bundle has no snapshot."""
    if not {MEMORY_SNAPSHOT, MEMORY_SNAPSHOT_OOM} & contents.sizes.keys():
        return None
    return StoredMemory(contents, path, max_bytes)
