"""The taps: wrappers around the methods of the interpreter's builder while a launch is traced.

A method that a version of Triton lacks is not wrapped. The wrappers are attributes of the builder object, so that
taking them away brings back what was there before, mostly the class's own methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from warplens_lab.tracing.interpreter.arguments import Arguments, Method
from warplens_lab.tracing.interpreter.combining import Combining
from warplens_lab.tracing.interpreter.floats import ARITHMETIC, COMPARISONS, FloatWork, Made
from warplens_lab.tracing.interpreter.libdevice import FUSED
from warplens_lab.tracing.interpreter.poison_accesses import PoisonedAccesses
from warplens_lab.tracing.interpreter.wide_taps import WideTaps
from warplens_lab.tracing.watching.orders import NO_ORDER, orders_of
from warplens_lab.tracing.watching.recorder import Recorder

TAG = "warplens_argument"
REPEATED = "warplens_repeated"
"""Set on blocks that repeat one value: what is done to them is done once."""
FLOAT_ADD = ("add", "fadd")


@lru_cache(maxsize=32)
def _kind(operation: Any) -> str:
    """Of `ATOMIC_OP.FADD`, which is slow to print: fadd."""
    return str(operation).rsplit(".", 1)[-1].lower()


def tagged(pointer: Any, number: int) -> Any:
    """A pointer type that says which tensor it came from; the interpreter hands the type on with every offset."""
    own = type(pointer)(pointer.element_ty, pointer.address_space, pointer.const)
    setattr(own, TAG, number)
    return own


def _lanes(mask: Any) -> Any:
    """Up to Triton 3.8 a descriptor's mask, and up to 3.7 a block pointer's, is an array without a handle."""
    return mask if isinstance(mask, np.ndarray) else mask.data


def _tag(pointers: Any) -> int | None:
    """The argument that the pointers came from."""
    tag: int | None = getattr(pointers.dtype, TAG, None)
    return tag


class Taps:
    """Wrappers of one launch; `install` puts them in, `remove` takes them away."""

    def __init__(
        self, interpreter: Any, recorder: Recorder, owner_of: Callable[[int], int | None] = lambda address: None
    ) -> None:
        """`owner_of` gives the number of the tensor whose memory holds an address."""
        self.interpreter = interpreter
        self.builder = interpreter.interpreter_builder
        self.recorder = recorder
        self.owner_of = owner_of
        self.floats = FloatWork(interpreter)
        self._atomic: tuple[str, Any] | None = None
        self.poisoned = PoisonedAccesses(interpreter, recorder)
        self.combining = Combining(interpreter, recorder, self.floats)
        self.combining.followers.append(self.poisoned.taps)
        self.wide = WideTaps(interpreter, recorder) if recorder.options.shadow else None
        if self.wide is not None:
            self.combining.followers.append(self.wide)
        self._before: list[tuple[str, Any]] = []
        """The builder's attributes that were replaced, and what each was; None where its class has the method."""

    def install(self) -> None:
        makers: dict[str, Callable[[Method], Method]] = {
            "create_masked_load": self._load,
            "create_masked_store": self._store,
            "create_atomic_load": lambda original: self._as_atomic(original, "atomic_load"),
            "create_atomic_store": lambda original: self._as_atomic(original, "atomic_store"),
            "create_atomic_poll": lambda original: self._as_atomic(original, "atomic_poll"),
            "create_atomic_rmw": self._rmw,
            "create_atomic_cas": self._cas,
            "create_dot": self._dot,
            "create_dot_scaled": self._dot_scaled,
            "create_select": self._select,
            "create_splat": self._splat,
            "create_int_to_ptr": self._pointer,
            "create_assert": self._assert,
            "create_print": self._print,
            "cast_impl": lambda original: self._cast(self.floats.cast(original)),
            "create_fp_to_fp": lambda original: self._cast(self.floats.converted(original)),
            "create_extern_elementwise": self._library,
            **{name: self._elementwise(*work) for name, work in ARITHMETIC.items()},
            **dict.fromkeys(COMPARISONS, lambda original: self.floats.compared(original, self._made("compare"))),
        }
        for name, make in makers.items():
            if hasattr(self.builder, name):
                self._before.append((name, vars(self.builder).get(name)))
                setattr(self.builder, name, make(getattr(self.builder, name)))
        self.combining.install()
        if self.wide is not None:
            self.wide.install()

    def remove(self) -> None:
        self.poisoned.taps.remove()
        if self.wide is not None:
            self.wide.remove()
            self.wide.finish()
        for name, value in self._before:
            if value is None:
                delattr(self.builder, name)
            else:
                setattr(self.builder, name, value)
        self._before.clear()
        self.combining.remove()

    def _elementwise(self, op: str, flop: int) -> Callable[[Method], Method]:
        return lambda original: self.floats.computed(original, self._made(op, flop))

    def _made(self, op: str, flop: int = 0) -> Made:
        """Records an elementwise operation by its result, with the FLOPs of each element."""

        def made(result: Any) -> None:
            if self.recorder.active:
                self.recorder.elementwise(op, result.data.shape, flop * result.data.size)

        return made

    def _cast(self, original: Method) -> Method:
        """Conversions of blocks from or to floating types: not of addresses, masks and `other=0.0`."""
        made = self._made("cast")

        def cast(source: Any, target: Any, *args: Any) -> Any:
            result = original(source, target, *args)
            is_float = source.dtype.scalar.is_floating() or target.scalar.is_floating()
            if is_float and source.data.size > 1 and not hasattr(source, REPEATED):
                made(result)
            return result

        return cast

    def _splat(self, original: Method) -> Method:
        def splat(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            setattr(result, REPEATED, True)
            return result

        return splat

    def _library(self, original: Method) -> Method:
        """Functions of libdevice, by their names; their FLOPs are not counted."""
        arguments = Arguments(original)

        def library(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            symbol = str(arguments.get(args, kwargs, "symbol"))
            if symbol.removeprefix("__nv_") not in FUSED:  # which are the builder's own
                self._made(symbol.removeprefix("__nv_").removeprefix("__ocml_"))(result)
            return result

        return library

    def _access(
        self, op: str, pointers: Any, mask: Any, flop_per_lane: int = 0, semantic: Any = None, values: Any = None
    ) -> Any:
        """Records an access; gives a new mask handle where lanes must be dropped."""
        itemsize = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        lanes = _lanes(mask) if mask is not None else np.ones(pointers.data.shape, bool)
        tag = _tag(pointers)
        op, semantic = self._atomic or (op, semantic)
        orders = NO_ORDER if semantic is None else orders_of(semantic)
        safe_mask = self.recorder.access(op, pointers.data, lanes, itemsize, tag, flop_per_lane, orders, values)
        return None if safe_mask is None else self.interpreter.TensorHandle(safe_mask, self.interpreter.tl.int1)

    def _load(self, original: Method) -> Method:
        arguments = Arguments(original)

        def load(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            pointers = arguments.get(args, kwargs, "ptrs", "ptr")
            mask, other = arguments.get(args, kwargs, "mask"), arguments.get(args, kwargs, "other")
            safe = self._access("load", pointers, mask)
            if safe is not None:
                args, kwargs = arguments.replaced(args, kwargs, "mask", safe)
            result = original(*args, **kwargs)
            if self.wide is not None:
                self.wide.loaded(result, pointers)
            self.poisoned.loaded(result, pointers, mask, other, _tag(pointers))
            self.recorder.keep_value(result.dtype, result.data)
            return result

        return load

    def _store(self, original: Method) -> Method:
        arguments = Arguments(original)

        def store(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            pointers = arguments.get(args, kwargs, "ptrs", "ptr")
            value, mask = arguments.get(args, kwargs, "value", "val"), arguments.get(args, kwargs, "mask")
            safe = self._access("store", pointers, mask, values=value.data)
            self._follow("store", value, pointers, mask if safe is None else safe)
            self.recorder.keep_value(value.dtype, value.data)
            if safe is not None:
                args, kwargs = arguments.replaced(args, kwargs, "mask", safe)
            return original(*args, **kwargs)

        return store

    def _follow(self, op: str, value: Any, pointers: Any, mask: Any) -> None:
        """What goes beside values is told what is about to be stored."""
        self.poisoned.stored(op, value, pointers, mask, _tag(pointers))
        if self.wide is not None:
            self.wide.stored(op, value, pointers, mask)

    def _as_atomic(self, original: Method, op: str) -> Method:
        """For operations that the interpreter builds from a plain load or store."""
        arguments = Arguments(original)

        def atomic(*args: Any, **kwargs: Any) -> Any:
            self._atomic = (op, arguments.get(args, kwargs, "sem"))
            try:
                return original(*args, **kwargs)
            finally:
                self._atomic = None

        return atomic

    def _rmw(self, original: Method) -> Method:
        arguments = Arguments(original)

        def rmw(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            value = arguments.get(args, kwargs, "val")
            kind = _kind(arguments.get(args, kwargs, "rmwOp"))
            adds_floats = kind in FLOAT_ADD and value.dtype.scalar.is_floating()
            op = "atomic_" + ("add" if kind in FLOAT_ADD else kind)
            pointers = arguments.get(args, kwargs, "ptr", "ptrs")
            mask, semantic = arguments.get(args, kwargs, "mask"), arguments.get(args, kwargs, "sem")
            safe = self._access(op, pointers, mask, int(adds_floats), semantic)
            self._follow(op, value, pointers, mask if safe is None else safe)
            if safe is not None:
                args, kwargs = arguments.replaced(args, kwargs, "mask", safe)
            self.recorder.keep_value(value.dtype, value.data)
            return original(*args, **kwargs)

        return rmw

    def _cas(self, original: Method) -> Method:
        arguments = Arguments(original)

        def cas(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            pointers, semantic = arguments.get(args, kwargs, "ptr", "ptrs"), arguments.get(args, kwargs, "sem")
            safe = self._access("atomic_cas", pointers, None, semantic=semantic)
            value = arguments.get(args, kwargs, "val")
            self._follow("atomic_cas", value, pointers, None)
            self.recorder.keep_value(value.dtype, value.data)
            if safe is not None and not safe.data.all():
                self.recorder.stop_at_last_fault()  # there is no mask to drop the lane with
            return original(*args, **kwargs)

        return cas

    def _dot(self, original: Method) -> Method:
        arguments = Arguments(original)

        def dot(*args: Any, **kwargs: Any) -> Any:
            inner = arguments.get(args, kwargs, "a").data.shape[-1]
            for name in ("a", "b"):
                wide = self.floats.widened(arguments.get(args, kwargs, name))
                args, kwargs = arguments.replaced(args, kwargs, name, wide)
            result = original(*args, **kwargs)
            if self.recorder.active:
                self._count_dot("dot", result, inner)
                self.recorder.keep_value(result.dtype, result.data)
            return result

        return dot

    def _dot_scaled(self, original: Method) -> Method:
        arguments = Arguments(original)

        def dot_scaled(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self.recorder.active:
                a = arguments.get(args, kwargs, "lhs")
                packed = "E2M1" in str(arguments.get(args, kwargs, "lhs_format_enum"))
                along_k = arguments.get(args, kwargs, "lhs_k_pack") is not False
                self._count_dot("dot_scaled", result, a.data.shape[-1] * (2 if packed and along_k else 1))
                self.recorder.keep_value(result.dtype, result.data)
            return result

        return dot_scaled

    def _count_dot(self, op: str, result: Any, inner: int) -> None:
        self.recorder.compute(op, (*result.data.shape, inner), 2 * result.data.size * inner)

    def _select(self, original: Method) -> Method:
        """A choice between pointers of two tensors belongs to neither: its lanes are distinguished by address."""
        chosen = self._made("where")

        def select(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            origins = {getattr(value.dtype, TAG, None) for value in args[1:] if hasattr(value, "dtype")}
            if len(origins) > 1:
                result.dtype = self.interpreter.tl.pointer_type(result.get_element_ty())
            if result.dtype.scalar.is_floating():
                chosen(result)
            return result

        return select

    def _pointer(self, original: Method) -> Method:
        """A number that is an address, as arrays of `data_ptr()` hold them."""

        def pointer(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            number = self.owner_of(int(result.data.item())) if result.data.size == 1 else None
            if number is not None:
                result.dtype = tagged(result.dtype, number)
            return result

        return pointer

    def _print(self, original: Method) -> Method:
        """bfloat16 is printed as numbers, not as bits."""
        arguments = Arguments(original)

        def show(*args: Any, **kwargs: Any) -> Any:
            values = [self.floats.widened(value) for value in arguments.get(args, kwargs, "values")]
            args, kwargs = arguments.replaced(args, kwargs, "values", values)
            return original(*args, **kwargs)

        return show

    def _assert(self, original: Method) -> Method:
        arguments = Arguments(original)

        def check(*args: Any, **kwargs: Any) -> Any:
            condition = arguments.get(args, kwargs, "condition")
            holds = condition.data.astype(bool)
            if self.recorder.active and not holds.all():
                message = str(arguments.get(args, kwargs, "message"))
                self.recorder.broken_assertion(message, holds)
            return None

        return check
