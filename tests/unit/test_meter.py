"""Energy over a simulated GPU, whose true figures are known: ticks, idle power, loops, and what is marked doubtful."""

from __future__ import annotations

import itertools
import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meter_fakes import FakeGpu, FakeLoop, FakeMeter
from support import HANG_SECONDS
from warplens_run.formats.records import decode, encode
from warplens_run.formats.replay_result import Energy
from warplens_run.meter import Idle, MeterError, measure_idle, measure_idles, measure_loop, tick_seconds
from warplens_run.meter.estimate import mean_interval, student_95
from warplens_run.meter.sampled import SampledMeter
from warplens_run.meter.ticks import next_ticks

IDLE = Idle(120.0, 0.5)


def measured(gpu: FakeGpu, meter: FakeMeter, loop: FakeLoop, *, idle: Idle = IDLE, busy: float = 1.0) -> Energy:
    return measure_loop(loop, meter, idle, busy * loop.call_seconds * 1e9, timing=gpu.timing)


@pytest.mark.parametrize("period", [0.02, 0.1, 0.25])
def test_the_period_of_the_counter_is_found(period: float) -> None:
    gpu = FakeGpu()
    assert tick_seconds(FakeMeter(gpu, tick_seconds=period), timing=gpu.timing) == pytest.approx(period, abs=0.001)


def test_a_counter_that_never_moves_has_no_period_and_ends_the_wait_by_time() -> None:
    gpu = FakeGpu()
    meter = FakeMeter(gpu, tick_seconds=1e9)
    assert tick_seconds(meter, timing=gpu.timing) == 0.0
    start = gpu.now
    tick = next_ticks([meter], gpu.timing)[0]
    assert not tick.is_tick
    assert gpu.now - start == pytest.approx(1.0, abs=0.01)


def test_a_window_from_tick_to_tick_is_exact_where_an_unaligned_one_is_not() -> None:
    gpu = FakeGpu(idle_watts=200)
    gpu.watts = 200
    meter = FakeMeter(gpu)
    meter.joules()
    gpu.sleep(0.095)
    first, start = meter.joules(), gpu.now
    gpu.sleep(0.25)
    unaligned = (meter.joules() - first) / (gpu.now - start)
    assert abs(unaligned / 200 - 1) > 0.1
    one = next_ticks([meter], gpu.timing)[0]
    two = next_ticks([meter], gpu.timing, after=one.seconds + 0.25)[0]
    assert (two.joules - one.joules) / (two.seconds - one.seconds) == pytest.approx(200, rel=0.01)


def test_a_tick_seen_too_late_is_passed_over_for_one_seen_in_time() -> None:
    gpu = FakeGpu()
    meter = FakeMeter(gpu)
    true_ticks = [100 + 0.037 + 0.1 * number for number in range(100)]
    busy = iter([0.08, 0.08])
    tick = next_ticks([meter], gpu.timing, between=lambda: gpu.sleep(next(busy, 0.0)))[0]
    assert min(abs(tick.seconds - true) for true in true_ticks) < 0.002


def test_idle_power_has_five_windows_and_an_interval() -> None:
    gpu = FakeGpu(idle_watts=121.3, noise_watts=1.0)
    gpu.watts = 121.3
    start = gpu.now
    idle = measure_idle(FakeMeter(gpu, jitter_seconds=0.003), timing=gpu.timing)
    assert idle.watts == pytest.approx(121.3, abs=2)
    assert 0 < idle.interval_watts < 3
    assert 2.0 <= gpu.now - start < 4.0


def test_idle_power_waits_until_the_power_of_earlier_work_has_gone() -> None:
    gpu = FakeGpu(idle_watts=120, rise_seconds=0.15)
    gpu.watts = 600
    assert measure_idle(FakeMeter(gpu), timing=gpu.timing).watts == pytest.approx(120, rel=0.02)


def test_idle_power_of_several_gpus_takes_the_time_of_one() -> None:
    gpu = FakeGpu(idle_watts=100)
    start = gpu.now
    idles = measure_idles([FakeMeter(gpu), FakeMeter(gpu, tick_seconds=0.07)], timing=gpu.timing)
    assert [round(each.watts) for each in idles] == [100, 100]
    assert gpu.now - start < 4.0


