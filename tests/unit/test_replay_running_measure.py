"""What is measured of a call: statistics, launches, the same kernel, the state of the cache; without a GPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from replay_plans import choice, storage, tensor, times, unit, value
from warplens_run.formats.replay_plan import Kernel, ReplayPlan
from warplens_run.replay import settings, state
from warplens_run.replay.options import RunOptions
from warplens_run.replay.same import Launched, difference
from warplens_run.replay.statistics import more_repeats, quantile, relative_error, summarise
from warplens_run.replay.widening import narrow_dtypes, widened

torch = pytest.importorskip("torch")

from warplens_run.replay import choosing, kernels, timing  # noqa: E402 - they load PyTorch
from warplens_run.replay.caches import Cache  # noqa: E402
from warplens_run.replay.energy_choice import units_to_meter  # noqa: E402
from warplens_run.replay.faults import BadUnit  # noqa: E402
from warplens_run.replay.graphs import calls_per_replay  # noqa: E402
from warplens_run.replay.inputs import Inputs  # noqa: E402

CPU = torch.device("cpu")


def test_statistics_of_samples() -> None:
    found = summarise([float(number) for number in range(101)], "graph")
    assert (found.median_ns, found.p10_ns, found.p90_ns, found.min_ns, found.mean_ns) == (50, 10, 90, 0, 50)
    assert (found.repeats, found.timer) == (101, "graph")
    # Ranks 50 ± 1.96 · √101 / 2 are the samples 40 and 60.
    assert found.relative_error == pytest.approx(10 / 50, abs=0.01)


def test_the_interval_of_the_median_holds_it_19_times_in_20() -> None:
    generator = torch.Generator().manual_seed(7)
    held = 0
    for _ in range(400):
        ordered = sorted(torch.randn(40, generator=generator).add_(100).tolist())
        reach = 1.959964 * math.sqrt(40) / 2
        low, high = math.floor(20 - reach), math.ceil(20 + reach) - 1
        assert relative_error(ordered) == pytest.approx((ordered[high] - ordered[low]) / 2 / quantile(ordered, 0.5))
        held += ordered[low] <= 100 <= ordered[high]
    assert 0.92 < held / 400 < 0.99


def test_few_samples_say_nothing_of_their_precision() -> None:
    assert relative_error([1.0] * 5) == math.inf
    assert relative_error([1.0] * 6) == 0


def test_repeats_go_on_until_the_median_is_sure_enough() -> None:
    wide = [1.0 + (number % 5) / 10 for number in range(20)]
    more = more_repeats(wide, 0.02, 200)
    assert 20 < more <= 180
    assert more_repeats(wide, 0.5, 200) == 0
    assert more_repeats(wide, 0.02, 20) == 0
    asked: list[int] = []

    def sample(count: int) -> list[float]:
        asked.append(count)
        return [1.0 + (number % 5) / 10 for number in range(count)]

    assert len(timing.repeated(sample, RunOptions(precision=0.001), 20)) == 200
    assert asked[0] == 20
    assert len(timing.repeated(sample, RunOptions(max_repeats=7), 20)) == 7


def test_a_call_of_seconds_is_not_repeated_past_its_time() -> None:
    inputs = Inputs.build(unit("aten::neg"), CPU, 0)
    sample = timing.host_sample(lambda: None, inputs, RunOptions(unit_timeout=1e-9))
    assert len(sample(50)) == 1


KERNEL = Kernel("gemm<128>", "kernel", times(), grid=(4, 1, 1), block=(128, 1, 1))
COPY = Kernel("Memcpy DtoD", "memcpy", times(), bytes=64)


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        ([KERNEL, COPY], [Launched("gemm<128>", "kernel", 1, (4, 1, 1)), Launched("Memcpy DtoD", "memcpy", 1, bytes=64)], ""),
        ([KERNEL], [Launched("gemm<64>", "kernel", 1, (4, 1, 1))], "gemm<64> instead of gemm<128>"),
        ([KERNEL], [Launched("gemm<128>", "kernel", 1, (8, 1, 1))], "grid 8x1x1 instead of 4x1x1 of gemm<128>"),
        ([KERNEL], [Launched("gemm<128>", "kernel", 1, (4, 1, 1), (64, 1, 1))], ""),
        ([KERNEL, COPY], [Launched("gemm<128>", "kernel", 1, (4, 1, 1))], "1 missing: Memcpy DtoD"),
        ([COPY], [Launched("Memcpy DtoD", "memcpy", 1, bytes=32)], "32 bytes instead of 64 of Memcpy DtoD"),
        ([], [Launched("gemm<128>", "kernel", 1)], "1 more than in the trace: gemm<128>"),
        ([KERNEL, KERNEL], [Launched("gemm<128>", "kernel", 1, (4, 1, 1)), Launched("x", "kernel", 1)],
         "launch 2: x instead of gemm<128>"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told(expected: list[Kernel], found: list[Launched], words: str) -> None:
    assert difference(expected, found) == words


def test_blocks_count_where_they_are_asked_for() -> None:
    found = [Launched("gemm<128>", "kernel", 1, (4, 1, 1), (64, 1, 1))]
    assert difference([KERNEL], found, blocks=True) == "block 64x1x1 instead of 128x1x1 of gemm<128>"


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"cat": category, "name": name, "ts": ts, "dur": dur, "args": args}


def test_launches_belong_to_the_range_that_made_them() -> None:
    document = {
        "traceEvents": [
            {"ph": "M", "name": "process_name"},
            event("user_annotation", "warplens call 1", 100.0, 10.0),
            event("user_annotation", "warplens call 0", 10.0, 20.0),
            event("user_annotation", "warplens call 2", 200.0, 10.0),
            event("user_annotation", "something else", 0.0, 500.0),
            event("gpu_user_annotation", "warplens call 0", 60.0, 5.0),
            event("cuda_runtime", "cudaLaunchKernel", 5.0, 1.0, correlation=1),  # a flush before the call
            event("cuda_driver", "cuLaunchKernelEx", 15.0, 1.0, correlation=3),
            event("cuda_runtime", "cudaMemcpyAsync", 12.0, 1.0, correlation=2),
            event("cuda_runtime", "cudaLaunchKernel", 105.0, 1.0, correlation=4),
            event("kernel", "flush", 40.0, 5.0, correlation=1),
            event("kernel", "late", 90.0, 1.5, correlation=3, grid=[2, 1, 1], block=[64, 1, 1]),
            event("gpu_memcpy", "Memcpy HtoD", 50.0, 0.25, correlation=2, bytes=8),
            event("kernel", "other", 120.0, 2.0, correlation=4, grid=[1, 1, 1], block=[32, 1, 1]),
        ]
    }
    found = kernels.launches(document)
    assert found == {
        0: (
            Launched("Memcpy HtoD", "memcpy", 250.0, bytes=8),
            Launched("late", "kernel", 1500.0, (2, 1, 1), (64, 1, 1)),
        ),
        1: (Launched("other", "kernel", 2000.0, (1, 1, 1), (32, 1, 1)),),
        2: (),
    }


def profiled(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Launched, ...]]) -> timing.ProfiledCalls:
    monkeypatch.setattr(kernels, "record", lambda body, folder: dict(enumerate(rows)))
    inputs = Inputs.build(unit("aten::neg"), CPU, 0)
    return timing.ProfiledCalls(lambda: None, inputs, lambda: None, Path())


def test_the_time_of_a_call_is_the_sum_of_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(first: float, second: float) -> tuple[Launched, ...]:
        return (Launched("a", "kernel", first, (1, 1, 1)), Launched("b", "kernel", second, (1, 1, 1)))

    calls = profiled(monkeypatch, [row(1, 10), row(2, 20), row(3, 30)])
    assert calls.sample(3) == [11, 22, 33]
    assert [kernel.median_ns for kernel in calls.kernels()] == [2, 20]


def test_calls_that_launch_something_else_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, odd = (Launched("a", "kernel", 5),), (Launched("first time only", "kernel", 500),)
    calls = profiled(monkeypatch, [odd, usual, usual])
    assert calls.sample(3) == [5, 5]
    assert calls.unusual == 1


def test_a_call_without_gpu_work_gives_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = profiled(monkeypatch, [(), ()])
    assert calls.sample(2) == []
    assert calls.kernels() == ()


def test_the_first_choice_that_launches_the_right_kernels_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made = unit("aten::x", (choice(value("int", 1), value("int", 2)),), kernels=(KERNEL,))
    inputs = Inputs.build(made, CPU, 0)

    def refuses(inputs: Inputs) -> Any:
        raise ValueError("no")

    found = choosing.working_calls([lambda _: lambda: None, refuses, lambda _: lambda: None], inputs, lambda: None)
    assert len(found) == 2
    rows = {0: (Launched("other", "kernel", 1),), 1: (Launched("gemm<128>", "kernel", 1, (4, 1, 1)),)}
    monkeypatch.setattr(kernels, "record", lambda body, folder: rows)
    assert choosing.first_matching_trace(found, made, inputs, Path()) is found[1]
    monkeypatch.setattr(kernels, "record", lambda body, folder: {0: rows[0], 1: rows[0]})
    assert choosing.first_matching_trace(found, made, inputs, Path()) is found[0]
    with pytest.raises(ValueError, match="no"):
        choosing.working_calls([refuses], inputs, lambda: None)


def test_storages_are_warm_or_cold_as_they_were_in_the_run() -> None:
    storages = (
        storage(1, reuse_bytes=10),
        storage(1, reuse_bytes=None),
        storage(1, reuse_bytes=90),
        storage(1, reuse_bytes=200),
        storage(1, reuse_bytes=5, device="cpu"),
    )

    def split(mode: str) -> tuple[list[int], list[int]]:
        cache = Cache(mode, CPU)
        cache.bytes = 100
        return cache.warm(storages), cache.cold(storages)

    assert split("in-situ") == ([2, 0], [1, 3])
    assert split("cold") == ([], [0, 1, 2, 3])
    assert split("hot") == ([], [])


def test_a_loop_is_long_enough_for_a_meter_and_short_enough_to_stop() -> None:
    assert [calls_per_replay(ns) for ns in (1e3, 5e4, 1e5, 1e6, 1e9)] == [2000, 100, 50, 5, 2]


def test_widening_keeps_shapes_strides_and_offsets() -> None:
    made = unit(
        "aten::x",
        (tensor(0, 2, 2, dtype="bfloat16", offset=3), value("dtype", "float16"), tensor(1, 4, dtype="int64")),
        (storage(8, "bfloat16"), storage(4, "int64")),
    )
    wide = widened(made)
    assert [(each.dtype, each.bytes) for each in wide.storages] == [("float32", 32), ("int64", 32)]
    first = wide.arguments[0].tensor
    assert first is not None
    assert (first.dtype, first.shape, first.offset) == ("float32", (2, 2), 3)
    assert wide.arguments[1].value == "float32"
    assert wide.arguments[2] == made.arguments[2]
    assert narrow_dtypes(made) == ["bfloat16"]


def test_a_storage_that_is_read_as_another_type_cannot_be_widened() -> None:
    with pytest.raises(BadUnit, match="bfloat16 that is read as int16 cannot be widened"):
        widened(unit("aten::x", (tensor(0, 4, dtype="int16"),), (storage(4, "bfloat16"),)))


def test_settings_are_restored_and_no_others_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
    precision = torch.get_float32_matmul_precision()
    try:
        notes = settings.restore({
            "backends.cudnn.benchmark": True, "get_float32_matmul_precision": "medium", "get_num_threads": 1,
            "backends.cuda.preferred_blas_library": "_BlasBackend.Cublas", "_C": 1, "backends.cudnn.enabled": "yes",
        })  # fmt: skip
        assert torch.backends.cudnn.benchmark is True
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(precision)
    told = [note for note in notes if "blas" not in note]  # a build without CUDA has no such library
    assert told == [
        "setting _C=1 was not restored: not a known setting that selects kernels",
        "setting backends.cudnn.enabled=yes was not restored: not true or false",
    ]


def test_the_state_of_a_gpu_that_is_not_there_is_unknown() -> None:
    assert state.reader("GPU-none")() is None


def test_a_line_of_nvidia_smi() -> None:
    found = state.smi_line("1980, [N/A], 40, 120.50, 700.00, 0x0000000000000060")
    assert found is not None
    assert (found.sm_mhz, found.memory_mhz, found.watts) == (1980, None, 120.5)
    assert found.throttle == ("thermal, software", "thermal, hardware")
    assert state.smi_line("nonsense") is None


def test_the_units_that_are_most_of_the_time() -> None:
    units = [unit(f"aten::u{place}", ns=ns) for place, ns in enumerate((5, 800, 100, 95))]
    plan = ReplayPlan("t", "", 1000, 1000, tuple(units))
    assert units_to_meter(plan, 0.9) == {"aten::u1", "aten::u2"}
