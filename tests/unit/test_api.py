"""The public names: few, light to import, documented by examples that run."""

from __future__ import annotations

import csv
import doctest
import importlib
import io
import json
import subprocess
import sys
from inspect import Parameter, signature
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl
import pytest

import warplens
from support import ROOT, Opened, annotation, kernel, launch, op, write_trace
from warplens.profiles.options import OF_ONE_TRACE, OpenOptions
from warplens.profiles.trace import TABLE_NAMES

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
GRAPH = [
    annotation("decode", 0, 50),
    launch(0, 2, 9, name="cudaGraphLaunch"),
    kernel(GEMM, 10, 30, 9),
    kernel(ADD, 40, 10, 9),
    op("aten::add", 60, 10),
    launch(61, 1, 1),
    kernel(ADD, 70, 5, 1),
    launch(90, 2, 10, name="cudaGraphLaunch"),
    kernel(GEMM, 100, 35, 10),
    kernel("my_secret_kernel", 140, 20, 10),
]


def csv_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_there_are_few_public_names_and_each_is_there() -> None:
    recording = {"start", "deactivate", "activate", "finalize", "step", "profile", "scope"} | {
        "enter_scope",
        "exit_scope",
    }
    recording |= {"energy", "trace_kernel", "watch"}
    assert recording <= set(warplens.__all__)
    opened = {"Opened", "Profile", "PathsProfile", "Comparison", "OpenedCheck", "OpenedKernelTrace", "OpenedReplay"}
    opened |= {"OpTableProfile", "JobProfile"}
    assert opened <= set(warplens.__all__)
    assert len(set(warplens.__all__) - recording - opened) <= 15, (
        "besides the verbs that record: Proton's, which users know, and energy"
    )
    for name in warplens.__all__:
        assert getattr(warplens, name) is not None
    assert set(warplens.__all__) < set(dir(warplens))


def test_functions_that_pass_options_on_take_exactly_those_of_open() -> None:
    keywords = [
        name for name, each in signature(warplens.open).parameters.items() if each.kind is Parameter.KEYWORD_ONLY
    ]
    assert list(OpenOptions.__annotations__) == keywords


NCCL4 = ROOT / "samples" / "ranks" / "nccl4"


@pytest.mark.parametrize("name", OF_ONE_TRACE)
def test_options_of_one_trace_are_refused_for_a_folder_of_ranks(name: str) -> None:
    given: Any = ["x.csv"] if name == "ncu" else 3.0 if name.endswith(("_us", "_ms")) else "x"
    with pytest.raises(warplens.UsageError, match=f"^{name} is for one trace, not for the ranks of a job$"):
        warplens.open(NCCL4, **{name: given})


def test_options_of_one_trace_have_the_defaults_of_open() -> None:
    parameters = signature(warplens.open).parameters
    assert {name: parameters[name].default for name in OF_ONE_TRACE} == OF_ONE_TRACE
    assert set(parameters) - set(OF_ONE_TRACE) - {"path"} <= set(signature(warplens.open_ranks).parameters)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = warplens.opne


def imported_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after a statement."""
    script = f"{statement}\nimport sys\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_warplens_imports_nothing_heavy() -> None:
    light = imported_by("import warplens; warplens.__version__; dir(warplens)")
    assert light.isdisjoint({"polars", "numpy", "msgspec", "rich", "pandas", "xlsxwriter", "isal"})
    assert "polars" in imported_by("import warplens; warplens.open")


def test_errors_can_be_caught_without_importing_anything_heavy() -> None:
    assert imported_by("import warplens; warplens.WarplensError").isdisjoint({"polars", "numpy", "msgspec"})


def modules_with_examples() -> list[str]:
    package = Path(warplens.__path__[0])
    files = [
        path.relative_to(package.parent).with_suffix("")
        for path in sorted(package.rglob("*.py"))
        if ">>>" in path.read_text()
    ]
    return [".".join(file.parts).removesuffix(".__init__") for file in files]


def examples(name: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(name)) if test.examples]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings_run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    runner = doctest.DocTestRunner()
    found = examples(name)
    assert found
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


def test_the_first_things_a_user_meets_have_examples() -> None:
    assert examples("warplens")
    assert any("TreePerfAnalyzer" in test.name for test in examples("warplens.compat"))


def test_every_public_class_and_function_has_a_docstring() -> None:
    assert all(getattr(warplens, name).__doc__ for name in warplens.__all__)


def test_a_table_gives_its_rows_as_polars_dicts_and_pandas(opened: Opened) -> None:
    table = opened(GRAPH).table("kernel_categories")
    assert table.to_polars().rows() == [tuple(row.values()) for row in table.to_dicts()]
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["total_us"].tolist() == table.to_polars()["total_us"].to_list()


WITHOUT_PANDAS = """
import sys

