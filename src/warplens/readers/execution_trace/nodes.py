"""The nodes of a PyTorch ExecutionTrace (Chakra) as a frame, whatever the version of the file.

Written by torch/csrc/profiler/standalone/execution_trace_observer.cpp. Schemas 1.0.0 and 1.0.1 spread a node's facts
over flat keys (`parent`, `input_shapes` …); from 1.0.2-chakra on they stand under `inputs`, `outputs` and `attrs`.
1.0.4 added the file of a Triton kernel, 1.1.1 strides and the ranges of index tensors. A call's node is written when
the call returns, so a node's caller stands behind it, with a smaller id.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import polars as pl
from msgspec import Raw, Struct

from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.readers.kineto.records import UNREADABLE
from warplens.readers.shared.gc_pause import gc_paused
from warplens.readers.shared.json_value import is_cut, value_at
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

EMPTY: Final = Raw(b"[]")
HEAD_BYTES: Final = 1 << 16
UNFINISHED: Final = "check that the observer was unregistered before the program ended and the file is complete"
LISTS: Final = (
    # JSON as the file writes it; a tensor among values is [id, storage id, offset, elements, element size, device].
    *("inputs", "input_shapes", "input_types", "input_strides"),
    *("outputs", "output_shapes", "output_types"),
)
COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    "node": pl.Int64,
    "name": pl.String,
    "record_id": pl.Int64,
    "schema": pl.String,
    "kernel_file": pl.String,
    "tensor_range": pl.String,
    **dict.fromkeys(LISTS, pl.String),
}


class Attribute(Struct, gc=False):
    name: str
    value: object = None


class NodeValues(Struct, gc=False):
    values: Raw = EMPTY
    shapes: Raw = EMPTY
    types: Raw = EMPTY
    strides: Raw = EMPTY


class ExecutionNode(Struct, gc=False):
    id: int
    name: str
    inputs: NodeValues = msgspec.field(default_factory=NodeValues)
    outputs: NodeValues = msgspec.field(default_factory=NodeValues)
    attrs: list[Attribute] = []


class FlatNode(Struct, gc=False):
    """A node of schemas 1.0.0 and 1.0.1."""

    id: int
    name: str
    rf_id: int = NONE
    op_schema: str = ""
    inputs: Raw = EMPTY
    input_shapes: Raw = EMPTY
    input_types: Raw = EMPTY
    outputs: Raw = EMPTY
    output_shapes: Raw = EMPTY
    output_types: Raw = EMPTY


class NodesFile(Struct):
    pid: int | None = None
    nodes: list[ExecutionNode] = []


class FlatNodesFile(Struct):
    pid: int | None = None
    nodes: list[FlatNode] = []


class NodeColumns(NamedTuple):
    """The columns of `COLUMNS`: numbers and names, and lists as the file writes them."""

    facts: Mapping[str, Sequence[int | str]]
    lists: dict[str, list[Raw]]


N = TypeVar("N", ExecutionNode, FlatNode)


@dataclass(frozen=True)
class NodeLayout(Generic[N]):
    """How one family of versions writes its nodes."""

    file: Callable[[bytes], tuple[int | None, list[N]]]
    """The number of the process, and the nodes."""
    node: msgspec.json.Decoder[N]
    columns: Callable[[list[N]], NodeColumns]
    start: re.Pattern[bytes]
    """Where a node begins; nothing inside one looks like it."""
    name: re.Pattern[str]
    """Its name, with what stands around it."""


PROCESS: Final = re.compile(rb'"pid"\s*:\s*(\d{1,18})')
NODES: Final = re.compile(rb'"nodes"\s*:\s*\[')
AFTER_NODES: Final = re.compile(r"[\s,]*\]")


@dataclass(frozen=True)
class Nodes:
    """One row of `frame` (see `COLUMNS`) per node; `damage` counts what could not be read."""

    frame: pl.DataFrame
    process: int | None
    damage: Counter[str]

    def notes(self) -> list[Note]:
        notes = []
        if self.damage["truncated"]:
            notes.append(Note("truncated", detail="the ExecutionTrace is incomplete"))
        if self.damage["damaged"]:
            notes.append(Note("damaged", self.damage["damaged"], "nodes of the ExecutionTrace"))
        return notes


def decode_nodes(text: bytes, where: str) -> Nodes:
    """All nodes that are whole, or one clear error where there is none."""
    with gc_paused():
        if b'"ctrl_deps"' in text[:HEAD_BYTES]:
            return _decoded(text, where, NESTED)
        return _decoded(text, where, FLAT)


def _decoded(text: bytes, where: str, layout: NodeLayout[N]) -> Nodes:
    damage: Counter[str] = Counter()
    try:
        process, nodes = layout.file(text)
    except UNREADABLE:
        process, nodes = _process(text), _scan(text, layout, damage)
    if not nodes:
        why = "damaged before its first complete node" if damage.total() else "without nodes"
        raise FormatError(f"an ExecutionTrace {why}", where=where, hint=UNFINISHED)
    return Nodes(_frame(layout.columns(nodes)), process, damage)


def _process(text: bytes) -> int | None:
    match = PROCESS.search(text, 0, HEAD_BYTES)
    return int(match[1]) if match else None


def _scan(text: bytes, layout: NodeLayout[N], damage: Counter[str]) -> list[N]:
    """Node by node through a file that is not sound JSON."""
    begin = NODES.search(text)
    starts: list[int] = [match.start() for match in layout.start.finditer(text, begin.end())] if begin else []
    nodes: list[N] = []
    for start, end in pairwise([*starts, len(text)]):
        is_last = end == len(text)
        piece = text[start:end]
        try:
            nodes.append(layout.node.decode(piece.rstrip(b", \t\r\n")))
            damage["truncated"] += is_last  # nothing closes the list behind it
        except UNREADABLE:
            nodes += _salvage(piece.decode(errors="replace"), layout, damage, is_last=is_last)
    damage["truncated"] += not starts
    return nodes


def _salvage(piece: str, layout: NodeLayout[N], damage: Counter[str], *, is_last: bool) -> list[N]:
    """The node at the start of a piece, if it is whole but for its name, which PyTorch writes without escapes."""
    error: Exception | None = None
    for candidate in (piece, layout.name.sub(_escaped, piece, count=1)):
        try:
            _, end = value_at(candidate, 0)
            node = layout.node.decode(candidate[:end].encode())
        except (ValueError, *UNREADABLE) as reason:
            error = error or reason
            continue
        damage["truncated"] += is_last and AFTER_NODES.match(candidate, end) is None
        return [node]
    cut = is_last and error is not None and is_cut(error)
    damage["truncated" if cut else "damaged"] += 1
    return []


def _escaped(name: re.Match[str]) -> str:
    return name[1] + json.dumps(name[2])[1:-1] + name[3]


def _nested_columns(nodes: list[ExecutionNode]) -> NodeColumns:
    attributes = [{attribute.name: attribute.value for attribute in node.attrs} for node in nodes]
    texts = {"schema": "op_schema", "kernel_file": "kernel_file", "tensor_range": "tensor_range"}
    return NodeColumns(
        {
            "node": [_number(node.id) for node in nodes],
            "name": [node.name for node in nodes],
            "record_id": [_number(facts.get("rf_id")) for facts in attributes],
            **{column: [_text(facts.get(key)) for facts in attributes] for column, key in texts.items()},
        },
        {
            "inputs": [node.inputs.values for node in nodes],
            "input_shapes": [node.inputs.shapes for node in nodes],
            "input_types": [node.inputs.types for node in nodes],
            "input_strides": [node.inputs.strides for node in nodes],
            "outputs": [node.outputs.values for node in nodes],
            "output_shapes": [node.outputs.shapes for node in nodes],
            "output_types": [node.outputs.types for node in nodes],
        },
    )


def _flat_columns(nodes: list[FlatNode]) -> NodeColumns:
    return NodeColumns(
        {
            "node": [_number(node.id) for node in nodes],
            "name": [node.name for node in nodes],
            "record_id": [_number(node.rf_id) for node in nodes],
            "schema": [node.op_schema for node in nodes],
            **{column: [""] * len(nodes) for column in ("kernel_file", "tensor_range")},
        },
        {column: [getattr(node, column, EMPTY) for node in nodes] for column in LISTS},
    )


def _frame(columns: NodeColumns) -> pl.DataFrame:
    lists = {name: [bytes(raw).decode(errors="replace") for raw in values] for name, values in columns.lists.items()}
    return pl.DataFrame({**columns.facts, **lists}, schema=COLUMNS)


def _number(value: object) -> int:
    return bounded.whole(value, NONE, 0)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _nested_file(text: bytes) -> tuple[int | None, list[ExecutionNode]]:
    file = NESTED_FILE.decode(text)
    return file.pid, file.nodes


def _flat_file(text: bytes) -> tuple[int | None, list[FlatNode]]:
    file = FLAT_FILE.decode(text)
    return file.pid, file.nodes


NESTED_FILE: Final = msgspec.json.Decoder(NodesFile, strict=False)
FLAT_FILE: Final = msgspec.json.Decoder(FlatNodesFile, strict=False)
NESTED: Final = NodeLayout(
    _nested_file,
    msgspec.json.Decoder(ExecutionNode, strict=False),
    _nested_columns,
    re.compile(rb'\{\s*"id"\s*:\s*\d+\s*,\s*"name"'),
    re.compile(r'\A((?:(?!"name"\s*:\s*").)*"name"\s*:\s*")(.*?)("\s*,\s*"ctrl_deps")', re.DOTALL),
)
FLAT: Final = NodeLayout(
    _flat_file,
    msgspec.json.Decoder(FlatNode, strict=False),
    _flat_columns,
    re.compile(rb'\{\s*"name"\s*:\s*"(?:[^\n{]|\{(?!\s*"name")){0,4096}?"\s*,\s*"id"'),
    re.compile(r'\A((?:(?!"name"\s*:\s*").)*"name"\s*:\s*")(.*?)("\s*,\s*"id")', re.DOTALL),
)
