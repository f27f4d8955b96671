"""Short names say what matters of a kernel, and stay apart where kernels differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import each_case
from warplens.categories import short_name

TABLE = Path(__file__).parent / "data" / "short_names.txt"


def expected_names() -> list[tuple[str, str]]:
    short, rows = "", []
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("    "):
            rows.append((line.strip(), short))
        elif line and not line.startswith("#"):
            short = line
    return rows


@each_case(expected_names())
def test_short_name(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize("name", ["", " ", "\x00\n"])
def test_a_short_name_is_never_empty(name: str) -> None:
    assert short_name(name) == "(no name)"


def test_an_unknown_long_name_is_cut() -> None:
    short = short_name("void ns::" + "very_long_" * 20 + "<int>(int)")
    assert short.endswith("…")
    assert len(short) == 60
