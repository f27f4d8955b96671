"""Running a program as Python itself would, and knowing how it ended."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from warplens.errors import UsageError, WarplensError

SIGNAL_BASE: Final = 128
OWN_FILES: Final = (__file__, runpy.__file__, "<frozen runpy>")


@dataclass(frozen=True)
class Program:
    """What to run: a name to show, its text (for what it imports) and how to run it."""

    name: str
    source: str
    run: Callable[[], int]


@dataclass(frozen=True)
class Outcome:
    """How a program ended: the exit status to pass on, and one word for it."""

    exit_code: int
    status: str
    error: str = ""


def script(path: str, args: Sequence[str]) -> Program:
    """`python path args…`."""
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "give a script, -m MODULE, or workload NAME"
        raise UsageError(f"{path}: {error.strerror or error}", hint=hint) from None

    def run() -> int:
        sys.argv = [path, *args]
        sys.path[0] = str(place.resolve().parent)
        runpy.run_path(str(place), run_name="__main__")
        return 0

    return Program(place.stem, text, run)


def module(name: str, args: Sequence[str]) -> Program:
    """`python -m name args…`."""
    sys.path[0] = str(Path.cwd())
    try:
        found = importlib.util.find_spec(name)
        found = importlib.util.find_spec(f"{name}.__main__") if found and found.submodule_search_locations else found
    except (ImportError, ValueError) as error:
        raise UsageError(f"no module {name!r} ({error})") from None
    if found is None:
        raise UsageError(f"no module {name!r}")
    text = ""
    if found.origin:
        with contextlib.suppress(OSError):
            text = Path(found.origin).read_text(encoding="utf-8", errors="replace")

    def run() -> int:
        sys.argv = [name, *args]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return 0

    return Program(name.rpartition(".")[2], text, run)


def supervise(program: Program) -> Outcome:
    """Run a program to its end, whatever that is; only what cannot be caught ends this process."""
    try:
        with _terminable():
            code = program.run()
    except SystemExit as ended:
        return _of_exit(ended)
    except KeyboardInterrupt:
        return Outcome(SIGNAL_BASE + signal.SIGINT, "interrupted")
    except WarplensError:
        raise  # a workload that cannot run says so in one line
    except BaseException as error:  # noqa: BLE001 - the program's own failure, shown as Python would
        traceback.print_exception(type(error), error, _without_own_frames(error.__traceback__))
        return Outcome(1, "crashed", f"{type(error).__name__}: {error}"[:500])
    return Outcome(code, "complete" if code == 0 else "failed")


class _Terminated(SystemExit):
    """SIGTERM, as a scheduler sends before it kills: what was recorded is still written."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    def on_signal(number: int, _: FrameType | None) -> None:
        raise _Terminated(SIGNAL_BASE + number)

    try:
        before: Any = signal.signal(signal.SIGTERM, on_signal)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _of_exit(ended: SystemExit) -> Outcome:
    if isinstance(ended, _Terminated):
        return Outcome(int(str(ended.code)), "terminated")
    if ended.code is None or isinstance(ended.code, int):
        code = ended.code or 0
        return Outcome(code & 0xFF, "complete" if code == 0 else "failed")
    print(ended.code, file=sys.stderr)  # noqa: T201 - as Python shows sys.exit("text")
    return Outcome(1, "failed", str(ended.code)[:500])


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on."""
    while trace is not None and trace.tb_frame.f_code.co_filename in OWN_FILES:
        trace = trace.tb_next
    return trace


def rank() -> tuple[int, int]:
    """(rank, world size) of this process, as torchrun says them."""
    try:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 0, 1
