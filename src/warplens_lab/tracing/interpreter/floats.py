"""Floating work of the interpreter: counted, and done right for bfloat16 and types of eight bits.

The interpreter keeps bfloat16 as 16-bit integers and computes with those bits, so that sums and products of bfloat16
values come out wrong, and it cuts float32 off instead of rounding it. While a trace is open such operations go through
float32 and are rounded to nearest even, as a GPU does it; so are conversions to and from eight bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from warplens_lab.tracing.interpreter.eight_bits import FORMATS, codes_of, values_of
from warplens_lab.tracing.watching.values import bfloat_of_float, float_of_bfloat

ARITHMETIC: Final[dict[str, tuple[str, int]]] = {
    # method of the builder: operation, FLOPs for each element of the result
    "create_fadd": ("add", 1),
    "create_fsub": ("sub", 1),
    "create_fmul": ("mul", 1),
    "create_fdiv": ("div", 1),
    "create_precise_divf": ("div", 1),
    "create_approx_divf": ("div", 1),
    "create_frem": ("rem", 1),
    "create_fneg": ("neg", 1),
    "create_fabs": ("abs", 1),
    "create_minimumf": ("minimum", 1),
    "create_minnumf": ("minimum", 1),
    "create_maximumf": ("maximum", 1),
    "create_maxnumf": ("maximum", 1),
    "create_clampf": ("clamp", 2),
    "create_fma": ("fma", 2),
    "create_exp": ("exp", 1),
    "create_exp2": ("exp2", 1),
    "create_log": ("log", 1),
    "create_log2": ("log2", 1),
    "create_sin": ("sin", 1),
    "create_cos": ("cos", 1),
    "create_sqrt": ("sqrt", 1),
    "create_precise_sqrt": ("sqrt", 1),
    "create_rsqrt": ("rsqrt", 1),
    "create_erf": ("erf", 1),
    "create_floor": ("floor", 1),
    "create_ceil": ("ceil", 1),
}
BF16: Final = "bf16"
COMPARISONS: Final = tuple(
    f"create_fcmp{order}{test}" for order in "OU" for test in ("LT", "GT", "LE", "GE", "EQ", "NE")
)
Made = Callable[[Any], None]
"""Called with the result of an operation."""


class FloatWork:
    """Wrappers for the interpreter's floating operations."""

    def __init__(self, interpreter: Any) -> None:
        self.handle_type = interpreter.TensorHandle
        language = interpreter.tl
        self.bfloat16 = language.bfloat16
        self.float32 = language.float32

    def widened(self, value: Any) -> Any:
        """A bfloat16 handle as float32; anything else as it is."""
        if isinstance(value, self.handle_type) and value.dtype.name == BF16:
            return self.handle_type(float_of_bfloat(value.data), self.float32)
        return value

    def narrowed(self, value: Any) -> Any:
        return self.handle_type(bfloat_of_float(value.data.astype(np.float32)), self.bfloat16)

    def computed(self, original: Callable[..., Any], made: Made) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if args[0].dtype.name == BF16:
                result = self.narrowed(original(*map(self.widened, args), **kwargs))
            else:
                result = original(*args, **kwargs)
            made(result)
            return result

        return operation

    def compared(self, original: Callable[..., Any], made: Made) -> Callable[..., Any]:
        def comparison(*args: Any, **kwargs: Any) -> Any:
            if args[0].dtype.name == BF16:
                args = tuple(map(self.widened, args))
            result = original(*args, **kwargs)
            made(result)
            return result

        return comparison

    def cast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Casts from and to bfloat16, rounded."""

        def cast_impl(source: Any, target: Any) -> Any:
            if source.dtype.scalar == self.bfloat16:
                source = self.widened(source)
                if target.scalar == self.float32:
                    return source
            if target.scalar == self.bfloat16:
                return self.narrowed(source)
            return original(source, target)

        return cast_impl

    def converted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Conversions from and to eight bits."""

        def create_fp_to_fp(source: Any, target: Any, rounding_mode: Any = None) -> Any:
            name, target_name = source.dtype.scalar.name, target.scalar.name
            if name not in FORMATS and target_name not in FORMATS:
                return original(source, target, rounding_mode)
            values = values_of(source.data, name) if name in FORMATS else self.widened(source).data
            if target_name in FORMATS:
                toward_zero = str(rounding_mode).endswith("RTZ")
                return self.handle_type(codes_of(values, target_name, toward_zero=toward_zero), target.scalar)
            if target.scalar == self.bfloat16:
                return self.handle_type(bfloat_of_float(values.astype(np.float32)), self.bfloat16)
            return self.handle_type(values.astype(f"float{target.scalar.primitive_bitwidth}"), target.scalar)

        return create_fp_to_fp
