"""SQL over tables: only queries, nothing from files, and results named after what they compute."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from support import ends
from warplens.profiles.sql import run_query
from warplens.profiles.sql_checks import MOST_DEPTH, MOST_TOKENS, check_condition
from warplens.profiles.sql_text import with_names
from warplens_run.base.errors import UsageError

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
        check_condition(f"count in (select secret from {source})")


def test_texts_that_look_like_statements_or_functions_are_only_texts() -> None:
    query = "select op from kernels where op <> 'drop table read_csv(1)'"
    assert with_names(query) == query
    assert len(run_query({"kernels": lambda: KERNELS}, query)) == 3


def test_an_error_of_a_query_is_one_line_with_the_tables() -> None:
    with pytest.raises(UsageError) as caught:
        names("select nothing from kernels")
    assert "\n" not in str(caught.value)
    assert caught.value.hint == "tables: kernels"


@pytest.mark.parametrize(
    "query",
    ["select * from kernels /* /* */ ' */ , read_csv('{}') --'",
     "select $$'$$, secret from read_csv('{}') --'",
     "select $a$'$a$, secret from read_csv('{}') --'",
     "select E'\\'', secret from read_csv('{}') --'",
     "select U&'\\'', secret from read_csv('{}') --'",
     "select r'\\'', secret from read_csv('{}') --'"],
)  # fmt: skip
def test_no_call_hides_in_what_only_looks_like_a_string(query: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("secret\n1\n")
    with pytest.raises(UsageError, match=r"SQL: (comments cannot be nested|\$ is not|strings of the form)"):
        names(query.format(path))


@pytest.mark.parametrize(
    "query", ["select 1; drop table kernels", "select 1; select 2", "select 1;; delete from kernels"]
)
def test_a_second_statement_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="more than one statement"):
        names(query)


def test_a_query_may_end_in_semicolons_and_comments() -> None:
    assert names("select op from kernels;; -- done") == ["op"]


DEEP = {
    "parentheses": lambda n: "(" * n + "count" + ")" * n,
    "calls": lambda n: "abs(" * n + "count" + ")" * n,
    "arrays": lambda n: "[" * n + "1" + "]" * n,
    "cases": lambda n: "case when count > 0 then " * n + "1" + " end" * n,
    "sums": lambda n: "+".join(["count"] * n),
    "texts": lambda n: "||".join(["'a'"] * n),
    "signs": lambda n: "- " * n + "count",
    "nots": lambda n: "not " * n + "count > 0",
    "nulls": lambda n: "count" + " is null" * n,
    "intervals": lambda n: "interval " * n + "'1 day'",
}


@pytest.mark.parametrize("kind", DEEP)
def test_what_would_exhaust_the_stack_is_an_error(kind: str) -> None:
    with pytest.raises(UsageError, match=r"the limit is"):
        names(f"select {DEEP[kind](3_000)} from kernels")
    with pytest.raises(UsageError, match=r"the limit is"):
        check_condition(f"{DEEP[kind](3_000)} > 0")


def test_chains_of_selects_are_limited_too() -> None:
    for query in (" union all ".join(["select op from kernels"] * 3_000),
                  "with c0 as (select op from kernels)"
                  + "".join(f", c{i + 1} as (select op from c{i})" for i in range(3_000)) + " select * from c3000"):  # fmt: skip
        with pytest.raises(UsageError, match="the limit is"):
            names(query)


def test_the_largest_query_within_the_limits_is_answered() -> None:
    half = MOST_TOKENS // 2
    assert names(f"select {'+'.join(['count'] * (half - 2))} as a from kernels") == ["a"]
    assert names(f"select {'(' * MOST_DEPTH}count{')' * MOST_DEPTH} as a from kernels") == ["a"]
    listed = ", ".join(map(str, range(20_000)))
    assert names(f"select op from kernels where count in ({listed})") == ["op"]


def test_comments_without_an_end_are_read_in_one_pass() -> None:
    with pytest.raises(UsageError), ends("reading the comments", 20):
        names("select 1 " + "/*" * 60_000)
