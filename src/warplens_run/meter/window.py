"""`with warplens.energy() as e:`: the energy that GPUs use while a block of Python runs.

The block begins with the next tick of every counter, for which it waits 0.2 s at most, and the window ends with the
first tick after it. So `seconds` is up to a tick longer than the block, and `joules` is exactly what was used in them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from warplens_run.meter.find import find_meters, look
from warplens_run.meter.idle import Idle, measure_idles
from warplens_run.meter.protocols import Absent, Meter, MeterError, Timing
from warplens_run.meter.ticks import Tick, next_ticks

TICK_TIMEOUT_SECONDS: Final = 0.2
IDLE_SECONDS: Final = 2.0
NO_GPU: Final = "no visible GPU"


@dataclass(frozen=True)
class DeviceEnergy:
    """What one GPU used."""

    device: int
    gpu: str
    meter: str
    joules: float
    seconds: float
    idle_watts: float | None = None

    @property
    def watts(self) -> float:
        return self.joules / self.seconds

    @property
    def active_joules(self) -> float | None:
        """Beyond what the GPU uses when idle; None where that was not measured."""
        return None if self.idle_watts is None else self.joules - self.idle_watts * self.seconds


class EnergyWindow:
    """A context manager; its figures are there when the block has ended, and None without a meter (see `note`)."""

    def __init__(
        self,
        devices: int | Iterable[int] | None = None,
        *,
        idle: bool | float = False,
        timing: Timing | None = None,
        meters: dict[int, Meter | Absent] | None = None,
    ) -> None:
        self._devices = (devices,) if isinstance(devices, int) else None if devices is None else tuple(devices)
        self._idle_seconds = IDLE_SECONDS if idle is True else float(idle)
        self._timing = timing or Timing()
        self._chosen_meters = meters
        self._meters: dict[int, Meter] = {}
        self._starts: Sequence[Tick] = ()
        self._idles: Sequence[Idle] = ()
        self._notes: list[str] = []
        self.devices: tuple[DeviceEnergy, ...] = ()

    @property
    def joules(self) -> float | None:
        """Of all GPUs together."""
        return sum(device.joules for device in self.devices) if self.devices else None

    @property
    def seconds(self) -> float | None:
        """Of the longest window: every GPU has its own ticks."""
        return max(device.seconds for device in self.devices) if self.devices else None

    @property
    def watts(self) -> float | None:
        """Mean power of all GPUs together."""
        return sum(device.watts for device in self.devices) if self.devices else None

    @property
    def idle_watts(self) -> float | None:
        """Of all GPUs together, as measured before the block; None unless that was asked for."""
        return sum(idle.watts for idle in self._idles) if self.devices and self._idles else None

    @property
    def active_joules(self) -> float | None:
        joules = [device.active_joules for device in self.devices if device.active_joules is not None]
        return sum(joules) if joules else None

    @property
    def note(self) -> str:
        """Why figures are missing or less exact; empty where all is well."""
        return "; ".join(self._notes)

    def __enter__(self) -> EnergyWindow:
        self._notes, self.devices, self._idles, self._starts = [], (), (), ()
        self._meters = self._find_meters()
        self._synchronize()
        try:
            if self._idle_seconds > 0 and self._meters:
                self._idles = measure_idles(list(self._meters.values()), self._idle_seconds, timing=self._timing)
            self._starts = self._ticks()
        except MeterError as error:
            self._give_up(str(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._meters:
            return
        meters = list(self._meters.values())
        self._synchronize()
        try:
            self.devices = tuple(self._measured(self._ticks()))
        except MeterError as failure:
            self._give_up(str(failure))
        finally:
            for meter in meters:
                meter.close()

    def _find_meters(self) -> dict[int, Meter]:
        if self._chosen_meters is not None:
            meters = self._chosen_meters
        elif self._devices is not None:
            meters = {device: look(device) for device in self._devices}
        else:
            meters = find_meters() or {0: look(0)}
        reasons = {meter.reason: device for device, meter in reversed(meters.items()) if isinstance(meter, Absent)}
        self._notes += [f"no meter of GPU {device}: {reason}" for reason, device in reasons.items()]
        if not meters:
            self._notes.append(NO_GPU)
        return {device: meter for device, meter in meters.items() if not isinstance(meter, Absent)}

    def _ticks(self) -> list[Tick]:
        ticks = next_ticks(list(self._meters.values()), self._timing, timeout=TICK_TIMEOUT_SECONDS)
        unaligned = [device for device, tick in zip(self._meters, ticks, strict=True) if not tick.is_tick]
        if unaligned:
            waited = f"the counter did not change in {TICK_TIMEOUT_SECONDS} s"
            self._notes.append(f"GPU {unaligned[0]}: {waited}, so the window is not aligned")
        return ticks

    def _measured(self, ends: Sequence[Tick]) -> Iterable[DeviceEnergy]:
        for index, (device, meter) in enumerate(self._meters.items()):
            start, end = self._starts[index], ends[index]
            if end.joules < start.joules:
                self._notes.append(f"GPU {device}: the counter went back, as it does when the driver is reloaded")
                continue
            if meter.is_sampled:
                self._notes.append(f"GPU {device}: a sum of power samples: there is no energy counter")
            idle = self._idles[index].watts if self._idles else None
            yield DeviceEnergy(
                device, meter.gpu, meter.name, end.joules - start.joules, end.seconds - start.seconds, idle
            )

    def _give_up(self, reason: str) -> None:
        self._notes.append(reason)
        self._meters, self.devices = {}, ()

    def _synchronize(self) -> None:
        """Waits for what PyTorch has enqueued, on GPUs it already uses."""
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
            return
        in_use = getattr(torch._C, "_cuda_hasPrimaryContext", lambda device: device == torch.cuda.current_device())
        try:
            for device in self._meters:
                if device < torch.cuda.device_count() and in_use(device):
                    torch.cuda.synchronize(device)
        except RuntimeError as error:
            self._notes.append(f"not synchronized: {str(error).splitlines()[0]}")


def energy(devices: int | Iterable[int] | None = None, *, idle: bool | float = False) -> EnergyWindow:
    """Measures the GPUs that are visible, or those given by number; `idle` measures their idle power first (2 s)."""
    return EnergyWindow(devices, idle=idle)
