"""A rule: which names it takes and what it says about them; read from TOML, checked, made ready to match."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from warplens.categories.kernel_name import KernelName, any_in
from warplens.lazy_patterns import LazyPattern
from warplens_run.base.errors import FormatError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LISTS = ("contains", "function", "words", "unless")
_DIRECTIONS = ("", "forward", "backward")


class Rule(msgspec.Struct, frozen=True):
    """Takes a name when every condition given holds; a list holds when any of its items does.

    `pattern` (a regular expression) and `contains` look at the readable name with its template arguments;
    `function` (substrings) and `words` (whole words) only at the kernel's own name; `unless` vetoes.
    `library`, `dtype`, `arch`, `direction` and `fuses` are recorded with the category, and where left empty
    are taken from groups of these names in `pattern`, or from the name itself.
    """

    category: str
    pattern: str = ""
    contains: str | Sequence[str] = ()
    function: str | Sequence[str] = ()
    words: str | Sequence[str] = ()
    unless: str | Sequence[str] = ()
    case: bool = False
    library: str = ""
    dtype: str = ""
    arch: str = ""
    direction: str = ""
    fuses: str = ""


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule made ready to match; substrings are lower-case unless the rule minds case."""

    rule: Rule
    search: Callable[[str], re.Match[str] | None] | None
    search_lower: bool
    contains: tuple[str, ...]
    function: tuple[str, ...]
    words: frozenset[str]
    unless: tuple[str, ...]

    def match(self, name: KernelName) -> re.Match[str] | bool:
        """The match of `pattern`, True where the rule has none and holds, else False."""
        minds_case = self.rule.case
        if self.function and not any_in(self.function, name.function if minds_case else name.lower_function):
            return False
        if self.words and self.words.isdisjoint(name.words):
            return False
        text = name.text if minds_case else name.lower_text
        if self.contains and not any_in(self.contains, text):
            return False
        if self.unless and any_in(self.unless, text):
            return False
        if self.search is None:
            return True
        return self.search(name.lower_text if self.search_lower else name.text) or False


def compile_rule(rule: Rule, where: str, *, is_checked: bool = False) -> CompiledRule:
    """Checks a rule and makes it ready to match; `where` says which rule it is, for the error.

    The pattern of one that `is_checked` is compiled when it is first needed.
    """
    lists = {key: _as_tuple(getattr(rule, key), key, where) for key in _LISTS}
    if not rule.category or not isinstance(rule.category, str):
        raise UsageError(f"{where}: a rule needs a category", hint='for example: category = "GEMM"')
    if not rule.pattern and not any(lists[key] for key in ("contains", "function", "words")):
        raise UsageError(f"{where}: a rule needs pattern, contains, function or words")
    if rule.direction not in _DIRECTIONS:
        raise UsageError(f"{where}: direction is forward or backward, not {rule.direction!r}")
    if not rule.case:
        lists = {key: tuple(part.lower() for part in parts) for key, parts in lists.items()}
    search, search_lower = _compile_pattern(rule, where, is_checked=is_checked)
    return CompiledRule(
        rule,
        search,
        search_lower,
        lists["contains"],
        lists["function"],
        frozenset(word.lower() for word in lists["words"]),
        lists["unless"],
    )


def _compile_pattern(
    rule: Rule, where: str, *, is_checked: bool
) -> tuple[Callable[[str], re.Match[str] | None] | None, bool]:
    if not rule.pattern:
        return None, False
    # A pattern without capitals on a lower-case name finds the same as IGNORECASE, several times faster.
    on_lower = not rule.case and rule.pattern == rule.pattern.lower()
    pattern = LazyPattern(rule.pattern, 0 if rule.case or on_lower else re.IGNORECASE)
    try:
        if not is_checked:
            pattern.compiled()
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{where}: pattern {rule.pattern!r} is not a regular expression: {error}") from error
    # `search` would try an anchored pattern at every place of a long name.
    return (pattern.match if _is_anchored(rule.pattern) else pattern.search), on_lower


def _is_anchored(pattern: str) -> bool:
    """Whether the whole pattern can match only at the start; answers no where it is not sure."""
    if not pattern.startswith("^"):
        return False
    inside = re.sub(r"\\.|\[[^\]]*(?:\]|\Z)", "", pattern)
    depth_of = itertools.accumulate(1 if letter == "(" else -1 if letter == ")" else 0 for letter in inside)
    return all(depth > 0 or letter != "|" for letter, depth in zip(inside, depth_of, strict=True))


def _as_tuple(value: object, key: str, where: str) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) and item for item in items):
        raise UsageError(f"{where}: {key} is a text or a list of texts, none empty")
    return tuple(items)


def read_rules(path: Path) -> list[tuple[Rule, str]]:
    """The rules of a user's TOML file, each with its position."""
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the rules file {path}: {error}") from error
    rules = _parse(content, str(path)).get("rule", [])
    if not isinstance(rules, list) or not rules:
        raise FormatError("no [[rule]] in the file", where=str(path), hint="start each rule with [[rule]]")
    numbered = [(f"{path}, rule {number}", rule) for number, rule in enumerate(rules, start=1)]
    return [(_rule_from_table(table, where), where) for where, table in numbered]


def _parse(content: str, where: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # integers of thousands of digits are no TOMLDecodeError
        raise FormatError(f"not a TOML file: {error}", where=where) from error
    return table


def _rule_from_table(table: object, where: str) -> Rule:
    if not isinstance(table, Mapping):
        raise FormatError("a rule is a table", where=where)
    keys = Rule.__struct_fields__
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise FormatError(f"unknown key {unknown[0]!r}", where=where, hint="known: " + ", ".join(keys))
    if "category" not in table:
        raise FormatError("category is missing", where=where, hint='for example: category = "GEMM"')
    for key, value in table.items():
        expected = bool if key == "case" else str
        if key not in _LISTS and not isinstance(value, expected):
            raise FormatError(f"{key} is a {expected.__name__}, not {value!r}", where=where)
    return Rule(**table)


@lru_cache(maxsize=4)
def read_packaged_toml(name: str) -> dict[str, Any]:
    """One of the tables shipped with this package."""
    return _parse(Path(__file__).with_name(name).read_text("utf-8"), name)


def builtin_categories() -> dict[str, str]:
    """Every built-in category with its meaning, in the order in which they are shown."""
    return dict(read_packaged_toml("rules.toml")["categories"])


@lru_cache(maxsize=1)
def builtin_rules() -> tuple[CompiledRule, ...]:
    """The rules shipped with the package, compiled once."""
    tables = enumerate(read_packaged_toml("rules.toml")["rule"], start=1)
    located = [(table, f"rules.toml, rule {number}") for number, table in tables]
    return tuple(compile_rule(_rule_from_table(table, where), where, is_checked=True) for table, where in located)
