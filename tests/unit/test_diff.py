"""Two traces compared: matching, per-step means, noise, the verdict, the tree, and directories of reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import warplens
from support import annotation, frame, kernel, launch, op, write_trace
from warplens.advice.comparison import NEEDED, comparison_verdict
from warplens.analyses.diff.match import blanked, first_inputs, plain_name
from warplens.analyses.diff.noise import noise_us
from warplens.analyses.diff.report_tables import diff_of_tables
from warplens.model.trace import empty_trace
from warplens.profiles.comparison import DIFF_TABLE_NAMES, Comparison

GEMM_A = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
GEMM_B = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 11, false, false>()"
FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(flash::Flash_fwd_params)"
STEP_US = 1000.0


class Run:
    """A made training run: the same calls every step, each an op (with outer ops) that launches one kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, 0

    def __call__(
        self,
        *calls: dict[str, Any],
        steps: int = 3,
        marked: bool = True,
        gap: float = 10.0,
        jitter: tuple[float, ...] = (),
    ) -> warplens.Profile:
        events: list[dict[str, Any]] = []
        correlation = 0
        for number in range(steps):
            at = number * STEP_US
            if marked:
                events.append(annotation(f"ProfilerStep#{number}", at, STEP_US - 1))
            host, gpu = at + 1, at + 20
            for call in calls:
                correlation += 1
                long = call["us"] + (jitter[number] if jitter else 0.0)
                names = [*call.get("outer", []), (call["op"], call.get("dims"))]
                for depth, (name, dims) in enumerate(names):
                    args = {} if dims is None else {"Input Dims": dims, "Input type": ["float"] * len(dims)}
                    events.append(op(name, host + depth * 0.1, 8 - 0.2 * depth, **args))
                if "module" in call:
                    events.append(frame(f"nn.Module: {call['module']}", host - 0.1, 9))
                events.append(launch(host + 2, 1, correlation))
                events.append(kernel(call["kernel"], gpu, long, correlation))
                host, gpu = host + 10, gpu + long + gap
        self.files += 1
        return warplens.open(write_trace(self.folder / f"run{self.files}.json", events), cache=False)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def call(name: str, kernel_name: str, us: float, dims: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": name, "kernel": kernel_name, "us": us, "dims": dims, **more}


def rows(comparison: Comparison, table: str) -> list[dict[str, Any]]:
    return comparison.table(table).to_dicts()


def by(comparison: Comparison, table: str, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in rows(comparison, table)}


def test_times_are_means_over_the_steps_and_the_parts_add_up(run: Run) -> None:
    a = run(call("aten::mm", GEMM_A, 100, [[8, 8]]), call("aten::add", ADD, 50, [[8]]), steps=3)
    b = run(call("aten::mm", GEMM_B, 40, [[8, 8]]), call("aten::add", ADD, 50, [[8]]), steps=2)
    comparison = warplens.diff(a, b)
    basis = "times are per step: means over 2 (A) and 2 (B) steps, without the last step of A: no further step marks its end"
    assert comparison.table("diff_ops").notes[0] == basis
    ops = by(comparison, "diff_ops", "op")
    assert (ops["aten::mm"]["a_us"], ops["aten::mm"]["b_us"], ops["aten::mm"]["delta_us"]) == (100, 40, -60)
    assert ops["aten::mm"]["ratio"] == pytest.approx(0.4)
    assert ops["aten::mm"]["percent_of_change"] == pytest.approx(100)
    assert (ops["aten::mm"]["a_count"], ops["aten::mm"]["b_count"]) == (1, 1)
    assert ops["aten::mm"]["a_kernels"] != ops["aten::mm"]["b_kernels"]
    summary = comparison.table("diff_summary").frame
    assert summary["kind"][0] == "total"
    for column in ("a_us", "b_us", "delta_us"):
        assert summary[column][0] == pytest.approx(summary[column][1:].sum())


@pytest.mark.parametrize("table", ["diff_ops", "diff_kernels", "diff_categories", "diff_modules", "diff_layers"])
def test_no_time_is_lost_or_counted_twice(run: Run, table: str) -> None:
    a = run(call("aten::mm", GEMM_A, 100, [[8, 8]]), call("aten::add", ADD, 50, [[8]]), call("aten::mul", ADD, 7))
    b = run(call("aten::mm", GEMM_B, 40, [[8, 9]]), call("aten::sub", ADD, 30, [[8]]), call("aten::mul", ADD, 7))
    found = warplens.diff(a, b).table(table).frame
    assert (found["a_us"].sum(), found["b_us"].sum()) == pytest.approx((157, 77))


def test_whole_traces_are_compared_where_one_has_no_steps_or_it_is_asked_for(run: Run) -> None:
    a, b = run(call("aten::mm", GEMM_A, 100), steps=3), run(call("aten::mm", GEMM_A, 100), steps=1, marked=False)
    comparison = warplens.diff(a, b)
    assert "whole traces, because B has no steps" in comparison.table("diff_ops").notes[0]
    assert rows(comparison, "diff_ops")[0]["a_us"] == 300
    assert rows(comparison, "diff_ops")[0]["within_noise"] is None
    assert rows(warplens.diff(a, a, whole=True), "diff_ops")[0]["a_us"] == 300


MATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # level: (call in A, call in B, op of the row, its shapes)
    "op and shapes": (
        call("aten::mm", GEMM_A, 10, [[8, 8], [8, 4]]),
        call("aten::mm", GEMM_B, 5, [[8, 8], [8, 4], [8, 4]]),  # compiled code hands the result in
        "aten::mm",
        "[[8, 8], [8, 4]]",
    ),
    "outer op and shapes": (
        call("aten::_flash_attention_forward", "flash_fwd", 10, [[2, 8]], outer=[("aten::sdpa", [[2, 8, 4]])]),
        call("aten::_cudnn_attention_forward", "cudnn_fwd", 5, [[2, 4]], outer=[("aten::sdpa", [[2, 8, 4]])]),
        "aten::sdpa",
        "[[2, 8, 4]]",
    ),
    "outer op and shapes ": (
        call("aten::miopen_convolution", "miopenSp3AsmConv", 10, [[2, 8], []], outer=[("aten::conv2d", [[2, 8]])]),
        call("aten::cudnn_convolution", "cudnn_conv", 5, [[2, 8], [], []], outer=[("aten::conv2d", [[2, 8]])]),
        "aten::conv2d",
        "[[2, 8]]",
    ),
    "op, one size differs": (
        call("aten::mm", GEMM_A, 10, [[8, 50257], [50257, 4]]),
        call("aten::mm", GEMM_B, 5, [[8, 50304], [50304, 4]]),
        "aten::mm",
        "[[8, 50257], [50257, 4]] → [[8, 50304], [50304, 4]]",
    ),
    "op": (call("aten::mm", GEMM_A, 10, [[8, 9]]), call("aten::mm", GEMM_A, 5, [[3, 7, 1]]), "aten::mm", ""),
}


