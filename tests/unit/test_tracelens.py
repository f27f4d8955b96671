"""TraceLens' interface: its calls, columns and sheets on top of our figures."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warplens
import warplens.compat as compat
from support import ROOT, annotation, frame, kernel, launch, memcpy, memset, op, write_trace

pandas = pytest.importorskip("pandas")
pytest.importorskip("openpyxl")

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MM = {
    "Input Dims": [[128, 64], [64, 32]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
    "Input Strides": [[64, 1], [32, 1]],
    "Concrete Inputs": ["", ""],
}
ADDED = {"Input Dims": [[128, 32], [32], []], "Input type": ["float", "float", "Scalar"],
         "Input Strides": [[32, 1], [1], []], "Concrete Inputs": ["", "", "1"]}  # fmt: skip
GRAPH = [
    annotation("decode", 0, 50),
    launch(0, 2, 9, name="cudaGraphLaunch"),
    kernel(GEMM, 10, 30, 9),
    kernel(ADD, 40, 10, 9),
    op("aten::add", 60, 10, **ADDED),
    launch(61, 1, 1),
    kernel(ADD, 70, 5, 1),
    launch(90, 2, 10, name="cudaGraphLaunch"),
    kernel(GEMM, 100, 35, 10),
    kernel("my_secret_kernel", 140, 20, 10),
]
LAYER = [
    # Two products and an addition inside a linear layer; the second product overlaps with a copy on another stream.
    op("aten::linear", 0, 40),
    op("aten::mm", 1, 10, **MM), launch(2, 1, 1), kernel(GEMM, 50, 10, 1),
    op("aten::mm", 12, 10, **MM), launch(13, 1, 2), kernel(GEMM, 60, 20, 2),
    op("aten::add", 24, 10, **ADDED), launch(25, 1, 3), kernel(ADD, 90, 5, 3),
    op("aten::copy_", 50, 10), launch(51, 1, 4, name="cudaMemcpyAsync"), memcpy(70, 15, 4, stream=9),
]  # fmt: skip
Make = Callable[..., warplens.TreePerfAnalyzer]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Analyzes events made by hand."""

    def make(events: list[dict[str, Any]], **options: Any) -> warplens.TreePerfAnalyzer:
        return warplens.TreePerfAnalyzer(write_trace(tmp_path / "trace.json", events), cache=False, **options)

    return make


def records(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame[list(names)].itertuples(index=False)]


# --- the report


