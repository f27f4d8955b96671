"""Triton without a GPU: kernels are compiled for one, and their launches go to a list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class StubLauncher:
    """In place of Triton's own: calls the hooks as that does, and launches nothing."""

    launched: list[tuple[Any, ...]] = []  # noqa: RUF012 - one list for all, emptied by `stubbed`

    def __init__(self, src: Any, metadata: Any) -> None:
        self.name = metadata.name

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, metadata: Any,
                 enter: Any, leave: Any, *args: Any) -> None:  # fmt: skip
        if enter is not None:
            enter(metadata)
        self.launched.append((self.name, (x, y, z), args))
        if leave is not None:
            leave(metadata)


class StubDriver:
    launcher_cls = StubLauncher

    def __init__(self) -> None:
        self.utils = SimpleNamespace(
            load_binary=lambda *args: (None, 1, 32, 0, 1024),
            get_device_properties=lambda device: {"max_shared_mem": 232448},
            unload_module=lambda module: None,
        )

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self) -> Any:
        return lambda call, **options: (call(), [1.0, 1.0, 1.0])[1]

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


@contextmanager
def stubbed() -> Iterator[list[tuple[Any, ...]]]:
    """Triton with that driver; what was launched."""
    from triton.runtime.driver import driver

    before, driver._active = driver._active, StubDriver()
    StubLauncher.launched.clear()
    try:
        yield StubLauncher.launched
    finally:
        driver._active = before
