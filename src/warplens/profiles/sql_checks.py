"""What SQL is refused before Polars sees it.

Polars also executes statements that change tables and functions that open files. It recurses over expressions without
a limit, so that a long chain of operators ends the process, and reads some texts otherwise than `sql_text` does: what
is checked here must be what is executed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from warplens.profiles.sql_text import Token, all_tokens, tokens_of
from warplens_run.base.errors import UsageError

QUERIES: Final = ("select", "with", "from", "values")
READS_FILES: Final = re.compile(r"(?:read|scan)_\w+")
ESCAPING_PREFIXES: Final = ("e", "r", "b", "n", "q", "nq", "br", "rb", "&")
"""Before a quote: strings in which a quote may be escaped, or is not the end."""
MOST_DEPTH: Final = 40
"""Of parentheses, brackets and CASE. The parser of Polars itself stops at about 50."""
MOST_TOKENS: Final = 1_000
"""800 operators in a row exhaust the stack, 300 UNIONs take seconds; the longest query of the guides has 40 tokens."""
NESTS: Final = {"(": 1, "[": 1, "case": 1, ")": -1, "]": -1, "end": -1}


def check_query(text: str) -> None:
    """Refuses statements that are not queries, functions that read files, and what is too long or too deep."""
    tokens = tokens_of(text)
    heads = [token for token in tokens if token.text != "(" and token.word != "explain"]
    if not heads or heads[0].word not in QUERIES:
        reason = f"{heads[0].text.upper()} is not supported" if heads else "the query is empty"
        raise UsageError(f"SQL: {reason}", hint="a query starts with SELECT or WITH; tables cannot be changed")
    if any(token.text == ";" and following.text != ";" for token, following in pairwise(tokens)):
        raise UsageError("SQL: more than one statement", hint="run one query at a time")
    check_condition(text)


def check_condition(text: str) -> None:
    """The same for a condition, which cannot be a statement."""
    tokens = tokens_of(text)
    _check_quoting(text, tokens)
    _check_functions(tokens)
    _check_size(tokens)


def _check_quoting(text: str, tokens: Sequence[Token]) -> None:
    """Refuses what Polars ends elsewhere than `tokens_of`: a call could hide in what is taken for a string."""
    comments = [token.text for token in all_tokens(text) if token.kind == "comment"]
    if any(comment.startswith("/*") and "/*" in comment[2:] for comment in comments):
        raise UsageError("SQL: comments cannot be nested")
    if any(token.text == "$" for token in tokens):
        raise UsageError("SQL: $ is not supported", hint="strings are written in single quotes, names in double quotes")
    for prefix, literal in pairwise(tokens):
        is_prefix = prefix.end == literal.start and prefix.text.lower() in ESCAPING_PREFIXES
        if is_prefix and literal.text[0] in "\"'":
            raise UsageError(f"SQL: strings of the form {prefix.text}'…' are not supported")


def _check_functions(tokens: Sequence[Token]) -> None:
    for token, following in pairwise(tokens):
        if following.text == "(" and READS_FILES.fullmatch(token.name):
            hint = "a query reads the tables of the profile only"
            raise UsageError(f"SQL: no function {token.name}: files cannot be read", hint=hint)


def _check_size(tokens: Sequence[Token]) -> None:
    depth = deepest = 0
    for token in tokens:
        depth = max(0, depth + NESTS.get(token.word or token.text, 0))
        deepest = max(deepest, depth)
    if deepest > MOST_DEPTH:
        raise UsageError(f"SQL: nested {deepest:,} levels deep; the limit is {MOST_DEPTH}", hint="use WITH")
    count = len(tokens) - _listed_literals(tokens)
    if count > MOST_TOKENS:
        hint = "a list of values, as in IN (1, 2, 3), may have any length"
        raise UsageError(f"SQL: {count:,} words and operators; the limit is {MOST_TOKENS:,}", hint=hint)


def _listed_literals(tokens: Sequence[Token]) -> int:
    """The tokens of lists of literals: Polars takes a list of any length."""
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return 2 * sum(
        before.text in ("(", ",") and literal.kind in ("number", "string") and after.text in (",", ")")
        for before, literal, after in triples
    )
