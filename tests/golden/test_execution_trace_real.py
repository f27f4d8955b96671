"""Real ExecutionTraces and the Kineto traces of the same runs, against plain JSON read by none of our code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import warplens
from support import ROOT, SHARED, raw_events
from warplens.analyses import Workspace
from warplens.analyses.work.arguments import arguments
from warplens.readers.execution_trace.join import join, joined_share
from warplens.readers.execution_trace.nodes import decode_nodes

REPLAY = SHARED / "traces" / "replay"
PAIRS = [
    ROOT / "samples" / "execution_trace" / "mlp_train.json.gz",
    *(path for path in sorted(REPLAY.glob("*.json.gz")) if not path.name.endswith(".et.json.gz")),
]
OPS = {
    # trace: op events of the Kineto file, all of which must find their node
    "mlp_train": 166,
    "bloom560m_infer": 21_325,
    "gpt2_compiled": 899,
    "gpt2_train": 7_134,
    "resnet50_train": 3_141,
}


class Pair(NamedTuple):
    kineto: Path
    name: str
    text: bytes
    nodes: list[dict[str, Any]]


@pytest.fixture(params=PAIRS, ids=lambda path: path.name.removesuffix(".json.gz"), scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    kineto: Path = request.param
    name = kineto.name.removesuffix(".json.gz")
    text = unzipped(kineto.with_name(f"{name}.et.json.gz"))
    return Pair(kineto, name, text, json.loads(text)["nodes"])


def unzipped(path: Path) -> bytes:
    with gzip.open(path) as stream:
        return stream.read()


def fact(node: dict[str, Any], name: str) -> Any:
    return next((each["value"] for each in node["attrs"] if each["name"] == name), None)


def test_every_node_is_decoded(pair: Pair) -> None:
    frame = decode_nodes(pair.text, pair.name).frame
    assert frame["name"].to_list() == [node["name"] for node in pair.nodes]
    assert frame["node"].to_list() == [node["id"] for node in pair.nodes]
    assert frame["record_id"].to_list() == [fact(node, "rf_id") for node in pair.nodes]
    parts = {"values": "inputs", "shapes": "input_shapes", "types": "input_types", "strides": "input_strides"}
    for part, column in parts.items():
        assert [json.loads(text) for text in frame[column]] == [node["inputs"][part] for node in pair.nodes]


def test_every_op_finds_the_node_of_its_own_call(pair: Pair) -> None:
    trace = join(warplens.open(pair.kineto, cache=False).trace, unzipped(pair.kineto), pair.text)
    ops = [event for event in raw_events(pair.kineto) if event["ph"] == "X" and event.get("cat") == "cpu_op"]
    assert len(ops) == OPS[pair.name]
    assert joined_share(trace) == 1.0
    note = next(note for note in trace.quality.notes if note.code == "execution_trace")
    assert (note.count, note.detail) == (len(ops), "100.0 %")
    node_of = {fact(node, "rf_id"): node for node in pair.nodes}
    record_of = {event["args"]["External id"]: event["args"]["Record function id"] for event in ops}
    external = trace.ints("external_id")
    is_op = trace.is_kind("op")
    seen = 0
    for row in trace.arguments.iter_rows(named=True):
        if not is_op[row["id"]]:
            continue
        node = node_of[record_of[external[row["id"]]]]
        assert (row["node"], row["schema"]) == (node["id"], fact(node, "op_schema"))
        assert json.loads(row["inputs"]) == node["inputs"]["values"]
        assert json.loads(row["input_shapes"]) == node["inputs"]["shapes"]
        assert json.loads(row["output_types"]) == node["outputs"]["types"]
        assert row["kernel_file"] == fact(node, "kernel_file")
        seen += 1
    assert seen == len(ops)


def test_shapes_of_both_files_agree(pair: Pair) -> None:
    """Kineto's own `Input Dims` are a second witness that the pairs are right; it leaves lists and scalars out."""
    trace = join(warplens.open(pair.kineto, cache=False).trace, unzipped(pair.kineto), pair.text)
    dims = trace.specs["input_dims"].to_list()
    spec, is_op = trace.ints("spec"), trace.is_kind("op")
    compared = 0
    for row, shapes, types in trace.arguments.select("id", "input_shapes", "input_types").iter_rows():
        if not is_op[row] or not dims[spec[row]]:
            continue
        told = json.loads(dims[spec[row]])
        for here, there, kind in zip(told, json.loads(shapes), json.loads(types), strict=False):
            if kind.startswith("Tensor"):
                assert here == there
                compared += 1
    assert compared > 100


def test_gpu_time_by_arguments_is_the_gpu_time_of_ops(pair: Pair) -> None:
    trace = join(warplens.open(pair.kineto, cache=False).trace, unzipped(pair.kineto), pair.text)
    work = Workspace(trace)
    table = arguments(work)
    of_ops = work.gpu.filter((pl.col("op_row") >= 0) & (pl.col("op_row") == pl.col("owner")))["dur_ns"].sum()
    assert round(table.frame["kernel_us"].sum() * 1000) == of_ops > 0
    assert table.frame["count"].sum() == table.frame["joined"].sum() == OPS[pair.name]
