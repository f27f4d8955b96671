"""The roofline, its families' tables and the coverage, on traces small enough to work out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warplens
from support import Opened, kernel, launch, memcpy, memset, op
from warplens.analyses.roofline.limits import LINK, MEMORY, flag_of, limit_of, unit_of
from warplens.analyses.roofline.tables import PARAMS
from warplens.analyses.work.call_times import call_times
from warplens.analyses.work.places import pattern_of, place_text
from warplens.costs import MATRIX, Cost
from warplens.hardware import gpu_named
from warplens.model.trace import empty_trace

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
PLAIN = "ampere_sgemm_128x64_tn"
TF32 = "cutlass_80_tensorop_s1688tf32gemm_256x128_16x4_tn_align4"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
H100 = "H100 SXM"
"""Data sheet: 989.4 TFLOP/s dense bf16, 494.7 TF32, 66.9 fp32, 3.35 TB/s, 63 GB/s to the host, 50 MB of L2."""
BF16 = "c10::BFloat16"


def inputs(*shapes: Any, dtype: str = BF16, concrete: list[str] | None = None) -> dict[str, Any]:
    return {
        "Input Dims": list(shapes),
        "Input type": [dtype if shape else "Scalar" for shape in shapes],
        "Concrete Inputs": concrete or [""] * len(shapes),
    }


def launched(name: str, kernels: list[dict[str, Any]], ts: float = 0, **args: Any) -> list[dict[str, Any]]:
    """An op with a launch for each of its kernels."""
    calls = [launch(ts + 1 + place, 0.5, each["args"]["correlation"]) for place, each in enumerate(kernels)]
    return [op(name, ts, 1 + len(kernels), **args), *calls, *kernels]


SIZE = 4096
FLOP, BYTES = 2 * SIZE**3, 3 * 2 * SIZE**2
PRODUCT = inputs([SIZE, SIZE], [SIZE, SIZE])


def only(profile: warplens.Profile, table: str = "roofline") -> dict[str, Any]:
    rows = profile.table(table).to_dicts()
    assert len(rows) == 1
    return rows[0]


def test_a_product_is_measured_against_the_matrix_units(opened: Opened) -> None:
    row = only(opened(launched("aten::mm", [kernel(GEMM, 100, 200, 1)], **PRODUCT), gpu=H100))
    assert (row["op"], row["family"], row["dtype"], row["count"]) == ("aten::mm", "gemm", "bf16", 1)
    assert (row["flop"], row["bytes"], row["kernel_us_mean"]) == (FLOP, BYTES, 200)
    assert row["tflops"] == pytest.approx(FLOP / 200e-6 / 1e12)
    assert row["tbps"] == pytest.approx(BYTES / 200e-6 / 1e12)
    assert (row["bound"], row["unit"]) == ("compute", "matrix bf16")
    assert row["roofline_us"] == pytest.approx(FLOP / 989.4e12 * 1e6)
    assert row["percent_of_roofline"] == pytest.approx(100 * row["roofline_us"] / 200)
    assert row["lost_us"] == pytest.approx(200 - row["roofline_us"])
    assert (row["flag"], row["percent"]) == ("", 100)


def test_an_addition_is_measured_against_the_bandwidth(opened: Opened) -> None:
    shape = [1 << 26]
    row = only(opened(launched("aten::add", [kernel(ADD, 100, 200, 1)], **inputs(shape, shape, [])), gpu=H100))
    assert (row["bound"], row["unit"], row["bytes"]) == ("memory", "memory", 3 * 2 * 2**26)
    assert row["roofline_us"] == pytest.approx(3 * 2 * 2**26 / 3.35e12 * 1e6)


def test_kernels_of_a_call_that_overlap_count_once_in_its_time_and_twice_in_its_sum(opened: Opened) -> None:
    kernels = [kernel(GEMM, 100, 100, 1), kernel(GEMM, 150, 100, 2, stream=8), kernel(GEMM, 300, 50, 3)]
    row = only(opened(launched("aten::mm", kernels, **PRODUCT), gpu=H100))
    assert (row["count"], row["kernel_us_mean"], row["total_us"]) == (1, 150 + 50, 250)
    assert row["tflops"] == pytest.approx(FLOP / 200e-6 / 1e12)


def test_calls_with_the_same_cost_are_one_row(opened: Opened) -> None:
    first = launched("aten::mm", [kernel(GEMM, 100, 200, 1)], **PRODUCT)
    second = launched("aten::mm", [kernel(GEMM, 400, 100, 2)], ts=10, **PRODUCT, **{"Sequence number": 7})
    other = launched("aten::mm", [kernel(GEMM, 600, 50, 3)], ts=20, **inputs([64, SIZE], [SIZE, SIZE]))
    rows = opened([*first, *second, *other], gpu=H100).table("roofline").to_dicts()
    assert [(row["count"], row["kernel_us_mean"], row["total_us"]) for row in rows] == [(2, 150, 300), (1, 50, 50)]


def test_a_call_inside_another_takes_its_own_kernels(opened: Opened) -> None:
    """The cast inside an addmm is a copy of its own; the addmm's time is that of its product."""
    cast = {"Input Dims": [[SIZE], [SIZE], []], "Input type": [BF16, "float", "Scalar"]}
    events = [
        op("aten::addmm", 0, 20, **inputs([SIZE], [SIZE, SIZE], [SIZE, SIZE], [], [])),
        *launched("aten::copy_", [kernel(ADD, 100, 5, 1)], ts=2, **cast),
        launch(10, 1, 2),
        kernel(GEMM, 110, 200, 2),
    ]
    rows = {row["op"]: row for row in opened(events, gpu=H100).table("roofline").to_dicts()}
    assert rows["aten::addmm"]["kernel_us_mean"] == 200
    assert (rows["aten::copy_"]["family"], rows["aten::copy_"]["kernel_us_mean"]) == ("cast", 5)


