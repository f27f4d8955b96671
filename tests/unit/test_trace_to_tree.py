"""A trace folded into a tree: the reader's own paths, sums, metrics, and adding a second piece."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import SAMPLES, raw_events, real_traces
from warplens_run.capture.path_tree import (
    DEEP,
    MOST_LEVELS,
    MOST_NODES,
    ROOT,
    SMALL,
    Node,
    from_hatchet,
    pruned,
)
from warplens_run.capture.trace_to_tree import fold, fold_file, label


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


def folded(*events: dict[str, Any], **header: Any) -> Node:
    root = Node(ROOT)
    fold({"traceEvents": list(events), **header}, root)
    return root


def nodes_of(root: Node) -> list[Node]:
    nodes = [root]
    for node in nodes:
        nodes.extend(node.children.values())
    return nodes


def at(node: Node, *names: str) -> Node:
    for name in names:
        node = node.children[name]
    return node


STEP = (
    event("user_annotation", "forward", 0, 50),
    event("cpu_op", "aten::linear", 1, 20, **{"Sequence number": 7}),
    event("cpu_op", "aten::addmm", 2, 10, **{"Sequence number": 7}),
    event("cuda_runtime", "cudaLaunchKernel", 3, 2, correlation=1),
    event("cpu_op", "AddmmBackward0", 60, 20, tid=2, **{"Sequence number": 7, "Fwd thread id": 1}),
    event("cpu_op", "aten::mm", 61, 10, tid=2),
    event("cuda_runtime", "cudaLaunchKernel", 62, 2, tid=2, correlation=2),
    event("kernel", "gemm", 30, 4, tid=7, correlation=1, device=0),
    event("kernel", "gemm_t", 70, 6, tid=7, correlation=2, device=0),
    event("kernel", "lost", 90, 1.5, tid=7, correlation=3, device=0),
)


def test_kernels_stand_under_their_callers_and_backward_under_forward() -> None:
    root = folded(*STEP)
    forward = at(root, "forward", "aten::linear", "aten::addmm")
    assert at(forward, "gemm").metrics["time (ns)"] == 4000
    assert at(forward, "(backward)", "AddmmBackward0", "aten::mm", "gemm_t").metrics["time (ns)"] == 6000
    lost = at(root, "(no launch recorded)", "lost")
    assert lost.metrics == {"time (ns)": 1500, "count": 1, "device_id": "0", "device_type": "CUDA"}


def test_a_kernel_that_no_op_launched_stands_under_the_call_that_did() -> None:
    root = folded(
        event("user_annotation", "decode", 0, 50),
        event("cuda_runtime", "cudaGraphLaunch", 3, 2, correlation=1),
        event("kernel", "gemm", 30, 4, tid=7, correlation=1, device=0),
    )
    assert at(root, "decode", "cudaGraphLaunch", "gemm").metrics["time (ns)"] == 4000


def test_what_outlives_its_caller_stands_behind_it() -> None:
    """An annotation opens inside `__enter__`, and a step's mark inside the optimizer's annotation."""
    root = folded(
        event("python_function", "train.py(1): main", 0, 1000),
        event("python_function", "profiler.py(9): __enter__", 10, 5),
        event("user_annotation", "forward", 14, 400),
        event("cpu_op", "aten::mm", 20, 10),
        event("user_annotation", "Optimizer.step#SGD.step", 500, 20),
        event("user_annotation", "ProfilerStep#1", 518, 100),
        event("user_annotation", "Optimizer.step#SGD.step", 600, 20),
        event("user_annotation", "ProfilerStep#2", 618, 100),
        event("cpu_op", "aten::add", 640, 10),
    )
    main = at(root, "train.py:1@main")
    assert set(main.children) == {"profiler.py:9@__enter__", "forward", "Optimizer.step#SGD.step", "ProfilerStep"}
    assert set(at(main, "ProfilerStep").children) == {"Optimizer.step#SGD.step", "aten::add"}
    assert at(main, "forward", "aten::mm").metrics["cpu_time_ns"] == 10_000
    own = sum(node.metrics.get("cpu_time_ns", 0) for node in nodes_of(root))
    assert own == 1_000_000, "all host time is somebody's, and nobody's twice"


def test_sequence_numbers_are_those_of_the_thread_of_the_forward_pass() -> None:
    """Threads count by themselves: two models in two threads have the same numbers."""
    root = folded(
        event("cpu_op", "aten::mm", 0, 10, tid=1, **{"Sequence number": 0}),
        event("cpu_op", "aten::exp", 2, 10, tid=2, **{"Sequence number": 0}),
        event("cpu_op", "aten::relu", 12, 2, tid=2, **{"Sequence number": 1}),
        event("cpu_op", "ExpBackward0", 60, 20, tid=3, **{"Sequence number": 0, "Fwd thread id": 2}),
        event("cpu_op", "ReluBackward0", 50, 5, tid=3, **{"Sequence number": 1, "Fwd thread id": 2}),
        event("cpu_op", "MmBackward0", 90, 20, tid=3, **{"Sequence number": 0, "Fwd thread id": 1}),
    )
    assert set(at(root, "aten::exp", "(backward)").children) == {"ExpBackward0"}
    assert set(at(root, "aten::relu", "(backward)").children) == {"ReluBackward0"}
    assert set(at(root, "aten::mm", "(backward)").children) == {"MmBackward0"}


def test_host_time_is_what_a_call_took_besides_the_calls_inside() -> None:
    root = folded(*STEP)
    assert at(root, "forward").metrics["cpu_time_ns"] == 30_000
    assert at(root, "forward", "aten::linear").metrics["cpu_time_ns"] == 10_000


def test_metrics_go_to_the_scope_by_thread_and_occurrence() -> None:
    events = [event("user_annotation", "f", 10 * turn, 5) for turn in range(3)]
    root = folded(
        *events, warplens_scopes=[[1, "f", 1, {"flops": 5.0}], [1, "f", 2, {"flops": 7.0}], [9, "f", 0, {"flops": 1}]]
    )
    assert at(root, "f").metrics["flops"] == 12


def test_a_users_metric_by_the_name_of_a_measured_one_is_kept_apart() -> None:
    root = folded(event("user_annotation", "f", 0, 5), warplens_scopes=[[1, "f", 0, {"count": 3, "time (ns)": 5}]])
    assert at(root, "f").metrics == {"cpu_time_ns": 5000, "count of scopes": 3, "time (ns) of scopes": 5}


def test_steps_modules_and_frames_are_named_by_code_not_by_time() -> None:
    root = folded(
        event("user_annotation", "ProfilerStep#3", 0, 10),
        event("python_function", "train.py(12): main", 1, 8),
        event("python_function", "nn.Module: Linear_0", 2, 6),
    )
    assert at(root, "ProfilerStep", "train.py:12@main", "Linear_0").name == "Linear_0"


def test_a_mark_without_an_end_is_no_step() -> None:
    root = folded(
        event("user_annotation", "ProfilerStep#3", 0, 10),
        event("user_annotation", "ProfilerStep#4", 20, 5, finished=False),
    )
    assert set(root.children) == {"ProfilerStep", "(after the last step)"}


def test_a_second_piece_adds_up(tmp_path: Path) -> None:
    trace, tree = tmp_path / "trace.json", tmp_path / "tree.hatchet"
    trace.write_text(json.dumps({"traceEvents": list(STEP)}))
    fold_file(trace, tree)
    once = from_hatchet(json.loads(gzip.decompress(tree.read_bytes())))
    fold_file(trace, tree)
    twice = from_hatchet(json.loads(gzip.decompress(tree.read_bytes())))
    path = ("forward", "aten::linear", "aten::addmm", "gemm")
    assert at(twice, *path).metrics["time (ns)"] == 2 * at(once, *path).metrics["time (ns)"]
    assert at(twice, *path).metrics["count"] == 2


def test_calls_deeper_than_a_file_can_hold_are_one_node(tmp_path: Path) -> None:
    """Python reads and writes JSON of some 990 levels."""
    calls = [event("cpu_op", f"op {level}", level, 10_000 - 2 * level) for level in range(1500)]
    trace, tree = tmp_path / "trace.json", tmp_path / "tree.hatchet.gz"
    trace.write_text(json.dumps({"traceEvents": calls}))
    for _ in range(2):
        fold_file(trace, tree)
    found = warplens.open(tree, cache=False)
    assert not isinstance(found, warplens.Profile)
    assert found.paths.tree.total("cpu_time_ns")[0] == 2 * 10_000_000
    assert DEEP in found.paths.tree.name
    assert len(found.paths.tree) == MOST_LEVELS + 2


def test_the_reader_adds_host_time_and_metrics_up_along_a_path(tmp_path: Path) -> None:
    trace, tree = tmp_path / "trace.json", tmp_path / "tree.hatchet.gz"
    log = [[1, "forward", 0, {"tokens": 7.0}]]
    trace.write_text(json.dumps({"traceEvents": list(STEP), "warplens_scopes": log}))
    fold_file(trace, tree)
    found = warplens.open(tree, cache=False)
    assert not isinstance(found, warplens.Profile)
    paths = found.paths.tree
    forward = paths.name.index("forward")
    assert paths.total("cpu_time_ns")[forward] == 50_000 + 20_000, "its own, and the backward op's it created"
    assert (paths.total("tokens")[0], paths.total_ns[0]) == (7, 11_500)
    assert "user_metrics" not in {row["code"] for row in found.table("quality").to_dicts()}


@pytest.mark.parametrize(
    "path", [path for path in real_traces() if path.stat().st_size < 2_000_000], ids=lambda path: path.name
)
def test_no_gpu_time_is_lost_or_made(path: Path) -> None:
    events = raw_events(path)
    whole = sum(
        round(each.get("dur", 0) * 1000)
        for each in events
        if each.get("ph") == "X"
        and each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        and isinstance(each.get("ts"), (int, float))
    )
    root = Node(ROOT)
    fold({"traceEvents": [each for each in events if isinstance(each.get("ts"), (int, float))]}, root)
    found, stack = 0, [root]
    while stack:
        node = stack.pop()
        found += node.metrics.get("time (ns)", 0)
        stack.extend(node.children.values())
    assert found == whole


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_paths_are_those_of_the_reader(path: Path) -> None:
    """The fold and `Profile.tree` were written apart; on real runs they agree on the time of every path."""
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    tree = profile.tree("python", short_names=False)
    wanted: Counter[tuple[str, ...]] = Counter()
    for node in range(1, len(tree)):
        if tree.self_ns[node]:
            wanted[tuple(label(name) for name in tree.path(node))] += int(tree.self_ns[node])
    root = Node(ROOT)
    fold({"traceEvents": raw_events(path)}, root)
    found: Counter[tuple[str, ...]] = Counter()
    stack: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while stack:
        node_of_path, names = stack.pop()
        found[names] += node_of_path.metrics.get("time (ns)", 0)
        stack.extend((child, (*names, child.name)) for child in node_of_path.children.values())
    assert +found == wanted


@pytest.mark.nightly
def test_a_tree_stays_small_however_many_paths_a_run_has(tmp_path: Path) -> None:
    """Every call has a name of its own, as scopes with a step's number in them have."""
    trace, tree = tmp_path / "trace.json", tmp_path / "tree.hatchet.gz"
    for piece in range(3):
        calls = [
            event("user_annotation", f"step {piece} call {number} of a very long run", 10.0 * number, 5)
            for number in range(20_000)
        ]
        kernels = [
            event("kernel", f"kernel_{piece}_{number % 7}", 10.0 * number, 2, tid=7, correlation=number + 1)
            for number in range(2000)
        ]
        launches = [
            event("cuda_runtime", "cudaLaunchKernel", 10.0 * number + 1, 1, correlation=number + 1)
            for number in range(2000)
        ]
        trace.write_text(json.dumps({"traceEvents": [*calls, *kernels, *launches]}))
        fold_file(trace, tree)
    assert tree.stat().st_size < 1_000_000
    root = from_hatchet(json.loads(gzip.decompress(tree.read_bytes())))
    totals, count, stack = {"time (ns)": 0.0, "cpu_time_ns": 0.0}, 0, [root]
    while stack:
        node = stack.pop()
        count += 1
        for name in totals:
            totals[name] += node.metrics.get(name, 0)
        stack.extend(node.children.values())
    assert totals == {"time (ns)": 3 * 2000 * 2000, "cpu_time_ns": 3 * 20_000 * 5000}, "nothing is lost"
    assert MOST_NODES <= count <= 2 * MOST_NODES


