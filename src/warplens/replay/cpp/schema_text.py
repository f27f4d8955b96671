"""Schemas of ops as PyTorch writes them: `aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEAD: Final = re.compile(r"(?:aten::)?(\w+)(?:\.(\w+))?\(", re.ASCII)
ARGUMENT: Final = re.compile(r"([A-Za-z][\w?!()\[\]>* |-]*?) ([A-Za-z_]\w*)(?:=.*)?", re.ASCII | re.DOTALL)
ALIAS: Final = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True)
class SchemaParameter:
    type: str
    """without marks of aliasing: `Tensor`, `int[2]`, `SymInt[]?`"""
    name: str
    written: bool = False
    """The op changes it."""
    keyword: bool = False
    """It is given by its name."""


@dataclass(frozen=True)
class SchemaText:
    name: str
    overload: str
    parameters: tuple[SchemaParameter, ...]
    returns_nothing: bool


def parse(text: str) -> SchemaText | None:
    """None for a text that is not a schema of an ATen op.

    >>> schema = parse("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
    >>> schema.name, schema.overload, [parameter.name for parameter in schema.parameters], schema.parameters[2].written
    ('mm', 'out', ['self', 'mat2', 'out'], True)
    >>> parse("aten::f(int[2] size=[1, 1]) -> ()").parameters
    (SchemaParameter(type='int[2]', name='size', written=False, keyword=False),)
    >>> [parameter.name for parameter in parse("aten::f(str mode='a, b', int n=1) -> ()").parameters]
    ['mode', 'n']
    """
    head = HEAD.match(text)
    if head is None:
        return None
    parts, rest = _split(text[head.end() :])
    if parts is None or not rest.startswith(" -> "):
        return None
    named = parts.index("*") if "*" in parts else len(parts)
    parameters = [_parameter(part, place > named) for place, part in enumerate(parts) if part != "*"]
    parsed = tuple(parameter for parameter in parameters if parameter is not None)
    if len(parsed) != len(parameters):
        return None
    return SchemaText(head[1], head[2] or "", parsed, rest == " -> ()")


def _parameter(text: str, keyword: bool) -> SchemaParameter | None:
    match = ARGUMENT.fullmatch(text)
    if match is None:
        return None
    marks = "".join(ALIAS.findall(match[1]))
    return SchemaParameter(ALIAS.sub("", match[1]), match[2], "!" in marks, keyword)


def _split(text: str) -> tuple[list[str] | None, str]:
    """The parts between commas up to the closing bracket, and what follows it."""
    parts: list[str] = []
    depth, start, quote, before = 0, 0, "", ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and before != "\\" else quote
            before = "" if before == "\\" else letter
        elif letter in "'\"":
            quote = letter
        elif letter == ")" and depth == 0:
            last = text[start:position].strip()
            return parts + ([last] if last else []), text[position + 1 :]
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return None, ""
