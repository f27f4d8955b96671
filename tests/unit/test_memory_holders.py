"""Who holds memory where names and whole histories are missing: what calls, C++ frames and sizes say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from memory_snapshots import (
    BACKWARD,
    CALL,
    FORWARD,
    MAIN,
    MB,
    MODEL,
    OPTIMIZER,
    TORCH,
    TRAIN,
    Allocator,
    Frame,
    frame,
    snapshot,
    train,
    written,
)  # fmt: skip
from warplens.analyses.memory.labels import Labels, StackLabel

SITE = "/opt/venv/lib/python3.12/site-packages"
APPLY = frame(f"{TORCH}/autograd/function.py", 575, "apply")
THREAD = [frame("thread48.o", 0, "execute_native_thread_routine"), frame("??", 0, "clone")]


def label(*stack: Frame) -> StackLabel:
    rows = tuple((each["filename"], each["line"], each["name"]) for each in stack)
    return Labels([list(range(len(rows)))], rows).of(0)


def by_category(gpu: Allocator, folder: Path, **how: Any) -> dict[str, int]:
    """Bytes at the peak."""
    profile = warplens.open(written(folder / "s.pickle", snapshot(gpu, **how)))
    frame = profile.table("memory_peak").frame
    return dict(frame.group_by("category").agg(pl.col("bytes").sum()).iter_rows())


def test_the_forward_pass_of_a_users_function_is_not_its_backward_pass() -> None:
    own = frame(MODEL, 7, "forward")
    assert label(own, APPLY, frame(MODEL, 30, "forward"), CALL, MAIN).label == "forward"
    assert label(frame(MODEL, 9, "backward"), APPLY, MAIN).label == "backward"
    assert label(frame(f"{SITE}/kernels/scan.py", 40, "launch"), APPLY, *THREAD).label == "backward"


def test_the_line_is_the_users_inside_of_the_module_that_runs() -> None:
    einsum = frame(f"{SITE}/einops/_backends.py", 288, "einsum")
    assert label(einsum, frame(MODEL, 39, "forward"), CALL, MAIN).line == f"{MODEL}:39 forward"
    library = frame(f"{SITE}/transformers/models/llama/modeling_llama.py", 216, "forward")
    assert (
        label(library, CALL, frame(TRAIN, 4, "step")).line == "transformers/models/llama/modeling_llama.py:216 forward"
    )


def test_frames_of_c_plus_plus_are_no_lines_and_name_the_op() -> None:
    node = frame("??", 0, "torch::autograd::generated::DivBackward0::apply(std::vector<at::Tensor>&&)")
    div = frame("??", 0, "at::_ops::div_Tensor::call(at::Tensor const&, at::Tensor const&)")
    engine = BACKWARD[0]
    assert label(div, node, engine, *THREAD) == StackLabel("backward", is_marked=True, op="DivBackward0")
    outer = frame("??", 0, "at::_ops::batch_norm::call(at::Tensor const&)")
    assert label(div, outer, frame(MODEL, 3, "forward"), CALL).op == "aten::batch_norm"


def test_a_handles_workspace_is_known_by_its_function() -> None:
    make = frame("", 0, "at::cuda::getNewWorkspace()")
    assert label(make, frame("??", 0, "at::cuda::getCurrentCUDABlasHandle()"), MAIN).label == "workspace"


def test_what_has_no_line_keeps_none_where_a_files_name_is_empty(tmp_path: Path) -> None:
    """The name ends in a slash, so that without its folders nothing is left of it."""
    gpu = Allocator()
    gpu.alloc(4 * MB, [frame("weird/", 3, "fn"), MAIN])
    gpu.alloc(2 * MB, THREAD)
    profile = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu)))
    lines = dict(profile.table("allocations").frame.select("live_at_end_bytes", "line").iter_rows())
    assert lines == {4 * MB: "weird/:3 fn", 2 * MB: ""}


@pytest.mark.parametrize("count", [1, 5])
def test_matrices_of_a_workspaces_size_are_no_workspaces(count: int, tmp_path: Path) -> None:
    """One that its line alone allocates, and many of them: a model has more matrices than a process has handles."""
    gpu = Allocator()
    for _ in range(count):
        gpu.alloc(32 * MB, [frame(TRAIN, 5, "load"), MAIN])
    if count > 1:
        gpu.free(gpu.alloc(2 * MB, [frame(TRAIN, 5, "load"), MAIN]))
    assert "workspace" not in by_category(gpu, tmp_path)


def test_what_a_first_forward_pass_keeps_is_activations_although_no_backward_pass_is_on_record(tmp_path: Path) -> None:
    gpu = Allocator()
    for _ in range(4):
        gpu.alloc(5 * MB, FORWARD)
    gpu.alloc(3 * MB, [MAIN])
    held = by_category(gpu, tmp_path)
    assert (held["activations"], held["unknown"]) == (20 * MB, 3 * MB)


def test_what_a_module_made_and_backward_does_not_free_is_activations(tmp_path: Path) -> None:
    gpu = train(steps=1)
    gpu.alloc(50 * MB, FORWARD)
    gpu.free(gpu.alloc(2 * MB, BACKWARD), BACKWARD)
    assert by_category(gpu, tmp_path)["activations"] == 50 * MB


@pytest.mark.parametrize(
    ("copies", "optimizer", "states"),
    [(2, "in place", 2), (2, "replaces", 2), (2, "", 2), (1, "in place", 1), (1, "", 0)],
)
def test_parameters_and_states_from_before_the_recording_have_the_sizes_of_the_gradients(
    copies: int, optimizer: str, states: int, tmp_path: Path
) -> None:
    """Two states are Adam's; a single copy may be anything where no step of an optimizer is on record."""
    gpu = Allocator()
    gpu.is_recording = False
    sizes = [4 * MB + 512 * index for index in range(4)]
    before = [gpu.alloc(size, []) for _ in range(1 + copies) for size in sizes]
    gpu.alloc(9 * MB, [])
    gpu.is_recording = True
    activations = [gpu.alloc(6 * MB, FORWARD) for _ in sizes]
    for size in sizes:
        gpu.alloc(size, BACKWARD)
    for activation in activations:
        gpu.free(activation, BACKWARD)
    for state, size in zip(before[4:], sizes, strict=False):
        gpu.free(gpu.alloc(3 * MB, FORWARD))  # the next pass: the gradients outlive theirs
        if optimizer:
            new = gpu.alloc(size, OPTIMIZER)
            gpu.free(state if optimizer == "replaces" else new, OPTIMIZER)
    held = by_category(gpu, tmp_path)
    assert held["parameters"] == sum(sizes)
    assert held.get("optimizer state", 0) == states * sum(sizes)
    assert held["held before"] == (copies - states) * sum(sizes) + 9 * MB


