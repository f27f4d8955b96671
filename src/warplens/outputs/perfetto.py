"""One Chrome trace of one or several timelines, for Perfetto and chrome://tracing, and for Warplens itself.

Besides what the profiler recorded, with PyTorch's own fields, the file has tracks for what Warplens found; their
categories begin with `warplens.`, and reading the file again omits them. Flows come after all events: viewers bind one
to the slice that is open at its moment, and of equal times take the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.kinds import OWN_CATEGORIES
from warplens.model.rank_timeline import ADDED as ADDED_PROCESS
from warplens.model.rank_timeline import CONVERTED, RankFlow, RankTimeline, SliceTrack
from warplens.model.trace import Device, Ints, Meta, Trace
from warplens.outputs.json_texts import arguments, joined, microseconds, quoted, quoted_column
from warplens.outputs.nested_tracks import track_levels
from warplens.outputs.perfetto_events import IDS_OF_RANK, EventTexts, track_texts
from warplens.outputs.perfetto_lanes import ADDED, ON_GPU, PROCESSES_PER_RANK, Tracks, add_lanes, gpu_process
from warplens.outputs.perfetto_memory import counter_texts, memory_texts
from warplens_run.base import bounded
from warplens_run.base.files import whole_file

GZIP_LEVEL: Final = 1
"""Of igzip: level 2 costs half as much again for 4 % less."""
GZIP_WBITS: Final = 31
SLICE_COLUMNS: Final = ("start_ns", "dur_ns", "name")
FLAGS: Final = ("with_stack", "record_shapes", "profile_memory")
LAUNCH_FLOW, BACKWARD_FLOW, RANK_FLOW = "ac2g", "fwdbwd", f"{OWN_CATEGORIES}ranks"


def write_perfetto(
    path: Path, timelines: Sequence[RankTimeline], flows: Sequence[RankFlow] = (), *, force: bool = True
) -> None:
    """Write timelines on one clock into a file, packed where its name ends in `.gz`; it appears whole or not at all."""
    with whole_file(path, force=force) as temporary, temporary.open("wb") as stream:
        pack, finish = _packer() if path.name.lower().endswith(".gz") else (bytes, bytes)
        for text in _texts(timelines, flows):
            stream.write(pack(text))
        stream.write(finish())


def _packer() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """What packs a piece, and what ends the file. Without a name and a time, equal traces give equal files."""
    from isal import isal_zlib

    packing = isal_zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WBITS)
    return packing.compress, packing.flush


def _texts(timelines: Sequence[RankTimeline], flows: Sequence[RankFlow]) -> Iterator[bytes]:
    earliest = min((_earliest(timeline) for timeline in timelines), default=0)
    is_alone = len(timelines) == 1
    placed = [_place(timeline, -1 if is_alone else number, earliest) for number, timeline in enumerate(timelines)]
    yield _header(placed)
    is_first = True
    for piece in _pieces(placed, flows):
        if len(piece):
            yield b"\n" if is_first else b",\n"
            yield str(piece.str.join(",\n").item()).encode()
            is_first = False
    yield b"\n]}\n"


@dataclass(frozen=True)
class _Placed:
    """A timeline with its place in the file: tracks, and what is added to its times and ids."""

    timeline: RankTimeline
    tracks: Tracks
    track_of_event: Ints
    shift_ns: int
    first_id: int

    @property
    def trace(self) -> Trace:
        return self.timeline.trace


def _pieces(placed: Sequence[_Placed], flows: Sequence[RankFlow]) -> Iterator[pl.Series]:
    for one in placed:
        place = track_texts(one.tracks.tracks)
        yield from EventTexts(one.timeline, place, one.track_of_event, one.shift_ns, one.first_id).pieces()
        yield from memory_texts(one.trace.memory, _memory_places(one))
        yield _counters(one)
    for number, one in enumerate(placed):
        for track in one.timeline.tracks:
            yield _slices(one, track)
        yield _metadata(one, PROCESSES_PER_RANK * number)
    first_flow = 1
    for one in placed:
        for name, source, target in ((LAUNCH_FLOW, *_launches(one)), (BACKWARD_FLOW, *_backward(one))):
            yield _arrows(name, first_flow, _ends(one, source), _ends(one, target))
            first_flow += len(source)
    yield from _rank_flows(placed, flows, first_flow)


def _earliest(timeline: RankTimeline) -> int:
    """The moment 0 of a trace on the clock of all, or what is before that: the file's times begin there."""
    frames = (timeline.trace.events, timeline.trace.memory, *(track.slices for track in timeline.tracks))
    starts = (frame["start_ns"].cast(pl.Int64).to_numpy().min(initial=0) for frame in frames)
    return min(map(int, starts)) + timeline.offset_ns


