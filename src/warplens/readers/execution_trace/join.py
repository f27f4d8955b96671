"""An ExecutionTrace joined to the Kineto trace of the same run: what each op was called with.

Both profilers write down the number that PyTorch gave a call: Kineto as `Record function id`, the ExecutionTrace as
`rf_id`. It counts up for as long as the process lives and is 0 while no ExecutionTrace is being recorded, so a file
with several windows has no number twice. Kineto's event and the ExecutionTrace's node must also name the same op:
Kineto may write the overload (`aten::add.Tensor`), which the other has in its schema. An ExecutionTrace has no times,
so it is not opened alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Final, NoReturn

import numpy as np
import polars as pl

from warplens.model.kinds import CODE
from warplens.model.quality import Note, Quality
from warplens.model.trace import SIDE_FRAMES, Meta, Trace
from warplens.readers.execution_trace.agreement import agree, record_ids
from warplens.readers.execution_trace.collectives import describe_collectives
from warplens.readers.execution_trace.nodes import Nodes, decode_nodes
from warplens_run.base.errors import FormatError

JOINED_KINDS: Final = ("op", "annotation")
OVERLOAD: Final = r"^(\w+::\w+)\.\w+$"
CODES: Final = ("execution_trace", "execution_trace_unmatched", "execution_collectives")
REASONS: Final = (
    # why an op call has no partner, in the order in which one is looked for
    "{} have no record function id (nothing recorded an ExecutionTrace then)",
    "{} are not in it",
    "{} have another name there",
    "{} have other shapes there",
    "{} have several partners",
)
OTHER_RUN: Final = 0.01
"""If more of the calls than this have other shapes there, it was recorded of another run, and nothing of it counts."""
MOST_SHARING: Final = 16
"""Calls of one file that may have the same number. Sound files have one; pairs of many would be their square."""


def join(trace: Trace, kineto_text: bytes, execution_text: bytes, where: str = "") -> Trace:
    """The trace with `arguments` from an ExecutionTrace; both texts unwrapped. `where` names its file in an error."""
    nodes = decode_nodes(execution_text, where)
    calls = _numbered_calls(trace, kineto_text)
    partners = _partners(calls, nodes)
    schema = SIDE_FRAMES["arguments"]
    arguments = partners.sort("id").select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    joined = replace(trace, arguments=arguments)
    kept = (note for note in trace.quality.notes if note.code not in CODES)
    joined = replace(joined, quality=Quality((*kept, *_notes(joined, calls, nodes))))
    return describe_collectives(joined, kineto_text, nodes)


def refuse_alone(_text: bytes, meta: Meta, _notes: list[Note]) -> NoReturn:
    hint = "give it with the Kineto trace of the same run: warplens report TRACE --execution-trace FILE"
    raise FormatError("an ExecutionTrace, which has no times of its own", where=meta.source, hint=hint)


def joined_share(trace: Trace) -> float:
    """The share of all op calls of the trace, autograd's nodes too, that have arguments; 0 where it has no ops."""
    is_op = trace.is_kind("op")
    is_joined = is_op[trace.arguments["id"].to_numpy()]
    return float(is_joined.sum() / is_op.sum()) if is_op.any() else 0.0


def _numbered_calls(trace: Trace, kineto_text: bytes) -> pl.DataFrame:
    """The host calls of the trace that PyTorch numbers, with their numbers; null for none."""
    numbered = record_ids(kineto_text).unique().filter(pl.len().over("external_id") == 1)
    calls = trace.events.filter(pl.col("kind").is_in([CODE[kind] for kind in JOINED_KINDS]))
    names = pl.Series("call", trace.names, dtype=pl.String).gather(calls["name"])
    own = trace.specs.select(call_dims="input_dims", call_types="input_types")
    specs = own.with_row_index("spec").with_columns(pl.col("spec").cast(pl.Int32))
    calls = calls.select("id", "kind", "external_id", "spec", names)
    calls = calls.join(specs, on="spec", how="left", maintain_order="left")
    return calls.join(numbered, on="external_id", how="left", maintain_order="left")


