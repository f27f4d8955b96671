"""Files that know their format and lie in it: `python tests/fuzz/grammars.py --count 50000 --seed 1 --out DIR`.

Each file is opened and must add up, and goes through `report` and one other command, which are run as on the command
line. A failure is kept in DIR with its cause: a traceback, a refusal of more than one line, a warning, 20 s of CPU time
for one of the three, memory beyond 2 GB and 8 times the file, totals that contradict each other, raw control bytes, JSON
that is not valid, the end of the process. `--first N --count 1` repeats file N of the same seed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import watched
from grammar import binary, containers, events, tables
from grammar.commands import commands
from grammar.values import Case, Hostile
from mutant_subjects import check_opened
from support import SAMPLES
from watched import Fuzzer, Outcome

FORMATS = {**events.FORMATS, **binary.FORMATS, **tables.FORMATS, **containers.FORMATS}
CPU_SECONDS = 20
GROWTH = 8
FREE_GROWTH = 2 << 30
ADDRESS_SPACE = 6 << 30
LARGEST = 4 << 20
"""Of what is made, in bytes: what is packed in it can be more."""
SUMMED = ("trace", "paths", "tables")
"""Cases whose file is a profile that the library opens alone."""
RAW = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
NOT_LINES = re.compile(r"Traceback \(most recent|panicked at|internal error of Polars")
WARNING = re.compile(r"^[^\n]*\w+Warning: ", re.MULTILINE)
PREFACES = ("note: ", "warning: ", "hint: ")


def make(subject: str, rng: Random) -> Case:
    """A file of the format; one that became too large is made anew."""
    while True:
        case = FORMATS[subject](Hostile(rng))
        if sum(map(len, case.files.values())) < LARGEST:
            return case


def judged(number: int, subject: str, case: Case, folder: Path) -> Outcome:
    size = sum(map(len, case.files.values()))
    before, began = watched.resident_now(), time.process_time()
    results: list[tuple[str, str]] = []
    if case.verbs in SUMMED and not case.options:
        watched.say({"runs": "open"})
        results.append(watched.result_of(lambda: check_opened(folder / case.opened, {}, number % 8 == 0)))
        watched.printed()
    (folder / "out").mkdir()
    for words in commands(case, Random(number), folder):
        watched.say({"runs": shlex.join(words)})
        results.append(_ran(words, folder / "out"))
    cpu_ms, growth = 1e3 * (time.process_time() - began), watched.resident_peak() - before
    if growth > FREE_GROWTH + GROWTH * size:
        results.append(("growth", f"{growth:,} bytes of memory for a file of {size:,}"))
    failed = [(result, cause) for result, cause in results if cause]
    cause = "\n\n".join(cause for _, cause in failed).replace(str(folder), "FOLDER")
    return Outcome(number, subject, failed[0][0] if failed else results[0][0], cause, size, cpu_ms, growth)


def _ran(words: list[str], out: Path) -> tuple[str, str]:
    """How a command ended: opened, refused, or a failure with its cause."""
    from warplens.cli import main as command_line

    codes: list[int] = []
    result, cause = watched.result_of(lambda: codes.append(command_line(words)))
    sys.stdout.flush()
    sys.stderr.flush()
    written, errors = watched.printed(Path("/proc/self/fd/1"), 1), watched.printed()
    if not cause:
        result = "refused" if codes[0] else "opened"
        result, cause = _wrong_text(words, errors, written, bool(codes[0])) or _wrong_files(out) or (result, "")
    return result, f"{shlex.join(words)}\n{cause}" if cause else ""


def _wrong_text(words: list[str], errors: str, written: str, is_refused: bool) -> tuple[str, str] | None:
    lines = [line for line in errors.splitlines() if line and not line.startswith(PREFACES)]
    if NOT_LINES.search(errors):
        return "foreign exception", errors
    if WARNING.search(errors):
        return "warning", errors
    if "not enough memory" in errors:
        return "growth", errors
    if is_refused and not written and (len(lines) != 1 or not lines[0].startswith("error: ")):
        return "foreign exception", f"not one line: {errors[:2000]!r}"
    if RAW.search(errors) or ("--csv" not in words and RAW.search(written)):
        return "bad output", "raw control characters"
    if "--json" in words and not is_refused:
        return _wrong_json(written)
    return None


def _wrong_files(out: Path) -> tuple[str, str] | None:
    for path in out.rglob("*.json"):
        if (wrong := _wrong_json(path.read_text())) is not None:
            return wrong
    return None


def _wrong_json(text: str) -> tuple[str, str] | None:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} in JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return "bad output", f"{error}: {text[:200]!r}"
    return None


def warm() -> None:
    from warplens.cli import main as command_line
    from warplens_run.cli.streams import prepare_streams

    prepare_streams()
    check_opened(SAMPLES[0], {}, thorough=True)
    with contextlib.suppress(SystemExit):
        command_line(["report", str(SAMPLES[0])])
    watched.printed(Path("/proc/self/fd/1"), 1)
    watched.printed()


def _files(case: Any) -> dict[str, bytes]:
    return case.files  # type: ignore[no-any-return]


FUZZER = Fuzzer(
    __file__,
    "grammars",
    list(FORMATS),
    lambda names, number, _: names[number % len(names)],
    make,
    _files,
    judged,
    warm,
    CPU_SECONDS,
    ADDRESS_SPACE,
    "always",
)


def main(words: Sequence[str] | None = None) -> int:
    return watched.main(FUZZER, (__doc__ or "").partition("\n")[0], words)


if __name__ == "__main__":
    sys.exit(main())
