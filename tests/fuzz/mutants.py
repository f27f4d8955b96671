"""Damaged files of every kind through every reader: `python tests/fuzz/mutants.py --count 50000 --seed 1 --out DIR`.

A mutant opens and adds up, or is refused with one line. What else it does is a failure and is kept in DIR, with the
cause: an exception that is not Warplens' own, a warning, 10 s of CPU time, memory beyond 64 times the file, totals that
contradict each other, the end of the process. `--first N --count 1` repeats mutant N of the same seed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO, Any
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parents[1]))

CPU_SECONDS = 10
WALL_SECONDS = 300
"""Of a process that gets no processor: others may use the machine."""
GROWTH = 64
LEAST_GROWTH = 64 << 20
"""Files here are of some kilobytes; this is what the tables of any file may take."""
THOROUGH = 8
"""Every table is computed of one mutant in so many; kernels, categories and modules of all."""
MUTANTS_PER_PROCESS = 4000
STDERR = Path("/proc/self/fd/2")


@dataclass
class Outcome:
    """Of one mutant; `cause` is empty where nothing is wrong."""

    number: int
    subject: str
    result: str
    cause: str = ""
    bytes: int = 0
    cpu_ms: float = 0.0
    growth: int = 0


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

    def lines(self) -> Iterator[str]:
        subjects = sorted({subject for subject, _ in self.results})
        yield f"{'reader':24} {'opened':>8} {'refused':>8} {'failed':>8}"
        for subject in subjects:
            found = {result: count for (of, result), count in self.results.items() if of == subject}
            opened, refused = found.pop("opened", 0), found.pop("refused", 0)
            yield f"{subject:24} {opened:8,} {refused:8,} {sum(found.values()):8,}"
        yield f"mutants {self.results.total():,}; slowest {self.slowest:.0f} ms of CPU; most memory {self.largest >> 20} MiB"
        for result in ("foreign exception", "warning", "hang", "growth", "wrong totals", "process died"):
            yield f"{result}: {self.causes[result]:,}"


def made(number: int, seed: int, kinds: Sequence[str]) -> tuple[str, Any]:
    """The mutant of a number: its subject, and its files by name. The same in every process."""
    from mutant_subjects import SUBJECTS

    rng = Random(f"{seed}/{number}")
    names = [name for name in SUBJECTS if not kinds or name in kinds]
    subject = rng.choices(names, weights=[SUBJECTS[name].weight for name in names])[0]
    return subject, SUBJECTS[subject].make(rng)


def judged(number: int, subject: str, files: Any, folder: Path) -> Outcome:
    from mutant_subjects import MAIN, SUBJECTS

    for name, content in files.items():
        folder.joinpath(name).write_bytes(content)
    size = sum(map(len, files.values()))
    thorough = crc32(files[MAIN]) % THOROUGH == 0
    before, began = _resident_now(), time.process_time()
    result, cause = _result(lambda: SUBJECTS[subject].check(folder / MAIN, files, thorough))
    printed = _printed()
    if not cause and printed:
        result, cause = "foreign exception", f"printed: {printed}"
    cpu_ms, growth = 1e3 * (time.process_time() - began), _resident_peak() - before
    if not cause and growth > max(GROWTH * size, LEAST_GROWTH):
        result, cause = "growth", f"{growth:,} bytes of memory for a file of {size:,}"
    return Outcome(number, subject, result, cause, size, cpu_ms, growth)


def _result(check: Any) -> tuple[str, str]:
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
    except Exception:  # noqa: BLE001 - that is what is looked for
        return "foreign exception", traceback.format_exc()
    return "opened", ""


def _printed() -> str:
    """What libraries wrote to stderr since the last mutant: panics of Polars are caught, but printed before that."""
    with STDERR.open("rb+") as stream:
        text = stream.read()
        stream.truncate(0)
    os.lseek(2, 0, os.SEEK_SET)
    return text.decode("utf-8", "replace")


def _resident_now() -> int:
    """Of this process; the peak begins anew."""
    from warplens_run.base.machine import return_memory

    return_memory()  # or growth into what earlier mutants left free would not count
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _resident_peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def work(arguments: argparse.Namespace) -> int:
    """The process that opens mutants: a line before each, and its outcome after it."""
    from mutant_subjects import check_opened
    from support import SAMPLES

    warnings.simplefilter("error")
    with TemporaryDirectory(prefix="mutants-") as name:
        os.environ["WARPLENS_CACHE"] = f"{name}/cache"
        log = os.open(f"{name}/stderr", os.O_CREAT | os.O_RDWR)
        os.dup2(log, 2)
        folder = Path(name)
        check_opened(SAMPLES[0], {}, thorough=True)  # what loading the libraries takes is not the first mutant's
        for number in range(arguments.first, arguments.first + arguments.count):
            subject, files = made(number, arguments.seed, arguments.kind)
            print(json.dumps({"begins": number}), flush=True)
            outcome = judged(number, subject, files, folder)
            print(json.dumps(asdict(outcome)), flush=True)
    return 0


def watch(arguments: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes of all mutants, in processes that are replaced when they end or hang."""
    first, last = arguments.first, arguments.first + arguments.count
    while first < last:
        process = _start(arguments, first, min(MUTANTS_PER_PROCESS, last - first))
        begun = first - 1
        for line in _lines(process):
            value = json.loads(line)
            if "begins" in value:
                begun = value["begins"]
            else:
                first = value["number"] + 1
                yield Outcome(**value)
        ending = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if ending:
            number = max(begun, first)
            subject, files = made(number, arguments.seed, arguments.kind)
            result = "hang" if ending == -9 else "process died"
            yield Outcome(number, subject, result, f"exit status {ending}", sum(map(len, files.values())))
            first = number + 1


