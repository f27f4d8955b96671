"""Every capture of a CUDA or HIP graph is recorded, whenever in the run it happens.

When a graph is replayed, the GPU's kernels are on record and nothing of the ops that made them; those ran once, while
the graph was captured, usually long before the recorded steps. So a profiler of its own runs around each capture, where
none is running: it starts before the capture begins and stops after it has ended, because what stopping does (waiting
for the device) is not allowed in between. Captures that overlap share one recording. Without captures nothing runs.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from warplens_run.base.units import format_bytes, plural
from warplens_run.capture import graph_ids
from warplens_run.capture.graph_hooks import OpenAnnotations, Patches, PreparedProfilers, watch_graphs
from warplens_run.capture.torch_recording import OtherProfiler, Recording, is_enabled
from warplens_run.formats import bundle, bundle_files
from warplens_run.formats.bundle import Staging

MOST_BYTES: Final = 512 << 20
"""Of all captures together, as they are stored."""
MOST_SECONDS: Final = 300.0
"""Spent on recording captures: a server makes one for each batch size, or each layer and batch size."""
MOST_REPLAYS: Final = 200_000
NUMBER: Final = "_warplens_capture"
"""The attribute of a graph that has the number of its last capture."""
UNKNOWN: Final = -1
PLAIN: Final = "capture.json"
AROUND_GRAPHS: Final = {"DISABLE_CUPTI_LAZY_REINIT": "1", "TEARDOWN_CUPTI": "0"}
"""As PyTorch sets them for its compiler: an older CUPTI that is set up again may crash a program with graphs."""
SAFE_CUDA: Final = (12, 6)


@dataclass(frozen=True)
class RunningRecording:
    """What is being recorded while a capture begins: the bundle's file, or why the capture is not in it."""

    file: str = ""
    why: str = ""


@dataclass
class CaptureFacts:
    """One capture, as `captures.json` has it."""

    number: int
    steps_seen: int
    thread: int
    annotations: list[str]
    file: str = ""
    why: str = ""
    start_ns: int = 0
    end_ns: int = 0
    exec: str = ""
    graph_id: int | None = None
    pool: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class CaptureHost:
    """What the captures need of the session's profiler."""

    make_recording: Callable[[], Recording]
    running: Callable[[], RunningRecording | None]
    """What is being recorded now; None for nothing."""
    is_measuring: Callable[[], bool]
    steps_seen: Callable[[], int]
    release_prepared: Callable[[], None]
    """Let go of a profiler that is prepared and not started, which another one would spoil."""
    opened: Callable[[Recording], None]
    closing: Callable[[], None]
    """Scopes are marked in a recording that begins inside them."""


