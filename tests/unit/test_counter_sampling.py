"""Readings of a GPU beside a recording: what NVML is asked, how often, and how the process that asks is led."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counter_fakes import SAMPLED, CounterNvml, sensors
from support import HANG_SECONDS
from warplens_run.base.nvml import library
from warplens_run.base.nvml.devices import NoNvmlError
from warplens_run.counters import process, sampling
from warplens_run.counters.process import CounterProcess, torch_gpus, visible_gpus
from warplens_run.counters.sampling import Sampler, run
from warplens_run.counters.sensors import READINGS
from warplens_run.formats.bundle import Staging

TESTS = Path(__file__).parents[1]
ALL = [600.0, 1500, 3201, 99, 40, 61, 10 << 30, 4]


def test_a_sample_has_every_reading_in_its_unit() -> None:
    gpu = sensors()
    assert [gpu.power(), *gpu.others()] == ALL
    assert len(READINGS) == len(ALL)
    assert gpu.facts() == {
        "name": "NVIDIA H200", "power": "instant", "power_limit_w": 700.0, "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201, "memory_bytes": 150 << 30,
    }  # fmt: skip
    assert gpu.joules() == 5000.0


def test_what_a_gpu_does_not_report_is_asked_for_once() -> None:
    nvml = CounterNvml(lacking=("nvmlDeviceGetTemperature", "nvmlDeviceGetUtilizationRates"), has_instant=False)
    gpu = sensors(nvml)
    for _ in range(3):
        assert [gpu.power(), *gpu.others()] == [601.0, 1500, 3201, None, None, None, 10 << 30, 4]
    assert nvml.asked.count("nvmlDeviceGetTemperature") == 1
    assert gpu.facts()["power"] == "mean of a second"


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that advances with every look at it."""
    times = (turn * seconds for turn in range(10**9))
    return lambda: next(times)


def sampler(seconds: float = 0.0, nvml: CounterNvml | None = None) -> Sampler:
    now = ticking(1)
    made = Sampler(lambda device, uuid: sensors(nvml), now_ns=lambda: int(now()), clock=ticking(seconds))
    made.obey({"gpus": [[0, "GPU-1"]], "on": True})
    return made


def test_nothing_is_read_before_a_gpu_is_used_or_while_nothing_is_recorded() -> None:
    nvml = CounterNvml()
    idle = Sampler(lambda device, uuid: sensors(nvml))
    idle.obey({"on": True, "gpus": []})
    idle.sample()
    idle.obey({"on": False, "gpus": [(0, "")]})
    idle.sample()
    assert idle.document()["gpus"] == []
    idle.obey({"on": True})
    idle.sample()
    assert len(idle.document()["gpus"][0]["times_ns"]) == 1


def test_samples_are_columns_and_the_energy_is_that_of_the_time_between_them() -> None:
    nvml = CounterNvml(lacking=("nvmlDeviceGetTemperature",))
    made = sampler(nvml=nvml)
    made.sample()
    nvml.milliwatts, nvml.millijoules = 650_000, 5_100_000
    made.sample()
    made.obey({"on": False})
    [gpu] = made.document()["gpus"]
    assert gpu["device"] == 0
    assert gpu["power_w"] == [600.0, 650.0]
    assert gpu["clock_reasons"] == [4, 4]
    assert "temperature_c" not in gpu
    assert gpu["times_ns"] == sorted(gpu["times_ns"]) and len(gpu["times_ns"]) == 2
    assert [joules for _, joules in gpu["energy"]] == [5000.0, 5100.0]
    assert json.loads(json.dumps(made.document())) is not None


def test_where_reading_is_slow_samples_are_further_apart() -> None:
    quick, slow = sampler(0.001), sampler(0.010)
    for made in (quick, slow):
        made.sample()
    assert quick.interval == sampling.INTERVAL_SECONDS
    assert slow.interval == pytest.approx(0.010 / sampling.BUSY_SHARE)


def test_a_long_recording_keeps_every_second_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 8)
    made = sampler()
    for _ in range(9):
        made.sample()
    [gpu] = made.document()["gpus"]
    assert len(gpu["times_ns"]) == len(gpu["power_w"]) == 5
    made.sample()
    assert made.interval == 2 * sampling.INTERVAL_SECONDS


def test_a_gpu_that_nvml_does_not_know_is_a_note() -> None:
    def none(device: int, uuid: str) -> Any:
        raise NoNvmlError(f"NVML has no GPU {uuid}")

    made = Sampler(none)
    for _ in range(2):
        made.obey({"gpus": [[1, "GPU-7"]], "on": True})
    assert made.document()["notes"] == ["GPU 1: NVML has no GPU GPU-7"]


