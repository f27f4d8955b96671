"""Compiled kernels on disk, so that the second look is instant.

One zip file per compilation after its checksum, named by the hash of what shapes it. Inside, the hashes of the files
that the kernel's file imports are compared as well. Written whole or not at all; anything unreadable or damaged
counts as absent; the oldest go when the folder is over its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from warplens.cache import place
from warplens_lab.compiling.records import CompileAnswer
from warplens_run.base.errors import WarplensError
from warplens_run.base.files import write_whole

FOLDER: Final = "kernels"
LIMIT_BYTES: Final = 512 << 20
CHECKSUM_BYTES: Final = 16
FORMAT: Final = 5
"""Changes with what is kept or how it is compiled."""
HEAD: Final = "head.json"
_FOLDER_ERRORS: Final = (OSError, RuntimeError)
# Settings that only say where files are or what is printed do not change what is compiled.
_SHAPING: Final = ("TRITON_", "MLIR_", "LLVM_", "DISABLE_", "AMDGCN_", "ALLOW_LHS_TMEM_", "USE_IR_LOC")
_NOT_SHAPING: Final = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR", "TRITON_INTERPRET")


def folder() -> Path:
    """`kernels` in `$WARPLENS_CACHE`, else in the user's cache directory."""
    return place.cache_directory() / FOLDER


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def key(parts: Iterable[object]) -> str:
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SHAPING) and name not in _NOT_SHAPING
    }
    text = json.dumps([FORMAT, settings, *map(str, parts)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_hash(path: str | Path) -> str:
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()


def load(name: str) -> tuple[CompileAnswer, dict[str, bytes]] | None:
    """The answer and the files of an entry whose kernel still reads as it did, or None."""
    try:
        path = folder() / f"{name}.zip"
        stored = path.read_bytes()
        checksum, packed = stored[:CHECKSUM_BYTES], stored[CHECKSUM_BYTES:]
        if checksum != _checksum(packed):
            return None
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            answer = msgspec.json.decode(archive.read(HEAD), type=CompileAnswer)
            if any(file_hash(file) != expected for file, expected in answer.depends.items()):
                return None
            files = {entry: archive.read(entry) for entry in archive.namelist() if entry != HEAD}
        os.utime(path)
    except (*_FOLDER_ERRORS, ValueError, KeyError, msgspec.MsgspecError, zipfile.BadZipFile):
        return None
    return answer, files


def save(name: str, answer: CompileAnswer, files: Mapping[str, bytes]) -> None:
    """Keep an entry; a full disk or a read-only home is not an error."""
    with contextlib.suppress(*_FOLDER_ERRORS, WarplensError):
        cache_folder = place.made_directory() / FOLDER
        cache_folder.mkdir(exist_ok=True, mode=0o700)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(HEAD, msgspec.json.encode(answer))
            for entry, content in files.items():
                archive.writestr(entry, content)
        write_whole(cache_folder / f"{name}.zip", _checksum(packed.getvalue()) + packed.getvalue())
        _evict(cache_folder)


def _evict(cache_folder: Path) -> None:
    used = 0
    for entry in sorted(cache_folder.glob("*.zip"), key=lambda entry: entry.stat().st_mtime, reverse=True):
        used += entry.stat().st_size
        if used > LIMIT_BYTES:
            entry.unlink(missing_ok=True)
