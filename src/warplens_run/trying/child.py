"""A process of a trial: it runs the program, and takes the turns that it is ordered to.

Started by `warplens_run.trying.start`.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection

from warplens_run.base.errors import WarplensError
from warplens_run.capture.launch import Program, leave, program_of, supervise
from warplens_run.capture.session import listen_to_steps
from warplens_run.trying import wire
from warplens_run.trying.fixes.attention import ModelAttention
from warplens_run.trying.fixes.protocol import Fix
from warplens_run.trying.hooks import hooks_of
from warplens_run.trying.known import fixes_for
from warplens_run.trying.trial import Order, Refused, Report, Trial
from warplens_run.trying.watched import begin_watching


def main(channel: int) -> int:
    os.set_inheritable(channel, False)
    connection: Connection = Connection(channel)
    job = wire.decode(connection.recv_bytes())
    assert isinstance(job, wire.Job)
    sides = _made(connection, job)
    connection.send_bytes(
        wire.encode(wire.Ready({str(side): [fix.name for fix in fixes] for side, fixes in sides.items()}))
    )
    go = wire.decode(connection.recv_bytes())
    if not isinstance(go, wire.Go) or go.stop:
        return 0
    return _run(connection, job, sides, program_of(job.words))


def _made(connection: Connection, job: wire.Job) -> dict[int, list[Fix]]:
    """The fixes of the sides whose fixes can be made."""
    torch = importlib.import_module("torch")
    sides: dict[int, list[Fix]] = {}
    for side in job.sides:
        try:
            attention: list[Fix] = [ModelAttention(side.attention)] if side.attention else []
            sides[side.side] = [*attention, *fixes_for(side.fixes, torch)]
        except WarplensError as error:
            connection.send_bytes(wire.encode(Refused(side.side, str(error), error.hint or "")))
    return sides


def _run(connection: Connection, job: wire.Job, sides: dict[int, list[Fix]], program: Program) -> int:
    def report(message: Report) -> None:
        connection.send_bytes(wire.encode(message))

    torch = importlib.import_module("torch")
    trial = Trial(sides, job.plan, _orders(connection), report, hooks_of(torch, job.words))
    begin_watching()
    process = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on Ctrl-C is the program's
    with listen_to_steps(trial):
        outcome = supervise(program)
    if os.getpid() != process:  # a child that the program forked, and that came to its end as well
        leave(outcome.exit_code)
    side = trial.side
    trial.stop()
    ended = wire.Ended(outcome.status, outcome.exit_code, side, trial.steps_seen, outcome.error)
    with suppress(OSError):  # nobody is left to hear it
        connection.send_bytes(wire.encode(ended))
    return outcome.exit_code


def _orders(connection: Connection) -> Iterator[Order]:
    """The program waits here between turns. Without the process that orders, the trial is over."""
    while True:
        try:
            order = wire.decode(connection.recv_bytes())
        except (EOFError, OSError):
            return
        if not isinstance(order, Order):
            return
        yield order