def test_the_report_writes_the_workbook_beside_the_trace_and_again_over_itself(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", LAYER)
    for _ in range(2):
        sheets = warplens.generate_perf_report_pytorch(str(trace), use_kernel_name_categories=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json", "t_perf_report.xlsx"]
    written = pandas.read_excel(tmp_path / "t_perf_report.xlsx", sheet_name=None)
    assert list(written) == list(sheets)
    for name, sheet in written.items():
        assert list(sheet.columns) == list(sheets[name].columns)
        assert len(sheet) == len(sheets[name])
    assert written["gpu_timeline"]["time ms"].tolist() == pytest.approx(sheets["gpu_timeline"]["time ms"].tolist())


def test_the_workbook_of_a_packed_trace_is_named_without_both_endings(tmp_path: Path) -> None:
    trace = tmp_path / "t.json.gz"
    trace.write_bytes((ROOT / "samples" / "kineto" / "cudagraph_infer.json.gz").read_bytes())
    warplens.generate_perf_report_pytorch(trace)
    assert (tmp_path / "t_perf_report.xlsx").is_file()


def test_csv_files_alone_take_the_place_of_the_workbook(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", LAYER)
    sheets = warplens.generate_perf_report_pytorch(profile_json_path=trace, output_csvs_dir=tmp_path / "csvs")
    assert not (tmp_path / "t_perf_report.xlsx").exists()
    assert {path.stem for path in (tmp_path / "csvs").iterdir()} == set(sheets)
    read = pandas.read_csv(tmp_path / "csvs" / "ops_summary.csv")
    assert records(read, "name", "Count") == records(sheets["ops_summary"], "name", "Count")
    both = warplens.generate_perf_report_pytorch(trace, tmp_path / "r.xlsx", tmp_path / "again")
    assert (tmp_path / "r.xlsx").is_file()
    assert {path.stem for path in (tmp_path / "again").iterdir()} == set(both)


def test_the_report_never_overwrites_its_trace(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", LAYER)
    with pytest.raises(warplens.UsageError, match=r"t\.json"):
        warplens.generate_perf_report_pytorch(trace, output_xlsx_path=trace)
    assert json.loads(trace.read_text())["traceEvents"]


def test_the_report_has_the_sheets_of_tracelens_and_those_that_are_asked_for(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", LAYER)
    plain = warplens.generate_perf_report_pytorch(trace)
    always = ["gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "unified_perf_summary"]
    assert list(plain) == [*always, "GEMM", "BinaryElementwise"]
    more = warplens.generate_perf_report_pytorch(
        trace, kernel_summary=True, short_kernel_study=True, include_overlap_info=True, topk_ops=1
    )
    assert set(more) - set(plain) == {
        "kernel_summary", "short_kernel_histogram", "short_kernels_summary", "ops_unique_args_kl_overlap",
        "unified_perf_summary_kl_overlap", "GEMM_kl_overlap", "BinaryElementwise_kl_overlap",
    }  # fmt: skip
    assert len(more["ops_unique_args"]) == 1


def test_a_trace_without_ops_has_the_timeline_and_its_kernels_only() -> None:
    sample = ROOT / "samples" / "kineto" / "cudagraph_infer.json.gz"
    assert list(warplens.generate_perf_report_pytorch(sample, os.devnull, kernel_summary=True)) == [
        "gpu_timeline",
        "kernel_summary",
    ]


def test_a_cut_trace_is_reported_with_a_warning(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": LAYER})[:-60])
    with pytest.warns(UserWarning, match=r"t\.json: the file ends early"):
        sheets = warplens.generate_perf_report_pytorch(trace)
    assert len(sheets["ops_summary"]) > 0


# --- frames


def test_the_timeline_has_tracelens_types_in_its_order(made: Make) -> None:
    timeline = made(LAYER).get_df_gpu_timeline()
    assert records(timeline, "type", "time ms") == [
        ("computation_time", 0.035), ("exposed_comm_time", 0.0), ("exposed_memcpy_time", 0.005), ("busy_time", 0.04),
        ("idle_time", 0.005), ("total_time", 0.045), ("total_comm_time", 0.0), ("total_memcpy_time", 0.015),
    ]  # fmt: skip
    split = made(LAYER).get_df_gpu_timeline(micro_idle_thresh_us=10)
    assert records(split, "type", "time ms")[4:6] == [("micro_idle_time", 0.005), ("macro_idle_time", 0.0)]


def test_only_work_with_a_recorded_launch_is_in_the_timeline_unless_all_is_wanted(made: Make) -> None:
    events = [*LAYER, kernel("unlinked", 200, 5, 77)]
    assert made(events).get_df_gpu_timeline()["time ms"].max() == 0.045
    assert made(events, include_unlinked_kernels=True).get_df_gpu_timeline()["time ms"].max() == 0.155


def test_launchers_are_calls_in_the_order_of_their_starts_with_arguments_as_tuples(made: Make) -> None:
    launchers = made(LAYER).get_df_kernel_launchers(include_kernel_details=True, id_cols=True)
    columns = ("name", "op category", "total_direct_kernel_time", "direct_kernel_count", "num_kernels")
    assert records(launchers, *columns) == [
        ("aten::mm", "GEMM", 10.0, 1, 1),
        ("aten::mm", "GEMM", 20.0, 1, 1),
        ("aten::add", "elementwise", 5.0, 1, 1),
        ("aten::copy_", "elementwise", 15.0, 1, 1),
    ]
    assert launchers["Input Dims"][0] == ((128, 64), (64, 32))
    assert launchers["Input Dims"][3] is None
    assert launchers["kernel_details"][0] == [{"name": GEMM, "dur": 10.0, "stream": 7}]
    assert launchers["overlapping_kernel_names"][1] == ["Memcpy HtoD (Pinned -> Device)"]
    assert launchers["overlap_pct"].tolist()[:2] == pytest.approx([float("nan"), 0.5], nan_ok=True)


def test_collectives_are_in_no_launcher(made: Make) -> None:
    events = [*LAYER, op("c10d::allreduce_", 100, 5), launch(101, 1, 8), kernel(NCCL, 110, 30, 8)]
    analyzer = made(events)
    assert "c10d::allreduce_" not in analyzer.get_df_kernel_launchers()["name"].tolist()
    timeline = analyzer.get_df_gpu_timeline().set_index("type")["time ms"]
    assert timeline["total_comm_time"] == timeline["exposed_comm_time"] == 0.03


def test_summaries_take_their_frame_or_make_it_and_can_be_called_on_the_class(made: Make) -> None:
    analyzer = made(LAYER)
    launchers = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    for name in (
        "get_df_kernel_launchers_summary", "get_df_kernel_launchers_summary_by_category",
        "get_df_kernel_launchers_summary_module", "get_df_kernel_launchers_summary_by_category_module",
        "get_df_kernel_launchers_unique_args",
    ):  # fmt: skip
        given = getattr(analyzer, name)(launchers)
        assert given.equals(getattr(analyzer, name)())
        assert given.equals(getattr(warplens.TreePerfAnalyzer, name)(df_kernel_launchers=launchers))
    summary = analyzer.get_df_kernel_launchers_summary()
    assert records(summary, "name", "Count", "total_direct_kernel_time_sum", "Categories")[0] == (
        "aten::mm", 2, 30.0, ["GEMM"],
    )  # fmt: skip
    assert summary["Percentage (%)"].sum() == pytest.approx(100)
    assert summary["Cumulative Percentage (%)"].iloc[-1] == pytest.approx(100)
    with pytest.raises(warplens.UsageError, match="needs the frame of get_df_kernel_launchers"):
        warplens.TreePerfAnalyzer.get_df_kernel_launchers_summary()


def test_summaries_are_of_the_rows_that_are_left_in_the_frame(made: Make) -> None:
    analyzer = made(LAYER)
    launchers = analyzer.get_df_kernel_launchers()
    products = launchers[launchers["name"] == "aten::mm"]
    assert records(analyzer.get_df_kernel_launchers_summary_by_category(products), "op category", "Count") == [
        ("GEMM", 2)
    ]
    by_shape = analyzer.get_df_kernel_launchers_summary_by_shape(launchers, "aten::mm")
    assert by_shape.equals(analyzer.get_df_kernel_launchers_summary_by_shape("aten::mm"))
    assert records(by_shape, "Input Dims", "Total Kernel Time (µs)", "Count") == [(((128, 64), (64, 32)), 30.0, 2)]


def test_unique_arguments_have_the_statistics_that_are_asked_for(made: Make) -> None:
    unique = made(LAYER).get_df_kernel_launchers_unique_args(
        event_name="aten::mm", agg_metrics=["mean", "median", "std", "min", "max"], include_pct=True
    )
    (row,) = unique.to_dict("records")
    assert row["operation_count"] == 2
    assert [row[f"total_direct_kernel_time_{how}"] for how in ("mean", "median", "std", "min", "max", "sum")] == (
        pytest.approx([15.0, 15.0, 50**0.5, 10.0, 20.0, 30.0])
    )
    (kernels,) = row["kernel_details_summary"]
    assert kernels["count"] == 2
    assert kernels["std_dev_duration_us"] == 5.0
    with pytest.raises(warplens.UsageError, match="unknown aggregate 'middle'"):
        made(LAYER).get_df_kernel_launchers_unique_args(agg_metrics=["middle"])


def test_the_subtree_of_an_op_has_the_time_of_all_ops_inside_it(made: Make) -> None:
    events = [*LAYER, launch(3, 1, 5), kernel(ADD, 120, 4, 5)]  # launched by the first product itself
    outer = [op("aten::outer", 200, 20), launch(201, 1, 6), kernel(ADD, 230, 1, 6),
             op("aten::inner", 205, 5), launch(206, 1, 7), kernel(ADD, 240, 2, 7)]  # fmt: skip
    launchers = made([*events, *outer]).get_df_kernel_launchers().set_index("name")
    assert launchers.loc["aten::outer", "total_direct_kernel_time"] == 1.0
    assert launchers.loc["aten::outer", "total_subtree_kernel_time"] == 3.0


def test_kernels_have_their_launch_and_op(made: Make) -> None:
    kernels = made(LAYER).get_df_kernels(launcher_detail=True)
    assert len(kernels) == 3  # copies are not kernels
    row = kernels.iloc[0]
    assert (row["Kernel name"], row["Launcher"], row["Parent cpu_op"]) == (GEMM, "cudaLaunchKernel", "aten::mm")
    assert row["Percent of Parent cpu_op busy time (%)"] == 100
    assert str(kernels["UID"].dtype) == "Int64"


def test_costs_are_those_of_the_events_that_are_given(made: Make) -> None:
    analyzer = made(LAYER)
    products = [event for event in analyzer.tree.events if event["name"] == "aten::mm"]
    costs = analyzer.build_df_perf_metrics(products, include_kernel_details=True, include_args=True)
    assert costs["Input Dims"].tolist() == [[[128, 64], [64, 32]]] * 2
    flop, moved = 2 * 128 * 64 * 32, 2 * (128 * 64 + 64 * 32 + 128 * 32)
    assert costs["GFLOPS"].tolist() == [flop / 1e9] * 2
    assert costs["TFLOPS/s"].tolist() == pytest.approx([flop / 10e6, flop / 20e6])
    assert costs["Data Moved (MB)"][0] == moved / 2**20
    assert records(costs, "Compute Spec", "param: M", "param: N", "param: K", "param: bias")[0] == (
        "matrix_bf16", 128, 32, 64, False,
    )  # fmt: skip
    (summed,) = analyzer.summarize_df_perf_metrics(costs, ["mean"]).to_dict("records")
    assert (summed["name_count"], summed["Kernel Time (µs)_sum"], summed["param: M"]) == (2, 30.0, "128")
    assert analyzer.compute_perf_metrics(products[0])["FLOPS/Byte"] == flop / moved
    assert len(analyzer.build_df_perf_metrics(products, bwd=True)) == 0


def test_a_roofline_is_drawn_with_given_limits(made: Make) -> None:
    arch = {"mem_bw_gbps": 1000.0, "max_achievable_tflops": {"matrix_bf16": 500.0}}
    analyzer = made(LAYER, arch=arch)
    (first, _) = analyzer.build_df_perf_metrics(
        [event for event in analyzer.tree.events if event["name"] == "aten::mm"]
    ).to_dict("records")
    moved = 2 * (128 * 64 + 64 * 32 + 128 * 32)
    assert first["Roofline Bound"] == "MEMORY_BOUND"
    assert first["Roofline Time (µs)"] == pytest.approx(moved / 1e6)
    assert first["Pct Roofline"] == pytest.approx(moved / 1e5)


@pytest.mark.parametrize("limits", [{"mem_bw_gbps": "fast"}, {"max_achievable_tflops": [708]}])
def test_limits_that_are_not_numbers_are_refused(limits: dict[str, Any], tmp_path: Path) -> None:
    given = tmp_path / "gpu.json"
    given.write_text(json.dumps({"mem_bw_gbps": 5300, "max_achievable_tflops": {"matrix_bf16": 708}} | limits))
    with pytest.raises(warplens.UsageError, match="not a GPU description: limits that are not numbers"):
        warplens.generate_perf_report_pytorch(write_trace(tmp_path / "t.json", LAYER), gpu_arch_json_path=given)


def test_a_roofline_is_drawn_for_16_bit_elementwise_ops_too_where_only_a_rate_in_32_bits_is_known(
    tmp_path: Path,
) -> None:
    halves = {**ADDED, "Input type": ["c10::Half", "c10::Half", "Scalar"]}
    trace = write_trace(tmp_path / "t.json", [op("aten::add", 0, 9, **halves), launch(1, 1, 1), kernel(ADD, 20, 5, 1)])
    sheet = warplens.generate_perf_report_pytorch(trace, gpu_arch_platform="MI300X")["BinaryElementwise"]
    assert records(sheet, "Compute Spec", "Roofline Bound_first") == [("vector_fp16", "MEMORY_BOUND")]


def test_a_product_without_shapes_has_no_cost_though_the_memset_of_its_workspace_has_a_size(tmp_path: Path) -> None:
    trace = write_trace(
        tmp_path / "t.json",
        [
            op("aten::linear", 0, 30), op("aten::mm", 1, 20),
            launch(2, 1, 1, name="cudaMemsetAsync"), memset(40, 2, 1),
            launch(4, 1, 2), kernel(GEMM, 50, 10, 2),
            op("aten::copy_", 60, 5), launch(61, 1, 3, name="cudaMemcpyAsync"), memcpy(70, 2, 3, bytes=2**20),
        ],
    )  # fmt: skip
    sheets = warplens.generate_perf_report_pytorch(trace)
    assert "GEMM" not in sheets
    unified = sheets["unified_perf_summary"].set_index("name")
    assert pandas.isna(unified.loc["aten::mm", "Data Moved (MB)"])
    assert unified.loc["aten::copy_", "Data Moved (MB)"] == 1
    analyzer = warplens.TreePerfAnalyzer(trace, cache=False)
    (event,) = (it for it in analyzer.tree.events if it["name"] == "aten::mm")
    with pytest.raises(warplens.UsageError, match="the cost of aten::mm is not known"):
        analyzer.compute_perf_metrics(event)
    with pytest.raises(warplens.UsageError, match="the cost of the backward pass of aten::mm is not known"):
        analyzer.compute_perf_metrics(event, bwd=True)


def test_the_unified_table_has_each_kernel_once(made: Make) -> None:
    analyzer = made([*LAYER, *[{**event, "ts": event["ts"] + 1000} for event in GRAPH]])
    table = analyzer.build_df_unified_perf_table()
    assert table["Kernel Time (µs)"].sum() == pytest.approx(10 + 20 + 5 + 15 + 30 + 10 + 5 + 35 + 20)
    assert "cudaGraphLaunch->my_secret_kernel (Synthetic Op)" in table["name"].tolist()
    summed = analyzer.summarize_df_unified_perf_table(table)
    assert summed["Percentage (%)"].sum() == pytest.approx(100)
    product = summed.set_index("name").loc["aten::mm"]
    assert product["perf_params"]["K"] == 64
    assert product["has_perf_model"]


def test_recomputed_calls_have_rows_of_their_own(made: Make) -> None:
    events = [
        *LAYER,
        frame("torch/utils/checkpoint.py(1500): recompute_fn", 100, 50, **{"Python id": 1}),
        op("aten::mm", 110, 10, **MM),
        launch(111, 1, 9),
        kernel(GEMM, 160, 30, 9),
    ]
    summary = made(events, detect_recompute=True).get_df_kernel_launchers_summary()
    rows = records(summary[summary["name"] == "aten::mm"], "is_recompute", "total_direct_kernel_time_sum")
    assert rows == [(False, 30.0), (True, 30.0)]


# --- kernel categories


def test_there_is_no_kernel_category_anywhere_by_default(made: Make, tmp_path: Path) -> None:
    plain = made(GRAPH)
    frames = [plain.get_df_kernels(), plain.get_df_kernel_launchers(), plain.get_df_kernel_launchers_summary()]
    frames += warplens.generate_perf_report_pytorch(tmp_path / "trace.json", kernel_summary=True).values()
    assert all("kernel_category" not in frame.columns for frame in frames)


def test_each_graph_launch_is_split_by_category_when_asked(made: Make) -> None:
    """The two graph launches last 95 µs: products 65, an unknown kernel 20, an addition 10."""
    analyzer = made(GRAPH, use_kernel_name_categories=True)
    for summary in (
        analyzer.get_df_kernel_launchers_summary(),
        analyzer.get_df_kernel_launchers_summary(analyzer.get_df_kernel_launchers()),
    ):
        graph = summary[summary["name"] == "cudaGraphLaunch"]
        assert records(graph, "kernel_category", "Count", "total_direct_kernel_time_sum") == [
            ("GEMM", 2, 65.0), ("Other", 1, 20.0), ("Elementwise", 1, 10.0),
        ]  # fmt: skip
        shares = graph["Percent of launcher (%)"].tolist()
        assert shares == pytest.approx([100 * 65 / 95, 100 * 20 / 95, 100 * 10 / 95])
    assert analyzer.get_df_kernel_launchers()["kernel_category"].tolist() == ["GEMM", "Elementwise", "GEMM"]
    assert analyzer.get_df_kernels()["kernel_category"].tolist()[0] == "GEMM"


def test_the_report_with_categories_has_them_in_its_kernels_and_a_sheet_of_launches(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    sheets = warplens.generate_perf_report_pytorch(trace, use_kernel_name_categories=True)
    assert "kernel_category" in sheets["kernel_summary"].columns
    first = sheets["kernel_summary_by_category"].iloc[0]
    assert (first["name"], first["kernel_category"]) == ("cudaGraphLaunch", "GEMM")
    assert first["Percent of launcher (%)"] == pytest.approx(100 * 65 / 95)


MINE = '[[rule]]\ncategory = "Mine"\ncontains = ["secret"]\n'


def secret(sheets: Any) -> str:
    kernels = sheets["kernel_summary"].set_index("Kernel name")
    return str(kernels.loc["my_secret_kernel", "kernel_category"])


def test_rules_decide_the_category_of_a_kernel_in_both_functions(made: Make, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(MINE)
    mine = warplens.Rule("Mine", contains="secret")
    for rules in (mine, [mine], [tmp_path / "rules.toml"], tmp_path / "rules.toml"):
        analyzer = made(GRAPH, use_kernel_name_categories=True, rules=rules)
        assert "Mine" in analyzer.get_df_kernels()["kernel_category"].tolist()
        trace = tmp_path / "trace.json"
        sheets = warplens.generate_perf_report_pytorch(trace, use_kernel_name_categories=True, rules=rules)
        assert secret(sheets) == "Mine"


def test_the_settings_of_the_project_are_honoured_where_no_rules_are_given(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "deeper").mkdir(parents=True)
    (project / "rules.toml").write_text(MINE)
    (project / "warplens.toml").write_text('rules = "rules.toml"\n')
    monkeypatch.chdir(project / "deeper")
    assert "Mine" in made(GRAPH, use_kernel_name_categories=True).get_df_kernels()["kernel_category"].tolist()
    trace = tmp_path / "trace.json"
    assert secret(warplens.generate_perf_report_pytorch(trace, use_kernel_name_categories=True)) == "Mine"
    other = warplens.Rule("Other mine", contains="secret")
    given = warplens.generate_perf_report_pytorch(trace, use_kernel_name_categories=True, rules=[other])
    assert secret(given) == "Other mine"
    (project / "warplens.toml").write_text('rule = "rules.toml"\n')
    with pytest.raises(warplens.UsageError, match="unknown key 'rule'"):
        made(GRAPH)


# --- what is not there


@pytest.mark.parametrize(
    "name", ["NcclAnalyser", "TraceDiff", "TraceToTree", "GPUEventAnalyser", "EventReplayer", "GEMM"]
)
def test_other_classes_can_be_imported_and_raise_one_sentence_with_our_verb(name: str) -> None:
    absent = getattr(compat, name)
    for use in (lambda: absent("trace.json"), lambda: absent.anything):
        with pytest.raises(
            warplens.UsageError, match=rf"^TraceLens' {name} is not in this interface; use warplens \w+"
        ):
            use()


def test_every_public_name_of_tracelens_can_be_imported() -> None:
    for name in [
        "TreePerfAnalyzer",
        "JaxTreePerfAnalyzer",
        "GPUEventAnalyser",
        "PytorchGPUEventAnalyser",
        "JaxGPUEventAnalyser",
        "JaxAnalyses",
        "TraceFuse",
        "TraceToTree",
        "JaxTraceToTree",
        "NcclAnalyser",
        "JaxNcclAnalyser",
        "PerfModel",
        "EventReplay",
        "EventReplayer",
        "DataLoader",
        "TraceEventUtils",
        "JaxProfileProcessor",
        "TraceDiff",
        "Reporting",
    ]:
        assert getattr(compat, name).__doc__
    assert compat.Reporting.generate_perf_report_pytorch is warplens.generate_perf_report_pytorch
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        _ = compat.anything


def test_the_tree_and_its_methods_raise_one_sentence_with_our_verb(made: Make) -> None:
    analyzer = made(LAYER)
    with pytest.raises(
        warplens.UsageError, match=r"^TraceLens' tree\.get_UID2event is not .* use warplens tree TRACE$"
    ):
        analyzer.tree.get_UID2event(1)
    with pytest.raises(warplens.UsageError, match=r"^TraceLens' TreePerfAnalyzer\.get_kernel_launchers is not"):
        analyzer.get_kernel_launchers()
    with pytest.raises(warplens.UsageError, match=r"^TraceLens' TraceToTree is not"):
        warplens.TreePerfAnalyzer({"events": []})  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        _ = analyzer.anything


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("enable_pseudo_ops", True),
        ("comparison_json_path", "b.json"),
        ("extension_file", "x.py"),
        ("enable_origami", True),
    ],
)
def test_a_parameter_without_a_meaning_here_is_refused_by_name(parameter: str, value: object, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", LAYER)
    with pytest.raises(warplens.UsageError, match=rf"^{parameter} .* not supported; use \w+"):
        warplens.generate_perf_report_pytorch(trace, **{parameter: value})
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


SIGNATURES = {
    # callable: the names of TraceLens' parameters, in order
    "TreePerfAnalyzer.from_file": (
        "profile_filepath capture_trace_filepath jax enable_pseudo_ops tree_postprocess_extension args kwargs"
    ),
    "TreePerfAnalyzer.__init__": (
        "self tree add_python_func arch jax python_path event_to_category include_unlinked_kernels enable_pseudo_ops "
        "tree_postprocess_extension rebuild_tree detect_recompute enable_origami inductor_cache_dir pb_file_name "
        "metadata_events kernel_metadata_keyword_filters"
    ),
    "TreePerfAnalyzer.get_df_gpu_timeline": "self micro_idle_thresh_us gpu_pid",
    "TreePerfAnalyzer.get_df_kernel_launchers": (
        "self id_cols include_kernel_details include_call_stack include_first_occurrence_time gpu_pid "
        "gpu_kernel_op_cats include_args args_cols"
    ),
    "TreePerfAnalyzer.get_df_kernel_launchers_summary": "df_kernel_launchers",
    "TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category": "df_kernel_launchers",
    "TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category_module": "df_kernel_launchers",
    "TreePerfAnalyzer.get_df_kernel_launchers_summary_module": "df_kernel_launchers",
    "TreePerfAnalyzer.get_df_kernel_launchers_summary_by_shape": "df_kernel_launchers name",
    "TreePerfAnalyzer.get_df_kernel_launchers_unique_args": (
        "df_kernel_launchers event_name agg_metrics include_pct group_by_num_kernels group_by_parent_module "
        "include_overlapping_kernels"
    ),
    "TreePerfAnalyzer.get_df_kernels": "self launcher_detail cpu_op_detail nn_module_detail",
    "TreePerfAnalyzer.build_df_perf_metrics": (
        "self events bwd non_data_mov include_kernel_details include_args dict_name_to_perf_model args_cols"
    ),
    "TreePerfAnalyzer.summarize_df_perf_metrics": (
        "df_perf_metrics agg_metrics group_by_num_kernels include_overlapping_kernels"
    ),
    "TreePerfAnalyzer.build_df_unified_perf_table": (
        "self events include_args include_perf_metrics include_kernel_details include_nccl"
    ),
    "TreePerfAnalyzer.summarize_df_unified_perf_table": (
        "df_unified_perf agg_metrics include_pct group_by_num_kernels include_call_stack include_overlapping_kernels tree"
    ),
    "JaxTreePerfAnalyzer.get_df_gpu_events_averages": "self gpu_pid",
    "generate_perf_report_pytorch": (
        "profile_json_path output_xlsx_path output_csvs_dir include_unlinked_kernels enable_pseudo_ops "
        "micro_idle_thresh_us collective_analysis include_overlap_info include_first_occurrence_time kernel_summary "
        "short_kernel_study short_kernel_threshold_us short_kernel_histogram_bins topk_short_kernels topk_ops "
        "topk_roofline_ops comparison_json_path extension_file python_path gpu_arch_json_path gpu_arch_platform gpu_arch "
        "inductor_cache_dir group_by_num_kernels enable_origami detect_recompute include_call_stack"
    ),
    "generate_perf_report_jax": (
        "profile_path output_xlsx_path output_csvs_dir kernel_metadata_keyword_filters gpu_arch_json_path "
        "gpu_arch_platform gpu_arch enable_origami"
    ),
    "get_dfs_short_kernels": "perf_analyzer short_kernel_threshold_us histogram_bins topk",
    "add_truncated_kernel_details": "df source_col new_col_name trunc_length",
    "build_sheet_category_to_op_names": "op_to_perf_model_class_map",
}


def parameters(owner: Any, name: str) -> list[str]:
    for part in name.split("."):
        owner = getattr(owner, part)
    return list(inspect.signature(owner).parameters)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_begin_with_the_parameters_of_tracelens(name: str) -> None:
    expected = SIGNATURES[name].split()
    ours = parameters(compat, name)
    assert ours[: len(expected)] == expected


def test_the_listed_signatures_are_those_of_tracelens_where_it_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ.get("WARPLENS_PEERS", "")) / "TraceLens"
    if "WARPLENS_PEERS" not in os.environ or not folder.is_dir():
        pytest.skip("no checkout of TraceLens: WARPLENS_PEERS is not set")
    monkeypatch.syspath_prepend(str(folder))
    pytest.importorskip("tqdm")
    tracelens = importlib.import_module("TraceLens")
    homes = {
        "generate_perf_report_pytorch": "TraceLens.Reporting.generate_perf_report_pytorch",
        "get_dfs_short_kernels": "TraceLens.Reporting.generate_perf_report_pytorch",
        "add_truncated_kernel_details": "TraceLens.Reporting.generate_perf_report_pytorch",
        "generate_perf_report_jax": "TraceLens.Reporting.generate_perf_report_jax",
        "build_sheet_category_to_op_names": "TraceLens.PerfModel.torch_op_mapping",
    }
    for name, expected in SIGNATURES.items():
        owner = importlib.import_module(homes[name]) if name in homes else tracelens
        assert parameters(owner, name) == expected.split(), name


# --- JAX


def test_a_jax_profile_has_a_row_per_kernel_and_sums_per_gpu(tmp_path: Path) -> None:
    profile = ROOT / "samples" / "jax" / "transformer_step.xplane.pb.gz"
    sheets = compat.generate_perf_report_jax(str(profile), output_csvs_dir=str(tmp_path))
    assert list(sheets) == [
        "gpu_timeline", "gpu_events_averages", "kernel_launchers", "kernel_launchers_summary",
        "kernel_launchers_summary_by_category", "kernel_launchers_unique_args", "xla_summary",
    ]  # fmt: skip
    kernels = sheets["kernel_launchers"]
    summed = sheets["kernel_launchers_summary_by_category"]
    assert summed["total_direct_kernel_time_ms"].sum() == pytest.approx(
        kernels["total_direct_kernel_time"].sum() / 1000
    )
    assert sheets["gpu_timeline"]["gpu_pid"].unique().tolist() == [1]
    split = compat.JaxTreePerfAnalyzer(profile, use_kernel_name_categories=True).get_df_kernel_launchers_summary()
    assert {"GEMM", "Layout Transform"} < set(split["kernel_category"])
    analyzer = compat.JaxTreePerfAnalyzer.from_file(
        profile_filepath=profile, kernel_metadata_keyword_filters=["dot_general"]
    )
    some = analyzer.get_df_kernel_launchers(gpu_kernel_op_cats=["GEMM"])
    assert 0 < len(some) < len(kernels)
    assert set(some["op category"]) == {"GEMM"}
    with pytest.raises(warplens.UsageError, match="build_df_perf_metrics is not in this interface"):
        analyzer.build_df_perf_metrics([])


def test_importing_the_interface_needs_no_pandas() -> None:
    assert "warplens.compat" in sys.modules
    source = "".join(path.read_text() for path in Path(compat.__file__).parent.glob("*.py"))
    assert source.count("import pandas") == 1  # where a frame is handed out
