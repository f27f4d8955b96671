"""`.hatchet` files: what Proton's viewer and Hatchet open; totals stay, and a tree of sums comes back as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from support import ROOT, SAMPLES, Opened, kernel, launch, op
from warplens.model.call_paths import CallPaths
from warplens.model.trace import Meta
from warplens.model.tree import build_tree
from warplens.outputs.hatchet import hatchet_bytes
from warplens.profiles.call_paths import PathsProfile
from warplens_run.base.errors import UsageError

PROTON = sorted((ROOT / "samples" / "proton").glob("*.hatchet*.gz"))
OTHERS = [ROOT / "samples" / "ncu" / f"{name}.csv.gz" for name in ("ncu_raw", "kernels_lines")]


def reopened(paths: CallPaths, folder: Path) -> PathsProfile:
    file = folder / "x.hatchet"
    file.write_bytes(hatchet_bytes(paths))
    profile = warplens.open(file, cache=False)
    assert isinstance(profile, PathsProfile)
    return profile


def nodes(paths: CallPaths) -> dict[tuple[str, ...], Any]:
    """By path: kind, own time, own count, GPU, and the metrics that are not 0."""
    tree = paths.tree
    return {
        tuple(tree.path(node)): (
            tree.kind[node],
            int(tree.self_ns[node]),
            int(tree.self_count[node]),
            paths.device[node] if paths.device else -1,
            {name: pytest.approx(float(values[node])) for name, values in tree.metrics.items() if values[node]},
        )
        for node in range(len(tree))
    }


@pytest.mark.parametrize("path", PROTON, ids=lambda path: path.name)
def test_a_tree_of_sums_comes_back_as_it_was(path: Path, tmp_path: Path) -> None:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, PathsProfile)
    again = reopened(profile.call_paths(), tmp_path).paths
    assert nodes(again) == nodes(profile.paths)
    assert again.meta.devices == profile.meta.devices
    assert set(again.tree.metrics) == set(profile.paths.tree.metrics)


@pytest.mark.parametrize("path", [*SAMPLES, *OTHERS], ids=lambda path: path.name)
def test_totals_and_kernels_of_any_profile_stay(path: Path, tmp_path: Path) -> None:
    profile = warplens.open(path, cache=False)
    paths = profile.call_paths()
    again = reopened(paths, tmp_path)
    assert again.paths.tree.total_ns[0] == paths.tree.total_ns[0] == profile.tree().total_ns[0]
    assert again.paths.tree.total_count[0] == paths.tree.total_count[0]
    for name, values in paths.tree.metrics.items():
        assert again.paths.tree.metrics[name].sum() == pytest.approx(values.sum())
    by_kernel = "select kernel, sum(total_us) as us from kernels group by kernel"
    if len(profile.table("kernels")):
        sums = [dict(opened.sql(by_kernel).to_polars().iter_rows()) for opened in (profile, again)]
        assert sums[0] == pytest.approx(sums[1])


def test_a_trace_has_the_flops_of_its_ops_by_width(opened: Opened) -> None:
    shapes = {
        "Input Dims": [[64, 32], [32, 16]],
        "Input type": ["c10::Half", "c10::Half"],
        "Input Strides": [[32, 1], [16, 1]],
    }
    events = [
        op("aten::mm", 0, 10, **shapes), launch(1, 2, 1), kernel("gemm_a", 10, 30, 1), launch(4, 2, 2), kernel("gemm_b", 40, 10, 2),
    ]  # fmt: skip
    tree = opened(events).call_paths().tree
    kernels = {tree.name[node]: node for node in range(len(tree)) if tree.kind[node] == "kernel"}
    flops = 2 * 64 * 32 * 16
    assert tree.metrics["flops16"][kernels["gemm_a"]] == pytest.approx(0.75 * flops)
    assert tree.metrics["flops16"][kernels["gemm_b"]] == pytest.approx(0.25 * flops)
    assert tree.metrics["bytes"].sum() == pytest.approx(2 * (64 * 32 + 32 * 16 + 64 * 16))


def written(profile: warplens.Opened) -> list[Any]:
    content: list[Any] = json.loads(hatchet_bytes(profile.call_paths()))
    return content


def each_node(root: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = [root]
    for node in nodes:
        nodes += node["children"]
    return nodes


def test_nodes_have_what_hatchet_reads_and_frames_protons_spelling() -> None:
    path = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
    profile = warplens.open(path, cache=False)
    root, devices = written(profile)
    assert (root["frame"], root["metrics"]["time (ns)"]) == ({"name": "ROOT", "type": "function"}, 0)
    assert {"count", "bytes", "flops16"} <= set(root["metrics"])
    everything = each_node(root)
    assert all(set(node) == {"frame", "metrics", "children"} for node in everything)
    assert sum(node["metrics"].get("time (ns)", 0) for node in everything) == profile.tree().total_ns[0]
    assert any(node["frame"]["name"] == "collect.py:68@step" for node in everything)
    leaves = [node for node in everything if not node["children"]]
    assert {node["metrics"]["device_id"] for node in leaves} == {"0"}
    facts = {"arch": "90", "name": "NVIDIA H200", "num_sms": 132, "memory_bytes": 150109880320, "warp_size": 32}
    assert devices == {"CUDA": {"0": facts}}  # no clocks: a trace does not record them


def test_deep_paths_are_written_without_recursion(tmp_path: Path) -> None:
    depth = 20_000
    parent = np.arange(-1, depth - 1)
    kinds = ["root", *["python"] * (depth - 2), "kernel"]
    names = ["all", *[f"f.py({line}): g" for line in range(1, depth - 1)], "k"]
    own = np.zeros(depth, np.int64)
    own[-1] = 5
    tree = build_tree(parent, names, kinds, own, own // 5, "GPU time")
    text = hatchet_bytes(CallPaths(Meta("x", "made"), tree))
    assert text.count(b'"children":[') == depth
    assert text.endswith(b"]}" * depth + b",{}]\n")


def test_several_gpus_in_one_trace_have_no_number_of_their_own(opened: Opened) -> None:
    on_other = {**kernel("k", 10, 5, 2), "pid": 1, "args": {"device": 1, "stream": 7, "correlation": 2}}
    header = {
        "deviceProperties": [{"id": 0, "name": "a", "computeMajor": 9}, {"id": 1, "name": "b", "computeMajor": 9}]
    }
    profile = opened([launch(0, 2, 1), kernel("k", 5, 5, 1), launch(4, 2, 2), on_other], header)
    root, devices = written(profile)
    assert all("device_id" not in node["metrics"] for node in each_node(root))
    assert set(devices["CUDA"]) == {"0", "1"}


def test_what_has_no_call_paths_is_refused_by_name(tmp_path: Path) -> None:
    snapshot = ROOT / "samples" / "replay"
    result = next(iter(sorted(snapshot.glob("*.result.json*"))), None)
    profile = warplens.open(result if result is not None else ROOT / "samples" / "ranks" / "nccl4")
    with pytest.raises(UsageError, match="without call paths"):
        profile.call_paths()


@pytest.mark.skipif(find_spec("hatchet") is None, reason="needs llnl-hatchet, which only Proton's viewer needs")
@pytest.mark.parametrize("name", ["gpt2_train_step.json.gz", "bloom_prefill.json.gz"])
def test_protons_viewer_and_hatchet_open_it(name: str, tmp_path: Path) -> None:
    profile = warplens.open(next(path for path in SAMPLES if path.name == name), cache=False)
    file = tmp_path / "x.hatchet"
    file.write_bytes(hatchet_bytes(profile.call_paths()))
    command = [sys.executable, "-m", "triton.profiler.viewer", "-m", "time/ms,tflop16/s,tbyte/s", str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(shown.split()[0]) == pytest.approx(profile.tree().total_ns[0] / 1e6, abs=0.001)
    code = "import hatchet, json, sys; g = hatchet.GraphFrame.from_literal(json.load(open(sys.argv[1]))[:1])"
    summed = f"{code}; print(int(g.dataframe['time (ns)'].sum()))"
    total = subprocess.run([sys.executable, "-c", summed, str(file)], capture_output=True, text=True, check=True).stdout
    assert int(total) == profile.tree().total_ns[0]