@pytest.mark.parametrize("level", MATCHES)
def test_ops_match_by_the_strictest_level_that_holds(run: Run, level: str) -> None:
    a, b, name, dims = MATCHES[level]
    (row,) = rows(warplens.diff(run(a), run(b)), "diff_ops")
    assert (row["matched_by"], row["op"], row["input_dims"]) == (level.strip(), name, dims)
    assert (row["a_us"], row["b_us"], row["status"]) == (10, 5, "both")


def test_backward_ops_match_by_their_node_whatever_its_version(run: Run) -> None:
    engine = "autograd::engine::evaluate_function: "
    a = call(
        "aten::_flash_bwd", "bwd_a", 10, [[2]], outer=[(f"{engine}SdpaBackward0", None), ("SdpaBackward0", [[2, 4]])]
    )
    b = call(
        "aten::_cudnn_bwd", "bwd_b", 5, [[3]], outer=[(f"{engine}SdpaBackward1", None), ("SdpaBackward1", [[2, 4]])]
    )
    (row,) = rows(warplens.diff(run(a), run(b)), "diff_ops")
    assert (row["matched_by"], row["op"]) == ("outer op and shapes", "SdpaBackward0 → SdpaBackward1")


def test_another_dtype_of_the_same_shapes_is_the_same_work(run: Run, tmp_path: Path) -> None:
    profiles = []
    for dtype in ("float", "c10::BFloat16"):
        events = [
            op("aten::mm", 0, 10, **{"Input Dims": [[8, 8], [8, 8]], "Input type": [dtype, dtype]}),
            launch(1, 1, 1),
            kernel(GEMM_A, 20, 10, 1),
        ]
        profiles.append(warplens.open(write_trace(tmp_path / f"{len(profiles)}.json", events), cache=False))
    (row,) = rows(warplens.diff(*profiles), "diff_ops")
    assert row["matched_by"] == "op and shapes, other dtype"


