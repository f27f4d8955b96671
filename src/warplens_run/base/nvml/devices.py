"""Which GPU of NVML is the one that CUDA calls by a number.

NVML numbers the GPUs of the machine, CUDA those it may see: the two are brought together by UUID.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from warplens_run.base.nvml import library

POWER_INSTANT: Final = 186
"""NVML_FI_DEV_POWER_INSTANT. The plain reading of power is an average of the last second since Ampere."""
VALUE_FIELDS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal")
"""The member of a field's value, by its type."""


NO_LIBRARY: Final = "no NVML (libnvidia-ml.so.1 is not installed)"
NO_NVML: Final = "no NVML (neither nvidia-ml-py nor libnvidia-ml.so.1 is installed)"


class NoNvmlError(Exception):
    """Why a GPU has no NVML."""


@dataclass(frozen=True)
class NvmlGpu:
    """One GPU, and the module that answers for it."""

    nvml: Any
    handle: Any
    name: str
    uuid: str


def load(*, own: bool = False) -> Any:
    """nvidia-ml-py or what stands for it, ready for use; `own` takes the driver's library itself in any case.

    NVML stays loaded: it counts how often it was asked for. Raises `NoNvmlError`.
    """
    nvml = None if own else _package()
    nvml = nvml or library.open_library()
    if nvml is None:
        raise NoNvmlError(NO_LIBRARY if own else NO_NVML)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoNvmlError(f"NVML: {error}") from error
    return nvml


def _package() -> Any | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an older package of that name warns that it is one
            return import_module("pynvml")
    except ImportError:
        return None


def find_gpu(nvml: Any, device: int, uuid: str = "") -> NvmlGpu:
    """The GPU that CUDA calls `device`, or the one with that UUID; raises `NoNvmlError`."""
    try:
        uuids = _uuids(nvml)
        index = _by_uuid(uuids, uuid) if uuid else _visible(nvml, uuids, device)
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return NvmlGpu(nvml, handle, _text(nvml.nvmlDeviceGetName(handle)), uuids[index])
    except nvml.NVMLError as error:
        raise NoNvmlError(f"NVML: {error}") from error


def count_visible(nvml: Any) -> int:
    """GPUs that CUDA would show; 0 where NVML does not say."""
    try:
        names = _visible_names()
        return int(nvml.nvmlDeviceGetCount()) if names is None else len(names)
    except nvml.NVMLError:
        return 0


def torch_uuid(device: int) -> str:
    """What PyTorch says where it already uses the GPUs; it is never made to start doing so."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return ""
    if torch.version.hip or not 0 <= device < torch.cuda.device_count():
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", "") or "")


def instant_watts(nvml: Any, handle: Any) -> float | None:
    """Power at this moment; None where the GPU or the driver does not report it."""
    try:
        field = nvml.nvmlDeviceGetFieldValues(handle, [POWER_INSTANT])[0]
    except (nvml.NVMLError, AttributeError):  # an older driver, or an older nvidia-ml-py
        return None
    if field.nvmlReturn != 0 or not 0 <= field.valueType < len(VALUE_FIELDS):
        return None
    return float(getattr(field.value, VALUE_FIELDS[field.valueType])) / 1e3


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


def _by_uuid(uuids: list[str], uuid: str) -> int:
    """CUDA takes the beginning of a UUID for the whole, if it fits one GPU only."""
    if uuid.startswith("MIG-"):
        raise NoNvmlError("a MIG slice has no meter of its own")
    prefix = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    fitting = [index for index, name in enumerate(uuids) if name.startswith(prefix)]
    if len(fitting) != 1:
        raise NoNvmlError(f"NVML has no GPU {uuid}")
    return fitting[0]


def _visible_names() -> list[str] | None:
    """What CUDA_VISIBLE_DEVICES names, up to the first -1, as CUDA reads it; None where it is not set."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    end = next((index for index, word in enumerate(words) if not word or word.startswith("-")), len(words))
    return words[:end]


def _visible(nvml: Any, uuids: list[str], device: int) -> int:
    visible_names = _visible_names()
    names = [str(index) for index in range(len(uuids))] if visible_names is None else visible_names
    if not 0 <= device < len(names):
        raise NoNvmlError(f"no GPU {device} (CUDA would see {len(names)})")
    name = names[device]
    if not name.isdecimal():
        return _by_uuid(uuids, name)
    if int(name) >= len(uuids):
        raise NoNvmlError(f"no GPU {name} on this machine")
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and _are_mixed(nvml, len(uuids)):
        raise NoNvmlError("GPUs of different models: set CUDA_DEVICE_ORDER=PCI_BUS_ID to make their order certain")
    return int(name)


def _are_mixed(nvml: Any, count: int) -> bool:
    """CUDA puts the fastest kind first, NVML goes by the bus; among GPUs of one kind these agree."""
    return len({_text(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(count)}) > 1
