"""Tensors whose addresses the script has asked for: pointers that a kernel loads from memory may lead to them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

NOT_THE_SCRIPTS: Final = ("torch", "triton", "warplens", "warplens_lab")
UNNAMED: Final = "tensor"


class ExposedTensors:
    """By the start of its memory: the last tensor that was asked for it, while that lives."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[str, Any]] = {}
        self._counts: dict[str, int] = {}

    def at(self, address: int) -> tuple[str, Any] | None:
        """The name and the tensor whose memory holds the address."""
        for name, reference in self._tensors.values():
            tensor = reference()
            if tensor is None:
                continue
            storage = tensor.untyped_storage()
            if storage.data_ptr() <= address < storage.data_ptr() + storage.nbytes():
                return name, tensor
        return None

    def note(self, tensor: Any) -> None:
        start = tensor.untyped_storage().data_ptr()
        before = self._tensors.get(start)
        if before is not None and before[1]() is tensor:
            return
        name = _variable(tensor) or UNNAMED
        number = self._counts[name] = self._counts.get(name, -1) + 1
        self._tensors[start] = (f"{name}#{number}", weakref.ref(tensor))

    @contextmanager
    def watching(self) -> Iterator[None]:
        import torch
        from torch.overrides import TorchFunctionMode

        exposed = self

        class Addresses(TorchFunctionMode):  # type: ignore[misc]
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                if func is torch.Tensor.data_ptr:
                    exposed.note(args[0])
                return result

        with Addresses():
            yield


def _variable(tensor: Any) -> str:
    """What the code that asks calls the tensor; empty where it has no name there."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in NOT_THE_SCRIPTS:
        frame = frame.f_back
    scope = frame.f_locals if frame is not None else {}
    return next((name for name, value in scope.items() if value is tensor), "")
