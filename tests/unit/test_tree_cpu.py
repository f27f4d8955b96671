"""The call tree of the host's own time, the tree upside down, and the fast tree against a slow, plain one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import warplens
from support import SAMPLES, Opened, annotation, frame, kernel, launch, op
from warplens.analyses.trees.call_tree import BACKWARD, CONTEXTS
from warplens.model.inverted import inverted
from warplens.model.kinds import MODULE_PREFIX
from warplens.model.tree import Tree
from warplens.passes.climb import climb

EVENTS = [
    frame("train.py(3): main", 0, 100),
    frame("nn.Module: Net_0", 10, 50),
    op("aten::linear", 12, 20, **{"Sequence number": 1, "Fwd thread id": 0}),
    launch(15, 4, 1),
    kernel("k_a", 100, 30, 1),
    op("MmBackward0", 200, 20, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
    launch(205, 3, 2, tid=2),
    kernel("k_b", 220, 50, 2),
]


def own(tree: Tree) -> dict[str, tuple[float, int]]:
    """Path → own µs and calls, where there is either."""
    return {
        "/".join(tree.path(node)): (tree.self_ns[node] / 1000, int(tree.self_count[node]))
        for node in range(len(tree))
        if tree.self_ns[node] or tree.self_count[node]
    }


def test_every_call_gives_its_own_time_to_its_path_and_backward_stays_with_forward(opened: Opened) -> None:
    tree = opened(EVENTS).tree("python", weight="cpu")
    tree.self_check()
    main, net = "train.py(3): main", "train.py(3): main/Net_0"
    assert tree.weight == "CPU time"
    assert own(tree) == {
        main: (50, 1),
        net: (30, 1),
        f"{net}/aten::linear": (16, 1),
        f"{net}/aten::linear/cudaLaunchKernel": (4, 1),
        f"{net}/aten::linear/{BACKWARD}/MmBackward0": (17, 1),
        f"{net}/aten::linear/{BACKWARD}/MmBackward0/cudaLaunchKernel": (3, 1),
    }


def test_a_context_counts_only_the_kinds_it_shows(opened: Opened) -> None:
    found = own(opened(EVENTS).tree("op", weight="cpu"))
    assert found == {
        "aten::linear": (16, 1),
        "aten::linear/cudaLaunchKernel": (4, 1),
        "aten::linear/(backward)/MmBackward0": (17, 1),
        "aten::linear/(backward)/MmBackward0/cudaLaunchKernel": (3, 1),
    }


def test_threads_have_nodes_where_several_have_work_of_their_own(opened: Opened) -> None:
    names = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "ts": 0, "args": {"name": name}}
        for tid, name in ((1, "thread 1 (main)"), (2, "loader"))
    ]
    tree = opened([*names, op("aten::mm", 0, 10), op("aten::mm", 0, 7, tid=2)]).tree("op", weight="cpu")
    assert own(tree) == {"thread 1 (main)/aten::mm": (10, 1), "thread 2 (loader)/aten::mm": (7, 1)}
    assert [tree.kind[node] for node in range(len(tree)) if tree.depth[node] == 1] == ["thread", "thread"]


def test_a_thread_that_only_waits_is_left_out(opened: Opened) -> None:
    waits = [frame("threading.py(1): run", 0, 500, tid=9), frame("threading.py(2): wait", 1, 499, tid=9)]
    assert own(opened([*waits, op("aten::mm", 0, 10)]).tree(weight="cpu")) == {"aten::mm": (10, 1)}
    assert own(opened(waits).tree(weight="cpu")) == {
        "threading.py(1): run": (1, 1),
        "threading.py(1): run/threading.py(2): wait": (499, 1),
    }


def test_an_annotation_that_opens_inside_a_frame_takes_none_of_its_time_twice(opened: Opened) -> None:
    events = [
        frame("main.py(1): main", 0, 100),
        frame("profiler.py(1): __enter__", 10, 10),
        annotation("step", 15, 50),
        op("aten::mm", 30, 20),
        frame("profiler.py(2): __exit__", 60, 10),
    ]
    tree = opened(events).tree("python", weight="cpu")
    tree.self_check()
    assert tree.total_ns[0] == 100_000
    assert (tree.self_ns >= 0).all()


def test_a_call_that_outlives_its_caller_leaves_no_time_below_zero(opened: Opened) -> None:
    tree = opened([op("outer", 0, 10), op("inner", 2, 9), op("after", 20, 5)]).tree("op", weight="cpu")
    assert own(tree) == {"outer": (2, 1), "outer/inner": (8, 1), "after": (5, 1)}


def test_an_unknown_weight_is_refused_with_the_known_ones(opened: Opened) -> None:
    with pytest.raises(warplens.UsageError, match="no weight 'joules'") as error:
        opened(EVENTS).tree(weight="joules")
    assert error.value.hint == "one of: gpu, cpu"


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> warplens.Profile:
    path: Path = request.param
    return warplens.open(path, cache=False)


@pytest.mark.parametrize("context", CONTEXTS)
def test_all_own_times_add_up_to_the_outermost_calls(sample: warplens.Profile, context: str) -> None:
    trace = sample.trace
    tree = sample.tree(context, weight="cpu")
    tree.self_check()
    shown = trace.is_kind(*CONTEXTS[context], "runtime")
    rows = np.flatnonzero(shown)
    outermost = rows[climb(trace.ints("parent")[rows], trace.ints("parent"), shown) < 0]
    assert tree.total_ns[0] == trace.ints("dur_ns")[outermost].sum()
    assert tree.total_count[0] == len(rows)


def plain_paths(profile: warplens.Profile, context: str) -> Counter[str]:
    """GPU time by path, each kernel walked up on its own."""
    trace, shown = profile.trace, profile.trace.is_kind(*CONTEXTS[context])
    parent, forward, names = (trace.ints(column).tolist() for column in ("parent", "forward", "name"))
    found: Counter[str] = Counter()
    columns = profile.gpu_events().select("owner", "launch", "kernel_short", "dur_ns")
    for owner, launch_row, name, ns in columns.iter_rows():
        if context == "full" and launch_row >= 0:  # begins at the call of the GPU's API
            owner = launch_row
        path, at = [name], owner
        while at >= 0:
            if shown[at] or at == owner:
                text = trace.names[names[at]].removeprefix(MODULE_PREFIX)
                path.append("ProfilerStep" if text.startswith("ProfilerStep#") else text)
            if forward[at] >= 0:
                path.append(BACKWARD)
            at = forward[at] if forward[at] >= 0 else parent[at]
        found["/".join([*path, *(["(no launch recorded)"] if owner < 0 else [])][::-1])] += ns
    return found


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_tree_is_that_of_walking_up_from_every_kernel(sample: warplens.Profile, context: str) -> None:
    tree = sample.tree(context)
    paths = {"/".join(tree.path(node)): int(tree.self_ns[node]) for node in range(len(tree)) if tree.self_count[node]}
    assert paths == plain_paths(sample, context)
    assert len({(int(parent), name) for parent, name in zip(tree.parent, tree.name, strict=True)}) == len(tree)
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()


def test_upside_down_the_paths_are_backwards_and_nothing_is_lost(sample: warplens.Profile) -> None:
    tree = sample.tree("module")
    turned = inverted(tree)
    turned.self_check()
    assert (turned.total_ns[0], turned.total_count[0]) == (tree.total_ns[0], tree.total_count[0])
    backwards: Counter[str] = Counter()
    for node in range(len(tree)):
        if tree.self_count[node]:
            backwards["/".join(tree.path(node)[::-1])] += int(tree.self_ns[node])
    assert {
        "/".join(turned.path(node)): int(turned.self_ns[node]) for node in range(len(turned)) if turned.self_count[node]
    } == backwards


def test_upside_down_a_kernel_called_from_two_places_is_one_node(opened: Opened) -> None:
    calls = [op("a", 0, 10), launch(1, 1, 1), op("b", 20, 10), launch(21, 1, 2)]
    tree = inverted(opened([*calls, kernel("k", 40, 3, 1), kernel("k", 50, 4, 2)]).tree("op"))
    top = [tree.name[node] for node in range(len(tree)) if tree.depth[node] == 1]
    assert top == ["k"]
    assert {path: us for path, (us, _) in own(tree).items()} == {"k/a": 3, "k/b": 4}
