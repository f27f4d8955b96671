"""Writing a capture bundle: files are gathered aside, and the bundle appears whole or not at all.

A bundle is a directory, or a .zip of one: `manifest.json` (what it is, how it was made, each file's size and SHA-256),
`environment.json`, and what was recorded. The manifest is written last and the directory gets its name after that, so
that a run killed in the middle leaves only a directory called `….partial-…`, which does not open, and goes when the
same name is recorded again. Where a bundle of that name has appeared in the meantime, the next free name is taken: no
run is lost to another.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import itertools
import json
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from warplens_run.base import bounded
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.files import temporary_file
from warplens_run.base.quoted_names import escape_names
from warplens_run.base.temporary import is_left, owner, remove
from warplens_run.formats.bundle_files import FORMAT, MANIFEST, PARTIAL, PROFILES, VERSION

GZIP_LEVEL: Final = 3
"""A tenth of the time of the smallest files, which are a third smaller."""
SMALL_BYTES: Final = 32 << 20
"""Up to this size that time is about a second."""
BLOCK: Final = 1 << 20


class Staging:
    """A bundle that is being gathered."""

    def __init__(self, target: Path, *, force: bool = False) -> None:
        # The program may leave the directory in which this path means what the user meant.
        self.target = target.absolute()
        self.has_profile = False
        """Whether there was one to seal."""
        self._force = force
        try:
            check_free(target, force=force)
            self.folder = _staging_folder(self.target)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write {target}: {getattr(error, 'strerror', None) or error}") from None

    def path(self, name: str) -> Path:
        """Where a file of the bundle is to be written."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, value: Any, indent: int | None = 1) -> None:
        self.path(name).write_text(json.dumps(value, indent=indent, default=str) + "\n", encoding="utf-8")

    def seal(self, facts: dict[str, Any]) -> None:
        """Write the manifest: nothing is added after that."""
        files = {name: _identity(self.folder / name) for name in _files(self.folder)}
        self.has_profile = any(name in files for name in PROFILES)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        head = {"format": FORMAT, "version": VERSION, "created": created}
        self.write_json(MANIFEST, {**head, **facts, "files": files})

    def publish(self) -> Path:
        """Give the bundle its name, or the next free one; returns it."""
        try:
            if self._force and self.target.exists() and is_bundle(self.target):
                _remove(self.target)
            return self._packed() if self.target.suffix == ".zip" else self._renamed()
        except OSError as error:
            hint = f"the recording is in {self.folder}, which opens as well"
            raise WarplensError(f"cannot write {self.target}: {error.strerror or error}", hint=hint) from None

    def finish(self, facts: dict[str, Any]) -> Path:
        """Write the manifest and give the bundle its name."""
        self.seal(facts)
        return self.publish()

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _renamed(self) -> Path:
        for path in _names(self.target):
            try:
                return self.folder.rename(path)
            except OSError:
                if not path.exists():
                    raise
        raise AssertionError("names do not end")

    def _packed(self) -> Path:
        with temporary_file(self.target) as packed:
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in _files(self.folder):
                    archive.write(self.folder / name, name)
            target = _reserved(self.target)
            packed.replace(target)
        self.discard()
        return target


def is_bundle(path: Path) -> bool:
    """Whether a path is a capture bundle, or empty: what may be overwritten when asked."""
    try:
        if path.is_dir():
            manifest = path / MANIFEST
            return _is_manifest(manifest.read_bytes()) if manifest.is_file() else not any(path.iterdir())
        if path.stat().st_size == 0:
            return True
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist() and _is_manifest(archive.read(MANIFEST))
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return False


def _is_manifest(text: bytes) -> bool:
    try:
        manifest = bounded.decoded(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_free(target: Path, *, force: bool) -> None:
    """Refuse to write a bundle over what is there."""
    if not target.exists():
        return
    if not force:
        hint = "choose another path, or set force to overwrite it"
        raise UsageError(f"{target} exists", hint=hint, options=("force",))
    if not is_bundle(target):
        raise UsageError(
            f"{target} exists and is not a capture bundle: it is not overwritten", hint="choose another path"
        )


def _staging_folder(target: Path) -> Path:
    """A directory of this run's own next to the bundle; those that killed runs left are removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_left(target)
    for number in itertools.count(1):
        folder = target.with_name(f"{target.name}.partial-{owner()}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def _remove_left(target: Path) -> None:
    """The directories of killed runs of this name; one with a manifest is whole, and opens."""
    for folder in target.parent.iterdir():
        found = PARTIAL.search(folder.name) if folder.name.startswith(f"{target.name}.partial-") else None
        if found is None or not found[1] or (folder / MANIFEST).exists():
            continue
        if is_left(folder, found[1], bounded.whole(found[2])):
            remove(folder)


def _names(target: Path) -> Iterator[Path]:
    """The target, then x-2, x-3 …"""
    yield target
    for number in itertools.count(2):
        yield target.with_name(f"{target.stem}-{number}{target.suffix}")


def free_name(target: Path) -> Path:
    """The target, or the first of x-2, x-3 … that does not exist."""
    return next(path for path in _names(target) if not path.exists())


def of_rank(path: Path, rank: int, world: int) -> Path:
    """One bundle per rank where there are several: out/rank0, or out-rank0.zip."""
    if world == 1:
        return path
    return path.with_name(f"{path.stem}-rank{rank}.zip") if path.suffix == ".zip" else path / f"rank{rank}"


def _reserved(target: Path) -> Path:
    """The first name that no other file has; an empty file holds it from now on."""
    for path in _names(target):
        with contextlib.suppress(FileExistsError):
            path.open("xb").close()
            return path
    raise AssertionError("names do not end")


def _files(folder: Path) -> list[str]:
    """The manifest first, so that it is quickly found in an archive."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(names, key=lambda name: name != MANIFEST)


def _identity(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def compress(source: Path, target: Path) -> None:
    """`source` gzipped as `target`, and gone."""
    with source.open("rb") as plain, _packed(source, target) as packed:
        shutil.copyfileobj(plain, packed, BLOCK)
    source.unlink()


def compress_trace(source: Path, target: Path, renames: Sequence[tuple[bytes, bytes]] = ()) -> int:
    """As `compress`, for a trace that PyTorch wrote; returns in how many of its names quotes had to be escaped.

    `renames` are texts in it and what takes their place.
    """
    count = 0
    with source.open("rb") as plain, _packed(source, target) as packed:
        for lines in _lines(plain):
            for old, new in renames:
                lines = lines.replace(old, new)
            lines, escaped = escape_names(lines)
            packed.write(lines)
            count += escaped
    source.unlink()
    return count


def _packed(source: Path, target: Path) -> gzip.GzipFile:
    return gzip.GzipFile(target, "wb", 9 if source.stat().st_size <= SMALL_BYTES else GZIP_LEVEL)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Whole lines in blocks; each line comes with the break before it."""
    pending = b""
    while block := stream.read(BLOCK):
        lines, line_break, last = (pending + block).rpartition(b"\n")
        pending = line_break + last
        yield lines
    yield pending
