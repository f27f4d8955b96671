"""Files with the captures of GPU graphs, not read yet."""

from __future__ import annotations

import msgspec

from warplens.model.graph_records import CaptureIndex
from warplens.readers.shared.stored_file import StoredFile


class GraphFiles(msgspec.Struct, frozen=True):
    """Traces of captures, by name, and what their recorder says of them."""

    files: dict[str, StoredFile]
    index: CaptureIndex = CaptureIndex()
    is_given: bool = False
    """The user named them: one that cannot be used is an error then, and else a note."""
    content_hash: str = ""
