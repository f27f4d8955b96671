"""Linking: from a kernel up to the launch, op, module, annotation and Python frame that caused it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warplens
from support import Opened, annotation, frame, fwdbwd, kernel, launch, op
from warplens import passes
from warplens.model.check import BrokenLawError, self_check

ENGINE = "autograd::engine::evaluate_function: "


def rows_named(trace: warplens.Trace, name: str) -> list[dict[str, Any]]:
    return [row for row in trace.named_events().to_dicts() if row["name"] == name]


def row_named(trace: warplens.Trace, name: str) -> dict[str, Any]:
    (row,) = rows_named(trace, name)
    return row


def name_of(trace: warplens.Trace, row: int) -> str | None:
    return None if row < 0 else str(trace.named_events()["name"][row])


def callers(trace: warplens.Trace, name: str) -> list[str]:
    """Names from the only event of this name up to the outermost."""
    parents, names = trace.events["parent"].to_list(), trace.named_events()["name"].to_list()
    chain, at = [], row_named(trace, name)["id"]
    while at >= 0:
        chain.append(names[at])
        at = parents[at]
    return chain


def launched_by(trace: warplens.Trace, kernel_name: str) -> tuple[int | None, str | None]:
    """Start in µs of a kernel's launch, and the name of its op."""
    row = row_named(trace, kernel_name)
    start = trace.events["start_ns"][row["launch"]] // 1000 if row["launch"] >= 0 else None
    return start, name_of(trace, row["op"])


def notes(trace: warplens.Trace) -> dict[str, tuple[int, str]]:
    return {note.code: (note.count, note.detail) for note in trace.quality.notes}


def test_a_kernel_is_tied_to_its_launch_ops_module_annotation_and_frames(opened: Opened) -> None:
    trace = opened(
        [
            frame("train.py(3): main", 0, 100),
            annotation("epoch", 5, 90),
            frame("nn.Module: Linear_0", 10, 80),
            frame("torch/nn/modules/linear.py(130): forward", 11, 78),
            op("aten::linear", 20, 60),
            op("aten::addmm", 30, 40),
            launch(40, 5, 9),
            kernel("gemm", 60, 30, 9),
        ]
    ).trace
    self_check(trace)
    assert launched_by(trace, "gemm") == (40, "aten::addmm")
    assert callers(trace, "cudaLaunchKernel") == [
        "cudaLaunchKernel",
        "aten::addmm",
        "aten::linear",
        "torch/nn/modules/linear.py(130): forward",
        "nn.Module: Linear_0",
        "epoch",
        "train.py(3): main",
    ]
    assert row_named(trace, "nn.Module: Linear_0")["kind"] == "module"
    assert row_named(trace, "cudaLaunchKernel")["depth"] == 6


def test_the_correlation_id_ties_kernel_and_launch_whatever_the_order_of_running(opened: Opened) -> None:
    events = [op("aten::mm", 0, 10), launch(2, 1, 11), op("aten::add", 10, 10), launch(12, 1, 12)]
    trace = opened([*events, kernel("add", 20, 5, 12, stream=8), kernel("mm", 30, 5, 11)]).trace
    assert launched_by(trace, "mm") == (2, "aten::mm")
    assert launched_by(trace, "add") == (12, "aten::add")


def test_a_driver_call_launches_too(opened: Opened) -> None:
    call = {**launch(2, 1, 11, name="cuLaunchKernelEx"), "cat": "cuda_driver"}
    assert launched_by(opened([op("aten::mm", 0, 10), call, kernel("mm", 30, 5, 11)]).trace, "mm") == (2, "aten::mm")


def test_the_external_id_names_the_op_where_the_launch_is_missing(opened: Opened) -> None:
    events = [op("aten::mm", 0, 10, **{"External id": 4}), op("aten::add", 10, 10, **{"External id": 5})]
    trace = opened(
        [*events, kernel("k", 20, 5, 77, **{"External id": 5}), kernel("lost", 30, 5, 78, **{"External id": 6})]
    ).trace
    assert launched_by(trace, "k") == (None, "aten::add")
    assert launched_by(trace, "lost") == (None, None)
    assert notes(trace)["unlinked_kernels"] == (1, "50.0%")


