"""A GPU and its ceilings: what the data sheet promises and, where somebody measured it, what can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

UNITS = ("matrix", "vector")
"""`matrix`: tensor cores and matrix cores; `vector`: the ordinary arithmetic units."""

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")

# Units used instead, in this order, where a GPU has no figure of its own. Matrix figures have none: fp32 without
# TF32, or bf16 on a V100, runs on other units altogether, and which ones is for the caller to say.
FALLBACKS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("vector", "bf16"): ("fp16", "fp32"),
    ("vector", "fp16"): ("fp32",),
}


class Peak(NamedTuple):
    """A ceiling; `measured` says that it was reached once, not only promised."""

    value: float
    measured: bool


@dataclass(frozen=True)
class Rates:
    """Bandwidth in TB/s and dense TFLOP/s (TOP/s for int8) by data type; 0.0 or no key where unknown."""

    bandwidth_tbps: float = 0.0
    # Dictionaries have no hash; the other fields give one, so that a Gpu can key a cache.
    matrix: Mapping[str, float] = field(default_factory=dict, hash=False)
    vector: Mapping[str, float] = field(default_factory=dict, hash=False)

    def of(self, unit: str) -> Mapping[str, float]:
        return {"matrix": self.matrix, "vector": self.vector}[unit]


@dataclass(frozen=True)
class FusedAttention:
    """TFLOP/s of one back-end of fused attention, by width of a head, on long sequences; forward and backward.

    Counted as `warplens.costs.attention` counts: the softmax and what is computed again are left out.
    """

    backend: str
    dtypes: tuple[str, ...]
    widths: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    half_length: float
    """Sequences of this length reach half of the rate."""

    def tflops(self, width: float, length: float, *, backward: bool) -> float:
        """For heads of a width between two measured ones the rate is between theirs."""
        rates = self.backward if backward else self.forward
        above = next((place for place, known in enumerate(self.widths) if known >= width), len(self.widths) - 1)
        below = max(0, above - (self.widths[above] > width))
        span = self.widths[above] - self.widths[below]
        share = min(1.0, max(0.0, (width - self.widths[below]) / span)) if span else 0.0
        rate = rates[below] + share * (rates[above] - rates[below])
        return rate * length / (length + self.half_length)


@dataclass(frozen=True)
class Gpu:
    """One GPU as a program sees it (of a card with two, one). Numbers that are not published are 0."""

    name: str
    vendor: str
    architecture: str
    match: tuple[str, ...]
    memory_gb: float
    multiprocessors: int
    l2_mb: float
    host_link_gbps: float
    max_threads_per_multiprocessor: int
    datasheet: Rates
    achievable: Rates
    source: str
    measured: str
    infinity_cache_mb: float = 0.0
    aliases: tuple[str, ...] = ()
    fused_attention: tuple[FusedAttention, ...] = ()
    """What back-ends of fused attention reach, where that was measured."""

    def bandwidth_tbps(self) -> Peak:
        """The measured memory bandwidth where there is one, else the data sheet's."""
        if self.achievable.bandwidth_tbps:
            return Peak(self.achievable.bandwidth_tbps, measured=True)
        return Peak(self.datasheet.bandwidth_tbps, measured=False)

    def peak_tflops(self, unit: str, dtype: str) -> Peak | None:
        """The ceiling of one of `UNITS` for one of `DTYPES`; None where the GPU has no such unit."""
        for name in (dtype, *FALLBACKS.get((unit, dtype), ())):
            for rates, measured in ((self.achievable, True), (self.datasheet, False)):
                if name in rates.of(unit):
                    return Peak(rates.of(unit)[name], measured)
        return None
