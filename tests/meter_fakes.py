"""A GPU without a GPU: time that passes only when it is let, power by what runs, and a counter that ticks."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from warplens_run.meter import MeterError, Timing

READ_SECONDS = 20e-6


@dataclass
class FakeGpu:
    """Work is queued; while some runs, power is `busy_watts`, reached in `rise_seconds`."""

    idle_watts: float = 120.0
    busy_watts: float = 600.0
    rise_seconds: float = 0.0
    noise_watts: float = 0.0
    """Of the power of each tick, so that windows differ."""
    seed: int = 0
    now: float = 100.0
    step_seconds: float = 0.0002
    joules: float = 0.0
    ends: list[float] = field(default_factory=list)
    watts: float = 120.0
    simulated: float = 100.0

    @property
    def timing(self) -> Timing:
        return Timing(clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def enqueue(self, seconds: float) -> None:
        self.ends.append(max(self.now, self.ends[-1] if self.ends else 0.0) + seconds)

    def energy_at(self, moment: float) -> float:
        """Follows power step by step up to a moment, which only ever moves on."""
        busy_until = self.ends[-1] if self.ends else 0.0
        while self.simulated < moment:
            step = min(self.step_seconds, moment - self.simulated)
            target = self.busy_watts if self.simulated < busy_until else self.idle_watts
            share = 1.0 if self.rise_seconds == 0 else 1 - math.exp(-step / self.rise_seconds)
            self.watts += (target - self.watts) * share
            self.joules += self.watts * step
            self.simulated += step
        return self.joules


class FakeMeter:
    """Ticks every `tick_seconds`, give or take; between ticks it says what it said."""

    name = "fake energy, Fake GPU"
    gpu = "Fake GPU"
    uuid = "GPU-fake"
    is_sampled = False

    def __init__(
        self, gpu: FakeGpu, *, tick_seconds: float = 0.1, jitter_seconds: float = 0.0, instant: float | None = 1.0,
        fails_after: float = math.inf, read_seconds: float = READ_SECONDS,
    ) -> None:  # fmt: skip
        self._gpu, self._tick, self._jitter, self._instant = gpu, tick_seconds, jitter_seconds, instant
        self._random = random.Random(gpu.seed)
        self._next = gpu.now + 0.37 * tick_seconds
        self._planned = self._next
        self._shown = 0.0
        self._noise = 0.0
        self._fails_at = gpu.now + fails_after
        self.closed = False
        self._read_seconds = read_seconds

    def joules(self) -> float:
        self._gpu.now += self._read_seconds
        if self._gpu.now >= self._fails_at:
            raise MeterError("the GPU is lost")
        while self._gpu.now >= self._next:
            self._noise += self._random.gauss(0, self._gpu.noise_watts) * self._tick
            self._shown = self._gpu.energy_at(self._next) + self._noise
            self._planned += self._tick
            self._next = self._planned + self._random.uniform(-self._jitter, self._jitter)
        return self._shown

    def watts(self) -> float | None:
        self._gpu.now += READ_SECONDS
        return None if self._instant is None else self._instant * self._gpu.watts

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeLoop:
    """Replays of some calls each; launching one takes the host `launch_seconds`."""

    gpu: FakeGpu
    calls: int = 50
    call_seconds: float = 100e-6
    launch_seconds: float = 10e-6
    synchronized: int = 0

    def launch(self) -> None:
        self.gpu.now += self.launch_seconds
        self.gpu.enqueue(self.calls * self.call_seconds)

    def completed(self) -> int:
        low = len(self.gpu.ends)
        while low and self.gpu.ends[low - 1] > self.gpu.now:
            low -= 1
        return low

    def synchronize(self) -> None:
        self.gpu.now = max(self.gpu.now, self.gpu.ends[-1] if self.gpu.ends else 0.0)
        self.synchronized += 1
