"""Checks answers in a process of its own: `python -m warplens_lab.puzzles.worker request.json`.

The learner's code runs here and may hang, crash or print. One line of JSON per file goes to the parent. The launch
that a report is about is left as a trace.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from warplens_lab.puzzles.catalogue import BY_NAME
from warplens_lab.puzzles.checking import check_file
from warplens_lab.puzzles.jobs import NEEDS_NEW_PROCESS, CheckRequest
from warplens_lab.tracing import load_interpreter, save
from warplens_run.processes.parent import Parent


def main(path: str) -> int:
    parent = Parent()
    request = msgspec.json.decode(Path(path).read_bytes(), type=CheckRequest)
    import torch

    torch.set_num_threads(1)
    load_interpreter()
    for job in request.jobs:
        check = check_file(Path(job.file), BY_NAME[job.puzzle], request.seconds)
        if check.trace is not None and check.trace.launches:
            save(check.trace, job.trace)
        parent.send(msgspec.json.encode(check.report).decode())
        if check.stopped_midway:
            return NEEDS_NEW_PROCESS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
