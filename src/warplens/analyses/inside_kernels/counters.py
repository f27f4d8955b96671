"""Kernel counters joined to a trace: which of its kernels Nsight Compute measured, and the results.

Nsight Compute and the profilers that make traces spell the same kernel differently: they omit other namespaces, `T3`
replaces a parameter, a lambda is `[lambda() (instance 1)]` or `{lambda()#1}`. So kernels are joined by what both
spellings keep: the function's own name, the words and numbers of its template arguments, the grid and the block.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.roofline.costing import costing
from warplens.analyses.work.kernels import CATEGORY, EVENTS
from warplens.analyses.work.places import places_of
from warplens.analyses.workspace import Workspace, percent_of
from warplens.categories import Categorizer, short_name
from warplens.categories.demangling import demangle, is_mangled
from warplens.categories.kernel_name import parse_kernel_name
from warplens.model.kinds import CODE
from warplens.model.table import Column, DType, Table

SHORT: Final = Column("kernel_short", "readable short form of the name", "", pl.String)
MEANING: Final = "one row per kernel, grid and block of the trace that Nsight Compute has measured"
NO_COUNTERS: Final = "no counters: open the trace together with a CSV page or report of Nsight Compute"
COLUMNS: Final = (
    Column("kernel", "name as recorded in the trace", "", pl.String),
    SHORT,
    CATEGORY,
    Column("op", "op of the launches with most of its time; the launching call where there is no op", "", pl.String),
    Column("module", "nn.Module with most of its time, instances as *; empty where none is recorded", "", pl.String),
    Column("line", "Python line with most of its time; empty where none is recorded", "", pl.String),
    Column("grid", "blocks", "", pl.String),
    Column("block", "threads of a block", "", pl.String),
    Column("count", "launches in the trace", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("mean_us", "mean duration in the trace", "us", pl.Float64),
    Column("profiled", "launches that Nsight Compute measured; the columns that follow are their means", "", pl.Int64),
    Column("matched_by", "name: with template arguments, base name: one of the two spellings has none", "", pl.String),
    Column("ncu_us", "duration of the kernel alone, as Nsight Compute measured it", "us", pl.Float64),
    Column("dram_bytes", "bytes read from and written to the GPU's memory, measured", "bytes", pl.Float64),
    Column("modelled_bytes", "bytes that the op must move, where the op launches this one kernel", "bytes", pl.Float64),
    Column(
        "measured_over_modelled",
        "dram_bytes over modelled_bytes: below 1 where data stayed in the L2 cache",
        "",
        pl.Float64,
    ),
    Column("dram_percent", "share of the memory's peak rate", "%", pl.Float64),
    Column("l2_hit_percent", "share of L2 accesses that the cache answers", "%", pl.Float64),
    Column("sm_percent", "use of the busiest part of the multiprocessors", "%", pl.Float64),
    Column("tensor_percent", "use of the tensor pipe: time, not a count of operations", "%", pl.Float64),
    Column("occupancy_percent", "warps resident on average, of the most that fit", "%", pl.Float64),
    Column("occupancy_limit", "the resource that limits the number of resident warps", "", pl.String),
    Column("top_stall", "what warps waited for most", "", pl.String),
    Column("top_stall_percent", "share of the warps' time", "%", pl.Float64),
    Column("stall_line", "line of the kernel's source where warps waited most: of the source page", "", pl.String),
    Column("rule", "the rule of Nsight Compute with the largest estimated speedup", "", pl.String),
    Column("rule_text", "the text of the rule", "", pl.String),
    Column("estimated_speedup_percent", "speedup as Nsight Compute estimates it", "%", pl.Float64),
    Column(
        "speedup_type",
        "global: share of the kernel's time; local: share of the part that the rule examines",
        "",
        pl.String,
    ),
)
MEANS: Final = (
    "time_us", "dram_bytes", "dram_percent", "l2_hit_percent", "sm_percent", "tensor_percent", "occupancy_percent",
    "top_stall_percent",
)  # fmt: skip
FIRSTS: Final = ("occupancy_limit", "top_stall", "stall_line")
RULE_COLUMNS: Final = ("rule", "rule_text", "estimated_speedup_percent", "speedup_type")

BY_NAME: Final = "name"
BY_BASE: Final = "base name"
NAMED_IN_NOTES: Final = 3

_INSTANCE: Final = re.compile(r"\(instance (\d{1,4})\)")
_LLVM_LAMBDA: Final = re.compile(r"'lambda(\d{0,4})'")  # without a number the first, from 0 on the others
_PARENTHESES: Final = re.compile(r"\([^()]*\)")
# A word with :: right behind it is a namespace or a class; the spellings keep different ones of them.
_WORD: Final = re.compile(r"(?P<outer>\w+::)|(?P<word>-?\w+)")
_SUFFIX: Final = re.compile(r"(-?\d+)(?:[uU]?[lL]{0,2})")
_DROPPED: Final = frozenset({"const", "void", "operator", "typename", "struct", "class"})
_TRUTH: Final = {"true": "1", "false": "0"}
_SIZE: Final = re.compile(r"\d{1,10}")


class NameKey(msgspec.Struct, frozen=True):
    """What both spellings of a kernel's name keep; no arguments where a name has none, or hides them."""

    base: str
    arguments: tuple[str, ...]