def test_work_from_before_the_recording_is_of_no_op_though_its_number_is_one(opened: Opened) -> None:
    """ROCm's profiler writes the correlation id as external id where it did not see the launch."""
    early = kernel("early", 5, 5, 4, **{"External id": 4})
    events = [op("aten::resize_", 0, 10, **{"External id": 4}), op("aten::mm", 30, 10, **{"External id": 9})]
    trace = opened([*events, early, launch(32, 1, 11), kernel("k", 40, 5, 11, **{"External id": 9})]).trace
    assert launched_by(trace, "early") == (None, None)
    assert launched_by(trace, "k") == (32, "aten::mm")
    assert notes(trace)["unlinked_kernels"] == (1, "50.0%")


def test_the_launch_decides_where_its_op_and_the_external_id_disagree(opened: Opened) -> None:
    events = [
        op("aten::mm", 0, 10, **{"External id": 4}),
        op("aten::add", 10, 10, **{"External id": 5}),
        launch(12, 1, 3),
    ]
    assert launched_by(opened([*events, kernel("k", 20, 5, 3, **{"External id": 4})]).trace, "k") == (12, "aten::add")


@pytest.mark.parametrize("call", ["cudaGraphLaunch", "hipGraphLaunch"])
def test_kernels_of_a_graph_share_one_launch_which_is_their_op(opened: Opened, call: str) -> None:
    kernels = [
        kernel(name, 20 + 10 * place, 5, 3, stream=stream)
        for place, (name, stream) in enumerate([("a", 7), ("b", 7), ("c", 8)])
    ]
    profile = opened(
        [
            annotation("decode", 0, 30),
            launch(10, 2, 3, name=call),
            op("aten::add", 15, 5),
            launch(16, 1, 4),
            *kernels,
            kernel("d", 60, 5, 4),
        ]
    )
    events = profile.gpu_events()
    assert dict(events.select("kernel", "op").iter_rows()) == {"a": call, "b": call, "c": call, "d": "aten::add"}
    assert dict(events.select("kernel", "in_graph").iter_rows()) == {"a": True, "b": True, "c": True, "d": False}
    assert set(events.filter(events["in_graph"])["launch"]) == {row_named(profile.trace, call)["id"]}
    assert notes(profile.trace)["graph_mode"] == (3, "75.0%")
    assert "no_op_kernels" not in notes(profile.trace)


def test_kernels_without_a_launch_are_kept_and_counted(opened: Opened) -> None:
    profile = opened(
        [
            op("aten::mm", 0, 10),
            launch(2, 1, 1),
            kernel("linked", 10, 30, 1),
            kernel("lost", 50, 10, 2),
            kernel("no id", 70, 10),
        ]
    )
    assert dict(profile.gpu_events().select("kernel", "op").iter_rows()) == {
        "linked": "aten::mm",
        "lost": "(no launch recorded)",
        "no id": "(no launch recorded)",
    }
    assert notes(profile.trace)["unlinked_kernels"] == (2, "40.0%")


def test_correlation_zero_ties_nothing(opened: Opened) -> None:
    assert launched_by(opened([op("aten::mm", 0, 10), launch(2, 1, 0), kernel("k", 10, 30, 0)]).trace, "k") == (
        None,
        None,
    )


def test_of_two_launches_with_one_correlation_the_nearest_earlier_counts(opened: Opened) -> None:
    events = [op("aten::mm", 0, 10), launch(2, 1, 5), op("aten::add", 100, 10), launch(102, 1, 5)]
    trace = opened([*events, kernel("first", 20, 5, 5), kernel("second", 120, 5, 5)]).trace
    assert launched_by(trace, "first") == (2, "aten::mm")
    assert launched_by(trace, "second") == (102, "aten::add")
    assert notes(trace)["duplicate_correlation"][0] == 1


def test_a_launch_outside_any_op_is_its_kernels_op(opened: Opened) -> None:
    profile = opened(
        [op("aten::mm", 0, 10), launch(2, 1, 1), launch(20, 1, 2), kernel("in", 10, 5, 1), kernel("out", 30, 15, 2)]
    )
    assert dict(profile.gpu_events().select("kernel", "op").iter_rows()) == {
        "in": "aten::mm",
        "out": "cudaLaunchKernel",
    }
    assert notes(profile.trace)["no_op_kernels"] == (1, "75.0%")


