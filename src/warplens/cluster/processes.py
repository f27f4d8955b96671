"""Processes of this machine, as an executor: a `ProcessPoolExecutor` that never imports the caller's script."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Lock, Thread
from types import ModuleType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from warplens_run.base.machine import CORES, usable_cores
from warplens_run.processes.child import ending_of

P = ParamSpec("P")
R = TypeVar("R")

SETTINGS: Final = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Cores are shared out by rank; threads on top of that only take turns. Both are read when the library is loaded."""
START_SETTINGS: Final = {
    "PYTHONSAFEPATH": "1",  # else Python searches the current folder first, and it may hold anything
    "PYTHONWARNINGS": "ignore:resource_tracker",  # of semaphores that a killed process leaves, and it then removes
}
_starting: Final = Lock()


class LocalProcesses(Executor):
    """Each runs one task at a time; leaving the block ends them, whatever they are doing, with all they started.

    Where one dies, those that were running end too, and the next task is run by fresh ones.
    """

    def __init__(self, processes: int, cores: int = 0) -> None:
        """`cores` is what each may use; without a number they share what there is."""
        self._count = processes
        self._cores = cores or max(1, usable_cores() // processes)
        self._start()

    def _start(self) -> None:
        self._workers: list[_Worker] = []
        with _start_settings() as settings:
            self._pool = ProcessPoolExecutor(self._count, _Context(self._workers), _begin, (self._cores, settings))

    def submit(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> Future[R]:
        try:
            return self._submit(function, *args, **named)
        except BrokenExecutor:
            self.end()
            self._start()
            return self._submit(function, *args, **named)

    def _submit(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> Future[R]:
        with _start_settings():  # a process is started when there is work for it
            return self._pool.submit(function, *args, **named)

    def ending(self) -> str:
        """How the first process ended, after a future has said that it did."""
        self._pool.shutdown()
        return ending_of(self._workers[0].exitcode or 0)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def end(self) -> None:
        """With all that they started; from any thread."""
        for worker in self._workers:
            worker.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        # After Ctrl-C a process may have been ended in the middle of an answer, whose rest would be waited for.
        self.shutdown(wait=error is None)


class _Context(SpawnContext):
    def __init__(self, workers: list[_Worker]) -> None:
        super().__init__()
        self._workers = workers

    def Process(self, *args: Any, **named: Any) -> _Worker:  # type: ignore[override]  # noqa: N802 - a name of Python's
        worker = _Worker(*args, **named)
        self._workers.append(worker)
        return worker


class _Worker(SpawnProcess):
    def start(self) -> None:
        """Without the caller's script, which Python would run again; deaf to the Ctrl-C of a terminal, which we hear.

        Signals that are blocked while a process starts are blocked in it.
        """
        script = sys.modules["__main__"]
        mask = getattr(signal, "pthread_sigmask", lambda *_: ())  # Windows has none
        before = mask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            sys.modules["__main__"] = ModuleType("__main__")
            super().start()
        finally:
            sys.modules["__main__"] = script
            mask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        if self.pid is not None and self.exitcode is None:  # once it is reaped, another may have its number
            if hasattr(os, "killpg"):
                with suppress(OSError):  # it leads no group before it has begun
                    os.killpg(self.pid, signal.SIGKILL)
            self.kill()


@contextmanager
def _start_settings() -> Iterator[dict[str, str | None]]:
    """Yields what was set before, which processes get back."""
    with _starting:
        before = {name: os.environ.get(name) for name in START_SETTINGS}
        try:
            os.environ.update(START_SETTINGS)
            yield before
        finally:
            _set(before)


def _set(settings: dict[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _begin(cores: int, settings: dict[str, str | None]) -> None:
    """The first thing in a process: what tasks print goes to stderr, and the process ends when its parent does."""
    _set({**settings, **SETTINGS, CORES: str(cores)})
    os.dup2(2, 1)
    if hasattr(os, "setsid"):
        os.setsid()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
