"""Checks answers in a process of its own: `python -m warplens.puzzles.worker request.json`.

The learner's code runs here and may hang, crash or print. One line of JSON per file goes to the real stdout; whatever
the kernels print goes to stderr. The launch that a report speaks of is left as a trace beside the request.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warplens.kernel_lab.tracing import save
from warplens.puzzles.catalogue import BY_NAME
from warplens.puzzles.checking import check_file
from warplens.puzzles.limits import time_limit


@dataclass(frozen=True)
class Job:
    file: str
    puzzle: str
    trace: str


@dataclass(frozen=True)
class Request:
    seconds: float
    jobs: tuple[Job, ...]


def main(path: str) -> int:
    request = msgspec.json.decode(Path(path).read_bytes(), type=Request)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout.flush()
    os.dup2(2, 1)
    import torch
    import triton  # noqa: F401 - before the time of the first file begins

    torch.set_num_threads(1)
    for job in request.jobs:
        answers.write(_answer(job, request.seconds) + b"\n")
    return 0


def _answer(job: Job, seconds: float) -> bytes:
    with time_limit(seconds):
        checked = check_file(Path(job.file), BY_NAME[job.puzzle])
    if checked.trace is not None and checked.trace.launches:
        save(checked.trace, job.trace)
    return msgspec.json.encode(checked.report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
