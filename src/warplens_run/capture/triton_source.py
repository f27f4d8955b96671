"""A Triton kernel as a module of its own: with the functions and constants that it reads, and without its package.

Triton reads a function's source, so its text is there. What its names stand for is looked up in the running program:
other Triton functions are written out as well, constants by value, and what belongs to Triton, PyTorch or Python is
imported. Anything else cannot be written down, and `NotWritable` has the reason.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

LIBRARIES: Final = ("triton", "torch", "numpy")
"""Packages that a replay has, besides those of Python."""
JIT_OPTIONS: Final = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug")
PLAIN: Final = (int, float, bool, str, type(None))
HEADER: Final = ("import triton", "import triton.language")


class NotWritable(Exception):  # noqa: N818 - no error of the program: a kernel whose source does not stand alone
    pass


def module_text(*functions: Any) -> str:
    """The source of a module that defines these Triton functions, each under its own name."""
    writer = _ModuleWriter()
    for function in functions:
        writer.add_function(function)
    imports = dict.fromkeys((*HEADER, *writer.imports))
    return "\n".join([*imports, "", *writer.body])


class _ModuleWriter:
    def __init__(self) -> None:
        self.imports: list[str] = []
        self.body: list[str] = []
        self._names: dict[str, Any] = {}
        """What each name of the module stands for."""

    def add_function(self, function: Any) -> None:
        if not self._is_new(function.__name__, function):
            return
        scope = _scope(function)
        for name, paths in _reads(function.src).items():
            if name in scope:
                self._bind(name, scope[name], paths)
            elif not hasattr(builtins, name):
                raise NotWritable(f"{function.__name__} reads {name}, which is not defined")
        self.body += [f"\n{self._decorator(function)}", function.src.rstrip(), ""]

    def _is_new(self, name: str, value: Any) -> bool:
        """False where the name has this meaning already; no module has one name for two things."""
        if name not in self._names:
            self._names[name] = value
            return True
        if self._names[name] is value or (isinstance(value, PLAIN) and repr(self._names[name]) == repr(value)):
            return False
        raise NotWritable(f"two functions or values that it reads are called {name}")

    def _bind(self, name: str, value: Any, paths: set[tuple[str, ...]]) -> None:
        """Define or import what a name stands for; `paths` are the attributes that are read of it."""
        if _is_triton_function(value) and not _is_library(value.fn.__module__):
            self.add_function(value)
            if value.__name__ != name and self._is_new(name, value):
                self.body.append(f"{name} = {value.__name__}")
        elif isinstance(value, ModuleType) and not _is_library(value.__name__):
            self._add_namespace(name, value, paths)
        elif self._is_new(name, value):
            self._define(name, value)

    def _define(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            self.imports.append(f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else ""))
            return
        text = _value_text(value)
        if text is not None:
            # Kernels may read constants of this type only, unless a variable of the environment allows others.
            is_plain = isinstance(value, (*PLAIN, tuple))
            self.body.append(f"{name} = " + (f"triton.language.constexpr({text})" if is_plain else text))
            return
        home = getattr(value, "__module__", None) or ""
        own = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
        if not own.isidentifier() or not _is_library(home):
            raise NotWritable(f"it reads {name}, a {type(value).__name__} that cannot be written as source")
        self.imports.append(f"from {home} import {own}" + (f" as {name}" if own != name else ""))

    def _add_namespace(self, name: str, module: ModuleType, paths: set[tuple[str, ...]]) -> None:
        """A module of the program with what is read of it and nothing else; Triton takes attributes of modules only."""
        if self._is_new(name, module):
            self.imports.append("import types")
            self.body.append(f'{name} = types.ModuleType("{name}")')
        for path in sorted(paths):
            if not path:
                raise NotWritable(f"it passes on the module {name}")
            value = getattr(module, path[0], None)
            if len(path) > 1 and isinstance(value, ModuleType) and not _is_library(value.__name__):
                raise NotWritable(f"it reads {'.'.join((name, *path))}, in a module of a module")
            alias = f"{name}_{path[0]}"
            self._bind(alias, value, {path[1:]})
            self.body.append(f"{name}.{path[0]} = {alias}")

    def _decorator(self, function: Any) -> str:
        kind = type(function).__name__
        if kind == "ConstexprFunction":
            return "@triton.constexpr_function"
        if kind == "GluonJITFunction":
            self.imports.append("from triton.experimental import gluon")
        set_options = {name: getattr(function, name, None) for name in JIT_OPTIONS}
        words = ", ".join(f"{name}={value!r}" for name, value in set_options.items() if value)
        return ("@gluon.jit" if kind == "GluonJITFunction" else "@triton.jit") + (f"({words})" if words else "")


def _is_triton_function(value: Any) -> bool:
    return callable(value) and isinstance(getattr(value, "src", None), str) and hasattr(value, "fn")


def _is_library(module: str) -> bool:
    package = module.partition(".")[0]
    return package in LIBRARIES or package in sys.stdlib_module_names


def _scope(function: Any) -> dict[str, Any]:
    """What the function's names stand for outside it."""
    return {**function.fn.__globals__, **inspect.getclosurevars(function.fn).nonlocals}


def _reads(source: str) -> dict[str, set[tuple[str, ...]]]:
    """The names that a function reads and does not define, with the attributes that it reads of each.

    >>> read = _reads("def f(x, n: tl.constexpr = SIZE):\\n    y = tl.load(x)\\n    return ops.gelu(y)")
    >>> read == {"tl": {("constexpr",), ("load",)}, "SIZE": {()}, "ops": {("gelu",)}}
    True
    """
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    nodes = list(ast.walk(definition))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    # A parameter's default is read where the function is defined, whatever it calls its own.
    outside = {node.id for part in _defaults(definition) for node in ast.walk(part) if isinstance(node, ast.Name)}
    reads: dict[str, set[tuple[str, ...]]] = {}
    for name, path in _paths(definition):
        if name not in own or name in outside:
            reads.setdefault(name, set()).add(path)
    return reads


def _defaults(definition: ast.FunctionDef) -> list[ast.expr]:
    given = definition.args
    return [part for part in (*given.defaults, *given.kw_defaults) if part is not None]


def _paths(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name with the attributes read of it, `a.b.c` once as a whole."""
    attributes: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        attributes.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield inner.id, tuple(reversed(attributes))
    else:
        for child in ast.iter_child_nodes(inner):
            yield from _paths(child)


def _value_text(value: Any) -> str | None:
    """A constant as source; None where it is something else."""
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        inner = _value_text(value.value)
        return None if inner is None else f"triton.language.constexpr({inner})"
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton."):
        return f'triton.language.dtype("{value.name}")'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in PLAIN:
        return repr(value)
    if type(value) is tuple:
        parts = [_value_text(part) for part in value]
        known = [part for part in parts if part is not None]
        return "(" + "".join(f"{part}, " for part in known) + ")" if len(known) == len(parts) else None
    return None