def test_kernels_of_an_op_without_a_model_belong_to_the_op_with_one_around_it(opened: Opened) -> None:
    events = [
        op("aten::linear", 0, 20, **inputs([SIZE, SIZE], [SIZE, SIZE], [])),
        *launched("custom::product", [kernel(GEMM, 100, 200, 1)], ts=2),
    ]
    assert only(opened(events, gpu=H100))["op"] == "aten::linear"


def test_kernels_of_the_step_before_do_the_work_of_their_twins(opened: Opened) -> None:
    """Two kernels without a launch, with the names with which their stream also ends."""
    shape = [1 << 20]
    early = [kernel(GEMM, 0, 100, 91), kernel(ADD, 110, 10, 92)]
    step = [
        *launched("aten::mm", [kernel(GEMM, 400, 200, 1)], ts=200, **PRODUCT),
        *launched("aten::add", [kernel(ADD, 610, 20, 2)], ts=210, **inputs(shape, shape, [])),
    ]
    profile = opened([*early, *step], gpu=H100)
    rows = {row["op"]: row for row in profile.table("roofline").to_dicts()}
    assert (rows["aten::mm"]["count"], rows["aten::mm"]["kernel_us_mean"]) == (2, 150)
    assert (rows["aten::add"]["count"], rows["aten::add"]["total_us"]) == (2, 30)
    assert only(profile, "cost_coverage")["reason"] == "costed"


@pytest.mark.parametrize("early", [[(ADD, 0)], [(GEMM, 0), (ADD, 110), (ADD, 130)], [(ADD, 0), (GEMM, 110)]])
def test_kernels_in_another_order_have_no_twins(opened: Opened, early: list[tuple[str, int]]) -> None:
    kernels = [kernel(name, start, 10, 90 + place) for place, (name, start) in enumerate(early)]
    step = [
        *launched("aten::add", [kernel(ADD, 400, 20, 2)], ts=200, **inputs([64], [64], [])),
        *launched("aten::mm", [kernel(GEMM, 610, 200, 1)], ts=210, **PRODUCT),
        *launched("aten::mm", [kernel(GEMM, 820, 200, 3)], ts=220, **PRODUCT),
    ]
    rows = {row["reason"]: row for row in opened([*kernels, *step], gpu=H100).table("cost_coverage").to_dicts()}
    assert rows["no op"]["count"] == len(early)