def _partners(calls: pl.DataFrame, nodes: Nodes) -> pl.DataFrame:
    """Calls with their nodes, where number, name and shapes agree and neither has a second partner."""
    pairs = _pairs(calls, nodes).filter("same_name", "same_shapes")
    once = [pl.len().over(key) == 1 for key in ("id", "row")]
    return pairs.filter(*once)


def _pairs(calls: pl.DataFrame, nodes: Nodes) -> pl.DataFrame:
    frame = nodes.frame.with_row_index("row").filter(pl.col("record_id") > 0)
    single = calls.join(_shared_numbers(calls, nodes), on="record_id", how="anti", maintain_order="left")
    pairs = single.join(frame, on="record_id", how="inner", maintain_order="left")
    call, overload = pl.col("call"), pl.col("schema").str.extract(r"^([^(]+)\(")
    same = (call == pl.col("name")) | (call == overload).fill_null(False)
    # Before there were schemas in the file, an overload in Kineto's name had nothing to be compared with.
    bare = (pl.col("schema") == "") & (call.str.extract(OVERLOAD) == pl.col("name")).fill_null(False)
    named = pairs.with_columns((same | bare).alias("same_name"))
    return named.with_columns(_same_shapes(named).alias("same_shapes"))


def _shared_numbers(calls: pl.DataFrame, nodes: Nodes) -> pl.DataFrame:
    """Numbers that are in both files, and in one of them at too many calls to be a call's own."""
    own, theirs = (frame.group_by("record_id").len() for frame in (calls, nodes.frame.filter(pl.col("record_id") > 0)))
    counts = own.join(theirs, on="record_id")
    return counts.filter(pl.max_horizontal("len", "len_right") > MOST_SHARING).select("record_id")


def _same_shapes(pairs: pl.DataFrame) -> pl.Series:
    """Whether both recorded equal shapes; false for all where too many differ."""
    columns = ("call_dims", "call_types", "input_shapes", "input_types")
    distinct: dict[tuple[str, ...], int] = {}
    codes = []
    for row in pairs.select(columns).iter_rows():
        codes.append(distinct.setdefault(row, len(distinct)))
    verdicts = np.array([agree(*row) for row in distinct], bool)
    agrees = verdicts[codes] if codes else np.zeros(0, bool)
    named = pairs["same_name"].to_numpy()
    if named.any() and (~agrees[named]).mean() > OTHER_RUN:
        agrees = np.zeros(len(agrees), bool)
    return pl.Series(agrees, dtype=pl.Boolean)


def _notes(trace: Trace, calls: pl.DataFrame, nodes: Nodes) -> list[Note]:
    ops = calls.filter(pl.col("kind") == CODE["op"])
    joined = ops.filter(pl.col("id").is_in(trace.arguments["id"].implode()))
    lost = ops.height - joined.height
    # Rounded down: all but one of a million is not 100 %.
    percent = math.floor(1000 * joined_share(trace)) / 10
    notes = nodes.notes()
    if joined.height:
        notes.append(Note("execution_trace", joined.height, f"{percent} %"))
    if lost:
        notes.append(Note("execution_trace_unmatched", lost, _reasons(ops, joined, nodes)))
    return notes


def _reasons(ops: pl.DataFrame, joined: pl.DataFrame, nodes: Nodes) -> str:
    pairs = _pairs(ops, nodes)
    numbered = ops.filter(pl.col("record_id").is_not_null())
    named = pairs.filter("same_name")
    stages = [frame["id"].n_unique() for frame in (pairs, named, named.filter("same_shapes"))]
    shared = ops.join(_shared_numbers(ops, nodes), on="record_id", how="semi").height
    left = [ops.height, numbered.height, *(count + shared for count in stages), joined.height]
    counts = (more - less for more, less in pairwise(left))
    return ", ".join(words.format(f"{count:,}") for words, count in zip(REASONS, counts, strict=True) if count)
