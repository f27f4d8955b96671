"""Blocks per SM or CU: what registers, shared memory, warp slots and block slots each allow, and the least of them."""

from __future__ import annotations

from warplens_lab.compiling.targets import CompileTarget
from warplens_lab.facts.records import Occupancy


def occupancy(
    target: CompileTarget, registers: int, shared_bytes: int, num_warps: int, tensor_memory_columns: int = 0
) -> Occupancy:
    """
    >>> from warplens_lab.compiling.targets import TARGETS
    >>> found = occupancy(TARGETS["sm90"], registers=168, shared_bytes=98304, num_warps=8)
    >>> found.blocks, found.limiter, found.percent
    (1, 'registers', 12.5)
    """
    limits = {
        "registers": _by_registers(target, registers, num_warps),
        "shared memory": _by_shared(target, shared_bytes),
        "tensor memory": target.tensor_memory_columns // max(tensor_memory_columns, 1) if tensor_memory_columns else 0,
        "warp slots": target.warp_slots // num_warps,
        "block slots": target.blocks if target.is_nvidia or num_warps > 1 else target.warp_slots,
    }
    if not tensor_memory_columns:
        del limits["tensor memory"]
    # A full SM lacks nothing; where several others agree, the one that a kernel can change is named: the order above.
    limiter = min(limits, key=lambda name: (limits[name], name != "warp slots"))
    blocks = limits[limiter]
    return Occupancy(blocks, blocks * num_warps, target.warp_slots, limiter, tuple(limits.items()))


def rounded_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _by_registers(target: CompileTarget, registers: int, num_warps: int) -> int:
    per_warp = rounded_up(max(registers, 1), target.register_granularity) * target.warp_size
    # Each part of the SM has its own registers, so a warp cannot use the rests of two parts.
    per_part = target.registers // target.warp_granularity // per_warp
    return per_part * target.warp_granularity // num_warps


def _by_shared(target: CompileTarget, shared_bytes: int) -> int:
    if shared_bytes > target.shared_bytes_per_block_limit:
        return 0
    block_bytes = rounded_up(shared_bytes + target.shared_bytes_reserved, target.shared_granularity)
    return target.shared_bytes // block_bytes if block_bytes else target.warp_slots
