"""Messages between a process and the children that it started itself: a length, then a pickle.

Nothing from a trace is ever unpickled: a child makes these bytes from records of this package.
"""

from __future__ import annotations

from typing import IO, Final

LENGTH_BYTES: Final = 8


def send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None once the other side is gone, in the middle of one as well."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "little")
    message = stream.read(length)
    return message if len(message) == length else None
