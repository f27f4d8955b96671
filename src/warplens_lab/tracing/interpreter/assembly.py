"""Inline assembly of one instruction that NumPy can do; any other is refused by name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "tanh": np.tanh,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda values: 1 / np.sqrt(values),
    "rcp": np.reciprocal,
    "abs": np.abs,
    "neg": np.negative,
}
"""PTX instructions of one operand, by their first word."""
BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.fmin,
    "max": np.fmax,
}
_INSTRUCTION: Final = re.compile(r"\s*(?:\{\s*)?(\w+)((?:\.\w+)*)\s+\$0\s*,\s*([^;\s][^;]*);\s*(?:\}\s*)?")
_SCALAR: Final = re.compile(r"\.(f32|f64)$")


def inline_assembly(interpreter: Any) -> Callable[..., Any]:
    """The builder's inline assembly, which the interpreter has none of."""

    def create(text: str, constraints: str, values: list[Any], types: Any, is_pure: bool, pack: int) -> Any:
        result_type = (types if isinstance(types, list | tuple) else [types])[0].scalar
        result = _computed(text, [value.data for value in values], interpreter)
        if result is None:
            name = " ".join(text.split())
            raise NotImplementedError(f"inline assembly is not run by Triton's interpreter: {name[:80]}")
        handle = interpreter.TensorHandle(result.astype(interpreter._get_np_dtype(result_type)), result_type)
        return _Results(handle)

    return create


class _Results:
    """What the compiler's builder gives: an operation with results."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def get_result(self, index: int) -> Any:
        return self.handle


def _computed(text: str, values: list[Any], interpreter: Any) -> Any:
    if "%globaltimer" in text or "%clock64" in text or "s_memrealtime" in text:
        return np.array([time.perf_counter_ns()], np.int64)
    if "%smid" in text:
        return np.array([interpreter.interpreter_builder.grid_idx[0]], np.int32)
    match = _INSTRUCTION.fullmatch(text)
    if match is None or not _SCALAR.search(match[2]):
        return None
    word, operands = match[1], [part.strip() for part in match[3].split(",")]
    if operands != [f"${at}" for at in range(1, len(values) + 1)]:
        return None
    function: Any = (UNARY if len(values) == 1 else BINARY if len(values) == 2 else {}).get(word)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return function(*values)