def test_what_has_no_counterpart_says_so(run: Run) -> None:
    a = run(call("aten::mm", GEMM_A, 10, [[8, 8]]), call("aten::softmax", "softmax_warp_forward", 90, [[4]]))
    b = run(call("aten::mm", GEMM_A, 10, [[8, 8]]), call("aten::sdpa", "flash_fwd_kernel", 30, [[4]]))
    comparison = warplens.diff(a, b)
    ops = by(comparison, "diff_ops", "op")
    assert (ops["aten::softmax"]["status"], ops["aten::softmax"]["matched_by"]) == ("only in A", "")
    assert (ops["aten::sdpa"]["status"], ops["aten::sdpa"]["ratio"]) == ("only in B", None)
    assert "10 % of A's and 25 % of B's GPU time" in comparison.facts()["matched"]
    assert "are these the same work?" in comparison.verdict()


def test_work_without_ops_matches_by_its_kernels(tmp_path: Path) -> None:
    """An eager run and one that replays a graph have nothing but kernels in common."""
    eager = [op("aten::mm", 0, 10), launch(1, 1, 1), kernel(GEMM_A, 20, 30, 1)]
    graph = [launch(1, 1, 1, name="cudaGraphLaunch"), kernel(GEMM_A, 20, 20, 1), kernel(ADD, 41, 5, 1)]
    a, b = (
        warplens.open(write_trace(tmp_path / name, events), cache=False)
        for name, events in (("a.json", eager), ("b.json", graph))
    )
    comparison = warplens.diff(a, b)
    ops = by(comparison, "diff_ops", "matched_by")
    assert (ops["kernel"]["op"], ops["kernel"]["a_us"], ops["kernel"]["b_us"]) == ("aten::mm → cudaGraphLaunch", 30, 20)
    assert ops[""]["status"] == "only in B"


def test_module_numbers_are_dropped_only_where_paths_do_not_match(run: Run) -> None:
    first = call("aten::mm", GEMM_A, 10, [[8]], module="Linear_0")
    a = run(first, call("aten::add", ADD, 20, [[8]], module="Block_3"))
    b = run(first, call("aten::add", ADD, 30, [[8]], module="Block_15"))
    modules = by(warplens.diff(a, b), "diff_modules", "module")
    assert (modules["Linear_0"]["a_us"], modules["Linear_0"]["b_us"]) == (10, 10)
    assert (modules["Block"]["a_us"], modules["Block"]["b_us"]) == (20, 30)


def test_differences_inside_the_spread_of_the_steps_are_noise(run: Run) -> None:
    mm = call("aten::mm", GEMM_A, 100, [[8, 8]])
    shaky, shifted = run(mm, steps=4, jitter=(0, 20, 3, 11)), run(mm, steps=4, jitter=(9, 1, 24, 8))
    (row,) = rows(warplens.diff(shaky, shifted), "diff_ops")
    assert row["within_noise"] is True
    assert abs(row["delta_us"]) <= row["noise_us"]
    steady = run(call("aten::mm", GEMM_A, 160, [[8, 8]]), steps=4, jitter=(0, 20, 3, 11))
    assert rows(warplens.diff(shaky, steady), "diff_ops")[0]["within_noise"] is False