def _place(timeline: RankTimeline, number: int, earliest_ns: int) -> _Placed:
    """`number` is -1 for the only timeline of a file, whose processes keep their numbers."""
    tracks = Tracks(PROCESSES_PER_RANK * (number + 1), timeline.prefix)
    track_of_event = add_lanes(tracks, timeline)
    first_id = IDS_OF_RANK * max(number, 0)
    return _Placed(timeline, tracks, track_of_event, timeline.offset_ns - earliest_ns, first_id)


def _slices(one: _Placed, track: SliceTrack) -> pl.Series:
    frame = track.slices.with_columns(pl.col("start_ns", "dur_ns").cast(pl.Int64))
    frame = frame.sort("start_ns", "dur_ns", descending=[False, True], maintain_order=True)
    start, duration = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    group = ADDED if track.process == ADDED_PROCESS else ON_GPU
    pid = one.tracks.process(f"added {track.process}", track.process, group)
    tracks = one.tracks.add_levels(pid, track.title, track_levels(start, start + duration))
    parts: list[pl.Series | str] = [
        f'{{"ph":"X","cat":"{OWN_CATEGORIES}{track.shows}","name":',
        quoted_column(frame["name"]),
        track_texts(one.tracks.tracks).gather(tracks),
        microseconds(start + one.shift_ns),
        ',"dur":',
        microseconds(duration),
        ',"args":{',
        arguments(frame.drop(SLICE_COLUMNS)).str.strip_prefix(","),
        "}}",
    ]
    return joined(parts, frame.height)


def _metadata(one: _Placed, first_index: int) -> pl.Series:
    """Names and order of processes and threads."""
    entries: list[str] = []
    in_order = sorted(one.tracks.processes.values(), key=lambda process: process.group)
    for index, process in enumerate(in_order, first_index):
        entries += [
            _label("process_name", process.pid, 0, f'"name":{quoted(process.name)}'),
            _label("process_sort_index", process.pid, 0, f'"sort_index":{index}'),
        ]
    for order, track in enumerate(one.tracks.tracks):
        entries += [
            _label("thread_name", track.pid, track.tid, f'"name":{quoted(track.title)}'),
            _label("thread_sort_index", track.pid, track.tid, f'"sort_index":{order}'),
        ]
    return pl.Series(entries, dtype=pl.String)


def _label(name: str, pid: int, tid: int, argument: str) -> str:
    return f'{{"ph":"M","name":"{name}","pid":{pid},"tid":{tid},"ts":0,"args":{{{argument}}}}}'


def _memory_places(one: _Placed) -> pl.Series:
    """Thread and moment of each allocation; null where its thread is not shown."""
    memory, lane = one.trace.memory, one.trace.ints("lane")
    lanes, first = np.unique(lane, return_index=True)
    track_of_lane = np.full(len(one.trace.lanes), -1, np.int64)
    track_of_lane[lanes] = one.track_of_event[first]
    texts = pl.concat([track_texts(one.tracks.tracks), pl.Series([None], dtype=pl.String)])
    track = track_of_lane[memory["lane"].to_numpy()]
    place = texts.gather(np.where(track >= 0, track, len(texts) - 1))
    moments = microseconds(memory["start_ns"].to_numpy() + one.shift_ns)
    return pl.select(pl.concat_str(pl.lit(place), pl.lit(moments))).to_series()


def _counters(one: _Placed) -> pl.Series:
    """Readings of the GPUs while the trace was recorded; those of the steps before it would make the file longer."""
    trace = one.trace
    starts = trace.ints("start_ns")
    end = int((starts + trace.ints("dur_ns")).max()) if len(starts) else 0
    counters = trace.counters.filter(pl.col("start_ns").is_between(0, end))
    process = {device: gpu_process(one.tracks, trace, device) for device in counters["device"].unique().sort()}
    numbers = [f',"pid":{process[device]},"tid":0,"ts":' for device in counters["device"]]
    moments = microseconds(counters["start_ns"].to_numpy() + one.shift_ns)
    return counter_texts(counters, joined([pl.Series(numbers, dtype=pl.String), moments], counters.height))


def _launches(one: _Placed) -> tuple[Ints, Ints]:
    """Host calls and the GPU events that they launched."""
    gpu = one.trace.gpu_rows
    launch = one.trace.ints("launch")[gpu]
    return _both_shown(one, launch, gpu)


def _backward(one: _Placed) -> tuple[Ints, Ints]:
    flows = one.trace.flows
    return _both_shown(one, flows["source"].to_numpy(), flows["target"].to_numpy())


