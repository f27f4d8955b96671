"""Runs Python programs as `subprocess` does, in processes that need not load PyTorch anew: it takes 2.5 s.

Each program has a process of its own, forked from one that has loaded some libraries and done nothing else: the workers
of a run have it together. What depends on how a process starts is run with `subprocess` itself.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import warplens
from support import HANG_SECONDS
from warm_template import turn

TORCH = ("torch",)
OPTIMIZER = ("torch", "torch._inductor", "torch._dynamo")
"""What building an optimizer loads as well, which takes 2 s more; nothing else of the compiler is used by it."""
MODELS = tuple(f"transformers.models.{name}.modeling_{name}" for name in ("bloom", "gpt2", "llama"))
TRANSFORMERS = (*OPTIMIZER, "transformers", "transformers.generation", *MODELS)
TRITON = (
    "torch", "torch.utils.benchmark", "torch.fx.experimental.symbolic_shapes",
    "triton", "triton.testing", "triton.profiler", "triton.compiler.code_generator",
)  # fmt: skip
"""Where kernels are compiled, and scripts run for their launches: not for the interpreter, which Triton chooses as it
is loaded."""
_starting = threading.Lock()
shared_folder: Path | None = None
"""Of the workers of a run, which have one template together. Alone, a process has templates of its own."""


def share(folder: Path) -> None:
    global shared_folder
    shared_folder = folder


@lru_cache
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="warplens-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _folder() -> Path:
    return shared_folder or _own_folder()


def run(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    libraries: tuple[str, ...] = TORCH,
) -> subprocess.CompletedProcess[str]:
    """`python words…` where these libraries are loaded, with nothing to read; its output is captured."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        streams = [subprocess.DEVNULL, output.fileno(), errors.fileno()]
        status = _Process(words, folder, environment, libraries, streams).wait(HANG_SECONDS)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([sys.executable, *words], status, output.read(), errors.read())


def run_ranks(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], libraries: tuple[str, ...], ranks: int
) -> list[subprocess.CompletedProcess[str]]:
    """As torchrun starts them: `warplens` under torchrun itself is tested with a smaller program."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        master = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(probe.getsockname()[1])}

    def run_rank(rank: str) -> subprocess.CompletedProcess[str]:
        of_rank = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        return run(words, folder, {**environment, **master, **of_rank}, libraries)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run_rank, map(str, range(ranks))))


class WarmSubprocess:
    """What `processes.child` may take for the module `subprocess`: children of some modules have libraries loaded."""

    PIPE, DEVNULL, TimeoutExpired = subprocess.PIPE, subprocess.DEVNULL, subprocess.TimeoutExpired

    def __init__(self, libraries: tuple[str, ...], modules: tuple[str, ...], others: Any = subprocess) -> None:
        self._libraries, self._modules, self._others = libraries, modules, others

    def Popen(  # noqa: N802 - the name that it stands for
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int,
        stderr: int | IO[Any] | None = None,
        start_new_session: bool = False,
    ) -> Any:
        if command[0] != sys.executable or not command[2].startswith(self._modules):
            return self._others.Popen(command, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr,
                                      start_new_session=start_new_session)  # fmt: skip
        errors = 2 if stderr is None else stderr if isinstance(stderr, int) else stderr.fileno()
        streams = [stdin, stdout, errors]
        return _Process(command[1:], cwd or Path.cwd(), env, self._libraries, streams, start_new_session)


class _Process:
    """As `subprocess.Popen`: streams are numbers of open files, PIPE, or DEVNULL."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        libraries: tuple[str, ...],
        streams: Sequence[int],
        own_session: bool = False,
        passed: int | None = None,
    ) -> None:
        """`passed` is another open file, whose number there takes the place of its number here among the words."""
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        theirs = [self._opened(number, stream) for number, stream in enumerate(streams)]
        answers, theirs_to_answer = os.pipe()
        request = {
            "words": list(words),
            "folder": str(folder),
            "environment": dict(environment),
            "own_session": own_session,
            "passed": str(passed),
        }
        sent = [*theirs, theirs_to_answer, *([] if passed is None else [passed])]
        socket.send_fds(_template(libraries), [json.dumps(request).encode()], sent)
        for file, stream in zip([*theirs, theirs_to_answer], [*streams, subprocess.PIPE], strict=True):
            if file != stream:
                os.close(file)
        self._answers = os.fdopen(answers, "rb", buffering=0)
        self.pid = self._answer()

    def _opened(self, number: int, stream: int) -> int:
        if stream == subprocess.DEVNULL:
            return os.open(os.devnull, os.O_RDWR)
        if stream != subprocess.PIPE:
            return stream
        reading, writing = os.pipe()
        if number == 0:
            self.stdin = os.fdopen(writing, "wb")
            return reading
        self.stdout = os.fdopen(reading, "rb")
        return writing

    def _answer(self) -> int:
        digits = b""
        while not digits.endswith(b"\n"):
            digits += self._answers.read(1) or b"\n"
        return int(digits)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout)
            self.returncode = self._answer()
            self._answers.close()
        return self.returncode

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end at this moment, as any other process
                os.kill(self.pid, number)


def _template(libraries: tuple[str, ...]) -> socket.socket:
    with _starting:
        return _started(libraries)


@lru_cache
def _started(libraries: tuple[str, ...]) -> socket.socket:
    """A connection to the template that has loaded them; it ends when nobody is connected with it."""
    name = _name(libraries)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    begun = [known for known in (TORCH, OPTIMIZER) if known != libraries and libraries[: len(known)] == known]
    if not _connected(ours, name):
        first = _started(begun[-1]) if begun else None
        with turn(_lock()):
            if not _is_connected_now(ours, name):
                _start(libraries, name, first)
                ours.connect(name)
    atexit.register(ours.close)
    return ours


def _name(libraries: tuple[str, ...]) -> str:
    """In Linux' own space of names: it is gone with the process, and has no length that a folder may exceed."""
    words = " ".join([str(_folder()), *libraries])
    return f"\0warplens-tests-{hashlib.blake2b(words.encode(), digest_size=16).hexdigest()}"


def _lock() -> Path:
    return _folder() / "templates.lock"


def _connected(ours: socket.socket, name: str) -> bool:
    with turn(_lock()):
        return _is_connected_now(ours, name)


def _is_connected_now(ours: socket.socket, name: str) -> bool:
    try:
        ours.connect(name)
    except ConnectionRefusedError:
        return False
    return True


def _start(libraries: tuple[str, ...], name: str, first: socket.socket | None) -> None:
    """From the start, or from a fork of a template that has loaded the first of the libraries."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(name)
        listener.listen()
        if first is not None:
            socket.send_fds(first, [json.dumps({"libraries": libraries}).encode()], [listener.fileno()])
            return
        # Nor with what that test set for Triton, which chooses its interpreter as it is loaded.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
        environment = {**inherited, "PYTHONPATH": str(Path(warplens.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        script = Path(__file__).with_name("warm_template.py")
        command = [sys.executable, str(script), str(listener.fileno()), str(_lock()), *libraries]
        # Not in the folder of the test that asks first, which is removed before others load more libraries.
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], env=environment, cwd=script.parent)
    atexit.register(_leave, process)


def _leave(process: subprocess.Popen[bytes]) -> None:
    """Other workers may still be connected with it."""
    if shared_folder:
        process.returncode = 0
    else:
        process.wait()