def test_the_heaviest_paths_are_kept() -> None:
    root = Node(ROOT)
    for number in range(10):
        root.child(f"call {number}").child("inner").add("time (ns)", number)
    pruned(root, most=5)
    assert set(root.children) == {"call 9", "call 8", SMALL}
    assert root.children[SMALL].metrics == {"time (ns)": sum(range(8))}


def test_functions_of_our_own_have_no_nodes_and_their_time_is_not_the_programs() -> None:
    own, frame = "/site/warplens_run", "python_function"
    root = folded(
        event(frame, "bin/warplens(10): <module>", 0, 1000),
        event(frame, "/site/warplens/cli/__init__.py(90): main", 10, 980),
        event(frame, "contextlib.py(130): __enter__", 20, 70),  # of the command
        event(frame, f"{own}/capture/launch.py(117): _execute", 100, 800),
        event(frame, "threading.py(1541): _shutdown", 110, 50),
        event(frame, "<built-in function exec>", 200, 600),
        event(frame, "train.py(1): <module>", 210, 580),
        event(frame, f"{own}/capture/wrapping.py(20): inside", 220, 300),  # a decorator of the program's function
        event(frame, f"{own}/capture/scopes.py(80): __enter__", 230, 20),
        event(frame, "json/decoder.py(1): decode", 235, 10),  # called by that
        event(frame, "train.py(9): attend", 260, 200),
        event("cpu_op", "aten::mm", 300, 100),
        event(frame, f"{own}/workloads/run.py(25): run_workload", 600, 100),
    )
    times = {node.name: node.metrics.get("cpu_time_ns", 0) / 1000 for node in nodes_of(root) if node is not root}
    assert times == {
        "<built-in function exec>": 20,
        "train.py:1@<module>": 580 - 300 - 100,
        "train.py:9@attend": 100,
        "aten::mm": 100,
        f"{own}/workloads/run.py:25@run_workload": 100,
    }


def test_a_mark_without_an_end_goes_on_no_longer_than_the_recording() -> None:
    root = folded(
        event("Trace", "PyTorch Profiler (0)", 0, 100),
        event("user_annotation", "(after the last step)", 80, 400, finished=False),
    )
    assert at(root, "(after the last step)").metrics["cpu_time_ns"] == 20_000