class KernelShape(msgspec.Struct, frozen=True):
    """A kernel with its launch geometry; None where that is not known."""

    kernel: str
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None

    @property
    def key(self) -> NameKey:
        return name_key(self.kernel)


@lru_cache(maxsize=8192)
def name_key(name: str) -> NameKey:
    """The key of a kernel's name, in whichever spelling.

    >>> name_key("void at::<unnamed>::f<8, at::g(at::T &)::[lambda() (instance 2)], std::array<char *, 2>>(int, T2)")
    NameKey(base='f', arguments=('8', 'g', 'lambda', '2', 'array', 'char', '2'))
    >>> _ == name_key("void at::native::(anonymous namespace)::f<8, at::native::g(at::T&)::{lambda()#2}, "
    ...               "std::array<char*, 2ul> >(int, at::native::g(at::T&)::{lambda()#2})")
    True
    """
    parsed = parse_kernel_name(name)
    base = parsed.function.rsplit("::", 1)[-1].strip()
    arguments = parsed.text[parsed.text.find("<") :] if "<" in parsed.text else ""
    return NameKey(base, () if is_mangled(demangle(name)) else tuple(_words(arguments)))


def _words(text: str) -> Iterable[str]:
    text = _INSTANCE.sub(r"#\1", text)
    text = _LLVM_LAMBDA.sub(lambda match: f"lambda#{int(match[1]) + 2 if match[1] else 1}", text)
    replaced = 1
    while replaced:  # parameter lists and casts, innermost first
        text, replaced = _PARENTHESES.subn(" ", text)
    for match in _WORD.finditer(text):
        word = match["word"]
        if word and word not in _DROPPED:
            number = _SUFFIX.fullmatch(word)
            yield number[1] if number else _TRUTH.get(word, word)


def with_short_names(table: Table, categorizer: Categorizer) -> Table:
    """A table of counters with the short form and the category of each kernel behind its name."""
    names = table.frame["kernel"].unique(maintain_order=True).to_list()
    short_names = pl.DataFrame(
        {
            "kernel": names,
            "kernel_short": [short_name(name) for name in names],
            "kernel_category": [kernel_class.category for kernel_class in categorizer.classify_all(names)],
        },
        schema={"kernel": pl.String, "kernel_short": pl.String, "kernel_category": pl.String},
    )
    position = [column.name for column in table.columns].index("kernel") + 1
    columns = (*table.columns[:position], SHORT, CATEGORY, *table.columns[position:])
    frame = table.frame.join(short_names, on="kernel", how="left", maintain_order="left")
    return Table.from_frame(table.name, table.meaning, columns, frame, *table.notes)


def measured_kernels(work: Workspace) -> Table:
    """What Nsight Compute measured of this trace's kernels, where its CSV was opened with the trace."""
    pages = {table.name: table for table in work.counters}
    if "counters" not in pages:
        return Table.from_rows("measured_kernels", MEANING, COLUMNS, [], NO_COUNTERS)
    return joined_kernels(work, pages["counters"], pages.get("counter_rules"), pages.get("counter_instructions"))


