"""A clock that calls back on the main thread, between two of the program's own instructions.

PyTorch's profiler is ended by the thread that began it, and a program without marks never calls Warplens by itself.
Python's own queue of pending calls gets there without a signal, which would break off the program's system calls.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

TICK_SECONDS: Final = 0.25
"""Between two looks at what a program is doing."""
REDELIVERY_SECONDS: Final = 0.05
IMPORTS: Final = "<frozen importlib."
CALLING_OPS: Final = ("nn/", "optim/", "amp/", "utils/data/", "utils/_contextlib.py", "_dynamo/")
"""The parts of PyTorch that call ops and are not called by any."""
_PENDING: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Ticker:
    """Calls back every so many seconds until it is stopped."""

    def __init__(self, seconds: float, called: Callable[[], None]) -> None:
        self._seconds, self._called = seconds, called
        self._stopped = threading.Event()
        self._missed: int | None = None
        self._is_queued = False
        """Whether a call waits or runs: Python 3.11 hangs if another is queued while one begins to trace Python's
        functions, as a profiler with stacks does."""
        self._callback: Any = _PENDING(self._on_main_thread)
        threading.Thread(target=self._run, name="warplens ticker", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(REDELIVERY_SECONDS if self._missed else self._seconds):
            if self._missed is not None:
                number, self._missed = self._missed, None
                os.kill(os.getpid(), number)
            elif not self._is_queued:
                self._is_queued = True
                ctypes.pythonapi.Py_AddPendingCall(self._callback, None)

    def _on_main_thread(self, _: Any) -> int:
        try:
            if not self._stopped.is_set():
                self._called()
        # Nothing can be raised from here; a signal that came meanwhile is sent once more.
        except KeyboardInterrupt:
            self._missed = signal.SIGINT
        except SystemExit:
            self._missed = signal.SIGTERM
        finally:
            self._is_queued = False
        return 0


def running_files() -> Iterator[str]:
    """The files of the functions that run on this thread, inner ones first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def is_importing() -> bool:
    """Whether this thread is importing a module."""
    return any(file.startswith(IMPORTS) for file in running_files())


def is_inside_op() -> bool:
    """Whether this thread may be inside an op of PyTorch's that calls Python: a profiler that ends there crashes."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.__file__:
        return False
    folder = str(Path(torch.__file__).parent) + os.sep
    files = (file.removeprefix(folder) for file in running_files() if file.startswith(folder))
    return any(not file.startswith(CALLING_OPS) for file in files)