class Hiding:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in ("pandas", "pyarrow") else self.finder.find_spec(name, *rest)

sys.meta_path = [Hiding(finder) for finder in sys.meta_path]
import polars, warplens
from warplens.model.table import Table
try:
    Table("t", "", (), polars.DataFrame()).to_pandas()
except warplens.MissingExtra as error:
    print(error, error.hint, sep=" | ")
"""


def test_a_missing_optional_package_fails_with_the_command_that_installs_it() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "Table.to_pandas() needs pandas and pyarrow | pip install 'warplens[pandas]'"


def test_report_writes_every_output_and_returns_the_profile(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    outputs = [str(tmp_path / "out") + "/", str(tmp_path / "r.xlsx"), tmp_path / "r.json", tmp_path / "r.md"]
    profile = warplens.report(trace, outputs)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{name}.csv" for name in TABLE_NAMES}
    rows = csv_rows(tmp_path / "out" / "kernel_categories.csv")
    assert [row["kernel_category"] for row in rows] == profile.table("kernel_categories").frame[
        "kernel_category"
    ].to_list()
    assert ZipFile(tmp_path / "r.xlsx").testzip() is None
    assert list(json.loads((tmp_path / "r.json").read_text())["tables"]) == list(TABLE_NAMES)
    assert "kernel_categories" in (tmp_path / "r.md").read_text()


def test_report_takes_one_path_and_parquet_tables(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    profile = warplens.report(trace, str(tmp_path / "out") + "/", tables="parquet")
    assert pl.read_parquet(tmp_path / "out" / "kernels.parquet").equals(profile.table("kernels").frame)


def test_report_overwrites_only_when_told_to(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    target = tmp_path / "r.md"
    target.write_text("mine")
    with pytest.raises(warplens.UsageError, match="already exists"):
        warplens.report(trace, str(target))
    assert target.read_text() == "mine"
    warplens.report(trace, target, force=True)
    assert target.read_text() != "mine"


def test_options_reach_the_tables(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    profile = warplens.report(trace, short_us=6, gap_us=21, cache=False)
    assert profile.table("short_kernels").frame["count"].sum() == 1
    assert profile.table("gaps").frame["gap_us"].to_list() == [25.0]


def analyzer(folder: Path, **options: Any) -> warplens.TreePerfAnalyzer:
    return warplens.TreePerfAnalyzer(write_trace(folder / "trace.json", GRAPH), **options)


def test_the_analyzer_has_no_kernel_category_anywhere_by_default(tmp_path: Path) -> None:
    plain = analyzer(tmp_path)
    frames = [
        plain.get_df_gpu_timeline(),
        plain.get_df_kernels(),
        plain.get_df_kernel_launchers(),
        plain.get_df_kernel_launchers_summary(),
    ]
    for frame in frames:
        assert len(frame)
        assert "kernel_category" not in frame.columns


def test_the_analyzer_groups_each_graph_launch_by_category_when_asked(tmp_path: Path) -> None:
    """The two graph launches hold 95 µs: products 65, an unknown kernel 20, an addition 10."""
    with_categories = analyzer(tmp_path, use_kernel_name_categories=True)
    summary = with_categories.get_df_kernel_launchers_summary()
    graph = (
        summary.filter(pl.col("op") == "cudaGraphLaunch")
        .select("kernel_category", "count", "total_us", "percent_of_op")
        .rows()
    )
    assert [row[:3] for row in graph] == [("GEMM", 2, 65.0), ("Other", 1, 20.0), ("Elementwise", 1, 10.0)]
    assert [row[3] for row in graph] == pytest.approx([100 * 65 / 95, 100 * 20 / 95, 100 * 10 / 95], abs=1e-6)
    assert "kernel_category" in with_categories.get_df_kernels().columns


def test_launchers_are_single_calls_in_order_with_the_category_that_takes_most_time(tmp_path: Path) -> None:
    frame = analyzer(tmp_path, use_kernel_name_categories=True).get_df_kernel_launchers()
    assert frame.select("op", "count", "total_us", "kernel_category").rows() == [
        ("cudaGraphLaunch", 2, 40.0, "GEMM"),
        ("aten::add", 1, 5.0, "Elementwise"),
        ("cudaGraphLaunch", 2, 55.0, "GEMM"),
    ]


def test_the_launcher_summary_without_categories_has_a_row_per_launching_op(tmp_path: Path) -> None:
    rows = analyzer(tmp_path).get_df_kernel_launchers_summary().select("op", "count", "kernel_us").rows()
    assert rows == [("cudaGraphLaunch", 2, 95.0), ("aten::add", 1, 5.0)]


def sheet_texts(path: Path) -> str:
    with ZipFile(path) as book:
        return "".join(book.read(name).decode() for name in book.namelist() if name.endswith(".xml"))


def test_the_perf_report_is_without_categories_by_default(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    frames = warplens.generate_perf_report_pytorch(
        trace, output_xlsx_path=tmp_path / "r.xlsx", output_csvs_dir=tmp_path / "csvs"
    )
    assert "kernels" in frames
    assert not {"kernel_categories", "launch_categories"} & set(frames)
    assert not any("kernel_category" in frame.columns for frame in frames.values())
    assert {path.stem for path in (tmp_path / "csvs").iterdir()} == set(frames)
    for path in (tmp_path / "csvs").iterdir():
        assert "kernel_category" not in path.read_text(), path.name
    assert "kernel_category" not in sheet_texts(tmp_path / "r.xlsx")


def test_the_perf_report_with_categories_has_the_percent_of_graph_time(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    frames = warplens.generate_perf_report_pytorch(
        trace, use_kernel_name_categories=True, output_xlsx_path=tmp_path / "r.xlsx", output_csvs_dir=tmp_path / "csvs"
    )
    assert "kernel_category" in frames["kernels"].columns
    first = frames["launch_categories"].row(0, named=True)
    assert (first["op"], first["kernel_category"]) == ("cudaGraphLaunch", "GEMM")
    assert first["percent_of_op"] == pytest.approx(100 * 65 / 95, abs=1e-6)
    written = csv_rows(tmp_path / "csvs" / "launch_categories.csv")
    assert [row["kernel_category"] for row in written] == frames["launch_categories"]["kernel_category"].to_list()
    assert "kernel_category" in sheet_texts(tmp_path / "r.xlsx")


def test_the_perf_report_writes_nothing_unless_paths_are_given(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", GRAPH)
    warplens.generate_perf_report_pytorch(trace, use_kernel_name_categories=True)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def categories(profile: warplens.Profile) -> dict[str, str]:
    return dict(profile.gpu_events().select("kernel", "kernel_category").iter_rows())


def test_user_rules_from_python_come_before_the_built_in_ones(opened: Opened) -> None:
    found = categories(
        opened(GRAPH, rules=[warplens.Rule("Mine", contains="secret"), warplens.Rule("My GEMM", contains="xmma")])
    )
    assert found == {GEMM: "My GEMM", ADD: "Elementwise", "my_secret_kernel": "Mine"}


def test_user_rules_from_a_file_come_before_the_built_in_ones(opened: Opened, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\ncategory = "Mine"\npattern = "^my_.*_kernel$"\n\n[[rule]]\ncategory = "My GEMM"\nwords = ["gemm"]\n'
    )
    for given in (rules, str(rules)):
        found = categories(opened(GRAPH, rules=[given]))
        assert found == {GEMM: "My GEMM", ADD: "Elementwise", "my_secret_kernel": "Mine"}


def test_of_several_user_rules_the_first_decides(opened: Opened) -> None:
    first, second = warplens.Rule("First", contains="secret"), warplens.Rule("Second", contains="kernel")
    assert categories(opened(GRAPH, rules=[first, second]))["my_secret_kernel"] == "First"
    assert categories(opened(GRAPH, rules=[second, first]))["my_secret_kernel"] == "Second"
