"""C++ text without a C++ parser: comments and strings blanked, brackets matched, functions of a file found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<raw>\w{0,16})\((?:.*?\)(?P=raw)"|.*\Z)|"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z)|\'(?:[^\'\\\n]|\\.)\'',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_PAIRS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_SCOPE = re.compile(r"(?:^|\s)(?:inline\s+)?namespace\b\s*([\w:]*)|^\s*extern\s*$")
_USING = re.compile(r"\s*using\s+namespace\b")
_TYPE = re.compile(r"(?:^|[\s>])(?:struct|class|union|enum)\b(?!.*\))", re.DOTALL)


@dataclass(frozen=True)
class Function:
    """A function with a body at namespace scope: offsets into the text."""

    start: int
    body: int
    end: int
    head: str
    """All before the body, without comments."""
    scope: str = ""
    """The namespace it is in."""


@lru_cache(maxsize=16)
def without_comments(text: str) -> str:
    """Comments and strings as blanks, of the same length and with the same lines.

    >>> without_comments('a /* b */ c "d{" // e')
    'a         c          '
    """
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


@lru_cache(maxsize=16)
def code_only(text: str) -> str:
    """Without directives of the preprocessor as well."""
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), without_comments(text))


def closing(text: str, at: int) -> int:
    """The offset of the bracket that closes the one at `at`; -1 for none. Only its own kind is counted.

    >>> closing("f(a, (b))", 1)
    8
    """
    begin, end = text[at], _PAIRS[text[at]]
    depth = 0
    for position in range(at, len(text)):
        depth += (text[position] == begin) - (text[position] == end)
        if depth == 0:
            return position
    return -1


def split_outside(text: str, separator: str = ",") -> list[str]:
    """
    >>> split_outside("A<B, C> a, int b[2]")
    ['A<B, C> a', 'int b[2]']
    """
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if character == separator and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def functions(text: str) -> list[Function]:
    """All functions with bodies at namespace scope; none where the brackets do not match."""
    return [function for function in declarations(text) if function.body < function.end - 1]


def declarations(text: str) -> list[Function]:
    """The functions, those that are only declared, and `using namespace`: these have no body."""
    return list(_functions(code_only(text), 0, len(text), ""))


def _functions(code: str, begin: int, end: int, scope: str) -> Iterator[Function]:
    head_start, at = begin, begin
    while at < end:
        character = code[at]
        if character in ";}":
            head = code[head_start:at]
            if character == ";" and (_is_function(head) or _USING.match(head)):
                start = head_start + len(head) - len(head.lstrip())
                yield Function(start, at, at + 1, head.strip(), scope)
            head_start = at + 1
        elif character == "(":
            at = max(closing(code, at), at)
        elif character == "{":
            close = closing(code, at)
            if close < 0:
                return
            head = code[head_start:at]
            if match := _SCOPE.search(head):
                name = match[1] or ""
                yield from _functions(code, at + 1, close, f"{scope}{name}::" if name else scope)
            elif _is_function(head):
                start = head_start + len(head) - len(head.lstrip())
                yield Function(start, at, close + 1, head.strip(), scope)
            at, head_start = close, close + 1
        at += 1


def _is_function(head: str) -> bool:
    """`int x[] = {` and types are none; a default argument's `=` is inside the brackets."""
    outside = _without_brackets(head)
    return "(" in head and "=" not in outside.replace("operator=", "") and _TYPE.search(outside) is None


def _without_brackets(text: str) -> str:
    kept, at = [], 0
    while at < len(text):
        close = closing(text, at) if text[at] == "(" else -1
        if close >= 0:
            at = close
        else:
            kept.append(text[at])
        at += 1
    plain = "".join(kept)
    # A template's defaults are not an initialiser.
    return re.sub(r"^\s*template\s*<.*>", "", plain, flags=re.DOTALL)


def blanked(text: str, parts: list[Function]) -> str:
    """The same lines, with these functions as blanks."""
    for part in parts:
        text = text[: part.start] + re.sub(r"[^\n]", " ", text[part.start : part.end]) + text[part.end :]
    return text
