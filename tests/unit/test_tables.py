"""Every table on traces small enough to work out by hand; idleness, communication and findings have files of their own."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, frame, kernel, launch, memcpy, memory, memset, op
from warplens.analyses import TABLES
from warplens.model.trace import empty_trace
from warplens.profiles.trace import TABLE_NAMES

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

CONTRACT = {
    # table: its first columns, in order, as the design promises them
    "timeline": "device, measure, time_ms, percent",
    "kernel_categories": "kernel_category, count, total_us, percent",
    "kernels": "op, op_category, kernel_category, kernel, stream, count, total_us, mean_us, min_us, max_us, percent",
    "launch_categories": "op, kernel_category, count, total_us, percent_of_op",
    "ops": "op, op_category, count, kernel_us, subtree_kernel_us, cpu_us, percent",
    "op_shapes": "op, op_category, input_dims, input_types, input_strides, concrete_inputs, count, kernel_us",
    "roofline": "op, family, params, dtype, flop, bytes, intensity, count, kernel_us_mean, tflops, tbps, bound, roofline_us, percent_of_roofline",
    "findings": "code, title, gain_ms, gain_percent, bound, place, evidence, advice, proof",
}


@pytest.mark.parametrize("name", CONTRACT)
def test_columns_of_the_contract_come_first_and_in_order(opened: Opened, name: str) -> None:
    promised = CONTRACT[name].split(", ")
    for profile in (warplens.Profile(empty_trace()), opened([kernel("k", 0, 1)])):
        assert profile.table(name).frame.columns[: len(promised)] == promised


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_column_says_what_it_means_and_its_unit_ends_its_name(name: str) -> None:
    """A trace without events has every table with all its columns."""
    table = warplens.Profile(empty_trace()).table(name)
    assert table.name == name
    assert table.meaning.startswith("one row per ")
    assert all(column.meaning for column in table.columns)
    of_unit = {"us": "_us", "ms": "_ms", "bytes": "bytes", "%": "percent", "GB/s": "_gbps"}
    of_unit |= {"TFLOP/s": "tflops", "TB/s": "tbps", "J": "_joules"}
    for column in table.columns:
        assert not column.unit or of_unit[column.unit] in column.name, column


def test_the_report_holds_every_analysis_and_the_findings() -> None:
    assert set(TABLE_NAMES) == {*TABLES, "findings", "evidence"}
    assert TABLE_NAMES[0] == "quality"


def measures(profile: warplens.Profile, device: str) -> dict[str, float]:
    """A device's timeline in µs."""
    rows = profile.table("timeline").to_dicts()
    return {row["measure"]: round(row["time_ms"] * 1000, 6) for row in rows if row["device"] == device}


def test_timeline_counts_what_overlaps_once_and_exposes_what_nothing_hides(opened: Opened) -> None:
    profile = opened(
        [
            kernel(GEMM, 0, 40),
            kernel(ALL_REDUCE, 30, 40, stream=20),
            memcpy(35, 3, stream=21),
            memcpy(60, 40, stream=21),
            memset(110, 10),
            kernel(GEMM, 50, 80, device=1),
        ]
    )
    assert measures(profile, "0") == {
        "computation": 40 + 10,
        "communication": 40,
        "memcpy": 3 + 40,
        "exposed_communication": 70 - 40,
        "exposed_memcpy": 100 - 70,
        "busy": 100 + 10,
        "idle": 10,
        "total": 120,
    }
    assert measures(profile, "1")["busy"] == measures(profile, "1")["total"] == 80
    assert measures(profile, "all") == {
        "computation": 40 + 80,
        "communication": 40,
        "memcpy": 43,
        "exposed_communication": 50 - 40,
        "exposed_memcpy": 0,
        "busy": 130,
        "idle": 0,
        "total": 130,
    }
    shares = {row["measure"]: row["percent"] for row in profile.table("timeline").to_dicts() if row["device"] == "0"}
    assert shares["idle"] == pytest.approx(100 * 10 / 120)
    assert shares["total"] == 100


