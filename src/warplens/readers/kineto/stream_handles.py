"""Events that give a stream by its address, as those of ROCm do ("0x55d8564ba340"): no number of a stream.

A module of its own, loaded where a file has such events: its types take a millisecond to build.
"""

from __future__ import annotations

import re
from typing import cast

import msgspec

from warplens.model.kinds import NONE
from warplens.readers.kineto.records import KinetoArgs, KinetoEvent

HANDLE = re.compile(r"0x[0-9a-fA-F]{1,16}")


class ArgsWithHandle(KinetoArgs, gc=False):
    stream: int | str = NONE  # type: ignore[assignment]


class EventWithHandle(KinetoEvent, gc=False):
    args: ArgsWithHandle | None = None


_DECODER = msgspec.json.Decoder(list[EventWithHandle], strict=False)


def decode(text: bytes) -> list[KinetoEvent]:
    """The events of a list, those with a handle without a stream. Raises what msgspec does."""
    events = _DECODER.decode(text)
    for event in events:
        if event.args is not None and isinstance(event.args.stream, str):
            event.args.stream = _number(event.args.stream)
    return cast(list[KinetoEvent], events)


def _number(stream: str) -> int:
    return NONE if HANDLE.fullmatch(stream) else msgspec.convert(stream, int, strict=False)
