"""From paths to files: all is checked before the first byte, and a file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warplens.outputs.document import Document
from warplens.outputs.registry import Output, choose_output
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_folder, check_free, check_inputs, whole_files, write_errors
from warplens_run.base.text import unique_names


@dataclass(frozen=True)
class Target:
    """A place to write to and the output that goes there; none of the `inputs` is ever overwritten."""

    path: Path
    output: Output
    force: bool = False
    inputs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.path if self.output.directory else self.path.parent

    def files(self, names: Sequence[str]) -> list[Path]:
        """The files that tables of these names become."""
        if not self.output.directory:
            return [self.path]
        stems = unique_names(names, forbidden=r"[^\w.-]|^[.-]", limit=100)
        return [self.path / f"{stem}{self.output.suffix}" for stem in stems]


def plan_outputs(
    paths: Sequence[str],
    *,
    tables: str,
    force: bool,
    names: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
) -> list[Target]:
    """The targets for some `-o` paths, or a `UsageError` before anything is written.

    With the `names` of the tables to come, the files inside a directory and the one-table outputs are checked
    here too; without them, `write` checks these itself. Missing parent directories are made by `write`. An output
    that would overwrite one of the `inputs` is refused, whatever `force` says.
    """
    targets: list[Target] = []
    taken: set[str] = set()
    for path in paths:
        with write_errors(path):
            target = Target(Path(path), choose_output(path, tables), force, tuple(inputs))
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
    with write_errors(target.path):
        _check_overwriting(target, files)
    with whole_files(files, force=target.force) as staged:
        for temporary, part in zip(staged, parts, strict=True):
            temporary.write_bytes(target.output.for_kind(document.kind).render(part))
    return files


def _check_place(target: Target) -> None:
    path = target.path
    if target.output.directory and path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, not a directory", hint="omit the / or choose another path")
    check_folder(path, target.folder)


def _checked_files(target: Target, names: Sequence[str]) -> list[Path]:
    if target.output.one_table and not target.output.directory and len(names) != 1:
        raise UsageError(
            f"{target.path.name} holds one table and there are {len(names)}",
            hint=f"name a directory for one file each: {target.path.stem}/",
        )
    return target.files(names)


def _check_overwriting(target: Target, files: Sequence[Path]) -> None:
    check_inputs([target.path], target.inputs)
    check_inputs(files, target.inputs)
    check_free([file for file in files if not (target.output.directory and file == target.path)], force=target.force)