def test_kernels_on_one_stream_may_overlap(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 40), kernel(GEMM, 30, 40)])
    assert measures(profile, "0")["computation"] == 70
    assert profile.table("kernels").to_dicts()[0]["total_us"] == 80
    assert [row["count"] for row in profile.table("quality").to_dicts() if row["code"] == "overlap"] == [1]


def launched(name: str, kernels: list[dict[str, Any]], ts: float = 0) -> list[dict[str, Any]]:
    """An op with a launch for each of its kernels."""
    calls = [launch(ts + 1 + place, 0.5, each["args"]["correlation"]) for place, each in enumerate(kernels)]
    return [op(name, ts, 1 + len(kernels)), *calls, *kernels]


THREE_OPS = [
    *launched("aten::mm", [kernel(GEMM, 100, 30, 1), kernel(GEMM, 140, 50, 2), kernel(GEMM, 200, 10, 3, stream=8)]),
    *launched("aten::add", [kernel(ADD, 220, 6, 4)], ts=10),
    *launched("aten::mm", [kernel(GEMM, 230, 4, 5)], ts=20),
]


def test_kernels_are_summed_by_op_kernel_and_stream(opened: Opened) -> None:
    columns = ("op", "kernel_category", "stream", "count", "total_us", "mean_us", "min_us", "max_us", "percent")
    rows = opened(THREE_OPS).table("kernels").frame.select(columns).rows()
    assert rows == [
        ("aten::mm", "GEMM", 7, 3, 84.0, 28.0, 4.0, 50.0, 84.0),
        ("aten::mm", "GEMM", 8, 1, 10.0, 10.0, 10.0, 10.0, 10.0),
        ("aten::add", "Elementwise", 7, 1, 6.0, 6.0, 6.0, 6.0, 6.0),
    ]


def test_kernel_categories_share_out_all_gpu_time(opened: Opened) -> None:
    rows = opened([*THREE_OPS, memset(300, 100)]).table("kernel_categories").frame.rows()
    assert rows == [("Memory Ops", 1, 100.0, 50.0), ("GEMM", 4, 94.0, 47.0), ("Elementwise", 1, 6.0, 3.0)]


def test_launch_categories_give_the_percent_of_graph_time(opened: Opened) -> None:
    graph = [kernel(GEMM, 10, 30, 9), kernel(ADD, 40, 10, 9), kernel(GEMM, 50, 20, 9), kernel(ALL_REDUCE, 70, 20, 9)]
    events = [launch(0, 2, 9, name="cudaGraphLaunch"), *graph, *launched("aten::add", [kernel(ADD, 200, 5, 1)], ts=150)]
    assert opened(events).table("launch_categories").frame.rows() == [
        ("cudaGraphLaunch", "GEMM", 2, 50.0, 62.5, True),
        ("cudaGraphLaunch", "Communication", 1, 20.0, 25.0, True),
        ("cudaGraphLaunch", "Elementwise", 1, 10.0, 12.5, True),
        ("aten::add", "Elementwise", 1, 5.0, 100.0, False),
    ]


def by(profile: warplens.Profile, table: str, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in profile.table(table).to_dicts()}


def test_ops_know_their_own_and_their_callees_gpu_time(opened: Opened) -> None:
    rows = by(
        opened(
            [
                op("aten::linear", 0, 50),
                op("aten::addmm", 10, 30),
                launch(12, 1, 1),
                kernel(GEMM, 100, 30, 1),
                launch(45, 1, 2),
                kernel(ADD, 140, 10, 2),
            ]
        ),
        "ops",
        "op",
    )
    linear, addmm = rows["aten::linear"], rows["aten::addmm"]
    assert (linear["count"], linear["kernel_us"], linear["subtree_kernel_us"]) == (1, 10.0, 40.0)
    assert (linear["cpu_us"], linear["cpu_self_us"], linear["percent"]) == (50.0, 20.0, 25.0)
    assert (addmm["kernel_us"], addmm["subtree_kernel_us"], addmm["cpu_us"]) == (30.0, 30.0, 30.0)
    assert addmm["op_category"] == linear["op_category"] == "GEMM"


