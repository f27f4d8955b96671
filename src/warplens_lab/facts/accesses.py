"""The loads and stores of global memory in the source, joined with the instructions they became."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from warplens_lab.compiling.signature import Signature
from warplens_lab.facts.ir import Module, Operation
from warplens_lab.facts.locations import Frames, users_place
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import Access
from warplens_lab.facts.widths import amd_access, ptx_access
from warplens_lab.layouts.registers import register_bases
from warplens_lab.layouts.types import TensorType, parse_type, split_outer

WIDEST_BITS: Final = 128
_STRIDE: Final = ".stride."
"""In the names of the arguments that a descriptor is taken apart into."""


@dataclass(frozen=True)
class _Form:
    """How an operation that touches global memory is written: which operands are its address and its mask."""

    kind: str
    address: tuple[int, ...] = (0,)
    mask: int | None = None


FORMS: Final[Mapping[str, _Form]] = {
    "tt.load": _Form("load", mask=1),
    "tt.store": _Form("store", mask=2),
    "tt.atomic_rmw": _Form("atomic", mask=2),
    "tt.atomic_cas": _Form("atomic"),
    "tt.descriptor_load": _Form("tma copy"),
    "tt.descriptor_gather": _Form("tma copy"),
    "tt.descriptor_store": _Form("tma store"),
    "ttg.async_copy_global_to_local": _Form("async copy", mask=2),
    "ttng.async_tma_copy_global_to_local": _Form("tma copy"),
    "ttng.async_tma_copy_local_to_global": _Form("tma store"),
    "amdg.buffer_load": _Form("load", address=(0, 1), mask=2),
    "amdg.buffer_store": _Form("store", address=(1, 2), mask=3),
    "amdg.buffer_load_to_local": _Form("async copy", address=(1, 2), mask=3),
    "amdg.buffer_atomic_rmw": _Form("atomic", address=(1, 2), mask=3),
}
ASYNC: Final = frozenset(name for name, form in FORMS.items() if form.kind in ("async copy", "tma copy"))
LOADS: Final = frozenset(name for name, form in FORMS.items() if form.kind in ("load", "async copy", "tma copy"))
Widths = Mapping[Frames, Counter[tuple[str, int]]]


def instruction_widths(instructions: Iterable[Instruction], is_nvidia: bool) -> Widths:
    """Kind and bits of every instruction that touches global memory, by the places it comes from, innermost first."""
    widths: dict[Frames, Counter[tuple[str, int]]] = {}
    for instruction in instructions:
        access = ptx_access(instruction.name, instruction.text) if is_nvidia else amd_access(instruction.name)
        if access and instruction.frames:
            widths.setdefault(instruction.frames, Counter())[access] += 1
    return widths


def accesses(source: Module, lowered: Module, widths: Widths, signature: Signature, threads: int) -> tuple[Access, ...]:
    """One record per access of the source, and per call where a helper makes it.

    `source` is TTIR: masks there are the user's, not the pipeliner's.
    """
    names = argument_names(source, signature)
    kinds = _kinds(lowered)
    by_chain: dict[Frames, Access] = {}
    for operation in source.named(*FORMS):
        chain = _users_chain(operation.frames)
        if chain and chain not in by_chain:
            by_chain[chain] = _access(operation, chain, source, names, kinds, widths, threads)
    return tuple(by_chain[chain] for chain in sorted(by_chain))


def _users_chain(frames: Frames) -> Frames:
    """The access and the calls that lead to it, without Triton's own library."""
    first = users_place(frames)
    return () if first is None else tuple(frames[frames.index(first) :])


def argument_names(module: Module, signature: Signature) -> dict[str, str]:
    """The parameters behind the function's arguments; constants are not arguments of the compiled function."""
    names = [a.name for a in signature.arguments if not a.is_constant and not a.is_one]
    if len(names) == len(module.arguments):
        return dict(zip(module.arguments, names, strict=True))
    return {name: name.removeprefix("%").partition(".")[0] for name in module.arguments}


def _kinds(lowered: Module) -> dict[Frames, str]:
    """What an access became, by its calls and by its place alone: the first form that is not the plain one wins."""
    kinds: dict[Frames, str] = {}
    for operation in lowered.named(*FORMS):
        chain = _users_chain(operation.frames)
        kind = FORMS[operation.name].kind
        for key in {chain, chain[:1]} if chain else ():
            if key not in kinds or kind in ("async copy", "tma copy"):
                kinds[key] = kind
    return kinds


