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
from contextlib import contextmanager
from types import FrameType

from warplens_run.base.errors import WarplensError


def supervise(args: argparse.Namespace) -> int | None:
    """None in the child, which continues; in this process the exit code of the child, once it has ended.

    Only the `warplens` command has a process of its own, and no thread yet, which a fork would not copy. Systems
    without fork run the verb without a limit.
    """
    if not (getattr(args, "owns_process", False) and hasattr(os, "fork")):
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        args.is_supervised = True
        return None
    _share_end_with(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        raise _ended_by(signal.Signals(-code), args.timeout)
    return code


def _share_end_with(child: int) -> None:
    """What ends this process also ends the child; Ctrl-C reaches both, and the child reports it."""

    def end(number: int, _frame: FrameType | None) -> None:
        os.kill(child, signal.SIGKILL)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def _ended_by(number: signal.Signals, seconds: float) -> WarplensError:
    if number == signal.SIGALRM:
        hint = "a longer limit, or 0 for none"
        return WarplensError(f"SQL: no answer after {seconds:g} s", hint=hint, options=("timeout",))
    if number == signal.SIGKILL:
        return WarplensError(
            "SQL: the query was ended by the system", hint="it may have needed more memory than there is"
        )
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
