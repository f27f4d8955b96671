"""Poison is handed on by every operation: wrappers that are put in when a launch meets its first undefined value.

What an operation gives is undefined where one of its operands is, with three exceptions: a selection takes the marks of
what it takes, `and` with a defined 0 is defined, and so is `or` with a defined True. A product with 0 is not defined: 0
times NaN is NaN. An operation that is not listed here drops the marks, so that nothing is reported that is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from warplens_lab.tracing.interpreter.arguments import Arguments, Method
from warplens_lab.tracing.interpreter.floats import ARITHMETIC, COMPARISONS
from warplens_lab.tracing.watching.poison import Mark, Marks, Poison, joined, marks_of, put

INTEGER_TESTS: Final = tuple(f"create_icmp{test}" for test in ("EQ", "NE", *(f"{sign}{way}" for sign in "SU"
                             for way in ("LE", "LT", "GE", "GT"))))  # fmt: skip
ELEMENTWISE: Final = (
    *ARITHMETIC, *COMPARISONS, *INTEGER_TESTS, "cast_impl", "create_fp_to_fp", "create_bitcast", "create_int_to_ptr",
    "create_ptr_to_int", "create_add", "create_sub", "create_mul", "create_idiv", "create_sdiv", "create_udiv",
    "create_srem", "create_urem", "create_shl", "create_lshr", "create_ashr", "create_minsi", "create_minui",
    "create_maxsi", "create_maxui", "create_xor", "create_iabs", "create_umulhi", "create_addptr",
    "create_extern_elementwise", "create_inline_asm",
)  # fmt: skip
MOVING: Final = (
    "create_reshape", "create_trans", "create_expand_dims", "create_broadcast", "create_cat", "create_join",
    "create_split", "create_splat", "create_unsplat",
)  # fmt: skip
"""What they do with values, they do with marks."""
BRANCHES: Final = {"__bool__": "decide a branch", "__index__": "decide how often a loop runs"}


class PoisonTaps:
    """Wrappers around whatever the builder has when `install` is called; `remove` restores that."""

    def __init__(self, interpreter: Any, poison: Poison) -> None:
        self.interpreter = interpreter
        self.builder = interpreter.interpreter_builder
        self.poison = poison
        self.installed = False
        self._before: list[tuple[Any, str, Any, Any]] = []

    def install(self) -> None:
        if self.installed:
            return
        self.installed = True
        makers: dict[str, Callable[[Method], Method]] = {
            **dict.fromkeys(ELEMENTWISE, self._elementwise),
            **{name: self._moving(name) for name in MOVING if hasattr(self.builder, name)},
            "create_select": self._select,
            "create_and": self._logical(lambda data: data == 0),
            "create_or": self._logical(lambda data: data if data.dtype == bool else np.zeros(data.shape, bool)),
            "create_dot": self._dot(("a", "b"), ("d",)),
            "create_dot_scaled": self._dot(("lhs", "rhs"), ("acc_handle",)),
            "create_gather": self._gather,
            "create_histogram": self._histogram,
        }
        for name, make in makers.items():
            if hasattr(self.builder, name):
                self._replace(self.builder, name, make(getattr(self.builder, name)))
        self._tap_tensor()
        self._replace(self.interpreter, "_patch_lang", self._patching(self.interpreter._patch_lang))

    def _tap_tensor(self) -> None:
        """Branches, loop bounds and `.T` do not go through the builder."""
        tensor = self.interpreter.tl.tensor
        wrappers = {id(wrapper) for _, _, wrapper, _ in self._before}
        for name, use in BRANCHES.items():
            if name in vars(tensor) and id(vars(tensor)[name]) not in wrappers:
                self._replace(tensor, name, self._deciding(getattr(tensor, name), use))
        turned = vars(tensor).get("T")
        if isinstance(turned, property) and turned.fget is not None and id(turned) not in wrappers:
            self._replace(tensor, "T", property(self._transposed(turned.fget)))

    def _patching(self, original: Method) -> Method:
        """The interpreter changes the language again for each function that a kernel calls."""

        def patch(function: Any) -> Any:
            scope = original(function)
            self._tap_tensor()
            return scope

        return patch

    def remove(self) -> None:
        for owner, name, wrapper, value in reversed(self._before):
            if vars(owner).get(name) is not wrapper:
                continue  # the interpreter has put the language back already
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._before.clear()
        self.installed = False

    def combined(self, operation: Any, tensors: Any, result: Any, original: Method, *, scan: bool) -> None:
        """Of a reduction or a scan: every input of a line counts."""
        marks = joined(*(marks_of(tensor.handle) for tensor in tensors))
        if marks is None:
            return
        axis = operation.axis
        if scan:
            lined = np.flip(marks, axis) if operation.reverse else marks
            lined = np.bitwise_or.accumulate(lined, axis=axis)
            marks = np.flip(lined, axis) if operation.reverse else lined
        else:
            marks = np.asarray(np.bitwise_or.reduce(marks, axis=axis, keepdims=operation.keep_dims), Mark)
        for tensor in result if isinstance(result, list | tuple) else (result,):
            put(tensor.handle, marks)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, value, vars(owner).get(name)))
        setattr(owner, name, value)

    def _elementwise(self, original: Method) -> Method:
        def operation(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            marks: Marks | None = None
            for value in args:
                own = joined(*map(marks_of, value)) if isinstance(value, list) else marks_of(value)
                if own is not None:
                    marks = own if marks is None else marks | own
            if marks is not None:
                for each in result if isinstance(result, list | tuple) else (result,):
                    put(each, marks)
            return result

        return operation

    def _moving(self, name: str) -> Callable[[Method], Method]:
        plain = getattr(type(self.builder), name).__get__(self.builder)

        def make(original: Method) -> Method:
            def operation(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if any(marks_of(value) is not None for value in args):
                    moved = plain(*map(self._as_marks, args), **kwargs)
                    pairs = zip(result, moved, strict=True) if isinstance(result, tuple) else ((result, moved),)
                    for handle, marks in pairs:
                        put(handle, marks.data)
                return result

            return operation

        return make

    def _as_marks(self, value: Any) -> Any:
        if not isinstance(value, self.interpreter.TensorHandle):
            return value
        marks = marks_of(value)
        data = np.zeros(value.data.shape, Mark) if marks is None else marks
        return self.interpreter.TensorHandle(data, self.interpreter.tl.uint32)

    def _select(self, original: Method) -> Method:
        def select(condition: Any, left: Any, right: Any) -> Any:
            result = original(condition, left, right)
            marks = marks_of(condition)
            if any(marks_of(side) is not None for side in (left, right)):
                sides: list[Any] = [Mark(0) if marks_of(side) is None else marks_of(side) for side in (left, right)]
                marks = joined(marks, np.asarray(np.where(condition.data, *sides), Mark))
            if marks is not None and marks.any():
                put(result, marks)
            return result

        return select

    def _logical(self, decides: Callable[[Any], Any]) -> Callable[[Method], Method]:
        """`decides` says where a value, if it is defined, settles the result alone."""

        def make(original: Method) -> Method:
            def operation(left: Any, right: Any) -> Any:
                result = original(left, right)
                marks = joined(marks_of(left), marks_of(right))
                if marks is None:
                    return result
                settled = np.zeros(result.data.shape, bool)
                for side in (left, right):
                    own = marks_of(side)
                    settled |= decides(side.data) if own is None else decides(side.data) & (own == 0)
                marks = np.asarray(np.where(settled, Mark(0), marks), Mark)
                if marks.any():
                    put(result, marks)
                return result

            return operation

        return make

    def _dot(self, factors: tuple[str, str], sums: tuple[str, ...]) -> Callable[[Method], Method]:
        def make(original: Method) -> Method:
            arguments = Arguments(
                getattr(type(self.builder), "create_dot_scaled" if "lhs" in factors else "create_dot")
            )

            def dot(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                rows, columns = (marks_of(arguments.get(args, kwargs, name)) for name in factors)
                parts = [marks_of(arguments.get(args, kwargs, name)) for name in sums]
                if rows is not None:
                    parts.append(_fitting(np.bitwise_or.reduce(rows, axis=-1)[..., :, None], result.data.shape))
                if columns is not None:
                    parts.append(_fitting(np.bitwise_or.reduce(columns, axis=-2)[..., None, :], result.data.shape))
                marks = joined(*parts)
                if marks is not None:
                    put(result, marks)
                return result

            return dot

        return make

    def _gather(self, original: Method) -> Method:
        def gather(source: Any, indices: Any, axis: Any) -> Any:
            result = original(source, indices, axis)
            own = marks_of(source)
            taken = None if own is None else np.take_along_axis(own, indices.data, axis=axis)
            marks = joined(taken, marks_of(indices))
            if marks is not None:
                put(result, marks)
            return result

        return gather

    def _histogram(self, original: Method) -> Method:
        def histogram(data: Any, bins: Any, mask: Any) -> Any:
            result = original(data, bins, mask)
            marks = marks_of(data)
            if marks is not None:
                counted = marks if mask is None else marks * mask.data.astype(Mark)
                if counted.any():
                    put(result, np.full(result.data.shape, np.bitwise_or.reduce(counted, axis=None), Mark))
            return result

        return histogram

    def _deciding(self, original: Method, use: str) -> Method:
        def decide(tensor: Any) -> Any:
            marks = marks_of(tensor.handle)
            if marks is not None and marks.size == 1 and self.poison.recorder.active:
                self.poison.used(marks, use)
            return original(tensor)

        return decide

    def _transposed(self, original: Method) -> Method:
        def transposed(tensor: Any) -> Any:
            result = original(tensor)
            marks = marks_of(tensor.handle)
            if marks is not None:
                put(result.handle, np.transpose(marks))
            return result

        return transposed


def _fitting(marks: Any, shape: tuple[int, ...]) -> Marks:
    """In the result's shape; packed operands of a scaled product have fewer rows, and all of it counts."""
    try:
        fitted: Marks = np.broadcast_to(marks, shape)
    except ValueError:
        fitted = np.full(shape, np.bitwise_or.reduce(marks, axis=None), Mark)
    return fitted
