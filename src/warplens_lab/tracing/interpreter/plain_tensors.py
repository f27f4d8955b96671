"""Arguments that are tensors only to a GPU: objects with an address and a type, as libraries make them.

The interpreter wants PyTorch's own. Each becomes a view of the memory that it points into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def as_plain(value: Any, tensor_at: Callable[[int], Any]) -> Any:
    """`tensor_at` gives a tensor whose memory holds an address, None where none is known."""
    import torch

    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(as_plain(part, tensor_at) for part in value)
    if not hasattr(value, "data_ptr") or not hasattr(value, "dtype") or isinstance(value, torch.Tensor):
        return value
    own = [part for part in vars(value).values() if isinstance(part, torch.Tensor)]
    if isinstance(getattr(value, "base", None), torch.Tensor):
        return value  # Triton's own wrapper of a tensor, which it takes apart itself
    address = value.data_ptr()
    tensor = next((part for part in own if _holds(part, address)), None)
    if tensor is None:
        tensor = tensor_at(address)
    return value if tensor is None else _view(tensor, value, address)


def _holds(tensor: Any, address: int) -> bool:
    storage = tensor.untyped_storage()
    start = int(storage.data_ptr())
    return start <= address < start + int(storage.nbytes())


def _view(tensor: Any, value: Any, address: int) -> Any:
    """With the object's own shape where that lies within the memory, else with all that follows the address."""
    import torch

    storage, size = tensor.untyped_storage(), value.dtype.itemsize
    offset = (address - storage.data_ptr()) // size
    left = storage.nbytes() // size - offset
    shape = tuple(getattr(value, "shape", ()))
    strides = tuple(value.stride()) if shape and hasattr(value, "stride") else ()
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=False))
    if not shape or len(shape) != len(strides) or min(strides) < 0 or last >= left:
        shape, strides = (left,), (1,)
    return torch.empty(0, dtype=value.dtype).set_(storage, offset, shape, strides)
