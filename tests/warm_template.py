"""A Python process that loads libraries once and gives a fork of itself to whoever asks; see `warm_python`.

A fork goes on as `python -m module …` or `python script …` would, from its directory and environment to its exit
status: only that those libraries are loaded already.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

BYTES = 1 << 20


def serve(connection: socket.socket, libraries: list[str]) -> list[str] | None:
    """The words of the command in a fork; None in the template, at its end."""
    for library in libraries:
        importlib.import_module(library)
    while True:
        message, files, _, _ = socket.recv_fds(connection, BYTES, 4)
        _reap(os.WNOHANG)
        if not message:
            _reap(0)
            return None
        if os.fork() == 0:
            connection.close()
            return _watched(json.loads(message), files[:3], files[3])
        for file in files:
            os.close(file)


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


if __name__ == "__main__":
    words = serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    if words is not None:
        run(words)
