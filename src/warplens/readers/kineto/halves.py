"""Large files on two cores: a forked child decodes the second half of the text while the parent does the first.

The halves meet where one piece ends and the next begins, because names are numbered piece by piece. That this is
between two events, only decoding shows; so anything out of the ordinary on either side means reading the whole again
in one go, and the result is always the same as without this module.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import warnings

from warplens.machine import usable_cores
from warplens.readers.kineto.adding import EventAdder, KinetoEvents
from warplens.readers.kineto.events import EventReader
from warplens.readers.shared.gc_pause import gc_paused

MIN_BYTES = 64 << 20
"""Below this the fork and the way back cost more than they save."""


def read_events(reader: EventReader) -> KinetoEvents:
    """All events of a text; `reader` then knows the header and the damage."""
    with gc_paused():
        events = _in_halves(reader) if _worth_it(reader) else None
        if events is None:
            events = KinetoEvents()
            adder = EventAdder(events)
            for piece in reader.pieces():
                adder.add(piece)
            adder.finish()
    reader.finish()
    return events


def _worth_it(reader: EventReader) -> bool:
    if len(reader.text) < MIN_BYTES or sys.platform != "linux":
        return False
    return usable_cores() > 1


def _in_halves(reader: EventReader) -> KinetoEvents | None:
    middle = reader.cut_behind((reader.start + len(reader.text)) // 2)
    if middle is None:
        return None
    read_end, write_end = os.pipe()
    child = _fork()
    if child == 0:
        os.close(read_end)
        _decode_second_half(reader, middle, write_end)
    os.close(write_end)
    events = KinetoEvents()
    adder = EventAdder(events)
    sound = True
    for piece in reader.pieces_until(middle):
        if piece is None:
            sound = False
            break
        adder.add(piece)
    adder.finish()
    with os.fdopen(read_end, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if not sound or status != 0:
        return None
    # Our own child's words over our own pipe, not something from the file.
    second, reader.end_of_array = pickle.loads(answer)
    events.extend(second)
    return events


def _fork() -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn that other threads exist. The child touches none of their locks: it decodes, writes to
        # its pipe and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _decode_second_half(reader: EventReader, middle: re.Match[bytes], pipe: int) -> None:
    """The child's whole life; it never returns to the caller's code."""
    status = 1
    try:
        events = KinetoEvents()
        adder = EventAdder(events)
        for piece in reader.pieces(begin=middle.end() - 1):
            adder.add(piece)
        adder.finish()
        if not reader.damage:
            events.builder.gathered()  # one part instead of thousands to be sent
            with os.fdopen(pipe, "wb") as stream:
                pickle.dump((events, reader.end_of_array), stream, protocol=5)
            status = 0
    finally:
        os._exit(status)
