"""Tables of profiles without a timeline: the columns of a trace's tables, and sums that are the file's."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from support import ROOT, SHARED, distinct
from warplens.analyses.paths import PATH_TABLES, PathWorkspace, shown_tree
from warplens.analyses.paths.gpu_lookup import gpu_of
from warplens.analyses.paths.merged_trees import MergedTrees
from warplens.analyses.paths.tree_display import with_frames, without_subtrees
from warplens.categories import Rule, load_categorizer
from warplens.hardware import all_gpus
from warplens.model.call_paths import CallPaths
from warplens.model.trace import Device, Meta, empty_trace
from warplens.readers.proton import tree as proton_tree
from warplens_run.base.errors import UsageError

SAMPLES = ROOT / "samples" / "proton"
REAL = distinct([*sorted(SAMPLES.glob("*.hatchet.gz")), *sorted((SHARED / "traces" / "proton").glob("*.hatchet.gz"))])
SAME_AS_OF_A_TRACE = ("quality", "kernel_categories", "kernels", "launch_categories", "python_lines")


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}


def kernel(name: str, us: float, *children: dict[str, Any], count: int = 1, **metrics: Any) -> dict[str, Any]:
    return node(name, *children, **{"time (ns)": round(us * 1000), "count": count, "device_id": "0", **metrics})


def work_of(text: bytes, **more: Any) -> PathWorkspace:
    paths = proton_tree.read(text, Meta(source="x", format=""), [])
    return PathWorkspace(paths, **{"hardware": gpu_of(paths.meta), **more})


def sample(name: str) -> PathWorkspace:
    return work_of(gzip.decompress((SAMPLES / f"{name}.hatchet.gz").read_bytes()))


def made(*children: dict[str, Any], **on_root: Any) -> PathWorkspace:
    return work_of(json.dumps([node("ROOT", *children, **on_root)]).encode())


def rows(work: PathWorkspace, table: str) -> list[dict[str, Any]]:
    return PATH_TABLES[table](work).to_dicts()


def chosen(work: PathWorkspace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return PATH_TABLES[table](work).frame.select(columns).rows()


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_table_adds_up_to_the_tree(path: Path) -> None:
    work = work_of(gzip.decompress(path.read_bytes()))
    ns, count = int(work.tree.total_ns[0]), int(work.tree.total_count[0])
    for table, column in (
        ("kernels", "total_us"), ("kernel_categories", "total_us"), ("launch_categories", "total_us"),
        ("python_lines", "kernel_us"), ("call_paths", "self_us"),
    ):  # fmt: skip
        frame = PATH_TABLES[table](work).frame
        assert round(frame[column].sum() * 1000) == ns, table
        if table != "call_paths":
            assert frame["count"].sum() == count, table
        if ns and "percent" in frame.columns and table != "call_paths":
            assert frame["percent"].sum() == pytest.approx(100)
    samples = work.tree.metrics.get("num_samples", np.zeros(1))
    assert PATH_TABLES["stalls"](work).frame["samples"].sum() == samples.sum()


@pytest.mark.parametrize("name", SAME_AS_OF_A_TRACE)
def test_columns_are_those_of_a_trace(name: str) -> None:
    ours = PATH_TABLES[name](sample("tree_python"))
    theirs = warplens.Profile(empty_trace()).table(name)
    assert ours.frame.columns == theirs.frame.columns
    assert [column.unit for column in ours.columns] == [column.unit for column in theirs.columns]


def test_kernels_by_scope() -> None:
    found = chosen(sample("tree_shadow"), "kernels", "op", "kernel_category", "kernel_short", "count", "total_us")
    assert found[:3] == [
        ("triton", "Memory Ops", "fill int32 vec4", 3278 + 2502 + 777, 379_914.572),
        ("triton", "GEMM", "matmul_<grid:4096>_<warps:4>_<stages:4>", 892 + 288, 143_027.698),
        ("triton", "GEMM", "matmul_<grid:16384>_<warps:4>_<stages:4>", 271, 106_764.490),
    ]
    assert [row["op"] for row in rows(sample("tree_shadow"), "kernels") if row["kernel_category"] == "Random"] == [
        "(outside any scope)"
    ]
    first = rows(sample("tree_shadow"), "kernels")[0]
    assert (first["device"], first["stream"], first["min_us"], first["max_us"], first["step_us"]) == (0, *[None] * 4)
    assert first["mean_us"] == pytest.approx(379_914.572 / 6557)


def test_names_that_users_give_launches_stay_apart_and_others_become_short() -> None:
    work = made(kernel("matmul_<m:1>", 3), kernel("matmul_<m:2>", 2), kernel("add_<n:1>", 1))
    assert chosen(work, "kernels", "kernel_short") == [("matmul_<m:1>",), ("matmul_<m:2>",), ("add",)]
    assert shown_tree(work).name == ["all", "matmul_<m:1>", "matmul_<m:2>", "add"]
    assert shown_tree(work, short_names=False).name[-1] == "add_<n:1>"


def test_own_rules_come_first() -> None:
    mine = load_categorizer([], [Rule("Mine", contains="matmul")])
    work = work_of(gzip.decompress((SAMPLES / "tree_shadow.hatchet.gz").read_bytes()), categorizer=mine)
    assert rows(work, "kernel_categories")[0]["kernel_category"] == "Mine"


def test_the_op_of_a_kernel_is_its_scope_or_frame_and_not_how_triton_launches() -> None:
    assert {row["op"] for row in rows(sample("tree_python"), "kernels")} == {
        f"traces/proton_tree_python.py({line}): go" for line in (18, 20, 21)
    }
    only = made(node("site-packages/triton/runtime/jit.py:3@run", kernel("k", 1)))
    assert chosen(only, "kernels", "op") == [("site-packages/triton/runtime/jit.py(3): run",)]


def test_python_lines_are_the_users_own() -> None:
    found = chosen(sample("tree_python"), "python_lines", "file", "line", "function", "count", "kernel_us")
    assert found[0] == ("traces/proton_tree_python.py", 20, "go", 11_718, 775_375.807)
    none = PATH_TABLES["python_lines"](sample("tree_shadow"))
    assert none.frame["file"].to_list() == ["(no Python frame)"]
    assert none.notes


def test_kernels_of_a_graph_are_marked() -> None:
    found = chosen(sample("cuda_graph"), "launch_categories", "op", "kernel_category", "count", "is_graph")
    assert found == [
        ("in_graph", "Other", 4, True),
        ("in_graph", "Elementwise", 4, True),
        ("capture", "Memory Ops", 2, False),
    ]


def test_quality_says_what_such_a_profile_cannot_tell() -> None:
    assert [row["code"] for row in rows(sample("tree_python"), "quality")] == ["no_timeline"]
    notes = {row["code"]: row for row in rows(sample("launch_metadata"), "quality")}
    assert set(notes) == {"no_timeline", "no_frames", "profiler_work"}
    assert (notes["profiler_work"]["count"], "2.1%" in notes["profiler_work"]["message"]) == (2, True)
    unknown = {row["code"]: row["message"] for row in rows(made(kernel("k", 1)), "quality")}
    assert "the file does not name it" in unknown["unknown_gpu"]


def test_call_paths_are_the_tree_with_every_metric() -> None:
    found = rows(sample("tree_shadow"), "call_paths")
    assert found[0]["parent"] is None
    assert [row["node"] for row in found] == list(range(26))
    for row in found[1:]:
        above = found[row["parent"]]
        assert above["depth"] == row["depth"] - 1
        for column in ("total_us", "count", "flops16", "bytes", "percent"):
            assert above[column] >= row[column]
    assert (found[0]["flops16"], found[0]["bytes"]) == (196_739_566_927_872, 320_228_818_944)


def test_a_metric_by_the_name_of_a_column_gets_another() -> None:
    frame = PATH_TABLES["call_paths"](made(kernel("k", 1, percent=3, kind=4), percent=0, kind=0)).frame
    assert frame["percent"].to_list() == [100, 100]
    assert frame["metric_percent"].to_list() == [3, 3]
    assert frame["metric_kind"].to_list() == [4, 4]


def test_scopes_with_what_users_said_of_them_and_how_fast_that_is() -> None:
    found = {row["scope"]: row for row in rows(sample("scopes"), "scopes")}
    inner, outer = found["inner"], found["outer"]
    assert (outer["count"], outer["total_us"], outer["tokens"], inner["tokens"]) == (2, 365.697, 192, 64)
    assert outer["tokens_per_s"] == pytest.approx(192 / 365.697e-6)
    assert inner["tbps"] == pytest.approx(8_388_608 / 309.601e-6 / 1e12, abs=1e-6)
    assert inner["cpu_time_ns"] == 40_055_927
    assert (inner["loss"], "loss_per_s" in inner) == (3.5, False)
    cublas = next(row for row in rows(sample("tree_shadow"), "scopes") if row["scope"] == "cublas")
    assert (cublas["paths"], cublas["count"], cublas["total_us"]) == (3, 9, 729.699)
    assert cublas["tflops"] == pytest.approx((6_442_450_944 + 51_539_607_552 + 412_316_860_416) / 729.699e-6 / 1e12)
    assert cublas["tbps"] is None


def test_a_scope_inside_itself_counts_once() -> None:
    (row,) = rows(made(node("f", kernel("k", 5), node("f", kernel("k", 3), tokens=2)), tokens=0), "scopes")
    assert (row["scope"], row["total_us"], row["count"], row["paths"], row["tokens"]) == ("f", 8.0, 2, 1, 2)


def test_stalls_of_a_line_without_samples_have_no_share() -> None:
    damaged = kernel("add", 1, num_samples=0, num_stalled_samples=5, stalled_barrier=5)
    found = rows(made(damaged, kernel("mm", 1, num_samples=4, num_stalled_samples=1)), "stalls")
    assert {row["kernel_short"]: row["stalled_percent"] for row in found} == {"mm": 25.0, "add": 0.0}


def test_shares_of_damaged_stalls_stay_shares() -> None:
    damaged = kernel("add", 1, num_samples=4, num_stalled_samples=9, stalled_wait=5, stalled_drain=-4)
    (row,) = rows(made(damaged), "stalls")
    assert (row["stalled_percent"], row["top_stall"], row["top_stall_percent"]) == (None, "wait", 100.0)


def test_stalls_by_kernel_and_line() -> None:
    hot = node(
        "k.py:12@mm", num_samples=60, num_stalled_samples=50, stalled_wait=10, stalled_selected=30, stalled_drain=10
    )
    cold = node("k.py:14@mm", num_samples=20, num_stalled_samples=0, stalled_wait=0)
    other = kernel("add", 1, num_samples=20, num_stalled_samples=5, stalled_barrier=5)
    work = made(node("a", kernel("mm", 5, hot, cold)), node("b", kernel("mm", 1, hot)), other)
    found = rows(work, "stalls")
    place = [(row["kernel_short"], row["file"], row["line"], row["function"], row["samples"]) for row in found]
    assert place == [("mm", "k.py", 12, "mm", 120), ("add", None, None, None, 20), ("mm", "k.py", 14, "mm", 20)]
    first = found[0]
    assert (first["stalled_samples"], first["percent"], first["stalled_percent"]) == (
        100,
        75.0,
        pytest.approx(83.333333),
    )
    assert (first["top_stall"], first["top_stall_percent"], first["stalled_selected"]) == ("drain", 50.0, 60)
    assert found[2]["top_stall"] is None


def test_stalls_of_a_real_profile() -> None:
    found = rows(sample("pcsampling"), "stalls")
    assert (found[0]["kernel_short"], found[0]["samples"], found[0]["top_stall"]) == (
        "fill int32 vec4",
        4_292_279,
        "drain",
    )
    assert sum(row["stalled_wait"] for row in found) == 1_223_703
    assert rows(sample("tree_shadow"), "stalls") == []


def test_stalls_by_line_of_a_real_profile() -> None:
    """Samples of launches in two scopes add up by kernel and line."""
    found = rows(sample("sampled_lines"), "stalls")
    assert [
        (row["line"], row["file"].rpartition("/")[2], row["kernel_short"], row["samples"]) for row in found[:1]
    ] == [(170, "standard.py", "softmax", 68067)]
    softmax = [row for row in found if row["kernel_short"] == "softmax"]
    assert sum(row["samples"] for row in softmax) == 125_132 and None not in {row["line"] for row in softmax}
    assert next(iter(found[0])) == "line"


def test_kernels_that_were_sampled_as_a_whole_are_named_with_what_lines_need() -> None:
    (some,) = PATH_TABLES["stalls"](sample("sampled_lines")).notes
    assert some.startswith("1 of 4 kernels have no samples by line (gemm f16 128x64 nnt sm90 nvjet 64x8 1x2): ")
    (every,) = PATH_TABLES["stalls"](sample("pcsampling")).notes
    assert every.startswith("13 of 13 kernels") and "TRITON_DISABLE_LINE_INFO=0" in every


def test_regions_of_a_tree_have_shares_of_their_kernels_outermost_ones() -> None:
    first = node("k", node("outer", node("inner", cycles=10), cycles=60), node("other", cycles=20))
    work = made(node("a", first), node("b", node("k", node("outer", cycles=20))))
    assert rows(work, "regions") == [
        {"kernel": "k", "region": "outer", "percent": 80.0, "cycles": 80.0},
        {"kernel": "k", "region": "other", "percent": 20.0, "cycles": 20.0},
        {"kernel": "k", "region": "outer / inner", "percent": 10.0, "cycles": 10.0},
    ]
    assert rows(sample("sampled_lines"), "regions") == []


def test_contexts_choose_the_callers() -> None:
    work = made(node("scope", node("t.py:1@f", kernel("k", 2), node("t.py:2@g", kernel("k", 3)))))
    assert shown_tree(work).name == ["all", "scope", "t.py(1): f", "k", "t.py(2): g", "k"]
    scopes = shown_tree(work, "annotation")
    assert (scopes.name, scopes.total_ns.tolist()) == (["all", "scope", "k"], [5000, 5000, 5000])
    assert shown_tree(work, "op").name == ["all", "k"]
    with pytest.raises(UsageError, match="no context 'line'"):
        shown_tree(work, "line")


def test_frames_can_be_spelled_shorter_and_become_one_where_they_are_equal() -> None:
    tree = made(node("a/t.py:1@f", kernel("k", 2)), node("a/t.py:2@f", kernel("k", 3, flops16=5)), flops16=0).tree
    assert with_frames(tree, "full").name == tree.name
    assert with_frames(tree, "file_function_line").name == ["all", "t.py(1): f", "k", "t.py(2): f", "k"]
    assert with_frames(tree, "function_line").name == ["all", "(1): f", "k", "(2): f", "k"]
    merged = with_frames(tree, "file_function")
    assert (merged.name, merged.total_ns.tolist()) == (["all", "t.py: f", "k"], [5000, 5000, 5000])
    assert merged.total("flops16").tolist() == [5, 5, 5]
    with pytest.raises(UsageError, match="no format"):
        with_frames(tree, "short")


def test_subtrees_leave_every_total() -> None:
    tree = sample("launch_metadata").tree
    rest = without_subtrees(tree, re.compile("__proton"))
    assert int(tree.total_ns[0] - rest.total_ns[0]) == 7488
    assert int(rest.total_count[0]) == 21
    assert rest.total("tokens")[0] == 64
    rest.self_check()


def test_two_trees_are_merged_by_path() -> None:
    first, second = made(node("a", kernel("k", 2))).tree, made(node("a", kernel("j", 3)), kernel("k", 1)).tree
    merged = MergedTrees(first, second)
    assert [merged.tree.path(each) for each in range(5)] == [[], ["a"], ["a", "k"], ["a", "j"], ["k"]]
    assert merged.spread(0, first.total_ns / 1e3, 0.0).tolist() == [2, 2, 2, 0, 0]
    assert merged.spread(1, second.total_ns / 1e3, 0.0).tolist() == [4, 3, 0, 3, 1]


def device(compute: str, multiprocessors: int, gbps: float = 0, mhz: float = 0) -> Meta:
    facts = {"memory bandwidth of GPU 0": f"{gbps} GB/s"} if gbps else {}
    facts |= {"clock of GPU 0": f"{mhz} MHz"} if mhz else {}
    return Meta(
        source="", format="", devices=(Device(0, compute=compute, multiprocessors=multiprocessors),), facts=facts
    )


@pytest.mark.parametrize(
    "compute, multiprocessors, gbps, mhz, name",
    [
        ("9.0", 132, 4814.3, 1980, "H200"),  # as recorded on one
        ("9.0", 132, 4814.3, 1785, "H200 NVL"),
        ("9.0", 132, 3352.3, 1980, "H100 SXM"),
        ("9.0", 132, 3939.0, 1785, "H100 NVL"),
        ("9.0", 132, 4023.0, 1980, "GH200"),
        ("9.0", 114, 2039.0, 1755, "H100 PCIe"),
        ("8.0", 108, 1555.2, 1410, "A100 40GB"),
        ("8.0", 108, 2039.0, 1410, "A100 SXM 80GB"),
        ("7.0", 80, 898.0, 1530, "V100 SXM2 16GB"),
        ("7.0", 80, 898.0, 1380, "V100 PCIe 16GB"),
        ("gfx942", 304, 5171.2, 2100, "MI300X"),
        ("gfx950", 256, 8000.0, 2400, "MI355X"),
        ("gfx950", 256, 8000.0, 2200, "MI350X"),
        ("8.9", 142, 864.0, 2520, None),  # L40 or L40S: not to be told apart
        ("9.0", 16, 600.0, 1980, None),  # a slice
        ("5.2", 8, 100.0, 1000, None),
        ("", 0, 0, 0, None),
    ],
)
def test_the_gpu_is_told_from_what_the_file_says(
    compute: str, multiprocessors: int, gbps: float, mhz: float, name: str | None
) -> None:
    found = gpu_of(device(compute, multiprocessors, gbps, mhz))
    assert (found.name if found else None) == name


def test_every_gpu_of_the_table_is_told_by_its_own_figures_or_not_at_all() -> None:
    for gpu in all_gpus():
        compute = gpu.architecture
        if compute.startswith("sm_"):
            compute = f"{compute[3:-1]}.{compute[-1]}"
        found = gpu_of(device(compute, gpu.multiprocessors, gpu.datasheet.bandwidth_tbps * 1e3))
        if found is not None:
            differing = {"fp64"} if gpu.name.startswith("H800") else set()
            dtypes = gpu.datasheet.matrix.keys() - differing
            assert found.datasheet.matrix.keys() == gpu.datasheet.matrix.keys()
            assert all(found.datasheet.matrix[dtype] == gpu.datasheet.matrix[dtype] for dtype in dtypes), gpu.name


def test_a_profile_opens_as_one_of_call_paths() -> None:
    profile = warplens.open(SAMPLES / "tree_shadow.hatchet.gz", cache=False)
    assert isinstance(profile.paths, CallPaths)  # type: ignore[union-attr]
    assert profile.table("kernel_categories").frame["count"].sum() == 14_784
    packed = warplens.open(SAMPLES / "scopes_3.9.hatchet_msgpack.gz", cache=False)
    assert packed.tree().total("tokens")[0] == 192
