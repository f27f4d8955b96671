"""Tiles in shared memory: in which layout each is written and read, and how many bank conflicts that gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final

from warplens_lab.compiling.targets import CompileTarget
from warplens_lab.facts.ir import Module, Operation
from warplens_lab.facts.products import outer_loops
from warplens_lab.facts.records import Conversion, SharedAccess, SourcePlace
from warplens_lab.layouts.attributes import parse_attribute
from warplens_lab.layouts.banks import (
    BANKS,
    MATRIX_ROWS,
    WORD_BYTES,
    by_matrices,
    by_registers,
    conflicts,
    matrix_conflicts,
    vector_elements,
    wavefronts,
)
from warplens_lab.layouts.bases import Bases
from warplens_lab.layouts.memory import UNSWIZZLED, Offsets, shared_offsets, swizzled
from warplens_lab.layouts.registers import moves_between, register_bases
from warplens_lab.layouts.searching import best_padding, best_swizzle
from warplens_lab.layouts.types import TensorType, parse_type

_KINDS: Final = {
    "ttg.local_load": "load",
    "ttg.local_store": "store",
    "ttg.local_alloc": "store",
    "ttg.async_copy_global_to_local": "async copy",
}


@dataclass(frozen=True)
class _Use:
    """One access with all that the model needs."""

    place: SourcePlace
    kind: str
    layout: str
    registers: str
    tile: TensorType
    bases: Bases | None
    order: tuple[int, ...]
    in_loop: bool

    def count(self, offsets: Offsets, banks: int) -> int | None:
        if self.kind == "load matrix":
            return matrix_conflicts(offsets, self.tile.shape, self.order, self.tile.element_bits)
        return conflicts(offsets, self.bases, self.tile.element_bits, banks) if self.bases else None

    def wavefronts(self, offsets: Offsets, banks: int) -> tuple[int, int] | tuple[None, None]:
        """Passes that the whole tile takes, and those that it would take without conflicts."""
        bits = self.tile.element_bits
        if self.kind == "load matrix":
            # Each matrix is a wavefront. Where they begin repeats, so a part of the tile speaks for all of it.
            sample = wavefronts(by_matrices(self.tile.shape, self.order, bits), offsets, bits)
            needed = -(-prod(self.tile.shape) * bits // (8 * BANKS * WORD_BYTES))
            passes = needed * sample.passes // max(sample.wavefronts, 1) if sample else 0
        else:
            sample = wavefronts(by_registers(self.bases), offsets, bits, banks) if self.bases else None
            passes, needed = (sample.passes, sample.wavefronts) if sample else (0, 0)
        return (passes, needed) if passes else (None, None)


def shared_accesses(lowered: Module, target: CompileTarget) -> tuple[SharedAccess, ...]:
    uses = list(dict.fromkeys(_uses(lowered, target)))
    groups: dict[tuple[str, tuple[int, ...]], list[_Use]] = {}
    for use in uses:
        groups.setdefault((use.layout, use.tile.allocated), []).append(use)
    # The pipeliner repeats a loop's accesses before and after it: those count once, as the loop's.
    in_loops: dict[SharedAccess, bool] = {}
    registers: dict[SharedAccess, str] = {}
    for group in groups.values():
        for access in _measured(group, target):
            same = replace(access, in_loop=False, registers="")
            in_loops[same] = in_loops.get(same, False) or access.in_loop
            registers.setdefault(same, access.registers)
    merged = [replace(one, in_loop=in_loop, registers=registers[one]) for one, in_loop in in_loops.items()]
    return tuple(sorted(merged, key=lambda access: (access.place, access.kind, access.layout)))


def _uses(lowered: Module, target: CompileTarget) -> Iterator[_Use]:
    for operation in lowered.named(*_KINDS):
        pair = _types(operation)
        if pair is None or operation.place is None:
            continue
        registers, memory = pair
        layout = lowered.layout(memory.layout)
        distributed = lowered.layout(registers.layout)
        if len(memory.shape) != 2:
            continue
        order = _order(layout)
        kind = _KINDS[operation.name]
        if kind == "load" and target.is_nvidia and _is_matrix_load(distributed, memory, order):
            kind = "load matrix"
        bases = register_bases(distributed, memory.shape)
        yield _Use(operation.place, kind, layout, distributed, memory, bases, order, operation.in_loop)


def _types(operation: Operation) -> tuple[TensorType, TensorType] | None:
    """The tensor's type and the memory's, whichever way it goes."""
    first, arrow, second = operation.types.partition(" -> ")
    if not arrow:
        return None
    source, destination = parse_type(first.strip("() ")), parse_type(second)
    if source is None or destination is None or source.shape != destination.shape:
        return None
    return (destination, source) if operation.name == "ttg.local_load" else (source, destination)


def _order(layout: str) -> tuple[int, ...]:
    values = parse_attribute(layout).values
    turned = values.get("order") == "[0, 1]" or values.get("transposed") == "true"
    return (0, 1) if turned else (1, 0)


def _is_matrix_load(distributed: str, memory: TensorType, order: Sequence[int]) -> bool:
    """`ldmatrix` feeds operands of mma.sync: any order for 16-bit elements, rows along K for the others."""
    operand = parse_attribute(distributed)
    values = operand.values
    if operand.kind != "dot_op" or memory.shape[order[1]] < MATRIX_ROWS:
        return False
    parent = parse_attribute(values.get("parent", "")).kind
    along_k = 1 if values.get("opIdx") == "0" else 0
    # It gives each lane one word: the operand must need neighbours along K in words, too.
    in_words = values.get("kWidth") == str(32 // max(memory.element_bits, 1))
    return parent == "nvidia_mma" and in_words and (memory.element_bits == 16 or order[0] == along_k)


def _measured(group: Sequence[_Use], target: CompileTarget) -> Iterator[SharedAccess]:
    """All accesses of one kind of tile: another layout must serve its writers and its readers alike."""
    tile, order = group[0].tile, group[0].order
    banks = target.banks
    # AMD's wide accesses go in groups of lanes that are not documented.
    is_modelled = target.is_nvidia
    offsets = shared_offsets(group[0].layout, tile.allocated, tile.element_bits) if is_modelled else None
    counts = [use.count(offsets, banks) if offsets else None for use in group]
    has_conflicts = any(counts)
    plain = swizzled(UNSWIZZLED, tile.allocated, order)
    padding, by_padding, by_swizzle = 0, None, None
    if has_conflicts:
        search = (tile.allocated, order, tile.element_bits, partial(_total, group, banks))
        padding, by_padding = best_padding(*search)
        by_swizzle = best_swizzle(*search)[1]
    for use, count in zip(group, counts, strict=True):
        bits = vector_elements(offsets, use.bases, tile.element_bits) if offsets and use.bases else 0
        passes, needed = use.wavefronts(offsets, banks) if offsets else (None, None)
        yield SharedAccess(
            place=use.place,
            kind=use.kind,
            layout=use.layout,
            shape=use.tile.shape,
            element_bits=tile.element_bits,
            vector_bits=128 if use.kind == "load matrix" else bits * tile.element_bits,
            conflicts=count,
            conflicts_unswizzled=use.count(plain, banks) if is_modelled else None,
            conflicts_padded=use.count(by_padding, banks) if by_padding else None,
            padding=padding,
            conflicts_swizzled=use.count(by_swizzle, banks) if by_swizzle else None,
            in_loop=use.in_loop,
            allocated=tile.allocated,
            registers=use.registers,
            wavefronts=passes,
            wavefronts_needed=needed,
        )


def _total(group: Sequence[_Use], banks: int, offsets: Offsets) -> int:
    counts = [(use, use.count(offsets, banks)) for use in group]
    # Rows that `ldmatrix` cannot read are worse than any conflict.
    return sum(count if count is not None else banks * (use.kind == "load matrix") for use, count in counts)


def conversions(lowered: Module) -> tuple[Conversion, ...]:
    distinct: dict[Conversion, None] = {}
    outer = outer_loops(lowered)
    for operation in lowered.named("ttg.convert_layout"):
        first, _, second = operation.types.partition(" -> ")
        source, destination = parse_type(first), parse_type(second)
        if source is None or destination is None or operation.place is None:
            continue
        layouts = lowered.layout(source.layout), lowered.layout(destination.layout)
        conversion = Conversion(
            place=operation.place,
            source=layouts[0],
            destination=layouts[1],
            shape=source.shape,
            element_bits=source.element_bits,
            in_loop=operation.in_loop,
            through=moves_between(*layouts, source.shape),
            in_every_turn=operation.in_loop and operation.loops[-1] not in outer and not operation.in_branch,
        )
        distinct[conversion] = None
    return tuple(sorted(distinct, key=lambda conversion: conversion.place))
