"""The client's side: tasks are submitted largest first, answers collected as they come.

A task that fails is submitted once more after all others; alone, if its worker died: Dask cannot tell the task that
killed a worker from those that waited in it. Workers may join late: until the first one does, progress shows none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final

from distributed import Client, Future, KilledWorker

from warplens.cluster.attempt import name_of
from warplens.cluster.executor import ATTEMPTS, A, Item, OnProgress, Outcome, Progress, R, Tally, no_progress
from warplens.cluster.on_dask.connecting import Connection
from warplens.cluster.on_dask.task import Answer, Request, own_versions, run
from warplens.cluster.sizes import needed_bytes
from warplens.errors import UsageError, WarplensError
from warplens.units import format_bytes, listed

POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 300.0
"""Without a single worker; a batch system may take longer, and is waited for."""
EQUAL_VERSIONS: Final = "install the same versions of Python, warplens and its packages on every machine of the cluster"
DIED: Final = "its worker died each time, as they do where memory runs out"
Done = SimpleQueue[tuple[int, "Future[Answer]"]]


class DaskExecutor:
    """`connect` is called for the first items, whose number and size decide how large an own cluster is."""

    def __init__(self, name: str, connect: Callable[[Sequence[Item[Any]]], Connection]) -> None:
        self.name = name
        self.notes: list[str] = []
        self._connect = connect
        self._connection: Connection | None = None

    def map(
        self, task: Callable[[A], R], items: Sequence[Item[A]], on_progress: OnProgress = no_progress
    ) -> list[Outcome[R]]:
        name = name_of(task)
        if not items:
            return []
        on_progress(Progress(0, len(items), 0.0, 0.0, workers=0))
        self._connection = self._connection or self._connect(items)
        tally = Tally(items, on_progress, workers=0)
        requests = [Request(name, item.argument, own_versions()) for item in items]
        _Run(self._connection, requests, tally).finish()
        self.notes = _notes(self._connection.client, items)
        return tally.result()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Run:
    """One `map`: what is submitted and not yet answered, and what has failed."""

    def __init__(self, connection: Connection, requests: Sequence[Request], tally: Tally) -> None:
        self._connection, self._client = connection, connection.client
        self._requests, self._tally = requests, tally
        self._done: Done = SimpleQueue()
        self._pending: dict[int, Future[Answer]] = {}
        self._failures: dict[int, Outcome[Any]] = {}
        self._died: set[int] = set()
        self._last_worker = time.monotonic()
        self._next_check = 0.0

    def finish(self) -> None:
        self._attempt(self._tally.largest_first())
        for _ in range(ATTEMPTS - 1):
            died, self._died = self._died, set()
            self._attempt([index for index in self._failures if index not in died])
            for index in sorted(died):
                self._attempt([index])
        for index, outcome in self._failures.items():
            self._tally.settle(index, outcome)

    def _attempt(self, indices: Sequence[int]) -> None:
        try:
            self._submit(indices)
            while self._pending:
                self._collect()
        finally:
            if self._pending:  # Ctrl-C, or an error that is every rank's: what has not begun never does
                with suppress(Exception):
                    self._client.cancel(list(self._pending.values()), force=True)

    def _submit(self, indices: Sequence[int]) -> None:
        """Dask starts what was submitted first, first."""
        futures = self._client.map(run, [self._requests[index] for index in indices], pure=False)
        for index, future in zip(indices, futures, strict=True):
            self._pending[index] = future
            future.add_done_callback(lambda ended, index=index: self._done.put((index, ended)))

    def _collect(self) -> None:
        """All that is done by now: fetching values one by one takes 8 ms each."""
        ended: dict[int, Future[Answer]] = {}
        with suppress(Empty):
            index, future = self._done.get(timeout=POLL_SECONDS)
            ended[index] = future
            while True:
                index, future = self._done.get_nowait()
                ended[index] = future
        self._check_workers()
        outcomes = self._outcomes(ended)
        for index, outcome in outcomes.items():
            del self._pending[index]
            if outcome.failed:
                self._failures[index] = outcome
            else:
                self._failures.pop(index, None)
                self._tally.settle(index, outcome)
        if not outcomes:
            self._tally.report()

    def _outcomes(self, ended: dict[int, Future[Answer]]) -> dict[int, Outcome[Any]]:
        if any(_is_lost(future) for future in ended.values()) and not self._is_reached():
            raise WarplensError(f"the Dask scheduler at {self._connection.address} is gone, or has cancelled the tasks")
        finished = {index: future for index, future in ended.items() if future.status == "finished"}
        try:
            answers: dict[int, Answer] = dict(zip(finished, self._client.gather(list(finished.values())), strict=True))
        except KilledWorker:  # one that died with its value, and again when Dask made that anew
            answers = {}
        return {
            index: _outcome(answers[index]) if index in answers else self._failure(index, future)
            for index, future in ended.items()
        }

    def _failure(self, index: int, future: Future[Answer]) -> Outcome[Any]:
        if _is_lost(future):  # its worker died with the value, and so did the one that was to make it anew
            self._died.add(index)
            return Outcome(reason=DIED)
        error = future.exception()
        if error is None:
            return _outcome(future.result())
        if isinstance(error, KilledWorker):
            self._died.add(index)
        return Outcome(reason=_reason(error))

    def _is_reached(self) -> bool:
        try:
            return self._client.status == "running" and self._client.nthreads() is not None
        except OSError:
            return False

    def _check_workers(self) -> None:
        """At most once a second: the answer grows with the number of workers."""
        now = time.monotonic()
        if now < self._next_check:
            return
        try:
            workers = len(self._client.nthreads()) if self._client.status == "running" else None
        except OSError:
            workers = None
        if workers is None:
            raise WarplensError(f"the Dask scheduler at {self._connection.address} is gone")
        self._tally.workers = workers
        self._next_check = time.monotonic() + POLL_SECONDS
        self._last_worker = now if self._tally.workers else self._last_worker
        if now - self._last_worker > PATIENCE_SECONDS and not self._connection.is_queued:
            raise WarplensError(
                f"the Dask scheduler at {self._connection.address} has had no worker for {PATIENCE_SECONDS:.0f} s",
                hint=f"start some: dask worker {self._connection.address} --nthreads 1",
            )


def _is_lost(future: Future[Answer]) -> bool:
    return future.status in ("cancelled", "lost")


def _outcome(answer: Answer) -> Outcome[Any]:
    if answer.differences:
        raise UsageError(f"the worker on {answer.host} has {listed(answer.differences)}", hint=EQUAL_VERSIONS)
    return answer.outcome


def _reason(error: BaseException | None) -> str:
    """Why a task has no answer; raises where every other would fail likewise."""
    if isinstance(error, KilledWorker):
        return DIED
    causes = (error, getattr(error, "__cause__", None))
    missing = next((cause for cause in causes if isinstance(cause, ModuleNotFoundError)), None)
    if missing is not None:
        raise UsageError(f"a machine of the cluster has no module {missing.name!r}", hint=EQUAL_VERSIONS)
    return f"Dask: {type(error).__name__}: {' '.join(str(error).split())}"


def _notes(client: Client, items: Sequence[Item[Any]]) -> list[str]:
    workers = client.scheduler_info()["workers"].values()
    notes = []
    if threads := max((worker["nthreads"] for worker in workers), default=1) - 1:
        notes.append(f"workers run {threads + 1} ranks at a time in one process; start them with --nthreads 1")
    limit = min((worker["memory_limit"] for worker in workers if worker["memory_limit"]), default=None)
    needed = needed_bytes(max(item.size_bytes for item in items))
    if limit is not None and limit < needed:
        notes.append(f"workers may use {format_bytes(limit)}, but the largest rank needs about {format_bytes(needed)}")
    return notes
