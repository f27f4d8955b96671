"""Interrupted, on a full disk, or many at once: what a command leaves is whole, and it says one line.

`tests/fuzz/survival.py` does the same at more moments, and on file systems that are really full.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import xlsxwriter

from replay_plans import add, plan
from support import nightly_after, tiny_disk
from survival import TRACE, command, error_lines, finished, half_written, interrupted, is_whole, left
from warplens.cli import main
from warplens.outputs.sheet_rows import RowSheet
from warplens.replay import cpp
from warplens_run.formats import replay_plan as plan_file


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a report that ends leaves of `out/`."""
    place = tmp_path_factory.mktemp("tables")
    status, _, err = finished(["report", str(TRACE), "-q", "-o", f"{place}/out/"], place.with_name("tables_cache"))
    assert status == 0, err
    return left(place)


@pytest.mark.parametrize("after", nightly_after(2, [0.3, 0.9, 0.05, 0.6, 1.2]))
@pytest.mark.parametrize("output", ["x.xlsx", "out/"])
def test_an_interrupted_report_leaves_all_or_nothing_and_a_sound_cache(
    tmp_path: Path, tables: list[str], output: str, after: float
) -> None:
    """All of it where it is interrupted between its last file and its end."""
    place = tmp_path / "out"
    place.mkdir()
    status, err = interrupted(["report", str(TRACE), "-q", "-o", f"{place}/{output}"], tmp_path / "cache", after)
    assert status in (0, 130), err
    assert "Traceback" not in err
    assert half_written(place) == []
    whole = tables if output == "out/" else [output]
    assert left(place) in ([whole] if status == 0 else [[], whole])


def test_ctrl_c_while_a_module_is_loaded_is_one_word(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    program = (
        "import sys, warplens.cli, warplens.__main__ as program\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "def entry():\n    import slow\n"
        "warplens.cli.entry = entry\n"
        "program.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_workbook_that_is_closed_before_its_rows_are_there_closes(tmp_path: Path) -> None:
    """Ctrl-C between the two closes it, and must be what is raised."""
    book = xlsxwriter.Workbook(tmp_path / "x.xlsx")
    book.add_worksheet("kernels", RowSheet).write_row(0, 0, ["kernel", "count"])
    book.close()
    assert is_whole(tmp_path / "x.xlsx")


def test_reports_at_the_same_time_on_a_cold_cache_are_the_same(tmp_path: Path) -> None:
    targets = [tmp_path / f"{number}.json" for number in range(4)]
    running = [command(["report", str(TRACE), "-q", "-o", str(target)], tmp_path / "cache") for target in targets]
    for process in running:
        _, err = process.communicate(timeout=600)
        assert (process.returncode, error_lines(err)) == (0, [])
    assert len({target.read_bytes() for target in targets}) == 1
    status, _, _ = finished(["report", str(TRACE), "-q", "-o", str(tmp_path / "again.json")], tmp_path / "cache")
    assert status == 0
    assert (tmp_path / "again.json").read_bytes() == targets[0].read_bytes()


def test_an_exported_project_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan_file.save(path, plan(add()))
    target = tmp_path / "cpp"
    with tiny_disk(4096):
        assert main(["replay", "export-cpp", str(path), "-o", str(target)]) == 1
    assert not target.exists()
    assert main(["replay", "export-cpp", str(path), "-o", str(target)]) == 0
    before = {name: (target / name).stat().st_mtime_ns for name in left(target)}
    cpp.export(plan_file.load(path), target, force=True)
    assert {name: (target / name).stat().st_mtime_ns for name in left(target)} == before
