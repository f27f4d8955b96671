"""A verb that may not return, or may end the process, runs in a child; this process reports how the child ended.

Polars plans a query while it holds the interpreter, and a query can exhaust the stack: neither a thread nor a signal
handler of the same process could end it with a line of text.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from warplens_run.base.errors import Terminated, WarplensError

OUT_OF_MEMORY: Final = b"memory allocation of"
"""How Rust begins the last line of a process."""
LAST_WORDS_BYTES: Final = 1 << 16


def supervise(args: argparse.Namespace) -> int | None:
    """None in the child, which continues; in this process the exit code of the child, once it has ended.

    Only the `warplens` command has a process of its own, and no thread yet, which a fork would not copy. Systems
    without fork run the verb without a limit.
    """
    if not (getattr(args, "owns_process", False) and hasattr(os, "fork")):
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    last_words, own_end = os.pipe()
    child = os.fork()
    if child == 0:
        args.is_supervised = True
        _keep_last_words(own_end)
        return None
    os.close(own_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both, and the child reports it
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except Terminated:  # what ends this process also ends the child
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if code < 0:
        os.set_blocking(last_words, False)
        raise _ended_by(signal.Signals(-code), args.timeout, _read(last_words))
    return code


def _keep_last_words(descriptor: int) -> None:
    """What compiled code prints before it ends the process goes to the parent; Python's stderr stays the user's."""
    os.set_blocking(descriptor, False)  # a pipe that is full takes no more
    sys.stderr = os.fdopen(os.dup(2), "w", encoding=sys.stderr.encoding, errors="replace", buffering=1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _read(descriptor: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(descriptor, LAST_WORDS_BYTES)
    return b""


def _ended_by(number: signal.Signals, seconds: float, last_words: bytes) -> WarplensError:
    if number == signal.SIGALRM:
        hint = "a longer limit, or 0 for none"
        return WarplensError(f"SQL: no answer after {seconds:g} s", hint=hint, options=("timeout",))
    if number == signal.SIGKILL:
        return WarplensError(
            "SQL: the query was ended by the system", hint="it may have needed more memory than there is"
        )
    if OUT_OF_MEMORY in last_words:
        return WarplensError("SQL: not enough memory for the query", hint="make the query simpler")
    return WarplensError(f"SQL: an internal error of Polars ({number.name})", hint="make the query simpler")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends this process, a supervised child, where the code inside takes longer; 0 for no limit."""
    # The default action ends the process also where the interpreter is not free to run a handler.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
