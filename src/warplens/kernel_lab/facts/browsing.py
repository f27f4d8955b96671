"""Which line of the user's Python each line of the compiler's texts comes from: for a browser that links them."""

from __future__ import annotations

from collections.abc import Iterable

from warplens.kernel_lab.compiling import Artefacts
from warplens.kernel_lab.facts.ir import Module
from warplens.kernel_lab.facts.machine import Instruction, read_amdgcn, read_ptx, read_sass
from warplens.kernel_lab.facts.records import Place


def line_links(artefacts: Artefacts) -> dict[str, tuple[int, ...]]:
    """By kind of text ("ttir", "ttgir", "ptx", "sass", "amdgcn"): the Python line of each of its lines, 0 for none.

    Lines of other files than the kernel's own count as none.
    """
    readers = {"ptx": read_ptx, "sass": read_sass, "amdgcn": read_amdgcn}
    found: dict[str, tuple[int, ...]] = {}
    for kind, text in artefacts.texts.items():
        length = len(text.splitlines())
        if kind in ("ttir", "ttgir"):
            module = Module(text)
            places = {operation.position: operation.place for operation in module.operations} | dict(module.loops)
        elif kind in readers:
            places = _places(readers[kind](text))
        else:
            continue
        found[kind] = tuple(_line(places.get(at), str(artefacts.kernel.file)) for at in range(length))
    return found


def _places(instructions: Iterable[Instruction]) -> dict[int, Place | None]:
    return {instruction.position: instruction.place for instruction in instructions}


def _line(place: Place | None, file: str) -> int:
    return place.line if place is not None and place.file == file else 0
