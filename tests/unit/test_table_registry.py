"""The registries of tables: every entry makes the table of its name, and says when that table exists."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import warplens
from support import ROOT
from warplens.analyses import (
    COUNTER_TABLES,
    EVENT_TABLES,
    GRAPH_TABLES,
    MEMORY_TABLES,
    RANGE_TABLES,
    SEQUENCE_TABLES,
    SERVING_TABLES,
    TRACE_TABLES,
    UNIT_TABLES,
    Workspace,
)
from warplens.analyses.diff import DIFF_TABLES, pair
from warplens.analyses.paths import FORMAT_TABLES, PATH_TABLES, PathWorkspace
from warplens.analyses.units.replayed import REPLAY_TABLES
from warplens.model.call_paths import CallPaths
from warplens.model.memory_facts import no_memory
from warplens.model.table_entry import TableEntry
from warplens.model.trace import empty_trace
from warplens.readers import inputs
from warplens_run.base.errors import UsageError
from warplens_run.formats.replay_result import empty_result

SAMPLES = ROOT / "samples"
EMPTY = Workspace(empty_trace(), replayed=empty_result(), read_memory=no_memory)


def path_work(path: str) -> PathWorkspace:
    paths = inputs.find(SAMPLES / path, None).read()
    assert isinstance(paths, CallPaths)
    return PathWorkspace(paths)


def made(registry: Mapping[str, TableEntry[Any]], source: object) -> list[str]:
    assert all(name == entry.name for name, entry in registry.items())
    return [entry(source).name for entry in registry.values() if entry.exists(source)]


def test_every_entry_makes_the_table_of_its_name() -> None:
    absent = {*SERVING_TABLES, *COUNTER_TABLES, *RANGE_TABLES}
    assert made(TRACE_TABLES, EMPTY) == [name for name in TRACE_TABLES if name not in absent]
    for registry in (COUNTER_TABLES, RANGE_TABLES):
        assert [entry(EMPTY).name for entry in registry.values()] == list(registry)
    assert made(REPLAY_TABLES, empty_result()) == list(REPLAY_TABLES)
    assert made(DIFF_TABLES, pair(EMPTY, EMPTY)) == list(DIFF_TABLES)
    assert made(PATH_TABLES, path_work("proton/scopes.hatchet.gz")) == list(PATH_TABLES)


def test_tables_of_a_replay_exist_where_the_trace_was_opened_with_its_result() -> None:
    without = replace(EMPTY, replayed=None, read_memory=None)
    absent = [entry for entry in TRACE_TABLES.values() if not entry.exists(without)]
    others = {*MEMORY_TABLES, *SERVING_TABLES, *COUNTER_TABLES, *RANGE_TABLES}
    absent = [entry for entry in absent if entry.name not in others]
    assert [entry.name for entry in absent] == list(REPLAY_TABLES)
    with pytest.raises(UsageError, match="table replay needs the result of a replay"):
        absent[0](without)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("proton/scopes.hatchet.gz", set()),
        ("ncu/ops_raw.csv.gz", {"counters", "counter_stalls"}),
        ("ncu/ops_details.csv.gz", {"counters", "counter_rules"}),
    ],
)
def test_tables_of_a_format_exist_where_the_file_has_them(path: str, names: set[str]) -> None:
    assert set(made(FORMAT_TABLES, path_work(path))) == names
    opened = warplens.open(SAMPLES / Path(path), cache=False)
    assert set(opened.table_names) == {*PATH_TABLES, *names}


def test_an_entry_that_does_not_always_exist_says_what_it_needs() -> None:
    registries: tuple[Mapping[str, TableEntry[Any]], ...] = (TRACE_TABLES, PATH_TABLES, FORMAT_TABLES, DIFF_TABLES)
    for registry in registries:
        for entry in registry.values():
            assert bool(entry.needs) == (entry.exists.__name__ != "always"), entry.name


def test_tables_made_on_demand_are_not_part_of_a_report() -> None:
    on_demand = [*UNIT_TABLES, *SEQUENCE_TABLES, *EVENT_TABLES, *GRAPH_TABLES]
    assert [name for name, entry in TRACE_TABLES.items() if not entry.in_report] == on_demand
