"""The language's own functions, callable in a kernel by any name.

The interpreter replaces the members of `triton.language` that a kernel's file sees. A function that the file keeps
under a name of its own (`exp = tl.exp`), imports from a module of the language, or reaches through `tl.extra.cuda` is
left as it is, and asks for the compiler. Here each of them takes the interpreter where it is given nothing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final

LANGUAGE: Final = "triton.language"
BY_THE_INTERPRETER: Final = ("reduce", "associative_scan", "static_assert", "static_print")
"""What the interpreter does by functions of its own, under the same names."""


@contextmanager
def language_runs() -> Iterator[None]:
    """The functions' code is changed, not the modules' names, so that those which a file has imported run too."""
    functions = _functions()
    originals = [function.__code__ for function in functions]
    for function in functions:
        function.__code__ = _RUNS
    try:
        yield
    finally:
        for function, code in zip(functions, originals, strict=True):
            function.__code__ = code


def run_builtin(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """With the compiler's semantics where a compiler calls, with the interpreter's where a kernel does."""
    if kwargs.get("_semantic") is None:
        from triton.runtime import interpreter

        name = function.__name__
        if name in BY_THE_INTERPRETER:
            return getattr(interpreter.tl, name)(*args, **kwargs)
        kwargs = {**kwargs, "_semantic": interpreter.interpreter_semantic}
    return function(*args, **kwargs)


@cache
def _functions() -> tuple[FunctionType, ...]:
    """What Triton's decorator has made of the language's functions; each holds the one inside as `fn`."""
    found: dict[int, FunctionType] = {}
    for module in _modules():
        for value in list(vars(module).values()):
            members = [value, *vars(value).values()] if isinstance(value, type) else [value]
            for member in members:
                if _is_builtin(member):
                    found[id(member)] = member
    return tuple(found.values())


def _is_builtin(value: Any) -> bool:
    is_marked = isinstance(value, FunctionType) and getattr(value, "__triton_builtin__", False)
    return bool(is_marked) and value.__code__.co_freevars == _RUNS.co_freevars


def _modules() -> Iterator[Any]:
    language = import_module(LANGUAGE)
    yield language
    for found in pkgutil.walk_packages(language.__path__, f"{LANGUAGE}."):
        if "libdevice" in found.name:
            continue  # those compute by NumPy
        with suppress(ImportError):
            yield import_module(found.name)


def _holding(fn: Any) -> Any:
    def runs(*args: Any, **kwargs: Any) -> Any:
        from warplens_lab.tracing.interpreter.language import run_builtin

        return run_builtin(fn, args, kwargs)

    return runs


_RUNS: Final[CodeType] = _holding(None).__code__
