"""The kernels that a Python file's text shows, without importing it: functions under `triton.jit` or `gluon.jit`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens_lab.compiling.records import Parameter
from warplens_lab.compiling.values import Dtype, parse_value
from warplens_run.base.errors import UsageError

HOMES: Final = ("triton", "gluon", "tl", "ttgl", "gl")
"""Whose `jit` makes a kernel; that of torch, jax or numba does not."""
TUNERS: Final = ("autotune", "libtuner")
LOCALS: Final = "<locals>"
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class WrittenKernel:
    """A function of the file that Triton compiles, with the names of its decorators, outermost first."""

    name: str
    """Its qualified name: `make.<locals>.kernel` where the function `make` makes it."""
    node: ast.FunctionDef
    decorators: tuple[str, ...]
    maker: ast.FunctionDef | None = None

    @property
    def is_helper(self) -> bool:
        """It returns something, so kernels call it and no launch does."""
        return any(node.value is not None for node in _own_nodes(self.node) if isinstance(node, ast.Return))

    @property
    def is_autotuned(self) -> bool:
        return any(name in TUNERS for name in self.decorators)

    def parameters(self) -> tuple[Parameter, ...]:
        given = self.node.args
        arguments = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(arguments) - len(given.defaults)) + list(given.defaults)
        pairs = [*zip(arguments, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        return tuple(_parameter(argument, default) for argument, default in pairs)


def kernels_in(file: Path) -> dict[str, WrittenKernel]:
    """By qualified name, in the order of the file, helpers included."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file.name} is not valid Python: {error}") from error
    homes = _imported_homes(tree)
    return {kernel.name: kernel for kernel in _kernels(tree.body, "", None, homes)}


def _imported_homes(tree: ast.Module) -> Mapping[str, str]:
    """By the name in the file: what it was imported as."""
    homes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            homes |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            homes |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names}
    return homes


def _kernels(
    body: list[ast.stmt], prefix: str, maker: ast.FunctionDef | None, homes: Mapping[str, str]
) -> Iterator[WrittenKernel]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            decorators = tuple(_dotted(decorator) for decorator in node.decorator_list)
            if any(_is_jit(name, homes) for name in decorators):
                last_names = tuple(name.rpartition(".")[2] for name in decorators)
                yield WrittenKernel(prefix + node.name, node, last_names, maker)
            else:
                yield from _kernels(node.body, f"{prefix}{node.name}.{LOCALS}.", node, homes)
        elif isinstance(node, ast.ClassDef):
            yield from _kernels(node.body, f"{prefix}{node.name}.", maker, homes)
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _kernels(getattr(node, part, []), prefix, maker, homes)
            for handler in getattr(node, "handlers", []):
                yield from _kernels(handler.body, prefix, maker, homes)


def _is_jit(decorator: str, homes: Mapping[str, str]) -> bool:
    home, _, name = decorator.rpartition(".")
    if not home:
        known = homes.get(name, "")
        return known.rpartition(".")[2] == "jit" and known.partition(".")[0] in HOMES
    return name == "jit" and (homes.get(home, home).rpartition(".")[2] in HOMES or home in HOMES)


def _dotted(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(called) if isinstance(called, (ast.Attribute, ast.Name)) else ""


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    # The annotation's text decides for Triton too.
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    is_constexpr = "constexpr" in annotation
    if default is None:
        return Parameter(argument.arg, is_constexpr, annotation=annotation)
    value = parse_value(ast.unparse(default))
    plain = isinstance(default, ast.Constant) or isinstance(value, (int, float, Dtype))
    return Parameter(argument.arg, is_constexpr, plain, value if plain else None, annotation)
