"""AMD's meters, through the amdsmi that comes with ROCm.

The counter is `energy_accumulator` × `counter_resolution`, in µJ. Written from AMD's documentation; no AMD GPU has been
measured with it yet.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from warplens_run.meter.protocols import Absent, Meter, MeterError

LOAD_ERRORS: Final = (ImportError, OSError, KeyError, AttributeError, RuntimeError)
"""What importing amdsmi raises where ROCm is missing or only half there."""


class AmdMeter:
    is_sampled = False

    def __init__(self, smi: Any, handle: Any, gpu: str, uuid: str) -> None:
        self._smi, self._handle = smi, handle
        self.gpu, self.uuid = gpu, uuid
        self.name = f"amdsmi energy count, {gpu}"

    def joules(self) -> float:
        try:
            read = self._smi.amdsmi_get_energy_count(self._handle)
        except self._smi.AmdSmiException as error:
            raise MeterError(f"amdsmi: {error}") from error
        count = read.get("energy_accumulator", read.get("power"))  # `power` until ROCm 6.4
        if count is None:
            raise MeterError("amdsmi: an energy count without a count")
        return float(count) * float(read["counter_resolution"]) / 1e6

    def watts(self) -> float | None:
        try:
            power = self._smi.amdsmi_get_power_info(self._handle).get("current_socket_power")
        except self._smi.AmdSmiException:
            return None
        return float(power) if isinstance(power, (int, float)) and power > 0 else None  # "N/A", or 0, on some

    def close(self) -> None:
        pass


def look(device: int) -> Meter | Absent:
    """The meter of the GPU that HIP calls `device`."""
    smi = load()
    if isinstance(smi, Absent):
        return smi
    try:
        handles = smi.amdsmi_get_processor_handles()
        visible_gpus = visible(len(handles))
        if isinstance(visible_gpus, Absent):
            return visible_gpus
        if not 0 <= device < len(visible_gpus):
            return Absent(f"no GPU {device} (HIP would see {len(visible_gpus)})")
        handle = handles[visible_gpus[device]]
        gpu = str(smi.amdsmi_get_gpu_asic_info(handle).get("market_name") or "AMD GPU")
        meter = AmdMeter(smi, handle, gpu, str(smi.amdsmi_get_gpu_device_uuid(handle)))
        meter.joules()
        return meter
    except (smi.AmdSmiException, MeterError) as error:
        return Absent(f"amdsmi: {error}")


def count_visible() -> int:
    smi = load()
    if isinstance(smi, Absent):
        return 0
    try:
        visible_gpus = visible(len(smi.amdsmi_get_processor_handles()))
    except smi.AmdSmiException:
        return 0
    return 0 if isinstance(visible_gpus, Absent) else len(visible_gpus)


def load() -> Any | Absent:
    try:
        smi: Any = import_module("amdsmi")
    except LOAD_ERRORS:
        return Absent("no amdsmi")
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException as error:
        return Absent(f"amdsmi: {error}")
    return smi


def visible(count: int) -> list[int] | Absent:
    """Which of the machine's GPUs HIP sees: first ROCR_VISIBLE_DEVICES chooses, then HIP's own variable among those."""
    indices = list(range(count))
    second = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in os.environ else "CUDA_VISIBLE_DEVICES"
    for variable in ("ROCR_VISIBLE_DEVICES", second):
        text = os.environ.get(variable)
        if text is None:
            continue
        words = [word.strip() for word in text.split(",") if word.strip()]
        if not all(word.isdecimal() and int(word) < len(indices) for word in words):
            return Absent(f"{variable}={text}: only indices of present GPUs are supported")
        indices = [indices[int(word)] for word in words]
    return indices
