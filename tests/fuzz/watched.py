"""Files that are made by number, and opened in a process that is watched: what `mutants.py` and `grammars.py` share.

A file is opened, or refused with one line. What else happens is a failure and is kept with its cause: an exception that
is not Warplens' own, a warning, too much CPU time or memory, totals that contradict each other, the end of the process.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO, Any, Literal

FAILURES = ("foreign exception", "warning", "hang", "growth", "wrong totals", "process died", "bad output")
WALL_SECONDS = 300
"""Of a process that gets no processor: others may use the machine."""
FILES_PER_PROCESS = 4000
STDERR = Path("/proc/self/fd/2")


@dataclass
class Outcome:
    """Of one file; `cause` is empty where nothing is wrong."""

    number: int
    subject: str
    result: str
    cause: str = ""
    bytes: int = 0
    cpu_ms: float = 0.0
    growth: int = 0


@dataclass(frozen=True)
class Fuzzer:
    """Kinds of files, how one is made, and what must hold of it."""

    script: str
    what: str
    kinds: Sequence[str]
    pick: Callable[[Sequence[str], int, Random], str]
    """One of these kinds for a number."""
    make: Callable[[str, Random], Any]
    files: Callable[[Any], Mapping[str, bytes]]
    """The files of what was made, by name."""
    judge: Callable[[int, str, Any, Path], Outcome]
    warm: Callable[[], object]
    """What loading the libraries takes is not the first file's."""
    cpu_seconds: int
    address_space: int = 0
    """Of a process, in bytes; 0 for no limit."""
    warnings: Literal["error", "always"] = "error"
    """Raised, or printed, as the command line does."""

    def made(self, number: int, seed: int, kinds: Sequence[str]) -> tuple[str, Any]:
        """The file of a number, with its kind. The same in every process."""
        rng = Random(f"{seed}/{number}")
        subject = self.pick([name for name in self.kinds if not kinds or name in kinds], number, rng)
        return subject, self.make(subject, rng)


@dataclass
class Tally:
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0

    def add(self, outcome: Outcome) -> None:
        self.results[outcome.subject, outcome.result] += 1
        self.slowest = max(self.slowest, outcome.cpu_ms)
        self.largest = max(self.largest, outcome.growth)
        if outcome.cause:
            self.causes[outcome.result] += 1

    def lines(self, what: str) -> Iterator[str]:
        subjects = sorted({subject for subject, _ in self.results})
        yield f"{'reader':24} {'opened':>8} {'refused':>8} {'failed':>8}"
        for subject in subjects:
            found = {result: count for (of, result), count in self.results.items() if of == subject}
            opened, refused = found.pop("opened", 0), found.pop("refused", 0)
            yield f"{subject:24} {opened:8,} {refused:8,} {sum(found.values()):8,}"
        yield f"{what} {self.results.total():,}; slowest {self.slowest:.0f} ms of CPU; most memory {self.largest >> 20} MiB"
        for result in FAILURES:
            yield f"{result}: {self.causes[result]:,}"


def result_of(check: Callable[[], object]) -> tuple[str, str]:
    """How a check ended, and the cause where that is a failure."""
    from warplens_run.base.errors import WarplensError

    try:
        check()
    except WarplensError as error:
        line = str(error)
        return ("foreign exception", f"an error of several lines: {line!r}") if "\n" in line else ("refused", "")
    except AssertionError:
        return "wrong totals", traceback.format_exc()
    except Warning:
        return "warning", traceback.format_exc()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - that is what is looked for; panics of Polars are no `Exception`
        return "foreign exception", traceback.format_exc()
    return "opened", ""


