"""The collection of compiled texts: they are those that Python makes, and a second run compiles few."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from collected_runs import counted_runs
from warplens.collected import kept_file, texts
from warplens.collected.texts import CollectedTexts

TEXTS = {
    "int | None": "eval",
    "lambda _cls, a, b: _tuple_new(_cls, (a, b))": "eval",
    "def __create_fn__(MISSING):\n def __init__(self, a=MISSING):\n  self.a=a\n return __init__": "exec",
    "größe": "eval",
    "a": "exec",
}
SAME_TEXT = "int | None"


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectedTexts]:
    """A collection of these texts, in use."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(kept_file, "MOST_MISSING", 0)
    first = CollectedTexts(tmp_path / "kept.texts")
    for text, mode in TEXTS.items():
        first.compile(text, texts.FILE, mode)
    first.renew()
    kept = CollectedTexts(tmp_path / "kept.texts")
    kept.use()
    yield kept
    kept.leave()


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that Python compiles for a collection from now on."""
    seen: list[str] = []
    plain = builtins.compile
    monkeypatch.setattr(
        builtins, "compile", lambda text, *more, **named: seen.append(text) or plain(text, *more, **named)
    )
    return seen


def test_a_text_is_what_python_compiles(collection: CollectedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {text: compile(text, "<string>", mode, dont_inherit=True) for text, mode in TEXTS.items()}
    seen = compiled(monkeypatch)
    for text, mode in TEXTS.items():
        made = collection.compile(text, texts.FILE, mode)
        assert made == expected[text]  # by instructions, constants, names and lines
        assert made.co_filename == expected[text].co_filename
    assert seen == []


def test_the_same_text_in_another_mode_is_another(collection: CollectedTexts) -> None:
    collection.exec(SAME_TEXT, {})
    assert collection.eval(SAME_TEXT, {}) == int | None


def test_classes_are_made_through_it_until_it_is_left(
    collection: CollectedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = compiled(monkeypatch)
    assert typing.ForwardRef(SAME_TEXT).__forward_arg__ == SAME_TEXT
    assert seen == []
    pair = collections.namedtuple("pair", "first second")
    assert pair(1, second=2) == (1, 2)
    size = dataclasses.make_dataclass("size", [("width", int), ("height", int)], frozen=True)
    assert size(1, height=2) == size(1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        size(1, 2).width = 3
    assert any("first, second" in text for text in seen)
    assert any("__create_fn__" in text for text in seen)
    collection.leave()
    assert not {"compile", "exec", "eval"} & {*vars(typing), *vars(dataclasses), *vars(collections)}
    del seen[:]
    collections.namedtuple("other", "left right")
    assert seen == []


def test_an_error_is_the_one_that_python_gives(collection: CollectedTexts) -> None:
    with pytest.raises(SyntaxError, match="Forward reference must be an expression"):
        typing.ForwardRef("int |")


def test_what_is_no_text_or_has_options_is_left_to_python(
    collection: CollectedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = compiled(monkeypatch)
    assert eval(collection.compile(b"1 + 1", texts.FILE, "eval")) == 2
    assert eval(collection.compile(SAME_TEXT, "other.py", "eval")) == int | None
    assert collection.eval(compile("2 + 2", "x", "eval")) == 4
    assert len(seen) == 3


def test_code_that_is_damaged_is_compiled_again(collection: CollectedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = collection.kept.entries["eval", SAME_TEXT]
    seen = compiled(monkeypatch)
    for damaged in (kept[:20], b"", b"N"):
        again = CollectedTexts(Path("nowhere"))
        again.kept.entries = {("eval", SAME_TEXT): damaged}
        assert again.eval(SAME_TEXT, {}) == int | None
    assert seen == [SAME_TEXT] * 3


def test_a_second_run_of_a_verb_compiles_few_texts(tmp_path: Path) -> None:
    counting = (
        "from warplens import cli\n"
        "later = cli.load_later\n"
        "def verb():\n"
        "    later()\n"
        "    sys.addaudithook(lambda event, given: event == 'compile' and count.append(given))\n"
        "cli.load_later = verb"
    )
    first, second = counted_runs("texts", counting, tmp_path)
    assert first > 100
    assert second <= kept_file.MOST_MISSING