def _access(
    operation: Operation,
    chain: Frames,
    module: Module,
    names: Mapping[str, str],
    kinds: Mapping[Frames, str],
    widths: Widths,
    threads: int,
) -> Access:
    form = FORMS[operation.name]
    address = [operation.operands[at] for at in form.address if at < len(operation.operands)]
    mask = form.mask is not None and len(operation.operands) > form.mask
    needed = [*address, operation.operands[form.mask]] if mask and form.mask is not None else address
    behind_address, _ = _behind(module, address)
    reached, is_indirect = _behind(module, needed)
    pointers = sorted(name for name in behind_address if _is_pointer(module, name))
    tile = _tile(operation)
    kind = kinds.get(chain) or kinds.get(chain[:1], form.kind)
    counted = _counted(widths, operation, form.kind)
    listed = sorted(names[name] for name in reached)
    divisible = {names[name] for name in module.divisible}
    strided = _with_strides(module, behind_address)
    # TMA's descriptors carry their alignment; of those that became strides a launch states nothing.
    in_doubt = [] if form.kind.startswith("tma") else [name for name in listed if name not in strided]
    undivided = [name for name in in_doubt if name not in divisible and _may_divide(module, names, name)]
    return Access(
        place=chain[0],
        kind=kind,
        argument="|".join(names[name] for name in pointers),
        element=tile.element,
        element_bits=tile.element_bits,
        shape=tile.shape,
        is_masked=mask,
        is_indirect=is_indirect,
        in_loop=operation.in_loop,
        width_bits=max(counted, key=lambda bits: (counted[bits], bits)) if counted else 0,
        narrowest_bits=min(counted, default=0),
        best_bits=best_bits(tile, threads, module.layout(tile.layout) if tile.layout else ""),
        instructions=sum(counted.values()),
        depends_on=tuple(listed),
        undivided=tuple(undivided),
        undivided_address=tuple(n for n in undivided if n in {names[name] for name in behind_address}),
        callers=chain[1:],
        by_strides=bool(strided),
    )


def _behind(module: Module, values: Iterable[str]) -> tuple[set[str], bool]:
    """The arguments that values are computed from, and whether loaded values are among what they depend on."""
    reached: set[str] = set()
    is_indirect = False
    for value in values:
        arguments, stopped = module.sources(value, LOADS)
        reached |= arguments
        is_indirect |= stopped
    return reached, is_indirect


def _with_strides(module: Module, arguments: Iterable[str]) -> set[str]:
    """Parameters that are descriptors of the host's, but for the compiled function a pointer and its strides."""
    parts = (name.partition(_STRIDE) for name in arguments)
    return {
        name.removeprefix("%")
        for name, is_stride, _ in parts
        if is_stride and name in module.arguments and module.arguments[name].startswith("!tt.ptr")
    }


def best_bits(tile: TensorType, threads: int, layout: str = "") -> int:
    """What one instruction of a thread could move: its share of the tile, up to 128 bits.

    Gluon's sources say in a layout what a thread holds; no instruction moves more than its neighbours there.
    """
    if not tile.shape:
        return tile.element_bits
    elements = max(tile.elements // max(threads, 1), 1)
    bases = register_bases(layout, tile.shape) if layout else None
    if bases is not None:
        registers = set(bases.register)
        elements = min(elements, max(_run(registers, dim, len(tile.shape)) for dim in range(len(tile.shape))))
    return min(elements * tile.element_bits, WIDEST_BITS)


def _run(registers: set[tuple[int, ...]], dim: int, rank: int) -> int:
    """Elements side by side along a dimension in the registers of one thread."""
    count = 1
    while tuple(count if at == dim else 0 for at in range(rank)) in registers:
        count *= 2
    return count


def _tile(operation: Operation) -> TensorType:
    """The accessed tile, by the first type that has elements."""
    for part in re.split(r" -> ", operation.types):
        for piece in split_outer(part):
            tile = parse_type(piece)
            if tile is not None and (tile.shape or "ptr" in piece):
                return tile
    return TensorType((), "", "")


def _counted(widths: Widths, operation: Operation, kind: str) -> Counter[int]:
    instruction_kind = {"async copy": "load", "tma copy": "load", "tma store": "store"}.get(kind, kind)
    frames = operation.frames
    exact = _of_kind([widths.get(frames, {})], instruction_kind)
    # Where the assembly does not record calls, every call of a helper has the widths of its line.
    return exact or _of_kind([counts for at, counts in widths.items() if at[:1] == frames[:1]], instruction_kind)


def _of_kind(counts: Iterable[Mapping[tuple[str, int], int]], wanted_kind: str) -> Counter[int]:
    by_bits: Counter[int] = Counter()
    for (kind, bits), count in (item for widths in counts for item in widths.items()):
        if kind == wanted_kind and bits:
            by_bits[bits] += count
    return by_bits


def _is_pointer(module: Module, argument: str) -> bool:
    return module.arguments[argument].startswith(("!tt.ptr", "!tt.tensordesc"))


def _may_divide(module: Module, names: Mapping[str, str], name: str) -> bool:
    kinds = [kind for argument, kind in module.arguments.items() if names[argument] == name]
    return any(kind.startswith(("!tt.ptr", "i")) and kind != "i1" for kind in kinds)
