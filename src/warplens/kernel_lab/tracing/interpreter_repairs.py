"""Puts right what some versions of Triton's interpreter cannot do, by probing for it. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Change = tuple[Any, str, Any]
"""An owner, the name of one of its attributes, and what to put there."""
OPERATIONS: Final = {"create_dot_scaled": ("dot_scaled", "3.8")}
"""By the builder's method that does it: the operation of the language, and the first version that runs it."""


def repairs(interpreter: Any, version: str) -> list[Change]:
    """What to change in the interpreter's module, its builder and the language while kernels run."""
    builder, language = interpreter.interpreter_builder, interpreter.tl
    changes: list[Change] = [
        (interpreter, "_patch_lang", _with_whole_numbers(interpreter._patch_lang, language)),
        (interpreter, "_implicit_cvt", _with_truth_values(interpreter._implicit_cvt, interpreter)),
    ]
    if not hasattr(builder, "get_bf16"):
        changes.append((builder, "get_bf16", _bfloat_maker(builder, language.bfloat16)))
    for method, (operation, since) in OPERATIONS.items():
        if not hasattr(builder, method):
            text = f"Triton {version}'s interpreter does not run tl.{operation}; {since} and newer do"
            changes.append((language, operation, _refusing(text)))
    return changes


def _with_whole_numbers(patch_lang: Callable[[Any], Any], language: Any) -> Callable[[Any], Any]:
    """The interpreter's change of the language, after which a loop may run up to a number that the kernel is given.

    The interpreter keeps a scalar as an array of one element. Triton 3.6 takes that for a whole number as it is, which
    NumPy refuses from 2.4 on.
    """

    def patch(function: Any) -> Any:
        scope = patch_lang(function)
        if hasattr(scope, "set_attr"):
            scope.set_attr(language.tensor, "__index__", lambda tensor: int(tensor.handle.data.squeeze()))
        return scope

    return patch


def _with_truth_values(implicit_cvt: Callable[[Any], Any], interpreter: Any) -> Callable[[Any], Any]:
    """Up to Triton 3.7 an argument that is True or False is taken for a number of 32 bits, and refused."""

    def convert(argument: Any) -> Any:
        if not isinstance(argument, bool):
            return implicit_cvt(argument)
        language = interpreter.tl
        number = implicit_cvt(int(argument)).handle.data
        return language.tensor(interpreter.TensorHandle(number.astype(bool), language.int1), language.int1)

    return convert


def _bfloat_maker(builder: Any, bfloat16: Any) -> Callable[[float], Any]:
    """Up to Triton 3.8 there is none for the number in `x * 2`, where x is bfloat16."""
    return lambda value: builder.cast_impl(builder.get_fp32(value), bfloat16)


def _refusing(text: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(text)

    return refuse
