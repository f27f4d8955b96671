"""The values of a store beside what is in memory: whether a second write to an element changes it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Units = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stored:
    """A store that is about to happen; the element type is the one of the memory."""

    pointers: npt.NDArray[np.uint64]
    mask: Bools
    values: npt.NDArray[Any]

    def active(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
        """Addresses and bits of the lanes that are stored."""
        shape = self.pointers.shape
        mask = np.broadcast_to(self.mask, shape)
        bits = np.ascontiguousarray(np.broadcast_to(self.values, shape)[mask])
        return self.pointers[mask], bits.view(f"u{bits.dtype.itemsize}") if bits.dtype.itemsize in (
            1,
            2,
            4,
            8,
        ) else bits

    def changing(self, units: Units, start: int, unit: int) -> Units:
        """Those of the units, counted from `start`, that the store gives another value than they have."""
        addresses, bits = self.active()
        width = bits.dtype.itemsize // unit
        own = (addresses.astype(np.int64) - start) // unit
        chosen = np.isin(own, np.unique(units // width * width) if width > 1 else units)
        before = bits_at(addresses[chosen], bits.dtype)
        changed = own[chosen][before != bits[chosen]]
        if width > 1:
            changed = (changed[:, None] + np.arange(width)).reshape(-1)
        result: Units = units[np.isin(units, changed)]
        return result

    def colliding(self) -> tuple[int, int] | None:
        """The first address that two lanes give different values, and how many there are."""
        addresses, bits = self.active()
        order = np.argsort(addresses, kind="stable")
        addresses, bits = addresses[order], bits[order]
        clash = (addresses[1:] == addresses[:-1]) & (bits[1:] != bits[:-1])
        if not clash.any():
            return None
        at = addresses[1:][clash]
        return int(at[0]), len(np.unique(at))


def bits_at(addresses: npt.NDArray[np.uint64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What memory holds at these addresses."""
    if not addresses.size:
        return np.zeros(0, dtype)
    low, high = int(addresses.min()), int(addresses.max()) + dtype.itemsize
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    places = (addresses.astype(np.int64) - low)[:, None] + np.arange(dtype.itemsize)
    return np.ascontiguousarray(memory[places]).view(dtype).reshape(-1)