def test_an_unknown_gpu_has_rates_but_no_roofline_and_says_how_to_name_it(opened: Opened) -> None:
    profile = opened(launched("aten::mm", [kernel(GEMM, 100, 200, 1)], **PRODUCT))
    row = only(profile)
    assert row["tflops"] == pytest.approx(FLOP / 200e-6 / 1e12)
    assert [row[name] for name in ("roofline_us", "percent_of_roofline", "lost_us")] == [None] * 3
    assert (row["bound"], row["unit"], row["flag"]) == ("", "", "")
    for name in ("roofline", "gemm"):
        assert any("unknown GPU" in note and "`warplens explain gpus`" in note for note in profile.table(name).notes)


@pytest.mark.parametrize(
    ("device", "kernels", "headline", "note"),
    [
        ({}, ["Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_ISA942_X"],
         "no GPU named in the file, MI300 family (inferred)",
         "the trace does not name it; its kernels are for gfx942: MI300A, MI300X or MI325X"),
        ({"name": ""}, ["sm80_xmma_gemm_f16f16_f16f32_f32_tn_n", GEMM, "ampere_sgemm_128x64_tn"],
         "unnamed GPU, Hopper or later (inferred)",
         "the trace does not name it; its kernels are for sm90: Hopper or later"),
        ({"name": "AMD Radeon Graphics"}, ["Cijk_A_gfx90a_"],
         "AMD Radeon Graphics, MI200 family (inferred)",
         "AMD Radeon Graphics; its kernels are for gfx90a: MI210, MI250 (one GCD) or MI250X (one GCD)"),
        ({"name": "GeForce GTX 1080 Ti"}, [GEMM], "GeForce GTX 1080 Ti", "GeForce GTX 1080 Ti"),
        ({}, ["triton_poi_fused_0"], "no GPU named in the file", "the trace does not name it"),
        ({}, ["Cijk_A_gfx942_", GEMM], "no GPU named in the file", "the trace does not name it"),
    ],
)  # fmt: skip
def test_an_unnamed_gpu_is_of_the_family_that_its_kernels_are_for_and_has_no_limits_of_it(
    device: dict[str, str], kernels: list[str], headline: str, note: str, opened: Opened
) -> None:
    """The newest architecture counts: libraries run older kernels where these serve."""
    header = {"deviceProperties": [{"id": 0, **device}]} if device else {}
    profile = opened([kernel(name, 10 * place, 5, place + 1) for place, name in enumerate(kernels)], header)
    assert profile.document(["quality"]).facts["device"] == headline
    said = profile.table("quality").frame.row(by_predicate=pl.col("code") == "unknown_gpu", named=True)["message"]
    assert f"not known ({note}); give its name" in said
    assert profile.workspace.hardware is None
    named = opened([kernel(name, 10 * place, 5, place + 1) for place, name in enumerate(kernels)], header, gpu=H100)
    assert "inferred" not in named.document(["quality"]).facts["device"]


DEVICE = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "totalGlobalMem": 85_000_000_000}]
}


def test_the_trace_names_its_gpu_and_a_user_may_name_another(opened: Opened) -> None:
    events = launched("aten::mm", [kernel(GEMM, 100, 1000, 1)], **PRODUCT)
    own, chosen = opened(events, DEVICE), opened(events, DEVICE, gpu=H100)
    assert only(own)["roofline_us"] == pytest.approx(FLOP / 312e12 * 1e6)
    assert only(chosen)["roofline_us"] == pytest.approx(FLOP / 989.4e12 * 1e6)
    assert any("A100" in note for note in own.table("roofline").notes)
    assert any("H100" in note for note in chosen.table("roofline").notes)


