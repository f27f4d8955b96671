"""Runs Python programs as `subprocess.run` does, in processes that need not load PyTorch anew: it takes 2.5 s.

Each program has a process of its own, forked from one that has loaded some libraries and done nothing else. What
depends on how a process starts, or is sent signals, is run with `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import warplens
from support import HANG_SECONDS

TORCH = ("torch",)
OPTIMIZER = ("torch", "torch._inductor", "torch._dynamo")
"""What building an optimizer loads as well, which takes 2 s more; nothing else of the compiler is used by it."""
TRANSFORMERS = (*OPTIMIZER, "transformers")


def run(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], libraries: tuple[str, ...] = TORCH
) -> subprocess.CompletedProcess[str]:
    """`python words…` with nothing to read, where these libraries are loaded; its output is captured."""
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
        Path(os.devnull).open() as nothing,
    ):
        request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
        streams = [nothing.fileno(), output.fileno(), errors.fileno()]
        template = _template(libraries)
        socket.send_fds(template, [json.dumps(request).encode()], streams)
        status = json.loads(template.recv(64))
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([sys.executable, *words], status, output.read(), errors.read())


@lru_cache
def _template(libraries: tuple[str, ...]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(HANG_SECONDS)
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    script = Path(__file__).with_name("warm_template.py")
    command = [sys.executable, str(script), str(theirs.fileno()), *libraries]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
