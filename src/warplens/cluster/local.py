"""The default executor: processes of this machine, one rank each at a time.

A thread per process feeds it; the caller's thread collects. A process that dies costs one attempt of one item: it is
tried again after all others, in a fresh process, and alone, because the usual reason is memory.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any

from warplens.cluster.attempt import attempt, name_of
from warplens.cluster.child import Child
from warplens.cluster.executor import ATTEMPTS, A, Item, OnProgress, Outcome, R, Tally, no_progress
from warplens.cluster.sizes import process_count
from warplens.machine import usable_cores

Answer = tuple[int, bytes | None, str]
"""An item's index, its pickled outcome, and without one the reason."""


class LocalExecutor:
    """`processes`: None chooses by cores, memory and work; 0 runs everything in the caller's process."""

    name = "this machine"

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes
        self.notes: list[str] = []

    def map(
        self, task: Callable[[A], R], items: Sequence[Item[A]], on_progress: OnProgress = no_progress
    ) -> list[Outcome[R]]:
        tally = Tally(items, on_progress)
        processes = process_count(items) if self._processes is None else min(self._processes, len(items))
        if processes:
            _map_in_processes(name_of(task), tally, processes)
        else:
            for index in tally.largest_first():
                tally.settle(index, _attempts(task, items[index].argument))
        return tally.result()

    def close(self) -> None:
        """Nothing outlives a `map`."""

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _attempts(task: Callable[[Any], Any], argument: Any) -> Outcome[Any]:
    for _ in range(ATTEMPTS - 1):
        outcome = attempt(task, argument)
        if not outcome.failed:
            return outcome
    return attempt(task, argument)


def _map_in_processes(name: str, tally: Tally, processes: int) -> None:
    requests = {index: pickle.dumps((name, tally.items[index].argument)) for index in tally.largest_first()}
    tally.report()
    for attempts_left in reversed(range(ATTEMPTS)):
        again: dict[int, bytes] = {}
        has_died = False
        with _Round(requests, processes) as answers:
            for _ in requests:
                index, answer, reason = answers.get()
                # From our own child over our own pipe, not something from a file.
                outcome = Outcome(reason=reason) if answer is None else pickle.loads(answer)
                has_died |= answer is None
                if outcome.failed and attempts_left:
                    again[index] = requests[index]
                else:
                    tally.settle(index, outcome)
        requests = again
        processes = 1 if has_died else min(processes, len(again))


class _Round:
    """One attempt at each request. Leaving the block ends all processes, whatever they are doing."""

    def __init__(self, requests: dict[int, bytes], processes: int) -> None:
        self._waiting = deque(requests.items())
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._children: set[Child] = set()
        self._lock = Lock()
        self._stopped = False
        self._cores = max(1, usable_cores() // max(1, processes))
        self._threads = [Thread(target=self._feed, daemon=True) for _ in range(min(processes, len(requests)))]

    def __enter__(self) -> SimpleQueue[Answer]:
        for thread in self._threads:
            thread.start()
        return self._answers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._stopped = True
            children = list(self._children)
        for child in children:
            child.kill()
        for thread in self._threads:
            thread.join()

    def _feed(self) -> None:
        child: Child | None = None
        while (request := self._next()) is not None:
            index, message = request
            try:
                child = child or self._start()
            except OSError as error:
                self._answers.put((index, None, f"its process could not be started: {error.strerror or error}"))
                continue
            if child is None:
                return
            answer = child.ask(message)
            reason = self._ended(child) if answer is None else ""
            child = child if answer is not None else None
            self._answers.put((index, answer, reason))
        if child is not None:
            self._ended(child, expected=True)

    def _next(self) -> tuple[int, bytes] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._stopped else None

    def _start(self) -> Child | None:
        """None once the round is over. Under the lock, so that no process is started while all are being ended."""
        with self._lock:
            if self._stopped:
                return None
            child = Child(self._cores)
            self._children.add(child)
            return child

    def _ended(self, child: Child, *, expected: bool = False) -> str:
        reason = ""
        if expected:
            child.close()
        else:
            reason = child.ended()
        with self._lock:
            self._children.discard(child)
        return reason