def test_a_trace_without_gpu_work_has_no_note_on_its_gpu(opened: Opened) -> None:
    table = opened([op("aten::mm", 0, 10, **PRODUCT)]).table("roofline")
    assert len(table.frame) == 0 and not table.notes


@pytest.mark.parametrize(
    ("name", "microseconds", "unit"),
    [(PLAIN, 5000, "vector fp32"), (TF32, 5000, "matrix tf32"), (PLAIN, 500, "matrix tf32")],
    ids=["plain", "the kernel's name", "faster than the vector units"],
)
def test_fp32_products_run_in_tf32_where_the_name_or_the_rate_says_so(
    opened: Opened, name: str, microseconds: int, unit: str
) -> None:
    """137 GFLOP at 66.9 TFLOP/s take 2,054 µs: 500 µs are only possible on the matrix units."""
    shaped = inputs([SIZE, SIZE], [SIZE, SIZE], dtype="float")
    row = only(opened(launched("aten::mm", [kernel(name, 100, microseconds, 1)], **shaped), gpu=H100))
    assert row["unit"] == unit
    assert row["roofline_us"] == pytest.approx(FLOP / {"vector fp32": 66.9e12, "matrix tf32": 494.7e12}[unit] * 1e6)


def test_fp32_products_have_matrix_units_of_their_own_on_some_gpus() -> None:
    product = Cost("gemm", 1e12, 1e9, "fp32", MATRIX)
    assert unit_of(product, gpu_named("MI300X"), "", 0) == ("matrix", "fp32")
    assert unit_of(product, gpu_named(H100), "", 0) == ("vector", "fp32")
    assert unit_of(Cost("gemm", 1e12, 1e9, "fp64", MATRIX), gpu_named("L4"), "", 0) == ("vector", "fp64")
    assert unit_of(Cost("pointwise", 1e12, 1e9, "bf16"), gpu_named(H100), "bf16", 0) == ("vector", "fp32")


@pytest.mark.parametrize(
    ("name", "way", "memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "to GPU", "pinned"),
        ("Memcpy HtoD (Pageable -> Device)", "to GPU", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "to host", "pinned"),
    ],
)
def test_a_copy_over_the_host_link_is_measured_against_the_link(
    opened: Opened, name: str, way: str, memory: str
) -> None:
    """Even inside a copy_ op: neither the GPU's memory nor its units are what it waits for."""
    size = [1 << 24]
    event = memcpy(100, 2000, 1, name=name, bytes=2 << 24)
    profile = opened(launched("aten::copy_", [event], **inputs(size, size, [])), gpu=H100)
    row = only(profile, "transfer")
    assert (row["way"], row["memory"], row["bound"], row["unit"]) == (way, memory, LINK, LINK)
    assert row["roofline_us"] == pytest.approx((2 << 24) / 63e9 * 1e6)
    assert (row["flop"], row["bytes"]) == (0, 2 << 24)


def test_a_memset_and_a_copy_on_the_device_carry_their_own_sizes(opened: Opened) -> None:
    events = [
        launch(0, 1, 1),
        launch(2, 1, 2),
        memset(100, 5, 1),
        memcpy(200, 10, 2, name="Memcpy DtoD (Device -> Device)", bytes=1000),
    ]
    rows = {row["family"]: row for row in opened(events, gpu=H100).table("roofline").to_dicts()}
    assert rows["fill"]["bytes"] == 4
    assert rows["copy"]["bytes"] == 2 * 1000
    assert {family: row["params"] for family, row in rows.items()} == {"fill": "way=memset", "copy": "way=on the GPU"}
    assert all(row["bound"] == MEMORY for row in rows.values())


DTOD = "Memcpy DtoD (Device -> Device)"


