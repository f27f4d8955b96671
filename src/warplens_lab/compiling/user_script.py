"""A user's script, run on the CPU as `python script.py` runs it, and how it ended."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final

from warplens_lab.compiling.gpu_stand_in import gpu_hint, gpu_stand_in
from warplens_lab.compiling.records import ScriptFailure
from warplens_lab.compiling.stand_in_driver import GpuRequest
from warplens_lab.compiling.statements import statement_at
from warplens_lab.compiling.triton_version import failure_hint
from warplens_run.base.errors import WarplensError
from warplens_run.base.own_code import FOLDERS

INSTALLED: Final = ("site-packages", "dist-packages")
NOT_THE_USERS: Final = (str(Path(sysconfig.get_path("stdlib")).resolve()), *FOLDERS)
_PROGRAM: Final = re.compile(r"program \([\d, ]+\): ")
_NUMBERS: Final = re.compile(r"\[[-+\d.,\s\[\]einfaTrulsFN]{40,}")
SHORTEST_ARRAY: Final = 40
MOST_OF_STATEMENT: Final = 160
ON_CPU: Final = "; tensors are on the CPU here"


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended."""

    gpu_request: GpuRequest
    error: BaseException | None = None
    """What ended it early; `sys.exit()` at its end is none."""
    failure: ScriptFailure | None = None
    """The error in words."""


def run_script(
    script: Path,
    arguments: Sequence[str],
    launches: AbstractContextManager[object],
    *,
    target: str,
    asserts: bool = True,
) -> ScriptRun:
    """Runs it as `__main__`; `launches`, entered meanwhile, is what is done with its launches.

    It sees a GPU of the architecture `target`, unless there is one. Without `asserts` what is asserted is evaluated,
    for what it launches, and not required.
    """
    argv, path, main = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv, sys.path[:1] = [str(script), *arguments], [str(script.resolve().parent)]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(script)
    gpu_request = GpuRequest(script)
    try:
        with gpu_stand_in(script, target=target) as gpu_request, launches:
            tree = ast.parse(script.read_bytes(), str(script))
            if not asserts:
                tree = ast.fix_missing_locations(_WithoutAssertions().visit(tree))
            exec(compile(tree, str(script), "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is how it ended
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return ScriptRun(gpu_request)
        return ScriptRun(gpu_request, error, _failure(error, script, gpu_request))
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
    return ScriptRun(gpu_request)


class _WithoutAssertions(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Expr(node.test), node)


def as_error(failure: ScriptFailure, *, wants_gpu: bool, gpu_line: int | None) -> WarplensError:
    """The failure of a script with a hint; `gpu_line` is where it asked for a GPU."""
    hint = gpu_hint(failure.message, failure.line, gpu_line, wants_gpu) if failure.may_want_gpu else None
    return WarplensError(failure.text, hint=failure_hint(failure.message) or hint)


def _failure(error: BaseException, script: Path, gpu_request: GpuRequest) -> ScriptFailure:
    """The exception with the innermost line of the user's files; in a kernel, the statement and the launch."""
    if isinstance(error, SystemExit):
        message = f"the script ended with {error.code!r}"
        return ScriptFailure(f"{script.name}: {message}", message, None, may_want_gpu=True)
    cause = _cause(error)
    launched = _users_lines(error, script)
    own = [line for file, line in launched if file == script.resolve()]
    place = _place_text(launched[-1]) if launched else script.name
    outer = f" (called at {script.name}:{own[-1]})" if own and launched[-1][0] != script.resolve() else ""
    reason = _reason(cause)
    if cause is not error:
        prefix = _PROGRAM.match(str(error))
        if prefix:  # the tracer's own words: the program, the reason, and the statement in a line of its own
            reason = prefix[0] + re.sub(r"\n  [^\n]*$", "", str(error)[prefix.end() :])
        inside = _users_lines(cause, script)
        statement = f"\n  {_place_text(inside[-1])}: {_statement(inside[-1])}" if inside else ""
        text = f"{place}{outer}: {_short(reason)}{statement}"
    else:
        if isinstance(error, AssertionError) and not str(error) and launched:
            statement = _statement(launched[-1])
            names_gpu = gpu_request.happened and ("cuda" in statement or "device" in statement)
            reason = f"{reason}{statement}{ON_CPU if names_gpu else ''}"
        text = f"{place}{outer}: {_short(reason)}"
    is_explained = isinstance(cause, WarplensError | NotImplementedError)
    return ScriptFailure(text, str(cause), own[-1] if own else None, not is_explained)


def _cause(error: BaseException) -> BaseException:
    """The interpreter wraps an exception of a kernel, once for each function that it came through."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _reason(cause: BaseException) -> str:
    return cause.message if isinstance(cause, WarplensError) else f"{type(cause).__name__}: {cause}"


def _users_lines(error: BaseException, script: Path) -> list[tuple[Path, int]]:
    """Lines of the user's files that the exception came through, the innermost last."""
    own = script.resolve()
    lines = [(Path(frame.f_code.co_filename).resolve(), line) for frame, line in walk_tb(error.__traceback__)]
    return [place for place in lines if place[0] == own or _is_users(place[0])]


def _is_users(file: Path) -> bool:
    installed = any(part in INSTALLED for part in file.parts) or any(map(file.is_relative_to, NOT_THE_USERS))
    return not installed and file.is_file()


def _place_text(place: tuple[Path, int]) -> str:
    return f"{place[0].name}:{place[1]}"


def _statement(place: tuple[Path, int]) -> str:
    text = " ".join(statement_at(str(place[0]), place[1]).split())
    return text if len(text) <= MOST_OF_STATEMENT else text[: MOST_OF_STATEMENT - 1] + "…"


def _elided(numbers: re.Match[str]) -> str:
    """All up to the last bracket that closes: a pattern that looked for it would do so from every one that opens."""
    end = numbers[0].rfind("]")
    return "[…]" + numbers[0][end + 1 :] if end > SHORTEST_ARRAY else numbers[0]


def _short(text: str) -> str:
    """Without the numbers of arrays.

    >>> _short("cannot convert array([-1.2786368 ,  3.0196745 ,  0.507987  , -2.465718  , -0.9952828]) to tensor")
    'cannot convert array([…]) to tensor'
    """
    return _NUMBERS.sub(_elided, text)
