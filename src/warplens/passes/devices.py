"""Devices: GPU work of more of them than a trace can have counts for all of them together."""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens.model.arrays import sorted_unique
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Trace

MOST_DEVICES: Final = 512
"""A host has 16, and a trace of many ranks some hundreds; each has tables of its own, which take some 10 ms."""


def limit_devices(trace: Trace) -> Trace:
    """Events of further devices have no device number; their times and streams stay."""
    gpu, device = trace.gpu_rows, trace.ints("device")
    numbers = sorted_unique(device[gpu].astype(np.int64))
    numbers = numbers[numbers >= 0]
    if len(numbers) <= MOST_DEVICES:
        return trace
    is_further = np.zeros(len(trace), bool)
    is_further[gpu] = device[gpu] > numbers[MOST_DEVICES - 1]
    note = Note("too_many_devices", int(is_further.sum()), f"{len(numbers):,}")
    return trace.with_columns(note, device=np.where(is_further, NONE, device))
