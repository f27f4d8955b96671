"""Which op of A is which op of B.

Every GPU event is a member of one unit: an op with its inputs, the op outermost around it, and a kernel. Units are
matched level by level, the strictest first; what a level matches is out of the next ones, so that no time counts
twice. Work without a framework op (graphs, own launches) is known by its kernels alone.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.diff.sides import Pair, Side
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.trace import Ints
from warplens_run.base import bounded

EVALUATE = "autograd::engine::evaluate_function: "
WRAPPER = re.compile(
    r"autograd::engine::evaluate_function: |Torch-Compiled|## Call CompiledFxGraph|CompiledFunction|CheckpointFunction"
    r"|Optimizer\.|.*Parallel\.|ProfilerStep|TorchDynamo|AOTDispatcher|Pregraph|torch::autograd::"
)
"""Ops that hold whole models or passes; being inside one says nothing about the work."""
VERSION = re.compile(r"(?<=[A-Za-z_])_?\d+$")
"""AddmmBackward0 and triton_poi_fused_add_3 carry counters that change with the version."""
OVERLOAD = re.compile(r"^(\w+::\w+)\.\w+$")
OPERANDS: Final = {
    "aten::mm": 2, "aten::bmm": 2, "aten::_int_mm": 2, "aten::addmm": 3, "aten::baddbmm": 3, "aten::addbmm": 3,
}  # fmt: skip
"""Compiled code hands these ops their result as one more input; only so many are operands."""
UNIT: Final = (
    *("op", "op_name", "input_dims", "input_types", "outer", "outer_name", "outer_dims"),
    *("kernel_short", "kernel_category", "no_op"),
)
STRONG: Final = ("op and shapes", "op and shapes, other dtype", "outer op and shapes", "op, one size differs", "kernel")
"""Levels that are evidence of the same work; a common name alone is none."""

Level = tuple[str, tuple[str, ...], Callable[[], pl.Expr]]


def _has_shapes(column: str) -> pl.Expr:
    return ~pl.col("no_op") & (pl.col(column) != "")


LEVELS: Final[tuple[Level, ...]] = (
    # matched_by, the columns that must be equal, which units take part
    ("op and shapes", ("op", "input_dims", "input_types"), lambda: _has_shapes("input_dims")),
    ("op and shapes, other dtype", ("op_name", "input_dims"), lambda: _has_shapes("input_dims")),
    ("outer op and shapes", ("outer_name", "outer_dims"), lambda: _has_shapes("outer_dims")),
    ("op, one size differs", ("size_key",), lambda: pl.col("size_key") != ""),
    ("kernel", ("kernel_category", "kernel_short"), lambda: pl.lit(True)),
    ("op", ("op_name",), lambda: ~pl.col("no_op")),
    ("outer op", ("outer_name",), lambda: ~pl.col("no_op") & (pl.col("outer_name") != "")),
    ("kernel category", ("kernel_category",), lambda: pl.lit(True)),
)
BY_KERNEL: Final = ("kernel", "kernel category")


@dataclass(frozen=True)
class Matching:
    """Units of both sides with the `row` they belong to (and how they were matched), and each event's unit."""

    a: pl.DataFrame
    b: pl.DataFrame
    a_event_row: pl.Series
    b_event_row: pl.Series


@shared
def match_ops(pair: Pair) -> Matching:
    """Which calls of A correspond to which of B."""
    events = [_event_units(side) for side in pair.sides]
    a, b = (_units(frame, side.runs) for frame, side in zip(events, pair.sides, strict=True))
    rows = 0
    for name, keys, takes_part in LEVELS:
        if name == "op, one size differs":
            a, b = _with_size_keys(a, b)
        a, b, rows = _level(a, b, name, keys, takes_part(), rows)
    a, rows = _leftover(a, rows)
    b, rows = _leftover(b, rows)
    event_rows = [
        frame.join(units.select(*UNIT, "row"), on=UNIT, how="left", maintain_order="left")["row"]
        for frame, units in zip(events, (a, b), strict=True)
    ]
    return Matching(a, b, *event_rows)


