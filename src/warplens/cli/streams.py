"""stdin, stdout and stderr as a user may connect them: closed, full, or `-` for a file to read."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from warplens.errors import UsageError, WarplensError

STDIN = "-"
STDOUT_ERRORS = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT)


def prepare_streams() -> None:
    """Streams that always exist: a closed stdout reports an error when it is written to, a closed stderr is silent."""
    # Python has None for a closed descriptor; the next file that is opened would get its number and be written to.
    if sys.stdout is None:
        # A descriptor that cannot be written to: the error comes with the first flush, as from a full disk.
        sys.stdout = _stream_on(1, os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = _stream_on(2, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no µ and no bars shows question marks instead of a traceback.
            stream.reconfigure(errors="replace")


def _stream_on(descriptor: int, flags: int) -> io.TextIOWrapper:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    return open(descriptor, "w", encoding="utf-8", closefd=False)


def silence_stdout() -> None:
    """What is still buffered for a stdout that failed is dropped, so that nothing complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout_error(error: OSError) -> WarplensError | None:
    """The error of a stdout that cannot be written to; None for any other."""
    if error.filename is not None or error.errno not in STDOUT_ERRORS:
        return None
    return WarplensError(f"cannot write to stdout: {error.strerror}")


@contextmanager
def stdin_as_file(args: argparse.Namespace, inputs: Sequence[str]) -> Iterator[None]:
    """While a verb runs, the argument that is `-` names a file with what stdin had to say.

    A profile is read from several places at once, which a pipe cannot do.
    """
    from_stdin = [name for name in inputs if getattr(args, name, None) == STDIN]
    if not from_stdin:
        yield
        return
    if len(from_stdin) > 1:
        raise UsageError("stdin can be read only once", hint="give one of the files by its path")
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped into stdin", hint="cat trace.json.gz | warplens report -")
    import shutil
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="warplens-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        setattr(args, from_stdin[0], str(path))
        yield
