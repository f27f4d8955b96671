"""Reductions and scans: the interpreter does them in classes of its own, not in its builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from warplens_lab.tracing.interpreter.floats import FloatWork
from warplens_lab.tracing.watching.recorder import Recorder

Method = Callable[..., Any]
COMBINES: Final = {
    "sum_combine": "sum",
    "prod_combine": "prod",
    "xor_combine": "xor",
    "or_combine": "or",
    "elementwise_max": "max",
    "elementwise_min": "min",
    "argmax_combine_tie_break_left": "argmax",
    "argmax_combine_tie_break_fast": "argmax",
    "argmin_combine_tie_break_left": "argmin",
    "argmin_combine_tie_break_fast": "argmin",
}


class Combining:
    """Wrappers of the classes' `apply_impl`."""

    def __init__(self, interpreter: Any, recorder: Recorder, floats: FloatWork) -> None:
        self.interpreter = interpreter
        self.recorder = recorder
        self.floats = floats
        self.followers: list[Any] = []
        """Shadows of values (poison, fp64): after each reduction their `combined` is called."""
        self._originals: list[tuple[Any, Method]] = []

    def install(self) -> None:
        for name in ("ReduceOps", "ScanOps"):
            kind = getattr(self.interpreter, name, None)
            if kind is not None and hasattr(kind, "apply_impl"):
                self._originals.append((kind, kind.apply_impl))
                kind.apply_impl = self._combine(kind.apply_impl, scan=name == "ScanOps")

    def remove(self) -> None:
        for kind, original in self._originals:
            kind.apply_impl = original
        self._originals.clear()

    def _combine(self, original: Method, *, scan: bool) -> Method:
        def apply_impl(operation: Any, tensors: Any) -> Any:
            if not self.recorder.active:
                return self._combined(original, operation, tensors)
            before = self.recorder.elementwise_flop
            self.recorder.is_combining = True
            try:
                result = self._combined(original, operation, tensors)
            finally:
                self.recorder.is_combining = False
            inside = self.recorder.elementwise_flop - before
            for follower in self.followers:
                follower.combined(operation, tensors, result, original, scan=scan)
            self.recorder.elementwise_flop = before
            self._count_combine(operation, tensors[0], inside, scan)
            first = result[0] if isinstance(result, list | tuple) else result
            self.recorder.keep_value(first.handle.dtype, first.handle.data)
            return result

        return apply_impl

    def _count_combine(self, operation: Any, tensor: Any, inside: int, scan: bool) -> None:
        shape = tensor.handle.data.shape
        length = shape[operation.axis] if operation.axis is not None else tensor.handle.data.size
        lines = tensor.handle.data.size // max(length, 1)
        combines = tensor.handle.data.size - lines
        floating = tensor.handle.dtype.scalar.is_floating()
        name = getattr(operation.combine_fn, "__name__", "combine").strip("_")
        op = ("scan_" if scan else "reduce_") + COMBINES.get(name, name)
        self.recorder.compute(op, tuple(shape), inside or (combines if floating else 0))

    def _combined(self, original: Method, operation: Any, tensors: Any) -> Any:
        """The interpreter's own reduction; bfloat16 goes through float32."""
        language = self.interpreter.tl
        if not any(tensor.dtype == language.bfloat16 for tensor in tensors):
            return original(operation, tensors)
        wide = tuple(self._wide_tensor(tensor) for tensor in tensors)
        result = original(operation, wide)
        several = isinstance(result, list | tuple)
        dtypes = [tensor.dtype for tensor in tensors]
        narrow = [self._narrow_tensor(value, dtypes[at]) for at, value in enumerate(result if several else [result])]
        return narrow if several else narrow[0]

    def _wide_tensor(self, tensor: Any) -> Any:
        if tensor.dtype != self.interpreter.tl.bfloat16:
            return tensor
        return self._typed(tensor, self.floats.widened(tensor.handle), self.interpreter.tl.float32)

    def _narrow_tensor(self, tensor: Any, dtype: Any) -> Any:
        language = self.interpreter.tl
        if dtype != language.bfloat16 or tensor.dtype != language.float32:
            return tensor
        return self._typed(tensor, self.floats.narrowed(tensor.handle), language.bfloat16)

    def _typed(self, tensor: Any, handle: Any, dtype: Any) -> Any:
        language = self.interpreter.tl
        block = tensor.type.is_block()
        return language.tensor(handle, language.block_type(dtype, list(handle.data.shape)) if block else dtype)
