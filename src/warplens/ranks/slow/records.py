"""`Straggler`, and the excess that makes a rank one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOST, GPU, DATA, NETWORK, IMBALANCE, UNCLEAR = "host", "GPU", "data", "network", "imbalance", "unclear"
CAUSES: Final = (HOST, GPU, DATA, NETWORK, IMBALANCE, UNCLEAR)
BEFORE_FIRST_STEP: Final = "before its first step"
"""Place of what made a rank late."""
EXPLAINS: Final = 0.8
"""A cause is named where it explains at least this share of the excess."""
LEAST_SHARE: Final = 0.02
"""Of the step: what costs less is not named."""
NOISE: Final = 4.0
"""How many times the usual differences between ranks an excess has to be."""


@dataclass(frozen=True)
class Excess:
    """What some ranks take longer than their peers, per step, from one step on."""

    positions: tuple[int, ...]
    first: int
    """Index of the step."""
    host_ns: float = 0.0
    gpu_ns: float = 0.0
    other_ns: float = 0.0

    @property
    def total_ns(self) -> float:
        return self.host_ns + self.gpu_ns + self.other_ns


@dataclass(frozen=True)
class Straggler:
    """A rank, or several that are slow alike, that the others wait for."""

    positions: tuple[int, ...]
    since: int
    """The first step."""
    cause: str
    excess_ms: float
    """What it takes longer than its peers, per step since then."""
    gain_ms: float
    """What the job's step would win without it, per step since then."""
    explained: float
    """Share of the excess that the cause explains."""
    place: str
    """The op, Python line or host event that takes longer there than elsewhere."""
    confidence: str
    what: str = ""
    excess: Excess | None = None
    """What is removed to find the gain, of ranks that are slow by themselves."""
    later_ms: float = 0.0
    """What the job's step would win without it once costlier stragglers are gone, where that is more."""
