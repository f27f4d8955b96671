"""The packaged tables are read by a reader of their own part of TOML, to the same result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import warplens.categories
from warplens.categories.plain_toml import read_plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGED = sorted(Path(warplens.categories.__file__).parent.glob("*.toml"))
NOT_PLAIN = [
    "a = 1",
    'a = "\\n"',
    "[a.b]",
    "a.b = true",
    "a = {b = true}",
    "a = '''x'''",
    "a = [1]",
    "a = [['b']]",
    "a =",
]


@pytest.mark.parametrize("path", PACKAGED, ids=lambda path: path.name)
def test_a_packaged_table_is_what_toml_says(path: Path) -> None:
    content = path.read_text("utf-8")
    assert read_plain(content) == tomllib.loads(content)


def test_comments_and_brackets_inside_texts_are_part_of_them() -> None:
    content = "[a]  # one\nb = ['[x]', \"# no\", # yes\n  'y',]\nc = '#'\n[[d]]\ne = false"
    assert read_plain(content) == tomllib.loads(content)


@pytest.mark.parametrize("content", NOT_PLAIN)
def test_more_than_plain_toml_is_left_to_a_reader_of_all_of_it(content: str) -> None:
    assert read_plain(f"[[rule]]\nname = 'x'\n{content}\n") is None
