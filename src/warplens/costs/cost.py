"""`Cost`: what an op call must do at least, whatever kernel does it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MATRIX: Final = "matrix"
VECTOR: Final = "vector"
BETWEEN_GPUS: Final = "between GPUs"
"""The way of a copy whose links no trace describes."""
NO_LENGTHS: Final = "no lengths"
NO_WEIGHTS: Final = "no weights"
OTHER_ARGUMENTS: Final = "other arguments"
INNER_OPS: Final = "inner ops"


class Cost(Struct, frozen=True):
    """Floating-point operations (a multiply–add is 2) and bytes (each input read once, each output written once).

    `unit` says which kind of arithmetic unit does the work, `dtype` in which number type; `params` are the sizes that
    the family's formula took, in order. `approximate` says why the figures are not exact; empty where they are.
    """

    family: str
    flop: float
    bytes: float
    dtype: str
    unit: str = VECTOR
    params: tuple[tuple[str, int | str], ...] = ()
    approximate: str = ""
    is_loose: bool = False
    """An upper bound that may be far too high: left out of what is added up over a step."""

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flop / self.bytes if self.bytes else 0.0

    @property
    def params_text(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.params)
