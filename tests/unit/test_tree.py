"""The call tree: who, seen from which context, caused how much GPU time; and its exports for flame-graph viewers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import Opened, annotation, frame, kernel, launch, op
from warplens.model.tree import Tree, keep_paths, without
from warplens.outputs.flamegraph import folded_bytes, plan_flamegraph, speedscope_bytes, write_flamegraph

EVENTS = [
    frame("train.py(3): main", 0, 100),
    annotation("forward", 5, 60),
    frame("nn.Module: Net_0", 10, 50),
    op("aten::linear", 12, 20, **{"Sequence number": 1, "Fwd thread id": 0}),
    op("aten::mm", 14, 10, **{"Sequence number": 1, "Fwd thread id": 0}),
    launch(15, 1, 1),
    launch(17, 1, 2),
    kernel("k_a", 100, 30, 1),
    kernel("k_a", 140, 10, 2),
    op("aten::relu", 40, 10),
    launch(42, 1, 3),
    kernel("k_b", 160, 5, 3),
    op("MmBackward0", 200, 20, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
    launch(205, 1, 4, tid=2),
    kernel("k_c", 220, 50, 4),
    launch(250, 1, 5, tid=3, name="cudaGraphLaunch"),
    kernel("k_d", 280, 4, 5),
    kernel("k_e", 290, 1),
]


def nodes(tree: Tree) -> dict[str, tuple[int, int]]:
    """Path → (total µs, GPU events)."""
    return {
        "/".join(tree.path(node)): (int(tree.total_ns[node]) // 1000, int(tree.total_count[node]))
        for node in range(len(tree))
    }


def leaves(tree: Tree) -> dict[str, int]:
    """Path → own µs, where there is any."""
    return {
        "/".join(tree.path(node)): int(tree.self_ns[node]) // 1000 for node in range(len(tree)) if tree.self_ns[node]
    }


OUTSIDE = {"cudaGraphLaunch/k_d": 4, "(no launch recorded)/k_e": 1}
EXPECTED = {
    "op": {
        "aten::linear/aten::mm/k_a": 40,
        "aten::relu/k_b": 5,
        "aten::linear/aten::mm/(backward)/MmBackward0/k_c": 50,
    },
    "module": {
        "Net_0/aten::linear/aten::mm/k_a": 40,
        "Net_0/aten::relu/k_b": 5,
        "Net_0/aten::linear/aten::mm/(backward)/MmBackward0/k_c": 50,
    },
    "annotation": {
        "forward/aten::linear/aten::mm/k_a": 40,
        "forward/aten::relu/k_b": 5,
        "forward/aten::linear/aten::mm/(backward)/MmBackward0/k_c": 50,
    },
    "python": {
        "train.py(3): main/forward/Net_0/aten::linear/aten::mm/k_a": 40,
        "train.py(3): main/forward/Net_0/aten::relu/k_b": 5,
        "train.py(3): main/forward/Net_0/aten::linear/aten::mm/(backward)/MmBackward0/k_c": 50,
    },
}


@pytest.mark.parametrize("context", EXPECTED)
def test_the_context_chooses_the_callers_and_backward_hangs_under_its_forward_op(opened: Opened, context: str) -> None:
    tree = opened(EVENTS).tree(context)
    tree.self_check()
    assert leaves(tree) == EXPECTED[context] | OUTSIDE


def test_backward_hangs_under_its_forward_op_even_if_that_is_the_first_event(opened: Opened) -> None:
    numbers = {"Sequence number": 1}
    events = [
        op("aten::mm", 0, 10, **numbers, **{"Fwd thread id": 0}),
        op("MmBackward0", 50, 10, tid=2, **numbers, **{"Fwd thread id": 1}),
    ]
    tree = opened([*events, launch(52, 1, 1, tid=2), kernel("k", 60, 3, 1)]).tree("op")
    assert leaves(tree) == {"aten::mm/(backward)/MmBackward0/k": 3}


def test_totals_include_what_is_below(opened: Opened) -> None:
    found = nodes(opened(EVENTS).tree("module"))
    assert found[""] == (100, 6)
    assert found["Net_0"] == (95, 4)
    assert found["Net_0/aten::linear"] == (90, 3)
    assert found["Net_0/aten::linear/aten::mm/(backward)"] == (50, 1)


def test_an_unknown_context_is_refused_with_the_known_ones(opened: Opened) -> None:
    with pytest.raises(warplens.UsageError, match="no context 'line'") as error:
        opened(EVENTS).tree("line")
    assert error.value.hint == "one of: python, module, op, annotation, full"


def test_children_are_walked_heaviest_first(opened: Opened) -> None:
    tree = opened(EVENTS).tree("op")
    top = [tree.name[node] for node, depth in tree.walk() if depth == 1]
    assert top == ["aten::linear", "aten::relu", "cudaGraphLaunch", "(no launch recorded)"]
    assert len(list(tree.walk())) == len(tree)


def test_full_names_are_kept_on_request(opened: Opened) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
    profile = opened([kernel(name, 0, 10)])
    assert name in profile.tree("op", short_names=False).name
    assert name not in profile.tree("op").name


def test_include_keeps_whole_paths_and_only_their_time(opened: Opened) -> None:
    tree = keep_paths(opened(EVENTS).tree("module"), re.compile("aten::mm"))
    tree.self_check()
    assert leaves(tree) == {
        "Net_0/aten::linear/aten::mm/k_a": 40,
        "Net_0/aten::linear/aten::mm/(backward)/MmBackward0/k_c": 50,
    }
    assert nodes(tree)[""] == (90, 3)


def test_include_without_a_match_leaves_an_empty_root(opened: Opened) -> None:
    assert nodes(keep_paths(opened(EVENTS).tree("op"), re.compile("nothing"))) == {"": (0, 0)}


def test_exclude_moves_callees_up_and_loses_no_time(opened: Opened) -> None:
    tree = without(opened(EVENTS).tree("module"), re.compile(r"aten::linear|\(backward\)"))
    tree.self_check()
    assert leaves(tree) == {
        "Net_0/aten::mm/k_a": 40,
        "Net_0/aten::mm/MmBackward0/k_c": 50,
        "Net_0/aten::relu/k_b": 5,
        **OUTSIDE,
    }
    assert nodes(tree)[""] == (100, 6)


def test_excluding_a_leaf_gives_its_time_to_its_caller(opened: Opened) -> None:
    tree = without(opened(EVENTS).tree("op"), re.compile("^k_"))
    assert leaves(tree)["aten::relu"] == 5
    assert int(tree.total_ns[0]) == 100_000


def test_siblings_that_become_equal_are_one_node(opened: Opened) -> None:
    events = [
        op("a", 0, 10),
        op("x", 1, 5),
        launch(2, 1, 1),
        kernel("k", 20, 3, 1),
        op("y", 20, 5),
        op("x", 21, 3),
        launch(22, 1, 2),
    ]
    tree = without(opened([*events, kernel("k", 40, 4, 2)]).tree("op"), re.compile("^[ay]$"))
    assert nodes(tree) == {"": (7, 2), "x": (7, 2), "x/k": (7, 2)}


def test_folded_stacks_have_a_line_per_path_with_its_own_nanoseconds(opened: Opened) -> None:
    events = [op("aten::a;b", 0, 10), launch(1, 1, 1), kernel("k\nx", 20, 3.5, 1), kernel("z", 30, 2)]
    lines = folded_bytes(opened(events).tree("op", short_names=False), "t").decode().splitlines()
    assert sorted(lines) == ["(no launch recorded);z 2000", "aten::a:b;k x 3500"]


def test_folded_weights_add_up_to_the_gpu_time(opened: Opened) -> None:
    lines = folded_bytes(opened(EVENTS).tree(), "t").decode().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 100_000
    assert all(line.rpartition(" ")[0] for line in lines)


def checked_speedscope(content: bytes) -> dict[str, Any]:
    """The document, after the demands of speedscope's file-format schema on a sampled profile."""
    document: dict[str, Any] = json.loads(content)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(isinstance(each["name"], str) for each in frames)
    (profile,) = document["profiles"]
    assert profile["type"] == "sampled"
    assert profile["unit"] in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
    assert isinstance(profile["name"], str)
    assert len(profile["samples"]) == len(profile["weights"])
    assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
    assert all(sample for sample in profile["samples"])
    assert profile["startValue"] == 0
    assert profile["endValue"] == sum(profile["weights"])
    return document


