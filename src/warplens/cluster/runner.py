"""Runs one task per item on an executor, the largest item first, and collects values, reasons and progress.

A task that fails is run once more after all others; alone, if its process died, because the usual cause is memory.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from multiprocessing import current_process
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final

from warplens.cluster.attempt import attempt, attempt_by_name, described, name_of
from warplens.cluster.processes import LocalProcesses
from warplens.cluster.records import A, Item, OnProgress, Outcome, R, Tally, no_progress
from warplens.cluster.sizes import process_count
from warplens_run.base.errors import WarplensError

POLL_SECONDS: Final = 1.0


class Runner:
    """On an executor of the caller's, which gets all tasks at once and stays open."""

    most_at_once = sys.maxsize
    """Tasks that are submitted and not yet answered."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.notes: list[str] = []
        """What the user should know of the last run: a cluster that is set up badly."""

    def map(
        self, task: Callable[[A], R], items: Sequence[Item[A]], on_progress: OnProgress = no_progress
    ) -> list[Outcome[R]]:
        """Outcomes in the order of the items. `task` is a function of a module, not a lambda or a method.

        A task that raises, or whose process dies, is tried once more; then its outcome has the reason. Ctrl-C ends
        what runs and is raised on.
        """
        return _Run(self, name_of(task), Tally(items, on_progress)).outcomes()

    def submit(self, name: str, argument: Any) -> Future[Any]:
        return self.executor.submit(attempt_by_name, name, argument)

    def outcome(self, future: Future[Any]) -> Outcome[Any] | None:
        """Of a future that is done; None where the task's process died."""
        if future.cancelled():
            return Outcome(reason="it was cancelled")
        error = future.exception()
        if error is not None:
            return None if isinstance(error, BrokenExecutor) else Outcome(reason=described(error))
        outcome: Outcome[Any] = future.result()
        return outcome

    def alone(self, name: str, argument: Any) -> Outcome[Any]:
        """The second attempt at a task whose process died, in a process of its own."""
        try:
            with LocalProcesses(1) as process:
                future = process.submit(attempt_by_name, name, argument)
                return self.outcome(future) or Outcome(reason=process.ending())
        except OSError as error:
            return Outcome(reason=f"its process could not be started: {error.strerror or error}")

    def watch(self) -> int | None:
        """How many workers a cluster has, asked once a second and after each answer; raises where no other can come."""
        return None

    def cancel(self, pending: Iterable[Future[Any]]) -> None:
        """Ctrl-C, or an error that is every rank's: what has not begun never does."""
        for future in pending:
            future.cancel()

    def close(self) -> None:
        """End what was started here."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalRunner(Runner):
    """On processes of this machine; `processes`: None chooses by cores, memory and work; 0 is the caller's own."""

    executor: LocalProcesses

    def __init__(self, processes: int | None = None) -> None:
        self.notes = []
        self._processes = processes

    def map(
        self, task: Callable[[A], R], items: Sequence[Item[A]], on_progress: OnProgress = no_progress
    ) -> list[Outcome[R]]:
        self.most_at_once = process_count(items) if self._processes is None else min(self._processes, len(items))
        if not self.most_at_once or current_process().daemon:  # one of a `multiprocessing.Pool` may start no others
            return _in_turn(task, Tally(items, on_progress))
        try:
            processes = LocalProcesses(self.most_at_once)
        except (OSError, ImportError, NotImplementedError) as error:  # no semaphores, as in some containers
            self.notes = [f"ranks are read one after the other, because no processes can be started: {error}"]
            return _in_turn(task, Tally(items, on_progress))
        with processes as self.executor:
            return super().map(task, items, on_progress)

    def alone(self, name: str, argument: Any) -> Outcome[Any]:
        self.executor.end()  # its processes are idle, and keep memory
        return super().alone(name, argument)

    def cancel(self, pending: Iterable[Future[Any]]) -> None:
        """Nothing: its processes end."""


def _in_turn(task: Callable[[A], R], tally: Tally) -> list[Outcome[R]]:
    for index in tally.largest_first():
        argument = tally.items[index].argument
        outcome = attempt(task, argument)
        tally.settle(index, attempt(task, argument) if outcome.failed and not outcome.is_final else outcome)
    return tally.result()


class _Run:
    """One `map`: what is submitted and not yet answered, and what has failed."""

    def __init__(self, runner: Runner, name: str, tally: Tally) -> None:
        self._runner, self._name, self._tally = runner, name, tally
        self._pending: dict[int, Future[Any]] = {}
        self._done: SimpleQueue[int] = SimpleQueue()
        self._failures: dict[int, Outcome[Any]] = {}
        self._died: set[int] = set()

    def outcomes(self) -> list[Outcome[Any]]:
        self._tally.report()
        self._attempt(self._tally.largest_first())
        self._attempt(list(self._failures))
        for index in sorted(self._died):
            outcome = self._runner.alone(self._name, self._tally.items[index].argument)
            self._tally.settle(index, outcome)
        for index, outcome in self._failures.items():
            self._tally.settle(index, outcome)
        return self._tally.result()

    def _attempt(self, indices: Sequence[int]) -> None:
        waiting = deque(indices)
        try:
            while waiting or self._pending:
                while waiting and len(self._pending) < self._runner.most_at_once:
                    self._submit(waiting.popleft())
                self._collect()
        finally:
            if self._pending:
                self._runner.cancel(self._pending.values())

    def _submit(self, index: int) -> None:
        try:
            future = self._runner.submit(self._name, self._tally.items[index].argument)
        except (BrokenExecutor, OSError):
            self._take(index, None)
        except RuntimeError as error:
            raise WarplensError(f"the executor takes no tasks: {error}") from error
        else:
            self._pending[index] = future
            future.add_done_callback(lambda _future: self._done.put(index))

    def _collect(self) -> None:
        try:
            index = self._done.get(timeout=POLL_SECONDS) if self._pending else None
        except Empty:
            index = None
        self._tally.workers = self._runner.watch()
        if index is None:
            self._tally.report()
        else:
            self._take(index, self._runner.outcome(self._pending.pop(index)))

    def _take(self, index: int, outcome: Outcome[Any] | None) -> None:
        self._failures.pop(index, None)
        if outcome is None:
            self._died.add(index)
        elif outcome.failed and not outcome.is_final:
            self._failures[index] = outcome
        else:
            self._tally.settle(index, outcome)
