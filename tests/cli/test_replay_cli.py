"""`warplens unique` and `warplens replay`, through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from page_reader import PageData
from support import HANG_SECONDS, ROOT
from warplens.cli import main
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file

BLOOM = ROOT / "samples" / "kineto" / "bloom_prefill.json.gz"
MLP = ROOT / "samples" / "execution_trace" / "mlp_train.json.gz"
COMPILED = ROOT / "samples" / "replay" / "gpt2_compiled.json.gz"


def page_tables(path: Path) -> set[str]:
    return {table["name"] for table in PageData(path.read_text()).header["tables"]}


def small_units(path: Path, count: int) -> list[str]:
    """A CPU is slow: the units with the least memory."""
    units = [unit for unit in plan_file.load(path).units if unit.status == "ready"]
    return [unit.id for unit in sorted(units, key=lambda unit: sum(each.bytes for each in unit.storages))[:count]]


def test_unique_prints_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["unique", str(BLOOM), "-o", f"{tmp_path}/out/", "-o", str(tmp_path / "u.html")]) == 0
    shown = capsys.readouterr().out
    assert "name + grid + block" in shown
    assert "library call" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"unique.csv", "unique_kernels.csv", "units.csv"}
    assert "unique_kernels" in page_tables(tmp_path / "u.html")
    assert main(["unique", str(BLOOM), "--json", "--table", "units", "--top", "3"]) == 0
    assert [row["unit"] for row in json.loads(capsys.readouterr().out)] == ["u1", "u2", "u3"]
    assert main(["sql", str(BLOOM), "select sum(total_us) as us from units", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["us"] > 0


def test_a_plan_tells_what_it_covers_and_what_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    assert main(["replay", "plan", str(COMPILED), "-o", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "can be replayed:" in shown
    assert "ready: approximate, with lists rebuilt from the gradients" in shown
    assert "a generated kernel without its source" in shown
    assert main(["replay", "plan", str(COMPILED), "-o", str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["replay", "plan", str(COMPILED), "-o", str(target), "--force", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["percent"] for row in rows) == pytest.approx(100)
    plan_file.load(target)


def test_a_plan_runs_on_a_cpu_and_its_result_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    plan, result = tmp_path / "plan.json", tmp_path / "result.json"
    nodes = str(MLP).replace(".json", ".et.json")
    assert main(["replay", "plan", str(MLP), "--execution-trace", nodes, "-o", str(plan), "--cover", "0.9"]) == 0
    command = [sys.executable, "-m", "warplens", "replay", "run", str(plan), "-o", str(result), "--device", "cpu",
               "--units", ",".join(small_units(plan, 4)), "--unit-timeout", str(HANG_SECONDS)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = result_file.load(result)
    ran = [unit for unit in found.units if unit.status == "done"]
    assert len(ran) == 4
    assert all(unit.time is not None and unit.time.timer == "host" and unit.same is None for unit in ran)
    capsys.readouterr()
    assert main(["replay", "show", str(result), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(found.units)
    assert main(["replay", "show", str(result), "replay_left"]) == 0
    assert "beyond the covered share 0.9" in capsys.readouterr().out
    page = tmp_path / "r.html"
    assert main(["report", str(MLP), "--replay", str(result), "-o", str(page), "-q"]) == 0
    assert "replay_units" in page_tables(page)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan", "missing.json", "-o", "p.json"], 1, "missing.json"),
        (["run", "missing.json"], 1, "missing.json"),
        (["show", "missing.json"], 1, "missing.json"),
        (["show", "missing.json", "nothing"], 2, "no table 'nothing'"),
        (["export-cpp", "missing.json", "-o", "dir"], 1, "missing.json"),
        (["plan", str(ROOT / "samples" / "proton" / "scopes.hatchet.gz"), "-o", "p.json"], 1, "contains"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["replay", *arguments]) == code
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.startswith("error: ")
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["script", "plan.json", "--unit", "u1", "-o", "x.cpp"], ("is Python, not .cpp", "replay export-cpp PLAN")),
        (["script", "plan.json", "--unit", "u1", "-o", "x.json"], ("is Python, not .json", "end it in .py")),
        (["plan", str(BLOOM), "-o", "x.py"], ("is JSON, not .py", "replay script PLAN")),
        (["run", "plan.json", "-o", "x.html"], ("is JSON, not .html", "end it in .json")),
        (["export-cpp", "plan.json", "-o", "x.cpp"], ("is a folder", "name one: x/")),
    ],
)
def test_a_suffix_that_does_not_fit_is_refused_and_nothing_is_written(
    arguments: list[str], words: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "plan", str(BLOOM), "-o", "plan.json", "--cover", "0.5"]) == 0
    capsys.readouterr()
    assert main(["replay", *arguments]) == 2
    shown = capsys.readouterr().err
    assert all(part in shown for part in words), shown
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_script_may_have_its_suffix_or_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "plan", str(BLOOM), "-o", "plan.json"]) == 0
    unit = small_units(Path("plan.json"), 1)[0]
    for name in ("unit.py", "unit.PY", "unit"):
        assert main(["replay", "script", "plan.json", "--unit", unit, "-o", name]) == 0
        compile(Path(name).read_text(), name, "exec")
    capsys.readouterr()


def test_a_cut_trace_is_said_to_be_cut(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(BLOOM.read_bytes()[:150_000])
    for verb in (["unique", str(cut)], ["replay", "plan", str(cut), "-o", str(tmp_path / "plan.json")]):
        assert main(verb) == 0
        assert "note: the file ends early" in capsys.readouterr().err
