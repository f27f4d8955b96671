"""Capture bundles of `warplens profile`: `reader` opens a directory or .zip with a manifest.

It yields the files of one capture; which of them is the profile, and its format, is decided by `inputs` and `registry`.
Most paths are plain traces, for which `find` loads nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warplens.readers.shared.stored_file import ZIP_MAGIC

if TYPE_CHECKING:
    from warplens.readers.bundle.reader import Bundle


def find(path: Path, max_bytes: int = 0) -> Bundle | None:
    """The bundle at a path; None where it is something else. `max_bytes`: what it may unpack to."""
    try:
        is_folder = path.is_dir()
        if not is_folder:
            with path.open("rb") as stream:
                if stream.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
                    return None
    except (OSError, ValueError):
        return None  # opening it as a file then reports what is wrong
    from warplens.readers.bundle import reader

    return reader.of_folder(path, max_bytes) if is_folder else reader.of_zip(path, max_bytes)
