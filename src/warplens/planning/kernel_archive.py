"""The sources of generated kernels, as people collect them: a folder, a .tar (packed or not) or a .zip."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from warplens.readers.other_files import describe
from warplens.readers.shared.stored_file import GZIP_MAGIC, TAR_MAGIC, TAR_MAGIC_AT, gunzip, load
from warplens.readers.shared.tar_archive import tar_files
from warplens.readers.shared.unpack_limit import UnpackLimit
from warplens.readers.shared.zip_archive import DAMAGED_ZIP, read_member
from warplens_run.base.errors import FormatError

LARGEST_BYTES: Final = 4 << 20
"""Of one file; larger ones are no kernels."""
MOST_FILES: Final = 100_000
FIRST_BYTES: Final = 1 << 10


def python_files(path: Path, max_bytes: int = 0) -> dict[str, bytes]:
    """The Python files, by name without folders; `max_bytes`: what an archive may unpack to (0: by its size)."""
    try:
        if path.is_dir():
            files = [file for file in path.rglob("*.py") if file.is_file() and file.stat().st_size <= LARGEST_BYTES]
            return {file.name: file.read_bytes() for file in files[:MOST_FILES]}
        stored = load(path).stored
        limit = UnpackLimit(len(stored), str(path), max_bytes)
        if zipfile.is_zipfile(path):
            return _of_zip(stored, limit)
        return _of_tar(stored, limit)
    except DAMAGED_ZIP as error:
        raise FormatError(f"contains no kernel files ({error})", where=str(path)) from error


def _of_zip(stored: bytes, limit: UnpackLimit) -> dict[str, bytes]:
    texts: dict[str, bytes] = {}
    unpacked = 0
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".py")]
        for member in [member for member in members if member.file_size <= LARGEST_BYTES][:MOST_FILES]:
            unpacked += member.file_size  # members may share what is packed: together they count
            limit.check(unpacked, limit.packed_bytes)
            texts[PurePosixPath(member.filename).name] = read_member(archive, member, limit)
    return texts


def _of_tar(stored: bytes, limit: UnpackLimit) -> dict[str, bytes]:
    """What is no source is unpacked as well, and counts."""
    content, notes = gunzip(stored, limit) if stored.startswith(GZIP_MAGIC) else (stored, [])
    limit.check(len(content), len(stored))
    files, damage = tar_files(content)
    if damage and not files and not content.startswith(TAR_MAGIC, TAR_MAGIC_AT):
        what, hint = describe(stored, content[:FIRST_BYTES])
        raise FormatError(f"not a zip or tar archive ({what})", where=limit.where, hint=hint)
    if damage or notes:
        raise FormatError(f"damaged tar archive ({damage or notes[0].detail})", where=limit.where)
    sources = [file for file in files if file.name.endswith(".py") and file.size <= LARGEST_BYTES]
    return {
        PurePosixPath(file.name).name: content[file.start : file.start + file.size] for file in sources[:MOST_FILES]
    }
