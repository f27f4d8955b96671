"""One text through both readers of trace-event JSON: the same trace to the last code, or left to Python."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from warplens import native_library
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Meta, Trace
from warplens.readers.kineto import events, native, reader
from warplens_run.base.errors import FormatError

HANDED_OVER = "handed over"
SAME = "same"
META = Meta(source="trace", format="")

needs_library = pytest.mark.skipif(
    native_library.library() is None, reason="the native reader is not built: make native"
)


def in_chunks(text: bytes, rng: Random) -> Iterator[bytes]:
    """The text in pieces of one size, from a byte to all of it."""
    size = rng.choice((1, 7, 64, 1000, 1 << 16, max(1, len(text))))
    size = max(size, len(text) // 2000)
    return (text[at : at + size] for at in range(0, len(text), size))


def with_pieces_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, so that small texts have many."""
    monkeypatch.setattr(events, "PIECE_BYTES", size)
    monkeypatch.setattr(native, "PIECE_BYTES", size)


def verdict(text: bytes, rng: Random) -> str:
    """`SAME` or `HANDED_OVER`; anything else is the list of parts that differ."""
    library = native_library.library()
    assert library is not None
    try:
        file = native.read_natively(library, in_chunks(text, rng))
    except native.HandedOverError:
        return HANDED_OVER
    try:
        by_native: Trace | str = reader._trace(file, META, [Note("damaged", 1)], ())
    except FormatError as error:
        by_native = str(error)
    try:
        by_python: Trace | str = reader.read(text, META, [Note("damaged", 1)])
    except FormatError as error:
        by_python = str(error)
    if isinstance(by_native, str) or isinstance(by_python, str):
        return SAME if by_native == by_python else f"{by_python} != {by_native}"
    return ", ".join(unequal_parts(by_python, by_native)) or SAME


def unequal_parts(first: Trace, second: Trace) -> list[str]:
    """Stricter than `support.differences`: types, codes and the order of everything count."""
    frames = [
        name
        for name in ("events", *SIDE_FRAMES)
        if not (getattr(first, name).equals(getattr(second, name)) and _types(first, name) == _types(second, name))
    ]
    parts = [name for name in ("names", "quality", "meta") if getattr(first, name) != getattr(second, name)]
    orders = ["phases"] if list(first.meta.phases) != list(second.meta.phases) else []
    return frames + parts + orders


def _types(trace: Trace, name: str) -> object:
    return getattr(trace, name).schema
