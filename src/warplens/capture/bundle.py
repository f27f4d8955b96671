"""Writing a capture bundle: files are gathered aside, and the bundle appears whole or not at all.

A bundle is a directory, or a .zip of one: `manifest.json` (what it is, how it was made, each file's size and SHA-256),
`environment.json`, and what was recorded. The manifest is written last and the directory gets its name after that, so
that a run killed in the middle leaves only a directory called `….partial-<pid>`, which does not open.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any, Final

from warplens.errors import UsageError

FORMAT: Final = "warplens-bundle"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
ENVIRONMENT: Final = "environment.json"
TRACE: Final = "trace.json.gz"
TREE: Final = "tree.hatchet.gz"
XPLANE: Final = "profile.xplane.pb"
PROTON_TRACE: Final = "proton.chrome_trace.gz"
EXECUTION_TRACE: Final = "execution_trace.json.gz"
ARGUMENTS_STEP: Final = "execution_step.json.gz"
"""The trace of the step that the ExecutionTrace is of, where it is not the profile itself."""
KERNELS: Final = "kernels"
GZIP_LEVEL: Final = 3
"""Half the time of the default for files a few percent larger."""


class Staging:
    """A bundle that is being gathered."""

    def __init__(self, target: Path, *, force: bool = False) -> None:
        if target.exists() and not force:
            raise UsageError(f"{target} exists", hint="name another with -o, or overwrite it with --force")
        self.target = target
        self.folder = target.with_name(f"{target.name}.partial-{os.getpid()}")
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror or error}") from None

    def path(self, name: str) -> Path:
        """Where a file of the bundle is to be written."""
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def write_json(self, name: str, value: Any) -> None:
        self.path(name).write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")

    def finish(self, facts: dict[str, Any]) -> Path:
        """Write the manifest and give the bundle its name."""
        files = {name: _identity(self.folder / name) for name in _files(self.folder)}
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        head = {"format": FORMAT, "version": VERSION, "created": created}
        self.write_json(MANIFEST, {**head, **facts, "files": files})
        if self.target.suffix == ".zip":
            self._pack()
        else:
            _remove(self.target)
            self.folder.rename(self.target)
        return self.target

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _pack(self) -> None:
        packed = self.folder.with_suffix(".zip.partial")
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in _files(self.folder):
                archive.write(self.folder / name, name)
        packed.replace(self.target)
        self.discard()


def _files(folder: Path) -> list[str]:
    """The manifest first, so that it is quickly found in an archive."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(names, key=lambda name: name != MANIFEST)


def _identity(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def compress(source: Path, target: Path) -> None:
    """`source` gzipped as `target`, and gone."""
    with source.open("rb") as plain, gzip.open(target, "wb", compresslevel=GZIP_LEVEL) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    source.unlink()