def test_a_loop_gives_the_energy_of_a_call() -> None:
    gpu = FakeGpu(rise_seconds=0.05, noise_watts=1.0)
    loop = FakeLoop(gpu)
    energy = measured(gpu, FakeMeter(gpu, jitter_seconds=0.002), loop)
    assert energy.watts == pytest.approx(600, rel=0.01)
    assert energy.call_ns == pytest.approx(100_000, rel=0.005)
    assert energy.total_j == pytest.approx(600 * 100e-6, rel=0.01)
    assert energy.active_j == pytest.approx(480 * 100e-6, rel=0.015)
    assert energy.repeats >= 5
    assert 1.95 <= energy.seconds < 3.0
    assert energy.launches == pytest.approx(energy.seconds / 100e-6, rel=0.01)
    assert energy.busy_fraction == pytest.approx(1.0, abs=0.01)
    assert 0 < energy.total_interval < energy.interval < 0.05
    assert energy.instant_watts == pytest.approx(600, rel=0.01)
    assert (energy.doubtful, energy.why) == (False, "")
    assert loop.synchronized == 1
    assert decode(Energy, encode(energy)) == energy


def test_a_counter_that_takes_long_to_read_keeps_its_period_and_its_energy() -> None:
    gpu = FakeGpu()
    meter = FakeMeter(gpu, read_seconds=0.0045)
    assert tick_seconds(meter, timing=gpu.timing) == pytest.approx(0.1, abs=0.002)
    energy = measured(gpu, meter, FakeLoop(gpu))
    assert energy.total_j == pytest.approx(600 * 100e-6, rel=0.01)
    assert energy.interval < 0.02


def test_a_loop_that_ran_before_is_measured_the_same_again() -> None:
    gpu = FakeGpu()
    meter, loop = FakeMeter(gpu), FakeLoop(gpu)
    first, launched = measured(gpu, meter, loop), len(gpu.ends)
    second = measured(gpu, meter, loop)
    assert second.total_j == pytest.approx(first.total_j, rel=0.01)
    assert second.repeats == first.repeats
    assert len(gpu.ends) - launched == pytest.approx(launched, rel=0.1)


def test_the_rise_of_power_is_left_out() -> None:
    gpu = FakeGpu(rise_seconds=0.2)
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu))
    assert energy.watts == pytest.approx(600, rel=0.015)


def test_short_replays_get_more_of_them_in_flight_instead_of_running_dry() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu, calls=50, call_seconds=2e-6, launch_seconds=5e-6))
    assert energy.call_ns == pytest.approx(2000, rel=0.05)
    assert energy.watts == pytest.approx(600, rel=0.02)
    assert not energy.doubtful


def test_slow_launches_do_not_spoil_the_ticks() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu, calls=100, call_seconds=300e-6, launch_seconds=0.02))
    assert energy.watts == pytest.approx(600, rel=0.02)
    assert energy.call_ns == pytest.approx(300_000, rel=0.02)


def test_a_loop_with_gaps_says_how_little_of_it_was_busy() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu), busy=0.3)
    assert energy.busy_fraction == pytest.approx(0.3, abs=0.01)
    assert energy.doubtful
    assert "30 % of the loop" in energy.why


def test_power_that_the_other_sensor_denies_is_doubtful() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu, instant=0.8), FakeLoop(gpu))
    assert energy.doubtful
    assert "the counter says 600 W, instant power 480 W" in energy.why


def test_five_watts_between_the_sensors_are_no_doubt() -> None:
    gpu = FakeGpu(idle_watts=20, busy_watts=60)
    energy = measured(gpu, FakeMeter(gpu, instant=0.93), FakeLoop(gpu), idle=Idle(20, 0.1))
    assert not energy.doubtful, energy.why


def test_without_instant_power_the_missing_check_is_told_but_no_doubt() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu, instant=None), FakeLoop(gpu))
    assert energy.instant_watts is None
    assert not energy.doubtful
    assert "not checked against instant power" in energy.why


def test_work_that_idle_noise_hides_is_doubtful() -> None:
    gpu = FakeGpu(busy_watts=121)
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu), idle=Idle(120, 3.0))
    assert energy.doubtful
    assert "1.0 W above idle" in energy.why
    assert energy.interval > 1


