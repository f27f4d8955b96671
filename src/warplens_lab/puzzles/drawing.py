"""Tensors for the cases: seeded numbers, memory that nothing has written, rows with gaps between them."""

from __future__ import annotations

import ctypes
from typing import Any


class Draw:
    """The same numbers for the same seed."""

    def __init__(self, seed: int) -> None:
        import torch

        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: str = "float32", scale: float = 1.0, around: float = 0.0) -> Any:
        import torch

        return (torch.randn(shape, generator=self._generator) * scale + around).to(getattr(torch, dtype))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int32") -> Any:
        """Whole numbers from `low` up to but not including `high`."""
        import torch

        return torch.randint(low, high, shape, generator=self._generator).to(getattr(torch, dtype))


def unwritten(*shape: int, dtype: str = "float32") -> Any:
    """Memory of which the tracer knows that nothing wrote it: a read of it is a fault. It holds NaN, integers -1."""
    import torch

    tensor = torch.empty(shape, dtype=getattr(torch, dtype))
    # Past PyTorch, because a fill that PyTorch sees counts as a write.
    ctypes.memset(tensor.data_ptr(), 0xFF, tensor.untyped_storage().nbytes())
    return tensor


def rows_apart(tensor: Any, gap: int) -> Any:
    """The same values in a wider memory: `gap` unused elements follow each row."""
    rows, columns = tensor.shape
    wide = unwritten(rows, columns + gap, dtype=str(tensor.dtype).removeprefix("torch."))
    wide[:, :columns] = tensor
    return wide[:, :columns]


def unwritten_rows_apart(rows: int, columns: int, gap: int) -> Any:
    return unwritten(rows, columns + gap)[:, :columns]


def cdiv(count: int, size: int) -> int:
    """
    >>> cdiv(100, 32)
    4
    """
    return -(-count // size)