def test_gradients_of_a_backward_pass_that_has_not_ended_have_the_sizes_of_parameters(tmp_path: Path) -> None:
    gpu = train(steps=1)
    gpu.free(gpu.alloc(2 * MB, FORWARD))
    gradient = gpu.alloc(4 * MB, BACKWARD)
    gpu.alloc(30 * MB, BACKWARD)
    assert gradient
    held = by_category(gpu, tmp_path)
    assert (held["gradients"], held["temporary"]) == (4 * MB, 30 * MB)


def test_a_history_of_one_event_has_no_other_peak_than_the_end(tmp_path: Path) -> None:
    """PyTorch 2.0 kept one event unless asked for more: the completion of a free, whose request is lost."""
    gpu = Allocator()
    gpu.alloc(4 * MB, FORWARD)
    gpu.free(gpu.alloc(8 * MB, FORWARD))
    profile = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu, most_events=1)))
    assert profile.table("memory_timeline").frame["allocated_bytes"].to_list() == [4 * MB]


def test_stacks_of_blocks_tell_what_they_are_for_where_no_history_was_recorded(tmp_path: Path) -> None:
    """`_record_memory_history("state")`."""
    gpu = train(steps=1)
    gpu.alloc(24 * MB, FORWARD)
    gpu.alloc(60 * MB, [MAIN])
    document = snapshot(gpu) | {"device_traces": [[]]}
    profile = warplens.open(written(tmp_path / "s.pickle", document))
    frame = profile.table("memory_peak").frame
    held = dict(frame.group_by("category").agg(pl.col("bytes").sum()).iter_rows())
    assert (held["activations"], held["held before"]) == (24 * MB, 60 * MB)
    assert held["parameters"] == 16 * MB + 6 * 512
    assert held["optimizer state"] == 2 * held["parameters"]


def test_a_temporary_of_a_backward_node_without_a_line_is_no_finding(tmp_path: Path) -> None:
    """Nobody can change it where it is made."""
    node = frame("??", 0, "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)")
    gpu = train(steps=1)
    gpu.free(gpu.alloc(200 * MB, [node, *BACKWARD]), BACKWARD)
    profile = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu)))
    assert profile.table("memory_peak").frame["op"][0] == "BmmBackward0"
    assert "WL506" not in {finding.code for finding in profile.findings()}