def test_noise_is_unknown_below_two_steps(run: Run) -> None:
    one = run(call("aten::mm", GEMM_A, 100), steps=1)
    comparison = warplens.diff(one, one)
    assert rows(comparison, "diff_ops")[0]["noise_us"] is None
    assert "noise is unknown" in comparison.table("diff_timeline").notes[-1]
    assert comparison.facts()["noise"].startswith("unknown")


def test_noise_follows_welch() -> None:
    """s = 2 over 5 steps on both sides: √(4/5 + 4/5) times Student's 2.31 for 8 degrees of freedom."""
    (found,) = noise_us(np.array([4.0]), np.array([4.0]), 5, 5)
    assert found == pytest.approx(2.31 * np.sqrt(1.6), abs=0.002)
    assert np.isnan(noise_us(np.array([4.0]), np.array([4.0]), 1, 5)).all()
    assert noise_us(np.array([0.0]), np.array([0.0]), 3, 3)[0] == pytest.approx(0.001)


def test_the_verdict_names_ratio_category_and_kernels(run: Run) -> None:
    add = call("aten::add", ADD, 50, [[8]])
    a = run(call("aten::mm", GEMM_A, 600, [[8, 8]]), add, steps=1)
    b = run(call("aten::mm", GEMM_B, 300, [[8, 8]]), add, steps=1)
    old, new = "gemm bf16 128x128 32x5 tn sm80", "gemm bf16 128x128x64 tn sm90 xmma"
    faster = "B is 1.83× faster: 0.66 → 0.36 ms on the GPU, as recorded. 100 % of it from GEMM: "
    assert warplens.diff(a, b, whole=True).verdict() == f"{faster}{old} → {new}."
    back = warplens.diff(b, a, whole=True).verdict()
    assert back.startswith("B is 1.83× slower: 0.36 → 0.66 ms on the GPU, as recorded. 100 % of it from GEMM")


def test_gains_that_idleness_eats_are_told_apart(run: Run) -> None:
    """Steps of 1 ms each, whatever the GPU does in them."""
    a, b = run(call("aten::mm", GEMM_A, 600, [[8, 8]])), run(call("aten::mm", GEMM_B, 300, [[8, 8]]))
    text = warplens.diff(a, b).verdict()
    step = "995.1 µs (954.4 to 999.5)"
    assert text.startswith(f"No difference in step time is shown: {step} → {step} per unprofiled step (estimated")
    assert "But B's GPU work is 2.00× faster: 0.60 → 0.30 ms per step. 100 % of it from GEMM: " in text


def test_rows_and_verdict_are_of_the_same_steps(run: Run) -> None:
    """The last step, which no next one ends, does three times the work: neither the total nor any row has it."""
    a = run(call("aten::mm", GEMM_A, 100, [[8, 8]]), steps=4)
    b = run(call("aten::mm", GEMM_A, 100, [[8, 8]]), steps=4, jitter=(0, 0, 0, 200))
    comparison = warplens.diff(a, b)
    assert comparison.verdict().startswith("No difference: 995.6 µs (954.9 to 1,000.0) → 995.6 µs")
    for table in ("diff_summary", "diff_categories", "diff_ops", "diff_kernels", "diff_idle", "diff_timeline"):
        assert comparison.table(table).frame["delta_us"].to_list() == pytest.approx(
            [0.0] * len(comparison.table(table))
        )


def side_by_side(path: Path, second: tuple[float, int]) -> warplens.Profile:
    """Two kernels of 100 µs, the second at this time on this stream."""
    events = [op("aten::mm", 0, 9), launch(1, 1, 1), launch(3, 1, 2), kernel(GEMM_A, 100, 100, 1)]
    start, stream = second
    return warplens.open(write_trace(path, [*events, kernel(GEMM_A, start, 100, 2, stream=stream)]), cache=False)


