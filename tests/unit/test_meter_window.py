"""`with warplens.energy()`: what a block used, over simulated GPUs, and what is said where nothing can be measured."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from meter_fakes import FakeGpu, FakeMeter
from warplens_run.meter import window as window_module
from warplens_run.meter.protocols import Absent
from warplens_run.meter.window import EnergyWindow, energy


def test_a_block_has_joules_seconds_and_watts() -> None:
    gpu = FakeGpu(idle_watts=100, busy_watts=500)
    meter = FakeMeter(gpu)
    with EnergyWindow(timing=gpu.timing, meters={0: meter}) as e:
        gpu.enqueue(3.0)
        gpu.sleep(3.0)
    assert e.joules == pytest.approx(3 * 500, rel=0.02)
    assert e.seconds is not None
    assert 3.0 <= e.seconds <= 3.12
    assert e.watts == pytest.approx(e.joules / e.seconds)
    assert (e.idle_watts, e.active_joules, e.note) == (None, None, "")
    assert [(each.device, each.gpu) for each in e.devices] == [(0, "Fake GPU")]
    assert meter.closed


def test_the_wait_for_a_tick_is_short_and_before_the_block() -> None:
    gpu = FakeGpu()
    start = gpu.now
    with EnergyWindow(timing=gpu.timing, meters={0: FakeMeter(gpu)}):
        assert gpu.now - start < 0.12


def test_idle_power_gives_the_active_energy_of_even_a_short_block() -> None:
    gpu = FakeGpu(idle_watts=120, busy_watts=620)
    with EnergyWindow(idle=True, timing=gpu.timing, meters={0: FakeMeter(gpu)}) as e:
        gpu.enqueue(0.25)
        gpu.sleep(0.25)
    assert e.idle_watts == pytest.approx(120, rel=0.01)
    assert e.active_joules == pytest.approx(0.25 * 500, rel=0.02)


def test_several_gpus_are_summed_each_over_its_own_ticks() -> None:
    gpu = FakeGpu(idle_watts=100)
    meters = {0: FakeMeter(gpu), 1: FakeMeter(gpu, tick_seconds=0.07)}
    with EnergyWindow(idle=0.5, timing=gpu.timing, meters=dict(meters)) as e:
        gpu.sleep(2.0)
    assert [each.watts for each in e.devices] == [pytest.approx(100, rel=0.02)] * 2
    assert e.watts == pytest.approx(200, rel=0.02)
    assert e.idle_watts == pytest.approx(200, rel=0.02)
    assert e.joules == sum(each.joules for each in e.devices)


def test_without_a_meter_the_block_runs_and_the_note_says_why() -> None:
    with EnergyWindow(meters={0: Absent("no NVML"), 1: Absent("no NVML")}) as e:
        pass
    assert (e.joules, e.seconds, e.watts, e.idle_watts, e.devices) == (None, None, None, None, ())
    assert e.note == "no meter of GPU 0: no NVML"
    with EnergyWindow(meters={}) as e:
        pass
    assert (e.joules, e.note) == (None, "no visible GPU")


def test_a_gpu_without_a_meter_does_not_hide_the_others() -> None:
    gpu = FakeGpu()
    with EnergyWindow(timing=gpu.timing, meters={0: Absent("lost"), 1: FakeMeter(gpu)}) as e:
        gpu.sleep(1.0)
    assert [each.device for each in e.devices] == [1]
    assert e.note == "no meter of GPU 0: lost"


def test_the_blocks_own_error_passes_and_the_energy_is_there() -> None:
    gpu = FakeGpu()
    e = EnergyWindow(timing=gpu.timing, meters={0: FakeMeter(gpu)})
    with pytest.raises(ValueError, match="mine"), e:
        gpu.sleep(1.0)
        raise ValueError("mine")
    assert e.joules == pytest.approx(120 * 1.05, rel=0.06)


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_a_gpu_that_is_lost_is_a_note(after: float) -> None:
    gpu = FakeGpu()
    meter = FakeMeter(gpu, fails_after=after)
    with EnergyWindow(timing=gpu.timing, meters={0: meter}) as e:
        gpu.sleep(2.0)
    assert e.joules is None
    assert e.note == "the GPU is lost"
    assert meter.closed == (after > 0)


def test_a_counter_without_ticks_is_told() -> None:
    gpu = FakeGpu()
    with EnergyWindow(timing=gpu.timing, meters={0: FakeMeter(gpu, tick_seconds=math.pi)}) as e:
        gpu.sleep(2 * math.pi)
    assert e.joules is not None
    assert "the counter did not change in 0.2 s" in e.note


def test_a_counter_that_went_back_gives_no_figure() -> None:
    gpu = FakeGpu()
    meter = FakeMeter(gpu)
    with EnergyWindow(timing=gpu.timing, meters={0: meter}) as e:
        gpu.sleep(0.5)
        gpu.joules = -1000.0
    assert e.joules is None
    assert "went back" in e.note


def test_pytorch_is_waited_for_where_it_uses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    torch = SimpleNamespace(
        _C=SimpleNamespace(_cuda_hasPrimaryContext=lambda device: device == 1),
        cuda=SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, synchronize=waited.append),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    gpu = FakeGpu()
    with EnergyWindow(timing=gpu.timing, meters={0: FakeMeter(gpu), 1: FakeMeter(gpu)}):
        assert waited == [1], "a context on GPU 0 is not made for the sake of waiting"
    assert waited == [1, 1]


def test_a_wait_that_pytorch_refuses_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: int) -> None:
        raise RuntimeError("not while a graph is captured\nmore")

    torch = SimpleNamespace(
        _C=SimpleNamespace(_cuda_hasPrimaryContext=lambda device: True),
        cuda=SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, synchronize=refuse),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    gpu = FakeGpu()
    with EnergyWindow(timing=gpu.timing, meters={0: FakeMeter(gpu)}) as e:
        gpu.sleep(1.0)
    assert e.joules is not None
    assert "not synchronized: not while a graph is captured" in e.note


@pytest.mark.parametrize(("devices", "wanted"), [(1, [1]), ((0, 2), [0, 2])])
def test_chosen_gpus_are_the_ones_looked_for(monkeypatch: pytest.MonkeyPatch, devices: Any, wanted: list[int]) -> None:
    asked: list[int] = []

    def look(device: int) -> Absent:
        asked.append(device)
        return Absent(f"none for {device}")

    monkeypatch.setattr(window_module, "look", look)
    with energy(devices) as e:
        pass
    assert asked == wanted
    assert all(f"none for {device}" in e.note for device in wanted)
