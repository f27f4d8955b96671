"""The GPUs that stand in for one that is not here, as PyTorch and Triton would describe them. Standard library only.

One card for each architecture that kernels are compiled for. Figures are those that the cards report of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_KIB: Final = 1024
_GIB: Final = 2**30
REGISTERS: Final = 65536


@dataclass(frozen=True)
class StandInCard:
    """Sizes are bytes, of shared memory those that a multiprocessor has and that one block may take of it."""

    name: str
    capability: tuple[int, int]
    architecture: str
    """As Triton's targets name it: "90" or "gfx942"."""
    multiprocessors: int
    memory: int
    l2: int
    shared: int
    shared_per_block: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int

    @property
    def is_amd(self) -> bool:
        return self.architecture.startswith("gfx")

    @property
    def warp_size(self) -> int:
        return 64 if self.is_amd else 32

    @property
    def properties(self) -> dict[str, Any]:
        """As PyTorch names them."""
        return {
            "name": self.name,
            "major": self.capability[0],
            "minor": self.capability[1],
            "total_memory": self.memory,
            "multi_processor_count": self.multiprocessors,
            "warp_size": self.warp_size,
            "regs_per_multiprocessor": REGISTERS,
            "max_threads_per_block": 1024,
            "max_threads_per_multi_processor": 2048,
            "shared_memory_per_block": self.shared_per_block if self.is_amd else 48 * _KIB,
            "shared_memory_per_block_optin": self.shared_per_block,
            "shared_memory_per_multiprocessor": self.shared,
            "L2_cache_size": self.l2,
            "clock_rate": self.clock_khz,
            "memory_clock_rate": self.memory_clock_khz,
            "memory_bus_width": self.memory_bus_bits,
            "is_integrated": False,
            "is_multi_gpu_board": False,
            "gcnArchName": self.architecture if self.is_amd else self.name,
        }

    @property
    def triton_properties(self) -> dict[str, Any]:
        """As Triton's drivers name them."""
        return {
            "max_shared_mem": self.shared_per_block,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": self.multiprocessors,
            "warpSize": self.warp_size,
            "sm_clock_rate": self.clock_khz,
            "mem_clock_rate": self.memory_clock_khz,
            "mem_bus_width": self.memory_bus_bits,
            "max_threads_per_sm": 2048,
            "arch": self.architecture,
        }


def _nvidia(name: str, major: int, sms: int, gib: int, l2_mib: int, shared_kib: int, *clocks: int) -> StandInCard:
    memory, l2, shared = gib * _GIB, l2_mib * _KIB * _KIB, shared_kib * _KIB
    return StandInCard(name, (major, 0), str(major * 10), sms, memory, l2, shared, shared - _KIB, *clocks)


def _amd(name: str, minor: int, architecture: str, units: int, gib: int, lds_kib: int, *clocks: int) -> StandInCard:
    lds = lds_kib * _KIB
    return StandInCard(name, (9, minor), architecture, units, gib * _GIB, 4 * _KIB * _KIB, lds, lds, *clocks)


CARDS: Final[Mapping[str, StandInCard]] = {
    "sm80": _nvidia("NVIDIA A100-SXM4-80GB", 8, 108, 80, 40, 164, 1_410_000, 1_593_000, 5120),
    "sm90": _nvidia("NVIDIA H100 80GB HBM3", 9, 132, 80, 50, 228, 1_980_000, 2_619_000, 5120),
    "sm100": _nvidia("NVIDIA B200", 10, 148, 180, 126, 228, 1_965_000, 3_996_000, 8192),
    "gfx942": _amd("AMD Instinct MI300X", 4, "gfx942", 304, 192, 64, 2_100_000, 1_300_000, 8192),
    "gfx950": _amd("AMD Instinct MI355X", 5, "gfx950", 256, 288, 160, 2_400_000, 2_000_000, 8192),
}
"""By the names of `--target`."""
DEFAULT: Final = "sm90"