def test_a_change_of_overlap_is_not_blamed_on_kernels_or_idle_time(tmp_path: Path) -> None:
    a = side_by_side(tmp_path / "a.json", (100, 8))
    b = side_by_side(tmp_path / "b.json", (200, 7))
    text = warplens.diff(a, b).verdict()
    assert text.startswith(
        "B is 1.50× slower (1.44 to 1.57): 198.9 µs (190.7 to 200.0) → 298.9 µs (286.7 to 300.0) per"
    )
    assert "On the GPU, as recorded: 100 → 200 µs. 100 % of it from overlap and step edges: " in text
    assert "idle" not in text


def test_a_layer_is_named_only_if_it_changed_as_the_verdict_says(run: Run) -> None:
    """A product and the idle time shrink, so that B is faster; most of the change of GPU work is a layer's that grew."""
    first, second = {"module": "First_0"}, {"module": "Second_0"}
    before = [call("aten::mm", GEMM_A, 300, [[8, 8]], **first), call("aten::add", ADD, 10, [[8]], **second)]
    after = [call("aten::mm", GEMM_A, 150, [[8, 8]], **first), call("aten::add", ADD, 210, [[8]], **second)]
    a, b = run(*before, steps=1, marked=False, gap=150), run(*after, steps=1, marked=False, gap=1)
    verdict = warplens.diff(a, b).verdict()
    assert verdict.startswith(
        "B is 1.27× faster: 460 → 361 µs on the GPU, as recorded. GPU work +50 µs, idle time −149 µs"
    )
    assert "Second" not in verdict
    assert "%" not in verdict  # no category is a share of a change that went the other way


def recorded_on(path: Path, gpu: str, dtype: str, **header: Any) -> warplens.Profile:
    args = {"Input Dims": [[64, 64], [64, 64]], "Input type": [dtype, dtype], "Input Strides": [[64, 1], [64, 1]]}
    events = [op("aten::mm", 0, 9, **args), launch(1, 1, 1), kernel(GEMM_A, 100, 100, 1)]
    devices = [{"id": 0, "name": gpu, "numSms": 100}]
    return warplens.open(write_trace(path, events, deviceProperties=devices, **header), cache=False)


def test_the_verdict_says_first_what_of_the_setup_differs(tmp_path: Path) -> None:
    a = recorded_on(tmp_path / "a.json", "NVIDIA A100", "float", cuda_runtime_version=12080, cuda_driver_version=13000)
    b = recorded_on(
        tmp_path / "b.json", "NVIDIA H200", "c10::BFloat16", cuda_runtime_version=13000, cuda_driver_version=13000
    )
    comparison = warplens.diff(a, b)
    setup = "GPU (NVIDIA A100 → NVIDIA H200), CUDA (12.8 → 13.0) and element type of the work (fp32 → bf16)"
    assert comparison.verdict().startswith(f"Not the same setup: {setup}. No difference: 198.9 µs (190.7 to 200.0) → ")
    assert next(iter(comparison.facts())) == "verdict"


def test_what_only_one_side_records_is_not_a_difference_of_setup(tmp_path: Path) -> None:
    a = recorded_on(tmp_path / "a.json", "NVIDIA H200", "float", cuda_runtime_version=12080)
    b = recorded_on(tmp_path / "b.json", "NVIDIA H200", "float")
    assert warplens.diff(a, b).verdict().startswith("No difference: ")


def test_versions_of_packages_differ_where_bundles_have_them(tmp_path: Path) -> None:
    a, b = (recorded_on(tmp_path / f"{name}.json", "NVIDIA H200", "float") for name in "ab")
    for profile, version in ((a, "2.7.1"), (b, "2.9.0")):
        profile.trace.meta.facts["torch"] = version
    assert warplens.diff(a, b).verdict().startswith("Not the same setup: torch (2.7.1 → 2.9.0). ")


