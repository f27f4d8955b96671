"""Constexprs that are neither numbers nor words, written so that the kernel's file can evaluate them, and evaluated.

Only names, attributes and literals are followed, and only layouts are called: a signature may come from a file. Runs
where the user's file is imported.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from warplens_lab.compiling.plain_values import is_plain, plain_value
from warplens_lab.compiling.values import Expression, value_text

LAYOUTS: Final = "triton.experimental.gluon"
"""The package whose classes may be called."""
LOCALS: Final = "<locals>"
MODULES: Final = ("torch", "triton", "triton.language", "triton.experimental.gluon.language")
LAYOUT_MODULES: Final = (
    "triton.experimental.gluon.language",
    "triton.experimental.gluon.language._layouts",
    "triton.experimental.gluon.language.nvidia.hopper",
    "triton.experimental.gluon.language.nvidia.blackwell",
    "triton.experimental.gluon.language.amd",
    "triton.experimental.gluon.language.amd._layouts",
)


def expression_of(value: Any, function: Any) -> Expression | None:
    """How the file of `function`, the kernel's own Python function, can evaluate to the value; None if it cannot."""
    source = _source(getattr(value, "value", value) if type(value).__name__ == "constexpr" else value, function)
    return Expression(source) if source else None


def _source(value: Any, function: Any) -> str | None:
    if is_plain(value):
        return value_text(plain_value(value))
    if isinstance(value, (tuple, list)):
        parts = [_source(part, function) for part in value]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return f"[{', '.join(known)}]" if isinstance(value, list) else f"({''.join(f'{part}, ' for part in known)})"
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    inner = getattr(value, "fn", None)
    if inspect.isfunction(inner):
        return _function_source(value, inner, function)
    return _layout_source(value) or _global_source(value, function)


def _global_source(value: Any, function: Any) -> str | None:
    """A class, or another object that the kernel's file has a name for."""
    names = (name for name, other in function.__globals__.items() if other is value and name.isidentifier())
    name = next(names, None)
    if name is not None or not inspect.isclass(value) or LOCALS in value.__qualname__:
        return name
    module = sys.modules.get(value.__module__)
    file = getattr(module, "__file__", None)
    return f"{Path(file).resolve()}::{value.__qualname__}" if file else None


def _function_source(value: Any, inner: Any, function: Any) -> str | None:
    if function.__globals__.get(inner.__name__) is value:
        return str(inner.__name__)
    if LOCALS in inner.__qualname__:
        return None
    return f"{Path(inner.__code__.co_filename).resolve()}::{inner.__qualname__}"


def _layout_source(value: Any) -> str | None:
    if not type(value).__module__.startswith(LAYOUTS):
        return None
    try:
        return repr(value) if _Evaluator({}).of(repr(value)) == value else None
    except (ValueError, TypeError, SyntaxError):
        return None


def evaluated(expression: Expression, function: Any, imported: Callable[[Path, str], Any]) -> Any:
    """The value, with the names of the kernel's file; `imported` finds what another file calls by a name."""
    file, separator, name = expression.source.rpartition("::")
    if separator:
        return imported(Path(file), name)
    nonlocals = inspect.getclosurevars(function).nonlocals
    return _Evaluator({**function.__globals__, **nonlocals}).of(expression.source)


class _Evaluator:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def of(self, source: str) -> Any:
        return self._value(ast.parse(source, mode="eval").body)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            values = [self._value(part) for part in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand)
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._value(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node)
        raise ValueError(f"{ast.unparse(node)} is not a value of a constexpr")

    def _named(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        for module in MODULES:
            if name in (module.rpartition(".")[2], {"triton.language": "tl"}.get(module, "")):
                return _imported(module)
        if name in ("gl", "ttgl"):
            return _imported(LAYOUT_MODULES[0])
        for module in LAYOUT_MODULES:
            if hasattr(_imported(module), name):
                return getattr(_imported(module), name)
        raise ValueError(f"no {name} in the kernel's file")

    def _called(self, node: ast.Call) -> Any:
        called = self._value(node.func)
        if not (inspect.isclass(called) and called.__module__.startswith(LAYOUTS)):
            raise ValueError(f"{ast.unparse(node.func)} is not a layout: only layouts are called in a signature")
        arguments = [self._value(argument) for argument in node.args]
        return called(*arguments, **{str(keyword.arg): self._value(keyword.value) for keyword in node.keywords})


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        return None
