"""Every number that decides whether a suggestion is made, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Threshold:
    value: float
    reason: str


THRESHOLDS: Final = {
    "spill_bytes": Threshold(32.0, "eight registers of a thread; less is lost in the noise of the register allocator"),
    "narrow_bits": Threshold(32.0, "below a word per thread a warp's access no longer fills its 128-byte line"),
    "width_ratio": Threshold(2.0, "an access at half the width takes twice the instructions"),
    "far_width_ratio": Threshold(4.0, "one element of four: no argument is to blame, so the pattern of the access is"),
    "occupancy_percent": Threshold(50.0, "memory-bound kernels reach full bandwidth at about half of the warp slots"),
    "conflict_ratio": Threshold(2.0, "another layout must at least halve the passes to be worth the change"),
    "idle_wave_percent": Threshold(20.0, "a fifth of the card idle over the whole launch shows in its time"),
    "many_waves": Threshold(8.0, "with more waves than this, the last one is under an eighth of the launch"),
    "smallest_dot_side": Threshold(32.0, "a 16-wide tile side loads two operands for each use of one"),
    "matrix_rows": Threshold(64.0, "wgmma and tcgen05 take 64 rows or more at once"),
    "matrix_warps": Threshold(4.0, "wgmma is issued by groups of four warps"),
}


def limit(name: str) -> float:
    return THRESHOLDS[name].value
