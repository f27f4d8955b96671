"""Proton's call trees: every number of the file in a tree, and one clear error for what is none."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from support import ROOT, SHARED, distinct
from warplens.model.call_paths import CallPaths
from warplens.model.trace import Meta
from warplens.readers.proton import tree as proton_tree
from warplens.readers.proton.tree import is_msgpack
from warplens_run.base.errors import FormatError

SAMPLES = ROOT / "samples" / "proton"
REAL = distinct([*sorted(SAMPLES.glob("*.hatchet.gz")), *sorted((SHARED / "traces" / "proton").glob("*.hatchet.gz"))])
KERNEL = {"device_id": "0", "device_type": "CUDA"}


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def kernel(name: str, ns: Any, *children: dict[str, Any], count: Any = 1, **metrics: Any) -> dict[str, Any]:
    return node(name, *children, **{"time (ns)": ns, "count": count, **KERNEL, **metrics})


def tree_text(*children: dict[str, Any], devices: Any = None, **on_root: Any) -> bytes:
    root = node("ROOT", *children, **on_root)
    return json.dumps([root, {"CUDA": {"0": {"arch": "90", "num_sms": 132}}} if devices is None else devices]).encode()


def read(text: bytes) -> CallPaths:
    paths = proton_tree.read(text, Meta(source="x.hatchet", format=""), [])
    paths.tree.self_check()
    return paths


def read_file(path: Path) -> CallPaths:
    return read(gzip.decompress(path.read_bytes()))


def by_name(paths: CallPaths) -> dict[str, int]:
    return {name: number for number, name in enumerate(paths.tree.name)}


def codes(paths: CallPaths) -> list[str]:
    return [note.code for note in paths.quality.notes]


def summed(path: Path) -> Counter[str]:
    """The sums of a file by plain JSON, through no code of ours."""
    sums: Counter[str] = Counter()
    stack = [json.loads(gzip.decompress(path.read_bytes()))[0]]
    while stack:
        entry = stack.pop()
        for name, value in entry["metrics"].items():
            if not isinstance(value, str | list):
                sums[name] += value
        stack += entry["children"]
    return sums


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_totals_are_the_sums_of_the_file(path: Path) -> None:
    paths, sums = read_file(path), summed(path)
    tree = paths.tree
    assert int(tree.total_ns[0]) == sums.pop("time (ns)", 0)
    assert int(tree.total_count[0]) == sums.pop("count", 0)
    for nested in ("cpu_time (ns)", "cycles", "normalized_cycles"):
        sums.pop(nested, None)
    for name, total in sums.items():
        found = next(key for key in tree.metrics if key.removesuffix(" (exc)") == name)
        assert float(tree.metrics[found].sum()) == total, name
    assert codes(paths) == ([] if "3.9" not in path.name else ["no_gpu", "odd_metrics", "user_metrics"])


def test_a_shadow_tree_is_scopes_and_kernels() -> None:
    paths = read_file(SAMPLES / "tree_shadow.hatchet.gz")
    tree, at = paths.tree, by_name(paths)
    assert Counter(tree.kind) == {"root": 1, "annotation": 9, "kernel": 16}
    fastest = at["matmul_<grid:2048>_<warps:8>_<stages:3>"]
    assert tree.path(fastest) == ["matmul_8192_8192_1024", "triton", "matmul_<grid:2048>_<warps:8>_<stages:3>"]
    assert (tree.self_ns[fastest], tree.self_count[fastest]) == (100_300_083, 414)
    assert tree.metrics["flops16"][fastest] == 56_899_726_737_408
    assert paths.device[fastest] == 0
    assert paths.device[0] == -1
    assert paths.meta.format == "Proton call tree"
    assert paths.meta.events_in_file == 26


def test_a_python_tree_is_frames_and_kernels() -> None:
    paths = read_file(SAMPLES / "tree_python.hatchet.gz")
    assert Counter(paths.tree.kind) == {"root": 1, "python": 53, "kernel": 41}
    assert "traces/proton_tree_python.py(20): go" in paths.tree.name
    assert "site-packages/triton/runtime/jit.py(370): <lambda>" in paths.tree.name


def test_the_gpu_of_the_file_is_described() -> None:
    meta = read_file(SAMPLES / "tree_shadow.hatchet.gz").meta
    (gpu,) = meta.devices
    assert (gpu.id, gpu.name, gpu.compute, gpu.multiprocessors, gpu.warp_size) == (0, "", "9.0", 132, 32)
    assert meta.facts == {"clock of GPU 0": "1980 MHz", "memory bandwidth of GPU 0": "4814.3 GB/s"}
    amd = {"HIP": {"1": {"arch": "gfx942", "num_sms": 304, "bus_width": 8192, "memory_clock_rate": 2525000}}}
    meta = read(tree_text(devices=amd)).meta
    assert (meta.devices[0].id, meta.devices[0].compute, meta.devices[0].warp_size) == (1, "gfx942", 64)
    assert meta.facts == {"memory bandwidth of GPU 1": "5171.2 GB/s"}


def test_a_packed_tree_is_the_same_tree() -> None:
    """Both written by Triton 3.9 from one session."""
    plain = read_file(SAMPLES / "scopes_3.9.hatchet.gz")
    packed_text = gzip.decompress((SAMPLES / "scopes_3.9.hatchet_msgpack.gz").read_bytes())
    packed = read(packed_text)
    assert is_msgpack(packed_text)
    assert plain.tree.name == packed.tree.name == ["all", "outer", "inner"]
    assert {name: values.tolist() for name, values in packed.tree.metrics.items()} == {
        name: values.tolist() for name, values in plain.tree.metrics.items()
    }
    assert packed.tree.total("tokens").tolist() == [192, 192, 64]
    assert codes(plain) == codes(packed)


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_packing_a_real_tree_changes_nothing(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    packed = msgspec.msgpack.encode(json.loads(text))
    assert is_msgpack(packed)
    assert not is_msgpack(text)
    one, two = read(text), read(packed)
    assert one.tree.name == two.tree.name
    assert np.array_equal(one.tree.total_ns, two.tree.total_ns)
    assert one.meta == two.meta


def test_only_packed_trees_are_taken_for_one() -> None:
    assert is_msgpack(b"\x92\x83\xa5frame\x82")
    assert is_msgpack(b"\x91\x83\xa8children\x90")
    assert is_msgpack(b"\x92\x83\xa7metrics\x80")
    for other in (b"", b"\x92", b"[{", b"\x93\x01\x02\x03", b"\x92\x83\xa4name", b"\x83\xa5frame", b"PK\x03\x04"):
        assert not is_msgpack(other)


def test_source_lines_in_a_kernel_keep_their_samples_and_the_kernel_its_time() -> None:
    line = node("/home/me/k.py:12@matmul", num_samples=30, num_stalled_samples=20, stalled_wait=20)
    paths = read(tree_text(node("scope", kernel("matmul", 5000, line, count=2, num_samples=1)), num_samples=0))
    tree, at = paths.tree, by_name(paths)
    assert tree.kind == ["root", "annotation", "kernel", "line"]
    place = at["/home/me/k.py(12): matmul"]
    assert (tree.self_ns[at["matmul"]], tree.total_ns[at["matmul"]], tree.self_ns[place]) == (5000, 5000, 0)
    assert tree.metrics["num_samples"].tolist() == [0, 0, 1, 30]
    assert tree.total("num_samples")[0] == 31


def test_scopes_inside_a_kernel_have_cycles_that_include_the_inner_ones() -> None:
    """`whole` ran 23,184 cycles, 2,503 of them in `load`."""
    paths = read_file(SAMPLES / "instrumented.hatchet.gz")
    assert list(zip(paths.tree.name, paths.tree.kind, strict=True)) == [
        ("all", "root"), ("bar", "kernel"), ("whole", "gpu_annotation"), ("load", "gpu_annotation"),
    ]  # fmt: skip
    assert paths.tree.metrics["cycles"].tolist() == [0, 0, 20_681, 2_503]
    assert paths.tree.total("cycles").tolist() == [23_184, 23_184, 23_184, 2_503]
    # Later versions put a 0 on the root, to say that the metric exists.
    inner = node("load", cycles=3, **KERNEL)
    newer = read(tree_text(node("bar", node("whole", inner, cycles=10)), cycles=0))
    assert newer.tree.total("cycles").tolist() == [10, 10, 10, 3]


def test_host_time_of_scopes_includes_that_of_inner_ones() -> None:
    paths = read_file(SAMPLES / "scopes.hatchet.gz")
    at = by_name(paths)
    total = paths.tree.total("cpu_time_ns")
    assert (total[at["outer"]], total[at["inner"]], total[0]) == (190_888_663, 40_055_927, 190_888_663)
    assert paths.tree.metrics["cpu_time_ns"][at["outer"]] == 190_888_663 - 40_055_927


def test_between_python_frames_scopes_do_not_nest_so_their_host_times_are_not_added() -> None:
    enter = "site-packages/triton/profiler/scope.py:46@_enter_scope"
    frames = [node(f"a.py:{line}@go", node(enter, **{"cpu_time (ns)": 50})) for line in (1, 2)]
    assert set(read(tree_text(*frames)).tree.metrics) == {"cpu_time_ns (exc)"}


def test_what_the_root_names_is_added_up_and_the_rest_stays_where_it_is() -> None:
    """In Triton 3.6 the root names the metrics that may be added."""
    paths = read_file(SAMPLES / "scopes.hatchet.gz")
    assert {"tokens", "ver", "flops32", "bytes", "loss (exc)"} <= set(paths.tree.metrics)
    assert paths.tree.total("tokens")[0] == 192


def test_where_the_root_names_nothing_all_is_added_up_and_said() -> None:
    paths = read(tree_text(node("a", node("b", tokens=1, flops8=2), tokens=2)))
    assert paths.tree.total("tokens").tolist() == [3, 3, 1]
    (note,) = [note for note in paths.quality.notes if note.code == "user_metrics"]
    assert note.detail == "tokens"


def test_suffixes_say_how_a_metric_is_meant() -> None:
    inner = node("b", **{"energy (J) (inc)": 4, "loss (exc)": 1.5, "ver (pty)": 7})
    tree = read(tree_text(node("a", inner, **{"energy (J) (inc)": 10}), tokens=0)).tree
    assert tree.metrics["energy_J"].tolist() == [0, 6, 4]
    assert tree.total("energy_J").tolist() == [10, 10, 4]
    assert tree.metrics["loss (exc)"].tolist() == [0, 0, 1.5]
    assert tree.metrics["ver (exc)"].tolist() == [0, 0, 7]


def test_a_graphs_kernels_stand_below_the_place_of_capture() -> None:
    paths = read_file(SAMPLES / "cuda_graph.hatchet.gz")
    tree, at = paths.tree, by_name(paths)
    assert tree.path(at["foo"]) == ["replay", "<captured_at>", "capture", "in_graph", "foo"]
    assert tree.kind[at["<captured_at>"]] == "other"
    assert (tree.self_ns[at["foo"]], tree.self_count[at["foo"]]) == (1_234_116, 4)
    assert tree.kind[at["foo_n"]] == "annotation"  # captured, not run


def test_what_the_profiler_ran_for_itself_is_marked() -> None:
    paths = read_file(SAMPLES / "launch_metadata.hatchet.gz")
    at = by_name(paths)
    assert paths.tree.kind[at["__proton_launch_metadata"]] == "overhead"
    assert int(paths.tree.total_ns[at["__proton_launch_metadata"]]) == 5344 + 2144
    named = read(tree_text(node("__proton_launch_metadata:foo", kernel("k", 5)), node("<metric>", kernel("k", 5))))
    assert named.tree.kind == ["root", "overhead", "kernel", "overhead", "kernel"]


def test_the_spelling_of_old_files_is_understood() -> None:
    old = node("foo", **{"Time (ns)": 5, "Count": 2, "DeviceId": "1", "DeviceType": "CUDA"})
    paths = read(tree_text(node("/home/me/test.py:go@7", old)))
    assert paths.tree.name == ["all", "/home/me/test.py(7): go", "foo"]
    assert paths.tree.kind == ["root", "python", "kernel"]
    assert (int(paths.tree.total_ns[0]), int(paths.tree.total_count[0]), paths.device[2]) == (5, 2, 1)


def test_several_roots_and_equal_siblings_are_one_tree() -> None:
    first, second = node("ROOT", node("a", kernel("k", 3))), node("ROOT", node("a", kernel("k", 4)), kernel("k", 1))
    paths = read(json.dumps([first, second]).encode())
    assert paths.tree.name == ["all", "a", "k", "k"]
    assert paths.tree.total_ns.tolist() == [8, 7, 7, 1]
    assert paths.meta.devices == ()
    assert read(json.dumps(first).encode()).tree.total_ns[0] == 3


def test_one_kernel_on_two_gpus_belongs_to_neither() -> None:
    twice = [kernel("k", 1), {**kernel("k", 1), "metrics": {"time (ns)": 1, "device_id": "1"}}]
    assert read(tree_text(*twice)).device == (-1, -1)


@pytest.mark.parametrize(
    "value, ns, code",
    [
        ("120", 120, None), (12.4, 12, None), (-5, 0, "negative_duration"), (None, 0, "bad_metrics"),
        (float("nan"), 0, "bad_metrics"), (float("inf"), 0, "bad_metrics"), (1 << 60, 0, "bad_metrics"),
        (10**400, 0, "bad_metrics"), ("soon", 0, "odd_metrics"), ([1], 0, "odd_metrics"),
    ],
)  # fmt: skip
def test_values_that_are_no_times(value: Any, ns: int, code: str | None) -> None:
    paths = read(tree_text(kernel("bad", value), kernel("good", 1000), **{"time (ns)": 0, "count": 0}))
    assert paths.tree.kind == ["root", "kernel", "kernel"]
    assert paths.tree.self_ns.tolist() == [0, ns, 1000]
    assert codes(paths) == ([code] if code else [])


def test_negative_amounts_are_kept_and_said() -> None:
    paths = read(tree_text(kernel("k", 10, bytes=-5, flops16=3, loss=-1), bytes=0, loss=0))
    assert paths.tree.metrics["bytes"][1] == -5
    (note,) = paths.quality.notes
    assert (note.code, note.count, note.detail) == ("negative_metrics", 1, "bytes")


def test_entries_that_are_no_nodes_are_skipped_and_counted() -> None:
    broken = node("a", kernel("k", 5))
    broken["children"] += [None, 3, "text"]
    nameless = {"frame": {}, "metrics": [], "children": None}
    paths = read(tree_text(broken, nameless))
    assert paths.tree.name == ["all", "a", "k", "(no name)"]
    assert {note.code: note.count for note in paths.quality.notes} == {"damaged": 3, "unnamed": 1}


def test_bytes_that_are_no_text_are_replaced() -> None:
    text = tree_text(kernel("k?", 5)).replace(b"k?", b"k\xff")
    paths = read(text)
    assert (paths.tree.name[1], codes(paths)) == ("k�", ["bad_text"])
    assert read(text.replace(b"k\xff", b"\\ud800")).tree.name[1] == "?"


def test_a_tree_without_gpu_work_says_so() -> None:
    assert codes(read(tree_text())) == ["no_gpu"]


def test_frames_nested_deep_are_walked() -> None:
    chain = kernel("k", 7)
    for depth in range(400):
        chain = node(f"f.py:{depth}@g", chain)
    tree = read(tree_text(chain)).tree
    assert (int(tree.depth[-1]), int(tree.total_ns[1])) == (401, 7)


BAD = {
    "cut": tree_text(node("a", kernel("k", 5)))[:60],
    "a list of numbers": b"[1, 2]",
    "no root": b'[{"CUDA": {}}]',
    "nested too deep": b'[{"children":' * 200_000,
    "packed and cut": msgspec.msgpack.encode([node("ROOT", kernel("k", 5)), {}])[:30],
    "packed and longer": msgspec.msgpack.encode([node("ROOT"), {}]) + b"\x00",
    "times beyond all sums": tree_text(*(kernel(f"k{n}", 1 << 53) for n in range(600))),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_damaged_file_is_one_clear_error(text: bytes) -> None:
    with pytest.raises(FormatError, match=r"^x\.hatchet: a (?:damaged )?Proton tree") as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.nightly
def test_random_damage_gives_a_tree_or_one_error() -> None:
    texts = [gzip.decompress(path.read_bytes()) for path in sorted(SAMPLES.glob("*.gz"))]
    chance = random.Random(7)
    refused = 0
    for _ in range(300):
        text = bytearray(chance.choice(texts))
        for _ in range(chance.randint(1, 4)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        try:
            read(bytes(text))
        except FormatError as error:
            assert "\n" not in str(error)
            refused += 1
    assert 0 < refused < 300