@pytest.mark.parametrize("is_shaped", [True, False])
def test_copies_on_the_gpu_and_memsets_inside_ops_have_their_own_bandwidth(opened: Opened, is_shaped: bool) -> None:
    """Also where the op has a cost of its own, and where it has none because shapes are not recorded."""
    shapes = inputs([1000], [1000], []) if is_shaped else {}
    events = launched("aten::copy_", [memcpy(100, 10, 1, name=DTOD, bytes=4_000_000)], **shapes)
    events += launched("aten::copy_", [memcpy(200, 30, 2, name=DTOD, bytes=8_000_000)], ts=30, **shapes)
    clears = [memset(300, 2, 3), memset(303, 2, 3), kernel("gemm", 310, 50, 3)]
    events += launched("aten::sum", clears, ts=60, **shapes)
    rows = {row["way"]: row for row in opened(events, gpu=H100).table("transfer").to_dicts()}
    copied, cleared = rows["on the GPU"], rows["memset"]
    assert (copied["op"], copied["count"], copied["total_us"]) == ("aten::copy_", 2, 40)
    assert copied["bytes"] == 2 * 6_000_000, "read and written"
    assert copied["tbps"] == pytest.approx(2 * 6_000_000 / 20e-6 / 1e12)
    assert copied["roofline_us"] == pytest.approx(2 * 6_000_000 / 3.35e12 * 1e6) and copied["bound"] == MEMORY
    assert (cleared["op"], cleared["count"], cleared["bytes"], cleared["total_us"]) == ("aten::sum", 2, 4, 4)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("CopyDeviceToDevice", "on the GPU"),
        ("hipMemcpyDtoDAsync", "on the GPU"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "on the GPU"),
        ("MemcpyD2D", "on the GPU"),
        ("[CUDA memcpy Device-to-Device]", "on the GPU"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "to GPU"),
        ("CopyDeviceToHost", "to host"),
        ("CopyPeerToPeer", "between GPUs"),
        ("hipMemsetAsync", "memset"),
        ("__amd_rocclr_fillBufferAligned", "memset"),
    ],
)
@pytest.mark.parametrize("is_shaped", [True, False])
def test_copies_have_their_bandwidth_however_a_recorder_spells_them(
    opened: Opened, name: str, way: str, is_shaped: bool
) -> None:
    record = memset if way == "memset" else memcpy
    shapes = inputs([1000], [1000], []) if is_shaped else {}
    events = launched("aten::copy_", [record(100, 10, 1, name=name, bytes=4_000_000)], **shapes)
    row = only(opened(events, gpu=H100), "transfer")
    twice = 2 if way == "on the GPU" else 1
    assert (row["way"], row["bytes"], row["tbps"]) == (way, twice * 4_000_000, pytest.approx(twice * 0.4))


def test_a_copy_without_shapes_has_a_cost_though_its_op_has_none(opened: Opened) -> None:
    copies = [memcpy(100, 10, 1, name=DTOD, bytes=1000), kernel(ADD, 120, 30, 1)]
    coverage = opened(launched("aten::copy_", copies), gpu=H100).table("cost_coverage").to_dicts()
    assert {row["reason"]: row["total_us"] for row in coverage} == {"costed": 10, "no shapes": 30}


def test_no_roofline_is_known_for_copies_between_gpus(opened: Opened) -> None:
    event = memcpy(100, 10, 1, name="Memcpy PtoP (Device -> Device)", bytes=1000)
    row = only(opened([launch(0, 1, 1), event], gpu=H100), "transfer")
    assert (row["way"], row["bytes"], row["tbps"], row["roofline_us"]) == ("between GPUs", 1000, 1e-4, None)


def test_data_that_fits_in_cache_may_exceed_the_memory_s_roofline(opened: Opened) -> None:
    """6 MiB in 1 µs are 6.3 TB/s: more than the memory gives, but no more than L2 holds."""
    shape = [1 << 20]
    row = only(opened(launched("aten::add", [kernel(ADD, 100, 1, 1)], **inputs(shape, shape, [])), gpu=H100))
    assert row["percent_of_roofline"] > 100
    assert row["flag"] == "over 100 %: L2-resident, the data fits in 50 MB of cache"
    assert row["lost_us"] == 0


