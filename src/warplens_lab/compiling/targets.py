"""The GPUs that kernels are compiled for: what one multiprocessor (SM) or compute unit (CU) of each has to give.

Sources: the occupancy tables of the CUDA C++ Programming Guide (compute capabilities 8.0, 9.0, 10.0) and, for AMD, the
CDNA 3 and CDNA 4 instruction-set guides with the limits that LLVM's AMDGPU back end applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warplens.hardware import Gpu, gpu_named
from warplens_run.base.errors import UsageError


@dataclass(frozen=True)
class CompileTarget:
    """An architecture. Registers and threads are counted per SM or CU; sizes are bytes."""

    name: str
    vendor: str
    architecture: str
    """As Triton's backends take it: "90" or "gfx942"."""
    warp_size: int
    registers: int
    registers_per_thread_limit: int
    register_granularity: int
    """A thread's registers are rounded up to a multiple of this many."""
    warp_slots: int
    warp_granularity: int
    """Warps are spread over this many parts, each with an equal share of the registers."""
    blocks: int
    shared_bytes: int
    shared_bytes_per_block_limit: int
    shared_bytes_reserved: int
    """What the driver takes of the shared memory for each block."""
    shared_granularity: int
    banks: int
    matrix_unit: str
    """The instruction that reaches the matrix unit's full rate."""
    card: str
    """The card whose number of multiprocessors counts for waves, unless another is named."""
    tensor_memory_columns: int = 0

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == "nvidia"

    def gpu(self, card: str | None = None) -> Gpu:
        """The card that waves are counted for."""
        return gpu_named(card or self.card)


_KIB: Final = 1024


def _nvidia(name: str, shared_kib: int, matrix_unit: str, card: str, tensor_memory_columns: int = 0) -> CompileTarget:
    return CompileTarget(
        name=name,
        vendor="nvidia",
        architecture=name.removeprefix("sm"),
        warp_size=32,
        registers=65536,
        registers_per_thread_limit=255,
        register_granularity=8,
        warp_slots=64,
        warp_granularity=4,
        blocks=32,
        shared_bytes=shared_kib * _KIB,
        shared_bytes_per_block_limit=(shared_kib - 1) * _KIB,
        shared_bytes_reserved=_KIB,
        shared_granularity=128,
        banks=32,
        matrix_unit=matrix_unit,
        card=card,
        tensor_memory_columns=tensor_memory_columns,
    )


def _amd(name: str, lds_kib: int, banks: int, card: str) -> CompileTarget:
    return CompileTarget(
        name=name,
        vendor="amd",
        architecture=name,
        warp_size=64,
        # Four SIMDs of 512 registers for each of 64 lanes; vector and accumulation registers share them.
        registers=4 * 512 * 64,
        registers_per_thread_limit=512,
        register_granularity=8,
        warp_slots=32,
        warp_granularity=4,
        # A block of several waves needs one of sixteen barriers.
        blocks=16,
        shared_bytes=lds_kib * _KIB,
        shared_bytes_per_block_limit=lds_kib * _KIB,
        shared_bytes_reserved=0,
        shared_granularity=512 if name == "gfx942" else 1280,
        banks=banks,
        matrix_unit="v_mfma",
        card=card,
    )


TARGETS: Final[Mapping[str, CompileTarget]] = {
    target.name: target
    for target in (
        _nvidia("sm80", 164, "mma.sync", "A100 SXM 80GB"),
        _nvidia("sm90", 228, "wgmma", "H100 SXM"),
        _nvidia("sm100", 228, "tcgen05.mma", "B200", tensor_memory_columns=512),
        _amd("gfx942", 64, 32, "MI300X"),
        _amd("gfx950", 160, 64, "MI355X"),
    )
}


def target_named(name: str) -> CompileTarget:
    """
    >>> target_named("sm_90a").name
    'sm90'
    """
    plain = name.strip().lower().replace("sm_", "sm")
    if plain.startswith("sm"):
        plain = plain.rstrip("af")
    if plain not in TARGETS:
        raise UsageError(f"unknown target {name!r}", hint=f"targets: {', '.join(TARGETS)}")
    return TARGETS[plain]


def parse_targets(text: str) -> tuple[CompileTarget, ...]:
    """
    >>> [target.name for target in parse_targets("sm80, sm90,sm80")]
    ['sm80', 'sm90']
    """
    return tuple(dict.fromkeys(target_named(part) for part in text.split(",") if part.strip()))
