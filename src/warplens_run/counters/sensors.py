"""What NVML reads of a GPU at one moment: power, clocks, utilisation, temperature, memory, what lowers the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from warplens_run.base.nvml.devices import NvmlGpu, instant_watts

SM_CLOCK: Final = 1
MEMORY_CLOCK: Final = 2
GPU_SENSOR: Final = 0
READINGS: Final = (
    # In the order in which they are read. Power comes first: the time of a sample is that of its power.
    "power_w",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "gpu_busy_percent",
    "memory_busy_percent",
    "temperature_c",
    "memory_used_bytes",
    "clock_reasons",
)
Sample = list[float | None]


class Sensors:
    """The readings of one GPU; what it does not report is None, and not asked for again."""

    def __init__(self, gpu: NvmlGpu) -> None:
        self._gpu = gpu
        self._calls: dict[str, Callable[[], Any]] = {
            "power_w": self._power,
            "sm_clock_mhz": lambda: gpu.nvml.nvmlDeviceGetClockInfo(gpu.handle, SM_CLOCK),
            "memory_clock_mhz": lambda: gpu.nvml.nvmlDeviceGetClockInfo(gpu.handle, MEMORY_CLOCK),
            "busy": lambda: gpu.nvml.nvmlDeviceGetUtilizationRates(gpu.handle),
            "temperature_c": lambda: gpu.nvml.nvmlDeviceGetTemperature(gpu.handle, GPU_SENSOR),
            "memory": lambda: gpu.nvml.nvmlDeviceGetMemoryInfo(gpu.handle),
            "clock_reasons": lambda: gpu.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu.handle),
        }
        self._has_instant = instant_watts(gpu.nvml, gpu.handle) is not None

    def power(self) -> float | None:
        """In watts; read apart, so that a clock can be read before and after."""
        watts: float | None = self._read("power_w")
        return watts

    def others(self) -> Sample:
        """The readings after the power, in the order of `READINGS`."""
        busy, memory = self._read("busy"), self._read("memory")
        return [
            self._read("sm_clock_mhz"),
            self._read("memory_clock_mhz"),
            None if busy is None else int(busy.gpu),
            None if busy is None else int(busy.memory),
            self._read("temperature_c"),
            None if memory is None else int(memory.used),
            self._read("clock_reasons"),
        ]

    def facts(self) -> dict[str, Any]:
        """What does not change: the name, and the limits that readings are compared with."""
        gpu = self._gpu
        limits = {
            "power_limit_w": lambda: gpu.nvml.nvmlDeviceGetEnforcedPowerLimit(gpu.handle) / 1e3,
            "max_sm_clock_mhz": lambda: gpu.nvml.nvmlDeviceGetMaxClockInfo(gpu.handle, SM_CLOCK),
            "max_memory_clock_mhz": lambda: gpu.nvml.nvmlDeviceGetMaxClockInfo(gpu.handle, MEMORY_CLOCK),
            "memory_bytes": lambda: int(gpu.nvml.nvmlDeviceGetMemoryInfo(gpu.handle).total),
        }
        facts: dict[str, Any] = {"name": gpu.name, "power": "instant" if self._has_instant else "mean of a second"}
        return facts | {name: value for name, call in limits.items() if (value := self._answer(call)) is not None}

    def joules(self) -> float | None:
        """The counter of total energy, which moves every 100 ms or so."""
        gpu = self._gpu
        joules: float | None = self._answer(lambda: gpu.nvml.nvmlDeviceGetTotalEnergyConsumption(gpu.handle) / 1e3)
        return joules

    def _power(self) -> float:
        watts = instant_watts(self._gpu.nvml, self._gpu.handle) if self._has_instant else None
        return watts if watts is not None else self._gpu.nvml.nvmlDeviceGetPowerUsage(self._gpu.handle) / 1e3

    def _read(self, name: str) -> Any:
        call = self._calls.get(name)
        if call is None:
            return None
        value = self._answer(call)
        if value is None:
            del self._calls[name]
        return value

    def _answer(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._gpu.nvml.NVMLError, AttributeError):  # the latter of a stand-in without that function
            return None