def test_an_op_inside_itself_counts_its_time_once(opened: Opened) -> None:
    events = [
        op("aten::sum", 0, 50),
        op("aten::to", 5, 40),
        op("aten::sum", 10, 30),
        launch(12, 1, 1),
        kernel("reduce_kernel", 60, 8, 1),
    ]
    row = by(opened(events), "ops", "op")["aten::sum"]
    assert (row["count"], row["kernel_us"], row["subtree_kernel_us"]) == (2, 8.0, 8.0)
    assert (row["cpu_us"], row["cpu_self_us"]) == (50.0, (50 - 40) + 30.0)


def test_ops_without_gpu_time_of_their_own_come_by_their_callees_and_then_by_host_time(opened: Opened) -> None:
    events = [op("aten::view", 0, 3), op("aten::empty", 5, 4), op("aten::linear", 10, 2), op("aten::mm", 10.5, 1)]
    table = opened([*events, launch(11, 0.1, 1), kernel(GEMM, 30, 4, 1)]).table("ops")
    assert table.frame["op"].to_list() == ["aten::mm", "aten::linear", "aten::empty", "aten::view"]


def test_ops_lists_ops_without_gpu_work_and_launches_without_an_op(opened: Opened) -> None:
    events = [op("aten::view", 0, 3), op("aten::view", 5, 3), launch(20, 1, 1), launch(22, 1, 2)]
    rows = by(opened([*events, kernel(ADD, 30, 4, 1), kernel(ADD, 40, 4, 2), kernel(ADD, 50, 2)]), "ops", "op")
    assert (rows["aten::view"]["count"], rows["aten::view"]["kernel_us"], rows["aten::view"]["cpu_us"]) == (2, 0.0, 6.0)
    assert (rows["cudaLaunchKernel"]["count"], rows["cudaLaunchKernel"]["kernel_us"]) == (2, 8.0)
    assert rows["(no launch recorded)"]["percent"] == 20.0


