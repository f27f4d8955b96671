"""How much a packed file may unpack to: a few megabytes can hold any amount of the same byte."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec

from warplens_run.base.errors import FormatError
from warplens_run.base.machine import free_ram
from warplens_run.base.units import format_bytes

MOST_RATIO: Final = 64
"""Traces unpack to 10 to 31 times their size."""
LEAST_BYTES: Final = 4 << 30
"""What any file may unpack to, however small."""
MEMORY_SHARE: Final = 0.5
"""Of the free memory."""
REPETITION_RATIO: Final = 512
"""Half of what gzip reaches at most, with a single byte repeated: no profile comes near."""
REPETITION_BYTES: Final = 32 << 20
"""How much may come out before that ratio counts: a fraction of a second."""


class UnpackLimit(msgspec.Struct, frozen=True, dict=True):
    """The limit for one file."""

    packed_bytes: int
    where: str
    chosen_bytes: int = 0
    """What the user allows; 0: by the size of the file and the free memory."""

    @cached_property
    def most_bytes(self) -> int:
        if self.chosen_bytes:
            return self.chosen_bytes
        usual = max(MOST_RATIO * self.packed_bytes, LEAST_BYTES)
        free = free_ram()
        return usual if free is None else min(usual, int(free * MEMORY_SHARE))

    @property
    def usual_bytes(self) -> int:
        """What no sound file exceeds."""
        return min(self.most_bytes, max(MOST_RATIO * self.packed_bytes, REPETITION_BYTES))

    def check(self, unpacked: int, taken: int) -> None:
        """Refuse a file of which `taken` bytes make so much."""
        if unpacked > self.most_bytes:
            raise self._refusal(f"unpacks to more than {format_bytes(self.most_bytes)}")
        if not self.chosen_bytes and unpacked > max(REPETITION_BYTES, REPETITION_RATIO * taken):
            raise self._refusal(f"unpacks to more than {REPETITION_RATIO} times its size")

    def _refusal(self, message: str) -> FormatError:
        hint = "if it is sound and memory suffices, allow it a larger size"
        return FormatError(message, where=self.where, hint=hint, options=("max_size",))
