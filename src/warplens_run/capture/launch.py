"""Running a program as Python itself would, and knowing how it ended."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib.util
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NoReturn

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.torch_device import NO_KERNEL, gpu_trouble

SIGNAL_BASE: Final = 128
ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What a scheduler or a closed terminal sends: what was recorded is still written."""
LARGEST_STATUS: Final = 0xFF
C_LONG: Final = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Program:
    """What to run: a name to show, its text (for what it imports) and how to run it."""

    name: str
    source: str
    run: Callable[[], int]
    is_own: bool = False
    """Part of Warplens: what it raises as a `WarplensError` is one line to say, and no crash."""


@dataclass(frozen=True)
class ProgramOutcome:
    """How a program ended: the exit status to pass on, and one word for it."""

    exit_code: int
    status: str
    error: str = ""


def program_of(words: Sequence[str]) -> Program:
    """What `python words…` would run: a script, or a module after `-m`."""
    return module(words[1], words[2:]) if words[0] == "-m" else script(words[0], words[1:])


def script(path: str, args: Sequence[str]) -> Program:
    """`python path args…`."""
    script_path = Path(path)
    try:
        text = script_path.read_bytes()
    except (OSError, ValueError) as error:
        hint = "name a script, a module or a workload"
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}", hint=hint) from None
    # The program may change its directory and still read `__file__`.
    file = str(script_path.absolute())

    def run() -> int:
        sys.argv = [path, *args]
        _put_first(str(script_path.resolve().parent))
        _execute(compile(text, file, "exec", dont_inherit=True), file, None)
        return 0

    return Program(script_path.stem, text.decode("utf-8", "replace"), run)


def module(name: str, args: Sequence[str]) -> Program:
    """`python -m name args…`."""
    _put_first(str(Path.cwd()))
    spec = _module_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _module_spec(f"{name}.__main__")
        if spec is None:
            raise UsageError(f"{name!r} is a package without a __main__, and cannot be run")
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name) if spec is not None else None
    if spec is None or code is None:
        raise UsageError(f"no module {name!r}" + (" with Python code" if spec else ""))
    text = ""
    if spec.origin:
        with contextlib.suppress(OSError):
            text = Path(spec.origin).read_text(encoding="utf-8", errors="replace")

    def run() -> int:
        sys.argv = [spec.origin or name, *args]
        _execute(code, spec.origin, spec)
        return 0

    return Program(name.rpartition(".")[2], text, run)


def _module_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise UsageError(f"no module {name!r} ({error})") from None


def _put_first(folder: str) -> None:
    """Where a program's own modules are looked for, in the place of where Warplens was started from."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


_replaced_mains: list[Any] = []
"""The module that was `__main__` before: its code is still running."""


def _execute(code: CodeType, file: str | None, spec: ModuleSpec | None) -> None:
    """Run code as `__main__`, which it stays: handlers at exit, threads and pickles ask for it later."""
    main = types.ModuleType("__main__")
    loader = spec.loader if spec else SourceFileLoader("__main__", file or "")
    main.__dict__.update(
        __file__=file, __spec__=spec, __loader__=loader, __package__=spec.parent if spec else None, __cached__=None,
        __builtins__=builtins,
    )  # fmt: skip
    _replaced_mains.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # the user's own program, which is what was asked for


def supervise(program: Program) -> ProgramOutcome:
    """Run a program to its end, whatever that is; only what cannot be caught ends this process."""
    with _terminable():
        outcome = _ended(program.run, is_own=program.is_own)
        if outcome.status in ("interrupted", "terminated"):
            return outcome
        # As Python does before it ends: work handed to executors, and threads that are not daemons.
        waited = _ended(lambda: threading._shutdown() or 0, is_own=False)  # type: ignore[attr-defined]
        return outcome if waited.status == "complete" else waited


def _ended(run: Callable[[], int], *, is_own: bool) -> ProgramOutcome:
    try:
        code = run()
    except SystemExit as ended:
        return _of_exit(ended)
    except KeyboardInterrupt:
        return ProgramOutcome(SIGNAL_BASE + signal.SIGINT, "interrupted")
    except BaseException as error:
        if is_own and isinstance(error, WarplensError):
            raise
        _show(error)  # the program's own failure, as Python would
        _explain(error)
        return ProgramOutcome(1, "crashed", f"{type(error).__name__}: {error}"[:500])
    return ProgramOutcome(code, "complete" if code == 0 else "failed")


class _Terminated(SystemExit):
    """One of the signals in ENDING."""


_handled_signals: set[int] = set()
"""The signals that `_Terminated` stands for now."""


def _on_signal(number: int, _: FrameType | None) -> None:
    raise _Terminated(SIGNAL_BASE + number)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    with _handled(_on_signal) as signals:
        _handled_signals.update(signals)
        try:
            yield
        finally:
            _handled_signals.clear()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """While a bundle is being written: a signal to end comes too late to be heeded, and would cost the bundle."""
    with _handled(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(handler: Any) -> Iterator[list[int]]:
    """Handles the signals in ENDING that have no handler; handlers that the program sets itself stay."""
    signals = []
    if threading.current_thread() is threading.main_thread():
        signals = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in signals:
        signal.signal(number, handler)
    try:
        yield signals
    finally:
        for number in signals:
            if signal.getsignal(number) is handler:
                signal.signal(number, signal.SIG_DFL)


class _Fork:
    """A forked child ends by a signal as any process does: its parent asks with which.

    The signals wait while a process forks: one that came between would find a handler that is no longer there.
    """

    def __init__(self) -> None:
        self._mask: set[Any] | None = None

    def before(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handled_signals) if _handled_signals else None

    def in_parent(self) -> None:
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def in_child(self) -> None:
        for number in _handled_signals:
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, signal.SIG_DFL)
        _handled_signals.clear()
        self.in_parent()


if hasattr(os, "register_at_fork"):
    _fork = _Fork()
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.in_parent, after_in_child=_fork.in_child)


def _of_exit(ended: SystemExit) -> ProgramOutcome:
    if isinstance(ended, _Terminated):
        return ProgramOutcome(int(str(ended.code)), "terminated")
    if ended.code is None or isinstance(ended.code, int):
        code = ended.code or 0
        # As Python does: the lowest byte of what fits a C long.
        code = code & LARGEST_STATUS if code in C_LONG else LARGEST_STATUS
        return ProgramOutcome(code, "complete" if code == 0 else "failed")
    print(ended.code, file=sys.stderr)  # noqa: T201 - as Python shows sys.exit("text")
    return ProgramOutcome(1, "failed", str(ended.code)[:500])


def _show(error: BaseException) -> None:
    shown = error.with_traceback(_without_own_frames(error.__traceback__))
    try:
        sys.excepthook(type(shown), shown, shown.__traceback__)
    except BaseException:  # noqa: BLE001 - a hook of the program's that fails itself
        traceback.print_exception(type(shown), shown, shown.__traceback__)


def _explain(error: BaseException) -> None:
    """A build of PyTorch without kernels for the GPU: CUDA names neither of them."""
    if NO_KERNEL in str(error) and "torch" in sys.modules and (trouble := gpu_trouble(sys.modules["torch"])):
        print(f"\n{trouble.message}\n\nhint: {trouble.hint}", file=sys.stderr)  # noqa: T201 - below the traceback


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def leave(code: int) -> NoReturn:
    """End a forked child as Python would, less the last part: a profiler inherited from its parent aborts in that."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def rank() -> tuple[int, int]:
    """(rank, world size) of this process, as torchrun says them."""
    try:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 0, 1
