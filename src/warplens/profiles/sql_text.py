"""SQL as text: its tokens, and names for what it computes. Polars names `sum(total_us)` after its column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

TOKENS: Final = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<space>\s+)"
    r"|(?P<string>'(?:[^']|'')*')"
    r'|(?P<quoted>"(?:[^"]|"")*"|`[^`]*`)'
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign>::|\|\||->>?|[<>!=]=|<>|.)",
    re.DOTALL,
)
END_OF_LIST: Final = ("from", "where", "group", "having", "order", "limit", "union", "intersect", "except", "offset",
                      "window", "qualify", "fetch", "into")  # fmt: skip
NEVER_ALIASES: Final = ("end", "null", "true", "false")
"""Words that end an expression, so that the last word of an item is not a name for it."""
BEFORE_OPERANDS: Final = ("and", "or", "not", "is", "like", "ilike", "rlike", "regexp", "in", "between", "over", "as",
                          "case", "when", "then", "else", "div", "collate", "interval", "escape")  # fmt: skip
"""Words after which an operand comes: `a and b` does not name anything b."""


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """An unquoted word in lower case; else empty."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """What an identifier names, quoted or not; else empty."""
        return self.text[1:-1].lower() if self.kind == "quoted" else self.word

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens_of(query: str) -> list[Token]:
    """The tokens of a query without spaces and comments."""
    return [token for token in all_tokens(query) if token.kind != "comment"]


def all_tokens(query: str) -> list[Token]:
    """The tokens of a query and its comments."""
    matches = TOKENS.finditer(query)
    return [
        Token(match.lastgroup, match[0], match.start()) for match in matches if match.lastgroup not in ("space", None)
    ]


def with_names(query: str) -> str:
    """The query with each computed item of a SELECT named by its own text, unless it has a name.

    >>> with_names("select op, sum(total_us), count(*) n from kernels")
    'select op, sum(total_us) AS "sum(total_us)", count(*) n from kernels'
    """
    tokens, parts, done = tokens_of(query), [], 0
    for item in _unnamed_items(tokens):
        end = item[-1].end
        name = " ".join(query[item[0].start : end].split()).replace('"', '""')
        parts.append(f'{query[done:end]} AS "{name}"')
        done = end
    return "".join(parts) + query[done:]


def _unnamed_items(tokens: Sequence[Token]) -> list[list[Token]]:
    """The select items that need a name, in the order of their ends; not those inside another such item."""
    items = [item for position, token in enumerate(tokens) if token.word == "select"
             for item in _items(tokens[position + 1 :]) if _needs_name(item)]  # fmt: skip
    outermost: list[list[Token]] = []
    for item in items:
        if not outermost or item[0].start > outermost[-1][-1].start:
            outermost.append(item)
    return outermost


def _items(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The items of the list that begins here."""
    depth, item = 0, list[Token]()
    for token in tokens:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth < 0 or (depth == 0 and (token.word in END_OF_LIST or token.text == ";")):
            break
        if depth == 0 and token.text == ",":
            yield item
            item = []
        elif item or token.word not in ("distinct", "all"):
            item.append(token)
    yield item


def _needs_name(item: Sequence[Token]) -> bool:
    if not item or item[0].text == "*" or any(token.text == "*" for token in item[-1:]):
        return False  # every column, each with its own name
    if all(token.name or token.text == "." for token in item) and len(item) % 2 and _is_path(item):
        return False
    return not _has_name(item)


def _is_path(item: Sequence[Token]) -> bool:
    """`column` or `table.column`."""
    return all((token.text == ".") == bool(position % 2) for position, token in enumerate(item))


def _has_name(item: Sequence[Token]) -> bool:
    if len(item) < 2:
        return False
    before, last = item[-2], item[-1]
    if not last.name or last.word in NEVER_ALIASES:
        return False
    if before.word == "as" or before.text in (")", "]") or before.kind in ("number", "string", "quoted"):
        return True
    return bool(before.word) and before.word not in BEFORE_OPERANDS
