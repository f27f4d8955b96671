"""Energy as a sum of power samples, for GPUs that have no counter of energy (NVIDIA's before Volta)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

SAMPLE_SECONDS: Final = 0.01


class SampledMeter:
    """A meter over a reading of power. From the first read on a thread keeps sampling, until it is closed."""

    is_sampled = True

    def __init__(
        self,
        gpu: str,
        uuid: str,
        read_watts: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        in_background: bool = True,
    ) -> None:
        self.gpu, self.uuid = gpu, uuid
        self.name = f"sampled power, {gpu}"
        self._read, self._clock = read_watts, clock
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_background = in_background
        self._joules = 0.0
        self._last = (clock(), read_watts())

    def joules(self) -> float:
        if self._in_background and self._thread is None:
            self._thread = threading.Thread(target=self._keep_sampling, name="warplens power samples", daemon=True)
            self._thread.start()
        return self._sample()

    def watts(self) -> float | None:
        return self._read()

    def close(self) -> None:
        self._closed.set()

    def _sample(self) -> float:
        with self._lock:
            watts, now = self._read(), self._clock()
            before, earlier = self._last
            self._joules += (now - before) * (watts + earlier) / 2
            self._last = (now, watts)
            return self._joules

    def _keep_sampling(self) -> None:
        from warplens_run.meter.protocols import MeterError

        while not self._closed.wait(SAMPLE_SECONDS):
            try:
                self._sample()
            except MeterError:  # the next read raises it
                return
