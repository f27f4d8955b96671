"""What the GPU's cache holds when a call begins: nothing of it, all of it, or what it held in the run.

A storage stayed in the cache where the run touched less than the cache holds since it last used that storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from warplens_run.formats.replay_plan import Storage
from warplens_run.replay.inputs import Inputs

FLUSH_CACHES: Final = 2
"""The buffer that is read to empty the cache is this many caches large. Overwriting it would leave changed lines, which
must be written back before others can take their place: a small product took 15 % longer after that than in its run."""
DEFAULT_BYTES: Final = 64 << 20
"""Cache size assumed if the GPU does not report it; at least as large as those of today."""


class Cache:
    def __init__(self, mode: str, device: Any) -> None:
        self.mode = mode
        self._device = device
        self.bytes = cache_bytes(device)
        self._buffer: Any = None
        self._sum: Any = None

    def preparation(self, inputs: Inputs) -> Callable[[], None]:
        """What to do before each call."""
        if self._device.type != "cuda":
            return lambda: None
        if self.mode == "hot":
            return lambda: torch.cuda.synchronize()
        flush = self._flush()
        warm = [inputs.flats[index].view(torch.int64) for index in self.warm(inputs.storages)]

        def prepare() -> None:
            flush()
            for flat in warm:
                flat.bitwise_or_(0)  # reads and writes every line, and changes nothing
            torch.cuda.synchronize()  # so that a call begins on an idle GPU, however fast the host is

        return prepare

    def warm(self, storages: tuple[Storage, ...]) -> list[int]:
        """Places of the storages that were in the cache, the one used longest ago first."""
        if self.mode != "in-situ":
            return []
        near = {index: storage.reuse_bytes for index, storage in enumerate(storages)
                if storage.reuse_bytes is not None and storage.reuse_bytes < self.bytes
                and storage.device == "cuda"}  # fmt: skip
        return sorted(near, key=lambda index: -near[index])

    def cold(self, storages: tuple[Storage, ...]) -> list[int]:
        """Places of the storages that were not."""
        if self.mode == "hot":
            return []
        warm = set(self.warm(storages))
        return [index for index, storage in enumerate(storages) if storage.device == "cuda" and index not in warm]

    def _flush(self) -> Callable[[], Any]:
        if self._buffer is None:
            # It outlives the unit, and so the mode in which that runs.
            with torch.inference_mode(False):
                self._buffer = torch.ones(FLUSH_CACHES * self.bytes // 4, device=self._device)
                self._sum = torch.zeros((), device=self._device)
        buffer, total = self._buffer, self._sum
        return lambda: torch.sum(buffer, dim=0, out=total)


def cache_bytes(device: Any) -> int:
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or DEFAULT_BYTES
