"""`warplens kernel puzzles`, through the command line: as a learner meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from warplens.cli import main
from warplens_lab.puzzles.catalogue import PUZZLES, find
from warplens_lab.puzzles.files import text_of

pytestmark = pytest.mark.usefixtures("warm_runner")
# The timer of the limit is set by the loop itself: no answer beside it can be too slow for the machine.
HANGING = """

import signal


def hanging():
    signal.setitimer(signal.ITIMER_PROF, 0.02, 0.1)
    return iter(int, 1)
"""


def puzzles(*arguments: str) -> int:
    return main(["kernel", "puzzles", *arguments])


def test_the_list_names_every_puzzle_and_where_to_begin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert puzzles() == 0
    shown = capsys.readouterr()
    assert all(f"{puzzle.number:>2} {puzzle.name} " in shown.out and puzzle.task in shown.out for puzzle in PUZZLES)
    assert "begin with: warplens kernel puzzles start puzzles" in shown.err
    assert puzzles("start", "puzzles", "vector_add", "6") == 0
    assert capsys.readouterr().out.split() == ["puzzles/01_vector_add.py", "puzzles/06_softmax.py"]
    assert puzzles("list", "--json") == 0
    rows = {row["puzzle"]: row["status"] for row in json.loads(capsys.readouterr().out)}
    assert (rows["vector_add"], rows["softmax"], rows["matmul"]) == ("not started", "not started", "")


def test_a_learner_fails_fixes_and_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.chdir(tmp_path)
    assert puzzles("start", "p", "vector_add", "row_sum") == 0
    capsys.readouterr()
    file, page = Path("p/01_vector_add.py"), Path("p/01_vector_add.check.html")
    assert puzzles("check", str(file), "--open") == 1
    shown = capsys.readouterr().out
    assert " 1 vector_add: not yet. It fails in case 3 of 4: n = 200, block = 64 (the last block is not full)" in shown
    assert "program 3 loads x_ptr[200], outside of x_ptr, which has 200 elements" in shown
    assert "program 3, line 24:  x = tl.load(x_ptr + offsets)" in shown
    assert f"look at it: {page}" in shown
    assert page.read_bytes().startswith(b"<!doctype html>")
    assert opened == [page.resolve().as_uri() + "#program=3"]

    file.write_text(text_of(find("vector_add"), "solution"))
    assert puzzles("check", "p") == 1  # the other one is not started
    shown = capsys.readouterr().out
    assert " 1 vector_add: solved, all 4 cases" in shown
    assert "goal   every element of x and y is read once: met" in shown
    assert "next: 2 scale_add" in shown
    assert "not started: row_sum" in shown
    assert len(opened) == 1
    assert puzzles("list", "p") == 0
    assert "1 of 20 solved in p" in capsys.readouterr().out
    assert puzzles("start", "p", "vector_add") == 0
    assert "kept 01_vector_add.py" in capsys.readouterr().err


@pytest.mark.nightly
def test_the_page_has_the_theme_of_the_settings_or_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("warplens.toml").write_text('theme = "dark"\n')
    file, page = Path("vector_add.py"), Path("vector_add.check.html")
    file.write_text(text_of(find("vector_add"), "start"))
    for theme, options in {"dark": [], "light": ["--theme", "light"]}.items():
        assert puzzles("check", str(file), *options) == 1
        assert page.read_text().startswith(f'<!doctype html>\n<html lang="en" data-chosen="{theme}">')


def test_answers_that_hang_crash_or_do_not_parse_spoil_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = {
        "01_vector_add.py": "import os\nos._exit(3)\n",
        "02_scale_add.py": "def scale_add(:\n",
        "05_long_row_sum.py": text_of(find("long_row_sum"), "solution").replace("range(0, columns, BLOCK)", "hanging()")
        + HANGING,
        "09_histogram.py": text_of(find("histogram"), "solution"),
    }
    for name, text in answers.items():
        (tmp_path / name).write_text(text)
    assert puzzles("check", str(tmp_path), "--seconds", "1000", "--json") == 1
    rows = {row["puzzle"]: row for row in json.loads(capsys.readouterr().out)}
    assert "its process ended with status 3" in rows["vector_add"]["message"]
    assert rows["scale_add"]["message"].startswith("02_scale_add.py, line 1: ")
    assert rows["long_row_sum"]["problem"] == "out_of_time"
    assert rows["long_row_sum"]["line"] in (11, 12, 13)
    assert rows["histogram"]["passed"]
    assert rows["histogram"]["goal_met"]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "missing.py"], "no such file: missing.py"),
        (["check", "{empty}"], "has no puzzle files"),
        (["list", "{empty}"], "has no puzzle files"),
        (["hint", "sofmax"], "did you mean softmax?"),
        (["hint", "softmax", "-n", "9"], "softmax has 3 hints"),
        (["solution", "21"], "no such puzzle: '21'"),
        (["start", "{empty}", "21"], "no such puzzle: '21'"),
        (["check", "{empty}", "-o", "{empty}/x.json"], "what is written there is a page"),
    ],
)
def test_bad_requests_are_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert puzzles(*(argument.format(empty=tmp_path) for argument in arguments)) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert words in shown


def test_hints_and_solutions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert puzzles("hint", "softmax") == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == find("softmax").hints[0]
    assert "the next one: -n 2" in shown.err
    assert puzzles("solution", "6") == 0
    assert capsys.readouterr().out == text_of(find("softmax"), "solution")
