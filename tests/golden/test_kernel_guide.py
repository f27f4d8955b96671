"""What docs/guides/kernel.md shows is what the commands say: a slow softmax and a slow matmul, check → change → check."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("triton")

from support import ROOT
from warplens.cli import main

GUIDE = ROOT / "docs" / "guides" / "kernel.md"
COMMAND = re.compile(r"^\$ warplens (kernel (?:[^\n\\]|\\\n)+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
SHOWN_OF = ("slow_softmax", "better_softmax", "slow_matmul", "better_matmul", "before.json")


def shown() -> list[tuple[list[str], list[str]]]:
    """The guide's commands on the bundled kernels, each with the lines it is shown to print; `…` stands for some."""
    found = []
    for command, output in COMMAND.findall(GUIDE.read_text(encoding="utf-8")):
        if any(name in command for name in SHOWN_OF):
            lines = [" ".join(line.split()) for line in output.splitlines() if "…" not in line]
            found.append((shlex.split(command.replace("\\\n", " ")), lines))
    return found


@pytest.mark.nightly
@pytest.mark.usefixtures("warm_compiler")
@pytest.mark.skipif(not version("triton").startswith("3.9"), reason="the guide's figures are of Triton 3.9")
def test_the_guide_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("slow_softmax", "better_softmax", "slow_matmul", "better_matmul"):
        (tmp_path / f"{name}.py").write_bytes((ROOT / "samples" / "kernels" / f"{name}.py").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "220")
    commands = shown()
    assert len(commands) == 9
    for command, lines in commands:
        assert lines, command
        assert main([*command, *(["--force"] if "-o" in command else [])]) == 0, command
        printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
        assert [line for line in lines if line not in printed] == [], command
