"""Inputs that are not files: stdin (`-`), a pipe such as `<(zcat trace.json.gz)`, a named pipe, a device.

A profile is read from several places at once, which a pipe cannot do: it is copied once into a temporary file.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.temporary import temporary_folder

STDIN = "-"
READ_FROM = (
    *("trace", "more", "a", "b", "diff", "before", "after", "result", "plan"),
    *("execution_trace", "graph_capture", "ncu", "memory_snapshot", "replay", "proof", "rules", "gpu_file"),
)
"""The arguments that name files to read, on whichever verb; some are lists."""
MOST_BYTES = 16 << 30
"""Of a pipe, and never more than half of what is free where temporary files are: a pipe may have no end."""
WRITER_S = 5.0
"""How long a named pipe waits for a program that writes to it."""
STEP_BYTES = 1 << 20


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


@contextmanager
def pipes_as_files(args: argparse.Namespace, inputs: Sequence[str]) -> Iterator[None]:
    """While a verb runs, each argument that is `-` or a pipe names a file with what came through it."""
    _check_stdin([name for name in inputs if getattr(args, name, None) == STDIN])
    piped = [name for name in READ_FROM if any(_is_piped(path, name in inputs) for path in _paths(args, name))]
    if not piped:
        yield
        return

    with temporary_folder() as folder:
        for name in piped:
            value, is_input = getattr(args, name), name in inputs
            paths = [_copied(path, Path(folder)) if _is_piped(path, is_input) else path for path in _paths(args, name)]
            setattr(args, name, paths if isinstance(value, list) else paths[0])
        yield


def _check_stdin(names: Sequence[str]) -> None:
    if len(names) > 1:
        raise UsageError("stdin can be read only once", hint="give one of the files by its path")
    if names and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("nothing is piped into stdin", hint="cat trace.json.gz | warplens report -")
    if names and _is_device(_mode_of_stdin()):
        raise UsageError("stdin is a device, not a file", hint="cat trace.json.gz | warplens report -")


def _paths(args: argparse.Namespace, name: str) -> list[str]:
    value = getattr(args, name, None)
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def _is_piped(path: str, is_input: bool) -> bool:
    """Whether a path is stdin or a pipe; a device is refused."""
    if is_input and path == STDIN:
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False  # opening it reports what is wrong
    if _is_device(mode) or stat.S_ISSOCK(mode):
        raise UsageError(f"{path} is a device, not a file", hint="name a file, a folder or a pipe")
    return stat.S_ISFIFO(mode)


def _mode_of_stdin() -> int:
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # what stands for it in a program that calls this has no number
        return 0


def _is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _copied(path: str, folder: Path) -> str:
    """The file with what came through a pipe, in a folder of its own: two pipes may have one name."""
    import shutil
    from tempfile import mkdtemp

    target = Path(mkdtemp(dir=folder)) / ("stdin" if path == STDIN else Path(path).name)
    limit = min(MOST_BYTES, shutil.disk_usage(folder).free // 2)
    with target.open("wb") as file:
        if path == STDIN:
            _copy(sys.stdin.buffer, file, limit, "stdin")
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else a named pipe would wait for its writer
            with os.fdopen(descriptor, "rb", buffering=0) as source:
                file.write(_first_block(descriptor, path))
                os.set_blocking(descriptor, True)
                _copy(source, file, limit, path)
    return str(target)


def _first_block(descriptor: int, path: str) -> bytes:
    """What can be read by now, once a program has opened the other end; a pipe without one is an error."""
    deadline = time.monotonic() + WRITER_S
    while True:
        try:
            block = os.read(descriptor, STEP_BYTES)
        except BlockingIOError:  # it is open, and empty
            return b""
        if block:
            return block
        if time.monotonic() > deadline:
            raise WarplensError(f"no program writes to the pipe {path}", hint="start it first, or name a file")
        time.sleep(0.02)


def _copy(source: Source, target: BinaryIO, limit: int, name: str) -> None:
    copied = 0
    while block := source.read(STEP_BYTES):
        copied += len(block)
        if copied > limit:
            hint = "save it to a file, and open that"
            raise WarplensError(f"more than {limit / 1e9:,.1f} GB came through {name}", hint=hint)
        target.write(block)
