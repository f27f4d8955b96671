"""One attempt at a task: found by name, run, and whatever it raises turned into a reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath
from traceback import extract_tb
from typing import Any, Final

from warplens.cluster.records import Outcome
from warplens_run.base.errors import FormatError, WarplensError

POLARS_PANIC: Final = "PanicException"
"""Polars raises it when its own code fails; it is not an `Exception`."""


def name_of(task: Callable[..., Any]) -> str:
    """`module:function`, by which another process finds it.

    >>> from warplens_run.base.units import plural
    >>> name_of(plural)
    'warplens_run.base.units:plural'
    """
    module, name = getattr(task, "__module__", "__main__"), getattr(task, "__qualname__", "")
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not task:
        raise TypeError(f"{task!r} cannot run in another process: it is not a function of an importable module")
    return f"{module}:{name}"


def attempt(task: Callable[[Any], Any], argument: Any) -> Outcome[Any]:
    """The value or the reason; only what ends a program (Ctrl-C, `sys.exit`) is raised."""
    try:
        return Outcome(task(argument))
    except WarplensError as error:
        is_final = isinstance(error, FormatError) and not isinstance(error.__context__, OSError)
        return Outcome(reason=error.message, hint=error.hint or "", is_final=is_final)
    except MemoryError:
        return Outcome(reason="not enough memory", hint="a trace needs about five times its unpacked size")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return Outcome(reason=f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - one rank's failure must not end the others'; it is noted with its place
        return Outcome(reason=described(error))
    except BaseException as error:
        if type(error).__name__ != POLARS_PANIC:
            raise
        return Outcome(reason=f"an internal error of Polars: {error}")


def attempt_by_name(name: str, argument: Any) -> Outcome[Any]:
    """What runs in another process."""
    return attempt(_run, (name, argument))


def _run(request: tuple[str, Any]) -> Any:
    name, argument = request
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)(argument)


def described(error: BaseException) -> str:
    """Type, message and the place that raised it, on one line."""
    frames = extract_tb(error.__traceback__)
    place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = " ".join(str(error).split())
    return f"an internal error: {type(error).__name__}{': ' if text else ''}{text}{place}"
