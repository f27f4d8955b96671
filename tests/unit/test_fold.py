"""A trace folded into a tree: paths, backward under forward, sums, metrics, and adding a second piece."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from support import SAMPLES, raw_events, real_traces
from warplens.capture.fold import MOST_NODES, ROOT, SMALL, Node, fold, fold_file, from_hatchet, pruned, to_hatchet


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


def folded(*events: dict[str, Any], **header: Any) -> Node:
    root = Node(ROOT)
    fold({"traceEvents": list(events), **header}, root)
    return root


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
    assert at(root, "lost").metrics == {"time (ns)": 1500, "count": 1, "device_id": "0", "device_type": "CUDA"}


def test_host_time_is_what_a_call_took_besides_the_calls_inside() -> None:
    root = folded(*STEP)
    assert at(root, "forward").metrics["cpu_time (ns)"] == 30_000
    assert at(root, "forward", "aten::linear").metrics["cpu_time (ns)"] == 10_000


def test_metrics_go_to_the_scope_by_thread_and_occurrence() -> None:
    events = [event("user_annotation", "f", 10 * turn, 5) for turn in range(3)]
    root = folded(
        *events, warplens_scopes=[[1, "f", 1, {"flops": 5.0}], [1, "f", 2, {"flops": 7.0}], [9, "f", 0, {"flops": 1}]]
    )
    assert at(root, "f").metrics["flops"] == 12


def test_steps_modules_and_frames_are_named_by_code_not_by_time() -> None:
    root = folded(
        event("user_annotation", "ProfilerStep#3", 0, 10),
        event("python_function", "train.py(12): main", 1, 8),
        event("python_function", "nn.Module: Linear_0", 2, 6),
    )
    assert at(root, "ProfilerStep", "train.py:12@main", "Linear_0").name == "Linear_0"


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


def test_a_tree_of_any_depth_is_written_and_read() -> None:
    root = node = Node(ROOT)
    for level in range(3000):
        node = node.child(f"frame {level}")
    node.add("time (ns)", 5)
    again, depth = from_hatchet(to_hatchet(root, {})), 0
    while again.children:
        (again,) = again.children.values()
        depth += 1
    assert (depth, again.metrics["time (ns)"]) == (3000, 5)


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


def test_paths_are_those_of_the_reader() -> None:
    """The fold and `Profile.tree` were written apart; on a real step they agree on the time of every op name."""
    import warplens

    path = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
    root = Node(ROOT)
    fold({"traceEvents": raw_events(path)}, root)
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    wanted: dict[str, int] = {}
    for (op,), rows in profile.gpu_events().group_by("op"):
        wanted[str(op)] = int(rows["dur_ns"].sum())
    found: dict[str, int] = {}
    stack = [(root, "(no launch recorded)")]
    while stack:
        node, _ = stack.pop()
        for child in node.children.values():
            if "time (ns)" in child.metrics:
                found[node.name] = found.get(node.name, 0) + child.metrics["time (ns)"]
            stack.append((child, child.name))
    launches = {name for name in wanted if name.startswith(("cuda", "hip"))}
    assert {name: ns for name, ns in found.items() if name in wanted} == {
        name: ns for name, ns in wanted.items() if name not in launches
    }


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
    totals, count, stack = {"time (ns)": 0.0, "cpu_time (ns)": 0.0}, 0, [root]
    while stack:
        node = stack.pop()
        count += 1
        for name in totals:
            totals[name] += node.metrics.get(name, 0)
        stack.extend(node.children.values())
    assert totals == {"time (ns)": 3 * 2000 * 2000, "cpu_time (ns)": 3 * 20_000 * 5000}, "nothing is lost"
    assert MOST_NODES <= count <= 2 * MOST_NODES


def test_the_heaviest_paths_are_kept() -> None:
    root = Node(ROOT)
    for number in range(10):
        root.child(f"call {number}").child("inner").add("time (ns)", number)
    pruned(root, most=5)
    assert set(root.children) == {"call 9", "call 8", SMALL}
    assert root.children[SMALL].metrics == {"time (ns)": sum(range(8))}
