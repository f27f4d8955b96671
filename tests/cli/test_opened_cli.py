"""Verbs work on whatever is opened: kernel facts, kernel traces and results of a replay too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_traces import copy_past_the_end, trace_of
from support import ROOT
from warplens.cli import main
from warplens_lab.facts import save_facts
from warplens_lab.facts.records import KernelFacts
from warplens_lab.tracing import save

FACTS = KernelFacts(
    kernel="product", file="/here/product.py", target="sm90", triton_version="3.9.0", signature="*fp16:16",
    config="BLOCK=16", num_warps=4, num_stages=3, num_ctas=1, registers=18,
)  # fmt: skip


@pytest.fixture(params=["facts.json", "trace.wkt", "result.json.gz"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    if path.name == "facts.json":
        save_facts(path, [FACTS])
    elif path.name == "trace.wkt":
        save(trace_of(copy_past_the_end(tmp_path)), path)
    else:
        path.write_bytes((ROOT / "samples" / "replay" / "gpt2_compiled.result.json.gz").read_bytes())
    return path


FIRST = {"facts.json": "kernel_facts", "trace.wkt": "kernel_launches", "result.json.gz": "replay"}


def test_report_prints_a_summary_and_writes_every_output(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / name for name in ("r.html", "r.xlsx", "r.json", "r.md")]
    options = [word for path in [*outputs, f"{tmp_path}/tables/"] for word in ("-o", str(path))]
    assert main(["report", str(file), *options]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(file.name)
    assert "verdict" in shown and f"{FIRST[file.name]}: one row per" in shown
    assert all(path.stat().st_size for path in outputs)
    written = json.loads((tmp_path / "r.json").read_text())
    assert FIRST[file.name] in written["tables"]
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == set(written["tables"])


def test_show_and_sql_give_the_same_rows(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = FIRST[file.name]
    assert main(["show", str(file), name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown
    assert main(["sql", str(file), f"select * from {name}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown


@pytest.mark.parametrize("verb", [["tree"], ["gantt", "-o", "x.svg"], ["flamegraph", "-o", "x.svg"],
                                  ["convert", "-o", "x.parquet"]])  # fmt: skip
def test_verbs_that_need_more_say_what_the_file_contains(
    verb: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb[0], str(file), *verb[1:]]) in (1, 2)
    assert f"{file} contains" in capsys.readouterr().err
