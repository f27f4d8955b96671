"""The memory of a launch: its tensor arguments and their storages."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import NO_TENSOR, Reuse, TensorInfo
from warplens_lab.tracing.watching.patterns import Cells
from warplens_lab.tracing.watching.shadow import Shadow

Flags = npt.NDArray[np.bool_]


@dataclass
class TensorStorage:
    """Memory from `start` up to `end`; `unit` is the size of the smallest element that arguments see in it."""

    start: int
    end: int
    unit: int
    shadow: Shadow
    undefined_bytes: Flags | None
    identity: tuple[int, Any] | None = None
    """Address and weak reference of the caller's own storage, which may be copied for the launch."""

    def holds(self, first: int, cells: Cells, itemsize: int) -> bool:
        low = first + cells.low * itemsize
        return low >= self.start and first + (cells.high + 1) * itemsize <= self.end and not low % self.unit


class Memory:
    def __init__(self) -> None:
        self.tensors: list[TensorInfo] = []
        self.host_tensors: list[Any] = []
        self.storages: list[TensorStorage] = []
        self._starts: list[int] = []
        self._by_start: list[int] = []

    def add(self, name: str, tensor: Any, undefined: Flags | None, identity: tuple[int, Any] | None = None) -> int:
        """A tensor argument on the host; gives its number."""
        storage = tensor.untyped_storage()
        number = next((at for at, existing in enumerate(self.storages) if existing.start == storage.data_ptr()), None)
        if number is None:
            number = len(self.storages)
            start = storage.data_ptr()
            self.storages.append(
                TensorStorage(start, start + storage.nbytes(), 0, Shadow(0, None), undefined, identity)
            )
        info = TensorInfo(
            name,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset(),
            number,
            storage.nbytes(),
            tensor.element_size(),
        )
        self.tensors.append(info)
        self.host_tensors.append(tensor)
        return len(self.tensors) - 1

    def close(self) -> None:
        """All arguments, or those that came since, are known: shadows can be laid out."""
        for number, storage in enumerate(self.storages):
            if storage.unit:
                continue
            sizes = [info.itemsize for info in self.tensors if info.storage == number]
            storage.unit = int(np.gcd.reduce(sizes))
            units = -(-(storage.end - storage.start) // storage.unit)
            storage.shadow = Shadow(units, _per_unit(storage.undefined_bytes, storage.unit))
        order = sorted(range(len(self.storages)), key=lambda at: self.storages[at].start)
        self._by_start = order
        self._starts = [self.storages[at].start for at in order]

    def owner(self, tag: int | None, address: int) -> tuple[int, TensorStorage | None]:
        """The argument a pointer came from; where its origin is lost, the first argument whose memory it is in."""
        if tag is not None:
            return tag, self.storages[self.tensors[tag].storage]
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self.storages[self._by_start[at]].end:
            return NO_TENSOR, None
        number = self._by_start[at]
        tensor = next(argument for argument, info in enumerate(self.tensors) if info.storage == number)
        return tensor, self.storages[number]

    def name(self, tensor: int) -> str:
        return self.tensors[tensor].name if tensor != NO_TENSOR else "untracked memory"

    def start(self, tensor: int) -> int:
        info = self.tensors[tensor]
        return self.storages[info.storage].start + info.offset * info.itemsize

    def write_back_undefined(self, *, whole: bool) -> None:
        """What the launch has written is defined for the launches after it.

        Where not the whole of it was traced, all its tensors count as written.
        """
        for storage in self.storages:
            flags, left = storage.undefined_bytes, storage.shadow.undefined
            if flags is not None and not whole:
                flags[:] = False
            elif flags is not None and left is not None:
                flags &= np.repeat(left, storage.unit)[: len(flags)]

    def reuse(self) -> tuple[Reuse, ...]:
        rows = []
        for number, storage in enumerate(self.storages):
            names = tuple(info.name for info in self.tensors if info.storage == number)
            rows.append(Reuse(names, *(units * storage.unit for units in storage.shadow.used_units())))
        return tuple(rows)


def _per_unit(flags: Flags | None, unit: int) -> Flags | None:
    if flags is None or unit == 1:
        return None if flags is None else flags.copy()
    whole = np.pad(flags, (0, -len(flags) % unit))
    units: Flags = np.asarray(whole.reshape(-1, unit).any(axis=1))
    return units
