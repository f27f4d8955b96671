"""Rows of a comparison's tables as records, for verdicts and outputs."""

from __future__ import annotations

from dataclasses import dataclass

BOTH = "both"
ONLY_A = "only in A"
ONLY_B = "only in B"


@dataclass(frozen=True)
class TimeDiff:
    """GPU time in A and in B."""

    a_us: float
    b_us: float
    delta_us: float
    ratio: float | None
    status: str


@dataclass(frozen=True)
class JudgedDiff(TimeDiff):
    """With what the runs' own spread explains; None where that is not known."""

    within_noise: bool | None
    noise_us: float | None


@dataclass(frozen=True)
class PartDiff(JudgedDiff):
    """A row of `diff_summary`."""

    part: str
    kind: str
    what_changed: str


@dataclass(frozen=True)
class MeasureDiff(JudgedDiff):
    """A row of `diff_timeline`."""

    measure: str


@dataclass(frozen=True)
class LayerDiff(JudgedDiff):
    """A row of `diff_layers`."""

    layer: str


@dataclass(frozen=True)
class CategoryDiff(JudgedDiff):
    """A row of `diff_categories`."""

    kernel_category: str
    a_count: float
    b_count: float


@dataclass(frozen=True)
class OpDiff(JudgedDiff):
    """A row of `diff_ops`."""

    op: str
    input_dims: str
    a_kernels: str | None
    b_kernels: str | None


@dataclass(frozen=True)
class HostOpDiff(JudgedDiff):
    """A row of `diff_host`."""

    op: str


@dataclass(frozen=True)
class NodeDiff(TimeDiff):
    """A row of `diff_tree`."""

    node: int
    parent: int | None
    depth: int
    name: str
