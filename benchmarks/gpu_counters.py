"""What sampling a GPU's counters costs, and what NVML's readings are worth, on an NVIDIA GPU.

usage: gpu_counters.py calls      how long each call of NVML takes and how often its answer changes, under load
       gpu_counters.py turns      steps with the sampling process switched on and off in turns
       gpu_counters.py train      100 training steps, then 2 s of them with the GPU's own counter of energy: the truth
                                  for `warplens profile --counters --steps 4 --wait 12 benchmarks/gpu_counters.py train`

Each prints one JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch
from torch import nn

from gpu_models import GPT, Size
from warplens_run.base.nvml import devices
from warplens_run.counters.process import CounterProcess, torch_gpus
from warplens_run.formats.bundle import Staging

SIZE = Size(layers=12, width=768, heads=12, vocabulary=50304, length=1024)
TURNS = 12
HEARD_S = 0.12
"""Until the sampling process has heard that it is switched."""
Work = Callable[[], Any]


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = GPT(SIZE).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(SIZE.vocabulary, (8, SIZE.length), device="cuda")

    def step(self) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(self.tokens, self.tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def infer(self) -> None:
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
            float(self.model(self.tokens[:1, :64], self.tokens[:1, :64]))


def synced(work: Work) -> Work:
    def both() -> None:
        work()
        torch.cuda.synchronize()

    return both


def allocate() -> None:
    """What takes the driver's locks: memory that is got and given back."""
    for _ in range(5):
        torch.empty(8 << 20, device="cuda")
        torch.cuda.empty_cache()


def works() -> Iterator[tuple[str, Work]]:
    # Before the others, whose half-used segments would have room for it.
    yield "5 cudaMalloc and cudaFree", synced(allocate)
    training = Training()
    small = nn.Sequential(*(nn.Linear(32, 32) for _ in range(60))).cuda()
    x = torch.randn(4, 32, device="cuda")
    yield "training step", synced(training.step)
    yield "inference step", training.infer
    yield "1,200 small launches", synced(lambda: [small(x) for _ in range(20)])


def mean_ms(work: Work, seconds: float) -> float:
    begin, count = time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        work()
        count += 1
    return 1e3 * (time.perf_counter() - begin) / count


def turns() -> dict[str, Any]:
    """One process for both, so that drift of the clock and of the machine is in both."""
    is_on = False
    with tempfile.TemporaryDirectory() as folder:
        staging = Staging(Path(folder) / "turns")
        process = CounterProcess(staging, lambda: is_on, gpus=torch_gpus)
        results: dict[str, Any] = {}
        for name, work in works():
            times: dict[bool, list[float]] = {True: [], False: []}
            mean_ms(work, 0.3)
            for turn in range(TURNS):
                is_on = turn % 4 in (1, 2)  # off on on off
                mean_ms(work, HEARD_S)
                times[is_on].append(mean_ms(work, 0.4))
            errors = [statistics.variance(part) / len(part) for part in times.values()]
            results[name] = {
                "off_ms": statistics.mean(times[False]),
                "on_ms": statistics.mean(times[True]),
                "standard_error_ms": sum(errors) ** 0.5,
            }
        process.stop()
        staging.discard()
    return results | {"notes": process.notes}


def calls() -> dict[str, Any]:
    gpu = _gpu()
    nvml, handle = gpu.nvml, gpu.handle
    asked: dict[str, Work] = {
        "instant power": lambda: devices.instant_watts(nvml, handle),
        "plain power": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
        "SM clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, 1),
        "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
    }
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            for _ in range(20):
                matrix @ matrix
            torch.cuda.synchronize()
            time.sleep(0.004)  # a pause, or no reading would change

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.5)
    results = {name: _asked(call) for name, call in asked.items()}
    ended.set()
    thread.join()
    return results


def _asked(call: Work) -> dict[str, float | None]:
    times, changes, last = [], [], None
    end = time.perf_counter() + 1.0
    while (begin := time.perf_counter()) < end:
        value = call()
        now = time.perf_counter()
        times.append(now - begin)
        if value != last:
            changes.append(now)
            last = value
    gaps = [after - before for before, after in pairwise(changes)]
    return {
        "call_ms": 1e3 * statistics.median(times),
        "worst_ms": 1e3 * max(times),
        "renewed_ms": 1e3 * statistics.median(gaps) if gaps else None,
    }


def train() -> dict[str, float]:
    training = Training()
    for _ in range(100):
        training.step()
    torch.cuda.synchronize()
    first, count = _tick(), 0
    begin = time.perf_counter()
    while time.perf_counter() < begin + 2.0:
        training.step()
        count += 1
    torch.cuda.synchronize()  # once, as around the unrecorded steps that `profile` times
    seconds = time.perf_counter() - begin
    last = _tick()
    watts = (last[1] - first[1]) / (last[0] - first[0])
    return {"power_w": watts, "step_ms": 1e3 * seconds / count, "step_j": watts * seconds / count}


def _gpu() -> devices.NvmlGpu:
    torch.zeros(1, device="cuda")
    return devices.find_gpu(devices.load(own=True), 0, devices.torch_uuid(0))


def _tick() -> tuple[float, float]:
    """The GPU's own counter of energy at one of its changes: time and joules."""
    gpu = _gpu()
    read = gpu.nvml.nvmlDeviceGetTotalEnergyConsumption
    before = read(gpu.handle)
    while (now := read(gpu.handle)) == before:
        time.sleep(0.001)
    return time.perf_counter(), now / 1e3


if __name__ == "__main__":
    print(json.dumps({"calls": calls, "turns": turns, "train": train}[sys.argv[1]](), indent=1))