def test_ops_match_whatever_overload_of_them_ran(run: Run) -> None:
    """Compiled code calls `aten::mm.out` where eager code calls `aten::mm`."""
    a, b = run(call("aten::mm", GEMM_A, 600, [[8, 8]])), run(call("aten::mm.out", GEMM_A, 300, [[8, 8]]))
    (row,) = rows(warplens.diff(a, b), "diff_ops")
    assert (row["op"], row["matched_by"]) == ("aten::mm", "op and shapes")


def test_attention_that_is_fused_on_one_side_only_is_named(run: Run) -> None:
    a = run(call("aten::_softmax", SOFTMAX, 300, [[4, 8, 64, 64]]))
    b = run(call("aten::_flash_attention_forward", FLASH, 50, [[4, 64, 8, 64]]))
    assert (
        "Attention is fused in B (Flash Attention Forward), in parts with a Softmax in A."
        in warplens.diff(a, b).verdict()
    )
    assert (
        "Attention is fused in A (Flash Attention Forward), in parts with a Softmax in B."
        in warplens.diff(b, a).verdict()
    )
    assert "Attention is fused" not in warplens.diff(a, a).verdict()


def test_gains_that_idleness_eats_show_as_more_idle_time(run: Run) -> None:
    a, b = run(call("aten::mm", GEMM_A, 600, [[8, 8]])), run(call("aten::mm", GEMM_B, 300, [[8, 8]]))
    whole = warplens.diff(a, b, whole=True).verdict()
    assert "GPU work −0.90 ms, idle time +0.60 ms (host busy" in whole
    assert "100 % of the change in GPU work from GEMM" in whole


def test_the_verdict_blames_idleness(tmp_path: Path) -> None:
    """The same kernels, once 5 ms apart and once back to back."""
    profiles = []
    for number, pause in enumerate((5000.0, 10.0)):
        events = []
        for index in range(6):
            at = index * (pause + 100)
            events += [op("aten::mm", at, 5), launch(at + 1, 1, index + 1), kernel(GEMM_A, at + 10, 100, index + 1)]
        profiles.append(warplens.open(write_trace(tmp_path / f"{number}.json", events), cache=False))
    text = warplens.diff(*profiles).verdict()
    assert text.startswith("B is 39.67× faster (37.86 to 41.53): 25.6 ms (24.6 to 25.6) → 645.1 µs")
    assert "% of it from idle time −24.95 ms (host busy" in text
    back = warplens.diff(*reversed(profiles)).verdict()
    assert "slower" in back
    assert "idle time +24.95 ms" in back


@pytest.mark.parametrize(("gap", "part"), [(10.0, "GEMM"), (300.0, "dependency")])
def test_the_verdict_names_no_part_that_the_table_marks_as_uncertain(run: Run, gap: float, part: str) -> None:
    a, b = (run(*[call("aten::mm", GEMM_A, us, [[8, 8]])] * 2, marked=False, gap=wait) for us, wait in
            ((100, 10.0), (100 if gap > 10 else 200, gap)))  # fmt: skip
    comparison = warplens.diff(a, b)
    tables = {name: comparison.table(name) for name in NEEDED}
    assert part in comparison_verdict(tables, (100.0, 100.0), per_step=False, runs=None).text
    summary = tables["diff_summary"]
    uncertain = summary.frame.with_columns((pl.col("part") == part).alias("within_noise"))
    tables["diff_summary"] = replace(summary, frame=uncertain)
    assert part not in comparison_verdict(tables, (100.0, 100.0), per_step=False, runs=None).text


def test_the_same_profile_twice_is_no_difference(run: Run) -> None:
    profile = run(call("aten::mm", GEMM_A, 100, [[8, 8]]))
    comparison = warplens.diff(profile, profile)
    assert comparison.verdict().startswith("No difference")
    assert comparison.table("diff_ops").frame["delta_us"].to_list() == [0.0]
    assert comparison.table("diff_ops").frame["percent_of_change"].to_list() == [None]


def test_traces_without_events_have_every_table_and_a_verdict() -> None:
    empty = warplens.Profile(empty_trace())
    comparison = warplens.diff(empty, empty)
    assert comparison.verdict() == "Neither trace has GPU work."
    assert [table.name for table in comparison.tables()] == list(DIFF_TABLE_NAMES)


