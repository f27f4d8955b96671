"""How a command ends: an expected failure is one line and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import sys

from warplens_run.base.errors import Terminated, WarplensError
from warplens_run.base.printable import clean
from warplens_run.cli.printing import print_err
from warplens_run.cli.streams import silence_stdout, stdout_error

EXPECTED = (WarplensError, OSError, KeyboardInterrupt, MemoryError)
NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP)


def failed(error: WarplensError | OSError | KeyboardInterrupt | MemoryError, *, runs_programs: bool) -> int:
    """Report one of the `EXPECTED`, and return the exit code; an `OSError` of no known kind is raised again."""
    if isinstance(error, WarplensError):
        return fail(error)
    if isinstance(error, OSError):
        # A path that no system call takes: too long, a loop of links, below a folder that is not ours to read. What a
        # user's own program does not find is not ours to shorten.
        if error.filename is not None and (not runs_programs or error.errno in NO_PATH):
            return fail(WarplensError(f"{os.fsdecode(error.filename)}: {error.strerror}"))
        return stdout_failed(error)
    if isinstance(error, Terminated):
        print_err("terminated")
        return 128 + error.number
    if isinstance(error, KeyboardInterrupt):
        print_err("interrupted")
        return 130
    return fail(WarplensError("not enough memory", hint="a trace needs about five times its unpacked size"))


def fail(error: WarplensError) -> int:
    """One line, and the hint with the flags of the options that it names."""
    print_err(f"error: {clean(' '.join(str(error).split()))}")
    flags = ", ".join(f"--{option.replace('_', '-')}" for option in error.options)
    hint = ": ".join(filter(None, (error.hint, flags)))
    if hint:
        print_err(f"\nhint: {clean(hint)}")
    return error.exit_code


def flushed(code: int) -> int:
    """The exit code, once all that was printed has arrived."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return stdout_failed(error)
    return code


def stdout_failed(error: OSError) -> int:
    """A reader that has gone (head, less) is not a failure; a full disk or a closed stdout is one line."""
    if isinstance(error, BrokenPipeError):
        silence_stdout()
        return 0
    failure = stdout_error(error)
    if failure is None:
        raise error
    silence_stdout()
    return fail(failure)
