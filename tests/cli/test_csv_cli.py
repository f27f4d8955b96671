"""CSV: verbatim, unless it is meant for a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest

from support import kernel, launch, op, write_trace
from warplens.cli import main
from warplens.outputs.tabular import without_formulas

FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture
def trace(tmp_path: Path) -> str:
    events = [op("@SUM(1)", 0, 10), launch(1, 2, 1), kernel(FORMULA, 20, 20, 1)]
    return str(write_trace(tmp_path / "trace.json", events))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_printed_cells_are_verbatim(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", trace, "kernels", "--csv"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert (row["kernel"], row["op"]) == (FORMULA, "@SUM(1)")
    assert main(["sql", trace, 'select -1.5 as a, kernel as "=b" from kernels', "--csv"]) == 0
    assert rows(capsys.readouterr().out) == [{"a": "-1.5", "=b": FORMULA}]


@pytest.mark.parametrize(("form", "mark"), [("csv", ""), ("csv-safe", "'")])
def test_a_directory_of_tables_is_verbatim_or_marks_formulas_as_text(
    form: str, mark: str, trace: str, tmp_path: Path
) -> None:
    assert main(["report", trace, "-q", "-o", f"{tmp_path}/out/", "--tables", form]) == 0
    (row,) = rows((tmp_path / "out" / "kernels.csv").read_text())
    assert (row["kernel"], row["op"]) == (mark + FORMULA, mark + "@SUM(1)")


@pytest.mark.parametrize(
    "text",
    [
        "=1",
        "+a",
        "-a",
        "@a",
        "\ta",
        "\ra",
        "-1+1",
        "--1",
        "=",
        "-",
        "+1\n=2",
        "\n=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20a",
    ],
)
def test_what_begins_like_a_formula_is_marked(text: str) -> None:
    frame = pl.DataFrame({"a": [text], "b": pl.Series([text], dtype=pl.Categorical)})
    assert without_formulas(frame).rows() == [("'" + text, "'" + text)]


@pytest.mark.parametrize("text", ["-1", "+1.5", "-.5", "-1e-9", "+3.", "gemm", "", "a=b", "'=1", None])
def test_numbers_and_other_texts_stay(text: str | None) -> None:
    assert without_formulas(pl.DataFrame({"a": [text]}, schema={"a": pl.String})).rows() == [(text,)]
    assert without_formulas(pl.DataFrame({"a": [-1.0]})).rows() == [(-1.0,)]
