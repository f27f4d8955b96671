"""The learner's file, imported: its kernel, or one line that says why there is none."""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Any

from warplens_lab.puzzles.limits import TimeLimit
from warplens_lab.puzzles.records import Puzzle
from warplens_run.base.errors import WarplensError


class BadAnswer(WarplensError):  # noqa: N818 - an answer, not an error of ours
    """A file without a kernel to launch."""


def kernel_of(file: Path, puzzle: Puzzle, limit: TimeLimit | None = None) -> Any:
    """Imports the file, which runs it, and gives its kernel."""
    module = _imported(file, limit or TimeLimit(None, str(file)))
    kernel = getattr(module, puzzle.name, None)
    if kernel is None:
        raise BadAnswer(f"{file.name} has no kernel {puzzle.name}")
    if not hasattr(kernel, "arg_names") or not hasattr(kernel, "fn"):
        raise BadAnswer(f"{puzzle.name} in {file.name} is not a Triton kernel: @triton.jit is missing")
    return kernel


def check_parameters(kernel: Any, puzzle: Puzzle, arguments: Mapping[str, Any]) -> None:
    """The kernel must take what the launch gives: the same names in the same order, constexprs in capitals."""
    own_names, expected_names = list(kernel.arg_names), list(arguments)
    if own_names != expected_names:
        listed = ", ".join(expected_names)
        raise BadAnswer(f"{puzzle.name} must take ({listed}); the file's takes ({', '.join(own_names)})")
    annotations = getattr(_innermost(kernel), "__annotations__", {})
    plain = [name for name in expected_names if name.isupper() and "constexpr" not in str(annotations.get(name))]
    if plain:
        raise BadAnswer(f"{plain[0]} of {puzzle.name} must be known when it is compiled: {plain[0]}: tl.constexpr")


def _innermost(kernel: Any) -> Any:
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _imported(file: Path, limit: TimeLimit) -> Any:
    if not os.access(file, os.R_OK):
        raise BadAnswer(f"cannot read {file.name}")
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location(f"warplens_puzzle_{abs(hash(str(file)))}", file)
    if spec is None or spec.loader is None:
        raise BadAnswer(f"{file.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    path = sys.path[:]
    sys.path.insert(0, str(file.parent))
    try:
        with limit.running():
            spec.loader.exec_module(module)
    except SyntaxError as error:
        text = f": {error.text.strip()}" if error.text else ""
        raise BadAnswer(f"{Path(error.filename or file).name}, line {error.lineno}: {error.msg}{text}") from None
    except SystemExit:
        raise BadAnswer(f"{file.name} ends the process when it is imported") from None
    except Exception as error:
        raise BadAnswer(f"{file.name}{_line(error, file)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path[:] = path
    return module


def _line(error: BaseException, file: Path) -> str:
    own = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f", line {own[-1]}" if own else ""
