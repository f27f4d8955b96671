"""What the lab's pages are handed; TypeScript's types are made from these records, and those of the report's page."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from warplens.outputs.html.records import ColumnSpec, PageHeader
from warplens_lab.scenes.kernel_code import CompilationFacts
from warplens_lab.scenes.kernel_scene import LaunchFacts, MaskFacts, PatternFacts, TensorFacts
from warplens_lab.scenes.layout_scene import LayoutAccessFacts, LayoutPanelFacts


class PackedText(msgspec.Struct, frozen=True):
    """One text of a compilation."""

    kind: str
    text: int
    chains: ColumnSpec
    bookkeeping: ColumnSpec


@dataclass(frozen=True, kw_only=True)
class PackedCheck(CompilationFacts):
    """A compilation with its texts."""

    texts: list[PackedText]


class CodeHeader(PageHeader, frozen=True, kw_only=True):
    """The page of compiled kernels."""

    notes: list[str]
    checks: list[PackedCheck]


@dataclass(frozen=True, kw_only=True)
class PackedTensor(TensorFacts):
    """A tensor with its values before and after the launch."""

    before: ColumnSpec | None
    after: ColumnSpec | None


@dataclass(frozen=True, kw_only=True)
class PackedPattern(PatternFacts):
    """A pattern of offsets."""

    offsets: ColumnSpec | None


@dataclass(frozen=True, kw_only=True)
class PackedMask(MaskFacts):
    """A mask of lanes."""

    bits: ColumnSpec | None


class PackedEvents(msgspec.Struct, frozen=True):
    """The operations of a launch."""

    ops: list[str]
    shapes: list[list[int]]
    columns: dict[str, ColumnSpec]
    values: list[ColumnSpec | None]


@dataclass(frozen=True, kw_only=True)
class PackedLaunch(LaunchFacts):
    """A launch."""

    tensors: list[PackedTensor]
    patterns: list[PackedPattern]
    masks: list[PackedMask]
    events: PackedEvents | None


class KernelHeader(PageHeader, frozen=True, kw_only=True):
    """The page of traced launches."""

    triton: str
    mode: str
    sampling: str
    notes: list[str]
    fault_kinds: dict[str, str]
    """What each kind of fault means."""
    launches: list[PackedLaunch]


@dataclass(frozen=True, kw_only=True)
class PackedLayoutAccess(LayoutAccessFacts):
    """An access: an entry of `lanes` for every lane of every instruction."""

    lanes: dict[str, ColumnSpec]
    cells: ColumnSpec
    """Elements of each of these lanes, `vector` a piece, counted along the rows."""


@dataclass(frozen=True, kw_only=True)
class PackedLayoutPanel(LayoutPanelFacts):
    """A tile with its elements' places in memory, or with what threads hold."""

    offsets: ColumnSpec | None
    held: ColumnSpec | None
    accesses: list[PackedLayoutAccess]


class LayoutHeader(PageHeader, frozen=True, kw_only=True):
    """The page of layouts."""

    banks: int
    notes: list[str]
    panels: list[PackedLayoutPanel]
