"""Puts right what Triton's interpreter, or some versions of it, cannot do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import numpy as np

from warplens_lab.compiling.changing import Change
from warplens_lab.tracing.interpreter.assembly import inline_assembly
from warplens_lab.tracing.interpreter.eight_bits import FORMATS, values_of
from warplens_lab.tracing.interpreter.libdevice import library_call
from warplens_run.base.errors import WarplensError

OPERATIONS: Final = {"create_dot_scaled": ("dot_scaled", "3.8")}
"""By the builder's method that does it: the operation of the language, and the first version that runs it."""
WITHOUT_EFFECT: Final = ("create_grid_dependency_wait", "create_grid_dependency_launch_dependents")
"""Order between launches, which here run one after another."""
GLUON: Final = "Gluon kernels do not run in Triton's interpreter; `kernel check` compiles {}::{}"
BINARY: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
CONSTANT_OPERATIONS: Final = (
    *(f"__{name}__" for name in (*BINARY, *(f"r{operator}" for operator in BINARY))),
    *(f"__{name}__" for name in ("gt", "ge", "lt", "le", "eq", "ne", "and", "or", "xor", "lshift", "rshift")),
)


def repairs(interpreter: Any, version: str) -> list[Change]:
    """What to change in the interpreter's module, its builder and the language while kernels run."""
    builder, language = interpreter.interpreter_builder, interpreter.tl
    changes: list[Change] = [
        (interpreter, "_patch_lang", _with_whole_numbers(interpreter._patch_lang, language)),
        (interpreter, "_implicit_cvt", _with_scalars(interpreter._implicit_cvt, interpreter)),
    ]
    changes += [
        (language.constexpr, name, _giving_tensors(getattr(language.constexpr, name), language))
        for name in CONSTANT_OPERATIONS
        if name in vars(language.constexpr)
    ]
    changes.append((builder, "create_extern_elementwise", library_call(interpreter)))
    changes.append((builder, "create_inline_asm", inline_assembly(interpreter)))
    changes += [(builder, name, _nothing) for name in WITHOUT_EFFECT if not hasattr(builder, name)]
    scales = getattr(interpreter, "_dot_scaled_scale_to_f32", None)
    if scales is not None:
        changes.append((interpreter, "_dot_scaled_scale_to_f32", _with_scales_of_eight_bits(scales)))
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


def _with_scalars(implicit_cvt: Callable[[Any], Any], interpreter: Any) -> Callable[[Any], Any]:
    """Arguments that are numbers become scalars of the types that they have on a GPU.

    The interpreter leaves a float as Python's own, which has no `to` and no `dtype`. Up to Triton 3.7 an argument that
    is True or False is taken for a number of 32 bits, and refused.
    """

    def convert(argument: Any) -> Any:
        language = interpreter.tl
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], np.float32), language.float32)
            return language.tensor(handle, language.float32)
        if not isinstance(argument, bool):
            return implicit_cvt(argument)
        number = implicit_cvt(int(argument)).handle.data
        return language.tensor(interpreter.TensorHandle(number.astype(bool), language.int1), language.int1)

    return convert


def _with_scales_of_eight_bits(scales: Callable[..., Any]) -> Callable[..., Any]:
    """Scales of nvfp4 are numbers of eight bits; the interpreter takes all scales for powers of two."""

    def decoded_scales(handle: Any, *args: Any, **kwargs: Any) -> Any:
        name = handle.dtype.scalar.name
        if name in FORMATS:
            return values_of(handle.data, name).astype(np.float32)
        return scales(handle, *args, **kwargs)

    return decoded_scales


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _bfloat_maker(builder: Any, bfloat16: Any) -> Callable[[float], Any]:
    """Up to Triton 3.8 there is none for the number in `x * 2`, where x is bfloat16."""
    return lambda value: builder.cast_impl(builder.get_fp32(value), bfloat16)


def _refusing(text: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(text)

    return refuse


def _giving_tensors(operation: Callable[..., Any], language: Any) -> Callable[..., Any]:
    """A constant on the left of a tensor gives a constant that holds a tensor, which few functions take."""

    @wraps(operation)
    def unwrapped(self: Any, other: Any) -> Any:
        result = operation(self, other)
        value = getattr(result, "value", None)
        return value if isinstance(value, language.tensor) else result

    return unwrapped


def without_gluon(run: Callable[..., Any]) -> Callable[..., Any]:
    """A JIT function's `run` that refuses Gluon's kernels, for which there is no interpreter."""

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_gluon():
            raise WarplensError(GLUON.format(Path(self.fn.__code__.co_filename).name, self.fn.__name__))
        return run(self, *args, **kwargs)

    return checked
