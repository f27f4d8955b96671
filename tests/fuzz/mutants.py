"""Damaged files of every kind through every reader: `python tests/fuzz/mutants.py --count 50000 --seed 1 --out DIR`.

A mutant opens and adds up, or is refused with one line. What else it does is a failure and is kept in DIR, with the
cause: an exception that is not Warplens' own, a warning, 10 s of CPU time, memory beyond 64 times the file, totals that
contradict each other, the end of the process. `--first N --count 1` repeats mutant N of the same seed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import watched
from mutant_subjects import MAIN, SUBJECTS, Files, check_opened
from support import SAMPLES
from watched import Fuzzer, Outcome

GROWTH = 64
LEAST_GROWTH = 64 << 20
"""Files here are of some kilobytes; this is what the tables of any file may take."""
THOROUGH = 8
"""Every table is computed of one mutant in so many; kernels, categories and modules of all."""


def judged(number: int, subject: str, files: Files, folder: Path) -> Outcome:
    size = sum(map(len, files.values()))
    thorough = crc32(files[MAIN]) % THOROUGH == 0
    before, began = watched.resident_now(), time.process_time()
    result, cause = watched.result_of(lambda: SUBJECTS[subject].check(folder / MAIN, files, thorough))
    printed = watched.printed()
    if not cause and printed:
        result, cause = "foreign exception", f"printed: {printed}"
    cpu_ms, growth = 1e3 * (time.process_time() - began), watched.resident_peak() - before
    if not cause and growth > max(GROWTH * size, LEAST_GROWTH):
        result, cause = "growth", f"{growth:,} bytes of memory for a file of {size:,}"
    return Outcome(number, subject, result, cause, size, cpu_ms, growth)


def _files(files: Any) -> Files:
    return files  # type: ignore[no-any-return]


FUZZER = Fuzzer(
    __file__,
    "mutants",
    list(SUBJECTS),
    lambda names, _, rng: rng.choices(names, weights=[SUBJECTS[name].weight for name in names])[0],
    lambda subject, rng: SUBJECTS[subject].make(rng),
    _files,
    judged,
    lambda: check_opened(SAMPLES[0], {}, thorough=True),
    cpu_seconds=10,
)


def main(words: Sequence[str] | None = None) -> int:
    return watched.main(FUZZER, (__doc__ or "").partition("\n")[0], words)


if __name__ == "__main__":
    sys.exit(main())
