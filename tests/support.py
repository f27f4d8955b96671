"""What the tests share: where the real traces are, and traces made by hand."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

if TYPE_CHECKING:
    import warplens

Opened = Callable[..., "warplens.Profile"]
"""What the fixture `opened` gives: events made by hand → an opened profile."""
RunInside = Callable[..., CompletedProcess[str]]
"""What the fixture `run_inside` gives: the words of a command → its status, output and errors."""
HANG_SECONDS = 900
"""After this a process is taken for hanging. No bar: it is ten times and more what the slowest machine needs."""
ROOT = Path(__file__).resolve().parent.parent
SAMPLES = sorted((ROOT / "samples" / "kineto").glob("*.json.gz"))
SHARED = ROOT.parent / "shared"
ORACLES = sorted(
    path
    for folder in ("h200", "public")
    for path in (SHARED / "oracles").glob("*.json")
    if (SHARED / "traces" / folder / f"{path.stem}.json.gz").exists()
)
"""Figures of other programs on single traces."""


@contextmanager
def tiny_disk(limit: int = 16) -> Iterator[None]:
    """No file may grow beyond so many bytes, whoever runs the tests.

    Not a fixture: pytest reports a test while its fixtures still hold, perhaps into a file that is longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def ends(what: str = "this", cpu_seconds: int = 120) -> Iterator[None]:
    """Fails where the code inside has no end in sight: sizes are such that anything worse than linear takes far longer.

    Processor time of this process, so that other programs do not count; a hundred times what it takes, so that a slow
    machine does not either.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{what}: no end in sight")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@lru_cache(maxsize=1)
def shared_traces() -> list[Path]:
    """The trace-event files beside the checkout; none where that folder is absent.

    Folders of one program's runs, a rank or a variant each, give two of them: more say the same at the same cost.
    """
    folder = SHARED / "traces"
    paths = sorted([*folder.rglob("*.json.gz"), *folder.rglob("*.chrome_trace.gz")])
    traces = [path for path in paths if _holds_trace_events(path)]
    siblings = {path.parent for path in traces if path.relative_to(folder).parts[0] in ("ranks", "whatif")}
    spare = {path for parent in siblings for path in [path for path in traces if path.parent == parent][2:]}
    return [path for path in traces if path not in spare]


def _holds_trace_events(path: Path) -> bool:
    """Other JSON stands there as well: ExecutionTraces, rocprofv3's own, tables of pipeline timings."""
    with gzip.open(path) as stream:
        head = stream.read(1 << 16).lstrip()
    return head.startswith(b"[") or b'"traceEvents"' in head


def real_traces() -> list[Path]:
    """Of a sample that is shared as well, the shared one: the figures of other programs are of it."""
    return sorted(distinct([*shared_traces(), *SAMPLES]), key=lambda path: path not in SAMPLES)


def distinct(paths: Iterable[Path]) -> list[Path]:
    """The first of those that unpack to the same bytes: the others would show the same at the same cost."""
    by_content: dict[bytes, Path] = {}
    for path in paths:
        by_content.setdefault(_checksum(path), path)
    return [*by_content.values()]


def _checksum(path: Path) -> bytes:
    """Of the unpacked content, with its length: as a gzip file ends."""
    with path.open("rb") as stream:
        if stream.read(2) == b"\x1f\x8b":
            stream.seek(-8, os.SEEK_END)
            return stream.read()
    content = path.read_bytes()
    return struct.pack("<II", crc32(content), len(content) & 0xFFFFFFFF)


def raw_events(path: Path) -> list[dict[str, Any]]:
    """The events as plain JSON says them, through no code of ours."""
    with gzip.open(path) as stream:
        document = json.load(stream)
    events = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in events if isinstance(event, dict)]


def differences(first: warplens.Trace, second: warplens.Trace) -> list[str]:
    """The parts in which two traces differ; where a trace lies on disk and how it is packed are no parts of it."""
    from warplens.model.trace import SIDE_FRAMES

    frames = [name for name in ("events", *SIDE_FRAMES) if not getattr(first, name).equals(getattr(second, name))]
    lists = [name for name in ("names", "quality") if getattr(first, name) != getattr(second, name)]
    facts = ("format", "devices", "distributed", "facts", "events_in_file", "phases")
    return frames + lists + [fact for fact in facts if getattr(first.meta, fact) != getattr(second.meta, fact)]


def write_trace(path: Path, events: list[dict[str, Any]], **header: Any) -> Path:
    """A trace file of the object form."""
    path.write_text(json.dumps({**header, "traceEvents": events}))
    return path


