"""What a user sees of every bundled sample, as text. `make golden` rewrites the files after a change that is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import warplens
from support import ROOT, SAMPLES
from warplens.outputs import render_table
from warplens.outputs.summary import render_summary

WIDTH = 100
MAIN_TABLES = {
    # table: how many of its rows are kept in the golden file
    "quality": 9,
    "timeline": 8,
    "kernel_categories": 5,
    "kernels": 4,
    "launch_categories": 4,
    "ops": 4,
    "op_shapes": 3,
    "modules": 3,
    "python_lines": 3,
    "steps": 3,
    "idle": 4,
    "gaps": 3,
    "memory": 2,
}


def as_text(path: Path) -> str:
    profile = warplens.open(path.relative_to(ROOT), cache=False)
    document = profile.document()
    parts = [render_summary(document, width=WIDTH)]
    parts += [render_table(profile.table(name), top=top, width=WIDTH) for name, top in MAIN_TABLES.items()]
    text = "\n\n".join(map(str, parts))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_sample_reads_as_before(
    sample: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # the text holds the path, which must not depend on where the checkout lies
    golden(f"{sample.name.removesuffix('.json.gz')}.txt", as_text(sample))
