"""Facts of a compiled kernel: `extract` gathers them from what the compiler left, `facts_tables` lays them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.facts.accesses import accesses, instruction_widths
from warplens_lab.facts.browsing import with_places_of_products
from warplens_lab.facts.instruction_classes import counted
from warplens_lab.facts.ir import Module
from warplens_lab.facts.machine import Instruction, read_amdgcn, read_ptx, read_sass
from warplens_lab.facts.occupancy import occupancy
from warplens_lab.facts.products import async_copies, dots, loops, matrix_instruction
from warplens_lab.facts.records import KernelFacts, Line, SourcePlace
from warplens_lab.facts.resources import Resources, from_amdgcn, from_assembler_log, shared_bytes
from warplens_lab.facts.saving import load_facts, save_facts
from warplens_lab.facts.schedule import loop_schedules
from warplens_lab.facts.shared_memory import conversions, shared_accesses
from warplens_lab.facts.tables import facts_tables

__all__ = ["KernelFacts", "config_text", "extract", "facts_tables", "load_facts", "save_facts"]


def extract(artefacts: Artefacts) -> KernelFacts:
    """All that can be known of a kernel without running it."""
    head = _head(artefacts)
    if artefacts.failure is not None:
        failure = artefacts.failure
        place = SourcePlace(failure.file, failure.line, failure.column or 0) if failure.line else None
        return KernelFacts(**head, failure=failure.message, failure_place=place)
    texts, target = artefacts.texts, artefacts.target
    lowered = Module(texts["ttgir"])
    source = Module(texts["ttir"]) if "ttir" in texts else lowered
    assembly = read_ptx(texts["ptx"]) if target.is_nvidia else read_amdgcn(texts["amdgcn"])
    sass = read_sass(texts.get("sass", ""))
    machine = with_places_of_products(sass, assembly) if target.is_nvidia else assembly
    resources = from_assembler_log(artefacts.assembler_log) if target.is_nvidia else from_amdgcn(texts["amdgcn"])
    warps = int(artefacts.metadata.get("num_warps") or artefacts.options["num_warps"])
    shared, columns = shared_bytes(artefacts.metadata), int(artefacts.metadata.get("tmem_size") or 0)
    plain_copies, tma_copies = async_copies(lowered)
    widths = instruction_widths(assembly, target.is_nvidia)
    schedules = loop_schedules(lowered)
    return KernelFacts(
        **head,
        registers=resources.registers,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        stack_bytes=resources.stack_bytes,
        shared_bytes=shared,
        tensor_memory_columns=columns,
        occupancy=occupancy(target, resources.registers, shared, warps, columns),
        matrix_instructions=matrix_instructions(assembly),
        async_copies=plain_copies,
        tma_copies=tma_copies,
        instructions=len(machine),
        accesses=accesses(source, lowered, widths, artefacts.signature, warps * target.warp_size),
        dots=dots(source, lowered, assembly),
        loops=loops(source, lowered, schedules),
        conversions=conversions(lowered),
        shared=shared_accesses(lowered, target),
        schedule=schedules,
        lines=lines(machine, target.vendor, artefacts),
        remarks=artefacts.remarks,
        notes=tuple(_notes(artefacts, resources)),
    )


def _notes(artefacts: Artefacts, resources: Resources) -> Iterator[str]:
    target = artefacts.target
    if target.is_nvidia and "sass" not in artefacts.texts:
        yield f"{target.name}: this Triton brings no disassembler, so instructions are not counted"
    if not resources.registers:
        yield f"{target.name}: the assembler said nothing of registers and spills; occupancy is without them"
    if not target.is_nvidia:
        yield f"{target.name}: bank conflicts are not modelled for AMD, whose wide accesses group lanes in other ways"


def _head(artefacts: Artefacts) -> dict[str, Any]:
    options = artefacts.options
    return {
        "kernel": artefacts.kernel.name,
        "file": str(artefacts.kernel.file),
        "target": artefacts.target.name,
        "triton_version": artefacts.triton_version,
        "signature": artefacts.signature.text(),
        "config": config_text(artefacts),
        "num_warps": int(options["num_warps"]),
        "num_stages": int(options["num_stages"]),
        "num_ctas": int(options.get("num_ctas", 1)),
        "constants": tuple(
            (name, value)
            for name, value in artefacts.signature.constants().items()
            if isinstance(value, int) and not isinstance(value, bool)
        ),
        "seconds": artefacts.seconds,
    }


def config_text(artefacts: Artefacts) -> str:
    """What distinguishes two compilations of a kernel: its constants and options."""
    parts = [f"{name}={value}" for name, value in artefacts.signature.constants().items()]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in artefacts.options.items())])


def matrix_instructions(assembly: Iterable[Instruction]) -> tuple[str, ...]:
    instructions = (matrix_instruction(instruction) for instruction in assembly)
    return tuple(sorted({f"{family} {shape}" for family, shape in filter(None, instructions)}))


def lines(machine: Sequence[Instruction], vendor: str, artefacts: Artefacts) -> tuple[Line, ...]:
    """Instructions by the line of the user's source; those without a line are counted under line 0."""
    groups: dict[SourcePlace, list[Instruction]] = {}
    for instruction in machine:
        place = instruction.place
        groups.setdefault(SourcePlace(place.file, place.line) if place else SourcePlace("", 0), []).append(instruction)
    return tuple(_line(place, groups[place], vendor, artefacts) for place in sorted(groups))


def _line(place: SourcePlace, group: Sequence[Instruction], vendor: str, artefacts: Artefacts) -> Line:
    source = artefacts.source_lines if place.file == str(artefacts.kernel.file) else ()
    return Line(
        place=place,
        source=source[place.line - 1].strip() if 0 < place.line <= len(source) else "",
        instructions=len(group),
        in_loops=sum(instruction.in_loop for instruction in group),
        classes=counted(vendor, [instruction.name for instruction in group]),
    )
