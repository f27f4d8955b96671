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
from pathlib import Path

BYTES = 1 << 20


def serve(connection: socket.socket, libraries: list[str]) -> list[str] | None:
    """The words of the command in a fork; None in the template, at its end."""
    for library in libraries:
        importlib.import_module(library)
    while True:
        message, streams, _, _ = socket.recv_fds(connection, BYTES, 3)
        if not message:
            return None
        child = os.fork()
        if child == 0:
            connection.close()
            return _become(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(json.dumps(status).encode())


def _become(request: dict[str, object], streams: list[int]) -> list[str]:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    words, folder, environment = request["words"], request["folder"], request["environment"]
    assert isinstance(words, list) and isinstance(folder, str) and isinstance(environment, dict)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return words


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
