"""A unit's storages, filled, with the tensors in them and the copies that restore what the op changes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from warplens_run.formats.replay_plan import Storage, TensorView, Unit
from warplens_run.replay.faults import UnitRefused
from warplens_run.replay.fills import dtype_of, fill

GIB = 1 << 30


class Inputs:
    """`flats[i]` is storage i as bytes."""

    def __init__(self, storages: tuple[Storage, ...], flats: list[Any], pristine: dict[int, Any]) -> None:
        self.storages = storages
        self.flats = flats
        self._pristine = pristine

    @classmethod
    def build(cls, unit: Unit, device: Any, seed: int) -> Inputs:
        flats = [_allocate(storage, device) for storage in unit.storages]
        for index, (storage, flat) in enumerate(zip(unit.storages, flats, strict=True)):
            fill(flat, storage, seed, f"{unit.id}/{index}")
        pristine = {index: flats[index].clone() for index, storage in enumerate(unit.storages) if storage.written}
        release_memory(device)  # what filling them left over
        return cls(unit.storages, flats, pristine)

    def tensor(self, record: TensorView) -> Any:
        flat = self.flats[record.storage]
        dtype = dtype_of(record.dtype)
        elements = flat[: flat.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        return torch.as_strided(elements, record.shape, record.stride, record.offset)

    def reset(self) -> None:
        """Sets back what the op changes."""
        for flat, original in self.changed():
            flat.copy_(original)

    def changed(self) -> list[tuple[Any, Any]]:
        """Each storage that the op changes, with what it was."""
        return [(self.flats[index], original) for index, original in self._pristine.items()]

    def with_copies(self, indices: Collection[int]) -> Inputs:
        """The same with storages of its own at those places."""
        flats = [flat.clone() if index in indices else flat for index, flat in enumerate(self.flats)]
        return Inputs(self.storages, flats, self._pristine)


def _allocate(storage: Storage, device: Any) -> Any:
    size = -(-storage.bytes // 8) * 8
    if storage.device == "cuda" or device.type == "cpu":
        return torch.empty(size, dtype=torch.uint8, device=device)
    return torch.empty(size, dtype=torch.uint8, pin_memory=storage.pinned)


def needed_bytes(unit: Unit, device: Any) -> int:
    """On the device, with the copies that set back what changes."""
    return sum(storage.bytes * (2 if storage.written else 1)
               for storage in unit.storages if storage.device == "cuda" or device.type == "cpu")  # fmt: skip


def check_memory(unit: Unit, device: Any) -> None:
    needed = needed_bytes(unit, device)
    release_memory(device)
    free = free_bytes(device)
    if free is not None and needed > free:
        raise UnitRefused(f"needs {needed / GIB:.1f} GiB, {free / GIB:.1f} GiB are free")


def release_memory(device: Any) -> None:
    """A tensor's address must not depend on the units before it: memory-bound kernels differ by up to 9 % with it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def free_bytes(device: Any) -> int | None:
    """None if the machine does not report it."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(cached)
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
