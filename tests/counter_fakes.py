"""An NVML without a GPU, and the process that samples it: `python -m counter_fakes FILE`."""

# ruff: noqa: N802 - NVML's own names

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from warplens_run.base.files import write_whole
from warplens_run.base.nvml.devices import NoNvmlError, NvmlGpu
from warplens_run.counters.sampling import Sampler, run
from warplens_run.counters.sensors import Sensors

POWER_LIMIT = 0x4
SAMPLED = "sampled"


class CounterNvml:
    """Answers for any GPU as it is told; `lacking` are functions that the driver refuses."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, lacking: tuple[str, ...] = (), has_instant: bool = True) -> None:
        self.lacking, self.has_instant = lacking, has_instant
        self.milliwatts, self.millijoules, self.clock = 600_000, 5_000_000, 1500
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml"):
            self.asked.append(name)
            if name in self.lacking:
                raise self.NVMLError("Not Supported")
        return super().__getattribute__(name)

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[int]) -> list[Any]:
        status = 0 if self.has_instant else 3
        return [SimpleNamespace(nvmlReturn=status, valueType=1, value=SimpleNamespace(uiVal=self.milliwatts))]

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return self.milliwatts + 1000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> int:
        return self.millijoules

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return 700_000

    def nvmlDeviceGetClockInfo(self, handle: Any, domain: int) -> int:
        return {1: self.clock, 2: 3201}[domain]

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, domain: int) -> int:
        return {1: 1980, 2: 3201}[domain]

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(gpu=99, memory=40)

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        assert sensor == 0
        return 61

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return SimpleNamespace(total=150 << 30, free=140 << 30, used=10 << 30)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int:
        return POWER_LIMIT


def sensors(nvml: CounterNvml | None = None) -> Sensors:
    return Sensors(NvmlGpu(nvml or CounterNvml(), "handle", "NVIDIA H200", "GPU-1"))


def find(device: int, uuid: str) -> Sensors:
    if device > 0:
        raise NoNvmlError(f"NVML has no GPU {uuid}")
    return sensors()


class FakeSampler(Sampler):
    """Leaves a file when it has sampled."""

    def sample(self) -> None:
        super().sample()
        if self.count == 1:
            Path(sys.argv[1]).with_name(SAMPLED).touch()


if __name__ == "__main__":
    sampler = FakeSampler(find, interval=0.002)
    run(sampler, sys.stdin.fileno())
    write_whole(Path(sys.argv[1]), json.dumps(sampler.document()).encode())
