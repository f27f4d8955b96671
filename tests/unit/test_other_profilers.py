"""What is said of profiles that PyTorch's profiler did not record: no advice that they cannot follow, no empty talk."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import warplens
from support import ROOT, SHARED
from warplens.analyses.work.launches import ROOM
from warplens.hardware import all_gpus
from warplens.model.user_code import INFRASTRUCTURE
from warplens.outputs import render_table
from warplens.outputs.summary import render_summary
from warplens.profiles.call_paths import PathsProfile

SAMPLES = ROOT / "samples"
JAX = SAMPLES / "jax" / "transformer_step.xplane.pb.gz"
PROTON = SAMPLES / "proton"
TRACES = [JAX, PROTON / "trace.chrome_trace.gz", PROTON / "intra.chrome_trace.gz"]
ROCM = SHARED / "traces" / "public"
TRACES += [path for path in (ROCM / "mi300_jax_conv.xplane.pb", ROCM / "rocprofv3_results.json.gz") if path.exists()]
NO_TIMES = [PROTON / "instrumented.hatchet.gz", PROTON / "scopes_3.9.hatchet.gz"]
NO_TIMES += [SAMPLES / "ncu" / "kernels_lines.csv.gz"]
FOR_PYTORCH = ("with_stack", "record_shapes", "profile_memory", "prof.step()", "--execution-trace", "torch")


def opened(path: Path) -> warplens.Profile:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    return profile


def summary(path: Path, width: int = 100) -> str:
    profile = warplens.open(path, cache=False)
    return str(render_summary(profile.document(), width=width))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_no_note_asks_for_an_option_of_pytorchs_profiler(path: Path) -> None:
    for table in opened(path).tables():
        told = [*table.notes, *(table.frame["message"] if table.name == "quality" else [])]
        told += table.frame["meaning"].to_list() if table.name == "cost_coverage" else []
        # The source of measured ceilings is a script's name.
        told = [text for text in told if not text.startswith("ceilings of ")]
        assert not [text for text in told for word in FOR_PYTORCH if word in text], table.name


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (PROTON / "trace.chrome_trace.gz", "no Python callers: no line table (record with proton.start(context="),
        (SAMPLES / "kineto" / "resnet50_train.json.gz", "no Python stacks: no module or line tables (record with"),
    ],
    ids=["proton", "kineto"],
)
def test_tables_of_lines_repeat_the_note_of_the_trace(path: Path, told: str) -> None:
    profile = opened(path)
    for name in ("modules", "python_lines"):
        (note,) = profile.table(name).notes
        assert note.startswith(told)


def test_modules_of_jax_are_not_missing_for_want_of_stacks() -> None:
    profile = opened(JAX)
    assert profile.table("modules").notes == ("no nn.Module calls in this trace",)
    assert profile.table("python_lines").notes == ()


def test_ops_inside_command_buffers_are_no_graph_launches() -> None:
    """JAX's profile names the op of each of their kernels."""
    profile = opened(JAX)
    assert not profile.table("launch_categories").frame["is_graph"].any()
    assert "graph" not in profile.verdict()
    assert "WL102" not in {finding.code for finding in warplens.open(JAX, cache=False, min_gain_percent=0).findings()}
    coverage = {row["reason"]: row for row in profile.table("cost_coverage").to_dicts()}
    assert set(coverage) == {"costed", "no shapes"}
    assert coverage["no shapes"]["meaning"] == "the shapes of the op's inputs are not recorded"


def test_kernels_inside_command_buffers_wait_for_no_launch_of_their_own() -> None:
    profile = opened(JAX)
    short = profile.table("short_kernels").frame
    assert short["graph_count"].to_list() == short["count"].to_list()


def test_waves_are_known_where_the_gpu_is_named_but_not_described() -> None:
    """An H200 holds 65,536 registers a multiprocessor: 3 blocks of 256 threads with 76 (80) registers each."""
    row = opened(JAX).table("launches").frame.filter(pl.col("kernel_short") == "fusion_234").row(0, named=True)
    assert (row["blocks"], row["registers"], row["blocks_per_multiprocessor"]) == (2048, 76, 3)
    assert row["limited_by"] == "registers"
    assert row["waves"] == pytest.approx(2048 / (3 * 132))


def test_every_nvidia_gpu_of_the_table_has_a_room_for_blocks_that_agrees() -> None:
    nvidia = [gpu for gpu in all_gpus() if gpu.architecture.startswith("sm_") and gpu.architecture in ROOM]
    assert nvidia
    for gpu in nvidia:
        assert ROOM[gpu.architecture][0] == gpu.max_threads_per_multiprocessor, gpu.name


def test_empty_rooflines_say_where_the_reason_is() -> None:
    profile = opened(PROTON / "trace.chrome_trace.gz")
    assert any("cost_coverage" in note for note in profile.table("gemm").notes)
    assert not any("cost_coverage" in note for note in profile.table("ceilings").notes)


@pytest.mark.parametrize("path", NO_TIMES, ids=lambda path: path.name)
def test_a_profile_without_times_has_no_tables_of_kernels(path: Path) -> None:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, PathsProfile)
    for name in ("kernel_categories", "kernels", "launch_categories", "python_lines"):
        assert len(profile.table(name)) == 0
    assert profile.verdict().startswith("No GPU time in this profile; it has ")
    assert "GPU time by kernel category" not in summary(path)


