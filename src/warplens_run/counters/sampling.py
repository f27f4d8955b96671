"""A process that reads the GPUs' power, clocks and so on at intervals, and in the end writes them as a bundle's file.

`python -m warplens_run.counters.sampling FILE` runs beside the program: in a thread of it, every call of NVML would
take Python's lock from the program and give it back. Lines of JSON on its standard input say what to do: which GPUs the
program uses, whether to sample now, and when to end.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from warplens_run.base.files import write_whole
from warplens_run.base.nvml import devices
from warplens_run.base.nvml.devices import NoNvmlError
from warplens_run.counters.sensors import READINGS, Sample, Sensors
from warplens_run.formats.bundle_files import COUNTERS_VERSION

INTERVAL_SECONDS: Final = 0.02
"""The readings themselves are updated every 20 to 100 ms."""
BUSY_SHARE: Final = 0.2
"""Of the time that reading may take: where the driver answers slowly, samples are further apart."""
MOST_SAMPLES: Final = 20_000
"""Some seven minutes; of a longer recording every second one is dropped, and then half as many are made."""
PARENT_SECONDS: Final = 1.0
"""How often to see whether the program is still there."""
ABSENT_STATUS: Final = 3


@dataclass
class GpuSamples:
    """The samples of one GPU: times in ns since 1970, and rows of `READINGS`."""

    sensors: Sensors
    times_ns: list[int] = field(default_factory=list)
    rows: list[Sample] = field(default_factory=list)
    energy: list[tuple[int, float]] = field(default_factory=list)
    """Time and joules of the energy counter: at the first sample, and after the last one."""

    def take(self, now_ns: Callable[[], int]) -> None:
        if not self.energy:
            self.note_energy(now_ns)
        before = now_ns()
        watts = self.sensors.power()
        self.times_ns.append((before + now_ns()) // 2)
        self.rows.append([watts, *self.sensors.others()])

    def note_energy(self, now_ns: Callable[[], int]) -> None:
        joules = self.sensors.joules()
        if joules is not None:
            self.energy = [*self.energy[:1], (now_ns(), joules)]

    def halve(self) -> None:
        del self.times_ns[1::2], self.rows[1::2]

    def document(self, device: int) -> dict[str, Any]:
        columns = {
            name: column
            for name, column in zip(READINGS, map(list, zip(*self.rows, strict=True)), strict=False)
            if any(value is not None for value in column)
        }
        return {"device": device, **self.sensors.facts(), "times_ns": self.times_ns, **columns, "energy": self.energy}


class Sampler:
    """Keeps the samples of the GPUs that messages name; `find` gives the sensors of one, by its number and UUID."""

    def __init__(
        self,
        find: Callable[[int, str], Sensors],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.perf_counter,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._find, self._now_ns, self._clock = find, now_ns, clock
        self._least = self.interval = interval
        self.gpus: dict[int, GpuSamples] = {}
        self.notes: list[str] = []
        self.is_on = False
        self.count = 0
        self.read_seconds = 0.0

    def obey(self, message: Mapping[str, Any]) -> None:
        for device, uuid in message.get("gpus", ()):
            if device not in self.gpus:
                self._add(device, uuid)
        is_on = bool(message.get("on", self.is_on))
        if self.is_on and not is_on:
            for gpu in self.gpus.values():
                gpu.note_energy(self._now_ns)
        self.is_on = is_on

    def _add(self, device: int, uuid: str) -> None:
        try:
            self.gpus[device] = GpuSamples(self._find(device, uuid))
        except NoNvmlError as error:
            note = f"GPU {device}: {error}"
            if note not in self.notes:
                self.notes.append(note)

    def sample(self) -> None:
        """One reading of each GPU, and how long to wait for the next."""
        if not self.is_on or not self.gpus:
            return
        begin = self._clock()
        for gpu in self.gpus.values():
            gpu.take(self._now_ns)
        self.count += 1
        taken = self._clock() - begin
        self.read_seconds += taken
        # Of all reads so far: one that the machine held up changes little.
        self.interval = max(self._least, self.read_seconds / self.count / BUSY_SHARE)
        if any(len(gpu.times_ns) > MOST_SAMPLES for gpu in self.gpus.values()):
            self._least *= 2
            for gpu in self.gpus.values():
                gpu.halve()

    def document(self) -> dict[str, Any]:
        sampled = {device: gpu for device, gpu in sorted(self.gpus.items()) if gpu.times_ns}
        if self.is_on:
            for gpu in sampled.values():
                gpu.note_energy(self._now_ns)
        return {
            "version": COUNTERS_VERSION,
            "interval_ms": round(1e3 * self.interval, 3),
            "read_ms": round(1e3 * self.read_seconds / max(1, self.count), 3),
            "notes": self.notes,
            "gpus": [gpu.document(device) for device, gpu in sampled.items()],
        }


def messages(descriptor: int, wait: Callable[[], float]) -> Iterator[dict[str, Any] | None]:
    """What comes on a pipe, and None whenever the time to wait has passed; ends with the pipe."""
    pending = b""
    deadline = time.perf_counter() + wait()
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.perf_counter()))
        if not ready:
            yield None
            deadline = max(time.perf_counter(), deadline + wait())
            continue
        block = os.read(descriptor, 1 << 16)
        if not block:
            return
        *lines, pending = (pending + block).split(b"\n")
        yield from (json.loads(line) for line in lines if line)
        # What was said may have made the time to wait shorter.
        deadline = min(deadline, time.perf_counter() + wait())


def run(sampler: Sampler, descriptor: int) -> None:
    """Sample until the end is said, the pipe is closed, or the program is gone."""
    parent = os.getppid()
    looked = time.perf_counter()
    for message in messages(descriptor, lambda: sampler.interval if sampler.is_on else PARENT_SECONDS):
        if message is None:
            sampler.sample()
            if time.perf_counter() - looked > PARENT_SECONDS:
                looked = time.perf_counter()
                if os.getppid() != parent:
                    return
        elif message.get("end"):
            return
        else:
            sampler.obey(message)


def main(path: Path) -> int:
    try:
        # Its own binding: nvidia-ml-py is slower to load, and a stand-in of that name may be anything.
        nvml = devices.load(own=True)
    except NoNvmlError as error:
        sys.stderr.write(f"{error}\n")
        return ABSENT_STATUS
    sampler = Sampler(lambda device, uuid: Sensors(devices.find_gpu(nvml, device, uuid)))
    run(sampler, sys.stdin.fileno())
    write_whole(path, (json.dumps(sampler.document()) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
