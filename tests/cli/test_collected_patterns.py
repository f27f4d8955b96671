"""The collection of compiled expressions: they are those that Python makes, and a second run parses none."""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collected_runs import counted_runs
from warplens.categories.rules import builtin_rules
from warplens.collected import kept_file
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


@pytest.mark.parametrize("damaged", [(32, [9999], 0, {}, (None,)), (32, [1]), "", 7])
def test_code_that_the_engine_refuses_is_compiled_again(collection: CollectedPatterns, damaged: object) -> None:
    collection.kept.entries[True, "", 0] = marshal.dumps(damaged)
    assert collection.compile("").match("a")


def test_a_second_run_of_a_verb_parses_no_expression(tmp_path: Path) -> None:
    counting = (
        "import re\nplain = re._parser.parse\nre._parser.parse = lambda *given: count.append(given) or plain(*given)"
    )
    first, second = counted_runs("patterns", counting, tmp_path)
    assert first > 100
    assert second <= kept_file.MOST_MISSING