def test_the_summary_without_times_counts_calls() -> None:
    lines = summary(SAMPLES / "ncu" / "kernels_lines.csv.gz").splitlines()
    head = lines.index("  share     calls  most called")
    assert lines[head + 1 : head + 3] == ["  33.3%         1  attention_kernel", "  33.3%         1  matmul_kernel"]


def test_the_summary_of_instrumented_kernels_has_their_cycles() -> None:
    lines = summary(PROTON / "instrumented.hatchet.gz").splitlines()
    head = lines.index("cycles  with all that is below")
    assert lines[head + 1 : head + 4] == ["23,184  bar", "23,184  whole", " 2,503  load"]


def test_a_gpu_that_the_file_does_not_name_is_told_by_its_figures() -> None:
    assert summary(PROTON / "tree_shadow.hatchet.gz").splitlines()[0].split(" · ")[1] == "NVIDIA H200"
    # Nsight Compute's details page has no more than the architecture.
    assert "GPU with compute 9.0" in summary(SAMPLES / "ncu" / "ncu_details.csv.gz")


def test_a_verdict_names_the_kernel_rather_than_no_category() -> None:
    found = warplens.open(PROTON / "cuda_graph.hatchet.gz", cache=False)
    assert found.verdict() == "foo takes 99 % of the GPU time (measured); the profile has no timeline."


def test_only_proton_is_asked_for_python_frames_and_samples() -> None:
    counters, tree = (
        warplens.open(path, cache=False)
        for path in (SAMPLES / "ncu" / "ops_raw.csv.gz", PROTON / "cuda_graph.hatchet.gz")
    )
    codes = [set(profile.table("quality").frame["code"]) for profile in (counters, tree)]
    assert ["no_frames" in each for each in codes] == [False, True]
    assert "counter_stalls" in counters.table("stalls").notes[0]
    assert "pcsampling" in tree.table("stalls").notes[0]


def test_the_summary_names_no_op_where_none_is_recorded() -> None:
    header = next(line for line in summary(SAMPLES / "ncu" / "ops_raw.csv.gz").splitlines() if "top kernels" in line)
    assert header.split() == ["share", "time", "events", "top", "kernels"]
    header = next(line for line in summary(JAX).splitlines() if "top kernels" in line)
    assert header.endswith("  op")


def test_the_summary_does_not_lead_to_shapes_that_are_not_there() -> None:
    assert "op_shapes" not in summary(JAX)
    assert summary(JAX, width=200).splitlines()[-1].endswith("--context module")


@pytest.mark.parametrize(
    ("frame", "is_own"),
    [
        ("array_methods.py(753): _operator_sub", False),
        ("ufunc_api.py(175): __call__", False),
        ("jax_backend.py(49): step", False),
        ("scopes.py(103): _enter", False),
        ("site-packages/warplens/capture/session.py(165): step", False),  # where it was until 0.1.0
        ("site-packages/warplens_run/capture/session.py(165): step", False),
        ("site-packages/warplens_run/workloads/run.py(25): run_workload", False),
        ("numpy/_core/_methods.py(115): _mean", False),
        ("/usr/lib/python3.12/collections/__init__.py(609): __missing__", False),
        ("numpy_env.py(3): step", True),
        ("logging_utils.py(3): write", True),
        ("scopes.py(8): build", True),
        ("train.py(12): step", True),
    ],
)
def test_frames_of_libraries_and_of_the_recorder_are_not_the_users(frame: str, is_own: bool) -> None:
    assert (INFRASTRUCTURE.match(frame) is None) == is_own


def test_the_summary_of_regions_inside_kernels_has_their_shares() -> None:
    lines = summary(PROTON / "intra.chrome_trace.gz").splitlines()
    head = lines.index("  share     count  region   kernel")
    assert lines[head + 1] == "  75.8%       256  compute  k"


def test_the_summary_of_samples_has_the_lines_that_wait_most_with_their_reasons() -> None:
    text = summary(PROTON / "sampled_lines.hatchet.gz")
    assert "36 % of the waits are on standard.py:170, mostly long_scoreboard" in " ".join(text.split())
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("samples  line"))
    assert lines[first + 1].split() == ["33.7%", "standard.py:170", "long_scoreboard", "86", "%", "softmax"]
    assert lines[first + 3].split()[:3] == ["6.4%", "kernels.py:44", "drain"]


def test_the_summary_of_a_source_page_quotes_the_source() -> None:
    text = summary(SAMPLES / "ncu" / "kernels_lines.csv.gz")
    assert "scores = tl.dot(query, keys) * scale" in text
    assert "show" in text and "counter_instructions" in text


def test_the_summary_of_sums_by_region_has_their_shares() -> None:
    lines = summary(PROTON / "instrumented.hatchet.gz").splitlines()
    shares = [line.split() for line in lines if line.endswith(" bar") and "%" in line]
    assert shares == [["100.0%", "whole", "bar"], ["10.8%", "whole", "/", "load", "bar"]]


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_shows_the_line_the_kernel_and_the_reason_first(width: int) -> None:
    table = warplens.open(PROTON / "sampled_lines.hatchet.gz", cache=False).table("stalls")
    header = str(render_table(table, top=3, width=width)).splitlines()[1].split()
    assert header[:3] == ["line", "file", "kernel_short"] and "top_stall" in header and "percent" in header