def test_speedscope_samples_are_the_paths_with_their_own_time(opened: Opened) -> None:
    document = checked_speedscope(speedscope_bytes(opened(EVENTS).tree("op"), "trace.json"))
    frames = [each["name"] for each in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    assert profile["unit"] == "nanoseconds"
    assert profile["endValue"] == 100_000
    paths = {
        "/".join(frames[index] for index in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert paths == {path: us * 1000 for path, us in (EXPECTED["op"] | OUTSIDE).items()}
    assert len(frames) == len(set(frames))


def test_a_trace_without_gpu_work_still_exports(opened: Opened) -> None:
    tree = opened([op("aten::mm", 0, 10)]).tree()
    assert json.loads(speedscope_bytes(tree, "t"))["profiles"][0]["samples"] == []
    assert folded_bytes(tree, "t").strip() == b""


def test_the_path_chooses_the_export_and_nothing_is_overwritten(opened: Opened, tmp_path: Path) -> None:
    tree = opened(EVENTS).tree()
    write_flamegraph(plan_flamegraph(str(tmp_path / "x.speedscope.json"), force=False), tree, name="t")
    checked_speedscope((tmp_path / "x.speedscope.json").read_bytes())
    write_flamegraph(plan_flamegraph(str(tmp_path / "x.folded"), force=False), tree, name="t")
    assert (tmp_path / "x.folded").read_bytes() == folded_bytes(tree, "t")
    with pytest.raises(warplens.UsageError, match="already exists"):
        plan_flamegraph(str(tmp_path / "x.folded"), force=False)
    plan_flamegraph(str(tmp_path / "x.folded"), force=True)
    with pytest.raises(warplens.UsageError, match="unknown output format"):
        plan_flamegraph(str(tmp_path / "x.json"), force=False)
