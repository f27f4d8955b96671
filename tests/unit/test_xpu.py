"""Traces of Intel GPUs, as Kineto's XPU plugin writes them: Level Zero's and SYCL's calls, queues in place of streams."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, memory, op
from warplens.model.trace import Trace

GPU = {
    "id": 0,
    "name": "Intel(R) Data Center GPU Max 1550",
    "totalGlobalMem": 68719476736,
    "maxComputeUnits": 512,
    "maxClockFrequency": 1600,
    "vendor": "Intel(R) Corporation",
}
SYCL_CALLS = {"kernel": "urEnqueueKernelLaunch", "gpu_memcpy": "urEnqueueUSMMemcpy", "gpu_memset": "urEnqueueUSMFill"}
SOFTMAX = "_ZTSN2at6native3xpu35DispatchSoftmaxForwardKernelFunctorILi8EN3c108BFloat16EfEE"
GELU = "at::native::xpu::VectorizedElementwiseKernel<8, at::native::xpu::GeluTanhFunctor<c10::BFloat16>, at::detail::Array<char*, 2> >"  # fmt: skip
WORK = (
    # op, kind of GPU event, its name, queue, arguments, category, short name
    ("aten::copy_", "gpu_memcpy", "Memcpy M2D (MEMORY(Unknown) -> DEVICE)", 64, {"bytes": 1 << 20}, "Memory Ops", "memcpy HtoD pageable"),
    ("aten::zero_", "gpu_memset", "Memset (0 -> DEVICE)", 64, {"bytes": 4096}, "Memory Ops", "memset"),
    ("aten::mm", "kernel", "gemm_kernel", 64, {}, "GEMM", "gemm"),
    ("aten::gelu", "kernel", GELU, 64, {}, "Elementwise", "elementwise gelu_tanh bf16 vec8"),
    ("aten::scaled_dot_product_attention", "kernel", "micro_sdpa", 64, {}, "Flash Attention Forward", "micro_sdpa"),
    ("aten::_softmax", "kernel", SOFTMAX, 64, {}, "Softmax", "DispatchSoftmaxForward bf16"),
    ("c10d::allreduce_", "kernel", "oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>", 66, {}, "Communication", "oneccl_allreduce_pcie f16"),
    ("aten::to", "gpu_memcpy", "Memcpy D2H (DEVICE -> HOST)", 64, {"bytes": 1 << 19}, "Memory Ops", "memcpy DtoH"),
    ("aten::clone", "gpu_memcpy", "Memcpy D2D (DEVICE -> DEVICE)", 64, {"bytes": 1 << 19}, "Memory Ops", "memcpy DtoD"),
)  # fmt: skip


def host_call(category: str, name: str, ts: float, dur: float, number: int, external: int) -> dict[str, Any]:
    args = {"External id": external, "correlation": number}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def events() -> list[dict[str, Any]]:
    """One op after the other; each launches one GPU event of 10 µs by a call of SYCL with one of Level Zero inside."""
    made = [annotation("ProfilerStep#1", 0, 400)]
    for number, (name, kind, event, queue, more, *_) in enumerate(WORK, start=1):
        begin = 40 * number - 30
        shapes = {
            "Input Dims": [[512, 512], [512, 512]],
            "Input type": ["c10::BFloat16"] * 2,
            "Input Strides": [[512, 1]] * 2,
        }
        made.append(op(name, begin, 20, **{"External id": number}, **(shapes if name == "aten::mm" else {})))
        made.append(host_call("xpu_runtime", SYCL_CALLS[kind], begin + 2, 8, number, number))
        made.append(host_call("xpu_driver", "zeCommandListAppendLaunchKernel", begin + 3, 5, number, number))
        args = {
            "External id": number, "correlation": number, "device": 0, "sycl queue": queue, "l0 queue": "0x000055d08b8fc138",
            "context": "0x000055d08918fc78", "appended": "1.0", "submitted": "2.0", **more,
        }  # fmt: skip
        made.append(
            {"ph": "X", "cat": kind, "name": event, "pid": 0, "tid": queue, "ts": begin + 15, "dur": 10, "args": args}
        )
    wait = host_call("xpu_runtime", "urQueueFinish", 380, 15, 99, 0)
    return [*made, wait, {**host_call("xpu_sync", "zeEventHostSynchronize", 381, 13, 99, 0), "pid": -1}]


def notes(trace: Trace) -> dict[str, str]:
    return {note.code: note.detail for note in trace.quality.notes}


@pytest.fixture
def profile(opened: Opened) -> warplens.Profile:
    return opened(events(), {"schemaVersion": 1, "deviceProperties": [GPU], "record_shapes": 1})


def test_launches_are_linked_and_kernels_categorised(profile: warplens.Profile) -> None:
    rows = profile.table("kernels").to_dicts()
    shown = {row["op"]: (row["kernel_category"], row["kernel_short"], row["total_us"], row["stream"]) for row in rows}
    assert shown == {name: (category, short, 10.0, queue) for name, _, _, queue, _, category, short in WORK}


def test_a_drivers_call_inside_the_runtimes_is_the_same_launch(profile: warplens.Profile) -> None:
    trace = profile.trace
    launches = {trace.names[trace.ints("name")[row]] for row in trace.ints("launch")[trace.gpu_rows].tolist()}
    assert launches == set(SYCL_CALLS.values())
    assert "duplicate_correlation" not in notes(trace)
    assert "WL901" not in {finding.code for finding in profile.findings()}


def test_copies_have_their_direction_and_memory(profile: warplens.Profile) -> None:
    rows = profile.table("transfer").to_dicts()
    assert {(row["op"], row["way"], row["memory"], row["bytes"]) for row in rows} == {
        ("aten::copy_", "to GPU", "pageable", 1 << 20),
        ("aten::to", "to host", "pinned", 1 << 19),
        ("aten::clone", "on the GPU", None, 1 << 20),
        ("aten::zero_", "memset", None, 1 << 12),
    }


def test_that_the_limits_are_unknown_is_said_once_and_nothing_is_invented(profile: warplens.Profile) -> None:
    quality = profile.table("quality").to_dicts()
    said = [row["message"] for row in quality if "limits" in row["message"]]
    assert said == [
        "no roofline: the limits of this GPU are not known (Intel(R) Data Center GPU Max 1550); give its name (gpu) or "
        "its limits (gpu_file)"
    ]
    assert profile.hardware is None
    (product,) = [row for row in profile.table("roofline").to_dicts() if row["op"] == "aten::mm"]
    assert product["flop"] == 2 * 512**3
    assert (product["roofline_us"], product["percent_of_roofline"], product["bound"]) == (None, None, "")


def test_a_gpu_without_a_name_is_not_known_either(opened: Opened) -> None:
    profile = opened(events(), {"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1})
    messages = [row["message"] for row in profile.table("quality").to_dicts() if row["code"] == "unknown_gpu"]
    assert ["the trace does not name it" in message for message in messages] == [True]


def test_collectives_of_oneccl_are_communication(profile: warplens.Profile) -> None:
    times = {row["measure"]: row["time_ms"] for row in profile.table("timeline").to_dicts() if row["device"] == "0"}
    assert (times["communication"], times["memcpy"]) == pytest.approx((0.01, 0.03))


def test_the_hosts_waits_are_waits(profile: warplens.Profile) -> None:
    from warplens.analyses.time.host_activity import SYNC_CALL, matching_names

    trace = profile.trace
    codes = matching_names(trace, SYNC_CALL).nonzero()[0].tolist()
    assert "urQueueFinish" in {trace.names[code] for code in codes}


def test_memory_of_an_intel_gpu_is_the_gpus(opened: Opened) -> None:
    trace = opened([*events(), memory(12, 1024, 1024, 2048, device_type=12, address=4096)]).trace
    assert trace.memory["device"].to_list() == ["GPU 0"]
