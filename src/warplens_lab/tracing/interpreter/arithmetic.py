"""The interpreter's floating arithmetic corrected without a trace, as `kernel check` runs scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warplens_lab.tracing.interpreter.arguments import Arguments
from warplens_lab.tracing.interpreter.combining import Combining
from warplens_lab.tracing.interpreter.floats import ARITHMETIC, COMPARISONS, FloatWork
from warplens_lab.tracing.watching.recorder import Recorder, RecordingOptions

Method = Callable[..., Any]


def put_right(interpreter: Any) -> None:
    """For the rest of the process, so in one of its own only."""
    floats, builder = FloatWork(interpreter), interpreter.interpreter_builder
    makers: dict[str, Callable[[Method], Method]] = {
        "cast_impl": floats.cast,
        "create_fp_to_fp": floats.converted,
        "create_dot": lambda original: _widened(floats, original, "a", "b"),
        **dict.fromkeys(ARITHMETIC, lambda original: floats.computed(original, _not_counted)),
        **dict.fromkeys(COMPARISONS, lambda original: floats.compared(original, _not_counted)),
    }
    for name, make in makers.items():
        if hasattr(builder, name):
            setattr(builder, name, make(getattr(builder, name)))
    # The recorder stays inactive: no program is ever begun in it.
    Combining(interpreter, Recorder(RecordingOptions(), put_right.__code__), floats).install()


def _widened(floats: FloatWork, original: Method, *names: str) -> Method:
    arguments = Arguments(original)

    def operation(*args: Any, **kwargs: Any) -> Any:
        for name in names:
            wide = floats.widened(arguments.get(args, kwargs, name))
            args, kwargs = arguments.replaced(args, kwargs, name, wide)
        return original(*args, **kwargs)

    return operation


def _not_counted(result: Any) -> None:
    return None
