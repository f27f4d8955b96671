"""Who touched an element of a tensor, read from the events of a launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from warplens_lab.scenes.kernel_scene import Ints
from warplens_lab.tracing.records import Events, TensorInfo, TracedLaunch

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TracedAccess:
    """One event on a tensor: `elements` counts from the start of the storage, lane by lane."""

    program: int
    op: str
    site: int
    elements: Ints
    active: Bools


class Accesses:
    """The loads or the writes of a launch, tensor by tensor."""

    def __init__(self, launch: TracedLaunch) -> None:
        assert launch.events is not None
        self.launch = launch
        self._events: Events = launch.events
        self._relative = lru_cache(maxsize=None)(lambda at: launch.patterns[at].relative().reshape(-1))
        self._lanes = lru_cache(maxsize=None)(lambda at: launch.masks[at].lanes().reshape(-1))

    def of(self, tensor: int, *, writes: bool) -> Iterator[TracedAccess]:
        events = self._events
        ops = [at for at, op in enumerate(events.ops) if (op != "load") == writes]
        chosen = np.flatnonzero((events.tensor == tensor) & np.isin(events.op, ops))
        for row in chosen.tolist():
            elements = int(events.base[row]) + self._relative(int(events.pattern[row]))
            active = self._lanes(int(events.mask[row]))
            op = events.ops[int(events.op[row])]
            yield TracedAccess(int(events.program[row]), op, int(events.site[row]), elements, active)

    def touching(self, tensor: int, element: int, *, active: bool) -> list[TracedAccess]:
        """Writes of this element (counted from the start of the storage), or lanes on it that a mask switched off."""
        return [
            access
            for access in self.of(tensor, writes=True)
            if bool(((access.elements == element) & (access.active == active)).any())
        ]

    def read_by(self, program: int, tensor: int) -> Ints:
        """Elements of the storage that a program has loaded through this tensor, each once."""
        parts = [
            access.elements[access.active] for access in self.of(tensor, writes=False) if access.program == program
        ]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def times_read_by(self, program: int, tensor: int) -> float:
        """How often a program has loaded each of those elements, in the mean."""
        loads = [int(access.active.sum()) for access in self.of(tensor, writes=False) if access.program == program]
        return sum(loads) / max(1, self.read_by(program, tensor).size)

    def written(self, tensor: int) -> Bools:
        """One flag per element of the tensor's storage."""
        info = self.launch.tensors[tensor]
        flags = np.zeros(info.storage_bytes // info.itemsize, bool)
        for access in self.of(tensor, writes=True):
            flags[access.elements[access.active]] = True
        return flags


def tensor_number(launch: TracedLaunch, name: str) -> int:
    return next(at for at, info in enumerate(launch.tensors) if info.name == name)


def storage_elements(info: TensorInfo) -> Ints:
    """The position of each element of the tensor in its storage, in the shape of the tensor."""
    positions = np.full(info.shape, info.offset, np.int64)
    for axis, (size, stride) in enumerate(zip(info.shape, info.strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        positions += steps.reshape([-1 if dimension == axis else 1 for dimension in range(len(info.shape))])
    return positions