def _both_shown(one: _Placed, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    is_shown = (source >= 0) & (target >= 0)
    source, target = source[is_shown], target[is_shown]
    is_shown = (one.track_of_event[source] >= 0) & (one.track_of_event[target] >= 0)
    return source[is_shown], target[is_shown]


def _ends(one: _Placed, rows: Ints) -> pl.Series:
    """Where and when events start."""
    place = track_texts(one.tracks.tracks).gather(one.track_of_event[rows])
    return joined([place, microseconds(one.trace.ints("start_ns")[rows] + one.shift_ns)], len(rows))


def _arrows(name: str, first: int, sources: pl.Series, targets: pl.Series) -> pl.Series:
    """Two events per arrow."""
    size = len(sources)
    number = pl.Series(np.arange(first, first + size)).cast(pl.String)
    about = f',"cat":"{name}","name":"{name}","id":'
    opens = joined([f'{{"ph":"s"{about}', number, sources, "}"], size)
    closes = joined([f'{{"ph":"f","bp":"e"{about}', number, targets, "}"], size)
    return joined([opens, ",\n", closes], size)


def _rank_flows(placed: Sequence[_Placed], flows: Sequence[RankFlow], first: int) -> Iterator[pl.Series]:
    """Arrows between timelines, forward in time: viewers omit others. Events that are not shown have none."""
    shown = [
        flow
        if _starts(placed, flow.source, flow.source_event) <= _starts(placed, flow.target, flow.target_event)
        else replace(
            flow, source=flow.target, source_event=flow.target_event, target=flow.source, target_event=flow.source_event
        )
        for flow in flows
        if placed[flow.source].track_of_event[flow.source_event] >= 0
        and placed[flow.target].track_of_event[flow.target_event] >= 0
    ]
    for name in dict.fromkeys(flow.name for flow in shown):
        named = [flow for flow in shown if flow.name == name]
        sources = _ends_of(placed, [(flow.source, flow.source_event) for flow in named])
        targets = _ends_of(placed, [(flow.target, flow.target_event) for flow in named])
        yield _arrows(f"{RANK_FLOW}.{name}", first, sources, targets)
        first += len(named)


def _starts(placed: Sequence[_Placed], timeline: int, event: int) -> int:
    return int(placed[timeline].trace.ints("start_ns")[event]) + placed[timeline].shift_ns


def _ends_of(placed: Sequence[_Placed], events: Sequence[tuple[int, int]]) -> pl.Series:
    """The same for events of several timelines, in their order."""
    timeline, row = np.array(events, np.int64).reshape(-1, 2).T
    texts: list[pl.Series] = []
    order = np.argsort(timeline, kind="stable")
    for number in np.unique(timeline).tolist():
        texts.append(_ends(placed[number], row[order[timeline[order] == number]]))
    return pl.concat(texts).gather(np.argsort(order, kind="stable"))


def _header(placed: Sequence[_Placed]) -> bytes:
    """Facts about the run, in the words of PyTorch's profiler, up to the first event."""
    metas = [one.trace.meta for one in placed]
    facts: dict[str, object] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
    if len(metas) == 1:
        facts |= _facts(metas[0])
        if metas[0].origin_ns:
            facts["baseTimeNanoseconds"] = metas[0].origin_ns - placed[0].shift_ns
    facts[CONVERTED] = {
        "sources": [Path(meta.source).name for meta in metas],
        "moved": [track for one in placed for track in one.tracks.moved],
    }
    return msgspec.json.encode(facts)[:-1] + b',"traceEvents":['


def _facts(meta: Meta) -> dict[str, object]:
    facts: dict[str, object] = {key: 1 if key in FLAGS else value for key, value in meta.facts.items()}
    if meta.devices:
        facts["deviceProperties"] = [_device(device) for device in meta.devices]
    if meta.distributed is not None:
        job = meta.distributed
        groups = [{"pg_name": group.name, "pg_desc": group.description, "ranks": group.ranks} for group in job.groups]
        size = {"world_size": job.world_size} if job.world_size else {}
        facts["distributedInfo"] = {"backend": job.backend, "rank": job.rank, **size, "pg_config": groups}
    return facts


def _device(device: Device) -> dict[str, object]:
    major, _, minor = device.compute.partition(".")
    is_version = bounded.is_whole(major, 0) and bounded.is_whole(minor, 0)
    version = {"computeMajor": bounded.whole(major), "computeMinor": bounded.whole(minor)} if is_version else {}
    return {
        "id": device.id,
        "name": device.name,
        "totalGlobalMem": device.memory_bytes,
        **version,
        "numSms": device.multiprocessors,
        "maxThreadsPerMultiprocessor": device.threads_per_multiprocessor,
        "regsPerMultiprocessor": device.registers_per_multiprocessor,
        "sharedMemPerMultiprocessor": device.shared_bytes_per_multiprocessor,
        "warpSize": device.warp_size,
    }
