"""Which of the project's own files, or a memory snapshot, a path is, from its first bytes. Readers know all others."""

from __future__ import annotations

import re
from pathlib import Path

from warplens.readers.memory_snapshot import is_snapshot
from warplens.readers.shared.file_head import head_of

HEAD_BYTES = 4096
KERNEL_TRACE = "warplens kernel trace"  # a zip archive, which declares nothing: `lab` says what opens it
REPLAY_RESULT = "warplens-replay-result"
REPLAY_PLAN = "warplens-replay-plan"
PROOF_PLAN = "warplens-proof-plan"
PROOF = "warplens-proof"
MEMORY_SNAPSHOT = "memory snapshot"
DECLARED = re.compile(rb'\A\{\s*"format"\s*:\s*"(warplens[a-z -]{1,40})"')
ZIPPED_TRACE = re.compile(rb"\APK\x03\x04[\s\S]{22}\x0b\x00[\s\S]{2}header\.json")
"""A zip archive whose first file has the name of a kernel trace's header (11 characters)."""


def file_kind(path: Path) -> str:
    """The format that the file declares; empty for everything else, and for what is not a plain file."""
    try:
        head = head_of(path, HEAD_BYTES) if path.is_file() else b""
    except (OSError, ValueError):
        return ""  # opening it reports what is wrong
    if is_snapshot(head):
        return MEMORY_SNAPSHOT
    declared = DECLARED.match(head)
    return declared[1].decode() if declared else KERNEL_TRACE if ZIPPED_TRACE.match(head) else ""
