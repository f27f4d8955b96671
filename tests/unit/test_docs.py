"""The documents say what the code does. That no link is dead is checked by `make docs`."""

from __future__ import annotations

import re
import sys

import warplens
from support import ROOT

sys.path.insert(0, str(ROOT / "docs" / "scripts"))

import architecture


def test_every_public_name_is_in_the_reference_and_no_other() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert sorted(re.findall(r"^::: warplens\.(\w+)$", text, re.MULTILINE)) == sorted(warplens.__all__)


def test_the_drawing_of_the_rooms_is_current() -> None:
    drawn = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
    assert drawn == architecture.drawing(), "run: python docs/scripts/architecture.py"


def test_the_architecture_names_every_room() -> None:
    named = re.findall(r"`([\w/]+)`", (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms")[2])
    assert set(architecture.rooms()) <= set(named)


def test_every_link_of_the_readme_leads_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
            if not target.startswith("http"):
                assert (ROOT / target).exists(), f"{page}: {target}"