def _level(
    a: pl.DataFrame, b: pl.DataFrame, name: str, keys: tuple[str, ...], takes_part: pl.Expr, rows: int
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Gives a row number to the free units of both sides that agree in `keys`."""
    free = [side.filter(pl.col("row").is_null() & takes_part) for side in (a, b)]
    common = free[0].group_by(keys).agg(pl.col("no_op").any().alias("a_no_op"))
    common = common.join(free[1].group_by(keys).agg(pl.col("no_op").any().alias("b_no_op")), on=keys)
    if name in BY_KERNEL:
        # With ops on both sides, an equal kernel proves nothing: every network adds tensors.
        common = common.filter(pl.col("a_no_op") | pl.col("b_no_op"))
    matched = (
        common.select(keys)
        .sort(keys)
        .with_columns(
            (rows + pl.int_range(pl.len(), dtype=pl.Int64)).alias("new_row"),
            pl.lit(name).alias("by"),
            takes_part=pl.lit(True),
        )
    )
    a, b = (_marked(side, matched, keys, takes_part) for side in (a, b))
    return a, b, rows + len(matched)


def _marked(units: pl.DataFrame, matched: pl.DataFrame, keys: tuple[str, ...], takes_part: pl.Expr) -> pl.DataFrame:
    joined = units.with_columns((pl.col("row").is_null() & takes_part).alias("takes_part"))
    joined = joined.join(matched, on=[*keys, "takes_part"], how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("row", "new_row").alias("row"), pl.coalesce("matched_by", "by").alias("matched_by")
    ).drop("new_row", "by", "takes_part")


def _leftover(units: pl.DataFrame, rows: int) -> tuple[pl.DataFrame, int]:
    """Rows of their own for what has no counterpart: by op and inputs, or by kernel where there is no op."""
    kernel = pl.when("no_op").then("kernel_short").otherwise(pl.lit(""))
    keys = ["op", "input_dims", "input_types", "kernel_key"]
    units = units.with_columns(kernel.alias("kernel_key"))
    free = units.filter(pl.col("row").is_null()).select(keys).unique().sort(keys)
    free = free.with_columns((rows + pl.int_range(pl.len(), dtype=pl.Int64)).alias("own"))
    units = units.join(free, on=keys, how="left", maintain_order="left")
    done = units.with_columns(pl.coalesce("row", "own").alias("row"), pl.col("matched_by").fill_null(""))
    return done.drop("own", "kernel_key"), rows + len(free)


def _units(events: pl.DataFrame, runs: int) -> pl.DataFrame:
    calls = pl.col("owner").n_unique() / runs
    units = events.group_by(UNIT, maintain_order=True).agg(
        pl.col("dur_ns").sum(), calls.round(6).alias("calls"), pl.len().alias("count")
    )
    return units.with_columns(
        pl.lit(None, pl.Int64).alias("row"), pl.lit(None, pl.String).alias("matched_by"), pl.lit("").alias("size_key")
    )


def _event_units(side: Side) -> pl.DataFrame:
    """The compared events with the columns of their unit."""
    work, frame = side.work, side.events
    trace = work.trace
    # An op around the launch of a graph is not that of its kernels; one below it, of its capture, is.
    around_graph = (frame["in_graph"] & (frame["owner"] == frame["launch"])).to_numpy()
    op = np.where(around_graph, -1, frame["op_row"].to_numpy()).astype(np.int64)
    outer = outermost_ops(work, op)
    dims, types = ([*trace.specs[name].fill_null(""), ""] for name in ("input_dims", "input_types"))
    spec, outer_spec = (np.where(row >= 0, trace.ints("spec")[np.maximum(row, 0)], -1) for row in (op, outer))
    names = [*map(without_overload, trace.names), ""]
    plain = [plain_name(name) for name in names]
    code = np.where(outer >= 0, trace.ints("name")[np.maximum(outer, 0)].astype(np.int64), len(names) - 1)
    op_code = np.where(op >= 0, trace.ints("name")[np.maximum(op, 0)].astype(np.int64), len(names) - 1)
    return (
        frame.select("op", "kernel_short", "kernel_category", "dur_ns", "owner", "step")
        .with_columns(
            pl.when(pl.Series(op >= 0)).then(_gather("op", names, op_code)).otherwise("op").alias("op"),
            _gather("op_name", plain, op_code),
            _gather("input_dims", dims, spec),
            _gather("input_types", types, spec),
            _gather("outer", names, code),
            _gather("outer_name", plain, code),
            _gather("outer_dims", dims, outer_spec),
            pl.Series("no_op", op < 0),
        )
        .pipe(_operands_only)
    )


def _operands_only(events: pl.DataFrame) -> pl.DataFrame:
    """Shapes and dtypes without results handed in; a text per op and inputs, so that few are parsed."""
    columns = {"op": "input_dims", "outer": "outer_dims"}
    for op, dims in columns.items():
        for name in [dims, "input_types"] if op == "op" else [dims]:
            keys = events.filter(pl.col(op).is_in(list(OPERANDS))).select(op, name).unique()
            kept = pl.Series(
                "kept", [first_inputs(text, OPERANDS[op_name]) for op_name, text in keys.rows()], dtype=pl.String
            )
            events = events.join(keys.with_columns(kept), on=[op, name], how="left", maintain_order="left")
            events = events.with_columns(pl.coalesce("kept", name).alias(name)).drop("kept")
    return events


def first_inputs(text: str, count: int) -> str:
    """The first entries of a recorded list; the text itself where it is none.

    >>> first_inputs("[[8192, 768], [768, 3072], [8192, 3072]]", 2), first_inputs("", 2)
    ('[[8192, 768], [768, 3072]]', '')
    """
    try:
        entries = bounded.decoded(text)
    except ValueError:
        return text
    return json.dumps(entries[:count]) if isinstance(entries, list) else text


def _gather(name: str, texts: list[str], code: Ints) -> pl.Series:
    last = len(texts) - 1
    return pl.Series(name, texts, dtype=pl.String).gather(np.where(code >= 0, code, last))


def without_overload(op: str) -> str:
    """Some profiles record which overload of an op ran; compiled code calls another one than eager code.

    >>> without_overload("aten::mm.out"), without_overload("aten::mm"), without_overload("train.py(3): step")
    ('aten::mm', 'aten::mm', 'train.py(3): step')
    """
    return OVERLOAD.sub(r"\1", op)


def plain_name(op: str) -> str:
    """An op's name without what changes from version to version.

    >>> plain_name("autograd::engine::evaluate_function: AddmmBackward0"), plain_name("triton_poi_fused_add_3")
    ('AddmmBackward', 'triton_poi_fused_add')
    """
    name = op.removeprefix(EVALUATE)
    return VERSION.sub("", name) if not name.startswith("aten::") else name


def outermost_ops(work: Workspace, op: Ints) -> Ints:
    """For each op the outermost one around it that is not a wrapper, itself included; -1 for -1."""
    wraps = np.array([WRAPPER.match(name) is not None for name in work.trace.names], bool)
    names, enclosing = work.trace.ints("name"), work.enclosing_op
    outermost: Ints = op.copy()
    at = op.copy()
    active = np.flatnonzero(at >= 0)
    while len(active):
        at[active] = enclosing[at[active]]
        active = active[at[active] >= 0]
        inside = active[~wraps[names[at[active]]]]
        outermost[inside] = at[inside]
    return outermost


class OpSignature(NamedTuple):
    """What identifies an op with its inputs."""

    op_name: str
    input_dims: str
    input_types: str


class SizeKey(NamedTuple):
    """The same with one size blanked out, and how often the op is called."""

    op_name: str
    input_types: str
    calls: float
    blanked_dims: str


def _with_size_keys(a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Free ops of both sides that are equal but for one size get a key in common: 50257 padded to 50304."""
    in_b: dict[SizeKey, list[tuple[int, OpSignature]]] = defaultdict(list)
    for signature, keys in _size_keys(b).items():
        for key, size in keys:
            in_b[key].append((size, signature))
    keys_of_a: dict[OpSignature, str] = {}
    keys_of_b: dict[OpSignature, str] = {}
    for signature, keys in _size_keys(a).items():
        partners = [
            (_apart(size, size_in_b), partner)
            for key, size in keys
            for size_in_b, partner in in_b[key]
            if partner not in keys_of_b
        ]
        if partners:
            keys_of_a[signature] = keys_of_b[min(partners)[1]] = str(len(keys_of_a))
    return _with_key(a, keys_of_a), _with_key(b, keys_of_b)


def _apart(first: int, second: int) -> float:
    """How far two sizes are from each other: 50257 and 50304 are close, 8 and 64 are not."""
    return abs(math.log(first / second))


def _size_keys(units: pl.DataFrame) -> dict[OpSignature, list[tuple[SizeKey, int]]]:
    """Per unmatched op with inputs, most time first: the keys left when each of its sizes is blanked out in turn."""
    free = units.filter(pl.col("row").is_null() & _has_shapes("input_dims"))
    keys = ["op_name", "input_dims", "input_types"]
    frame = free.group_by(keys).agg(pl.col("calls").max(), pl.col("dur_ns").sum())
    frame = frame.sort("dur_ns", *keys, descending=[True, False, False, False])
    return {
        OpSignature(name, dims, types): [(SizeKey(name, types, calls, rest), size) for rest, size in blanked(dims)]
        for name, dims, types, calls, _ in frame.iter_rows()
    }


def blanked(dims: str) -> list[tuple[str, int]]:
    """The shapes with each size above 1 replaced by ? wherever it stands, and that size.

    >>> blanked("[[8, 50257], [50257, 4]]")
    [('[[?, 50257], [50257, 4]]', 8), ('[[8, ?], [?, 4]]', 50257), ('[[8, 50257], [50257, ?]]', 4)]
    """
    sizes = [int(text) for text in dict.fromkeys(re.findall(r"\d+", dims))]
    return [(re.sub(rf"\b{size}\b", "?", dims), size) for size in sizes if size > 1]


def _with_key(units: pl.DataFrame, keys: dict[OpSignature, str]) -> pl.DataFrame:
    columns = list(OpSignature._fields)
    schema = {**dict.fromkeys(columns, pl.String), "new_key": pl.String}
    new_keys = pl.DataFrame([(*signature, key) for signature, key in keys.items()], schema=schema, orient="row")
    joined = units.join(new_keys, on=columns, how="left", maintain_order="left")
    return joined.with_columns(pl.col("new_key").fill_null("").alias("size_key")).drop("new_key")


def has_shapes(pair: Pair) -> bool:
    """Whether both traces recorded shapes; work without ops needs none."""
    ops = [side.work.trace.is_kind("op").any() for side in pair.sides]
    recorded = [bool((side.work.trace.specs["input_dims"].fill_null("") != "").any()) for side in pair.sides]
    return all(has_dims or not has_ops for has_dims, has_ops in zip(recorded, ops, strict=True))


def shares_matched(pair: Pair) -> tuple[float, float]:
    """The percentage of A's and of B's GPU time whose counterpart is known, by more than a common name."""
    matching = match_ops(pair)
    # Without shapes on either side the name is all there is.
    levels = STRONG if has_shapes(pair) else (*STRONG, "op", "outer op")
    return _share(matching.a, levels), _share(matching.b, levels)


def _share(units: pl.DataFrame, levels: tuple[str, ...]) -> float:
    matched = units.filter(pl.col("matched_by").is_in(levels))["dur_ns"].sum()
    return 100 * float(matched) / max(1.0, float(units["dur_ns"].sum()))
