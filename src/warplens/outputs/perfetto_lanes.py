"""Processes and threads of a Chrome trace: the number and the name that each lane of a timeline gets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warplens.model.kinds import CODE, GPU_WORK
from warplens.model.lanes import caller_lanes
from warplens.model.rank_timeline import RankTimeline
from warplens.model.trace import Ints, Trace
from warplens.outputs.nested_tracks import track_levels
from warplens_run.base import bounded

LARGEST_ID: Final = 2**31
"""Viewers keep ids in 32 bits; threads of some profilers have larger ones."""
PROCESSES_PER_RANK: Final = 1000
GPU_PROCESS: Final = re.compile(r"(?:GPU )?(\d{1,9})")
STREAM: Final = re.compile(r"(?:stream )?(\d{1,9})", re.IGNORECASE)
HOST_NUMBER: Final = re.compile(r"[0-9]{1,10}")
GPU_CODES: Final = frozenset(CODE[kind] for kind in (*GPU_WORK, "gpu_annotation", "sync"))
ADDED, HOST, ON_GPU = range(3)
"""Groups of processes, in the order in which viewers show them."""


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    group: int


@dataclass(frozen=True)
class Track:
    """A thread of the file."""

    pid: int
    tid: int
    title: str


@dataclass
class Tracks:
    """The processes and threads of one timeline, with distinct numbers.

    Alone in a file, host processes and GPUs keep theirs; of several timelines each has a range of its own.
    """

    first_pid: int = 0
    prefix: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    tracks: list[Track] = field(default_factory=list)
    moved: list[tuple[int, int, int]] = field(default_factory=list)
    """Process and thread of each further track of a lane, and the thread that its events belong to."""
    _threads: dict[int, set[int]] = field(default_factory=dict)
    _reserved: dict[int, set[int]] = field(default_factory=dict)

    def process(self, key: str, name: str, group: int, wanted: int | None = None) -> int:
        """The number of the process with this key, which is made where it is not there yet."""
        if key not in self.processes:
            taken = {process.pid for process in self.processes.values()}
            if self.first_pid or wanted is None or wanted in taken or wanted >= LARGEST_ID:
                wanted = max(taken, default=self.first_pid) + 1
            self.processes[key] = Process(wanted, f"{self.prefix}{name}", group)
        return self.processes[key].pid

    def reserve(self, pid: int, wanted: int | None) -> None:
        """Keep the number of a thread free for it: only one that asks for it gets it."""
        if wanted is not None:
            self._reserved.setdefault(pid, set()).add(wanted)

    def add(self, pid: int, title: str, wanted: int | None = None) -> int:
        """The position of a new track in `tracks`."""
        taken = self._threads.setdefault(pid, set())
        # Thread 0 is the idle task for viewers that know Linux.
        if wanted is None or wanted in taken or not 0 < wanted < LARGEST_ID:
            wanted = max(taken | self._reserved.get(pid, set()), default=0) + 1
        taken.add(wanted)
        self.tracks.append(Track(pid, wanted, title))
        return len(self.tracks) - 1

    def add_levels(self, pid: int, title: str, levels: Ints, wanted: int | None = None) -> Ints:
        """Tracks for intervals that do not all nest on one; for each interval its track."""
        count = int(levels.max(initial=-1)) + 1
        numbers = [
            self.add(pid, title if level == 0 else f"{title} ({level + 1})", wanted if level == 0 else None)
            for level in range(count)
        ]
        return np.array(numbers, np.int64)[levels]


@dataclass(frozen=True)
class _Lane:
    """A lane of a trace: its events, and the process, title and number that it has in the file."""

    rows: Ints
    pid: int
    title: str
    wanted: int | None


def add_lanes(tracks: Tracks, timeline: RankTimeline) -> Ints:
    """The lanes of a trace as tracks; for each event its track, -1 for callers whose times are not known."""
    trace = timeline.trace
    start, end = trace.ints("start_ns"), trace.ints("start_ns") + trace.ints("dur_ns")
    track_of_event = np.full(len(trace), -1, np.int64)
    lanes = _lanes(tracks, trace)
    for lane in lanes:
        tracks.reserve(lane.pid, lane.wanted)
    for lane in lanes:
        levels = track_levels(start[lane.rows], end[lane.rows])
        track_of_event[lane.rows] = tracks.add_levels(lane.pid, lane.title, levels, lane.wanted)
        first, *others = [tracks.tracks[number] for number in np.unique(track_of_event[lane.rows]).tolist()]
        tracks.moved += [(track.pid, track.tid, first.tid) for track in others]
    return track_of_event


def _lanes(tracks: Tracks, trace: Trace) -> list[_Lane]:
    """The lanes with events in the order of viewers: threads and streams by number, annotations below their stream."""
    kind, skipped = trace.ints("kind"), set(caller_lanes(trace))
    bounds = np.searchsorted(trace.ints("lane"), np.arange(len(trace.lanes) + 1))
    lanes: list[tuple[tuple[bool, int, bool], _Lane]] = []
    for number, (process, thread, process_name, thread_name) in enumerate(trace.lanes.iter_rows()):
        rows = np.arange(bounds[number], bounds[number + 1])
        if not len(rows) or number in skipped:
            continue
        device, of_process = GPU_PROCESS.fullmatch(process), STREAM.fullmatch(thread)
        wanted = bounded.whole(of_process[1]) if of_process else None
        is_annotated = bool((kind[rows] == CODE["gpu_annotation"]).all())
        if device is not None and kind[rows[0]] in GPU_CODES:
            pid = gpu_process(tracks, trace, bounded.whole(device[1]))
            title = thread if thread.lower().startswith("stream") else f"stream {thread}"
            title += ": annotations" if is_annotated else ""
        else:
            pid = _host_process(tracks, process, process_name)
            title = thread_name or (thread if wanted is None else f"thread {thread}")
        lanes.append(((wanted is None, wanted or 0, is_annotated), _Lane(rows, pid, title, wanted)))
    return [lane for _, lane in sorted(lanes, key=lambda entry: entry[0])]


def _host_process(tracks: Tracks, process: str, name: str) -> int:
    is_number = HOST_NUMBER.fullmatch(process) is not None
    shown = name or (f"process {process}" if is_number else process)
    return tracks.process(process, shown, HOST, bounded.whole(process) if is_number else None)


def gpu_process(tracks: Tracks, trace: Trace, device: int) -> int:
    """The process of a GPU: one per device, whatever the profiler calls it."""
    model = next((known.name for known in trace.meta.devices if known.id == device and known.name), "")
    return tracks.process(f"GPU {device}", f"GPU {device}{f' ({model})' if model else ''}", ON_GPU, device)
