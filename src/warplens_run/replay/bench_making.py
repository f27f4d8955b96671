"""What a worker sets up before its first unit: the device, PyTorch's settings, the cache, the meter."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warplens_run import __version__
from warplens_run.base.errors import WarplensError
from warplens_run.base.torch_device import gpu_trouble
from warplens_run.base.units import plural
from warplens_run.formats.replay_plan import ReplayPlan
from warplens_run.formats.replay_result import State
from warplens_run.replay import settings, wire
from warplens_run.replay.caches import Cache
from warplens_run.replay.energy_meter import LazyMeter, lazy_meter
from warplens_run.replay.faults import one_line
from warplens_run.replay.state import first_state, reader
from warplens_run.replay.unit_run import Bench


def make(plan: ReplayPlan, job: wire.ReplayJob, report_part: Callable[[str], None]) -> tuple[Bench, wire.Hello]:
    device = find_device(job.options.device)
    notes = list(settings.restore(plan.settings))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.empty(1, device=device)  # the context must be alive when idle power is measured
        torch.cuda.synchronize()
    state = first_state(uuid_of(device)) if device.type == "cuda" else None
    meter, note = _meter(device, job)
    notes += [note] if note else []
    cache = Cache(job.options.cache, device)
    bench = Bench(device, job.options, cache, plan.sources, Path(job.folder), meter, report_part)
    hello = wire.Hello(name_of(device), versions(), state, meter is not None, tuple(notes))
    return bench, hello


def find_device(requested: str) -> Any:
    if requested == "cpu":
        return torch.device("cpu")
    device = torch.device(requested or "cuda")
    trouble = gpu_trouble(torch, device.index or 0)
    if trouble is not None:
        raise WarplensError(trouble.message, hint=f"{trouble.hint}; the device cpu runs the plan without a GPU")
    device = device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
    if device.index >= torch.cuda.device_count():
        raise WarplensError(f"no {device}: PyTorch sees {plural(torch.cuda.device_count(), 'GPU')}")
    return device


def name_of(device: Any) -> str:
    return "cpu" if device.type == "cpu" else str(torch.cuda.get_device_name(device))


def uuid_of(device: Any) -> str:
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    return uuid if not uuid or uuid.startswith("GPU-") else f"GPU-{uuid}"


def state_reader(device: Any) -> Callable[[], State | None]:
    return reader(uuid_of(device)) if device.type == "cuda" else lambda: None


def versions() -> dict[str, str]:
    numbers = {"warplens": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    for name, value in (("cuda", torch.version.cuda), ("hip", getattr(torch.version, "hip", None))):
        if value:
            numbers[name] = str(value)
    if torch.version.cuda and torch.backends.cudnn.is_available():
        numbers["cudnn"] = str(torch.backends.cudnn.version())
    return numbers


def _meter(device: Any, job: wire.ReplayJob) -> tuple[LazyMeter | None, str]:
    """The meter, and a note where there is none though one was wanted."""
    options = job.options
    if options.energy is False:
        return None, ""
    if device.type != "cuda":
        return None, "no energy: a CPU run has no meter" if options.energy else ""
    try:
        meter = lazy_meter(device, job.meter, options.energy_seconds)
    except Exception as error:  # noqa: BLE001 - a driver may say no in many ways, and time can be measured without it
        return None, f"no energy: {one_line(error)}"
    return (None, f"no energy: {meter}") if isinstance(meter, str) else (meter, "")