class GraphCaptures:
    """Watches captures of a program; `most` are recorded at the most."""

    def __init__(self, torch: Any, staging: Staging, host: CaptureHost, *, most: int) -> None:
        self._torch, self._staging, self._host, self._most = torch, staging, host, most
        self.facts: list[CaptureFacts] = []
        self.replays: list[tuple[int, int, int]] = []
        self.recording: Recording | None = None
        """The profiler that was started for captures, while it runs."""
        self.launch_order: list[int] | None = None
        """The launches of Triton kernels that are in the trace; a replay makes those of its capture once more."""
        self._launches: dict[int, list[int]] = {}
        self._patches = Patches()
        self._annotations = OpenAnnotations()
        self._prepared = PreparedProfilers()
        self._open: dict[int, tuple[weakref.ref[Any] | None, CaptureFacts]] = {}
        self._shared: list[CaptureFacts] = []
        """The captures in the recording that runs."""
        self._marks: list[Any] = []
        self._other: OtherProfiler | None = None
        self._lock = threading.RLock()
        self._recorded = self._replays_omitted = 0
        self.escaped_names = 0
        self._bytes, self._seconds = 0, 0.0
        self._is_over = False

    def install(self) -> None:
        graph_class = getattr(self._torch.cuda, "CUDAGraph", None)
        if graph_class is not None:
            watch_graphs(self._patches, graph_class, self)
            self._annotations.watch(self._patches, self._torch.autograd.profiler.record_function)
            self._prepared.watch(self._patches, self._torch.autograd.profiler.profile)

    @property
    def is_open(self) -> bool:
        """Whether a graph is being captured: nothing may wait for the device now."""
        if self._open:
            self._forget_lost()
        return bool(self._open)

    def forget(self) -> None:
        """In a forked child."""
        self._is_over = True
        self._patches.remove()
        self.recording = None

    def begin(self, graph: Any) -> None:
        if self._is_over:
            return
        with self._lock:
            self.settle()
            facts = CaptureFacts(
                len(self.facts), self._host.steps_seen(), threading.get_native_id(), list(self._annotations.names)
            )
            self.facts.append(facts)
            began = time.monotonic()
            try:
                self._join_or_start(facts)
            except Exception as error:  # noqa: BLE001 - whatever a profiler raises, the program goes on
                self._abort(f"the profiler did not start: {error}")
                facts.why = facts.why or f"the profiler did not start: {error}"
            self._seconds += time.monotonic() - began
            self._open[id(graph)] = _reference(graph), facts
            _number(graph, facts.number)
            facts.start_ns = time.time_ns()

    def end(self, graph: Any, *, is_whole: bool) -> None:
        if self._is_over:
            return
        ended_ns = time.time_ns()
        with self._lock:
            _, facts = self._open.pop(id(graph), (None, None))
            if facts is None:
                return
            facts.end_ns = ended_ns
            if is_whole:
                self._identify(graph, facts)
            else:
                facts.file, facts.why = "", "the capture failed"
            self.settle()

    def instantiated(self, graph: Any) -> None:
        """A graph that the program kept to change it has its handle only now."""
        number = getattr(graph, NUMBER, UNKNOWN)
        if not self._is_over and 0 <= number < len(self.facts):
            self._identify(graph, self.facts[number])

    def replay(self, graph: Any) -> None:
        if self.recording is not None:
            self.settle()
        if self._is_over or not self._host.is_measuring():
            return
        if len(self.replays) < MOST_REPLAYS:
            number = getattr(graph, NUMBER, UNKNOWN)
            self.replays.append((number, time.time_ns(), threading.get_native_id()))
            if self.launch_order is not None and number in self._launches:
                self.launch_order += self._launches[number]
        else:
            self._replays_omitted += 1

    def open_launches(self) -> list[int] | None:
        """Where launches belong that this thread makes into a graph; None where it captures none."""
        if not self._open:
            return None
        thread = threading.get_native_id()
        captures = [facts for _, facts in list(self._open.values()) if facts.thread == thread]
        return self._launches.setdefault(captures[-1].number, []) if captures else None

    def settle(self) -> None:
        """End the recording of captures that have all ended, where this thread can."""
        with self._lock:
            self._forget_lost()
            recording = self.recording
            if recording is None or self._open or not recording.can_stop_here:
                return
            began = time.monotonic()
            try:
                self._keep(recording)
            except Exception as error:  # noqa: BLE001 - a full disk, or whatever PyTorch raises
                self._abort(f"the profiler could not write it: {error}")
            self._seconds += time.monotonic() - began

    def finish(self) -> None:
        """The run is over: what is recorded is kept, and the classes are as they were."""
        with self._lock:
            for _, facts in self._open.values():
                facts.end_ns, facts.file, facts.why = time.time_ns(), "", "the capture did not end"
            self._open.clear()
            self.settle()
            if self.recording is not None:
                self._abort("the thread that began it did not end it")
            self._is_over = True
            self._patches.remove()

    def write(self) -> None:
        """Write what is known of the captures, where there are any."""
        if not (self.facts or self.replays):
            return
        for facts in self.facts:
            # The window's trace may have been lost, or a part of a step.
            if facts.file and not (self._staging.folder / facts.file).exists():
                facts.file, facts.why = "", "the recording it was in was not kept"
        document = {"version": bundle_files.GRAPH_CAPTURES_VERSION, "captures": [asdict(facts) for facts in self.facts]}
        document |= {"replays": self.replays, "replays_omitted": self._replays_omitted}
        self._staging.write_json(bundle_files.GRAPH_CAPTURE_INDEX, document, indent=None)

    def notes(self) -> list[str]:
        """Which captures are not recorded, and why."""
        reasons: dict[str, list[int]] = {}
        for facts in self.facts:
            if not facts.file:
                reasons.setdefault(facts.why, []).append(facts.number)
        return [
            f"{plural(len(numbers), 'graph capture')} of {len(self.facts)} not recorded: {why} ({_ranges(numbers)})"
            for why, numbers in reasons.items()
        ]

    def _join_or_start(self, facts: CaptureFacts) -> None:
        if self.recording is not None:
            self._shared.append(facts)
            return
        running = self._host.running()
        if running is not None:
            facts.file, facts.why = running.file, running.why
            return
        facts.why = self._reason_against()
        if facts.why:
            return
        self._host.release_prepared()
        if self._prepared.is_pending:
            facts.why = "a profiler of the program's own was about to record"
            return
        if _has_older_cupti(self._torch):
            for name, value in AROUND_GRAPHS.items():
                os.environ.setdefault(name, value)
        recording = self._host.make_recording()
        recording.start()
        self.recording, self._shared = recording, [facts]
        self._recorded += 1
        self._other = OtherProfiler(self._torch, lambda: self._abort("the program started its own profiler"))
        self._host.opened(recording)
        self._open_marks(recording, facts.annotations)

    def _reason_against(self) -> str:
        """Why a capture is not recorded now."""
        if is_enabled(self._torch):
            return "a profiler of the program's own was recording"
        if self._recorded >= self._most:
            return f"{plural(self._most, 'capture')} had been recorded (option graph_captures)"
        if self._bytes >= MOST_BYTES:
            return f"the captures before it take {format_bytes(MOST_BYTES)}"
        if self._seconds >= MOST_SECONDS:
            return f"recording the captures before it took {MOST_SECONDS:.0f} s"
        return ""

    def _open_marks(self, recording: Recording, names: list[str]) -> None:
        """The annotations that the program has around the capture, in the recording that begins inside them."""
        for name in names:
            mark = self._torch.profiler.record_function(recording.names.plain(name))
            mark.__enter__()
            self._marks.append(mark)

    def _close_marks(self) -> None:
        while self._marks:
            with contextlib.suppress(Exception):
                self._marks.pop().__exit__(None, None, None)
        self._host.closing()

    def _keep(self, recording: Recording) -> None:
        shared = self._shared
        self._forget_other()
        self._close_marks()
        plain = self._staging.path(PLAIN)
        self.recording, self._shared = None, []
        kept = [facts for facts in shared if not facts.why]
        try:
            if not recording.stop(plain):
                _lose(kept, "another profiler took the place of its own")
            elif kept:
                self._store(plain, kept)
        finally:
            plain.unlink(missing_ok=True)

    def _store(self, plain: Path, kept: list[CaptureFacts]) -> None:
        name = f"{bundle_files.GRAPH_CAPTURES}{kept[0].number}.json.gz"
        target = self._staging.path(name)
        # The trace holds the path that it was written to, which says where the user works.
        self.escaped_names += bundle.compress_trace(plain, target, [(os.fsencode(plain), os.fsencode(plain.name))])
        size = target.stat().st_size
        if self._bytes + size > MOST_BYTES:
            target.unlink()
            self._bytes = MOST_BYTES
            _lose(kept, f"the captures before it take {format_bytes(MOST_BYTES)}")
            return
        self._bytes += size
        for facts in kept:
            facts.file = name

    def _abort(self, why: str) -> None:
        """End the profiler without waiting for the device, and keep nothing of it."""
        recording, self.recording = self.recording, None
        _lose(self._shared, why)
        self._shared = []
        self._forget_other()
        if recording is not None:
            self._close_marks()
            with contextlib.suppress(Exception):
                recording.abort()

    def _forget_other(self) -> None:
        if self._other is not None:
            self._other.forget()
        self._other = None

    def _forget_lost(self) -> None:
        """A program that drops a graph in the middle of its capture does not end it."""
        for key, (reference, facts) in list(self._open.items()):
            if reference is not None and reference() is None:
                facts.end_ns, facts.file, facts.why = time.time_ns(), "", "the capture did not end"
                self._open.pop(key, None)

    def _identify(self, graph: Any, facts: CaptureFacts) -> None:
        handle = graph_ids.exec_handle(graph)
        facts.exec = hex(handle) if handle else ""
        facts.graph_id = graph_ids.graph_id(handle)
        facts.pool = graph_ids.pool(graph)


def _has_older_cupti(torch: Any) -> bool:
    version = str(getattr(torch.version, "cuda", None) or "").split(".")
    try:
        return tuple(int(part) for part in version[:2]) < SAFE_CUDA
    except ValueError:  # a build without CUDA
        return False


def _lose(captures: list[CaptureFacts], why: str) -> None:
    for facts in captures:
        facts.file, facts.why = "", facts.why or why


def _reference(graph: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(graph)
    except TypeError:
        return None


def _number(graph: Any, number: int) -> None:
    with contextlib.suppress(Exception):
        setattr(graph, NUMBER, number)


def _ranges(numbers: list[int]) -> str:
    """Whole numbers in order, in short.

    >>> _ranges([0, 1, 2, 5])
    '0–2, 5'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    shown = ["–".join(map(str, part)) for part in parts]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:8], "…"])
