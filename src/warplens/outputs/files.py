"""From paths to files: all is checked before the first byte, and a file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from warplens.errors import UsageError, WarplensError
from warplens.outputs.document import Document
from warplens.outputs.registry import Output, choose_output
from warplens.outputs.text import unique_names


@dataclass(frozen=True)
class Target:
    """A place to write to and the output that goes there."""

    path: Path
    output: Output
    force: bool = False

    @property
    def folder(self) -> Path:
        return self.path if self.output.directory else self.path.parent

    def files(self, names: Sequence[str]) -> list[Path]:
        """The files that tables of these names become."""
        if not self.output.directory:
            return [self.path]
        stems = unique_names(names, forbidden=r"[^\w.-]|^[.-]", limit=100)
        return [self.path / f"{stem}{self.output.suffix}" for stem in stems]


SINGLE_FILE = Output("file", "", "a single file", lambda document: b"")


def plan_outputs(paths: Sequence[str], *, tables: str, force: bool, names: Sequence[str] | None = None) -> list[Target]:
    """The targets for some `-o` paths, or a `UsageError` before anything is written.

    With the `names` of the tables to come, the files inside a directory and the one-table outputs are checked
    here too; without them, `write` checks these itself. Missing parent directories are made by `write`.
    """
    targets: list[Target] = []
    taken: set[str] = set()
    for path in paths:
        with _one_line(path):
            target = Target(Path(path), choose_output(path, tables), force)
            _check_place(target)
            files = [target.path] if names is None else _checked_files(target, names)
            _check_overwriting(target, files)
        for file in map(os.path.realpath, files):
            if file in taken:
                raise UsageError(f"{path} would be written twice", hint="give each output a path of its own")
            taken.add(file)
        targets.append(target)
    return targets


def write(target: Target, document: Document) -> list[Path]:
    """Write one target and return its files, in the order of the tables.

    All files are staged next to their final names and renamed at the end: a failure leaves what was there.
    """
    files = _checked_files(target, [table.name for table in document.tables])
    parts = [document]
    if target.output.directory:
        parts = [replace(document, tables=[table]) for table in document.tables]
    with _one_line(target.path):
        _check_overwriting(target, files)
    with _one_line(target.path), _made(target.folder), _staged(files) as staged:
        for temporary, part in zip(staged, parts, strict=True):
            content = target.output.render(part)
            with temporary.open("xb") as stream:
                stream.write(content)
        for temporary, file in zip(staged, files, strict=True):
            temporary.replace(file)
    return files


def check_file(path: Path, *, force: bool) -> None:
    """The same checks for a single file that is no document."""
    with _one_line(path):
        target = Target(path, SINGLE_FILE, force)
        _check_place(target)
        _check_overwriting(target, [path])


def write_file(path: Path, content: bytes) -> None:
    """One file, whole or not at all."""
    with _one_line(path), _made(path.parent), _staged([path]) as (temporary,):
        temporary.write_bytes(content)
        temporary.replace(path)


def _check_place(target: Target) -> None:
    path = target.path
    if target.output.directory and path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, not a directory", hint="leave out the / or choose another path")
    nearest = next(folder for folder in (target.folder, *target.folder.parents) if folder.exists())
    if not nearest.is_dir():
        raise UsageError(f"cannot write {path}: {nearest} is not a directory")
    if not os.access(nearest, os.W_OK):
        raise WarplensError(f"cannot write {path}: no permission to write in {nearest}")


def _checked_files(target: Target, names: Sequence[str]) -> list[Path]:
    if target.output.one_table and not target.output.directory and len(names) != 1:
        raise UsageError(
            f"{target.path.name} holds one table and there are {len(names)}",
            hint=f"name a directory for one file each: {target.path.stem}/",
        )
    return target.files(names)


def _check_overwriting(target: Target, files: Sequence[Path]) -> None:
    for file in files:
        if target.output.directory and file == target.path:
            continue
        if file.is_dir():
            raise UsageError(f"{file} is a directory")
        if not target.force and os.path.lexists(file):
            raise UsageError(f"{file} already exists", hint="--force overwrites it")


@contextmanager
def _one_line(path: str | Path) -> Iterator[None]:
    """What the system has against a path (full disk, no permission, name too long), as one line."""
    try:
        yield
    except OSError as error:
        raise WarplensError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder exists inside; after a failure the parts of its path that were made here are gone again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def _staged(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary names beside the files, so that renaming stays on one file system; none outlives this."""
    # Not tempfile: its files are readable by their owner alone, and reports are shared.
    run = os.urandom(6).hex()
    staged = [file.with_name(f".warplens-{run}-{number}.tmp") for number, file in enumerate(files)]
    try:
        yield staged
    finally:
        for temporary in staged:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
