"""Which bytes of which tensors nothing has written yet: those of `torch.empty` and its kin.

Watches PyTorch's ops while a trace is open. A tensor made before that counts as written. So does one whose memory
leaves PyTorch's sight (`.numpy()`, DLPack): what is written there cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
MAKE_UNDEFINED: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
ONLY_METADATA: Final = frozenset(
    f"aten::{name}_"
    for name in ("set", "as_strided", "t", "transpose", "squeeze", "unsqueeze", "swapdims", "swapaxes", "detach")
)


class UndefinedMemory:
    """Undefined bytes per storage, found by the storage's address while that storage lives."""

    def __init__(self) -> None:
        self._flags: dict[int, tuple[Any, Flags | None, int]] = {}
        """Flags are made when they are first asked for: most large tensors are never a kernel's, or filled at once."""
        self.paused = False

    def flags(self, storage: Any) -> Flags | None:
        """One flag per byte, True where undefined; None where all of it is defined. Shared, not copied."""
        address = storage.data_ptr()
        entry = self._flags.get(address)
        if entry is None:
            return None
        reference, flags, size = entry
        if reference.expired() or size != storage.nbytes():
            del self._flags[address]
            return None
        if flags is None:
            flags = np.ones(size, bool)
            self._flags[address] = (reference, flags, size)
        return flags

    def mark_undefined(self, tensor: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        if storage.nbytes() and tensor.device.type == "cpu":
            self._flags[storage.data_ptr()] = (StorageWeakRef(storage), None, storage.nbytes())

    def written(self, tensor: Any) -> None:
        """The tensor's own elements are defined from now on, other parts of its storage are not."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._flags or not tensor.numel():
            return
        if tensor.numel() * tensor.element_size() == storage.nbytes() and tensor.is_contiguous():
            del self._flags[storage.data_ptr()]
            return
        flags = self.flags(storage)
        if flags is None:
            return
        size = tensor.element_size()
        shape = (*tensor.shape, size)
        strides = (*(stride * size for stride in tensor.stride()), 1)
        np.ndarray(shape, bool, flags.data, tensor.storage_offset() * size, strides)[...] = False

    def stop_watching(self, tensor: Any) -> None:
        self._flags.pop(tensor.untyped_storage().data_ptr(), None)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """For the interpreter's own copies of arguments: not writes of the program, and slow to watch."""
        import torch

        self.paused = True
        try:
            with ExitStack() as stack:
                for name in ("DisableTorchFunction", "_DisableTorchDispatch"):
                    guard = getattr(torch._C, name, None)
                    if guard is not None:
                        stack.enter_context(guard())
                yield
        finally:
            self.paused = False

    @contextmanager
    def watching(self) -> Iterator[UndefinedMemory]:
        dispatch_mode, function_mode = _modes(self)
        with ExitStack() as stack:
            stack.enter_context(dispatch_mode)
            stack.enter_context(function_mode)
            yield self


def _modes(memory: UndefinedMemory) -> tuple[Any, Any]:
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    escapes = {torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__}

    class Ops(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else its first op imports all of PyTorch's compiler, which takes a second

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not memory.paused:
                _follow(memory, func._schema, args, kwargs or {}, result)
            return result

    class Escapes(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in escapes and not memory.paused:
                memory.stop_watching(args[0])
            return func(*args, **(kwargs or {}))

    return Ops(), Escapes()


def _follow(memory: UndefinedMemory, schema: Any, args: Any, kwargs: Any, result: Any) -> None:
    import torch

    if schema.name in MAKE_UNDEFINED:
        if isinstance(result, torch.Tensor):
            memory.mark_undefined(result)
        return
    if schema.name in ONLY_METADATA:
        return
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name, args[position] if position < len(args) else None)
        for tensor in value if isinstance(value, list | tuple) else (value,):
            if isinstance(tensor, torch.Tensor):
                memory.written(tensor)
