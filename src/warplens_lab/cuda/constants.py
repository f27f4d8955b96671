"""Numbers that C++ names: macros, constants of the file and a template's arguments, in whole-number expressions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from warplens_lab.cuda.text import without_comments

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$", re.MULTILINE)
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\b[\w\s:]{0,100}?\b([A-Za-z_]\w{0,100})\s{0,40}(?:=\s{0,40}([^;,{}]{1,1000})|\{([^{}]{1,1000})\})\s{0,40}[;,]"
)
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]+\b")
_DEEPEST: Final = 16
_OPERATORS: Final[Mapping[type[ast.AST], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


class Constants:
    """The texts behind names; what the command line and a template set comes before the file's own."""

    def __init__(self, text: str, defines: tuple[str, ...] = (), arguments: Mapping[str, str] | None = None) -> None:
        plain = without_comments(text)
        self._texts: dict[str, str] = {match[1]: match[2] for match in _DEFINE.finditer(plain)}
        self._texts |= {match[1]: match[2] or match[3] for match in _CONSTANT.finditer(plain)}
        self._texts |= {name: value or "1" for name, _, value in (define.partition("=") for define in defines)}
        self._texts |= dict(arguments or {})

    def get(self, name: str) -> str | None:
        return self._texts.get(name)


def number(text: str, constants: Constants, depth: int = 0) -> int | None:
    """The value of an expression; None where it is not known.

    >>> number("TILE * 4u + 1", Constants("#define TILE (32 / 2)")), number("n + 1", Constants(""))
    (65, None)
    """
    try:
        tree = ast.parse(_SUFFIX.sub(r"\1", text.strip()).replace("/", "//"), mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return None
    return _value(tree.body, constants, depth)


def _value(node: Any, constants: Constants, depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.Name):
        text = constants.get(node.id)
        return number(text, constants, depth + 1) if text is not None and depth < _DEEPEST else None
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, constants, depth), _value(node.right, constants, depth)
        if left is None or right is None or (isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0):
            return None
        if isinstance(node.op, ast.LShift) and not 0 <= right < 64:
            return None
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, constants, depth)
        return -value if value is not None else None
    return None
