"""Which events follow each other on a stream again and again.

A sequence is reported as long as it can be: where all its occurrences go on with the same kernel, that one belongs to
it. Of sequences that describe the same time, a layer and the same layer begun one kernel later, the one with most of it
is reported. Occurrences of a sequence do not overlap; those of different sequences may, as layers contain blocks.

The native library (`native/sequences.cpp`) searches in the same way; where it is absent, Python and numpy do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec
import numpy as np

from warplens import native_library
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.native_library import Array, SequenceLimits

MIN_COUNT: Final = 3
MAX_FOUND: Final = 50
MAX_LENGTH: Final = 4096
LENGTHS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Lengths that are looked for; what is found is made longer as far as it goes."""
TRIED: Final = 24
"""Sequences of each length, those with most time, of which more is found out."""
SAMPLE: Final = 16
"""Occurrences that are compared before all are."""
SAME: Final = 0.75
"""Two sequences describe the same time where they share more than this of the shorter and occur about as often."""


class Sequence(msgspec.Struct, frozen=True):
    """Where a sequence begins, in stream order, and how many events it has."""

    starts: Ints
    length: int
    time_ns: int


def find_sequences(code: Ints, sums_ns: Ints) -> list[Sequence]:
    """Of events in stream order, the sequences with most time first.

    `code` has a number for each event, the same for equal kernels of a stream; `sums_ns` has the durations of all
    events before each, one more than there are events.
    """
    found = found_natively(code, sums_ns)
    return found_in_python(code, sums_ns) if found is None else found


def found_natively(code: Ints, sums_ns: Ints) -> list[Sequence] | None:
    """By the native library, in a tenth of the time; None where it is not there, or leaves this to Python."""
    library = native_library.library()
    if library is None:
        return None
    own_code, own_sums, lengths = (np.ascontiguousarray(column, np.int64) for column in (code, sums_ns, LENGTHS))
    limits = SequenceLimits(lengths.ctypes.data, len(lengths), TRIED, MIN_COUNT, MAX_LENGTH, MAX_FOUND, SAME)
    handle = library.wl_sequences_new(own_code.ctypes.data, own_sums.ctypes.data, len(own_code), limits)
    if not handle:
        return None
    try:
        starts, bounds, own_lengths, times_ns = (_copied(library, handle, number) for number in range(4))
    finally:
        library.wl_sequences_free(handle)
    each = zip(pairwise(bounds.tolist()), own_lengths.tolist(), times_ns.tolist(), strict=True)
    return [Sequence(starts[begin:end], length, time_ns) for (begin, end), length, time_ns in each]


def _copied(library: ctypes.CDLL, handle: int, number: int) -> Ints:
    array = Array()
    library.wl_sequences_get(handle, number, array)
    text = ctypes.string_at(array.data, array.bytes) if array.bytes else b""
    return np.frombuffer(text, np.int64)


def found_in_python(code: Ints, sums_ns: Ints) -> list[Sequence]:
    return _distinct(_candidates(code, sums_ns), len(code))


def _candidates(code: Ints, sums_ns: Ints) -> list[Sequence]:
    """Repeated sequences with most time, of each length, made as long as they can be."""
    found: dict[tuple[int, int], Sequence] = {}
    powers = _powers(code)
    seen: set[bytes] = set()
    for length, repeats in _repeated(powers):
        positions, bounds = repeats.positions, repeats.bounds
        time = sums_ns[positions + length] - sums_ns[positions]
        sums = np.add.reduceat(time, bounds[:-1])
        for group in np.argsort(-sums, kind="stable")[:TRIED].tolist():
            starts = _apart(positions[bounds[group] : bounds[group + 1]], length)
            text = starts.tobytes()
            if text in seen:  # a shorter one with these occurrences was made as long as it can be
                continue
            seen.add(text)
            sequence = _longest(code, sums_ns, powers, starts, length)
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


def _longest(code: Ints, sums_ns: Ints, powers: _Powers, starts: Ints, length: int) -> Sequence | None:
    """The sequence that these occurrences have in common, as long as all go on alike; None for a part of a period."""
    if len(starts) < MIN_COUNT:
        return None
    room = min(int(np.diff(starts).min()), MAX_LENGTH)
    ahead = min(room - length, len(code) - int(starts[-1]) - length)
    length += _in_common(powers, starts + length, ahead, 1)
    before = _in_common(powers, starts - 1, min(room - length, int(starts[0])), -1)
    starts, length = starts - before, length + before
    if _has_period(code[starts[0] : starts[0] + length]):
        return None
    time_ns = int((sums_ns[starts + length] - sums_ns[starts]).sum())
    return Sequence(starts, length, time_ns)


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


def _distinct(candidates: list[Sequence], events: int) -> list[Sequence]:
    """Without those that describe the time of one with more of it."""
    kept: list[Sequence] = []
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
        if len(kept) == MAX_FOUND:
            break
    return kept
