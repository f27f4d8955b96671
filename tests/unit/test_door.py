"""Values from files go through `warplens_run.base.bounded`: what converts or decodes one by other ways is found here.

A number in a file may have 5,000 digits, which `int` refuses with a `ValueError` or converts in the square of their
number; `float` gives infinity and NaN; `json.loads` gives all of these and halves of characters. A line may go round
the door where it says why: `# bounded: the pattern takes nine digits`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

SOURCES = ROOT / "src"
ROOMS = (
    *("readers", "passes", "outputs", "analyses", "ranks", "planning", "costs", "model", "profiles", "categories"),
    *("advice", "hardware", "proof", "compat"),
)
PLACES = (*(f"warplens/{room}" for room in ROOMS), "warplens_run/formats", "warplens_lab/opened")
REASON = "# bounded: "
TEXT_METHODS = frozenset(
    ["strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "lower", "upper", "replace", "translate", "split", "rsplit", "splitlines", "partition", "rpartition", "decode", "join", "group", "groups", "groupdict", "read_text", "read_bytes"]
)  # fmt: skip
SEARCHES = frozenset(("match", "fullmatch", "search", "findall", "finditer"))
RAW = re.compile(r"\b(str|bytes|object|Any|Value|Match)\b")
UNBOUNDED_DIGITS = re.compile(r"(?:\\d|\\w|\.|\[(?:[^\]\\]|\\.)*(?:\\d|\\w|0-9)(?:[^\]\\]|\\.)*\])(?:[+*]|\{\d*,\})")
CONVERTS = re.compile(r"\b(?:int|float)\(|\bjson\.")
DECODING = frozenset(("json.loads", "json.load", "json.JSONDecoder"))


def modules() -> list[Path]:
    return sorted(path for place in PLACES for path in (SOURCES / place).rglob("*.py"))


class _Function:
    """Which names of a function hold text of a file, or a value of any type."""

    def __init__(self, node: ast.AST, outer: frozenset[str], module: _Module) -> None:
        self.raw = set(outer)
        self.module = module
        self.nodes = list(own_nodes(node))
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            for argument in arguments:
                self.raw.discard(argument.arg)
                if argument.annotation is not None and is_raw_type(argument.annotation):
                    self.raw.add(argument.arg)
        for _ in range(3):  # names that are bound from names that are bound
            for inner in self.nodes:
                self._bind(inner)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and self.is_raw(node.value):
            for target in node.targets:
                self._add(target)
        elif (
            (isinstance(node, ast.NamedExpr) and self.is_raw(node.value))
            or (isinstance(node, ast.AnnAssign) and is_raw_type(node.annotation))
            or (isinstance(node, (ast.For, ast.comprehension)) and self.is_raw(node.iter))
        ):
            self._add(node.target)

    def _add(self, target: ast.expr) -> None:
        self.raw.update(name.id for name in ast.walk(target) if isinstance(name, ast.Name))

    def is_raw(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.raw
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self.is_raw(node.value)
        if isinstance(node, ast.IfExp):
            return self.is_raw(node.body) or self.is_raw(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(map(self.is_raw, node.values))
        if isinstance(node, ast.JoinedStr):
            return True
        return isinstance(node, ast.Call) and self._gives_raw(node)

    def _gives_raw(self, call: ast.Call) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            return function.id == "str" or (
                function.id in ("zip", "enumerate", "reversed", "sorted", "next", "iter", "list", "tuple", "filter")
                and any(map(self.is_raw, call.args))
            )
        if not isinstance(function, ast.Attribute):
            return False
        if function.attr in SEARCHES:
            return self.module.takes_many_digits(function.value, call)
        if function.attr in ("group", "groups", "groupdict", "get", "items", "values"):
            return self.is_raw(function.value)
        return (function.attr in TEXT_METHODS and not isinstance(function.value, ast.Name | ast.Attribute)) or (
            function.attr in TEXT_METHODS and self.is_raw(function.value)
        )


class _Module:
    def __init__(self, path: Path) -> None:
        self.lines = path.read_text("utf-8").splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)

    def takes_many_digits(self, pattern: ast.expr, call: ast.Call) -> bool:
        """Whether a pattern lets more digits pass than 64 bits hold; of one that is not known, yes."""
        text: object = None
        if isinstance(pattern, ast.Name) and pattern.id == "re":
            text = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        elif isinstance(pattern, ast.Name):
            constant: Any = getattr(importlib.import_module(self.name), pattern.id, None)
            text = getattr(constant, "pattern", None)
        text = text.decode() if isinstance(text, bytes) else text
        return not isinstance(text, str) or UNBOUNDED_DIGITS.search(text) is not None

    def found(self) -> Iterator[tuple[int, str]]:
        yield from self._found(self.tree, frozenset())
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in DECODING and not self.says_why(node):
                yield node.lineno, ast.unparse(node)

    def _found(self, node: ast.AST, outer: frozenset[str]) -> Iterator[tuple[int, str]]:
        function = _Function(node, outer, self)
        for inner in function.nodes:
            if isinstance(inner, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                yield from self._found(inner, frozenset(function.raw) if not isinstance(inner, ast.ClassDef) else outer)
            elif (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id in ("int", "float")
                and inner.args
                and function.is_raw(inner.args[0])
                and not self.says_why(inner)
            ):
                yield inner.lineno, ast.unparse(inner)

    def says_why(self, node: ast.expr) -> bool:
        assert node.end_lineno is not None
        return any(REASON in line for line in self.lines[node.lineno - 1 : node.end_lineno])


def is_raw_type(annotation: ast.expr) -> bool:
    """Text, bytes, or anything; of a mapping its values count."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        name = ast.unparse(annotation.value)
        if name in ("dict", "Mapping", "Callable"):
            return name != "Callable" and is_raw_type(annotation.slice.elts[-1])
        if name.endswith("NDArray"):
            return False
    text = ast.unparse(annotation)
    return "NDArray" not in text and RAW.search(text) is not None


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All below a function, class or module without what is inside functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from own_nodes(child)


def test_no_value_of_a_file_goes_round_the_door() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {what}" for path in modules() for line, what in _Module(path).found()]
    assert not found, "use warplens_run.base.bounded, or say why not:\n" + "\n".join(found)


CODE = """
import json, re
NAME = re.compile(r"x(\\d+)")
SHORT = re.compile(r"x(\\d{1,9})")
def f(value: object, numbers: dict[str, float], text: str):
    match = NAME.match(text)
    """


@pytest.mark.parametrize(
    "line",
    ["int(value)", "float(value)", "int(match[1])", "int(text.strip())", "json.loads(text)", "[int(x) for x in text.split()]",
     "int(re.findall(r'[0-9]+', text)[0])", "int(match.group(1) or 0)"],
)  # fmt: skip
def test_a_conversion_of_what_a_file_says_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    assert list(_written(tmp_path, monkeypatch, line).found())


@pytest.mark.parametrize(
    "line",
    ["int(numbers['a'])", "int(len(text))", "int(numbers.sum())", "int(SHORT.match(text)[1])", "json.dumps(value)",
     "int(value)  # bounded: an array of ours", "int(re.findall(r'[0-9]{1,9}', text)[0])"],
)  # fmt: skip
def test_a_conversion_of_what_is_a_number_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    assert not list(_written(tmp_path, monkeypatch, line).found())


def _written(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> _Module:
    path = folder / "door_example.py"
    path.write_text(CODE + line + "\n")
    monkeypatch.setitem(globals(), "SOURCES", folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(importlib.import_module("sys").modules, "door_example", raising=False)
    return _Module(path)
