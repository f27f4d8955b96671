"""Values of constexprs as they are written: numbers, words, types, and expressions of layouts and functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

import msgspec

Literal = int | float | bool | str | None

ELEMENT_BITS: Final[Mapping[str, int]] = {
    **{f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16"), 8),
    "i1": 1,
    "u1": 1,
    "fp16": 16,
    "bf16": 16,
    "fp32": 32,
    "fp64": 64,
}
"""Every type that Triton names, with its size."""
INTEGERS: Final = tuple(name for name in ELEMENT_BITS if name[0] in "iu")
_DTYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ELEMENT_BITS},
    **{f"float{bits}": f"fp{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    **{f"int{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (1, 8, 16, 32, 64)},
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
}
NO_LITERAL: Final = object()
_EXPRESSION_NODES: Final = (
    ast.Expression, ast.Name, ast.Attribute, ast.Call, ast.keyword, ast.Constant, ast.List, ast.Tuple, ast.UnaryOp,
    ast.USub, ast.Load,
)  # fmt: skip


class Dtype(msgspec.Struct, frozen=True, tag=True):
    """A constexpr that is a type, such as `tl.float16`."""

    name: str

    def __str__(self) -> str:
        return self.name

    def text(self) -> str:
        """
        >>> Dtype("i32").text(), Dtype("fp16").text()
        ('tl.int32', 'fp16')
        """
        # Bare names of integers are taken for the type of an argument: see `constant`.
        return f"tl.{'u' * (self.name[0] == 'u')}int{self.name[1:]}" if self.name in INTEGERS else self.name


class Expression(msgspec.Struct, frozen=True, tag=True):
    """A constexpr that the kernel's file can evaluate: a layout, a function of it, a tuple, or `FILE.py::function`."""

    source: str

    def __str__(self) -> str:
        return self.source.rpartition("::")[2]

    def text(self) -> str:
        return self.source


Value = Literal | Dtype | Expression


def value_text(value: Value) -> str:
    """As a signature has it.

    >>> value_text("gelu"), value_text(Dtype("i32")), value_text(Expression("gelu"))
    ("'gelu'", 'tl.int32', 'gelu')
    """
    return value.text() if isinstance(value, (Dtype, Expression)) else repr(value)


def parse_value(text: str) -> Value:
    """The value of a constexpr; anything that is not a number, truth value, None, type or call is a word.

    >>> parse_value("1024"), parse_value("None"), parse_value("fp16"), parse_value("'gelu'"), parse_value("gelu")
    (1024, None, Dtype(name='fp16'), 'gelu', 'gelu')
    >>> parse_value("SwizzledSharedLayout(8, 1, 4, [1, 0])")
    Expression(source='SwizzledSharedLayout(8, 1, 4, [1, 0])')
    """
    plain = text.strip()
    value = literal(plain)
    if value is not NO_LITERAL:
        return value  # type: ignore[return-value]
    return Expression(plain) if not plain.isidentifier() and is_expression(plain) else plain


def literal(text: str) -> object:
    """A number, word, truth value, None or type; `NO_LITERAL` for anything else."""
    if text.removeprefix("tl.") in _DTYPES:
        return Dtype(_DTYPES[text.removeprefix("tl.")])
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return NO_LITERAL
    return value if value is None or isinstance(value, (int, float, str)) else NO_LITERAL


def is_expression(text: str) -> bool:
    """Whether it is made of names, calls and literals only.

    >>> is_expression("relu"), is_expression("gl.BlockedLayout([1], [32], [4], [0])"), is_expression("i32:16")
    (True, True, False)
    """
    file, separator, name = text.rpartition("::")
    if separator:
        return file.endswith(".py") and all(part.isidentifier() for part in name.split("."))
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return all(isinstance(node, _EXPRESSION_NODES) for node in ast.walk(tree))
