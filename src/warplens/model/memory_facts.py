"""`MemoryFacts`: what a capture notes of memory beside a snapshot (`memory.json` of a bundle).

Names of tensors by address, and what the allocator itself said at both ends of the window.
"""

from __future__ import annotations

from typing import Final

import msgspec
import polars as pl

from warplens.model.memory_snapshot import BLOCKS, EVENTS, FRAMES, SEGMENTS, STACKS, MemorySnapshot

VERSION: Final = 1
INT64: Final = 1 << 63


class Named(msgspec.Struct, frozen=True):
    """What the capture says of an address at a moment."""

    kind: str
    name: str
    module: str
    time_ns: int
    """As the history counts."""


class NamedTensor(msgspec.Struct, frozen=True):
    kind: str
    address: int
    device: int = 0
    name: str = ""
    module: str = ""
    """By the names of attributes: `GPT.layers.0`."""
    classes: str = ""
    """The same by classes, as traces name modules: `GPT/Block_*`; empty in bundles that do not record it."""
    state: str = ""
    """Which state of the optimizer."""
    bytes: int = 0
    time_ns: int = 0
    """Since 1970."""


class DeviceFacts(msgspec.Struct, frozen=True):
    max_memory_allocated: int | None = None
    max_memory_reserved: int | None = None
    start: dict[str, object] = {}
    """`torch.cuda.memory_stats` when the window began."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Address and size of the blocks in use when the window began."""


class MemoryFacts(msgspec.Struct, frozen=True):
    version: int = VERSION
    devices: dict[str, DeviceFacts] = {}
    tensors: tuple[NamedTensor, ...] = ()
    window_ns: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"version {self.version} is not known")
        times = [tensor.time_ns for tensor in self.tensors]
        if not all(-INT64 <= number < INT64 for number in [*times, *(tensor.address for tensor in self.tensors)]):
            raise ValueError("an impossible time or address")

    def of_device(self, device: str) -> DeviceFacts:
        return self.devices.get(device.removeprefix("GPU "), DeviceFacts())

    def names(self, device: str, origin_ns: int) -> dict[int, list[Named]]:
        """By address; times count from `origin_ns`."""
        names: dict[int, list[Named]] = {}
        for tensor in self.tensors:
            if f"GPU {tensor.device}" == device:
                name = f"{tensor.name} {tensor.state}".strip()
                named = Named(tensor.kind, name, tensor.classes or tensor.module, tensor.time_ns - origin_ns)
                names.setdefault(tensor.address, []).append(named)
        return names


def parse_facts(text: bytes) -> MemoryFacts:
    """Raises `msgspec.DecodeError` where it is not such a file."""
    return msgspec.json.decode(text, type=MemoryFacts)


class RecordedMemory(msgspec.Struct, frozen=True):
    """What was recorded of a run's memory beside its trace."""

    snapshot: MemorySnapshot
    facts: MemoryFacts = MemoryFacts()

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it could be read, or there was nothing."""
        return not len(self.snapshot.segments) and not len(self.snapshot.events)


def no_memory() -> RecordedMemory:
    """Nothing, with all columns."""
    segments, blocks, events, frames, stacks = map(pl.DataFrame, ((),) * 5, (SEGMENTS, BLOCKS, EVENTS, FRAMES, STACKS))
    return RecordedMemory(MemorySnapshot("", segments, blocks, events, frames, stacks))
