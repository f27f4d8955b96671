"""Everything that the command line prints goes through the functions that make it fit for a terminal."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest

from support import ROOT
from warplens.cli import progress
from warplens_run.base.printable import clean, clean_lines, escape
from warplens_run.cli import printing
from warplens_run.cli.printing import terminal_columns

SOURCE = ROOT / "src"
PRINTING = re.compile(r"\bprint\(|\bwrite(?:lines)?\(|\bConsole\(")
PRINTS = {"warplens_run/cli/printing.py"}
DRAWS = {"warplens/cli/showing.py", "warplens/cli/progress.py"}
"""Where rich prints: texts that `clean` has passed."""
OTHER_PROGRAMS = {
    "warplens/__main__.py", "warplens/interrupts.py", "warplens_run/__main__.py", "warplens_run/capture/launch.py",
    "warplens_run/capture/session.py",
    "warplens_run/capture/trace_to_tree.py", "warplens_run/counters/sampling.py",
}  # fmt: skip
"""They print inside a user's program, into a pipe to it, or one word or number of our own, where nothing of the command
line is loaded."""
PRINTED = {
    "clean_lines(str(text))", "'\\r' + clean(line)[:cells].ljust(cells)",
    "fill(line, width(most), subsequent_indent=indent, break_on_hyphens=False) if line.strip() else line",
}  # fmt: skip
"""Each argument of `print` in the one module that prints; `line` of the last is clean."""


@cache
def calls(path: Path) -> list[tuple[str, ast.Call]]:
    """Calls of what may print, by name: a module without such a word is not parsed."""
    text = path.read_text()
    nodes = ast.walk(ast.parse(text)) if PRINTING.search(text) else ()
    return [(ast.unparse(node.func), node) for node in nodes if isinstance(node, ast.Call)]


def is_print(function: str) -> bool:
    return function in ("print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "os.write") or (
        function.startswith(("sys.stdout.", "sys.stderr.")) and function.endswith(("write", "writelines"))
    )


def test_one_module_prints() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for function, _ in calls(path)
        if is_print(function)
    }
    assert found - OTHER_PROGRAMS == PRINTS


def test_rich_prints_only_what_is_clean() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for function, _ in calls(path)
        if function.rpartition(".")[2] == "Console"
    }
    assert found == DRAWS


def test_what_is_printed_is_clean() -> None:
    arguments = {
        ast.unparse(node.args[0])
        for function, node in calls(SOURCE / "warplens_run" / "cli" / "printing.py")
        if function == "print"
    }
    assert arguments == PRINTED


@pytest.mark.parametrize("char", ["\x1b", "\x9b", "\x07", "\x08", "\x00", "\x7f", "\x85", "\u202e", "\u2066", "\u200f",
                                  "\u2028", "\ufeff", "\ue000", "\udcff", "\U000e0001", "\r"])  # fmt: skip
def test_no_control_character_is_left(char: str) -> None:
    assert clean(f"a{char}b").isprintable()
    assert clean_lines(f"a{char}b\nc").replace("\n", "").isprintable()
    assert escape(f"a{char}b").isprintable()
    assert json.loads(f'"{escape(f"a{char}b")}"') == f"a{char}b"


def test_data_is_escaped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    data = 'name\n"a\x1b[31m\u202e\tb"\n'
    for is_terminal, shown in ((False, data), (True, 'name\n"a\\u001b[31m\\u202e\tb"\n')):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        monkeypatch.setattr(sys, "stdout", stream)
        printing.write_bytes(data.encode())
        assert stream.buffer.getvalue().decode() == shown  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [None, "", "60", "0", "-3", "wide"])
@pytest.mark.parametrize("terminal", [None, 0, 132])
def test_a_terminal_has_the_columns_that_the_standard_library_finds(
    columns: str | None, terminal: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(*_: int) -> os.terminal_size:
        if terminal is None:
            raise OSError("not a terminal")
        return os.terminal_size((terminal, 30))

    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.setattr(sys, "__stdout__", sys.stderr if sys.__stdout__ is None else sys.__stdout__)
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert terminal_columns(77) == shutil.get_terminal_size((77, 24)).columns


def test_without_a_stdout_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_columns(77) == 77


@pytest.mark.parametrize(("name", "is_slow"), [("x.ncu-rep", True), ("run.nsys-rep", True), ("x.csv", False)])
def test_a_report_that_a_tool_reads_shows_progress_however_small(
    name: str, is_slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(b"NVR")
    shown: list[bool] = []
    monkeypatch.setattr(progress, "spinner", lambda text, *, is_slow: shown.append(is_slow) or nullcontext())
    with progress.progress("reading", path):
        pass
    assert shown == [is_slow]
