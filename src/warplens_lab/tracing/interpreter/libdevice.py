"""Functions of the GPU makers' libraries, which Triton's interpreter does not run, computed by NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np

LIBDEVICES: Final = tuple(f"triton.language.extra.{kind}libdevice" for kind in ("", "cuda.", "hip."))
ALL_LIBDEVICE: Final = LIBDEVICES[1]
"""The one that says for every function which types it takes and gives."""


def _from_torch(name: str) -> Callable[..., Any]:
    """One of PyTorch's special functions, on arrays."""

    def function(values: Any) -> Any:
        import torch

        return getattr(torch.special, name)(torch.from_numpy(np.ascontiguousarray(values))).numpy()

    return function


def _norm(*values: Any) -> Any:
    return np.sqrt(sum(value * value for value in values))


def _round(values: Any) -> Any:
    """Halves away from zero."""
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)


LIBDEVICE: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in (
        "floor", "ceil", "trunc", "exp2", "rint", "sqrt", "sin", "cos", "tan", "log2", "exp", "cosh", "sinh", "tanh",
        "log", "log10", "log1p", "expm1", "hypot", "cbrt", "fmod", "copysign", "signbit", "abs", "fabs")},
    **{name: getattr(np, full) for name, full in (
        ("atan2", "arctan2"), ("atan", "arctan"), ("asin", "arcsin"), ("acos", "arccos"), ("acosh", "arccosh"),
        ("asinh", "arcsinh"), ("atanh", "arctanh"), ("nearbyint", "rint"), ("pow", "power"), ("fast_pow", "power"),
        ("isnan", "isnan"), ("isnand", "isnan"), ("isinf", "isinf"), ("isinfd", "isinf"), ("finite", "isfinite"),
        ("isfinited", "isfinite"), ("signbitd", "signbit"), ("llabs", "abs"), ("fast_fdivide", "divide"),
        ("fast_sin", "sin"), ("fast_cos", "cos"), ("fast_tan", "tan"), ("fast_log2", "log2"), ("fast_log", "log"),
        ("fast_log10", "log10"), ("fast_exp", "exp"), ("ldexp", "ldexp"), ("scalbn", "ldexp"))},
    **{f"{width}{name}_rn": getattr(np, full) for width in "fd" for name, full in (
        ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide"), ("sqrt", "sqrt"),
        ("rcp", "reciprocal"))},
    **{name: _from_torch(full) for name, full in (
        ("erf", "erf"), ("erfc", "erfc"), ("erfcx", "erfcx"), ("erfinv", "erfinv"), ("lgamma", "gammaln"),
        ("normcdf", "ndtr"), ("normcdfinv", "ndtri"), ("j0", "bessel_j0"), ("j1", "bessel_j1"), ("y0", "bessel_y0"),
        ("y1", "bessel_y1"), ("cyl_bessel_i0", "i0"), ("cyl_bessel_i1", "i1"))},
    "rsqrt": lambda x: 1 / np.sqrt(x), "frsqrt_rn": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y), "norm3d": _norm, "norm4d": _norm,
    "rnorm3d": lambda *values: 1 / _norm(*values), "rnorm4d": lambda *values: 1 / _norm(*values),
    "exp10": lambda x: np.power(10.0, x), "fast_exp10": lambda x: np.power(10.0, x),
    "powi": lambda x, n: np.power(x, n.astype(float)), "saturate": lambda x: np.nan_to_num(np.clip(x, 0, 1)),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)), "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "round": _round, "fdim": lambda x, y: np.where(x <= y, 0.0, x - y),
}  # fmt: skip
"""By the symbol's name without `__nv_` and the f of float32: what computes it, in float64 where it takes floats."""
FUSED: Final = ("fma", "fmaf", "fma_rn", "fmaf_rn")


def library_call(interpreter: Any) -> Callable[..., Any]:
    """The builder's call of a library, which the interpreter has none of."""

    def call(library: str, path: str, symbol: str, arguments: list[Any], result_type: Any, is_pure: bool) -> Any:
        name = symbol.removeprefix("__nv_")
        if name in FUSED:
            return interpreter.interpreter_builder.create_fma(*arguments)
        function = LIBDEVICE.get(name) or LIBDEVICE.get(name.removesuffix("f"))
        if function is None:
            raise NotImplementedError(f"{symbol} is not run by Triton's interpreter")
        dtype = result_type.scalar
        values = [
            argument.data.astype(float) if argument.data.dtype.kind == "f" else argument.data for argument in arguments
        ]
        with np.errstate(all="ignore"):
            result = function(*values).astype(interpreter._get_np_dtype(dtype))
        return interpreter.TensorHandle(result, dtype)

    return call


def run_libdevice(name: str, arguments: tuple[Any, ...]) -> Any:
    """A function of libdevice on tensors of the interpreter, with the types that it takes on a GPU."""
    from triton.runtime import interpreter

    function = getattr(import_module(ALL_LIBDEVICE), name, None)
    try:
        if function is not None:
            return function.__wrapped__(*arguments, _semantic=interpreter.interpreter_semantic)
    except NotImplementedError:
        pass
    except KeyError as error:  # Triton looks the types up in the function's table
        raise TypeError(f"libdevice.{name} does not take {_types(error)}") from None
    raise NotImplementedError(f"libdevice.{name} is not run by Triton's interpreter")


def _types(error: KeyError) -> str:
    """The types that were looked up and not found: a tuple, or the language's own kind of one."""
    types = getattr(error.args[0], "values", error.args[0])
    return ", ".join(map(str, types)) if isinstance(types, tuple | list) else str(types)


@contextmanager
def libdevice_runs() -> Iterator[None]:
    """The functions of libdevice compute: outside the compiler they give None, or ask for one.

    Their code is changed, not the modules' names, so that those which a kernel's file has imported compute too.
    """
    functions = _functions()
    originals = [(function.__code__, function.__kwdefaults__) for function, _, _ in functions]
    for function, code, defaults in functions:
        function.__code__, function.__kwdefaults__ = code, defaults
    try:
        yield
    finally:
        for (function, _, _), before in zip(functions, originals, strict=True):
            function.__code__, function.__kwdefaults__ = before


@cache
def _functions() -> tuple[tuple[FunctionType, CodeType, dict[str, Any]], ...]:
    """The functions with the code and the defaults that make them compute."""
    functions = []
    for module in LIBDEVICES:
        with suppress(ImportError):
            for name, function in vars(import_module(module)).items():
                if isinstance(function, FunctionType) and len(function.__code__.co_freevars) < len(_STAND_INS):
                    code = _STAND_INS[len(function.__code__.co_freevars)]
                    functions.append((function, code, {"libdevice_name": name}))
    return tuple(functions)


def _without_closure(*args: Any, libdevice_name: str = "", **named: Any) -> Any:
    from warplens_lab.tracing.interpreter.libdevice import run_libdevice

    return run_libdevice(libdevice_name, args)


def _with_closure(fn: Any) -> FunctionType:
    """Triton's own decorator holds one variable, and the code that replaces it must hold as many."""

    def stand_in(*args: Any, libdevice_name: str = "", **named: Any) -> Any:
        if named.get("_semantic") is not None:  # a compiler calls
            return fn(*args, **named)
        from warplens_lab.tracing.interpreter.libdevice import run_libdevice

        return run_libdevice(libdevice_name or fn.__name__, args)

    return stand_in  # type: ignore[return-value]


_STAND_INS: Final = (_without_closure.__code__, _with_closure(None).__code__)
