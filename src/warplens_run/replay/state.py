"""The GPU's clocks, temperature, power and what holds it back: read, never set."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Callable
from typing import Any, Final

from warplens_run.formats.replay_result import State

REASONS: Final = {
    # bit of NVML's clock event reasons: what it says; an idle GPU (bit 1) is not held back
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal, software",
    0x40: "thermal, hardware",
    0x80: "power brake",
    0x100: "display clocks",
}
SMI_FIELDS: Final = (
    "clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "power.limit", "clocks_event_reasons.active",
)  # fmt: skip
SMI_SECONDS: Final = 10


def reader(uuid: str) -> Callable[[], State | None]:
    """Reads the GPU of that UUID in well under a millisecond each time; through NVML, so None without its package."""
    try:
        pynvml: Any = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except Exception:  # noqa: BLE001 - no package, no driver, no such GPU: each raises its own
        return lambda: None
    return lambda: _nvml_state(pynvml, handle)


def first_state(uuid: str) -> State | None:
    """Also through nvidia-smi, which takes long."""
    return reader(uuid)() or _smi_state(uuid)


def _nvml_state(nvml: Any, handle: Any) -> State:
    def ask(name: str, *more: Any, scale: float = 1.0) -> float | None:
        try:
            return float(getattr(nvml, name)(handle, *more)) * scale
        except Exception:  # noqa: BLE001 - a GPU that does not report this value
            return None

    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return State(
        sm_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        memory_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        watts=ask("nvmlDeviceGetPowerUsage", scale=1e-3),
        power_limit_w=ask("nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
        throttle=throttle_reasons(int(reasons or 0)),
    )


def throttle_reasons(reasons: int) -> tuple[str, ...]:
    """
    >>> throttle_reasons(0x1), throttle_reasons(0x24)
    ((), ('power cap', 'thermal, software'))
    """
    return tuple(words for bit, words in REASONS.items() if reasons & bit)


def _smi_state(uuid: str) -> State | None:
    command = ["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return smi_line(run.stdout.strip())


def smi_line(text: str) -> State | None:
    """
    >>> smi_line("1980, 3201, 41, 120.5, 700.00, 0x0000000000000004").throttle
    ('power cap',)
    """
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(SMI_FIELDS):
        return None
    *numbers, reasons = cells
    sm, memory, celsius, watts, limit = map(_number, numbers)
    try:
        throttle = throttle_reasons(int(reasons, 16))
    except ValueError:
        throttle = ()
    return State(sm, memory, celsius, watts, limit, throttle)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
