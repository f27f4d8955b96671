"""A clock that calls back on the main thread, between two of the program's own instructions.

PyTorch's profiler is ended by the thread that began it, and a program without marks never calls Warplens by itself.
Python's own queue of pending calls gets there without a signal, which would break off the program's system calls.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

REDELIVERY_SECONDS: Final = 0.05
_PENDING: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Ticker:
    """Calls until it is stopped."""

    def __init__(self, seconds: float, called: Callable[[], None]) -> None:
        self._seconds, self._called = seconds, called
        self._stopped = threading.Event()
        self._missed: int | None = None
        self._callback: Any = _PENDING(self._on_main_thread)
        threading.Thread(target=self._run, name="warplens ticker", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(REDELIVERY_SECONDS if self._missed else self._seconds):
            if self._missed is not None:
                number, self._missed = self._missed, None
                os.kill(os.getpid(), number)
            else:
                ctypes.pythonapi.Py_AddPendingCall(self._callback, None)

    def _on_main_thread(self, _: Any) -> int:
        if self._stopped.is_set():
            return 0
        try:
            self._called()
        # Nothing can be raised from here; a signal that came meanwhile is sent once more.
        except KeyboardInterrupt:
            self._missed = signal.SIGINT
        except SystemExit:
            self._missed = signal.SIGTERM
        return 0
