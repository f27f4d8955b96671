"""The page's tables of events and call paths, made without a page: the same columns, and every event once."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import warplens
from support import ROOT, SAMPLES
from warplens.analyses import EVENT_TABLES
from warplens.profiles.trace import Profile

WEB = ROOT / "web" / "src" / "report" / "views"
TRACES = [path for path in SAMPLES if path.suffixes == [".json", ".gz"]]


def opened(path: Path) -> Profile:
    return warplens.open(path, cache=False).with_timeline()


def page_columns(name: str) -> list[str]:
    """The columns that the page's own code declares for a table, in order."""
    if name == "call_tree":
        text = (WEB / "flame" / "table.ts").read_text()
        return re.findall(r'column\(\s*"(\w+)"', text)
    text = (WEB / "tables" / "events.ts").read_text()
    function = {"gpu_events": "gpuEvents", "host_events": "hostEvents"}[name]
    body = text[text.index(f"function {function}(") :]
    return re.findall(r'builder\.(?:number|text)\(\s*"(\w+)"', body[: body.index("builder.finish")])


@pytest.mark.parametrize("name", EVENT_TABLES)
def test_the_columns_are_those_of_the_page(name: str) -> None:
    assert opened(TRACES[0]).table(name).frame.columns == page_columns(name)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_event_is_in_one_table_and_the_tree_has_all_gpu_time(path: Path) -> None:
    profile = opened(path)
    gpu, host, tree = (profile.table(name).frame for name in EVENT_TABLES)
    assert gpu.height == len(profile.trace.gpu_rows)
    assert gpu.height + host.height == len(profile.trace)
    assert gpu["dur_us"].sum() == pytest.approx(profile.gpu_events()["dur_ns"].sum() / 1e3)
    if gpu.height:
        assert tree["total_us"][0] == pytest.approx(gpu["dur_us"].sum())
        assert tree["self_us"].sum() == pytest.approx(gpu["dur_us"].sum())
    assert tree.filter(pl.col("depth") > 0)["path"].str.ends_with(";").any() is False


def test_the_tables_are_in_sql_but_not_in_a_report() -> None:
    profile = opened(TRACES[0])
    assert not set(EVENT_TABLES) & set(profile.report_names)
    for name in EVENT_TABLES:
        counted = profile.sql(f"select count(*) from {name}").to_dicts()
        assert counted == [{"count(*)": len(profile.table(name))}]
