"""Every number that decides whether a suggestion is made, with its reason."""

from __future__ import annotations

from typing import Final

from warplens.model.rule import Thresholds, threshold


class KernelThresholds(Thresholds):
    spill_bytes = threshold(32.0, "eight registers of a thread; less is noise of the register allocator")
    narrow_bits = threshold(32.0, "below a word per thread a warp's access no longer fills its 128-byte line")
    width_ratio = threshold(2.0, "an access at half the width takes twice the instructions")
    far_width_ratio = threshold(4.0, "one element of four: the access pattern is the cause, not an argument")
    occupancy_percent = threshold(50.0, "memory-bound kernels reach full bandwidth at half of the warp slots")
    conflict_ratio = threshold(2.0, "another layout must at least halve the passes to be worth the change")
    idle_wave_percent = threshold(20.0, "a fifth of the GPU idle over the whole launch shows in its time")
    many_waves = threshold(8.0, "with more waves than this, the last one is under an eighth of the launch")
    smallest_dot_side = threshold(32.0, "a 16-wide tile side loads two operands for each use of one")
    matrix_rows = threshold(64.0, "wgmma and tcgen05 take 64 rows or more at once")
    matrix_warps = threshold(4.0, "wgmma is issued by groups of four warps")

    sector_ratio = threshold(2.0, "half of the bytes that are moved are not used")
    parted_body = threshold(16.0, "a shorter body costs about as much as bringing the lanes together again")
    parted_warps_percent = threshold(50.0, "one warp of a block, which thread 0 writes a result for, costs little")


THRESHOLDS: Final = KernelThresholds()
