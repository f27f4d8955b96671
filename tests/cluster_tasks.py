"""Tasks for the executors' tests: functions of a module, as other processes find them by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from warplens_run.base.errors import FormatError


def double(number: int) -> int:
    return 2 * number


def row_counts(path: str) -> dict[str, int]:
    import warplens

    trace = warplens.open(path).trace
    return {"events": trace.events.height, "names": len(trace.names), "steps": trace.steps.height}


def write_its_number(arguments: tuple[str, int]) -> int:
    """Processes run at the same time, so that the order is that of one."""
    path, number = arguments
    with Path(path).open("a") as stream:
        stream.write(f"{number}\n")
    return number


def fail_for_odd(number: int) -> int:
    if number % 2:
        raise FormatError("not a trace", where=f"rank{number}.json", hint="record it again")
    return number


def raise_a_bug(_number: int) -> int:
    return int({}["missing"])  # type: ignore[index]


def raise_no_memory(_number: int) -> int:
    raise MemoryError


def missing_file(path: str) -> int:
    return len(Path(path).read_bytes())


def unpicklable(_number: int) -> Any:
    return lambda: None


def _is_first_time(marker: str) -> bool:
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die_the_first_time(arguments: tuple[str, int]) -> int:
    marker, number = arguments
    if marker and _is_first_time(marker):
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def fail_the_first_time(marker: str) -> str:
    if _is_first_time(marker):
        raise OSError(116, "Stale file handle", marker)
    return "read"


def die_for_odd(number: int) -> int:
    if number % 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return 2 * number


def sleep_with_a_child(folder: str) -> None:
    """Leaves the numbers of its process and of one that it started."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    temporary = Path(folder) / f"{os.getpid()}.tmp"
    temporary.write_text(f"{os.getpid()} {child.pid}")
    temporary.rename(temporary.with_suffix(".pids"))
    time.sleep(3600)


def print_and_see_settings(_number: int) -> dict[str, str | None]:
    print("a task prints")
    return {name: os.environ.get(name) for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "WARPLENS_CORES")}


def where_json_is_from(_number: int) -> str:
    import json

    return str(json.__file__)
