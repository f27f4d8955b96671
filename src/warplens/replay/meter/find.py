"""Which meter belongs to a GPU. Looking never raises: where there is none, the reason can be asked for."""

from __future__ import annotations

import sys

from warplens.replay.meter import amd, nvml
from warplens.replay.meter.protocols import Absent, Meter


def find_meter(device: int = 0, *, uuid: str = "") -> Meter | None:
    """The meter of a GPU, numbered as PyTorch numbers it or named by its UUID; None without one (see `why_none`)."""
    meter = look(device, uuid=uuid)
    return None if isinstance(meter, Absent) else meter


def why_none(device: int = 0, *, uuid: str = "") -> str:
    """Why `find_meter` finds none; empty where it finds one."""
    meter = look(device, uuid=uuid)
    return meter.reason if isinstance(meter, Absent) else ""


def look(device: int = 0, *, uuid: str = "") -> Meter | Absent:
    """The meter, or why there is none."""
    first = nvml.look(device, uuid or torch_uuid(device))
    if not isinstance(first, Absent) or uuid:
        return first
    second = amd.look(device)
    return Absent(f"{first.reason}; {second.reason}") if isinstance(second, Absent) else second


def find_meters() -> dict[int, Meter | Absent]:
    """Of every visible GPU."""
    return {device: look(device) for device in range(nvml.count_visible() or amd.count_visible())}


def torch_uuid(device: int) -> str:
    """What PyTorch says where it already uses the GPUs; it is never made to start doing so."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return ""
    if torch.version.hip or not 0 <= device < torch.cuda.device_count():
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", "") or "")
