"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project.

A block with a title is a file to create, a diff is applied, and commands are run; nothing else is done.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import HANG_SECONDS, ROOT, nightly_after

RECIPES = re.findall(r"^## (Add [^\n]+)\n(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.S | re.M)
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)
COPIED = ("src", "tests", "benchmarks", "docs",
          "pyproject.toml", "mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # fmt: skip
# What the commands would read beside smaller samples that show the same of a recipe. The project's own tests read them.
LEFT_OUT = ("ranks", "serving", "memory", "bundles", "bloom_prefill.*", "resnet50_train.*", "healthy_*", "recompute.*",
            "unfused_attention.*")  # fmt: skip
ON_OTHER_THINGS = [
    # Nor is what they say of other readers, of the outputs and of other words for findings changed by a recipe.
    f"--deselect=tests/{name}"
    for name in (
        "golden/test_readers.py::test_a_file_made_by_hand_gives_the_guarantees_of_readers",
        *(f"golden/test_readers.py::test_a_sample_gives_the_guarantees_of_readers[{other}]"
          for other in ("xplane", "proton_trace", "kineto_cpu")),
        "unit/test_table_types.py::test_path_tables_have_the_same_types_in_every_profile",
        "unit/test_table_types.py::test_a_workbook_has_cells_and_formats_of_the_declared_types",
        "unit/test_table_types.py::test_every_output_gives_an_empty_table_the_types_of_a_full_one",
        "golden/test_finding_targets.py::test_the_page_gets_the_same_targets_whatever_the_words",
    )
]  # fmt: skip


def test_there_are_three_recipes() -> None:
    assert [title for title, _ in RECIPES] == ["Add a reader", "Add a table", "Add a rule"]


@pytest.mark.parametrize("recipe", nightly_after(1, [text for _, text in RECIPES]), ids=[title for title, _ in RECIPES])
def test_a_recipe_works_as_it_is_written(recipe: str, tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path / "warplens")
    blocks = BLOCK.findall(recipe)
    assert {language for language, _, _ in blocks} >= {"python", "diff", "sh"}
    changed = [title for _, title, _ in blocks if title.endswith(".py")]
    for language, title, content in blocks:
        if language == "diff":
            run(["git", "apply", "-"], project, content)
            changed += re.findall(r"^\+\+\+ b/(\S+)$", content, re.M)
        elif language == "sh":
            for command in content.splitlines():
                run(["bash", "-c", command], project)
        else:
            file = project / title
            assert title and not file.exists(), "a block is a file of its own"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    assert len(changed) >= 3, "a file, its test, and where it is registered"
    run([sys.executable, "-m", "ruff", "check", *changed], project)
    run([sys.executable, "-m", "ruff", "format", "--check", *changed], project)


def copy_of_the_project(folder: Path) -> Path:
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            # Bytecode is copied too, and holds for what no recipe changes: the copies have the times of the originals.
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "*.png"))
        else:
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "samples", folder / "samples", ignore=shutil.ignore_patterns(*LEFT_OUT))
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name, words in {"python": "", "warplens": " -m warplens"}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (commands / name).chmod(0o755)
    return folder


def run(command: list[str], folder: Path, text: str | None = None) -> None:
    # The copy, not the project under test, is what these commands import.
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "PYTEST_ADDOPTS": shlex.join(ON_OTHER_THINGS),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
