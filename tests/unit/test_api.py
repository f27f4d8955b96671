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
    opened |= {"JobProfile"}
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
    assert any("TreePerfAnalyzer" in test.name for test in examples("warplens.compat.analyzer"))


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


HIDING_PANDAS = """
import sys

class Hiding:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in ("pandas", "pyarrow") else self.finder.find_spec(name, *rest)

sys.meta_path = [Hiding(finder) for finder in sys.meta_path]
import polars, warplens
"""
WITHOUT_PANDAS = """
from warplens.model.table import Table
try:
    Table("t", "", (), polars.DataFrame()).to_pandas()
except warplens.MissingExtra as error:
    print(error, error.hint, sep=" | ")
"""


def test_a_missing_optional_package_fails_with_the_command_that_installs_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HIDING_PANDAS + WITHOUT_PANDAS], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "Table.to_pandas() needs pandas and pyarrow | pip install 'warplens[pandas]'"


REPORT_WITHOUT_PANDAS = """
sheets = warplens.generate_perf_report_pytorch(sys.argv[1], use_kernel_name_categories=True)
print(*sheets)
try:
    sheets["gpu_timeline"]
except warplens.MissingExtra as error:
    print(error)
"""


def test_tracelens_workbook_is_written_without_pandas_and_its_frames_say_what_to_install(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json", GRAPH)
    program = [sys.executable, "-c", HIDING_PANDAS + REPORT_WITHOUT_PANDAS, str(trace)]
    names, sentence = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    assert names.split()[0] == "gpu_timeline"
    assert sentence == "a frame in TraceLens' form needs pandas: pip install 'warplens[pandas]'"
    openpyxl: Any = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(tmp_path / "t_perf_report.xlsx")
    assert book.sheetnames == names.split()
    assert [cell.value for cell in book["gpu_timeline"][1]] == ["type", "time ms", "percent"]


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
