"""A Python process that loads libraries once and gives a fork of itself to whoever asks; see `warm_python`.

A fork goes on as `python -m module …` or `python script …` would, from its directory and environment to its exit
status: only that those libraries are loaded already, and that they are not taken apart at its end, which takes PyTorch
a second.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BYTES = 1 << 20
UNUSED_SECONDS = 60
"""After this a template that nobody has connected with ends."""


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Whoever connects with a template, and a template that is about to end, has its turn."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def serve(listener: socket.socket, lock: Path, libraries: list[str]) -> list[str] | None:
    """The words of the command in a fork; None in the template, at its end.

    A fork that is to be the template of more libraries goes on here, with a listener of its own.
    """
    connections: list[socket.socket] = []
    _load(libraries)
    while True:
        ready = select.select([listener, *connections], [], [], None if connections else UNUSED_SECONDS)[0]
        if not ready and _ends(listener, lock):
            return None
        for connection in ready:
            if connection is listener:
                connections.append(listener.accept()[0])
                continue
            message, files, _, _ = socket.recv_fds(connection, BYTES, 5)
            _reap(os.WNOHANG)
            if not message:
                connections.remove(connection)
                connection.close()
                if not connections and _ends(listener, lock):
                    return None
            elif os.fork() == 0:
                for each in (listener, *connections):
                    each.close()
                request = json.loads(message)
                if "libraries" not in request:
                    number = str(files[4]) if files[4:] else ""
                    request["words"] = [number if word == request["passed"] else word for word in request["words"]]
                    return _watched(request, files[:3], files[3])
                listener, connections = socket.socket(fileno=files[0]), []
                _load(request["libraries"])
                break
            for file in files:
                os.close(file)


def _ends(listener: socket.socket, lock: Path) -> bool:
    """Not so where somebody has connected meanwhile."""
    with turn(lock):
        if select.select([listener], [], [], 0)[0]:
            return False
        listener.close()
    _reap(0)
    return True


def _load(libraries: list[str]) -> None:
    for library in libraries:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()  # what forks share stays shared


def _reap(options: int) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _watched(request: dict[str, Any], streams: list[int], answers: int) -> list[str]:
    """The words of the command in the process that is to run it; its parent only says its number and its status."""
    child = os.fork()
    if child == 0:
        os.close(answers)
        return _become(request, streams)
    for stream in streams:
        os.close(stream)
    os.write(answers, b"%d\n" % child)
    os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> list[str]:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Whether it can seek, Python asks a stream only once.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they stay open
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    if request["own_session"]:
        os.setsid()
    before, after = os.environ.get("PYTHONPATH", ""), request["environment"].get("PYTHONPATH", "")
    sys.path[1 : 1 + len(_entries(before))] = _entries(after)
    sys.dont_write_bytecode = bool(request["environment"].get("PYTHONDONTWRITEBYTECODE"))
    os.environ.clear()
    os.environ.update(request["environment"])
    words: list[str] = request["words"]
    return words


def _entries(path: str) -> list[str]:
    return [entry for entry in path.split(os.pathsep) if entry]


def run(words: list[str]) -> None:
    """As the interpreter does with its own command line."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], str(Path.cwd())
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # what `python -m` calls
    else:
        sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def status_of(words: list[str]) -> int:
    """Runs the command; negative where a signal ends it."""
    try:
        run(words)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever it is, the interpreter prints it
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(status: int) -> None:
    """As the interpreter does, in its order; only then modules would be taken apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    words = serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3:])
    end(0 if words is None else status_of(words))
