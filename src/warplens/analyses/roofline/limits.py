"""How fast a GPU could do a cost: which ceiling applies, and how long the work must take at least."""

from __future__ import annotations

from typing import Final

import msgspec

from warplens.costs import MATRIX, VECTOR, Cost
from warplens.costs.cost import BETWEEN_GPUS
from warplens.hardware import Gpu

COMPUTE: Final = "compute"
MEMORY: Final = "memory"
LINK: Final = "host link"
TENSOR_DTYPES: Final = frozenset({"bf16", "fp16", "fp8", "fp4", "int8", "tf32"})
LATENCY_US: Final = 2.0
"""Work below this is over before a kernel has started up: its share of the roofline says nothing."""


class Limit(msgspec.Struct, frozen=True):
    """What bounds a call, the ceiling that says so, the least time it takes, and whether that ceiling is measured."""

    bound: str
    unit: str
    roofline_us: float
    measured: bool


def limit_of(cost: Cost, gpu: Gpu, kernel_dtype: str, seen_tflops: float) -> Limit | None:
    """The roofline of one call; None for what goes from GPU to GPU, over links that no trace describes."""
    if cost.family == "collective" or ("way", BETWEEN_GPUS) in cost.params:
        return None
    if cost.family == "transfer":
        seconds = cost.bytes / (gpu.host_link_gbps * 1e9) if gpu.host_link_gbps else 0.0
        return Limit(LINK, LINK, seconds * 1e6, False) if seconds else None
    unit, dtype = unit_of(cost, gpu, kernel_dtype, seen_tflops)
    peak = gpu.peak_tflops(unit, dtype) if cost.flop else None
    bandwidth = gpu.bandwidth_tbps()
    compute_us = cost.flop / peak.value / 1e6 if peak and peak.value else 0.0
    memory_us = cost.bytes / bandwidth.value / 1e6 if bandwidth.value else 0.0
    is_compute = compute_us > memory_us
    return Limit(
        COMPUTE if is_compute else MEMORY,
        f"{unit} {dtype}" if is_compute else MEMORY,
        max(compute_us, memory_us),
        peak.measured if is_compute and peak else bandwidth.measured,
    )


def unit_of(cost: Cost, gpu: Gpu, kernel_dtype: str, seen_tflops: float) -> tuple[str, str]:
    """Which unit does the arithmetic, and in which type.

    fp32 products run on the matrix units only in TF32, which the kernel's name shows; where it does not, a rate that
    the vector units cannot reach does.
    """
    if cost.unit != MATRIX:
        return VECTOR, "fp64" if cost.dtype in ("fp64", "complex128") else "fp32"
    if cost.dtype in TENSOR_DTYPES:
        # A type that the matrix units do not know (bf16 before Ampere) is computed in fp32 on the vector units.
        return (MATRIX, cost.dtype) if gpu.peak_tflops(MATRIX, cost.dtype) else (VECTOR, "fp32")
    if cost.dtype == "fp64":
        return (MATRIX, "fp64") if gpu.peak_tflops(MATRIX, "fp64") else (VECTOR, "fp64")
    unit = MATRIX if gpu.peak_tflops(MATRIX, "fp32") else VECTOR
    plain = gpu.peak_tflops(unit, "fp32")
    too_fast = plain is not None and seen_tflops > plain.value
    if gpu.peak_tflops(MATRIX, "tf32") and (kernel_dtype == "tf32" or too_fast):
        return MATRIX, "tf32"
    return unit, "fp32"


def flag_of(limit: Limit, cost: Cost, gpu: Gpu, kernel_us: float) -> str:
    """Why a share of the roofline is not to be taken at face value; empty where it is."""
    if kernel_us < limit.roofline_us:
        if cost.approximate:
            return f"over 100 %: no exact count ({cost.approximate})"
        if limit.bound == COMPUTE:
            return f"over 100 %: the {limit.unit} ceiling is too low for this GPU, or fewer operations were done"
        cache = max(gpu.l2_mb, gpu.infinity_cache_mb)
        if limit.bound == MEMORY and cost.bytes < cache * 1e6:
            return f"over 100 %: L2-resident, the data fits in {cache:.0f} MB of cache"
        if limit.bound == MEMORY:
            return "over 100 %: part of the data came from cache, or the bandwidth ceiling is too low"
        return "over 100 %: the host link is faster than listed"
    if limit.roofline_us < LATENCY_US:
        return "too small: the work is shorter than a kernel's start-up"
    return ""