def test_one_sided_gpu_work_is_said(run: Run) -> None:
    empty = warplens.Profile(empty_trace())
    full = run(call("aten::mm", GEMM_A, 100))
    assert warplens.diff(empty, full).verdict().startswith("Only B has GPU work")
    assert warplens.diff(full, empty).verdict().startswith("Only A has GPU work")


def test_the_tree_keeps_totals_and_pairs_kernels_that_replace_each_other(run: Run) -> None:
    a, b = run(call("aten::mm", GEMM_A, 100, [[8, 8]])), run(call("aten::mm", GEMM_B, 40, [[8, 8]]))
    tree = warplens.diff(a, b).diff_tree("op")
    assert tree.frame["name"].to_list()[:2] == ["all", "aten::mm"]
    leaf = tree.to_dicts()[2]
    assert " → " in leaf["name"]
    assert (leaf["a_us"], leaf["b_us"], leaf["delta_us"], leaf["status"]) == (100, 40, -60, "both")
    for row in tree.to_dicts():
        below = tree.frame.filter(pl.col("parent") == row["node"])
        assert not len(below) or below["a_us"].sum() == pytest.approx(row["a_us"])
    with pytest.raises(warplens.UsageError):
        warplens.diff(a, b).tree("line")


def test_steps_are_compared_in_their_order(run: Run) -> None:
    mm = call("aten::mm", GEMM_A, 100)
    found = rows(warplens.diff(run(mm, steps=3), run(mm, steps=2)), "diff_steps")
    assert [row["status"] for row in found] == ["both", "both", "only in A"]
    assert [row["b_step"] for row in found] == [0, 1, None]


def test_tables_are_joined_on_what_names_their_rows() -> None:
    a = pl.DataFrame({"op": ["mm", "add"], "kernels": ["x", "y"], "count": [1, 2], "total_us": [10.0, 1.0]})
    b = pl.DataFrame({"op": ["mm", "mul"], "kernels": ["z", "y"], "count": [1, 4], "total_us": [4.0, 3.0]})
    found = diff_of_tables("ops", a, b)
    assert found.frame.columns[:2] == ["op", "status"]
    assert found.to_dicts()[0] == {
        "op": "mm", "status": "both", "a_total_us": 10.0, "b_total_us": 4.0, "delta_total_us": -6.0,
        "a_count": 1, "b_count": 1, "delta_count": 0,
    }  # fmt: skip
    assert {row["op"]: row["status"] for row in found.to_dicts()} == {
        "mm": "both", "add": "only in A", "mul": "only in B",
    }  # fmt: skip


def test_equal_names_are_paired_in_their_order() -> None:
    a = pl.DataFrame({"cause": ["x", "x"], "gap_us": [1.0, 2.0]})
    b = pl.DataFrame({"cause": ["x"], "gap_us": [5.0]})
    found = diff_of_tables("gaps", a, b)
    assert sorted(found.frame["delta_gap_us"].to_list()) == [-2.0, 4.0]


def test_a_job_and_a_trace_are_not_compared(run: Run, tmp_path: Path) -> None:
    trace = run(call("aten::mm", GEMM_A, 100)).trace.meta.source
    with pytest.raises(warplens.UsageError, match="contains the ranks of a job"):
        warplens.diff(tmp_path, trace)
    (tmp_path / "empty").mkdir()
    with pytest.raises(warplens.UsageError, match="is empty"):
        warplens.diff(tmp_path / "empty", tmp_path / "empty")


def test_small_texts() -> None:
    assert plain_name("autograd::engine::evaluate_function: AddmmBackward0") == "AddmmBackward"
    assert plain_name("triton_poi_fused_add_3") == "triton_poi_fused_add"
    assert plain_name("aten::conv2d") == "aten::conv2d"
    assert first_inputs("not a list", 2) == "not a list"
    assert blanked("[[1, 1]]") == []
