"""Reports in a format of their vendor's own: its tool, where it is installed, writes what can be read here.

The tool runs in a process of its own with a time limit: what a damaged report does to it ends there.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from warplens_run.base.errors import FormatError
from warplens_run.base.printable import clean
from warplens_run.base.temporary import temporary_folder

TOOL_SECONDS: Final = 300.0
"""An export of a report of 2 GB takes a minute or two."""


@contextmanager
def stored_report(content: bytes, name: str) -> Iterator[Path]:
    """A file with this content in a folder of its own, which is gone afterwards: what was opened may be packed."""
    with temporary_folder() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def output_of(command: Sequence[str], where: str, hint: str) -> bytes:
    """The standard output of a tool; a `FormatError` in one line where it fails or does not end."""
    tool = Path(command[0]).name
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise FormatError(f"{tool} does not start: {error.strerror or error}", where=where, hint=hint) from None
    with process:
        try:
            output, errors = process.communicate(timeout=TOOL_SECONDS)
        except BaseException as error:
            _end(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            said = f"{tool} did not end within {TOOL_SECONDS:g} s"
            raise FormatError(said, where=where, hint=hint) from None
    if process.returncode:
        lines = (errors or output).decode("utf-8", "replace").split("\n")
        said = next((clean(line.strip()) for line in reversed(lines) if line.strip()), f"status {process.returncode}")
        raise FormatError(f"{tool} cannot read it: {said[:300]}", where=where, hint=hint)
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also what the tool itself started: NVIDIA's are scripts that start the program."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        process.kill()
