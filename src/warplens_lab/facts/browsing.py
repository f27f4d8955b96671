"""Which line of the user's Python each line of the compiler's texts comes from: for a browser that links them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.facts.llvm import llvm_frames
from warplens_lab.facts.locations import Frames, Locations, users_place
from warplens_lab.facts.machine import Instruction, read_amdgcn, read_ptx, read_sass

_WARP_GROUP_PRODUCT = re.compile(r"[A-Z]GMMA\.(\d+)x(\d+)x(\d+)")
_PTX_PRODUCT = re.compile(r"wgmma\.mma_async\..*?m(\d+)n(\d+)k(\d+)")


def line_frames(artefacts: Artefacts) -> dict[str, list[Frames]]:
    """By kind of text: the places that each of its lines comes from, innermost first; none for debug information."""
    by_kind: dict[str, list[Frames]] = {}
    for kind, text in artefacts.texts.items():
        if kind in ("ttir", "ttgir"):
            frames = mlir_frames(text)
        elif kind == "llir":
            frames = llvm_frames(text)
        elif kind == "ptx":
            frames = _by_line(read_ptx(text), text)
        elif kind in ("sass", "amdgcn"):
            frames = _by_line(machine_code(artefacts), text)
        else:
            continue
        # Line 0 says that the compiler made it up.
        by_kind[kind] = [tuple(place for place in frame if place.line > 0) for frame in frames]
    return by_kind


def users_frames(frames: Frames) -> Frames:
    """Those that are not in Triton's own library."""
    places = (users_place(frames[at:]) for at in range(len(frames)))
    return tuple(dict.fromkeys(place for place in places if place is not None))


def machine_code(artefacts: Artefacts) -> list[Instruction]:
    """The instructions that the GPU runs; none where this Triton brings no disassembler."""
    texts = artefacts.texts
    if not artefacts.target.is_nvidia:
        return read_amdgcn(texts.get("amdgcn", ""))
    return with_places_of_products(read_sass(texts.get("sass", "")), read_ptx(texts.get("ptx", "")))


def with_places_of_products(machine: Sequence[Instruction], assembly: Iterable[Instruction]) -> list[Instruction]:
    """NVIDIA's assembler gives products of warp groups the line of the instruction above them.

    Where PTX has the same products in the same order, its lines count.
    """
    ptx_products = [
        (match.groups(), instruction.frames)
        for instruction in assembly
        if (match := _PTX_PRODUCT.match(instruction.name))
    ]
    machine_products = {
        at: match.groups()
        for at, instruction in enumerate(machine)
        if (match := _WARP_GROUP_PRODUCT.match(instruction.name))
    }
    if list(machine_products.values()) != [shape for shape, _ in ptx_products]:
        return list(machine)
    frames = {at: ptx_frames for at, (_, ptx_frames) in zip(machine_products, ptx_products, strict=True)}
    return [
        replace(instruction, frames=frames[at]) if at in frames else instruction
        for at, instruction in enumerate(machine)
    ]


def mlir_frames(text: str) -> list[Frames]:
    """An operation with a region has its location after the region: its first line has the same place."""
    lines = text.splitlines()
    locations = Locations(text)
    frames: list[Frames] = [()] * len(lines)
    open_regions: list[list[int]] = []
    for at, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("#"):
            continue
        closes, opens = stripped.startswith("}"), stripped.endswith("{")
        if closes and open_regions:
            open_regions[-1].append(at)
            if not opens:
                own = locations.frames(_location(stripped))
                for position in open_regions.pop():
                    frames[position] = own
        elif opens:
            open_regions.append([at])
        elif stripped.startswith("^") and open_regions:
            open_regions[-1].append(at)
        else:
            frames[at] = locations.frames(_location(stripped))
    return frames


def _location(line: str) -> str:
    """
    >>> _location("%x = tt.load %p : f32 loc(callsite(#loc1 at #loc2))")
    'callsite(#loc1 at #loc2)'
    """
    _, mark, rest = line.rpartition(" loc(")
    return rest[:-1] if mark and rest.endswith(")") else ""


def _by_line(instructions: Iterable[Instruction], text: str) -> list[Frames]:
    by_position = {instruction.position: instruction.frames for instruction in instructions}
    return [by_position.get(at, ()) for at in range(len(text.splitlines()))]
