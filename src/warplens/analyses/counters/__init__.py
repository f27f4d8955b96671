"""Readings of a GPU over time (power, clocks …): `readings` averages them over windows, `tables` has the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warplens.analyses.workspace import Workspace

NEEDS_COUNTERS: Final = (
    "counters of the GPU, which `warplens profile --counters` and `nsys profile --gpu-metrics-devices` sample"
)


def has_counters(work: Workspace) -> bool:
    """Whether a capture sampled the GPUs beside the trace."""
    return work.trace.counters.height > 0
