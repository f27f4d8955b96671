"""`warplens energy`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from warplens_run.base.errors import UsageError
from warplens_run.base.torch_device import has_gpu, where_gpus_are
from warplens_run.base.units import format_joule
from warplens_run.cli.files import file_to_write
from warplens_run.cli.options import add_json, between
from warplens_run.cli.printing import note, print_err, write_bytes
from warplens_run.cli.verb import Verb
from warplens_run.formats.records import save_json
from warplens_run.meter.window import EnergyWindow

if TYPE_CHECKING:
    import subprocess

CANNOT_RUN: Final = 126
SIGNALLED: Final = 128
FROM_TERMINAL: Final = ("SIGINT", "SIGQUIT", "SIGHUP")
"""A terminal sends these to the command as well, so they are passed on only where none does."""
PASSED_ON: Final = (*FROM_TERMINAL, "SIGTERM", "SIGUSR1", "SIGUSR2")


class EnergyVerb(Verb):
    """Run a command and report the energy that the GPUs use meanwhile.

      warplens energy -- python3 train.py
      warplens energy --idle 2 --device 0 -- ./a.out

    The figures are of the whole GPU, whatever process uses it, and of every visible GPU unless --device selects
    some. As with `time`, the command's output stays as it is and the figures go to stderr. With --json they go to
    stdout as one JSON array with an object per GPU, after the command, whose own stdout goes to stderr; with -o
    they are written to a file, and -o alone redirects nothing. The exit status is the command's; signals are passed
    on to the command, and the energy until then is still reported. Without a meter the command runs all the same.
    """

    name = "energy"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "warplens energy [options] -- command [args]"
        parser.add_argument(
            "--device", default="all", metavar="N|all", help="GPUs by number, such as 0 or 0,1 (default all)"
        )
        parser.add_argument(
            "--idle",
            type=between(0, 600, "a time in seconds"),
            default=0.0,
            metavar="SECONDS",
            help="measure the idle power first, for this long; energy above it is active energy",
        )
        add_json(parser, "the figures; the command's stdout goes to stderr")
        parser.add_argument("-o", "--output", default="", metavar="FILE", help="write the figures as JSON to a file")
        parser.add_argument(
            "command", nargs=argparse.REMAINDER, metavar="command", help="command to run, with its arguments"
        )

    def run(self, args: argparse.Namespace) -> int:
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
        if not command:
            raise UsageError("no command to run", hint="warplens energy -- python3 train.py")
        if shutil.which(command[0]) is None:
            raise UsageError(f"no command {command[0]!r}", hint="for a shell built-in: sh -c '…'")
        target = _target(args.output, command)
        window = EnergyWindow(_devices(args.device), idle=args.idle)
        with ExitStack() as until_measured, window:
            relay = until_measured.enter_context(_passing_signals())
            status, seconds = _run(command, relay, args.json)
        rows = _rows(window, seconds)
        for line in () if args.json else _lines(window):
            print_err(line)
        if window.note:
            note(window.note if window.devices or has_gpu() else f"{window.note} ({where_gpus_are()})")
        if args.json:
            write_bytes(json.dumps(rows, indent=1, ensure_ascii=False).encode())
        if target is not None:
            _write(target, rows)
        return status


def _devices(text: str) -> tuple[int, ...] | None:
    if text == "all":
        return None
    try:
        return tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise UsageError(f"--device {text!r} is not valid", hint="all, 0, or a list such as 0,1") from None


def _target(output: str, command: Sequence[str]) -> Path | None:
    """Where the figures go; what would fail after the command had run fails before."""
    return file_to_write(output, inputs=command) if output else None


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    save_json(path, rows)


def _run(command: Sequence[str], relay: SignalRelay, is_redirected: bool) -> tuple[int, float]:
    """The command's exit status as a shell would have it, and how long it ran."""
    import subprocess

    sys.stdout.flush()
    start = time.perf_counter()
    try:
        process = subprocess.Popen(command, stdout=sys.stderr if is_redirected else None)
    except OSError as error:
        print_err(f"error: {command[0]}: {error.strerror}")
        return CANNOT_RUN, 0.0
    relay.attach(process)
    code = process.wait()
    return code if code >= 0 else SIGNALLED - code, time.perf_counter() - start


class SignalRelay:
    """Passes signals on to the command; one that comes while the command is being started reaches it right after."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def receive(self, number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in FROM_TERMINAL and _is_in_foreground():
            return
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


@contextmanager
def _passing_signals() -> Iterator[SignalRelay]:
    """Signals meant to end the command do not end its measurement."""
    relay = SignalRelay()
    numbers = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    # What is ignored, as under nohup, stays so: the command inherits that.
    chosen = [number for number in numbers if before[number] != signal.SIG_IGN]
    for number in chosen:
        signal.signal(number, relay.receive)
    try:
        yield relay
    finally:
        for number in chosen:
            signal.signal(number, before[number])


def _is_in_foreground() -> bool:
    """Whether a terminal's keys reach this process, and with it the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _rows(window: EnergyWindow, command_seconds: float) -> list[dict[str, Any]]:
    """One per GPU; where none could be measured, one that says why."""
    ending = {"command_seconds": command_seconds, "note": window.note}
    names = ("device", "gpu", "meter", "joules", "seconds", "watts", "idle_watts", "active_joules")
    if not window.devices:
        return [dict.fromkeys(names) | ending]
    return [{name: getattr(device, name) for name in names} | ending for device in window.devices]


def _lines(window: EnergyWindow) -> Iterator[str]:
    for device in window.devices:
        label = f"GPU {device.device} {device.gpu}"
        yield _line(label, device.joules, device.seconds, device.watts, device.idle_watts, device.active_joules)
    if len(window.devices) > 1 and window.joules is not None and window.seconds and window.watts is not None:
        yield _line("total", window.joules, window.seconds, window.watts, window.idle_watts, window.active_joules)


def _line(label: str, joules: float, seconds: float, watts: float, idle: float | None, active: float | None) -> str:
    text = f"{label}: {format_joule(joules)} in {seconds:.2f} s, {watts:.1f} W on average"
    return text if idle is None or active is None else f"{text}; idle {idle:.1f} W, active {format_joule(active)}"
