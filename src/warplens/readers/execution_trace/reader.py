"""PyTorch ExecutionTrace (Chakra) JSON, opened alone: which ops ran inside which, with what inputs.

Reads: the tree of calls, their schemas, inputs and outputs. There are no times in it, and no kernels: a call counts as
one, and its metrics are the bytes of the tensors that it was given and that it returned (elements × element size).
The two kinds of root that the observer adds become "process" and "thread 1", "thread 2" …. A call whose caller is not
in the file (it had not returned when recording stopped) stands under its thread. Ignores: sequence numbers, forward
links, attributes of collectives. `join` ties the same file to the trace of the same run.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.paths import merge_paths
from warplens.model.quality import Note, Quality
from warplens.model.table import Column, Table
from warplens.model.trace import Ints, Meta
from warplens.model.tree import Floats, Tree, build_tree
from warplens.readers.execution_trace.nodes import ExecutionHeader, decode_nodes

USER_SCOPE: Final = 7
"""c10's RecordScope of `record_function` in a user's or a library's Python."""
ROOT_NAME: Final = r"^\[pytorch\|profiler\|execution_(?:trace|graph)\|(process|thread)\]$"
TENSOR: Final = re.compile(r'\[\d+,\s*\d+,\s*\d+,\s*(\d{1,18}),\s*(\d{1,18}),\s*"')
"""A tensor among the values, its elements and its bytes per element. In a string the quote would be escaped."""
TENSOR_AND_DEVICE: Final = r'\[\d+,\s*\d+,\s*\d+,\s*\d+,\s*\d+,\s*("[^"]*")\]'
METRICS: Final = ("input_bytes", "output_bytes")
PROCESS: Final = "process"
MAX_BYTES: Final = 1 << 53
"""More than a petabyte per call is damage; sums of it shall still fit."""
SIGNATURE: Final = ("op", "kind", "schema", "input_shapes", "input_types", "input_strides", "inputs", "kernel_file")


def read(text: bytes, meta: Meta, notes: list[Note]) -> CallPaths:
    nodes = decode_nodes(text, meta.source)
    calls = _calls(nodes.frame)
    outer, orphans = _callers(calls)
    more = [*nodes.notes(), *([Note("execution_trace_orphans", orphans)] if orphans else [])]
    codes = {note.code for note in notes}
    meta = msgspec.structs.replace(
        meta, format="execution_trace", facts=_facts(nodes.header), events_in_file=calls.height
    )
    return CallPaths(
        meta=meta,
        tree=_tree(calls, outer),
        quality=Quality((*notes, *(note for note in more if note.code not in codes))),
        extra=(_table(calls),),
    )


def _facts(header: ExecutionHeader) -> dict[str, str]:
    facts = {"schema": header.schema, "process": header.pid, "recorded": header.time}
    return {name: str(value) for name, value in facts.items() if value is not None}


def _calls(frame: pl.DataFrame) -> pl.DataFrame:
    """The nodes with a kind, the roots renamed, and the bytes of their tensors."""
    root = pl.col("name").str.extract(ROOT_NAME)
    kind = pl.when(root.is_not_null()).then(pl.lit("other")).when(pl.col("scope") == USER_SCOPE)
    name = pl.when(root == "thread").then(pl.format("thread {}", "thread")).when(root == "process")
    return frame.with_columns(
        kind.then(pl.lit("annotation")).otherwise(pl.lit("op")).alias("kind"),
        name.then(pl.lit(PROCESS)).otherwise(pl.col("name")).alias("op"),
        pl.Series("input_bytes", _bytes(frame["inputs"])),
        pl.Series("output_bytes", _bytes(frame["outputs"])),
    )


def _bytes(values: pl.Series) -> Ints:
    """The bytes of all tensors in each list of values, those inside inner lists too."""
    tensors = map(TENSOR.findall, values.to_list())
    whole = (sum([int(elements) * int(size) for elements, size in call_tensors]) for call_tensors in tensors)
    return np.array([min(size, MAX_BYTES) for size in whole], np.int64)


def _callers(calls: pl.DataFrame) -> tuple[Ints, int]:
    """The row of each node's caller, -1 for none, and how many calls lost theirs."""
    node, parent, thread = (calls[name].to_numpy().astype(np.int64) for name in ("node", "parent", "thread"))
    is_root = (calls["kind"] == "other").to_numpy()
    is_process = is_root & (calls["op"] == PROCESS).to_numpy()
    # A caller starts first, so its id is smaller: with that, and threads below a process only, a damaged file has
    # no circles.
    outer = np.where(parent < node, _rows_of(parent, node), NONE)
    outer[is_root & ~is_process[outer]] = NONE
    lost = (outer == NONE) & ~is_root
    outer[lost] = _rows_of(thread[lost], np.where(is_root & ~is_process, thread, NONE))
    return outer, int(lost.sum())


def _rows_of(wanted: Ints, key: Ints) -> Ints:
    """Where each number stands in `key`, the first time; -1 where it does not, or is absent itself."""
    order = np.argsort(key, kind="stable")
    index = np.minimum(np.searchsorted(key[order], wanted), max(0, len(key) - 1))
    rows = order[index]
    return np.where((key[rows] == wanted) & (wanted >= 0), rows, NONE)


def _tree(calls: pl.DataFrame, outer: Ints) -> Tree:
    label = calls.select(pl.concat_str("kind", "op", separator="\0").rank("dense").cast(pl.Int64)).to_series()
    nodes = merge_paths(outer, label.to_numpy())
    size, first = len(nodes.parent), nodes.first[1:]
    count = np.bincount(nodes.node, minlength=size)
    names, kinds = calls["op"].gather(first).to_list(), calls["kind"].gather(first).to_list()
    nothing = np.zeros(size, np.int64)
    tree = build_tree(nodes.parent, ["all", *names], ["root", *kinds], nothing, count, "calls")
    return tree.with_metrics({name: _sums(nodes.node, calls[name], size) for name in METRICS})


def _sums(node: Ints, values: pl.Series, size: int) -> Floats:
    sums: Floats = np.bincount(node, values.to_numpy(), size).astype(np.float64)
    return sums


def _table(calls: pl.DataFrame) -> Table:
    rows = calls.filter(pl.col("kind") != "other").with_columns(
        pl.col("inputs").str.replace_all(TENSOR_AND_DEVICE, "$1")
    )
    frame = (
        rows.group_by(SIGNATURE, maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col(METRICS).sum())
        .sort("input_bytes", "count", "op", descending=[True, True, False], maintain_order=True)
    )
    columns = (
        Column("op", "name of the op or scope", "", pl.String),
        Column("kind", "op, or annotation for a scope that Python named", "", pl.String),
        Column("schema", "the overload that ran, as PyTorch declares it; empty for non-operators", "", pl.String),
        Column("input_shapes", "shapes of the inputs; those of lists are lists", "", pl.String),
        Column("input_types", "types of the inputs, with the element type of tensors", "", pl.String),
        Column("input_strides", "strides of the inputs; empty before schema 1.1.1", "", pl.String),
        Column("inputs", "values of the inputs; of a tensor, its device", "", pl.String),
        Column("count", "calls with these inputs", "", pl.Int64),
        Column("input_bytes", "elements × element size of all input tensors of these calls", "bytes", pl.Int64),
        Column("output_bytes", "the same of what they returned", "bytes", pl.Int64),
        Column("kernel_file", "source of the Triton kernel", "", pl.String),
    )
    return Table.from_frame("execution_trace", "one row per op and inputs of an ExecutionTrace", columns, frame)
