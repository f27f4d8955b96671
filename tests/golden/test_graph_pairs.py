"""Real servers: captures joined with replays, checked against the files themselves.

ROCm's captured launches name their kernels and the op around them, so what each kernel belongs to can be read off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warplens
from support import SHARED, raw_events
from warplens.model.check import self_check

SERVING = SHARED / "traces" / "serving"
PAIRS = {"sglang_decode": 544, "vllm_piecewise": 361}
"""Kernels in graphs."""


def pair(name: str) -> tuple[Path, Path]:
    files = SERVING / f"{name}.replay.json.gz", SERVING / f"{name}.capture.json.gz"
    if not files[0].exists():
        pytest.skip("the traces of servers are not beside the checkout")
    return files


def captured_calls(events: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Kernel and op of each launch, by graph in the order of capture."""
    ops = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "cpu_op"}
    graphs: list[list[tuple[str, str]]] = []
    is_open = False
    for event in sorted((event for event in events if event.get("cat") == "cuda_runtime"), key=lambda own: own["ts"]):
        if event["name"].endswith("BeginCapture"):
            graphs.append([])
        is_open = (is_open or event["name"].endswith("BeginCapture")) and not event["name"].endswith("EndCapture")
        if is_open and "kernel" in event["args"]:
            graphs[-1].append((event["args"]["kernel"], ops.get(event["args"].get("External id"), event["name"])))
    return graphs


@pytest.mark.parametrize("name", PAIRS)
def test_each_kernel_of_a_servers_graphs_has_the_op_that_the_capture_records_for_it(name: str) -> None:
    replay, capture = pair(name)
    profile = warplens.open(replay, graph_captures=[capture], cache=False).with_timeline()
    self_check(profile.trace)
    launches = profile.trace.graph_launches
    assert int(launches["events"].sum()) == PAIRS[name]
    assert launches["joined_ns"].sum() / launches["gpu_ns"].sum() >= 0.95
    expected = captured_calls(raw_events(capture))
    gpu = profile.workspace.gpu.filter(in_graph=True).sort("start_ns")
    rows = [
        gpu.filter(launch=launch).select("kernel", "op").rows()
        for launch in gpu["launch"].unique(maintain_order=True).to_list()
    ]
    assert rows == expected


@pytest.mark.parametrize("name", PAIRS)
def test_a_capture_gives_the_time_of_graphs_a_roofline(name: str) -> None:
    replay, capture = pair(name)
    joined, alone = (warplens.open(replay, graph_captures=files, cache=False) for files in ([capture], []))
    assert {op.removeprefix("hip") for op in alone.table("graph_ops").frame["op"]} == {"GraphLaunch"}
    assert "GraphLaunch" not in "".join(joined.table("graph_ops").frame["op"])
    modelled = [float(profile.table("roofline").frame["total_us"].sum()) for profile in (joined, alone)]
    assert modelled[0] > 5 * modelled[1]