def printed(stream: Path = STDERR, descriptor: int = 2) -> str:
    """What was written to a stream that is a file, since the last time: panics of Polars are caught, but printed."""
    with stream.open("rb+") as file:
        text = file.read()
        file.truncate(0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return text.decode("utf-8", "replace")


def resident_now() -> int:
    """Of this process; the peak begins anew."""
    from warplens_run.base.machine import return_memory

    return_memory()  # or growth into what earlier files left free would not count
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def resident_peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def say(value: dict[str, Any]) -> None:
    """One line to the process that watches, which counts the CPU time from it on."""
    os.write(_protocol, json.dumps(value).encode() + b"\n")


_protocol = 1


def work(fuzzer: Fuzzer, arguments: argparse.Namespace) -> int:
    """The process that opens files: a line before each, and its outcome after it."""
    global _protocol
    warnings.simplefilter(fuzzer.warnings)
    if fuzzer.address_space:
        resource.setrlimit(resource.RLIMIT_AS, (fuzzer.address_space, fuzzer.address_space))
    with TemporaryDirectory(prefix="fuzz-") as name, arguments.stack.open("w") as stack:
        os.environ["WARPLENS_CACHE"] = f"{name}/cache"
        _protocol = os.dup(1)
        for descriptor in (1, 2):
            os.dup2(os.open(f"{name}/printed{descriptor}", os.O_CREAT | os.O_RDWR), descriptor)
        faulthandler.enable(stack)
        faulthandler.register(signal.SIGUSR1, stack)
        fuzzer.warm()
        for number in range(arguments.first, arguments.first + arguments.count):
            say({"begins": number})
            try:
                subject, made = fuzzer.made(number, arguments.seed, arguments.kind)
            except BaseException:
                traceback.print_exc(file=stack)
                raise
            with TemporaryDirectory(dir=name) as folder:
                for file, content in fuzzer.files(made).items():
                    path = Path(folder, file)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                outcome = fuzzer.judge(number, subject, made, Path(folder))
            say(asdict(outcome))
    return 0


def watch(fuzzer: Fuzzer, arguments: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes of all files, in processes that are replaced when they end or hang."""
    first, last = arguments.first, arguments.first + arguments.count
    while first < last and time.monotonic() < arguments.ends:
        process = _start(fuzzer, arguments, first, min(FILES_PER_PROCESS, last - first))
        begun, running = first - 1, ""
        for line in _lines(process, fuzzer.cpu_seconds):
            value = json.loads(line)
            if "begins" in value:
                begun, running = value["begins"], ""
            elif "runs" in value:
                running = value["runs"]
            else:
                first = value["number"] + 1
                yield Outcome(**value)
                if time.monotonic() >= arguments.ends:
                    process.kill()
        ending = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if ending and time.monotonic() < arguments.ends:
            number = max(begun, first)
            subject, made = fuzzer.made(number, arguments.seed, arguments.kind)
            result = "hang" if ending == -9 else "process died"
            cause = f"{running}\n{arguments.stack.read_text()}\nexit status {ending}"
            yield Outcome(number, subject, result, cause, sum(map(len, fuzzer.files(made).values())))
            first = number + 1


def _start(fuzzer: Fuzzer, arguments: argparse.Namespace, first: int, count: int) -> subprocess.Popen[bytes]:
    kinds = [word for kind in arguments.kind for word in ("--kind", kind)]
    command = [sys.executable, fuzzer.script, "--worker", "--seed", str(arguments.seed), "--first", str(first)]
    where = ["--stack", str(arguments.stack)]
    return subprocess.Popen([*command, "--count", str(count), *where, *kinds], stdout=subprocess.PIPE)


def _lines(process: subprocess.Popen[bytes], cpu_seconds: int) -> Iterator[bytes]:
    """Of the process; one that says nothing for too long is killed, and says before where it was."""
    stream: IO[bytes] | None = process.stdout
    assert stream is not None
    rest, quiet_since, cpu_then = b"", time.monotonic(), 0.0
    while True:
        ready, _, _ = select.select([stream], [], [], 1.0)
        if ready:
            part = os.read(stream.fileno(), 1 << 16)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from whole
            quiet_since, cpu_then = time.monotonic(), _cpu_seconds(process.pid)
        elif _cpu_seconds(process.pid) - cpu_then > cpu_seconds or time.monotonic() - quiet_since > WALL_SECONDS:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            process.kill()


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _keep(fuzzer: Fuzzer, outcome: Outcome, arguments: argparse.Namespace) -> None:
    """The files of a failure and its cause, in a folder of its own."""
    _, made = fuzzer.made(outcome.number, arguments.seed, arguments.kind)
    folder = arguments.out / f"{outcome.result.replace(' ', '-')}-{outcome.number}"
    for name, content in fuzzer.files(made).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    folder.joinpath("cause.txt").write_text(f"{outcome.subject}\n{outcome.cause}\n", errors="backslashreplace")


def main(fuzzer: Fuzzer, description: str, words: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--count", type=int, default=1000, help=f"{fuzzer.what} to try (default 1000)")
    add("--seconds", type=float, default=float("inf"), help="stop after this time")
    add("--first", type=int, default=0, help="number of the first one")
    add("--seed", type=int, default=1)
    add("--kind", action="append", default=[], help="only this reader; repeatable")
    add("--out", type=Path, default=Path(f"build/{fuzzer.what}"), help="folder for failures and the report")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    add("--stack", type=Path, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.worker:
        return work(fuzzer, arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.stack = arguments.out / "stack.txt"
    began = time.monotonic()
    arguments.ends = began + arguments.seconds
    tally = Tally()
    for outcome in watch(fuzzer, arguments):
        tally.add(outcome)
        if outcome.cause:
            _keep(fuzzer, outcome, arguments)
            last = outcome.cause.strip().splitlines()[-1][:300]
            print(f"{outcome.result} {outcome.number} ({outcome.subject}): {last}", flush=True)
        if tally.results.total() % 1000 == 0:
            print(f"{tally.results.total():,} {fuzzer.what} in {time.monotonic() - began:.0f} s", flush=True)
    report = "\n".join([f"seed {arguments.seed}, from {arguments.first}", *tally.lines(fuzzer.what)])
    print(report)
    (arguments.out / "report.txt").write_text(report + "\n")
    return 1 if tally.causes else 0
