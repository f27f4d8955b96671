"""SQL over tables: only queries, nothing from files, and results named after what they compute."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from warplens.errors import UsageError
from warplens.profiles.sql import run_query
from warplens.profiles.sql_text import check_functions, with_names

KERNELS = pl.DataFrame({"op": ["mm", "mm", "relu"], "total_us": [1.0, 2.0, 4.0], "count": [1, 2, 3]})


def names(query: str) -> list[str]:
    return run_query({"kernels": lambda: KERNELS}, query).frame.columns


@pytest.mark.parametrize(
    ("query", "columns"),
    {
        "select count(*), sum(total_us) from kernels": ["count(*)", "sum(total_us)"],
        "select sum(total_us), max(total_us), min( total_us ) from kernels": [
            "sum(total_us)", "max(total_us)", "min( total_us )"],
        "select 1, 'a'": ["1", "'a'"],
        "select op, kernels.count, \"total_us\" from kernels": ["op", "count", "total_us"],
        "select * from kernels": ["op", "total_us", "count"],
        "select sum(total_us) as a, sum(count) b, max(count) / 2 \"c d\" from kernels": ["a", "b", "c d"],
        "select case when count > 1 then 1 end, op is null, count::float from kernels": [
            "case when count > 1 then 1 end", "op is null", "count::float"],
        "select distinct upper(op) from kernels": ["upper(op)"],
        "with a as (select count(*), op from kernels group by op) select * from a": ["count(*)", "op"],
        "select sum(count) / (select count(*) from kernels) from kernels": [
            "sum(count) / (select count(*) from kernels)"],
        "select op, count(*) -- how many\n from kernels group by 1 having count(*) > 0 order by count(*)": [
            "op", "count(*)"],
    }.items(),
)  # fmt: skip
def test_what_a_query_computes_is_named_by_its_text(query: str, columns: list[str]) -> None:
    assert names(query) == columns


def test_an_order_by_the_aggregated_column_still_works() -> None:
    found = run_query(
        {"kernels": lambda: KERNELS}, "select op, sum(total_us) from kernels group by op order by total_us"
    )
    assert found.frame["op"].to_list() == ["mm", "relu"]


@pytest.mark.parametrize(
    "statement",
    ["drop table kernels", "CREATE TABLE x AS SELECT 1", "insert into kernels values (1)", "delete from kernels",
     "truncate table kernels", "update kernels set count = 1", "explain drop table kernels", "copy kernels to 'x'",
     "/* select */ drop table kernels", "set x = 1"],
)  # fmt: skip
def test_a_statement_that_is_not_a_query_is_refused_by_name(statement: str) -> None:
    first = re.sub(r"/\*.*?\*/|explain", "", statement).split()[0].upper()
    with pytest.raises(UsageError, match=f"{first} is not supported"):
        names(statement)


@pytest.mark.parametrize("call", ["read_csv('{}')", "READ_CSV ('{}')", "\"read_csv\"('{}')", "read_parquet('{}')",
                                  "read_json/**/('{}')", "read_ipc('{}')", "scan_csv('{}')"])  # fmt: skip
def test_no_query_reads_a_file(call: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("secret\n1\n")
    source = call.format(tmp_path / "x.csv")
    for query in (f"select * from {source}", f"with a as (select * from {source}) select * from a"):
        with pytest.raises(UsageError, match="files cannot be read"):
            names(query)
    with pytest.raises(UsageError, match="files cannot be read"):
        check_functions(f"count in (select secret from {source})")


def test_texts_that_look_like_statements_or_functions_are_only_texts() -> None:
    query = "select op from kernels where op <> 'drop table read_csv(1)'"
    assert with_names(query) == query
    assert len(run_query({"kernels": lambda: KERNELS}, query)) == 3


def test_an_error_of_a_query_is_one_line_with_the_tables() -> None:
    with pytest.raises(UsageError) as caught:
        names("select nothing from kernels")
    assert "\n" not in str(caught.value)
    assert caught.value.hint == "tables: kernels"