def test_a_first_sample_does_not_wait_for_the_time_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "PARENT_SECONDS", 1e6)
    read, write = os.pipe()
    os.write(write, b'{"gpus": [[0, ""]], "on": true}\n')
    made = Sampler(lambda device, uuid: sensors(), interval=0.001)
    taken = made.sample

    def sample() -> None:
        taken()
        if made.count == 3:
            os.write(write, b'{"end": true}\n')

    made.sample = sample  # type: ignore[method-assign]
    run(made, read)
    os.close(read)
    os.close(write)
    assert made.count >= 3


def test_a_pipe_that_closes_ends_it() -> None:
    read, write = os.pipe()
    os.write(write, b'{"on": tr')
    os.close(write)
    run(Sampler(lambda device, uuid: sensors()), read)
    os.close(read)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., CounterProcess]]:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.001)
    staging = Staging(tmp_path / "run")

    def start(gpus: list[tuple[int, str]], module: str = "counter_fakes") -> CounterProcess:
        return CounterProcess(staging, lambda: True, gpus=lambda: gpus, module=module)

    yield start
    staging.discard()


def counters_file(folder: Path) -> list[Path]:
    return list(folder.rglob("counters.json"))


def wait_for_samples(folder: Path) -> None:
    end = time.monotonic() + HANG_SECONDS
    while not list(folder.rglob(SAMPLED)) and time.monotonic() < end:
        time.sleep(0.01)


def test_the_process_samples_the_gpus_that_the_program_uses(tmp_path: Path, started: Any) -> None:
    made = started([(0, "GPU-1"), (1, "GPU-2")])
    wait_for_samples(tmp_path)
    made.stop()
    assert made.notes == ["no counters of GPU 1: NVML has no GPU GPU-2"]
    [file] = counters_file(tmp_path)
    [gpu] = json.loads(file.read_text())["gpus"]
    assert gpu["power_w"][0] == 600.0
    assert abs(gpu["times_ns"][-1] - time.time_ns()) < 60e9


def test_without_a_gpu_in_use_there_is_a_note_and_no_file(tmp_path: Path, started: Any) -> None:
    made = started([])
    made.stop()
    assert made.notes == ["no GPU counters: no GPU was used while steps were recorded or timed"]
    assert counters_file(tmp_path) == []


def test_without_nvml_there_is_a_note(tmp_path: Path, started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if _has_driver():
        pytest.skip("this machine has NVML")
    made = started([(0, "")], module=process.SAMPLING)
    made.stop()
    assert made.notes == ["no GPU counters: no NVML (libnvidia-ml.so.1 is not installed)"]
    assert counters_file(tmp_path) == []


def _has_driver() -> bool:
    from warplens_run.base.nvml.library import open_library

    return open_library() is not None


def test_a_process_that_fails_is_a_note(tmp_path: Path, started: Any) -> None:
    made = started([], module="no_such_module_of_anyone")
    made.stop()
    [note] = made.notes
    assert note.startswith("no GPU counters: ") and "no_such_module_of_anyone" in note


def test_what_cannot_be_started_is_a_note(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    made = started([])
    made.stop()
    assert made.notes == ["no GPU counters: No such file or directory"]
    monkeypatch.setattr(sys, "executable", None)
    [note] = started([]).notes
    assert note.startswith("no GPU counters: ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_forked_child_leaves_the_process_to_its_parent(tmp_path: Path, started: Any) -> None:
    made = started([(0, "")])
    child = os.fork()
    if child == 0:
        made.forget()
        made.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    wait_for_samples(tmp_path)
    made.stop()
    assert made.notes == []
    assert len(counters_file(tmp_path)) == 1


def fake_torch(*contexts: int, is_initialized: bool = True, hip: str | None = None) -> Any:
    return SimpleNamespace(
        version=SimpleNamespace(hip=hip),
        _C=SimpleNamespace(_cuda_hasPrimaryContext=lambda device: device in contexts),
        cuda=SimpleNamespace(
            is_initialized=lambda: is_initialized,
            device_count=lambda: 4,
            get_device_properties=lambda device: SimpleNamespace(uuid=f"aa-{device}"),
        ),
    )


@pytest.mark.parametrize(
    ("torch", "gpus"),
    [
        (fake_torch(), []),
        (fake_torch(2, 3), [(2, "aa-2"), (3, "aa-3")]),
        (fake_torch(0, is_initialized=False), []),
        (fake_torch(0, hip="6.2"), []),
    ],
)
def test_only_gpus_with_a_context_of_this_process_are_sampled(
    monkeypatch: pytest.MonkeyPatch, torch: Any, gpus: list[tuple[int, str]]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert torch_gpus() == gpus


def test_without_nvml_no_gpu_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", "libno-such-library.so.1")
    visible_gpus.cache_clear()
    assert visible_gpus() == []
    visible_gpus.cache_clear()