def joined_kernels(
    work: Workspace, counters: Table, rules: Table | None = None, instructions: Table | None = None
) -> Table:
    """The kernels of a trace that Nsight Compute has measured, those with most time first."""
    groups = _trace_groups(work)
    shapes = [_shape(*row) for row in groups.select("kernel", "grid", "block").iter_rows()]
    profiled = [_shape(*row) for row in counters.frame.select("kernel", "grid", "block").iter_rows()]
    matches = _Matches(shapes, profiled)
    rows = [matches.row_of_shape.get(shape, (None, None)) for shape in profiled]
    frame = counters.frame.with_columns(
        pl.Series("row", [row for row, _ in rows], dtype=pl.Int64),
        pl.Series("matched_by", [how for _, how in rows], dtype=pl.String),
        pl.Series("stall_line", _stalled_lines(counters, instructions), dtype=pl.String),
    ).filter(pl.col("row").is_not_null())
    frame = frame.join(_best_rules(rules), on=["process", "id", "kernel"], how="left", maintain_order="left")
    joined = (
        _per_row(frame)
        .join(groups.with_row_index("row").cast({"row": pl.Int64}), on="row", how="left")
        .with_columns(
            percent_of("total_us", work.gpu_total_ns).alias("percent"),
            (pl.col("dram_bytes") / pl.col("modelled_bytes")).alias("measured_over_modelled"),
        )
        .sort("total_us", "kernel", "grid", descending=[True, False, False])
    )
    return Table.from_frame("measured_kernels", MEANING, COLUMNS, joined, *matches.notes())


def _trace_groups(work: Workspace) -> pl.DataFrame:
    """The kernels of the trace by name and launch geometry, with the bytes that their ops must move, and callers."""
    geometries = work.trace.geometries.with_row_index("geometry").select(
        pl.col("geometry").cast(pl.Int32), "grid", "block"
    )
    one, keys = pl.col("modelled").drop_nulls().unique(), ["name", "grid", "block"]
    groups = (
        work.gpu.select("name", "kind", "geometry", "dur_ns", "op")
        .with_row_index("event")
        .with_columns(_modelled_bytes(work))
        .filter(pl.col("kind") == CODE["kernel"])
        .join(geometries, on="geometry", how="left", maintain_order="left")
        .with_columns(pl.col("dur_ns").sum().over(*keys, "op").alias("op_ns"))
        .group_by(keys, maintain_order=True)
        .agg(
            EVENTS,
            (pl.col("dur_ns").sum() / 1000).alias("total_us"),
            (pl.col("dur_ns").mean() / 1000).alias("mean_us"),
            # Calls of other sizes with the same grid: which of them was measured is not known.
            pl.when((one.len() == 1) & (one.first() > 0)).then(one.first()).alias("modelled_bytes"),
            pl.col("op").sort_by("op_ns", "op", descending=[True, False]).first(),
            pl.col("event"),
        )
    )
    of_event = np.full(len(work.gpu), -1, np.int64)
    for number, events in enumerate(groups["event"]):
        of_event[events.to_numpy()] = number
    places = places_of(work, of_event, len(groups))
    return groups.with_columns(
        pl.Series("module", [text or None for text in places.modules], dtype=pl.String),
        pl.Series("line", [text or None for text in places.lines], dtype=pl.String),
    ).join(work.kernel_facts, on="name", how="left", maintain_order="left")


def _stalled_lines(counters: Table, instructions: Table | None) -> list[str | None]:
    """For each profiled launch the line of its source with most waits; pages of one report number launches alike."""
    if instructions is None:
        return [None] * len(counters)
    waits = pl.col("samples") * pl.col("stalled_percent")
    lines = (
        instructions.frame.filter(pl.col("line").is_not_null())
        .group_by("id", "kernel", "file", "line")
        .agg(waits.sum().alias("waits"))
        .filter(pl.col("waits") > 0)
        .sort("waits", "file", "line", descending=[True, False, False])
        .unique(["id", "kernel"], keep="first", maintain_order=True)
    )
    worst = {
        (number, name_key(kernel).base): f"{PurePath(file).name}:{line}"
        for number, kernel, file, line in lines.select("id", "kernel", "file", "line").iter_rows()
    }
    launches = counters.frame.select("id", "kernel").iter_rows()
    return [worst.get((number, name_key(kernel).base)) for number, kernel in launches]


def _modelled_bytes(work: Workspace) -> pl.Series:
    """Per GPU event the bytes of its op's call; -1 where the call launches several kernels, null where not known."""
    costs = costing(work)
    cost = costs.groups["cost"].to_numpy()[costs.event_group]
    moved = np.array([*(cost.bytes for cost in costs.costs), np.nan])[cost]
    _, call = np.unique(costs.event_call, return_inverse=True)
    kernels = np.bincount(call, (work.gpu["kind"] == CODE["kernel"]).to_numpy())
    return pl.Series("modelled", np.where(kernels[call] > 1, -1.0, moved)).fill_nan(None)


