"""What ops take: PyTorch's schemas as text, parsed, and the overload that a recorded call must have been.

An ExecutionTrace gives each call's schema. A plain trace gives only the op's name, sometimes with the overload; the
overload is then the one of PyTorch's whose parameters fit the recorded arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

HEAD: Final = re.compile(r"(?P<name>[A-Za-z_]\w*::\w+)(?:\.(?P<overload>\w+))?\(")
ALIAS: Final = re.compile(r"\((?P<marks>[a-z|*]+!?(?:\s*->[^()]*)?)\)")
SIZE: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class OpParameter:
    """One argument of an op: `type` without alias marks and sizes (Tensor, Tensor?, Tensor[], int, SymInt[], str …)."""

    name: str
    type: str
    default: str | None = None
    keyword: bool = False
    """Only by keyword."""
    written: bool = False
    """The op changes it."""

    @property
    def base(self) -> str:
        """The type without `?` and `[]`, of what is passed or of the list's items."""
        return self.type.rstrip("?").removesuffix("[]").rstrip("?").replace("SymInt", "int")

    @property
    def is_list(self) -> bool:
        return "[]" in self.type

    @property
    def optional(self) -> bool:
        return self.type.endswith("?")


@dataclass(frozen=True)
class OpSchema:
    name: str
    overload: str
    parameters: tuple[OpParameter, ...]
    text: str


@cache
def parse_schema(text: str) -> OpSchema | None:
    """
    >>> schema = parse_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    >>> schema.overload, [(p.name, p.type, p.keyword, p.written) for p in schema.parameters]
    ('Tensor', [('self', 'Tensor', False, True), ('other', 'Tensor', False, False), ('alpha', 'Scalar', True, False)])
    """
    head = HEAD.match(text)
    if head is None:
        return None
    inside = _inside(text, head.end() - 1)
    if inside is None:
        return None
    parameters, keyword = [], False
    for part in _split(inside):
        if part == "*":
            keyword = True
            continue
        parameter = _parameter(part, keyword)
        if parameter is None:
            return None
        parameters.append(parameter)
    return OpSchema(head["name"], head["overload"] or "", tuple(parameters), text)


def _inside(text: str, start: int) -> str | None:
    """What stands between the bracket at `start` and the one that closes it."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + 1 : position]
    return None


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket and no quotes."""
    parts, depth, quoted, current = [], 0, False, ""
    for char in text:
        quoted ^= char == '"'
        depth += 0 if quoted else {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [part for part in [*parts, current.strip()] if part]


def _parameter(text: str, keyword: bool) -> OpParameter | None:
    declared, equals, default = text.partition("=")
    kind, _, name = declared.strip().rpartition(" ")
    if not kind or not name.isidentifier():
        return None
    written = any("!" in match["marks"] for match in ALIAS.finditer(kind))
    plain = SIZE.sub("[]", ALIAS.sub("", kind))
    return OpParameter(name, plain, default if equals else None, keyword, written)


@cache
def _table() -> dict[str, tuple[OpSchema, ...]]:
    schemas: dict[str, list[OpSchema]] = {}
    for line in files("warplens.planning").joinpath("op_schemas.txt").read_text("utf-8").splitlines():
        schema = parse_schema(line) if not line.startswith("#") else None
        if schema is not None:
            schemas.setdefault(schema.name, []).append(schema)
    return {name: tuple(schemas) for name, schemas in schemas.items()}


def overloads(name: str) -> tuple[OpSchema, ...]:
    """The overloads of an op by its name without overload; empty for ops that PyTorch does not have of its own."""
    return _table().get(name, ())
