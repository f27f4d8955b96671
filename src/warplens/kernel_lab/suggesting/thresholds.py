"""Every number that decides whether a suggestion is made, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warplens.model.rule import Thresholds, threshold


@dataclass(frozen=True)
class KernelThresholds(Thresholds):
    spill_bytes: float = threshold(32.0, "eight registers of a thread; less is noise of the register allocator")
    narrow_bits: float = threshold(32.0, "below a word per thread a warp's access no longer fills its 128-byte line")
    width_ratio: float = threshold(2.0, "an access at half the width takes twice the instructions")
    far_width_ratio: float = threshold(4.0, "one element of four: the access pattern is the cause, not an argument")
    occupancy_percent: float = threshold(50.0, "memory-bound kernels reach full bandwidth at half of the warp slots")
    conflict_ratio: float = threshold(2.0, "another layout must at least halve the passes to be worth the change")
    idle_wave_percent: float = threshold(20.0, "a fifth of the GPU idle over the whole launch shows in its time")
    many_waves: float = threshold(8.0, "with more waves than this, the last one is under an eighth of the launch")
    smallest_dot_side: float = threshold(32.0, "a 16-wide tile side loads two operands for each use of one")
    matrix_rows: float = threshold(64.0, "wgmma and tcgen05 take 64 rows or more at once")
    matrix_warps: float = threshold(4.0, "wgmma is issued by groups of four warps")


THRESHOLDS: Final = KernelThresholds()