def test_more_than_the_roofline_says_why() -> None:
    h100 = gpu_named(H100)

    def flag(cost: Cost, kernel_us: float) -> str:
        limit = limit_of(cost, h100, "", 0)
        assert limit is not None
        return flag_of(limit, cost, h100, kernel_us)

    large = Cost("pointwise", 1.0, 1e9, "bf16")
    assert "cache, or the bandwidth ceiling is too low" in flag(large, 1)
    assert "matrix bf16 ceiling is too low" in flag(Cost("gemm", 1e15, 1e9, "bf16", MATRIX), 1)
    assert "host link is faster" in flag(Cost("transfer", 0.0, 1e9, ""), 1)
    assert flag(large, 1e9 / 3.35e6) == flag(large, 1e6) == ""
    assert limit_of(Cost("collective", 0.0, 1e9, ""), h100, "", 0) is None


def test_work_shorter_than_a_kernel_s_start_is_flagged(opened: Opened) -> None:
    row = only(opened(launched("aten::add", [kernel(ADD, 100, 3, 1)], **inputs([64], [64], [])), gpu=H100))
    assert row["percent_of_roofline"] < 100
    assert row["flag"].startswith("too small")


def test_coverage_names_every_reason(opened: Opened) -> None:
    events = [
        *launched("aten::mm", [kernel(GEMM, 1000, 50, 1)], **PRODUCT),
        *launched("aten::mm", [kernel(GEMM, 1100, 20, 2)], ts=10),
        *launched("custom::thing", [kernel("mystery_kernel", 1200, 10, 3)], ts=20, **PRODUCT),
        launch(30, 1, 4, name="cudaGraphLaunch"),
        kernel(GEMM, 1300, 15, 4),
        launch(40, 1, 5),
        kernel("mystery_kernel", 1400, 5, 5),
    ]
    rows = {row["reason"]: row for row in opened(events).table("cost_coverage").to_dicts()}
    assert {reason: (row["count"], row["total_us"], row["percent"]) for reason, row in rows.items()} == {
        "costed": (1, 50, 50),
        "no shapes": (1, 20, 20),
        "in a graph": (1, 15, 15),
        "no model": (1, 10, 10),
        "no op": (1, 5, 5),
    }
    assert rows["no model"]["ops"] == "custom::thing"


def test_an_op_outside_the_table_with_elementwise_kernels_only_is_pointwise(opened: Opened) -> None:
    shaped = inputs([1024], [1024])
    row = only(opened(launched("aten::brand_new", [kernel(ADD, 100, 5, 1)], **shaped), gpu=H100))
    assert (row["op"], row["family"], row["bytes"]) == ("aten::brand_new", "pointwise", 3 * 2 * 1024)
    mixed = launched("aten::brand_new", [kernel(ADD, 100, 5, 1), kernel(GEMM, 200, 5, 2)], **shaped)
    assert only(opened(mixed, gpu=H100), "cost_coverage")["reason"] == "no model"


def test_a_collective_has_its_message_but_no_roofline(opened: Opened) -> None:
    described = {
        "Collective name": "allreduce",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
        "dtype": "BFloat16",
        "Group size": 8,
    }
    row = only(opened([launch(0, 1, 1), kernel(ALL_REDUCE, 100, 50, 1, **described)], gpu=H100))
    assert (row["family"], row["bytes"], row["roofline_us"], row["bound"]) == ("collective", 2000, None, "")
    assert row["params"] == "collective=allreduce ranks=8"


def test_the_lists_of_an_optimizer_are_sized_by_its_blocks(opened: Opened) -> None:
    """More than 30 tensors: neither shapes nor dtypes are recorded, but the grid and the kernel's name are."""
    name = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(int)"
    lists = {"Input Dims": [[], []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "0.9"]}
    kernels = [kernel(name, 100 + 20 * place, 10, place + 1, grid=[320, 1, 1]) for place in range(2)]
    row = only(opened(launched("aten::_foreach_mul_", kernels, **lists), gpu=H100))
    assert row["params"] == f"elements={640 * 65_536} passes=2"
    assert row["bytes"] == 4 * 2 * 640 * 65_536
    assert "launch grids" in row["approximate"]


