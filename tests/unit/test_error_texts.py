"""Errors of the library are for Python callers too: they name options, and the command line adds its flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT
from warplens_run.base.errors import UsageError
from warplens_run.cli.ending import fail

ROOMS = (
    "warplens/categories", "warplens/hardware", "warplens/planning", "warplens/replay", "warplens_run/capture",
    "warplens_run/formats", "warplens_run/meter", "warplens_run/replay",
    "warplens_run/workloads",
)  # fmt: skip
FLAG = re.compile(r"(?<![\w-])--[a-z]")
OTHER_PROGRAMS = ("--local-dir",)
"""Flags of commands that a hint quotes whole."""


def raised_texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "hint"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


@pytest.mark.parametrize("room", ROOMS)
def test_errors_of_the_library_name_no_flags(room: str) -> None:
    files = sorted((ROOT / "src" / room).rglob("*.py"))
    texts = [text for path in files for text in raised_texts(path)]
    assert texts
    assert [text for text in texts if FLAG.search(text) and not any(flag in text for flag in OTHER_PROGRAMS)] == []


def test_the_command_line_adds_the_flags_of_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = UsageError("too many tokens", hint="use fewer tokens", options=("prompt_tokens", "new_tokens"))
    assert fail(error) == 2
    assert capsys.readouterr().err == (
        "error: too many tokens\n\nhint: use fewer tokens: --prompt-tokens, --new-tokens\n"
    )
