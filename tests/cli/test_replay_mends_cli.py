"""Words and files that `warplens replay`, `unique` and `energy` refuse with one line, and one table as one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_plans import add, saved, unit
from support import HANG_SECONDS, ROOT
from warplens.cli import main
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_result import ReplayResult, Traced, UnitResult

BLOOM = ROOT / "samples" / "kineto" / "bloom_prefill.json.gz"
UNITS = (UnitResult("u1", "aten::relu", 2, Traced(10, 5.0, 5.0, 5.0), "refused", "no inputs"),)


@pytest.fixture
def result(tmp_path: Path) -> str:
    path = tmp_path / "r.json"
    result_file.save(path, ReplayResult("p", "t.json", 15, 20, "cpu", "python", "in-situ", UNITS))
    return str(path)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        assert main(list(words)) == 2
    except SystemExit as end:  # argparse's own
        assert end.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("path", [".", "", "/"])
def test_a_folder_is_no_plan(capsys: pytest.CaptureFixture[str], path: str) -> None:
    assert f"error: {path!r} is not a plan" in refused(capsys, "replay", "run", path, "--device", "cpu")


def test_a_plan_and_a_result_are_written_to_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text("{}")
    for words in (("replay", "plan", str(BLOOM)), ("replay", "run", "plan.json")):
        assert "this output cannot be written to stdout" in refused(capsys, *words, "-o", "-")
        assert "no file can be written there" in refused(capsys, *words, "-o", ".")
    assert "this output cannot be written to stdout" in refused(capsys, "energy", "-o", "-", "--", "true")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("units", [",", "", " , "])
def test_no_unit_is_not_all_units(capsys: pytest.CaptureFixture[str], units: str) -> None:
    assert "names no unit" in refused(capsys, "replay", "run", "plan.json", "--units", units)


@pytest.mark.parametrize("number", ["-5", "0", "nan", "inf"])
def test_energy_and_time_of_a_whole_run_are_above_zero(
    capsys: pytest.CaptureFixture[str], result: str, number: str
) -> None:
    for words in (
        ("--whole-joules", number, "--whole-seconds", "1"),
        ("--whole-joules", "1", "--whole-seconds", number),
    ):
        assert "is not a number above zero" in refused(capsys, "replay", "show", result, *words)


def test_a_chosen_table_of_a_result_is_one_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, result: str
) -> None:
    target = tmp_path / "x.csv"
    assert "there are 5" in refused(capsys, "replay", "show", result, "-o", str(target))
    assert main(["replay", "show", result, "replay_units", "-o", str(target), "-o", f"{tmp_path}/out/"]) == 0
    lines = target.read_text().splitlines()
    assert lines[0].startswith("unit,op,")
    assert lines[1].startswith("u1,aten::relu,")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["replay_units.csv"]


def test_a_chosen_table_of_unique_is_one_file(tmp_path: Path) -> None:
    target = tmp_path / "u.csv"
    assert main(["unique", str(BLOOM), "--table", "units", "-o", str(target)]) == 0
    assert target.read_text().startswith("unit,op,")


def test_a_result_that_no_table_can_hold_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, result: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(Path(result).read_text().replace('"count": 2', f'"count": {10**30}'))
    assert main(["replay", "show", str(bad)]) == 1
    assert "bad.json: units[0].count: a number beyond 64 bits" in capsys.readouterr().err
    assert main(["report", str(BLOOM), "--replay", str(bad), "-q"]) == 1
    assert "units[0].count" in capsys.readouterr().err


@pytest.mark.usefixtures("warm_runner")
def test_a_run_in_which_units_failed_ends_with_1_and_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    path, output = saved(tmp_path, add(), unit("aten::no_such_op", id="odd")), tmp_path / "result.json"
    words = ["replay", "run", str(path), "-o", str(output), "--device", "cpu", "--max-repeats", "20"]
    words += ["--unit-timeout", str(HANG_SECONDS), "-q"]
    assert main(words) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [line for line in errors if line.startswith("error:")] == ["error: 1 unit failed: odd"]
    assert {each.id: each.status for each in result_file.load(output).units} == {"add": "done", "odd": "failed"}
    assert main([*words[:-1], "-q", "--units", "add"]) == 0
