"""Which meter belongs to a GPU. Looking never raises: where there is none, the reason can be asked for."""

from __future__ import annotations

from warplens_run.base.nvml.devices import torch_uuid
from warplens_run.meter import amd, nvml
from warplens_run.meter.protocols import Absent, Meter


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