def _start(arguments: argparse.Namespace, first: int, count: int) -> subprocess.Popen[bytes]:
    kinds = [word for kind in arguments.kind for word in ("--kind", kind)]
    command = [sys.executable, __file__, "--worker", "--seed", str(arguments.seed), "--first", str(first)]
    return subprocess.Popen([*command, "--count", str(count), *kinds], stdout=subprocess.PIPE)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Of the process; one that says nothing for too long is killed."""
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
        elif _cpu_seconds(process.pid) - cpu_then > CPU_SECONDS or time.monotonic() - quiet_since > WALL_SECONDS:
            process.kill()


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def keep(outcome: Outcome, arguments: argparse.Namespace) -> None:
    """The files of a failure and its cause, in a folder of its own."""
    subject, files = made(outcome.number, arguments.seed, arguments.kind)
    folder = arguments.out / f"{outcome.result.replace(' ', '-')}-{outcome.number}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        folder.joinpath(name).write_bytes(content)
    folder.joinpath("cause.txt").write_text(f"{subject}\n{outcome.cause}\n", errors="backslashreplace")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--count", type=int, default=1000, help="mutants to try (default 1000)")
    add("--first", type=int, default=0, help="number of the first one")
    add("--seed", type=int, default=1)
    add("--kind", action="append", default=[], help="only this reader; repeatable")
    add("--out", type=Path, default=Path("build/mutants"), help="folder for failures and the report")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.worker:
        return work(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    tally, began = Tally(), time.monotonic()
    for outcome in watch(arguments):
        tally.add(outcome)
        if outcome.cause:
            keep(outcome, arguments)
            print(
                f"{outcome.result} {outcome.number} ({outcome.subject}): {outcome.cause.splitlines()[-1]}", flush=True
            )
        if tally.results.total() % 1000 == 0:
            print(f"{tally.results.total():,} mutants in {time.monotonic() - began:.0f} s", flush=True)
    report = "\n".join([f"seed {arguments.seed}, from {arguments.first}", *tally.lines()])
    print(report)
    (arguments.out / "report.txt").write_text(report + "\n")
    return 1 if tally.causes else 0


if __name__ == "__main__":
    sys.exit(main())
