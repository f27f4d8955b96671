"""No verb overwrites what it reads, not even with --force; and what cannot be written is one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support import SAMPLES
from warplens.cli import main

TRACE = next(path for path in SAMPLES if path.name == "cpu_mlp_train.json.gz")

OWN_INPUT = {
    # name: the verb with its output; {in} is the input, a copy of a trace under that name
    "report as a page": ("in.html", ["report", "{in}", "-o", "{in}", "--force"]),
    "report as JSON": ("in.json", ["report", "{in}", "-o", "{in}", "--force"]),
    "report through a link": ("in.json", ["report", "{in}", "-o", "{link}.json", "--force"]),
    "report through a hard link": ("in.json", ["report", "{in}", "-o", "{hard}.json", "--force"]),
    "report into the folder of its input": ("kernels.csv", ["report", "{in}", "-o", "{folder}/", "--force"]),
    "gantt": ("in.html", ["gantt", "{in}", "-o", "{in}", "--force"]),
    "gantt as a picture": ("in.svg", ["gantt", "{in}", "-o", "{in}", "--force"]),
    "flamegraph": ("in.folded", ["flamegraph", "{in}", "-o", "{in}", "--force"]),
    "convert": ("in.perfetto.json.gz", ["convert", "{in}", "-o", "{in}", "--force"]),
    "tree": ("in.csv", ["tree", "{in}", "-o", "{in}", "--force"]),
    "tree as a flame graph": ("in.svg", ["tree", "{in}", "-o", "{in}", "--force"]),
    "tree of a difference": ("in.csv", ["tree", str(TRACE), "--diff", "{in}", "-o", "{in}", "--force"]),
    "diff": ("in.json", ["diff", "{in}", str(TRACE), "-o", "{in}", "--force"]),
    "diff, the other side": ("in.md", ["diff", str(TRACE), "{in}", "-o", "{in}", "--force"]),
    "unique": ("in.xlsx", ["unique", "{in}", "-o", "{in}", "--force"]),
    "rules": ("in.md", ["report", str(TRACE), "--rules", "{in}", "-o", "{in}", "--force"]),
    "replay plan": ("in.json", ["replay", "plan", "{in}", "-o", "{in}", "--force"]),
    "replay run": ("in.json", ["replay", "run", "{in}", "-o", "{in}", "--fresh"]),
    "replay show": ("in.json", ["replay", "show", "{in}", "-o", "{in}", "--force"]),
    "replay export-cpp": ("plan.json", ["replay", "export-cpp", "{in}", "-o", "{folder}", "--force"]),
    "kernel check": ("in.json", ["kernel", "check", "k.py::k", "--profile", "{in}", "-o", "{in}", "--force"]),
    "kernel check, tables": ("in.html", ["kernel", "check", "{in}::k", "-o", "{in}", "--force"]),
    "kernel trace": ("in.wkt", ["kernel", "trace", "{in}", "-o", "{in}", "--force"]),
    "kernel puzzles": ("in.html", ["kernel", "puzzles", "check", "{in}", "-o", "{in}", "--force"]),
    "energy": ("in.py", ["energy", "-o", "{in}", "--", "python3", "{in}"]),
    "profile": ("in.py", ["profile", "-o", "{folder}", "--force", "{in}"]),
}


@pytest.mark.parametrize("name", OWN_INPUT)
def test_an_input_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file, words = OWN_INPUT[name]
    source = tmp_path / "folder" / file
    source.parent.mkdir()
    shutil.copy(TRACE, source)
    (tmp_path / "link.json").symlink_to(source)
    (tmp_path / "hard.json").hardlink_to(source)
    names = {"in": source, "folder": source.parent, "link": tmp_path / "link", "hard": tmp_path / "hard"}
    assert main([word.format_map(names) for word in words]) == 2
    assert "an input of this command" in capsys.readouterr().err
    assert source.read_bytes() == TRACE.read_bytes()
    assert sorted(path.name for path in source.parent.iterdir()) == [file]


WRITTEN = {
    # name: an output that every verb of this list can write
    "report": ["report", str(TRACE), "-q", "-o", "{out}.md"],
    "report as a page": ["report", str(TRACE), "-q", "-o", "{out}.html"],
    "report as tables": ["report", str(TRACE), "-q", "-o", "{out}/"],
    "flamegraph": ["flamegraph", str(TRACE), "--weight", "cpu", "-o", "{out}.svg"],
    "convert": ["convert", str(TRACE), "-o", "{out}.perfetto.json.gz"],
    "diff": ["diff", str(TRACE), str(TRACE), "--json", "-o", "{out}.json"],
    "replay plan": ["replay", "plan", str(TRACE), "--json", "-o", "{out}.json"],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_folder_that_takes_no_file_is_one_line(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([word.format(out="/sys/warplens") for word in WRITTEN[name]]) in (1, 2)
    errors = capsys.readouterr().err.strip().splitlines()
    assert [line for line in errors if line.startswith("error: cannot write /sys/warplens")] == errors[:1]
    assert not list(Path("/sys").glob("*warplens*"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")  # noqa: PTH110
def test_a_full_device_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "r.md"
    link.symlink_to("/dev/full")
    assert main(["report", str(TRACE), "-q", "-o", str(link)]) == 1
    assert capsys.readouterr().err == f"error: cannot write {link}: No space left on device\n"
    assert Path("/dev/full").is_char_device()
