"""NVIDIA's meters: NVML, through nvidia-ml-py or, where that is not installed, straight from the driver's library.

NVML numbers the GPUs of the machine, CUDA those it may see: the two are brought together by UUID.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

from warplens.replay.meter.protocols import Absent, Meter, MeterError
from warplens.replay.meter.sampled import SampledMeter

T = TypeVar("T")
POWER_INSTANT: Final = 186
"""NVML_FI_DEV_POWER_INSTANT. The plain reading of power is an average of the last second since Ampere."""
VALUE_FIELDS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal")
"""The member of a field's value, by its type."""


class NvmlMeter:
    """The counter of total energy (mJ, Volta and later) and instant power (mW)."""

    is_sampled = False

    def __init__(self, nvml: Any, handle: Any, gpu: str, uuid: str) -> None:
        self._nvml, self._handle = nvml, handle
        self.gpu, self.uuid = gpu, uuid
        self.name = f"NVML total energy, {gpu}"

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


def instant_watts(nvml: Any, handle: Any) -> float | None:
    try:
        field = nvml.nvmlDeviceGetFieldValues(handle, [POWER_INSTANT])[0]
    except (nvml.NVMLError, AttributeError):  # an older driver, or an older nvidia-ml-py
        return None
    if field.nvmlReturn != 0 or not 0 <= field.valueType < len(VALUE_FIELDS):
        return None
    return float(getattr(field.value, VALUE_FIELDS[field.valueType])) / 1e3


def look(device: int, uuid: str) -> Meter | Absent:
    """The meter of the GPU that CUDA calls `device`, or of the one with that UUID."""
    nvml = load()
    if isinstance(nvml, Absent):
        return nvml
    try:
        uuids = _uuids(nvml)
        index = _by_uuid(uuids, uuid) if uuid else _visible(nvml, uuids, device)
        return index if isinstance(index, Absent) else _meter(nvml, index, uuids[index])
    except (nvml.NVMLError, MeterError) as error:
        return Absent(f"NVML: {error}")


def count_visible() -> int:
    """GPUs that CUDA would show; 0 without NVML."""
    nvml = load()
    if isinstance(nvml, Absent):
        return 0
    try:
        names = _visible_names()
        return nvml.nvmlDeviceGetCount() if names is None else len(names)
    except nvml.NVMLError:
        return 0


def load() -> Any | Absent:
    """The module, or what stands for it, ready for use. NVML stays loaded: it counts how often it was asked for."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an older package of that name warns that it is one
            nvml: Any = import_module("pynvml")
    except ImportError:
        from warplens.replay.meter.nvml_library import open_library

        nvml = open_library()
        if nvml is None:
            return Absent("no NVML (neither nvidia-ml-py nor libnvidia-ml.so.1 is installed)")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Absent(f"NVML: {error}")
    return nvml


def _uuids(nvml: Any) -> list[str]:
    """Of every GPU of the machine, in NVML's order; empty where one may not be asked."""
    uuids = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            uuids.append(_text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index))))
        except nvml.NVMLError:
            uuids.append("")
    return uuids


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _by_uuid(uuids: list[str], uuid: str) -> int | Absent:
    """CUDA takes the beginning of a UUID for the whole, if it fits one GPU only."""
    if uuid.startswith("MIG-"):
        return Absent("a MIG slice has no meter of its own")
    prefix = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    fitting = [index for index, name in enumerate(uuids) if name.startswith(prefix)]
    return fitting[0] if len(fitting) == 1 else Absent(f"NVML has no GPU {uuid}")


def _visible_names() -> list[str] | None:
    """What CUDA_VISIBLE_DEVICES names, up to the first -1, as CUDA reads it; None where it is not set."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    end = next((index for index, word in enumerate(words) if not word or word.startswith("-")), len(words))
    return words[:end]


def _visible(nvml: Any, uuids: list[str], device: int) -> int | Absent:
    visible_names = _visible_names()
    names = [str(index) for index in range(len(uuids))] if visible_names is None else visible_names
    if not 0 <= device < len(names):
        return Absent(f"no GPU {device} (CUDA would see {len(names)})")
    name = names[device]
    if not name.isdecimal():
        return _by_uuid(uuids, name)
    if int(name) >= len(uuids):
        return Absent(f"no GPU {name} on this machine")
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and _are_mixed(nvml, len(uuids)):
        return Absent("GPUs of different models: set CUDA_DEVICE_ORDER=PCI_BUS_ID to make their order certain")
    return int(name)


def _are_mixed(nvml: Any, count: int) -> bool:
    """CUDA puts the fastest kind first, NVML goes by the bus; among GPUs of one kind these agree."""
    return len({_text(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(count)}) > 1


def _meter(nvml: Any, index: int, uuid: str) -> Meter:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu = _text(nvml.nvmlDeviceGetName(handle))
    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError:
        return SampledMeter(gpu, uuid, lambda: _power(nvml, handle))
    return NvmlMeter(nvml, handle, gpu, uuid)


def _power(nvml: Any, handle: Any) -> float:
    watts = instant_watts(nvml, handle)
    return watts if watts is not None else float(_read(nvml, nvml.nvmlDeviceGetPowerUsage, handle)) / 1e3
