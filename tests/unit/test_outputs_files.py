"""Where outputs go: the path rules, the overwrite rule, and whole files only."""

from __future__ import annotations

import doctest
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import get_args

import polars as pl
import pytest

from support import tiny_disk
from warplens.model.table import Column, Table
from warplens.outputs import OUTPUTS, Document, choose_output, plan_outputs, registry, write
from warplens.outputs.document import DocumentKind
from warplens_run.base import text as text_module
from warplens_run.base.errors import UsageError, WarplensError


def sizes(name: str = "sizes") -> Table:
    frame = pl.DataFrame({"tensor": ["a", "b"], "bytes": [4, 8]})
    columns = (Column("tensor", "its name", "", pl.String), Column("bytes", "size in memory", "bytes", pl.Int64))
    return Table(name, "one row per tensor", columns, frame)


def unwritable() -> Table:
    frame = pl.DataFrame({"thing": pl.Series([object()], dtype=pl.Object)})
    return Table("things", "a column no format can hold", (Column("thing", "an object", "", pl.Object),), frame)


def document(*tables: Table) -> Document:
    return Document("Report", "trace.json", {"device": "H200"}, tables or (sizes(),))


def everything_under(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("module", [registry, text_module])
def test_every_documented_example_holds(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted
    assert results.failed == 0


@pytest.mark.parametrize("suffix", ["xlsx", "json", "md", "csv", "parquet", "JSON"])
def test_a_suffix_chooses_the_output(suffix: str) -> None:
    output = choose_output(f"some/report.{suffix}")
    assert output.suffix == f".{suffix.lower()}"
    assert not output.directory


def test_a_trailing_slash_or_an_existing_directory_chooses_a_directory(tmp_path: Path) -> None:
    assert choose_output("missing/").directory
    assert choose_output(str(tmp_path)).directory
    dotted = tmp_path / "run.json"
    dotted.mkdir()
    assert choose_output(str(dotted), tables="parquet").suffix == ".parquet"


@pytest.mark.parametrize("path", ["", "report", "report.htm", "report.pdf", ".json.bak", "-"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_output(path)
    assert all(known in str(caught.value.hint) for known in (".xlsx", ".json", ".md", ".csv", ".parquet", "/"))


def test_an_unknown_table_format_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown table format 'feather'") as caught:
        choose_output("x.json", tables="feather")
    assert caught.value.hint == "one of: csv, csv-safe, parquet"


def test_a_plan_checks_every_path_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        plan_outputs([f"{tmp_path}/a/x.json", f"{tmp_path}/b.unknown"], tables="csv", force=False)
    assert everything_under(tmp_path) == []


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists") as caught:
        plan_outputs([str(path)], tables="csv", force=False)
    assert "force" in str(caught.value.hint)
    (target,) = plan_outputs([str(path)], tables="csv", force=True)
    assert write(target, document()) == [path]
    assert path.read_bytes().startswith(b"{")


def test_a_file_that_appears_after_the_plan_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    (target,) = plan_outputs([str(path)], tables="csv", force=False)
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write(target, document())
    assert path.read_text() == "mine"


def test_a_directory_holds_one_file_per_table_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (target,) = plan_outputs([str(tmp_path)], tables="parquet", force=False, names=["a", "b"])
    written = write(target, document(sizes("a"), sizes("b")))
    assert [path.name for path in written] == ["a.parquet", "b.parquet"]
    assert everything_under(tmp_path) == ["a.parquet", "b.parquet", "notes.txt"]


def test_files_in_a_directory_count_as_existing(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("mine")
    with pytest.raises(UsageError, match=r"b\.csv already exists"):
        plan_outputs([str(tmp_path)], tables="csv", force=False, names=["a", "b"])
    (unnamed,) = plan_outputs([str(tmp_path)], tables="csv", force=False)
    with pytest.raises(UsageError, match=r"b\.csv already exists"):
        write(unnamed, document(sizes("a"), sizes("b")))
    assert everything_under(tmp_path) == ["b.csv"]
    (forced,) = plan_outputs([str(tmp_path)], tables="csv", force=True, names=["a", "b"])
    write(forced, document(sizes("a"), sizes("b")))
    assert (tmp_path / "b.csv").read_text().startswith("tensor,bytes")


def test_missing_parents_are_made(tmp_path: Path) -> None:
    plan = plan_outputs([f"{tmp_path}/a/b/x.md", f"{tmp_path}/c/d/"], tables="csv", force=False)
    for target in plan:
        write(target, document())
    assert everything_under(tmp_path) == ["a", "a/b", "a/b/x.md", "c", "c/d", "c/d/sizes.csv"]


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, not a directory"):
        plan_outputs([f"{tmp_path}/file/"], tables="csv", force=True)
    with pytest.raises(UsageError, match="file is not a directory"):
        plan_outputs([f"{tmp_path}/file/x.json"], tables="csv", force=True)
    (tmp_path / "sizes.csv").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        plan_outputs([str(tmp_path)], tables="csv", force=True, names=["sizes"])


@pytest.mark.parametrize(
    "paths", [["x.json", "./x.json"], ["out/", "out"], ["out/", "out/sizes.csv"], ["out/", "out/../out/"]]
)
def test_the_same_file_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="would be written twice"):
        plan_outputs(paths, tables="csv", force=False, names=["sizes"])


def test_two_formats_of_one_name_are_two_files(tmp_path: Path) -> None:
    plan = plan_outputs([f"{tmp_path}/x.json", f"{tmp_path}/x.xlsx"], tables="csv", force=False)
    assert [target.output.name for target in plan] == ["json", "xlsx"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_one_table_file_refuses_several_tables(tmp_path: Path, suffix: str) -> None:
    path = f"{tmp_path}/x.{suffix}"
    with pytest.raises(UsageError, match="holds one table and there are 2") as caught:
        plan_outputs([path], tables="csv", force=False, names=["a", "b"])
    assert "x/" in str(caught.value.hint)
    (target,) = plan_outputs([path], tables="csv", force=False)
    with pytest.raises(UsageError, match="holds one table"):
        write(target, document(sizes("a"), sizes("b")))
    assert everything_under(tmp_path) == []


def test_a_table_name_cannot_leave_its_directory(tmp_path: Path) -> None:
    (target,) = plan_outputs([f"{tmp_path}/out/"], tables="csv", force=False)
    written = write(target, document(sizes("../evil"), sizes("a/b"), sizes("A_b"), sizes(".hidden")))
    assert [path.name for path in written] == ["_._evil.csv", "a_b.csv", "A_b~2.csv", "_hidden.csv"]
    assert {path.parent for path in written} == {tmp_path / "out"}


def test_two_tables_of_one_name_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="distinct names"):
        document(sizes(), sizes())


@pytest.mark.parametrize("path", ["x.json", "x.xlsx", "x.csv", "x.parquet", "out/"])
def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path: Path, path: str) -> None:
    (target,) = plan_outputs([f"{tmp_path}/new/{path}"], tables="parquet", force=False)
    tables = [unwritable()] if target.output.one_table and not target.output.directory else [sizes(), unwritable()]
    with pytest.raises(WarplensError, match="table things cannot be written as") as caught:
        write(target, document(*tables))
    assert "\n" not in caught.value.message
    assert everything_under(tmp_path) == []


def test_a_failure_keeps_the_files_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("mine")
    (target,) = plan_outputs([str(tmp_path)], tables="csv", force=True)
    with pytest.raises(WarplensError):
        write(target, document(sizes(), unwritable()))
    assert everything_under(tmp_path) == ["sizes.csv"]
    assert (tmp_path / "sizes.csv").read_text() == "mine"


@pytest.mark.parametrize("path", ["x.json", "x.xlsx", "x.md", "x.csv", "x.parquet", "out/"])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, path: str) -> None:
    (target,) = plan_outputs([f"{tmp_path}/new/{path}"], tables="csv", force=False)
    with tiny_disk(), pytest.raises(WarplensError, match=r"cannot write .*: File too large") as caught:
        write(target, document())
    assert not isinstance(caught.value, UsageError)
    assert everything_under(tmp_path) == []


def test_a_directory_without_permission_is_said_in_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(WarplensError, match="no permission to write in"):
        plan_outputs([f"{tmp_path}/x.json"], tables="csv", force=False)


def test_a_name_too_long_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="name too long"):
        plan_outputs([f"{tmp_path}/{'x' * 300}.json"], tables="csv", force=False)


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (target,) = plan_outputs([f"{tmp_path}/new/x.json"], tables="csv", force=False)
    monkeypatch.setattr(os, "link", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(target, document())
    assert everything_under(tmp_path) == []


def test_files_are_as_readable_as_the_umask_allows(tmp_path: Path) -> None:
    (target,) = plan_outputs([f"{tmp_path}/x.json"], tables="csv", force=False)
    before = os.umask(0o022)
    try:
        (path,) = write(target, document())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, warplens.outputs; print(*{'rich', 'xlsxwriter', 'polars', 'msgspec'} & set(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == []


def test_every_kind_of_document_has_a_page_of_its_own_in_the_registry() -> None:
    kinds = get_args(DocumentKind)
    pages = [output for output in OUTPUTS if output.suffix == ".html"]
    assert [page.kind for page in pages] == list(kinds)
    assert len({page.writes for page in pages}) == len(kinds)
    chosen = choose_output("x.html")
    assert [chosen.for_kind(kind) for kind in kinds] == pages
    assert choose_output("x.csv").for_kind("diff") == choose_output("x.csv")
