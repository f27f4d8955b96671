"""The files of a bundle, a folder or .zip: their names and sizes at once, each content when it is asked for."""

from __future__ import annotations

import os
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path

from warplens.errors import FormatError
from warplens.readers.shared.stored_file import DAMAGED_ZIP, read_member
from warplens.readers.shared.unpack_limit import UnpackLimit


class Contents(ABC):
    """What a bundle holds."""

    sizes: dict[str, int]
    """By name, in bytes as unpacked."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """One of `sizes`; a `FormatError` where it cannot be read, or all that was read is too large."""


class FolderContents(Contents):
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.sizes = {name: (path / name).stat().st_size for name in sorted(_names(path))}
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", where=str(path)) from None

    def read(self, name: str) -> bytes:
        try:
            return (self._path / name).read_bytes()
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", where=str(self._path / name)) from None


class ZipContents(Contents):
    """Raises what `DAMAGED_ZIP` lists where the archive itself is damaged."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._limit = UnpackLimit(path.stat().st_size, str(path), max_bytes)
        self._unpacked = 0
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
        self.sizes = {member.filename: member.file_size for member in members}

    def read(self, name: str) -> bytes:
        self._unpacked += self.sizes[name]  # members may share what is packed: together they count
        self._limit.check(self._unpacked, self._limit.packed_bytes)
        try:
            with zipfile.ZipFile(self._path) as archive:
                return read_member(archive, archive.getinfo(name), self._limit)
        except DAMAGED_ZIP as error:
            raise FormatError(f"damaged zip archive ({error})", where=str(self._path / name)) from None


def _names(folder: Path) -> list[str]:
    """Of plain files, also those in folders of it."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [file.relative_to(folder).as_posix() for file in found if file.is_file()]
