"""The collection of compiled expressions: they are those that Python makes, and a second run parses none."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collected_runs import counted_runs
from warplens.categories.rules import builtin_rules
from warplens.collected import patterns
from warplens.collected.patterns import CollectedPatterns

EXPRESSIONS: dict[str | bytes, int] = {
    b"(a+)\\1(?:b{2,3}){0,4}": 0,
    rb"\A[\x91-\x9f](?:\xa5frame)": re.DOTALL,
    r"": 0,
    r"gemm_(?P<rows>\d+)x(?P<columns>\d+)": 0,
    r"(?<!sm_)(90|100)[af]?(?=\W|$)": re.IGNORECASE,
    r"""(?: \w+ )  # a word
        (c)?""": re.VERBOSE,
    r"[\u0370-\u03ff[:ascii:]é]+?": re.IGNORECASE | re.ASCII,
    r"^(a|ab)(c|bcd)(d*)$": re.MULTILINE | re.DOTALL,
    r"(?i:straße)|\N{GREEK SMALL LETTER ALPHA}": 0,
    r"(a+)\1(?:b{2,3}){0,4}": 0,
    **{each.rule.pattern: 0 for each in builtin_rules()},
}


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[CollectedPatterns]:
    """A collection of these expressions, in use."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(sys, "dont_write_bytecode", False)
        first = CollectedPatterns(tmp_path / "kept.patterns")
        for expression, flags in EXPRESSIONS.items():
            first.compile(expression, flags)
        first.renew()
        kept = CollectedPatterns(tmp_path / "kept.patterns")
        kept.use()
        yield kept
        kept.leave()


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that Python parses from now on."""
    seen: list[str] = []
    parser = re._parser  # type: ignore[attr-defined]
    plain = parser.parse
    monkeypatch.setattr(parser, "parse", lambda text, *more: seen.append(text) or plain(text, *more))
    return seen


def test_an_expression_is_the_one_that_python_compiles(
    collection: CollectedPatterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {key: collection._plain(*key) for key in EXPRESSIONS.items()}
    seen = parsed(monkeypatch)
    for key, plain in expected.items():
        made = collection.compile(*key)
        assert made == plain  # by what the engine runs, the flags, the groups and the text
        assert dict(made.groupindex) == dict(plain.groupindex)
    assert seen == []


def test_python_compiles_through_it_until_it_is_left(
    collection: CollectedPatterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = parsed(monkeypatch)
    re.purge()
    assert re.compile(r"(a+)\1(?:b{2,3}){0,4}").fullmatch("aabb")
    assert seen == []
    collection.leave()
    re.purge()
    re.compile(r"(a+)\1(?:b{2,3}){0,4}")
    assert len(seen) == 1


def test_expressions_that_depend_on_the_locale_are_left_to_python(
    collection: CollectedPatterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = parsed(monkeypatch)
    for _ in range(2):
        assert collection.compile(rb"\w+", re.LOCALE).match(b"a")
    assert len(seen) == 2


def test_a_python_that_compiles_otherwise_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = re._compiler  # type: ignore[attr-defined]
    plain = compiler.compile
    monkeypatch.delattr(re, "_compiler")
    collection = CollectedPatterns(tmp_path / "kept.patterns")
    collection.use()
    assert compiler.compile is plain
    collection.renew()
    collection.leave()
    assert not list(tmp_path.iterdir())


def test_an_error_is_the_one_that_python_gives(collection: CollectedPatterns) -> None:
    with pytest.raises(re.error, match="missing \\), unterminated subpattern"):
        re.compile("(a")


@pytest.mark.parametrize("kept", [0, 10, 100, -20])
def test_of_a_cut_collection_what_is_left_is_used(collection: CollectedPatterns, tmp_path: Path, kept: int) -> None:
    stored = (tmp_path / "kept.patterns").read_bytes()
    (tmp_path / "kept.patterns").write_bytes(stored[:kept])
    cut = CollectedPatterns(tmp_path / "kept.patterns")
    cut.use()
    for expression, flags in EXPRESSIONS.items():
        assert cut.compile(expression, flags) == collection._plain(expression, flags)
    cut.leave()


def test_code_that_the_engine_refuses_is_compiled_again(collection: CollectedPatterns) -> None:
    place = collection._places[True, "", 0]
    damaged = bytearray(collection._code)
    damaged[place[0] : place[1]] = patterns.marshal.dumps((32, [9999], 0, {}, (None,)))[: place[1] - place[0]]
    collection._code = memoryview(bytes(damaged))
    assert collection.compile("").match("a")


def test_a_collection_of_another_python_is_none(
    collection: CollectedPatterns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.leave()
    monkeypatch.setattr(patterns, "VERSION", b"another")
    other = CollectedPatterns(tmp_path / "kept.patterns")
    other.use()
    seen = parsed(monkeypatch)
    other.compile("(a+)\\1(?:b{2,3}){0,4}")
    other.leave()
    assert len(seen) == 1


def test_it_is_made_again_for_many_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "kept.patterns"
    few = CollectedPatterns(path)
    for number in range(patterns.MOST_MISSING):
        few.compile(f"few{number}")
    few.renew()
    assert not path.exists()
    few.compile("one more")
    few.renew()
    assert kept_in(path) == {*(f"few{number}" for number in range(patterns.MOST_MISSING)), "one more"}


def test_expressions_of_users_do_not_gather_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(patterns, "MOST_KEPT", 5)
    path = tmp_path / "kept.patterns"
    for run in ("first", "second"):
        collection = CollectedPatterns(path)
        collection.use()
        for number in range(9):
            collection.compile(f"{run}{number}")
        collection.renew()
        collection.leave()
    assert kept_in(path) == {f"second{number}" for number in range(9)}


def kept_in(path: Path) -> set[str | bytes]:
    kept = CollectedPatterns(path)
    kept.use()
    kept.leave()
    return {expression for _, expression, _ in kept._places}


def test_nothing_is_written_where_python_writes_no_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    collection = CollectedPatterns(tmp_path / "kept.patterns")
    for expression, flags in EXPRESSIONS.items():
        collection.compile(expression, flags)
    collection.renew()
    assert not (tmp_path / "kept.patterns").exists()


def test_a_second_run_of_a_verb_parses_no_expression(tmp_path: Path) -> None:
    counting = (
        "import re\nplain = re._parser.parse\nre._parser.parse = lambda *given: count.append(given) or plain(*given)"
    )
    first, second = counted_runs("patterns", counting, tmp_path)
    assert first > 100
    assert second <= patterns.MOST_MISSING