class _Matches:
    """Which shape of the trace each profiled shape is."""

    def __init__(self, shapes: Sequence[KernelShape], profiled: Iterable[KernelShape]) -> None:
        self.by_base: dict[str, list[int]] = {}
        for row, shape in enumerate(shapes):
            self.by_base.setdefault(shape.key.base, []).append(row)
        self.shapes = shapes
        self.row_of_shape: dict[KernelShape, tuple[int, str]] = {}
        self.absent: list[KernelShape] = []
        self.ambiguous: list[KernelShape] = []
        for shape in dict.fromkeys(profiled):
            self._match(shape)
        self._drop_rivals()

    def _match(self, shape: KernelShape) -> None:
        fitting = [row for row in self.by_base.get(shape.key.base, []) if _same_launch(shape, self.shapes[row])]
        words = shape.key.arguments
        exact = [row for row in fitting if self.shapes[row].key.arguments == words]
        loose = [row for row in fitting if _one_hides(words, self.shapes[row].key.arguments)]
        chosen, how = (exact, BY_NAME) if exact else (loose, BY_BASE)
        if len(chosen) == 1:
            self.row_of_shape[shape] = (chosen[0], how)
        else:
            (self.ambiguous if chosen else self.absent).append(shape)

    def _drop_rivals(self) -> None:
        """Two profiled kernels cannot both be one kernel of the trace, if that is all their base names say."""
        claims = Counter(row for row, _ in self.row_of_shape.values())
        for shape, (row, how) in list(self.row_of_shape.items()):
            if how == BY_BASE and claims[row] > 1:
                del self.row_of_shape[shape]
                self.ambiguous.append(shape)

    def notes(self) -> list[str]:
        total = len(self.row_of_shape) + len(self.absent) + len(self.ambiguous)
        notes = [f"{len(self.row_of_shape)} of {total} profiled kernels (by name, grid and block) occur in the trace"]
        if self.absent:
            notes.append(f"{len(self.absent)} do not: {_listed(self.absent)}")
        if self.ambiguous:
            notes.append(f"{len(self.ambiguous)} fit several kernels and are left out: {_listed(self.ambiguous)}")
        return notes


def _one_hides(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether one name has no template arguments, or lost the end of them."""
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _same_launch(first: KernelShape, second: KernelShape) -> bool:
    pairs = ((first.grid, second.grid), (first.block, second.block))
    return all(one is None or other is None or one == other for one, other in pairs)


def _shape(kernel: str, grid: str | None, block: str | None) -> KernelShape:
    return KernelShape(kernel, _sizes(grid), _sizes(block))


def _sizes(text: str | None) -> tuple[int, ...] | None:
    return tuple(int(size) for size in _SIZE.findall(text or "")) or None


def _listed(shapes: Sequence[KernelShape]) -> str:
    names = list(dict.fromkeys(short_name(shape.kernel) for shape in shapes))
    return ", ".join(names[:NAMED_IN_NOTES]) + (", …" if len(names) > NAMED_IN_NOTES else "")


def _per_row(frame: pl.DataFrame) -> pl.DataFrame:
    """The profiled launches of each row of the trace as one: means, and the words of the longest launch."""
    promise = [pl.col("speedup_type") == "global", pl.col("estimated_speedup_percent")]
    return frame.group_by("row", maintain_order=True).agg(
        EVENTS.alias("profiled"),
        pl.col("matched_by").first(),
        *(pl.col(name).mean().alias("ncu_us" if name == "time_us" else name) for name in MEANS),
        *(pl.col(name).sort_by("time_us", descending=True, nulls_last=True).first() for name in FIRSTS),
        *(pl.col(name).sort_by(promise, descending=True, nulls_last=True).first() for name in RULE_COLUMNS),
    )


def _best_rules(rules: Table | None) -> pl.DataFrame:
    """Per launch the rule that promises most: of the whole kernel's time rather than of a part of it."""
    schema: dict[str, DType] = {
        "process": pl.Int64, "id": pl.Int64, "kernel": pl.String, "rule": pl.String, "rule_text": pl.String,
        "estimated_speedup_percent": pl.Float64, "speedup_type": pl.String,
    }  # fmt: skip
    if rules is None:
        return pl.DataFrame(schema=schema)
    return (
        rules.frame.filter(pl.col("kind") == "OPT")
        .rename({"text": "rule_text"})
        .sort(
            pl.col("speedup_type") == "global", "estimated_speedup_percent", descending=True, nulls_last=True,
            maintain_order=True,
        )
        .unique(["process", "id", "kernel"], keep="first", maintain_order=True)
        .select(list(schema))
    )  # fmt: skip
