"""NVIDIA's meters: NVML, through nvidia-ml-py or, where that is not installed, straight from the driver's library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from warplens_run.base.nvml import devices
from warplens_run.base.nvml.devices import NoNvmlError, NvmlGpu, instant_watts
from warplens_run.meter.protocols import Absent, Meter, MeterError
from warplens_run.meter.sampled import SampledMeter

T = TypeVar("T")


class NvmlMeter:
    """The counter of total energy (mJ, Volta and later) and instant power (mW)."""

    is_sampled = False

    def __init__(self, gpu: NvmlGpu) -> None:
        self._nvml, self._handle = gpu.nvml, gpu.handle
        self.gpu, self.uuid = gpu.name, gpu.uuid
        self.name = f"NVML total energy, {gpu.name}"

    def joules(self) -> float:
        return float(_read(self._nvml, self._nvml.nvmlDeviceGetTotalEnergyConsumption, self._handle)) / 1e3

    def watts(self) -> float | None:
        return instant_watts(self._nvml, self._handle)

    def close(self) -> None:
        pass


def _read(nvml: Any, call: Callable[..., T], *arguments: Any) -> T:
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        raise MeterError(f"NVML: {error}") from error


def look(device: int, uuid: str) -> Meter | Absent:
    """The meter of the GPU that CUDA calls `device`, or of the one with that UUID."""
    try:
        return _meter(devices.find_gpu(devices.load(), device, uuid))
    except NoNvmlError as error:
        return Absent(str(error))
    except MeterError as error:
        return Absent(f"NVML: {error}")


def count_visible() -> int:
    """GPUs that CUDA would show; 0 without NVML."""
    try:
        return devices.count_visible(devices.load())
    except NoNvmlError:
        return 0


def _meter(gpu: NvmlGpu) -> Meter:
    try:
        gpu.nvml.nvmlDeviceGetTotalEnergyConsumption(gpu.handle)
    except gpu.nvml.NVMLError:
        return SampledMeter(gpu.name, gpu.uuid, lambda: _power(gpu.nvml, gpu.handle))
    return NvmlMeter(gpu)


def _power(nvml: Any, handle: Any) -> float:
    watts = instant_watts(nvml, handle)
    return watts if watts is not None else float(_read(nvml, nvml.nvmlDeviceGetPowerUsage, handle)) / 1e3
