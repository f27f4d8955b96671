"""An fp64 shadow beside every floating value: the same operations, on inputs as they are, with nothing rounded.

Branches, masks and addresses follow the values, not the shadow, so that both take the same way. An operation that is
not listed here begins anew: its result is its own shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from warplens_lab.tracing.interpreter.arguments import Method
from warplens_lab.tracing.interpreter.floats import ARITHMETIC
from warplens_lab.tracing.interpreter.poison_taps import MOVING
from warplens_lab.tracing.watching.recorder import Recorder
from warplens_lab.tracing.watching.wide_memory import Floats, WideMemory, numbers_of

WIDE: Final = "warplens_wide"
ERROR: Final = "warplens_error"
ATOMICS: Final = {"atomic_add": np.add, "atomic_max": np.maximum, "atomic_min": np.minimum}
SAME_OPERATION: Final = (*ARITHMETIC, "create_dot")


class WideTaps:
    """Wrappers around what the builder has when `install` is called."""

    def __init__(self, interpreter: Any, recorder: Recorder) -> None:
        self.interpreter = interpreter
        self.builder = interpreter.interpreter_builder
        self.handle_type = interpreter.TensorHandle
        self.recorder = recorder
        self.memory = WideMemory(recorder.memory)
        self._growth: dict[int, float] = {}
        self._types: dict[int, Any] = {}
        self._before: list[tuple[str, Any]] = []
        self._is_inside = False

    def install(self) -> None:
        makers: dict[str, Callable[[Method, Method], Method]] = {
            **dict.fromkeys(SAME_OPERATION, self._computing),
            **dict.fromkeys(MOVING, self._moving),
            "create_select": self._moving,
            "create_gather": self._moving,
            "create_extern_elementwise": self._library,
            "cast_impl": self._casting,
            "create_fp_to_fp": self._casting,
        }
        for name, make in makers.items():
            if hasattr(self.builder, name):
                original = getattr(self.builder, name)
                own = getattr(type(self.builder), name, None)
                self._before.append((name, vars(self.builder).get(name)))
                setattr(self.builder, name, make(original, own.__get__(self.builder) if own else original))

    def remove(self) -> None:
        for name, value in reversed(self._before):
            if value is None:
                delattr(self.builder, name)
            else:
                setattr(self.builder, name, value)
        self._before.clear()

    def finish(self) -> None:
        """The errors of all that was stored."""
        total = sum(self._growth.values())
        site = max(self._growth, key=lambda number: self._growth[number], default=-1)
        part = 100 * self._growth[site] / total if total else 0.0
        loaded = {row.tensor for row in self.recorder.totals_so_far("load")}
        inputs = {self.recorder.memory.tensors[at].dtype for at in loaded if at >= 0}
        self.recorder.numbers = self.memory.errors(inputs, (site, part))
        self.recorder.narrow_growth = self._types.get(site) is not None and self._types[site].primitive_bitwidth <= 16

    def loaded(self, result: Any, pointers: Any) -> None:
        if _is_float(result):
            number, places, inside = self._places(pointers, None)
            if number is not None:
                wide = numbers_of(result.data, result.dtype.scalar.name)
                wide[inside] = self.memory.load(number, places, wide[inside])
                setattr(result, WIDE, wide)
                self._grow(result, ())

    def stored(self, op: str, value: Any, pointers: Any, mask: Any) -> None:
        if not _is_float(value):
            return
        number, places, inside = self._places(pointers, mask)
        if number is None:
            return
        wide = np.broadcast_to(self._wide(value), inside.shape)[inside]
        if op == "store":
            self.memory.store(number, places, wide)
        elif op in ATOMICS:
            self.memory.combine(number, places, self._in_memory(pointers, inside, value), wide, ATOMICS[op])
        else:
            self.memory.forget(number, places)

    def combined(self, operation: Any, tensors: Any, result: Any, original: Method, *, scan: bool) -> None:
        """A reduction or a scan, on shadows."""
        if self._is_inside or not any(_is_float(tensor.handle) for tensor in tensors):
            return
        self._is_inside = True
        try:
            with np.errstate(all="ignore"):
                wide = original(operation, tuple(map(self._wide_tensor, tensors)))
        finally:
            self._is_inside = False
        several = isinstance(result, list | tuple)
        pairs = zip(result, wide, strict=True) if several else ((result, wide),)
        for narrow, shadow in pairs:
            if _is_float(narrow.handle):
                setattr(narrow.handle, WIDE, shadow.handle.data)
                self._grow(narrow.handle, [tensor.handle for tensor in tensors])

    def _wide_tensor(self, tensor: Any) -> Any:
        if not _is_float(tensor.handle):
            return tensor
        language, handle = self.interpreter.tl, self._wide_handle(tensor.handle)
        block = tensor.type.is_block()
        kind = language.block_type(language.float64, list(handle.data.shape)) if block else language.float64
        return language.tensor(handle, kind)

    def _wide(self, handle: Any) -> Floats:
        wide: Floats | None = getattr(handle, WIDE, None)
        return numbers_of(handle.data, handle.dtype.scalar.name) if wide is None else wide

    def _wide_handle(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wide_handle(part) for part in value]
        if not isinstance(value, self.handle_type) or not _is_float(value):
            return value
        return self.handle_type(self._wide(value), self.interpreter.tl.float64)

    def _computing(self, original: Method, plain: Method) -> Method:
        def operation(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self.recorder.active and not self._is_inside and _is_float(result):
                with np.errstate(all="ignore"):
                    shadow = plain(*map(self._wide_handle, args), **kwargs)
                setattr(result, WIDE, shadow.data)
                self._grow(result, args)
            return result

        return operation

    def _library(self, original: Method, plain: Method) -> Method:
        def call(library: Any, path: Any, symbol: Any, arguments: Any, kind: Any, is_pure: Any) -> Any:
            result = original(library, path, symbol, arguments, kind, is_pure)
            if self.recorder.active and not self._is_inside and _is_float(result):
                wide = original(
                    library, path, symbol, self._wide_handle(arguments), self.interpreter.tl.float64, is_pure
                )
                setattr(result, WIDE, wide.data)
                self._grow(result, arguments)
            return result

        return call

    def _moving(self, original: Method, plain: Method) -> Method:
        def operation(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            results = result if isinstance(result, tuple) else (result,)
            shadowed = [value for value in args if getattr(value, WIDE, None) is not None]
            if self.recorder.active and not self._is_inside and shadowed and _is_float(results[0]):
                shadow = plain(*map(self._wide_handle, args), **kwargs)
                error = max(getattr(value, ERROR, 0.0) for value in shadowed)
                for narrow, wide in zip(results, shadow if isinstance(shadow, tuple) else (shadow,), strict=True):
                    setattr(narrow, WIDE, wide.data)
                    setattr(narrow, ERROR, error)
            return result

        return operation

    def _casting(self, original: Method, plain: Method) -> Method:
        def cast(source: Any, target: Any, *rest: Any) -> Any:
            result = original(source, target, *rest)
            if self.recorder.active and not self._is_inside and _is_float(result) and result is not source:
                wide = self._wide(source) if _is_float(source) else source.data.astype(np.float64)
                setattr(result, WIDE, wide.reshape(result.data.shape))
                self._grow(result, (source,))
            return result

        return cast

    def _grow(self, result: Any, sources: Any) -> None:
        """Notes by how much the error of a value is more than that of what it was made from."""
        shadow = getattr(result, WIDE)
        with np.errstate(all="ignore"):
            apart = np.abs(numbers_of(result.data, result.dtype.scalar.name) - shadow)
            largest = np.max(np.abs(shadow), initial=0.0, where=np.isfinite(shadow))
            error = float(np.max(apart, initial=0.0, where=np.isfinite(apart)) / largest) if largest > 0 else 0.0
        setattr(result, ERROR, error)
        before = max((getattr(source, ERROR, 0.0) for source in sources), default=0.0)
        if sources and error > before:
            site = self.recorder.sites.running()
            self._growth[site] = self._growth.get(site, 0.0) + error - before
            self._types[site] = result.dtype.scalar

    def _places(self, pointers: Any, mask: Any) -> tuple[int | None, Any, Any]:
        """The storage that the lanes are in, their units in it, and which lanes those are."""
        addresses = pointers.data
        lanes = np.ones(addresses.shape, bool) if mask is None else np.broadcast_to(_flags(mask), addresses.shape)
        for number, storage in enumerate(self.recorder.memory.storages):
            inside = lanes & (addresses >= storage.start) & (addresses < storage.end)
            if inside.any():
                return number, (addresses[inside].astype(np.int64) - storage.start) // storage.unit, inside
        return None, None, lanes

    def _in_memory(self, pointers: Any, inside: Any, value: Any) -> Floats:
        from warplens_lab.tracing.watching.stored_values import bits_at

        bits = bits_at(pointers.data[inside], value.data.dtype)
        return numbers_of(bits, value.dtype.scalar.name)


def _flags(mask: Any) -> Any:
    return (mask if isinstance(mask, np.ndarray) else mask.data).astype(bool)


def _is_float(handle: Any) -> bool:
    scalar = getattr(getattr(handle, "dtype", None), "scalar", None)
    return scalar is not None and not getattr(scalar, "is_ptr", lambda: False)() and scalar.is_floating()
