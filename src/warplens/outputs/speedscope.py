"""A timeline for speedscope: one "evented" profile per thread and stream, which its time-order view draws.

Format: https://www.speedscope.app/file-format-schema.json. Call paths summed over time are the flame graph's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from warplens.model.rank_timeline import RankTimeline
from warplens.model.trace import Bools, Ints
from warplens.outputs.json_texts import joined, quoted
from warplens.outputs.perfetto_lanes import Tracks, add_lanes
from warplens_run.base.files import whole_file

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(path: Path, timeline: RankTimeline, *, force: bool = True) -> None:
    """Write a timeline; the file appears whole or not at all."""
    trace = timeline.trace
    with whole_file(path, force=force) as temporary, temporary.open("wb") as stream:
        name = quoted(Path(trace.meta.source).name)
        frames = ",\n".join(f'{{"name":{quoted(text)}}}' for text in trace.names)
        head = (
            f'{{"$schema":"{SCHEMA}","exporter":"warplens","name":{name},"shared":{{"frames":[{frames}]}},"profiles":['
        )
        stream.write(head.encode())
        for number, profile in enumerate(_profiles(timeline)):
            stream.write(f"{',' if number else ''}\n{profile}".encode())
        stream.write(b"\n]}\n")


def _profiles(timeline: RankTimeline) -> Iterator[str]:
    trace, tracks = timeline.trace, Tracks(prefix=timeline.prefix)
    track_of_event = add_lanes(tracks, timeline)
    processes = {process.pid: process.name for process in tracks.processes.values()}
    start, name = trace.ints("start_ns"), trace.ints("name")
    end = start + trace.ints("dur_ns")
    for number, track in enumerate(tracks.tracks):
        rows = np.flatnonzero(track_of_event == number)
        opens, order = open_and_close(start[rows], end[rows])
        at = np.where(opens, start[rows][order], end[rows][order])
        kinds = pl.Series(["C", "O"]).gather(opens.astype(np.int64))
        texts = joined(
            ['{"type":"', kinds, '","frame":', _text(name[rows][order]), ',"at":', _text(at), "}"], len(order)
        )
        title = quoted(f"{processes[track.pid]} · {track.title}")
        span = f'"startValue":{start[rows].min(initial=end.max(initial=0))},"endValue":{end[rows].max(initial=0)}'
        events = texts.str.join(",\n").item() if len(texts) else ""
        yield f'{{"type":"evented","name":{title},"unit":"nanoseconds",{span},"events":[{events}]}}'


def _text(values: Ints) -> pl.Series:
    text: pl.Series = pl.Series(values).cast(pl.String)
    return text


def open_and_close(start_ns: Ints, end_ns: Ints) -> tuple[Bools, Ints]:
    """Nested intervals as a walk over their tree: at each place whether one opens, and which opens or closes.

    >>> opens, which = open_and_close(np.array([0, 2, 6]), np.array([10, 5, 6]))
    >>> "".join(f"{'(' if is_open else ')'}{number}" for is_open, number in zip(opens, which))
    '(0(1)1(2)2)0'
    """
    opens: list[bool] = []
    which: list[int] = []
    running: list[tuple[int, int]] = []
    for index, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while running and running[-1][0] <= start:
            which.append(running.pop()[1])
            opens.append(False)
        running.append((end, index))
        opens.append(True)
        which.append(index)
    which += [index for _, index in reversed(running)]
    opens += [False] * len(running)
    return np.array(opens, np.bool_), np.array(which, np.int64)
