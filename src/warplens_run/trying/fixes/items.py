"""`.item()` whose value is read where the program first uses it, and not where it is asked for."""

from __future__ import annotations

import functools
import math
import numbers
import operator
import weakref
from collections.abc import Callable
from typing import Any, Final

from warplens_run.trying.fixes.protocol import replaced

DEEPEST: Final = 100
"""Of sums that wait for sums: reading the last one reads all of them."""


class Later:
    """A number that the GPU has yet to compute. It was copied to the host where `.item()` was called, so that what
    happens to the tensor after that does not change it; the wait for it comes with the first use that needs a value.

    It is no `float`: code that insists on one fails instead of reading something else.
    """

    __slots__ = ("__weakref__", "_depth", "_read", "_value")

    def __init__(self, read: Callable[[], float], depth: int = 0) -> None:
        self._read: Callable[[], float] | None = read
        self._value = math.nan
        self._depth = depth
        """How many sums it is the last of."""

    def __float__(self) -> float:
        if self._read is not None:
            self._value, self._read = self._read(), None
        return self._value

    def __repr__(self) -> str:
        return repr(float(self))

    def __format__(self, form: str) -> str:
        return format(float(self), form)

    def __hash__(self) -> int:
        return hash(float(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)

    def __round__(self, *digits: Any) -> Any:
        return round(float(self), *digits)

    def __getattr__(self, name: str) -> Any:
        """Methods of numbers; what is asked for by C code, as arrays are, would be found on the class."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(float(self), name)


def _binary(function: Callable[[Any, Any], Any], *, is_lazy: bool = False, swapped: bool = False) -> Any:
    """Sums and products of losses are only logged as well. Of anything but plain numbers, what comes of it may be no
    number; what can fail has to fail where it is written."""

    def apply(own: Later, other: Any) -> Any:
        def compute() -> Any:
            left, right = float(own), float(other) if isinstance(other, Later) else other
            return function(right, left) if swapped else function(left, right)

        waits = own._read is not None or (isinstance(other, Later) and other._read is not None)
        depth = 1 + max(own._depth, other._depth if isinstance(other, Later) else 0)
        if is_lazy and waits and depth < DEEPEST and type(other) in (int, float, Later):
            return Later(compute, depth)
        return compute()

    return apply


def _unary(function: Callable[[Any], Any]) -> Callable[[Later], Any]:
    return lambda own: function(float(own))


LAZY: Final = ("add", "sub", "mul")
UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    "int": int,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
}
for _name in (*LAZY, "truediv", "floordiv", "mod", "pow"):
    setattr(Later, f"__{_name}__", _binary(getattr(operator, _name), is_lazy=_name in LAZY))
    setattr(Later, f"__r{_name}__", _binary(getattr(operator, _name), is_lazy=_name in LAZY, swapped=True))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Later, f"__{_name}__", _binary(getattr(operator, _name)))
for _name, _function in UNARY.items():
    setattr(Later, f"__{_name}__", _unary(_function))
numbers.Real.register(Later)


class DeferredItems:
    """`.item()` of floating-point tensors on a GPU; of integers, which programs count and branch with, it stays."""

    name = "deferred .item()"
    needs_op = "aten::item"

    def __init__(self, torch: Any, read_later: Callable[[Any], Callable[[], float] | None] | None = None) -> None:
        self._torch = torch
        self._read_later = read_later or functools.partial(copied, torch)
        self._undo: Callable[[], None] | None = None
        self._given: list[weakref.ref[Later]] = []

    def switch(self, on: bool) -> None:
        if on and self._undo is None:
            self._undo = replaced(self._torch.Tensor, "item", self._deferring)
        elif not on and self._undo is not None:
            self._undo()
            self._undo = None
            for reference in self._given:  # nothing is left to wait for in steps without the fix
                if (value := reference()) is not None:
                    float(value)
            self._given = []

    def _deferring(self, item: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(item)
        def deferred(tensor: Any) -> Any:
            read = self._read_later(tensor)
            if read is None:
                return item(tensor)
            value = Later(read)
            self._given.append(weakref.ref(value))
            return value

        return deferred


def copied(torch: Any, tensor: Any) -> Callable[[], float] | None:
    """A copy on its way to the host, as a function that waits for it; None where it makes no sense."""
    if not tensor.is_cuda or tensor.numel() != 1 or not tensor.is_floating_point():
        return None
    if torch.cuda.is_current_stream_capturing():
        return None
    host = torch.empty((), dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor.detach().reshape(()), non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record(torch.cuda.current_stream(tensor.device))

    def read() -> float:
        arrived.synchronize()
        return float(host)

    return read
