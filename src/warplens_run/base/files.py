"""Files that appear whole or not at all, and refusals before anything is written.

A file is written under a temporary name beside its own and renamed at the end, so that a full disk, a missing
permission or Ctrl-C leaves what was there. Unless forced it gets its name by a link, which fails where another program
has made a file of that name meanwhile. What the system reports is one line (`WarplensError`). Standard library only:
recording and replay run on hosts that have nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.temporary import remove, remove_left, staged_folder_name, temporary_file_name

NEVER_READ: Final = (".html", ".svg", ".png", ".pdf", ".md", ".xlsx", ".folded", ".speedscope.json")
"""Outputs that no reader opens: inside an input folder they are not part of the input."""
NEVER_OVERWRITTEN: Final = "choose another path: inputs are never overwritten"


_digests: dict[tuple[int, int, int, int], str] = {}
"""Of the latest files, by what the system knows them by: a trace is named by its digest more than once."""


def content_hash(path: Path, content: bytes) -> str:
    """The digest of what was read from a path."""
    status = path.stat()
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if identity not in _digests or status.st_size != len(content):
        from hashlib import blake2b  # 4 ms, which help and completion need not spend

        _digests.clear()
        _digests[identity] = blake2b(content, digest_size=16).hexdigest()
    return _digests[identity]


def write_whole(path: Path, content: bytes, *, force: bool = True) -> None:
    """Write one file; missing parent folders are made."""
    with whole_file(path, force=force) as temporary:
        temporary.write_bytes(content)


@contextmanager
def whole_file(path: Path, *, force: bool = True) -> Iterator[Path]:
    """The temporary path to write to; it gets its own name when the block ends without an error.

    Without `force`, a file that has appeared there meanwhile stays, and this is an error.
    """
    with whole_files([path], force=force) as (temporary,):
        yield temporary


@contextmanager
def whole_files(paths: Sequence[Path], *, force: bool = True) -> Iterator[list[Path]]:
    """The same for several files, which appear together: none of them if one fails."""
    with ExitStack() as stack:
        stack.enter_context(write_errors(paths[0] if len(paths) == 1 else _common_folder(paths)))
        stack.enter_context(_parents(paths))
        # A device or a pipe has no content to protect, and must not be replaced by a file.
        staged = [path if is_stream(path) else stack.enter_context(temporary_file(path)) for path in paths]
        yield staged
        _appear({temporary: path for temporary, path in zip(staged, paths, strict=True) if temporary != path}, force)


def _appear(staged: Mapping[Path, Path], force: bool) -> None:
    """Give each temporary file its name; after a failure the new ones are gone again."""
    new: list[Path] = []
    try:
        for temporary, path in staged.items():
            if force:
                temporary.replace(path)
            else:
                _take_name(temporary, path)
                new.append(path)
    except BaseException:
        for path in new:
            remove(path)
        raise


def _take_name(temporary: Path, path: Path) -> None:
    """Give a file a name that no other file has, and none can get at the same time."""
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: an empty file holds the name
            path.open("xb").close()
            temporary.replace(path)
    except FileExistsError:
        raise _exists(path) from None


@contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """A name beside a path, so that renaming stays on one file system; no file of that name outlives the block."""
    remove_left(path.parent)
    temporary = path.with_name(temporary_file_name())
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """The same for a folder of the user's own; a folder that is there already is replaced."""
    with write_errors(path), _parents([path]):
        remove_left(path.parent)
        staged = path.with_name(staged_folder_name())
        try:
            staged.mkdir(mode=0o700)
            yield staged
            remove(path)  # a folder is not renamed over another
            staged.replace(path)
        finally:
            remove(staged)


@contextmanager
def write_errors(path: str | Path) -> Iterator[None]:
    """What the system reports of a path (full disk, no permission, name too long), as one line."""
    try:
        yield
    except OSError as error:
        raise WarplensError(f"cannot write {path}: {error.strerror or error}") from error


def check_file(path: Path, *, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that could not be written, or that would overwrite something, before the work begins."""
    with write_errors(path):
        check_folder(path, path.parent)
        check_inputs([path], inputs)
        check_free([path], force=force)


def check_folder(path: Path, folder: Path) -> None:
    """Refuse an output `path` whose folder cannot be made or written to."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"cannot write {path}: {nearest} is not a directory")
    if not os.access(nearest, os.W_OK):
        raise WarplensError(f"cannot write {path}: no permission to write in {nearest}")


def check_free(paths: Iterable[Path], *, force: bool) -> None:
    """Refuse to write over a directory, and over a file unless forced."""
    for path in paths:
        if path.is_dir():
            raise UsageError(f"{path} is a directory")
        if not force and os.path.lexists(path) and not is_stream(path):
            raise _exists(path)


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} already exists", hint="set force to overwrite it", options=("force",))


def check_inputs(outputs: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Refuse an output that is one of the inputs, under whatever name, or a part of one that is a folder."""
    read = [Path(path) for path in inputs if os.fspath(path)]
    for output in outputs:
        for source in read:
            if _is_same(output, source) or _is_part(output, source):
                raise UsageError(f"{output} is an input of this command", hint=NEVER_OVERWRITTEN)


def check_replaced_folder(folder: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to replace a folder (or the file of that name) that is an input or holds one."""
    read = [Path(path) for path in inputs if os.fspath(path)]
    check_inputs([folder], read)
    for source in read:
        if source.exists() and _is_inside(source, folder):
            raise UsageError(f"{folder} holds {source}, an input of this command", hint=NEVER_OVERWRITTEN)


def is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe or a socket."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # not there, or a NUL in the name
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _is_same(output: Path, source: Path) -> bool:
    """Also through links: the system's own identity of a file."""
    try:
        return output.samefile(source) and not is_stream(output)
    except (OSError, ValueError):
        return False


def _is_part(output: Path, source: Path) -> bool:
    if not source.is_dir() or output.name.endswith(NEVER_READ):
        return False
    return output.is_file() and _is_inside(output, source)


def _is_inside(path: Path, folder: Path) -> bool:
    return folder.resolve() in path.resolve().parents


def _common_folder(paths: Sequence[Path]) -> str:
    return os.path.commonpath([path.parent for path in paths]) if paths else ""


@contextmanager
def _parents(paths: Sequence[Path]) -> Iterator[None]:
    """The folders of the paths exist inside; after a failure those that were made here are gone again."""
    created: list[Path] = []
    try:
        for folder in dict.fromkeys(path.parent for path in paths):
            created[:0] = [parent for parent in (folder, *folder.parents) if not parent.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()
        raise
