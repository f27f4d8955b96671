"""What is opened answers the same questions, whatever it is."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest

import warplens
from opened_kinds import KINDS, SAMPLES, a_kernel_check, a_kernel_trace, a_replay, a_trace, call_paths
from support import kernel, launch, op, write_trace
from warplens_lab.facts import save_facts

TIMED = ("trace",)
WITHOUT_TREE = ("kernel check", "kernel trace", "replay", "memory snapshot")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str, tmp_path: Path) -> warplens.Opened:
    return KINDS[kind](tmp_path)


def test_every_kind_has_the_names_of_the_protocol(opened: warplens.Opened) -> None:
    assert isinstance(opened, warplens.Opened)


def test_table_accepts_every_name_that_table_names_lists_and_makes_each_once(opened: warplens.Opened) -> None:
    for name in opened.table_names:
        assert opened.table(name).name == name
        assert opened.table(name) is opened.table(name)
    assert len(set(opened.table_names)) == len(opened.table_names)


def test_tables_and_document_are_those_of_the_report_and_come_first(opened: warplens.Opened) -> None:
    report = list(opened.report_names)
    assert [table.name for table in opened.tables()] == report == list(opened.table_names[: len(report)])
    assert [table.name for table in opened.document().tables] == report
    assert [table.name for table in opened.document(report[:1]).tables] == report[:1]


def test_an_unknown_table_is_one_error_that_lists_the_known_ones(opened: warplens.Opened) -> None:
    with pytest.raises(warplens.UsageError, match="no table 'nothing'") as failure:
        opened.table("nothing")
    assert str(failure.value) == f"no table 'nothing'; tables: {', '.join(opened.table_names)}"


def test_sql_knows_every_table(opened: warplens.Opened) -> None:
    for name in opened.table_names:
        (row,) = opened.sql(f"select count(*) as rows from {name}").to_dicts()
        assert row == {"rows": len(opened.table(name))}
    with pytest.raises(warplens.UsageError, match=f"no table 'nothing'; tables: {opened.table_names[0]}"):
        opened.sql("select * from nothing")


def test_the_document_begins_with_the_verdict(opened: warplens.Opened) -> None:
    assert opened.verdict()
    assert opened.document().answer == opened.answer()
    assert opened.document().source == opened.source


def test_only_a_trace_has_a_timeline_and_the_others_say_so(kind: str, opened: warplens.Opened) -> None:
    assert opened.has_timeline == (kind in TIMED)
    if opened.has_timeline:
        assert opened.with_timeline() is opened
        return
    with pytest.raises(warplens.WarplensError, match="without a timeline"):
        opened.with_timeline()


def test_a_tree_keeps_its_totals_or_there_is_one_error(kind: str, opened: warplens.Opened) -> None:
    if kind in WITHOUT_TREE:
        with pytest.raises(warplens.UsageError, match="without call paths"):
            opened.tree()
        return
    tree = opened.tree()
    assert len(tree)
    tree.self_check()


def test_findings_are_a_list(opened: warplens.Opened) -> None:
    assert all(isinstance(finding, warplens.Finding) for finding in opened.findings())


def test_a_table_that_needs_more_than_the_trace_says_what_it_needs(tmp_path: Path) -> None:
    profile = a_trace(tmp_path)
    assert "replay" not in profile.table_names
    with pytest.raises(warplens.UsageError, match=r"table replay needs the result of a replay: open .* with replay="):
        profile.table("replay")


def test_tables_that_no_report_has_are_made_on_demand(tmp_path: Path) -> None:
    profile = a_trace(tmp_path)
    on_demand = {
        "unique",
        "unique_kernels",
        "units",
        "op_sequences",
        "gpu_events",
        "host_events",
        "call_tree",
        "bounds",
        "breakdown",
        "step_time",
        "critical_path",
        "critical_path_sums",
        "what_if",
    }
    assert set(profile.table_names) - set(profile.report_names) == on_demand


def test_the_tree_of_a_comparison_has_the_time_of_b_and_the_change(tmp_path: Path) -> None:
    slow = [op("aten::mm", 0, 10), launch(1, 2, 1), kernel("gemm", 20, 60, 1)]
    fast = [op("aten::mm", 0, 10), launch(1, 2, 1), kernel("gemm", 20, 20, 1)]
    comparison = warplens.diff(
        write_trace(tmp_path / "a.json", slow), write_trace(tmp_path / "b.json", fast), cache=False
    )
    tree = comparison.tree("op")
    assert tree.total_ns[0] == 20_000
    assert (tree.total("a_us")[0], tree.total("b_us")[0], tree.total("change_us")[0]) == (60.0, 20.0, -40.0)


def test_a_query_of_a_trace_also_knows_its_events(tmp_path: Path) -> None:
    frame = a_trace(tmp_path).sql("select name from events where kind = 'kernel'").to_polars()
    assert frame.equals(pl.DataFrame({"name": ["gemm"]}))


def test_two_things_that_are_not_of_a_kind_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(warplens.UsageError, match=r"has a timeline, .* has none"):
        warplens.diff(a_trace(tmp_path), call_paths(tmp_path))


def test_the_suggestions_of_a_kernel_check_are_its_findings(tmp_path: Path) -> None:
    check = a_kernel_check(tmp_path)
    (finding,) = check.findings()
    assert (finding.code, finding.place, finding.gain_ms) == ("WK102", "product.py:6", 0.0)
    assert check.verdict() == "product compiled for sm90: 1 suggestion in 1 compilation."
    assert check.hardware is not None and check.hardware.architecture == "sm_90"


def test_tables_of_measured_times_need_a_profile(tmp_path: Path) -> None:
    with pytest.raises(warplens.UsageError, match="table kernel_measured needs a profile of the same kernels"):
        a_kernel_check(tmp_path).table("kernel_measured")


def test_the_verdict_of_a_kernel_trace_counts_its_faults(tmp_path: Path) -> None:
    trace = a_kernel_trace(tmp_path)
    assert trace.verdict().endswith("1 fault.")
    assert len(trace.table("kernel_faults")) == 1


def test_a_replay_says_how_much_of_the_trace_it_covers(tmp_path: Path) -> None:
    replay = a_replay(tmp_path)
    assert replay.verdict().startswith("100.0% of the traced GPU time was replayed on NVIDIA H200: 0.99 × the traced")
    assert replay.hardware is not None and replay.hardware.name == "H200"


def test_nothing_is_joined_to_what_is_not_a_trace(tmp_path: Path) -> None:
    save_facts(tmp_path / "facts.json", [])
    with pytest.raises(warplens.UsageError, match="is not a trace"):
        warplens.open(tmp_path / "facts.json", replay=SAMPLES / "replay" / "gpt2_compiled.result.json.gz")


def test_a_plan_is_not_a_profile_and_the_hint_says_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"format": "warplens-replay-plan", "version": 1}')
    with pytest.raises(warplens.FormatError, match="a replay plan, not a profile") as failure:
        warplens.open(tmp_path / "plan.json")
    assert failure.value.hint == "run it: warplens replay run PLAN"


@pytest.mark.parametrize(
    "text", ['{"format": "warplens kernel facts"', '{"format": "warplens-replay-result", "units": 3}']
)
def test_a_damaged_file_of_these_kinds_is_one_format_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(warplens.FormatError):
        warplens.open(tmp_path / "x.json")


def test_a_zip_of_something_else_is_not_taken_for_a_kernel_trace(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(write_trace(tmp_path / "t.json", [kernel("gemm", 20, 20, 1)]), "header.json.txt")
    assert warplens.open(tmp_path / "x.zip", cache=False).has_timeline
