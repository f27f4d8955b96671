"""Values that no op refuses, for a unit that ended in an assert: values are not recorded, and a guess can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from warplens_run.formats.replay_plan import Fill, Storage, Unit

NOTE: Final = "run with safe values (indices 0, numbers between 0 and 1), because with others "
LEAST: Final = ("integers", "permutation")
"""Fills of which the least value is safe: an index of the first row."""
RANDOM: Final = ("normal", "rectified", "masked")
SHARE: Final = Fill("uniform", 0.01, 0.99)
"""In the range of probabilities, and of nothing that is divided by or below zero."""
WHOLE: Final = ("bool", "int", "uint")


def safe_values(unit: Unit) -> Unit:
    """The unit with such values. Offsets, lengths and constants stay: they obey their invariants already."""
    return replace(unit, storages=tuple(map(_storage, unit.storages)))


def _storage(storage: Storage) -> Storage:
    fill = storage.fill
    if fill.kind in LEAST:
        return replace(storage, fill=Fill("constant", fill.low))
    if fill.kind in RANDOM:
        return replace(storage, fill=Fill("constant", 0) if storage.dtype.startswith(WHOLE) else SHARE)
    return storage
