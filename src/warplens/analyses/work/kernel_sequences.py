"""`kernel_sequences`: kernels that follow each other on a stream again and again, as a layer's or a decode step's do.

A sequence is reported as long as it can be: where all its occurrences go on with the same kernel, that one belongs to
it. Of sequences that describe the same time, a layer and the same layer begun one kernel later, the one with most of it
is reported. Occurrences of a sequence do not overlap; those of different sequences may, as layers contain blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeAlias

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import place_of_rows
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.arrays import numbered
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints

MIN_COUNT: Final = 3
MAX_ROWS: Final = 50
MAX_LENGTH: Final = 4096
LENGTHS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Lengths that are looked for; what is found is made longer as far as it goes."""
TRIED: Final = 24
"""Sequences of each length, those with most time, of which more is found out."""
SAMPLE: Final = 16
"""Occurrences that are compared before all are."""
SHOWN: Final = 12
"""Kernels that the text of a sequence names."""
SAME: Final = 0.75
"""Two sequences describe the same time where they share more than this of the shorter and occur about as often."""
COLUMNS = (
    Column("kernels", "the kernels in order, by their short names; a repeated one once with its number", "", pl.String),
    Column("length", "kernels, copies and fills in the sequence", "", pl.Int64),
    Column("count", "times it runs", "", pl.Int64),
    Column("total_us", "sum of the durations of its kernels, all times together", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("mean_us", "mean time from its first kernel's start to its last one's end", "us", pl.Float64),
    Column("gap_us", "time between its kernels in which the stream runs nothing, all times together", "us", pl.Float64),
    Column("kernel_mean_us", "mean duration of one of its kernels", "us", pl.Float64),
    Column("device", "GPU number", "", pl.Int32),
    Column("stream", "GPU stream (queue)", "", pl.Int64),
    Column("op", "op in which it begins, most often", "", pl.String),
    Column("line", "Python line with most of the time", "", pl.String),
    Column("module", "nn.Module with most of the time", "", pl.String),
    STEP_TIME,
    Column("in_graph", "whether its kernels are launched by a CUDA or HIP graph", "", pl.Boolean),
)


class _Sequence(msgspec.Struct, frozen=True):
    """Where a sequence begins, in stream order, and how many events it has."""

    starts: Ints
    length: int
    time_ns: int


class _Stream(msgspec.Struct, frozen=True):
    """All GPU events in stream order: rows of `work.gpu`, a number per kernel and stream, and sums of durations."""

    rows: Ints
    code: Ints
    sums_ns: Ints
    """Durations of all events before each, one more than there are events."""


def kernel_sequences(work: Workspace) -> Table:
    meaning = "one row per sequence of kernels that a stream runs repeatedly"
    frame = _frame(work)
    notes = [] if len(work.gpu) else ["no GPU work in this trace"]
    if len(frame) > 1:
        notes.append("sequences can contain each other, as a layer contains its blocks: shares do not add up to 100 %")
    return Table.from_frame("kernel_sequences", meaning, COLUMNS, frame, *notes)


@shared
def _frame(work: Workspace) -> pl.DataFrame:
    stream = _in_stream_order(work)
    found = _distinct(_candidates(stream), len(stream.code))
    return _described(work, stream, found).head(MAX_ROWS)


def _in_stream_order(work: Workspace) -> _Stream:
    gpu = work.gpu
    lane, start = work.trace.ints("lane")[gpu["id"].to_numpy()], gpu["start_ns"].to_numpy()
    rows = np.lexsort((start, lane))
    key = lane[rows].astype(np.int64) * (len(work.trace.names) + 1) + gpu["name"].to_numpy().astype(np.int64)[rows]
    code = numbered(key)[1]
    return _Stream(rows, code, np.concatenate([[0], np.cumsum(gpu["dur_ns"].to_numpy()[rows])]))


def _candidates(stream: _Stream) -> list[_Sequence]:
    """Repeated sequences with most time, of each length, made as long as they can be."""
    found: dict[tuple[int, int], _Sequence] = {}
    powers = _powers(stream.code)
    seen: set[bytes] = set()
    for length, repeats in _repeated(powers):
        positions, bounds = repeats.positions, repeats.bounds
        time = stream.sums_ns[positions + length] - stream.sums_ns[positions]
        sums = np.add.reduceat(time, bounds[:-1])
        for group in np.argsort(-sums, kind="stable")[:TRIED].tolist():
            starts = _apart(positions[bounds[group] : bounds[group + 1]], length)
            text = starts.tobytes()
            if text in seen:  # a shorter one with these occurrences was made as long as it can be
                continue
            seen.add(text)
            sequence = _longest(stream, powers, starts, length)
            if sequence is not None:
                found.setdefault((int(sequence.starts[0]), sequence.length), sequence)
    return sorted(found.values(), key=lambda sequence: (-sequence.time_ns, sequence.length, int(sequence.starts[0])))


class _Repeats(msgspec.Struct, frozen=True, dict=True):
    """Sequences of one length that occur often enough."""

    positions: Ints
    """Where they begin: of one sequence after the other, each in stream order."""
    bounds: Ints
    """Where each sequence begins in `positions`, and the end of the last."""
    places: int
    """In how many positions one could begin."""

    @cached_property
    def numbers(self) -> Ints:
        """For each position the number of the sequence that begins there, `NONE` for others."""
        numbers = np.full(self.places, NONE, np.int64)
        numbers[self.positions] = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        return numbers


_Powers: TypeAlias = dict[int, _Repeats]
"""The sequences of one event, of two, of four and so on, as far as there are any."""


def _powers(code: Ints) -> _Powers:
    order = np.argsort(_narrow(code), kind="stable")
    size, power = 1, _often(order, np.diff(code[order], prepend=NONE) != 0, len(code))
    powers = {}
    while len(power.positions) and size <= LENGTHS[-1]:
        powers[size] = power
        size, power = 2 * size, _pairs(power, size)
    return powers


def _repeated(powers: _Powers) -> Iterator[tuple[int, _Repeats]]:
    """The sequences of each length.

    Two sequences are equal where their first and their last power of two of events are; what is not repeated in a
    short form cannot be in a longer one, so that ever fewer positions are looked at.
    """
    for length in LENGTHS:
        size = 1 << length.bit_length() - 1
        if size not in powers:
            break
        repeats = powers[size] if size == length else _pairs(powers[size], length - size)
        if not len(repeats.positions):
            break
        yield length, repeats


def _pairs(parts: _Repeats, distance: int) -> _Repeats:
    """What begins with one of these sequences and goes on with one so much later."""
    # By the second part they are in order; a stable sort by the first keeps that.
    at = parts.positions - distance
    at = at[at >= 0]
    at = at[parts.numbers[at] >= 0]
    at = at[np.argsort(_narrow(parts.numbers[at]), kind="stable")]
    first, second = parts.numbers[at], parts.numbers[at + distance]
    changes = (np.diff(first, prepend=NONE) != 0) | (np.diff(second, prepend=NONE) != 0)
    return _often(at, changes, max(parts.places - distance, 0))


def _often(positions: Ints, changes: Bools, places: int) -> _Repeats:
    """Those that are often enough, of positions in groups; `changes` says where a group begins."""
    counts = np.diff(np.flatnonzero(changes), append=len(positions))
    often = counts >= MIN_COUNT
    bounds = np.concatenate([[0], np.cumsum(counts[often])])
    return _Repeats(positions[np.repeat(often, counts)], bounds, places)


def _narrow(numbers: Ints) -> Ints:
    """In 16 bits where they fit: numpy then sorts in one pass over the numbers instead of comparing them."""
    return numbers.astype(np.uint16) if len(numbers) and numbers.max() < 1 << 16 else numbers


def _longest(stream: _Stream, powers: _Powers, starts: Ints, length: int) -> _Sequence | None:
    """The sequence that these occurrences have in common, as long as all go on alike; None for a part of a period."""
    code = stream.code
    if len(starts) < MIN_COUNT:
        return None
    room = min(int(np.diff(starts).min()), MAX_LENGTH)
    ahead = min(room - length, len(code) - int(starts[-1]) - length)
    length += _in_common(powers, starts + length, ahead, 1)
    before = _in_common(powers, starts - 1, min(room - length, int(starts[0])), -1)
    starts, length = starts - before, length + before
    if _has_period(code[starts[0] : starts[0] + length]):
        return None
    time_ns = int((stream.sums_ns[starts + length] - stream.sums_ns[starts]).sum())
    return _Sequence(starts, length, time_ns)


def _in_common(powers: _Powers, at: Ints, most: int, direction: int) -> int:
    """How many events all these places have in common, from there on in a direction."""
    if len(at) > 4 * SAMPLE:
        # A few places nearly always show how far all go.
        most = _alike_for(powers, at[:: len(at) // SAMPLE], most, direction)
        if most <= 0 or _are_alike(powers, at if direction > 0 else at - most + 1, most):
            return most
    return _alike_for(powers, at, most, direction)


def _alike_for(powers: _Powers, at: Ints, most: int, direction: int) -> int:
    """The same, in ever smaller powers: as often as these places are, what they have in common has a number."""
    count = 0
    for size in reversed(powers):
        while count + size <= most and _have_one_number(
            powers[size], at + count if direction > 0 else at - (count + size - 1)
        ):
            count += size
    return count


def _are_alike(powers: _Powers, at: Ints, length: int) -> bool:
    """Whether the same events begin at all these places, of which there are enough to have a number in `powers`."""
    size = max(power for power in powers if power <= length)
    offsets = (*range(0, length - size, size), length - size)
    return all(_have_one_number(powers[size], at + offset) for offset in offsets)


def _have_one_number(repeats: _Repeats, at: Ints) -> bool:
    numbers = repeats.numbers.take(at)
    return bool(numbers[0] >= 0 and (numbers == numbers[0]).all())


def _has_period(codes: Ints) -> bool:
    """Whether the sequence is a shorter one twice or more often: that one is found by itself."""
    if len(codes) <= 2:  # two equal kernels in a row are a sequence; more of them are that one again
        return False
    half = len(codes) // 2
    again = np.flatnonzero(codes[1 : half + 1] == codes[0]) + 1
    text, width = codes.tobytes(), codes.itemsize  # numpy takes ten times as long for so few
    return any(text.startswith(text[part * width :]) for part in again.tolist())


def _apart(starts: Ints, length: int) -> Ints:
    """Occurrences that do not overlap, from the first on."""
    if len(starts) < 2 or np.diff(starts).min() >= length:
        return starts
    following = np.searchsorted(starts, starts + length).tolist()
    chosen, at = [], 0
    while at < len(starts):
        chosen.append(at)
        at = following[at]
    return starts[chosen]


def _distinct(candidates: list[_Sequence], events: int) -> list[_Sequence]:
    """Without those that describe the time of one with more of it."""
    kept: list[_Sequence] = []
    covers: list[tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]] = []
    for sequence in candidates:
        inside = (sequence.starts[:, None] + np.arange(sequence.length)).ravel()
        count = len(sequence.starts)
        alike = [cover for other, cover in covers if other * SAME <= count <= other / SAME]
        if any(cover[inside].mean() > SAME for cover in alike):
            continue
        cover = np.zeros(events, np.bool_)
        cover[inside] = True
        covers.append((count, cover))
        kept.append(sequence)
        if len(kept) == MAX_ROWS:
            break
    return kept


def _described(work: Workspace, stream: _Stream, found: list[_Sequence]) -> pl.DataFrame:
    gpu = work.gpu
    start, duration = gpu["start_ns"].to_numpy()[stream.rows], gpu["dur_ns"].to_numpy()[stream.rows]
    names, step, in_graph = gpu["kernel_short"], gpu["step"].to_numpy()[stream.rows], gpu["in_graph"].to_numpy()
    rows = []
    for sequence in found:
        inside = sequence.starts[:, None] + np.arange(sequence.length)
        ends = start[inside] + duration[inside]
        gaps = np.maximum(start[inside][:, 1:] - np.maximum.accumulate(ends, axis=1)[:, :-1], 0)
        first = stream.rows[sequence.starts]
        place = place_of_rows(work, stream.rows[inside].ravel())
        row = int(first[0])
        rows.append(
            {
                "kernels": _text(names.gather(stream.rows[inside[0]]).to_list()),
                "length": sequence.length,
                "count": len(sequence.starts),
                "total_us": sequence.time_ns / 1000,
                "mean_us": float((ends.max(axis=1) - start[inside[:, 0]]).mean()) / 1000,
                "gap_us": float(gaps.sum()) / 1000,
                "kernel_mean_us": sequence.time_ns / inside.size / 1000,
                "device": int(gpu["device"][row]),
                "stream": int(gpu["stream"][row]),
                "op": gpu["op"].gather(first).mode().sort()[0],
                "line": place.line,
                "module": place.module,
                "step_us": float(duration[inside][step[inside] >= 0].sum()) / 1000,
                "in_graph": bool(in_graph[stream.rows[inside]].all()),
            }
        )
    schema = {column.name: column.dtype for column in COLUMNS if column.name != "percent"}
    frame = pl.DataFrame(rows, schema=schema)
    return frame.with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))


def _text(names: list[str]) -> str:
    """
    >>> _text(["copy", "copy", "copy", "gemm"])
    'copy ×3 → gemm'
    """
    runs: list[tuple[str, int]] = []
    for name in names:
        last, count = runs[-1] if runs else ("", 0)
        if name == last:
            runs[-1] = (name, count + 1)
        else:
            runs.append((name, 1))
    texts = [name if count == 1 else f"{name} ×{count}" for name, count in runs]
    more = len(texts) - SHOWN
    return " → ".join(texts[:SHOWN]) + (f" → and {more} more" if more > 0 else "")
