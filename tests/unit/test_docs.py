"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import make_reference


def test_the_reference_of_tables_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "tables.md").read_text()
    assert written == make_reference.reference(), "run: python docs/make_reference.py"


def test_every_link_in_the_documents_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_in_the_readme_is_a_verb() -> None:
    text = (ROOT / "README.md").read_text()
    verbs = set(re.findall(r"^warplens (\w+)", text, re.MULTILINE))
    help_text = subprocess.run(
        [sys.executable, "-m", "warplens", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert verbs
    assert all(re.search(rf"^\s+{verb}\b", help_text, re.MULTILINE) for verb in verbs)
