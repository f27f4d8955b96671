"""Columns have types: a table is checked against them, and an empty one has the types of a full one in every output."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import polars as pl
import pytest

import warplens
from kernel_traces import copy_past_the_end, matmul, trace_of
from support import ROOT
from warplens.analyses import MEMORY_TABLES
from warplens.analyses.units.replayed import REPLAY_TABLES
from warplens.model.memory_facts import no_memory
from warplens.model.records import records
from warplens.model.table import Column, Table
from warplens.model.trace import empty_trace
from warplens.outputs import Document
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.tables import pack_table
from warplens.outputs.json_text import json_bytes
from warplens.outputs.tabular import csv_bytes, parquet_bytes
from warplens.outputs.workbook import workbook_bytes
from warplens_lab.checking.checks import CheckResult, KernelCheck, suggestions_table
from warplens_lab.checking.config_ranking import RankedConfig, ranking_table
from warplens_lab.checking.measured_tables import measured_tables
from warplens_lab.comparing.compilations import compare
from warplens_lab.compiling.records import Config
from warplens_lab.facts import facts_tables
from warplens_lab.facts.records import (
    Access,
    BarrierUse,
    Branch,
    Conversion,
    KernelFacts,
    Line,
    LoopSchedule,
    Occupancy,
    ScheduleStep,
    SharedAccess,
    SourcePlace,
)
from warplens_lab.measured.joining import KernelMeasurements
from warplens_lab.suggesting.records import Suggestion
from warplens_lab.tracing.tables import TABLES as TRACED_TABLES
from warplens_run.formats.replay_result import empty_result, load

SAMPLES = ROOT / "samples"
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
NAME = Column("name", "its name", "", pl.String)
SIZE = Column("size_bytes", "its size", "bytes", pl.Int64)
TIME = Column("time_us", "its time", "us", pl.Float64)
RATIO = Column("ratio", "of two times", "", pl.Float64)


class Sized(NamedTuple):
    size_bytes: int
    name: str


@dataclass(frozen=True)
class Timed:
    name: str
    time_us: float | None


def test_rows_are_tuples_mappings_or_records() -> None:
    rows: list[object] = [("a", 1), {"size_bytes": 2, "name": "b"}, {"name": "c"}]
    table = Table.from_rows("sizes", "one row per thing", [NAME, SIZE], rows)
    assert table.frame.rows() == [("a", 1), ("b", 2), ("c", None)]
    table = Table.from_rows("times", "one row per thing", [TIME, NAME], [Timed("a", 2.5)])
    assert table.frame.rows() == [(2.5, "a")]


@pytest.mark.parametrize("value", [1.0, "1", [1]])
def test_a_value_of_another_type_is_an_error_that_names_table_and_column(value: object) -> None:
    with pytest.raises(TypeError, match=r"table sizes: column size_bytes: "):
        Table.from_rows("sizes", "one row per thing", [SIZE], [(1,), (value,)])


def test_a_row_with_a_value_too_few_or_an_unknown_column_is_an_error() -> None:
    with pytest.raises(ValueError):
        Table.from_rows("sizes", "one row per thing", [NAME, SIZE], [("a",)])
    with pytest.raises(ValueError, match="no columns for colour"):
        Table.from_rows("sizes", "one row per thing", [NAME, SIZE], [{"name": "a", "colour": "red"}])
    with pytest.raises(AttributeError, match="size_bytes"):
        Table.from_rows("sizes", "one row per thing", [SIZE], [Timed("a", 2.5)])


def test_a_frame_is_not_cast_to_the_declared_type() -> None:
    frame = pl.DataFrame({"size_bytes": [1, 2]}, schema={"size_bytes": pl.UInt32})
    with pytest.raises(TypeError, match="table sizes: column size_bytes is declared Int64, is UInt32"):
        Table.from_frame("sizes", "one row per thing", [SIZE], frame)


def test_only_decimals_with_a_unit_are_rounded() -> None:
    third = 1 / 3
    table = Table.from_rows("times", "one row per thing", [TIME, RATIO], [(third, third)])
    assert table.frame.rows() == [(0.333333, third)]


def test_a_table_reads_as_records() -> None:
    table = Table.from_rows("sizes", "one row per thing", [NAME, SIZE, TIME], [("a", 1, None), ("b", 2, 0.5)])
    assert table.records(Sized) == [Sized(1, "a"), Sized(2, "b")]
    assert table.records(Timed) == [Timed("a", None), Timed("b", 0.5)]
    assert records(table.frame.clear(), Sized) == []


class Wrong(NamedTuple):
    size_bytes: str


class Strict(NamedTuple):
    time_us: float


class Absent(NamedTuple):
    colour: str


class Loose(NamedTuple):
    size_bytes: Any
    name: object


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Wrong, "Wrong.size_bytes: declared str, the column is Int64"),
        (Strict, "Strict.time_us: the column has nulls"),
        (Absent, "Absent.colour: no such column; there are name, size_bytes, time_us"),
    ],
)
def test_a_record_that_does_not_fit_the_table_is_an_error(kind: type, reason: str) -> None:
    table = Table.from_rows("sizes", "one row per thing", [NAME, SIZE, TIME], [("a", 1, None)])
    with pytest.raises((TypeError, ValueError), match=reason):
        table.records(kind)
    assert table.records(Loose) == [Loose(1, "a")]


def schemas(tables: Iterable[Table]) -> dict[str, dict[str, pl.DataType]]:
    return {table.name: dict(table.frame.schema) for table in tables}


def differing(full: Iterable[Table], empty: Iterable[Table]) -> dict[str, set[str]]:
    """Per table the columns of both whose types differ."""
    first, second = schemas(full), schemas(empty)
    columns = {name: first[name].keys() & second[name].keys() for name in first.keys() & second.keys()}
    wrong = {
        name: {each for each in shared if first[name][each] != second[name][each]} for name, shared in columns.items()
    }
    return {name: found for name, found in wrong.items() if found}


def test_every_count_has_64_bits() -> None:
    """Numbers of GPUs and steps keep the type that events have."""
    numbers = {"device", "gpu", "step"}
    narrow = {
        (table.name, name): dtype
        for table in EMPTY
        for name, dtype in table.frame.schema.items()
        if dtype.is_integer() and dtype != pl.Int64 and name not in numbers
    }
    assert narrow == {("host_events", "depth"): pl.Int32}


def profiles() -> list[Path]:
    folders = ("execution_trace", "jax", "kineto", "ncu", "proton", "replay")
    files = [path for folder in folders for path in sorted((SAMPLES / folder).glob("*.gz"))]
    return [path for path in files if not path.name.endswith((".tar.gz", ".result.json.gz", ".et.json.gz"))]


@cache
def sample(name: str) -> warplens.Profile | warplens.PathsProfile:
    """For what only reads tables, several times over."""
    return warplens.open(SAMPLES / f"{name}.gz", cache=False)


def every_table(profile: warplens.Profile | warplens.PathsProfile) -> list[Table]:
    return [profile.table(name) for name in profile.table_names]


EMPTY = every_table(warplens.Profile(empty_trace(), read_memory=no_memory))


@pytest.mark.parametrize("path", profiles(), ids=lambda path: path.name)
def test_tables_of_every_sample_have_the_types_of_an_empty_trace(path: Path) -> None:
    """Profiles of call paths too, where they have tables of the same names."""
    profile = warplens.open(path, cache=False)
    full = every_table(profile)
    assert differing(full, EMPTY) == {}
    if isinstance(profile, warplens.Profile):
        present = {table.name for table in full}
        expected = [table for table in EMPTY if table.name in present or table.name not in MEMORY_TABLES]
        assert schemas(full) == schemas(expected)


def test_path_tables_have_the_same_types_in_every_profile() -> None:
    every = [
        every_table(warplens.open(path, cache=False)) for path in sorted((SAMPLES / "proton").glob("*.hatchet.gz"))
    ]
    assert len(every) > 3
    for tables in every[1:]:
        assert schemas(tables).keys() == schemas(every[0]).keys()
        assert differing(tables, every[0]) == {}


def test_tables_of_counters_have_the_same_types_on_every_page() -> None:
    raw, details = (every_table(warplens.open(SAMPLES / "ncu" / f"ops_{page}.csv.gz")) for page in ("raw", "details"))
    assert {"counters", "counter_stalls", "counter_rules"} <= schemas(raw).keys() | schemas(details).keys()
    assert differing(raw, details) == {}


def test_compared_tables_have_the_types_of_a_comparison_of_nothing() -> None:
    nothing = warplens.Profile(empty_trace())
    names = ("gpt2_train_step", "gpt2_train_compiled")
    a, b = (sample(f"kineto/{name}.json") for name in names)
    full, empty, half = (warplens.diff(*pair).tables() for pair in ((a, b), (nothing, nothing), (nothing, b)))
    assert schemas(full) == schemas(empty) == schemas(half)


def test_tables_of_a_replay_have_the_types_of_an_empty_result() -> None:
    result = load(SAMPLES / "replay" / "gpt2_compiled.result.json.gz")
    full, empty = ([make(each) for make in REPLAY_TABLES.values()] for each in (result, empty_result()))
    assert schemas(full) == schemas(empty)


def bare_facts(**facts: Any) -> KernelFacts:
    return KernelFacts(
        kernel="copy", file="k.py", target="sm90", triton_version="", signature="", config="", num_warps=4,
        num_stages=1, num_ctas=1, **facts,
    )  # fmt: skip


def known_facts() -> KernelFacts:
    place, shape = SourcePlace("k.py", 3), (64, 64)
    return bare_facts(
        lines=(Line(place, "x = tl.load(p)", 5, 5, ()),),
        occupancy=Occupancy(2, 8, 64, "registers", ()),
        accesses=(Access(place, "load", "p", "f16", 16, shape, True, False, True, 64, 64, 128, 2, (), ("n",), ()),),
        shared=(SharedAccess(place, "store", "rows", shape, 16, 64, 3, 7, 0, 8, 0, in_loop=True),),
        conversions=(Conversion(place, "blocked", "mma", shape, 16, in_loop=True, through="warps"),),
        branches=(Branch(place, "lanes", 16, 8, in_loop=True, jumps=1, regions=1),),
        barriers=(BarrierUse(place, "sync", 1, 2, 256, (0, 1), in_loop=True, parted_by=place),),
        schedule=(
            LoopSchedule(place, "pipelined", 2, "", (), (ScheduleStep(place, "", 0, "copy", "ttg.async_copy", 1, 0),)),
        ),
        seconds=1.5,
    )


def kernel_tables(facts: list[KernelFacts]) -> list[Table]:
    checks = tuple(
        KernelCheck(
            each,
            (Suggestion(code="WK101", title="", compiled_for="sm90", config="", evidence="", advice=""),),
            measured=KernelMeasurements(),
        )
        for each in facts
    )
    ranked = [RankedConfig(1, Config(), "good", each) for each in facts]
    compared = [compare(each, each) for each in facts]
    return [
        *facts_tables(facts),
        suggestions_table(CheckResult(checks)),
        *measured_tables(checks),
        ranking_table(ranked),
        *compared,
    ]


def test_tables_of_kernel_facts_have_their_types_whatever_is_known() -> None:
    nothing, bare, known, both = (
        schemas(kernel_tables(facts)) for facts in ([], [bare_facts()], [known_facts()], [bare_facts(), known_facts()])
    )
    assert bare == known == both
    assert nothing.items() <= known.items()
    empty = {table.name for table in kernel_tables([known_facts()]) if not len(table)}
    assert empty == {"kernel_remarks", "kernel_stalls"}
    assert pl.Null not in {dtype for schema in known.values() for dtype in schema.values()}


def test_tables_of_a_kernel_trace_have_the_types_of_an_empty_trace(tmp_path: Path) -> None:
    traced = trace_of(matmul(tmp_path), copy_past_the_end(tmp_path))
    full, empty = ([make(trace) for make in TRACED_TABLES.values()] for trace in (traced, trace_of()))
    assert [table.name for table in full if not len(table)] == ["kernel_numbers"], "only a run with a shadow has them"
    assert schemas(full) == schemas(empty)


CELL_TYPES = {pl.String: "s", pl.Boolean: "b"}
"""How a sheet marks its cells; numbers have no mark."""


def sheet_of(table: Table) -> ElementTree.Element:
    with zipfile.ZipFile(io.BytesIO(workbook_bytes(document(table)))) as archive:
        return ElementTree.fromstring(archive.read("xl/worksheets/sheet2.xml"))  # the first is the cover


@pytest.mark.parametrize("name", ["kernels", "gaps", "findings", "measured_kernels", "quality"])
def test_a_workbook_has_cells_and_formats_of_the_declared_types(name: str) -> None:
    full = sample("ncu/ops_trace.json").table(name)
    empty = warplens.Profile(empty_trace()).table(name)
    for row in list(sheet_of(full).iter(f"{SHEET}row"))[1:]:
        for cell in row.iter(f"{SHEET}c"):
            column = full.columns[column_number(cell.attrib["r"])]
            assert cell.attrib.get("t", "") == CELL_TYPES.get(type(column.dtype()), ""), column
    assert column_formats(full) == column_formats(empty)


def column_formats(table: Table) -> list[str | None]:
    """Of each column; neighbours that look alike are one entry in the file."""
    entries = [entry.attrib for entry in sheet_of(table).iter(f"{SHEET}col")]
    return [entry.get("style") for entry in entries for _ in range(int(entry["min"]), int(entry["max"]) + 1)]


def column_number(cell: str) -> int:
    number = 0
    for letter in cell.rstrip("0123456789"):
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def document(table: Table) -> Document:
    return Document("", "", {}, [table])


@pytest.mark.parametrize("name", ["kernels", "gaps", "findings", "measured_kernels"])
def test_every_output_gives_an_empty_table_the_types_of_a_full_one(name: str) -> None:
    full = sample("kineto/gpt2_train_step.json").table(name)
    empty = warplens.Profile(empty_trace()).table(name)
    frames = [pl.read_parquet(io.BytesIO(parquet_bytes(document(table)))) for table in (full, empty)]
    assert frames[0].schema == frames[1].schema
    columns = [msgspec.json.decode(json_bytes(document(table)))["tables"][name]["columns"] for table in (full, empty)]
    assert columns[0] == columns[1]
    heads = [csv_bytes(document(table)).splitlines()[0] for table in (full, empty)]
    assert heads[0] == heads[1]
    kinds = [
        [(column.data.is_text, column.data.is_bool) for column in pack_table(table, Packer()).columns]
        for table in (full, empty)
    ]
    assert kinds[0] == kinds[1]