def test_the_first_event_of_a_trace_can_be_a_launch(opened: Opened) -> None:
    trace = opened([launch(0, 1, 5), op("aten::mm", 10, 10), kernel("k", 30, 5, 5)]).trace
    assert launched_by(trace, "k") == (0, None)
    assert notes(trace)["no_op_kernels"] == (1, "100.0%")
    assert "unlinked_kernels" not in notes(trace)


def forward_op(name: str, ts: float, sequence: int, tid: int = 1) -> dict[str, Any]:
    return op(name, ts, 8, tid=tid, **{"Sequence number": sequence, "Fwd thread id": 0})


def backward_op(name: str, ts: float, sequence: int, forward_thread: int, tid: int) -> list[dict[str, Any]]:
    """What the autograd engine records: its own call and, inside, the node's."""
    args = {"Sequence number": sequence, "Fwd thread id": forward_thread}
    return [op(ENGINE + name, ts, 8, tid=tid, **args), op(name, ts + 1, 6, tid=tid, **args)]


def forward_of(trace: warplens.Trace, name: str) -> list[tuple[str | None, int]]:
    """For each event of this name, in order of time: the forward op that made it and its start in µs."""
    rows = sorted(rows_named(trace, name), key=lambda row: int(row["start_ns"]))
    starts = trace.events["start_ns"].to_list()
    return [
        (name_of(trace, row["forward"]), starts[row["forward"]] // 1000 if row["forward"] >= 0 else -1) for row in rows
    ]


@pytest.mark.parametrize("tid", [1, 2], ids=["same thread", "another thread"])
def test_backward_finds_its_forward_op_by_sequence_number(opened: Opened, tid: int) -> None:
    trace = opened(
        [
            forward_op("aten::mm", 0, 10),
            forward_op("aten::relu", 10, 11),
            *backward_op("ReluBackward0", 100, 11, 1, tid),
            *backward_op("MmBackward0", 110, 10, 1, tid),
        ]
    ).trace
    for prefix in ("", ENGINE):
        assert forward_of(trace, f"{prefix}ReluBackward0") == [("aten::relu", 10)]
        assert forward_of(trace, f"{prefix}MmBackward0") == [("aten::mm", 0)]


@pytest.mark.parametrize("tid", [1, 2], ids=["same thread", "another thread"])
def test_backward_finds_its_forward_op_by_a_fwdbwd_arrow(opened: Opened, tid: int) -> None:
    """Arrows point at the node's own call, inside the engine's; no sequence numbers here."""
    trace = opened(
        [
            op("aten::mm", 0, 8),
            op("aten::relu", 10, 8),
            op("ReluBackward0", 101, 6, tid=tid),
            op("MmBackward0", 111, 6, tid=tid),
            *fwdbwd((10, 1), (101, tid), 1),
            *fwdbwd((0, 1), (111, tid), 2),
        ]
    ).trace
    assert forward_of(trace, "ReluBackward0") == [("aten::relu", 10)]
    assert forward_of(trace, "MmBackward0") == [("aten::mm", 0)]


def two_forward_threads() -> list[dict[str, Any]]:
    """As under DataParallel: sequence numbers are counted per thread, so both threads have 1 and 2."""
    return [
        forward_op("aten::mm", 0, 1, tid=11),
        forward_op("aten::relu", 10, 2, tid=11),
        forward_op("aten::mm", 5, 1, tid=12),
        forward_op("aten::relu", 15, 2, tid=12),
        *backward_op("ReluBackward0", 100, 2, 1, tid=31),
        *backward_op("MmBackward0", 110, 1, 1, tid=31),
        *backward_op("ReluBackward0", 200, 2, 2, tid=32),
        *backward_op("MmBackward0", 210, 1, 2, tid=32),
    ]


def test_arrows_tell_forward_threads_with_equal_sequence_numbers_apart(opened: Opened) -> None:
    """Thread 32, whose numbers say "2", is tied to the first forward thread by the arrows."""
    arrows = [((10, 11), (201, 32)), ((0, 11), (211, 32)), ((15, 12), (101, 31)), ((5, 12), (111, 31))]
    flows = [end for number, (source, target) in enumerate(arrows) for end in fwdbwd(source, target, number)]
    trace = opened([*two_forward_threads(), *flows]).trace
    assert forward_of(trace, "ReluBackward0") == [("aten::relu", 15), ("aten::relu", 10)]
    assert forward_of(trace, "MmBackward0") == [("aten::mm", 5), ("aten::mm", 0)]


def test_without_arrows_each_forward_thread_number_means_a_thread_of_its_own(opened: Opened) -> None:
    """Autograd numbers threads as they come, so the first number is the thread that began first."""
    trace = opened(two_forward_threads()).trace
    assert forward_of(trace, "ReluBackward0") == [("aten::relu", 10), ("aten::relu", 15)]
    assert forward_of(trace, "MmBackward0") == [("aten::mm", 0), ("aten::mm", 5)]


def test_a_forward_thread_is_told_by_the_numbers_only_it_has(opened: Opened) -> None:
    trace = opened(
        [
            forward_op("aten::mm", 0, 1, tid=11),
            forward_op("aten::mm", 5, 1, tid=12),
            forward_op("aten::relu", 15, 2, tid=12),
            *backward_op("ReluBackward0", 100, 2, 1, tid=31),
            *backward_op("MmBackward0", 110, 1, 1, tid=31),
        ]
    ).trace
    assert forward_of(trace, "MmBackward0") == [("aten::mm", 5)]


def test_of_ops_with_one_sequence_number_the_innermost_made_the_backward(opened: Opened) -> None:
    """aten::linear and aten::t before it see the same number; the op that starts last uses it up."""
    outer = op("aten::linear", 0, 30, **{"Sequence number": 7, "Fwd thread id": 0})
    trace = opened([outer, forward_op("aten::addmm", 10, 7), *backward_op("AddmmBackward0", 100, 7, 1, 2)]).trace
    assert forward_of(trace, "AddmmBackward0") == [("aten::addmm", 10)]


def test_a_backward_op_is_never_tied_to_something_later(opened: Opened) -> None:
    trace = opened([*backward_op("MmBackward0", 0, 1, 1, 2), forward_op("aten::mm", 50, 1)]).trace
    assert forward_of(trace, "MmBackward0") == [(None, -1)]


def test_recomputation_inside_backward_lands_on_its_own_module_frames(opened: Opened) -> None:
    """A checkpointed block runs its modules again on the autograd thread; what it launches there is theirs."""
    profile = opened(
        [
            frame("nn.Module: Checkpointed_0", 0, 20),
            forward_op("CheckpointFunction", 2, 5),
            op("aten::mm", 4, 3),
            launch(5, 1, 1),
            kernel("forward", 6, 10, 1),
            op(ENGINE + "CheckpointFunctionBackward", 100, 90, tid=2, **{"Sequence number": 5, "Fwd thread id": 1}),
            frame("torch/utils/checkpoint.py(1080): recompute_fn", 110, 40, tid=2),
            frame("nn.Module: Inner_0", 112, 36, tid=2),
            op("aten::mm", 114, 30, tid=2),
            launch(116, 1, 2, tid=2),
            kernel("recomputed", 120, 20, 2),
            op("aten::mul", 160, 20, tid=2),
            launch(165, 1, 3, tid=2),
            kernel("gradient", 170, 40, 3),
        ]
    )
    rows = {row["module"]: row for row in profile.table("modules").to_dicts()}
    assert (rows["Inner_0"]["forward_us"], rows["Inner_0"]["backward_us"]) == (20.0, 0.0)
    assert (rows["Checkpointed_0"]["forward_us"], rows["Checkpointed_0"]["backward_us"]) == (10.0, 40.0)


def test_an_annotation_that_opens_in_enter_and_closes_in_exit_takes_in_what_runs_between(opened: Opened) -> None:
    trace = opened(
        [
            frame("train.py(3): main", 0, 200),
            frame("record_function.py(9): __enter__", 10, 20),
            annotation("forward", 20, 100),
            frame("model.py(5): run", 40, 60),
            op("aten::mm", 50, 20),
            frame("record_function.py(14): __exit__", 110, 20),
        ]
    ).trace
    self_check(trace)
    assert callers(trace, "aten::mm") == ["aten::mm", "model.py(5): run", "forward", "train.py(3): main"]
    assert callers(trace, "forward") == ["forward", "train.py(3): main"]
    assert callers(trace, "record_function.py(9): __enter__") == [
        "record_function.py(9): __enter__",
        "train.py(3): main",
    ]
    assert callers(trace, "record_function.py(14): __exit__") == [
        "record_function.py(14): __exit__",
        "train.py(3): main",
    ]
    assert "improper_nesting" not in notes(trace)
    assert (row_named(trace, "forward")["start_ns"], row_named(trace, "forward")["dur_ns"]) == (20_000, 100_000)


def test_an_event_that_outlives_its_caller_by_nanoseconds_stays_its_child(opened: Opened) -> None:
    trace = opened(
        [op("aten::outer", 0, 50), op("aten::inner", 10, 40.004), launch(20, 1, 1), kernel("k", 60, 5, 1)]
    ).trace
    self_check(trace)
    assert callers(trace, "cudaLaunchKernel") == ["cudaLaunchKernel", "aten::inner", "aten::outer"]
    assert row_named(trace, "aten::inner")["dur_ns"] == 40_004
    assert notes(trace)["improper_nesting"] == (1, "4 ns")


@pytest.mark.parametrize(
    ("dur", "outer"),
    [(39, ["aten::first"]), (40, ["aten::first"]), (40.001, [])],
    ids=["more than half", "half", "less than half"],
)
def test_an_event_belongs_to_the_caller_it_outlives_while_half_of_it_lies_inside(
    opened: Opened, dur: float, outer: list[str]
) -> None:
    trace = opened([op("aten::first", 0, 50), op("aten::second", 30, dur)]).trace
    self_check(trace)
    assert callers(trace, "aten::second") == ["aten::second", *outer]
    assert len(trace) == 2


def test_calls_of_different_threads_never_nest(opened: Opened) -> None:
    trace = opened([op("aten::outer", 0, 50, tid=1), op("aten::inner", 10, 20, tid=2)]).trace
    assert callers(trace, "aten::inner") == ["aten::inner"]


def test_of_equal_intervals_the_annotation_calls_the_frame_and_the_frame_the_op(opened: Opened) -> None:
    trace = opened([op("aten::mm", 0, 10), frame("a.py(1): f", 0, 10), annotation("region", 0, 10)]).trace
    assert callers(trace, "aten::mm") == ["aten::mm", "a.py(1): f", "region"]


def test_a_graph_launch_inside_an_op_stays_the_op_of_its_kernels(opened: Opened) -> None:
    profile = opened(
        [
            op("CompiledFunction", 0, 100),
            launch(10, 20, 5, name="cudaGraphLaunch"),
            kernel("nvjet_a", 50, 10, 5),
            kernel("nvjet_b", 60, 5, 5),
        ]
    )
    kernels = profile.table("kernels").to_dicts()
    assert {row["op"] for row in kernels} == {"cudaGraphLaunch"}
    ops = {row["op"]: row for row in profile.table("ops").to_dicts()}
    assert ops["cudaGraphLaunch"]["kernel_us"] == 15
    assert (ops["CompiledFunction"]["kernel_us"], ops["CompiledFunction"]["subtree_kernel_us"]) == (0, 15)
    assert len(profile.table("op_shapes")) == 0


def test_a_pass_that_breaks_a_law_is_caught_after_it(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = opened([op("aten::mm", 0, 10), launch(2, 1, 1), kernel("a", 5, 5, 1)]).trace

    def breaking(trace: warplens.Trace) -> warplens.Trace:
        return trace.with_columns(parent=np.arange(len(trace)))

    monkeypatch.setattr(passes, "PASSES", (breaking,))
    with pytest.raises(BrokenLawError, match="own parent"):
        passes.run_passes(trace, check_each=True)
