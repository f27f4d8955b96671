"""The program of the guide, and the change that the guide makes to it."""

from __future__ import annotations

import ast
import re

from support import ROOT

GUIDE = ROOT / "docs" / "guides" / "slow-program.md"
PROGRAM = ROOT / "samples" / "programs" / "slow_training.py"


def hunks(diff: str) -> list[tuple[str, str]]:
    """Each as the lines before and after it."""
    sides = []
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE)[1:]:
        lines = [(line[:1], line[1:]) for line in hunk.splitlines(keepends=True)]
        before = "".join(text for mark, text in lines if mark != "+")
        after = "".join(text for mark, text in lines if mark != "-")
        sides.append((before, after))
    return sides


def test_the_change_in_the_guide_fits_the_program() -> None:
    found = re.search(r"```diff\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    text = PROGRAM.read_text()
    for before, after in hunks(found[1]):
        assert text.count(before) == 1
        text = text.replace(before, after)
    ast.parse(text)
    for fixed in ("is_causal=True", "fused=True", 'set_float32_matmul_precision("high")'):
        assert fixed in text
        assert fixed not in PROGRAM.read_text()
