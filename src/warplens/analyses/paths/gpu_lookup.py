"""Which GPU a profile ran on that says no name: from its architecture, multiprocessors, memory bandwidth and clock."""

from __future__ import annotations

from typing import Final

from warplens.hardware import Gpu, all_gpus, gpu_of_device
from warplens.model.trace import Device, Meta
from warplens_run.base import bounded

FLOP_PER_CLOCK: Final = {
    # architecture: dense 16-bit FLOPs of a multiprocessor in a clock
    "sm_70": 1024,
    "sm_80": 2048,
    "sm_90": 4096,
    "gfx90a": 1024,
    "gfx942": 2048,
    "gfx950": 4096,
}
FARTHEST: Final = 0.1
"""Drivers report up to 6 % more bandwidth than a data sheet, which rounds it and quotes another clock."""
AS_NEAR: Final = 0.01


def gpu_of(meta: Meta) -> Gpu | None:
    """The GPU of a profile's own table of devices, or None where that is not certain."""
    for device in meta.devices:
        named = gpu_of_device(device.name, device.multiprocessors, device.memory_bytes, device.compute)
        gpu = named or _unnamed(device, meta)
        if gpu is not None:
            return gpu
    return None


def _unnamed(device: Device, meta: Meta) -> Gpu | None:
    alike = [gpu for gpu in all_gpus() if _is_alike(gpu, device)]
    bandwidth = _number(meta, f"memory bandwidth of GPU {device.id}") / 1e3
    if bandwidth:
        off = {gpu.name: abs(gpu.datasheet.bandwidth_tbps / bandwidth - 1) for gpu in alike}
        alike = [gpu for gpu in alike if off[gpu.name] <= min(FARTHEST, min(off.values()) + AS_NEAR)]
    return _by_clock(alike, device, _number(meta, f"clock of GPU {device.id}") / 1e6)


def _is_alike(gpu: Gpu, device: Device) -> bool:
    architecture = device.compute if device.compute.startswith("gfx") else f"sm_{device.compute.replace('.', '')}"
    return gpu.architecture == architecture.partition(":")[0] and gpu.multiprocessors == device.multiprocessors


def _by_clock(alike: list[Gpu], device: Device, clock_thz: float) -> Gpu | None:
    """Of several the fastest that this clock allows; where they are equally fast, the first.

    So a nameless A800 or H800 is taken for the A100 or H100 that it is but for NVLink and, on the H800, fp64.
    """
    most = FLOP_PER_CLOCK.get(alike[0].architecture, 0) * device.multiprocessors * clock_thz if alike else 0.0
    if len(alike) > 1 and most:
        alike = [gpu for gpu in alike if _rate(gpu) <= 1.01 * most]
        alike = [gpu for gpu in alike if _rate(gpu) == max(_rate(gpu) for gpu in alike)]
    same = {(_rate(gpu), gpu.datasheet.bandwidth_tbps) for gpu in alike}
    return alike[0] if len(same) == 1 else None


def _rate(gpu: Gpu) -> float:
    return gpu.datasheet.matrix.get("fp16", 0.0)


def _number(meta: Meta, fact: str) -> float:
    return bounded.number(meta.facts.get(fact, "").partition(" ")[0]) or 0.0
