"""Large tensors that cost nothing, for a script whose kernels are only compiled: their values are never used.

A tensor on the CPU of a million elements or more is neither filled nor computed: an operation on it gives tensors of
the right type and shape, whose memory the system provides when somebody touches it.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

LARGE: Final = 1 << 20
MAPPED_BYTES: Final = 1 << 26
"""From this size on memory is mapped without a reservation: 40 GB of it on a machine with 8."""
NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
NOTE: Final = "tensors of {:,} elements or more are not filled: kernels are compiled here, their values are not used"
REAL: Final = ("_unsafe_view", "lift_fresh", "_local_scalar_dense", "set_", "resize_")
"""Operations that move no elements, or whose result a script goes by."""


@dataclass
class UnfilledTensors:
    """Whether any tensor was left as it is."""

    count: int = 0

    def notes(self) -> tuple[str, ...]:
        return (NOTE.format(LARGE),) if self.count else ()


@contextmanager
def unfilled_tensors(tensors: UnfilledTensors) -> Iterator[None]:
    try:
        import torch
        from torch.utils import _pytree as pytree
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        yield
        return

    def is_large(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.numel() >= LARGE

    def as_meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        return torch.device("meta") if isinstance(value, torch.device) else None if _is_generator(value) else value

    def as_real(value: Any) -> Any:
        return _unfilled(torch, value) if isinstance(value, torch.Tensor) and value.device.type == "meta" else value

    def _is_generator(value: Any) -> bool:
        return isinstance(value, torch._C.Generator)

    class Unfilled(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else its first op imports all of PyTorch's compiler, which takes two seconds

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            given, structure = pytree.tree_flatten((args, named))
            has_tensors = any(isinstance(value, torch.Tensor) for value in given)
            is_made = not has_tensors and _takes_device(func) and str(named.get("device") or "cpu") == "cpu"
            if not (is_made or any(map(is_large, given))) or _is_cheap(func) or (is_made and _is_small(func, args)):
                return func(*args, **named)
            if func._schema.is_mutable and _returns_what_it_writes(func):
                tensors.count += 1
                return _written(func, args, named)
            try:
                meta_args, meta_named = pytree.tree_unflatten([as_meta(value) for value in given], structure)
                if is_made:
                    meta_named["device"] = torch.device("meta")
                results = func(*meta_args, **meta_named)
            except (RuntimeError, NotImplementedError, TypeError):
                return func(*args, **named)
            made = [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]
            if is_made and not any(value.numel() >= LARGE for value in made):
                return func(*args, **named)
            tensors.count += 1
            return pytree.tree_map(as_real, results)

    with Unfilled():
        yield


def _takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in func._schema.arguments)


def _is_small(func: Any, args: tuple[Any, ...]) -> bool:
    """By the size that it is asked for: with no elements to make, PyTorch would load its symbolic algebra first."""
    size = args[0] if args and func._schema.arguments[0].name == "size" else None
    return isinstance(size, (list, tuple)) and all(type(side) is int for side in size) and math.prod(size) < LARGE


def _is_cheap(func: Any) -> bool:
    """A view of the same memory, or one that must be what it is."""
    if func._schema.name.rpartition("::")[2] in REAL:
        return True
    returned = [result.alias_info for result in func._schema.returns]
    return bool(returned) and all(info is not None and not info.is_write for info in returned)


def _writes(func: Any) -> list[str]:
    return [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]


def _returns_what_it_writes(func: Any) -> bool:
    return len(func._schema.returns) in (0, len(_writes(func)))


def _written(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What an operation that writes to its arguments returns: those arguments."""
    arguments = func._schema.arguments
    values = {argument.name: value for argument, value in zip(arguments, args, strict=False)} | named
    written = [values.get(name) for name in _writes(func)]
    if not func._schema.returns:
        return None
    return written[0] if len(func._schema.returns) == 1 else tuple(written)


def _unfilled(torch: Any, like: Any) -> Any:
    """A tensor with the type, sizes and strides of one that has no memory."""
    count = 1 + sum((side - 1) * stride for side, stride in zip(like.size(), like.stride(), strict=True))
    size = max(count, 0) * like.element_size() if like.numel() else 0
    if size < MAPPED_BYTES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return torch.zeros(max(size // max(like.element_size(), 1), 1), dtype=like.dtype).as_strided(
            like.size(), like.stride()
        )
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    memory = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8)
    return torch.empty(0, dtype=like.dtype).set_(memory.untyped_storage(), 0, like.size(), like.stride())
