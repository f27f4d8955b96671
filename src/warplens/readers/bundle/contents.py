"""The files of a bundle, a folder or .zip: their names and sizes at once, each content when it is asked for."""

from __future__ import annotations

import os
import stat
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path

from warplens.readers.shared.unpack_limit import UnpackLimit
from warplens.readers.shared.zip_archive import CUT_MEMBER, DAMAGED_ZIP, read_member
from warplens_run.base.errors import FormatError


class Contents(ABC):
    """What a bundle holds."""

    sizes: dict[str, int]
    """By name, in bytes as unpacked."""
    links: list[str]
    """Names of links that lead out of the bundle, which are not followed."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """One of `sizes`; a `FormatError` where it cannot be read, or all that was read is too large."""


class FolderContents(Contents):
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            names, self.links = _names(path)
            self.sizes = {name: (path / name).stat().st_size for name in sorted(names)}
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
        self.links = [member.filename for member in members if _is_link(member)]
        self.sizes = {member.filename: member.file_size for member in members if not _is_link(member)}

    def read(self, name: str) -> bytes:
        self._unpacked += self.sizes[name]  # members may share what is packed: together they count
        self._limit.check(self._unpacked, self._limit.packed_bytes)
        try:
            with zipfile.ZipFile(self._path) as archive:
                return read_member(archive, archive.getinfo(name), self._limit)
        except DAMAGED_ZIP as error:
            reason = str(error) or CUT_MEMBER
            raise FormatError(f"damaged zip archive ({reason})", where=str(self._path / name)) from None


def _names(folder: Path) -> tuple[list[str], list[str]]:
    """Of plain files, also those in folders of it; and of links that lead out."""
    root = os.path.realpath(folder)
    names: list[str] = []
    links: list[str] = []
    for parent, folders, files in os.walk(folder):  # it does not follow links to folders
        for entry in (Path(parent, name) for name in (*folders, *files)):
            name = entry.relative_to(folder).as_posix()
            if entry.is_symlink() and not _is_inside(os.path.realpath(entry), root):
                links.append(name)
            elif entry.is_file():
                names.append(name)
    return names, sorted(links)


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)
