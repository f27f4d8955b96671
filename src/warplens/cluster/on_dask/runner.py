"""The client's side. Workers may join late: until the first one does, progress shows none.

A task whose worker died is submitted once more, alone: Dask cannot tell the task that killed a worker from those that
waited in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import suppress
from typing import Any, Final, ParamSpec

import distributed
from distributed import Client, KilledWorker

from warplens.cluster.on_dask.connecting import Connection
from warplens.cluster.on_dask.task import Answer, Request, own_versions, run
from warplens.cluster.records import A, Item, OnProgress, Outcome, Progress, R, no_progress
from warplens.cluster.runner import POLL_SECONDS, Runner
from warplens.cluster.sizes import needed_bytes
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import format_bytes, listed

P = ParamSpec("P")

PATIENCE_SECONDS: Final = 300.0
"""Without a single worker; a batch system may take longer, and is waited for."""
EQUAL_VERSIONS: Final = "install the same versions of Python, warplens and its packages on every machine of the cluster"
DIED: Final = "its worker died each time, as they do where memory runs out"


class DaskExecutor(Executor):
    """The workers of a client. Dask's own `ClientExecutor` waits forever for a value that died with its worker."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waited_for: dict[Future[Any], distributed.Future[Any]] = {}

    def submit(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> Future[R]:
        """Dask starts what was submitted first, first."""
        future: Future[R] = Future()
        answer = self._client.submit(function, *args, pure=False, **named)
        self._waited_for[future] = answer
        future.add_done_callback(self._waited_for.pop)
        self._client.loop.add_callback(_settle, future, answer)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The client stays open."""
        if cancel_futures:
            with suppress(Exception):  # a scheduler that is gone
                self._client.cancel(list(self._waited_for.values()), force=True)


async def _settle(future: Future[R], answer: distributed.Future[R]) -> None:
    """Values that are ready at the same time are fetched together: one by one it takes 8 ms each."""
    try:
        value = await answer
    except BaseException as error:  # noqa: BLE001 - whatever it is, the future has to end
        future.set_exception(error)
    else:
        future.set_result(value)


class DaskRunner(Runner):
    """`connect` is called for the first items, whose number and size decide how large an own cluster is."""

    def __init__(self, connect: Callable[[Sequence[Item[Any]]], Connection]) -> None:
        self.notes = []
        self._connect = connect
        self._connection: Connection | None = None
        self._workers = 0
        self._last_worker = self._next_check = 0.0

    def map(
        self, task: Callable[[A], R], items: Sequence[Item[A]], on_progress: OnProgress = no_progress
    ) -> list[Outcome[R]]:
        if not items:
            return []
        on_progress(Progress(0, len(items), 0.0, 0.0, workers=0))
        self._connection = connection = self._connection or self._connect(items)
        self.executor = DaskExecutor(connection.client)
        self._last_worker = time.monotonic()
        outcomes = super().map(task, items, on_progress)
        self.notes = _notes(connection.client, items)
        return outcomes

    def submit(self, name: str, argument: Any) -> Future[Any]:
        return self.executor.submit(run, Request(name, argument, own_versions()))

    def outcome(self, future: Future[Any]) -> Outcome[Any] | None:
        error = future.exception()
        if error is None:
            return _outcome(future.result())
        if isinstance(error, (CancelledError, asyncio.CancelledError)):
            self._count_workers(" or has cancelled the tasks")
            return None  # its worker died with the value, and so did the one that was to make it anew
        return None if isinstance(error, KilledWorker) else Outcome(reason=_reason(error))

    def alone(self, name: str, argument: Any) -> Outcome[Any]:
        future = self.submit(name, argument)
        try:
            while not wait([future], POLL_SECONDS).done:
                self.watch()
        except BaseException:
            self.cancel([future])
            raise
        return self.outcome(future) or Outcome(reason=DIED)

    def watch(self) -> int:
        """Asks at most once a second: the answer grows with the number of workers."""
        now = time.monotonic()
        if now >= self._next_check:
            self._workers = self._count_workers()
            self._next_check = time.monotonic() + POLL_SECONDS
            self._last_worker = now if self._workers else self._last_worker
            if now - self._last_worker > PATIENCE_SECONDS and not self._connected.is_queued:
                raise WarplensError(
                    f"the Dask scheduler at {self._connected.address} has had no worker for {PATIENCE_SECONDS:.0f} s",
                    hint=f"start some: dask worker {self._connected.address} --nthreads 1",
                )
        return self._workers

    def cancel(self, _pending: Iterable[Future[Any]]) -> None:
        """All at once; what a worker has begun is run to its end."""
        self.executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _count_workers(self, otherwise: str = "") -> int:
        client = self._connected.client
        with suppress(OSError):
            if client.status == "running":
                return len(client.nthreads())
        raise WarplensError(f"the Dask scheduler at {self._connected.address} is gone{otherwise}")


def _outcome(answer: Answer) -> Outcome[Any]:
    if answer.differences:
        raise UsageError(f"the worker on {answer.host} has {listed(answer.differences)}", hint=EQUAL_VERSIONS)
    return answer.outcome


def _reason(error: BaseException) -> str:
    """Why a task has no answer; raises where every other would fail likewise."""
    missing = next((each for each in (error, error.__cause__) if isinstance(each, ModuleNotFoundError)), None)
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