def run_python(
    words: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str] = os.environ,
    stdin: int = subprocess.DEVNULL,
) -> CompletedProcess[str]:
    """`python words…` in a folder; its output is captured."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=stdin, capture_output=True, text=True,
        timeout=HANG_SECONDS, check=False,
    )  # fmt: skip


def nightly_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the first so many always run; the others rarely find more, and run in `make nightly`."""
    listed = [*cases]
    return [*listed[:count], *(pytest.param(case, marks=pytest.mark.nightly) for case in listed[count:])]


def each_case(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Runs a test for each of these, a tuple being its arguments, and fails with all that failed.

    For tables of hundreds of lines: as tests of their own (`parametrize`) each takes 6 ms of CPU, and no time inside.
    """
    listed = [*cases]

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            assert listed, "no case"
            failures = []
            for case in listed:
                try:
                    test(*case) if isinstance(case, tuple) else test(case)
                except Exception as error:  # noqa: BLE001 - it is raised below, with the others
                    failures.append((case, error))
            if failures:
                said = "\n".join(f"{case!r}: {type(error).__name__}: {error}" for case, error in failures)
                raise AssertionError(f"{len(failures)} of {len(listed)} fail\n{said}") from failures[0][1]

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate


def op(name: str, ts: float, dur: float, *, tid: int = 1, pid: int = 1, **args: Any) -> dict[str, Any]:
    return _event("cpu_op", name, ts, dur, pid, tid, args)


def annotation(name: str, ts: float, dur: float, *, tid: int = 1, pid: int = 1, **args: Any) -> dict[str, Any]:
    return _event("user_annotation", name, ts, dur, pid, tid, args)


def frame(name: str, ts: float, dur: float, *, tid: int = 1, pid: int = 1, **args: Any) -> dict[str, Any]:
    return _event("python_function", name, ts, dur, pid, tid, args)


def launch(
    ts: float, dur: float, correlation: int, *, name: str = "cudaLaunchKernel", tid: int = 1, pid: int = 1
) -> dict[str, Any]:
    return _event("cuda_runtime", name, ts, dur, pid, tid, {"correlation": correlation})


def kernel(
    name: str, ts: float, dur: float, correlation: int = 0, *, device: int = 0, stream: int = 7, **args: Any
) -> dict[str, Any]:
    place = {"device": device, "stream": stream, "correlation": correlation}
    return _event("kernel", name, ts, dur, device, stream, {**place, **args})


def memcpy(
    ts: float,
    dur: float,
    correlation: int = 0,
    *,
    name: str = "Memcpy HtoD (Pinned -> Device)",
    stream: int = 7,
    device: int = 0,
    bytes: int = 0,
) -> dict[str, Any]:
    args = {"device": device, "stream": stream, "correlation": correlation, "bytes": bytes}
    return _event("gpu_memcpy", name, ts, dur, device, stream, args)


def sync(
    name: str, ts: float, correlation: int, *, stream: int = -1, awaited: int = -1, record: int = -1
) -> dict[str, Any]:
    """A recorded synchronisation: a stream or the host waits for `awaited`, up to the call `record`."""
    args = {"cuda_sync_kind": name, "wait_on_stream": awaited, "wait_on_cuda_event_record_corr_id": record}
    place = {"wait_on_cuda_event_id": 1, "stream": stream, "correlation": correlation, "device": 0, "context": 1}
    return _event("cuda_sync", name, ts, 2, 0, stream, args | place)


def memset(
    ts: float, dur: float, correlation: int = 0, *, stream: int = 7, device: int = 0,
    name: str = "Memset (Device)", bytes: int = 4,
) -> dict[str, Any]:  # fmt: skip
    args = {"device": device, "stream": stream, "correlation": correlation, "bytes": bytes}
    return _event("gpu_memset", name, ts, dur, device, stream, args)


def fwdbwd(source: tuple[float, int], target: tuple[float, int], number: int) -> list[dict[str, Any]]:
    """The two ends of a forward–backward arrow, each given as (ts, tid)."""
    ends = (("s", *source), ("f", *target))
    return [
        {"ph": ph, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 1, "tid": tid, "ts": ts}
        for ph, ts, tid in ends
    ]


def memory(
    ts: float, size: int, allocated: int, reserved: int, *, device: int = 0, device_type: int = 1, tid: int = 1,
    address: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """An allocation, or with a negative size a free, as profile_memory=True records it."""
    args = {
        "Bytes": size,
        "Total Allocated": allocated,
        "Total Reserved": reserved,
        "Device Id": device,
        "Device Type": device_type,
        **({} if address is None else {"Addr": address}),
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "args": args,
    }


def process_name(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def _event(category: str, name: str, ts: float, dur: float, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def wait_until(holds: Callable[[], bool]) -> None:
    """Fails only where it never does."""
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Not so where only its entry is left, for a parent that does not ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
