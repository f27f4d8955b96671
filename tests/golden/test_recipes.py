"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project.

A block with a title is a file to create, a diff is applied, and commands are run; nothing else is done.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import HANG_SECONDS, ROOT

RECIPES = re.findall(r"^## (Add [^\n]+)\n(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.S | re.M)
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)
COPIED = ("src", "tests", "benchmarks", "docs",
          "pyproject.toml", "mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # fmt: skip


def test_there_are_three_recipes() -> None:
    assert [title for title, _ in RECIPES] == ["Add a reader", "Add a table", "Add a rule"]


@pytest.mark.parametrize("recipe", [text for _, text in RECIPES], ids=[title for title, _ in RECIPES])
def test_a_recipe_works_as_it_is_written(recipe: str, tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path / "warplens")
    blocks = BLOCK.findall(recipe)
    assert {language for language, _, _ in blocks} >= {"python", "diff", "sh"}
    for language, title, content in blocks:
        if language == "diff":
            run(["git", "apply", "-"], project, content)
        elif language == "sh":
            for command in content.splitlines():
                run(["bash", "-c", command], project)
        else:
            file = project / title
            assert title and not file.exists(), "a block is a file of its own"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    run([sys.executable, "-m", "ruff", "check", "src", "tests"], project)
    run([sys.executable, "-m", "ruff", "format", "--check", "src", "tests"], project)


def copy_of_the_project(folder: Path) -> Path:
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            # Bytecode is copied too, and holds for what no recipe changes: the copies have the times of the originals.
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "*.png"))
        else:
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "samples", folder / "samples")
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name, words in {"python": "", "warplens": " -m warplens"}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (commands / name).chmod(0o755)
    return folder


def run(command: list[str], folder: Path, text: str | None = None) -> None:
    # The copy, not the project under test, is what these commands import.
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