def test_power_below_idle_has_an_infinite_interval_that_a_file_can_hold() -> None:
    gpu = FakeGpu(busy_watts=110)
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu))
    assert energy.active_j < 0
    assert math.isinf(energy.interval)
    assert energy.doubtful
    assert decode(Energy, encode(energy)) == energy


def test_noisy_power_extends_the_loop_up_to_its_limit() -> None:
    gpu = FakeGpu(noise_watts=150.0)
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu))
    assert energy.repeats > 5
    assert 2.5 < energy.seconds <= 8.5


def test_what_idle_does_not_know_is_not_sought_in_a_longer_loop() -> None:
    gpu = FakeGpu(noise_watts=1.0)
    energy = measured(gpu, FakeMeter(gpu), FakeLoop(gpu), idle=Idle(120, 60.0))
    assert energy.seconds < 3.0
    assert energy.interval == pytest.approx(60 / 480, rel=0.05)
    assert energy.doubtful


def test_a_dead_counter_is_doubtful_and_ends() -> None:
    gpu = FakeGpu()
    energy = measured(gpu, FakeMeter(gpu, tick_seconds=1e9), FakeLoop(gpu))
    assert energy.watts == 0
    assert energy.doubtful


def test_a_gpu_that_is_lost_ends_the_loop_and_is_waited_for() -> None:
    gpu = FakeGpu()
    loop = FakeLoop(gpu)
    with pytest.raises(MeterError, match="lost"):
        measured(gpu, FakeMeter(gpu, fails_after=1.0), loop)
    assert loop.synchronized == 1


def test_sampled_power_adds_up_to_energy() -> None:
    gpu = FakeGpu(busy_watts=300)
    gpu.step_seconds = 1e-4

    def watts() -> float:
        gpu.energy_at(gpu.now)
        return gpu.watts

    meter = SampledMeter("Old GPU", "GPU-old", watts, clock=lambda: gpu.now, in_background=False)
    energy = measure_loop(FakeLoop(gpu), meter, IDLE, 100_000, timing=gpu.timing)
    assert energy.watts == pytest.approx(300, rel=0.01)
    assert "sum of power samples" in energy.why
    assert energy.instant_watts is None
    assert meter.name == "sampled power, Old GPU"


def test_a_sampled_meter_goes_on_by_itself_until_it_is_closed() -> None:
    seconds, samples = itertools.count(), threading.Semaphore(0)

    def clock() -> float:
        samples.release()
        return float(next(seconds))

    meter = SampledMeter("Old GPU", "GPU-old", lambda: 100.0, clock=clock)
    assert meter.joules() >= 100  # more where the thread has already sampled
    for _ in range(5):  # two of them are not the thread's
        assert samples.acquire(timeout=HANG_SECONDS)
    meter.close()
    assert meter._thread is not None
    meter._thread.join(timeout=HANG_SECONDS)
    assert not meter._thread.is_alive()
    assert meter.joules() == 100 * (next(seconds) - 1) >= 400


@settings(max_examples=20)
@given(
    watts=st.floats(150, 700),
    call_us=st.floats(2, 2000),
    jitter=st.floats(0, 0.01),
    period=st.floats(0.02, 0.15),
    seed=st.integers(0, 100),
)
def test_whatever_the_kernel_the_truth_is_within_two_percent(
    watts: float, call_us: float, jitter: float, period: float, seed: int
) -> None:
    gpu = FakeGpu(busy_watts=watts, seed=seed, step_seconds=0.001)
    calls = max(50, min(2000, round(5000 / call_us))) if call_us < 100 else 50
    loop = FakeLoop(gpu, calls=calls, call_seconds=call_us * 1e-6)
    energy = measured(gpu, FakeMeter(gpu, tick_seconds=period, jitter_seconds=min(jitter, period / 4)), loop)
    assert energy.total_j == pytest.approx(watts * call_us * 1e-6, rel=0.02)


def test_the_interval_is_students() -> None:
    mean, half = mean_interval([10.0, 12.0, 11.0, 13.0, 9.0])
    assert mean == 11
    assert half == pytest.approx(2.776 * math.sqrt(2.5 / 5))
    assert mean_interval([4.0, 4.0]) == (4.0, 0.0)
    assert math.isinf(student_95(0))
    assert student_95(30) > student_95(31) > student_95(1000) > 1.96