DAMAGED = [
    [["a", "b"], [3, 4]],
    [[-1, 4], [4, 4]],
    [[[[1]]], [[2], 3]],
    [[1.5, 2], [2, 2]],
    [[10**30, 4], [4, 4]],
    [[0, 10**12, 10**12], [10**12, 10**12]],
    "text",
    {"a": 1},
    None,
    7,
    [[True, True], [True, True]],
]


SHAPED = ("aten::mm", "aten::add", "aten::cat", "aten::convolution", "aten::_foreach_add_", "triton_poi_fused_0")
TYPES: list[Any] = [[BF16, BF16], ["TensorList", 5], "text", [[], {}], None]


@pytest.mark.parametrize("shapes", DAMAGED, ids=repr)
def test_damaged_shapes_do_not_raise_and_lose_no_time(opened: Opened, shapes: Any) -> None:
    events: list[dict[str, Any]] = []
    for number, (name, types) in enumerate(itertools.product(SHAPED, TYPES), start=1):
        args = {"Input Dims": shapes, "Input type": types, "Input Strides": shapes, "Concrete Inputs": shapes}
        work = kernel(GEMM, 10_000 + 100 * number, 50, number, grid=["x", -1, 10**40])
        events += launched(name, [work], ts=10 * number, **args)
    profile = opened(events, gpu=H100)
    assert profile.table("cost_coverage").frame["total_us"].sum() == 50 * len(SHAPED) * len(TYPES)
    numbers = profile.table("roofline").frame.select(pl.selectors.float()).fill_null(0)
    assert all(column.is_finite().all() and (column >= 0).all() for column in numbers.iter_columns())


@pytest.mark.parametrize("family", PARAMS)
def test_a_family_table_has_the_types_of_its_sizes_even_when_it_is_empty(family: str) -> None:
    name, params = PARAMS[family]
    schema = warplens.Profile(empty_trace()).table(name).frame.schema
    texts = {"layout", "pass", "mask", "in", "out", "kernel", "way", "memory", "lengths"}
    assert {param: schema[param] for param in params} == {
        param: pl.String if param in texts else pl.Int64 for param in params
    }


def test_a_family_table_has_its_sizes_as_columns(opened: Opened) -> None:
    row = only(opened(launched("aten::mm", [kernel(GEMM, 100, 200, 1)], **PRODUCT), gpu=H100), "gemm")
    assert [row[name] for name in ("B", "M", "N", "K", "layout")] == [1, SIZE, SIZE, SIZE, "nn"]
    assert "params" not in row and "family" not in row


EVENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 9)), max_size=12)


@given(EVENTS)
def test_a_call_lasts_as_long_as_any_of_its_events_runs(events: list[tuple[int, int, int]]) -> None:
    call, start, duration = np.array(events, np.int64).reshape(-1, 3).T
    covered: dict[int, set[int]] = {}
    for each, begin, length in events:
        covered.setdefault(each, set()).update(range(begin, begin + length))
    times = call_times(call, start, duration)
    assert dict(zip(call[times.first].tolist(), times.union_ns.tolist(), strict=True)) == {
        each: len(places) for each, places in covered.items()
    }
    assert times.first.tolist() == [call.tolist().index(each) for each in sorted(covered)]


def test_places_are_written_as_editors_take_them() -> None:
    assert place_text("model/gpt.py(12): forward") == "model/gpt.py:12 forward"
    assert place_text("nn.Module: Linear_0") == "nn.Module: Linear_0"
    assert pattern_of("GPT_0") == "GPT"
    assert pattern_of("GPT_0/Block_11/Linear_3") == "GPT/Block_*/Linear_*"
