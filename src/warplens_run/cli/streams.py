"""stdout and stderr as a user may connect them: closed or full."""

from __future__ import annotations

import errno
import io
import os
import sys

from warplens_run.base.errors import WarplensError

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