def mm(ts: float, dims: list[list[int]], kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shaped = {"Input Dims": dims, "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[64, 1], [8, 1]]}
    first, *calls = launched("aten::mm", kernels, ts)
    return [{**first, "args": {**shaped, "Concrete Inputs": ["", "1"]}}, *calls]


def test_op_shapes_split_an_op_by_its_inputs(opened: Opened) -> None:
    small, large = [[8, 64], [64, 8]], [[512, 64], [64, 8]]
    rows = (
        opened(
            [
                *mm(0, small, [kernel(GEMM, 100, 10, 1)]),
                *mm(10, large, [kernel(GEMM, 120, 40, 2), kernel("splitKreduce_kernel", 170, 2, 3)]),
                *mm(20, small, [kernel(GEMM, 180, 14, 4)]),
            ]
        )
        .table("op_shapes")
        .to_dicts()
    )
    assert [(row["input_dims"], row["count"], row["kernel_us"]) for row in rows] == [
        ("[[512, 64], [64, 8]]", 1, 42.0),
        ("[[8, 64], [64, 8]]", 2, 24.0),
    ]
    first, second = rows
    assert second["input_types"] == '["c10::BFloat16", "c10::BFloat16"]'
    assert (second["input_strides"], second["concrete_inputs"]) == ("[[64, 1], [8, 1]]", '["", "1"]')
    assert [second[f"kernel_us_{name}"] for name in ("mean", "min", "max")] == [12.0, 10.0, 14.0]
    assert second["kernel_us_std"] == pytest.approx(8**0.5)
    assert (first["kernels_per_call"], first["kernels"].count(" + "), second["kernels_per_call"]) == (2, 1, 1)
    assert first["percent"] == pytest.approx(100 * 42 / 66)


def backward(name: str, ts: float, sequence: int, kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A backward op on the autograd thread, made by the forward op with this sequence number."""
    numbers = {"Sequence number": sequence, "Fwd thread id": 1}
    events = launched(name, kernels, ts)
    return [{**event, "tid": 2} if event["cat"] == "cuda_runtime" else event for event in events[1:]] + [
        {**events[0], "tid": 2, "args": numbers}
    ]


def forward(name: str, ts: float, sequence: int, kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, *rest = launched(name, kernels, ts)
    return [{**first, "args": {"Sequence number": sequence, "Fwd thread id": 0}}, *rest]


TRAINING = [
    frame("train.py(7): main", 0, 90),
    frame("model.py(20): forward", 5, 80),
    frame("nn.Module: Net_0", 6, 70),
    frame("nn.Module: Linear_0", 10, 20),
    frame("torch/nn/modules/linear.py(130): forward", 11, 18),
    *forward("aten::addmm", 12, 1, [kernel(GEMM, 100, 10, 1)]),
    frame("nn.Module: ReLU_0", 40, 20),
    *forward("aten::relu", 42, 2, [kernel(ADD, 120, 2, 2)]),
    *forward("aten::sum", 65, 3, [kernel("reduce_kernel", 130, 3, 3)]),
    *backward("SumBackward0", 200, 3, [kernel(ADD, 210, 5, 4)]),
    *backward("ReluBackward0", 220, 2, [kernel(ADD, 230, 4, 5)]),
    *backward("AddmmBackward0", 240, 1, [kernel(GEMM, 250, 11, 6), kernel(GEMM, 270, 9, 7)]),
    launch(300, 1, 8),
    memset(310, 6, 8),
]


def test_modules_hold_their_backward_and_the_modules_inside_them(opened: Opened) -> None:
    rows = by(opened(TRAINING), "modules", "module")
    shown = {
        name: (
            row["depth"],
            row["count"],
            row["forward_us"],
            row["backward_us"],
            row["kernel_us"],
            row["subtree_kernel_us"],
        )
        for name, row in rows.items()
    }
    assert shown == {
        "Net_0": (0, 2, 3.0, 5.0, 8.0, 8 + 30 + 6.0),
        "Net_0/Linear_0": (1, 3, 10.0, 20.0, 30.0, 30.0),
        "Net_0/ReLU_0": (1, 2, 2.0, 4.0, 6.0, 6.0),
        "(outside any module)": (0, 1, 6.0, 0.0, 6.0, 6.0),
    }
    assert rows["Net_0"]["subtree_percent"] == 88.0
    passes = {name: (row["subtree_forward_us"], row["subtree_backward_us"]) for name, row in rows.items()}
    assert passes == {
        "Net_0": (3 + 10 + 2.0, 5 + 20 + 4.0),
        "Net_0/Linear_0": (10.0, 20.0),
        "Net_0/ReLU_0": (2.0, 4.0),
        "(outside any module)": (6.0, 0.0),
    }


OPTIMIZER = "Optimizer.step#AdamW.step"


def test_optimizer_time_is_in_no_module_whichever_is_around_it(opened: Opened) -> None:
    """A trainer that is a module itself calls the model and then the optimizer; the model is called once by a closure."""
    events = [
        frame("nn.Module: Trainer_0", 0, 200),
        frame("nn.Module: Net_0", 10, 30),
        *(op("aten::mm", 12, 20), launch(14, 1, 1), kernel(GEMM, 300, 10, 1)),
        annotation(OPTIMIZER, 50, 100),
        *(op("aten::_foreach_add_", 60, 20), launch(62, 1, 2), kernel(ADD, 320, 7, 2)),
        frame("nn.Module: Net_0", 100, 30),
        *(op("aten::mm", 105, 20), launch(107, 1, 3), kernel(GEMM, 340, 11, 3)),
        *(op("aten::add", 160, 20), launch(162, 1, 4), kernel(ADD, 360, 3, 4)),
    ]
    rows = by(opened(events), "modules", "module")
    names = ("count", "forward_us", "backward_us", "kernel_us", "subtree_kernel_us", "subtree_forward_us")
    assert {module: tuple(row[name] for name in names) for module, row in rows.items()} == {
        "Trainer_0": (1, 3.0, 0.0, 3.0, 24.0, 24.0),
        "Trainer_0/Net_0": (2, 21.0, 0.0, 21.0, 21.0, 21.0),
        "(optimizer)": (1, 0.0, 0.0, 7.0, 7.0, 0.0),
    }


def test_what_the_autograd_engine_launches_outside_any_module_is_backward(opened: Opened) -> None:
    """DDP reduces gradients from a hook: no forward op created that work, but it is no forward work either."""
    reduced = [op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 100, 50, tid=2)]
    reduced += [op("c10d::allreduce_", 110, 20, tid=2), launch(112, 1, 9, tid=2), kernel(ALL_REDUCE, 400, 8, 9)]
    row = by(opened([*TRAINING, *reduced]), "modules", "module")["(outside any module)"]
    assert (row["forward_us"], row["backward_us"], row["kernel_us"]) == (6.0, 8.0, 14.0)


def test_python_lines_are_the_users_own_with_their_backward(opened: Opened) -> None:
    """linear.py is PyTorch's: its time belongs to the line of model.py that called it."""
    columns = ("file", "line", "function", "count", "forward_us", "backward_us", "kernel_us", "percent")
    assert opened(TRAINING).table("python_lines").frame.select(columns).rows() == [
        ("model.py", 20, "forward", 7, 15.0, 29.0, 44.0, 88.0),
        ("(no Python frame)", None, "", 1, 6.0, 0.0, 6.0, 12.0),
    ]


def test_tables_of_lines_and_modules_say_when_stacks_are_missing(opened: Opened) -> None:
    profile = opened(THREE_OPS)
    for name in ("modules", "python_lines"):
        assert any("with_stack=True" in note for note in profile.table(name).notes), name
    assert not opened(TRAINING).table("modules").notes


def test_short_kernels_are_those_below_the_threshold(opened: Opened) -> None:
    profile = opened(THREE_OPS, short_us=10)
    table = profile.table("short_kernels")
    rows = table.frame.select("kernel", "count", "total_us", "mean_us", "percent", "op").rows()
    assert rows == [(ADD, 1, 6.0, 6.0, 6.0, "aten::add"), (GEMM, 1, 4.0, 4.0, 4.0, "aten::mm")]
    assert table.notes == ("2 of 5 GPU events (40.0 %) are under 10.00 µs",)
    assert len(opened(THREE_OPS, short_us=4).table("short_kernels")) == 0


def test_kernel_durations_fall_into_buckets_closed_below(opened: Opened) -> None:
    """THREE_OPS lasts 30, 50, 10, 6 and 4 µs."""
    rows = [row for row in opened(THREE_OPS).table("kernel_durations").to_dicts() if row["count"]]
    assert [(row["from_us"], row["to_us"], row["count"], row["total_us"], row["percent"]) for row in rows] == [
        (2.0, 5.0, 1, 4.0, 4.0),
        (5.0, 10.0, 1, 6.0, 6.0),
        (10.0, 20.0, 1, 10.0, 10.0),
        (20.0, 50.0, 1, 30.0, 30.0),
        (50.0, 100.0, 1, 50.0, 50.0),
    ]


def test_activity_slices_the_gpu_time_evenly(opened: Opened) -> None:
    """Busy 0 to 100 and 150 to 201, idle between: slices of 2.01 µs."""
    frame = opened([op("aten::mm", 0, 10), kernel(GEMM, 10, 100), kernel(GEMM, 160, 51)]).table("activity").frame
    busy = frame["busy_percent"].to_list()
    assert len(busy) == 100
    assert (frame["start_ms"][0], frame["end_ms"][-1]) == (0.010, 0.211)
    assert busy[:49] == [100.0] * 49
    assert busy[50:74] == [0.0] * 24
    assert busy[75:] == [100.0] * 25
    covered = sum(share * (end - start) / 100 for start, end, share in frame.iter_rows())
    assert covered == pytest.approx(0.151)


def test_memory_knows_its_peak_and_who_reached_it(opened: Opened) -> None:
    events = [
        op("aten::empty", 0, 10),
        memory(2, 1000, 5000, 8192),
        op("aten::cat", 20, 10),
        memory(22, 3000, 8000, 16384),
        memory(25, -1000, 7000, 16384),
        memory(27, 64, 64, 0, device=-1, device_type=0),
    ]
    rows = opened(events).table("memory").to_dicts()
    assert rows == [
        {"device": "CPU", "allocations": 1, "frees": 0, "requested_bytes": 64, "first_allocated_bytes": 0, "peak_allocated_bytes": 64,
         "peak_reserved_bytes": 0, "peak_ms": 0.027, "peak_op": "aten::cat"},
        {"device": "GPU 0", "allocations": 2, "frees": 1, "requested_bytes": 4000, "first_allocated_bytes": 4000, "peak_allocated_bytes": 8000,
         "peak_reserved_bytes": 16384, "peak_ms": 0.022, "peak_op": "aten::cat"},
    ]  # fmt: skip


def test_memory_without_recorded_totals_claims_no_peak(opened: Opened) -> None:
    event = memory(2, 1000, 0, 0)
    old = {**event, "args": {name: value for name, value in event["args"].items() if not name.startswith("Total")}}
    profile = opened([op("aten::empty", 0, 10), old])
    assert profile.table("memory_ops").frame["op"].to_list() == ["aten::empty"]
    (row,) = profile.table("memory").to_dicts()
    assert (row["allocations"], row["requested_bytes"]) == (1, 1000)
    unknown = ("first_allocated_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_ms", "peak_op")
    assert [row[name] for name in unknown] == [None] * 5


def test_memory_ops_sum_the_allocations_of_each_op(opened: Opened) -> None:
    events = [
        op("aten::empty", 0, 10),
        memory(2, 1000, 1000, 8192),
        memory(4, 500, 1500, 8192),
        memory(5, -500, 1000, 8192),
    ]
    events += [op("aten::cat", 20, 10), memory(22, 3000, 4000, 8192), memory(40, 10, 4010, 8192)]
    assert opened(events).table("memory_ops").frame.rows() == [
        ("GPU 0", "aten::cat", 1, 3000, 3000),
        ("GPU 0", "aten::empty", 2, 1500, 1000),
        ("GPU 0", "(outside any op)", 1, 10, 10),
    ]


def test_memory_tables_say_how_to_record_memory(opened: Opened) -> None:
    assert "profile_memory=True" in " ".join(opened(THREE_OPS).table("memory").notes)


def test_quality_lists_warnings_first_with_counts_and_plain_words(opened: Opened) -> None:
    rows = (
        opened([op("aten::mm", 0, 10), kernel(GEMM, 20, 75), annotation("x", 3, -1), kernel(GEMM, 200, 25)])
        .table("quality")
        .to_dicts()
    )
    assert [(row["severity"], row["code"], row["count"]) for row in rows] == [
        ("warning", "negative_duration", 1),
        ("warning", "unlinked_kernels", 2),
        ("info", "unknown_gpu", 0),
        ("info", "no_shapes", 0),
        ("info", "no_stacks", 0),
        ("info", "no_steps", 0),
    ]
    assert rows[1]["message"] == "2 GPU events without a recorded launch (100.0% of GPU time)"


def test_a_trace_without_gpu_work_has_empty_gpu_tables(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 10)])
    assert profile.trace.quality.has("no_gpu")
    for name in (
        "timeline",
        "kernel_categories",
        "kernels",
        "launch_categories",
        "idle",
        "gaps",
        "activity",
        "comm",
        "findings",
    ):
        assert len(profile.table(name)) == 0, name
    assert [row["op"] for row in profile.table("ops").to_dicts()] == ["aten::mm"]
    assert profile.verdict() == "CPU only: this trace has no GPU work (measured)."


def test_a_misspelt_table_is_refused_with_the_name_that_was_meant(opened: Opened) -> None:
    with pytest.raises(warplens.UsageError) as error:
        opened([op("aten::mm", 0, 10)]).table("kernelz")
    assert str(error.value) == "no table 'kernelz': did you mean kernels?"
    assert error.value.hint is not None
    assert "launch_categories" in error.value.hint
