"""Access patterns of kernels as tiles to explore: of facts of a compilation, and of traced launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import PurePath

from warplens_lab.facts.records import Conversion, KernelFacts, SharedAccess, SourcePlace
from warplens_lab.layouts.accesses import AccessOptions
from warplens_lab.layouts.bases import Vector
from warplens_lab.layouts.memory import strides_of
from warplens_lab.layouts.reading import LARGEST, Tile, read_tile
from warplens_lab.scenes.kernel_scene import Pattern
from warplens_lab.tracing.records import KernelTrace, TracedLaunch
from warplens_run.base.errors import UsageError


@dataclass(frozen=True)
class Choice:
    """One access pattern of a kernel: its tiles, and the accesses to them."""

    label: str
    tiles: tuple[Tile, ...]
    accesses: tuple[str, ...] = ()
    options: AccessOptions = field(default_factory=AccessOptions)
    conflicts: int = 0


def choices_of_facts(facts: Sequence[KernelFacts]) -> list[Choice]:
    """Tiles in shared memory with all their accesses, then conversions between register layouts."""
    choices: list[Choice] = []
    for kernel in facts:
        groups: dict[tuple[str, Vector, int], list[SharedAccess]] = {}
        for access in kernel.shared:
            key = (access.layout, access.allocated or access.shape, access.element_bits)
            groups.setdefault(key, []).append(access)
        where = f"{kernel.kernel} on {kernel.target}"
        choices += [choice for key, group in groups.items() for choice in _shared(where, key, group)]
        choices += [choice for conversion in kernel.conversions for choice in _conversion(where, conversion)]
    return list({choice.label: choice for choice in choices}.values())


def _shared(where: str, key: tuple[str, Vector, int], group: Sequence[SharedAccess]) -> Iterator[Choice]:
    layout, shape, bits = key
    known: dict[str, tuple[str, Vector]] = {}
    for number, access in enumerate(group):
        name = f"{access.kind} {_place(access.place)}"
        text = "matrix" if access.kind == "load matrix" else access.registers
        if text:
            known[f"{text}@{number}"] = (name, access.shape)
    try:
        tile = read_tile(layout, shape, f"i{bits}")
    except UsageError:
        return  # a layout that is not modelled
    kinds = ", ".join(dict.fromkeys(f"{access.kind} {_place(access.place)}" for access in group))
    size = "×".join(map(str, shape))
    worst = max((access.conflicts or 0 for access in group), default=0)
    label = f"{where}: {size} of {bits} bits in shared memory ({kinds})"
    yield Choice(label, (tile,), tuple(known), AccessOptions(known=known), worst)


def _conversion(where: str, conversion: Conversion) -> Iterator[Choice]:
    try:
        element = f"i{conversion.element_bits}"
        layouts = (conversion.source, conversion.destination)
        tiles = tuple(read_tile(layout, conversion.shape, element) for layout in layouts)
    except UsageError:
        return
    size = "×".join(map(str, conversion.shape))
    moved = f"between {conversion.through}" if conversion.through != "unknown" else "of layout"
    yield Choice(f"{where}: conversion {moved} of {size} ({_place(conversion.place)})", tiles)


def choices_of_trace(trace: KernelTrace) -> list[Choice]:
    """The blocks that loads and stores move, as they would lie in shared memory."""
    choices = [choice for launch in trace.launches for choice in _blocks(launch)]
    return list({choice.label: choice for choice in choices}.values())


def _blocks(launch: TracedLaunch) -> Iterator[Choice]:
    events = launch.events
    if events is None:
        return
    rows = zip(events.site, events.op, events.tensor, events.pattern, strict=True)
    for site, op, tensor, number in dict.fromkeys(tuple(map(int, row)) for row in rows):
        pattern = launch.patterns[number] if number >= 0 else None
        if pattern is None or events.ops[op] not in ("load", "store") or not 1 < prod(pattern.shape) <= LARGEST:
            continue
        place = launch.sites[site]
        name = launch.tensors[tensor].name if tensor >= 0 else "memory"
        size = "×".join(map(str, pattern.shape))
        where = f"{PurePath(place.file).name}:{place.line}"
        yield Choice(
            f"{launch.kernel}: {events.ops[op]} of {size} of {name} ({where})", (_staged(pattern, name, where),)
        )


def _staged(pattern: Pattern, tensor: str, where: str) -> Tile:
    """The block in shared memory, its rows along what is adjacent in the tensor."""
    shape = pattern.shape
    order = tuple(reversed(range(len(shape))))
    note = f"the block of {tensor} at {where} as it would lie in shared memory"
    if pattern.strides is not None:
        steps = pattern.strides
        order = tuple(sorted(range(len(shape)), key=lambda dim: (shape[dim] == 1, abs(steps[dim]), -dim)))
        note += f"; in the tensor its strides are {', '.join(map(str, steps))}"
    strides = strides_of(shape, order)
    tile = read_tile(
        f"({','.join(map(str, shape))}):({','.join(map(str, strides))})", element=f"i{8 * pattern.itemsize}"
    )
    return _noted(tile, note)


def _noted(tile: Tile, note: str) -> Tile:
    return replace(tile, notes=(*tile.notes, note))


def _place(place: SourcePlace) -> str:
    return f"{PurePath(place.file).name}:{place.line}"


def chosen(choices: Sequence[Choice], number: int | None, source: str) -> Choice:
    """The one that is asked for, counted from 1; else the one with the most conflicts."""
    if not choices:
        raise UsageError(f"{source} has no tile in shared memory whose layout is modelled")
    if number is None:
        return max(choices, key=lambda choice: choice.conflicts)
    if not 1 <= number <= len(choices):
        raise UsageError(f"{source} has {len(choices)} access patterns, not {number}")
    return choices[number - 1]
