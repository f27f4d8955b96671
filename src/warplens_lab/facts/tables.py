"""The tables of a kernel's facts: one row per target and config; the lines, accesses and other parts of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

import polars as pl

from warplens.model.table import Column, Table
from warplens.model.table_entry import TableEntry, always
from warplens_lab.facts.instruction_classes import CLASSES
from warplens_lab.facts.records import KernelFacts, SourcePlace
from warplens_lab.facts.schedule_table import SCHEDULE, schedule_rows
from warplens_lab.facts.table_parts import KEY, LINE, Row, key_cells, place_cells, shape_text

FACTS: Final = (
    Column("kernel", "its name", "", pl.String),
    *KEY,
    Column("signature", "types and constants of its parameters", "", pl.String),
    Column("triton", "version of Triton; null for CUDA C++", "", pl.String),
    Column("compiler", "the compiler and its version", "", pl.String),
    Column("registers", "registers per thread", "", pl.Int64),
    Column(
        "spill_bytes",
        "bytes that each thread writes to and reads from memory because registers run out",
        "bytes",
        pl.Int64,
    ),
    Column("stack_bytes", "stack of a thread", "bytes", pl.Int64),
    Column("shared_bytes", "shared memory of a block", "bytes", pl.Int64),
    Column("warps", "warps of a block", "", pl.Int64),
    Column("stages", "stages that were requested", "", pl.Int64),
    Column("buffers", "copies of one tile that shared memory holds; 0 where it holds none", "", pl.Int64),
    Column("pipelined", "loops that load ahead, of the loops that load", "", pl.String),
    Column("occupancy_percent", "warps that an SM or CU holds, of its slots", "%", pl.Float64),
    Column("blocks", "blocks that an SM or CU holds", "", pl.Int64),
    Column("limiter", "what keeps it from holding more", "", pl.String),
    Column("matrix_instruction", "the matrix unit's instructions; none where there are none", "", pl.String),
    Column("narrowest_bits", "narrowest access of a tile in global memory, per thread", "bits", pl.Int64),
    Column("async_copies", "accesses that go to shared memory by themselves", "", pl.Int64),
    Column("tma_copies", "those of them that use the tensor memory accelerator", "", pl.Int64),
    Column("conversions", "changes of layout", "", pl.Int64),
    Column("conversions_in_loops", "those of them that go through shared memory inside a loop", "", pl.Int64),
    Column(
        "bank_conflicts", "most extra passes of an access of shared memory; null where none is modelled", "", pl.Int64
    ),
    Column(
        "divergent_branches",
        "conditions that send lanes of a warp different ways, in CUDA C++; null for Triton",
        "",
        pl.Int64,
    ),
    Column("instructions", "machine instructions, each counted once", "", pl.Int64),
    Column("compile_s", "CPU time that compiling took", "s", pl.Float64),
    Column("failure", "why it did not compile", "", pl.String),
)
LINES: Final = (
    *KEY,
    *LINE,
    Column("source", "text of the line", "", pl.String),
    Column("instructions", "machine instructions of the line", "", pl.Int64),
    Column("in_loops", "those of them inside loops", "", pl.Int64),
    *(Column(name, f"of class {name.replace('_', ' ')}", "", pl.Int64) for name in CLASSES),
)
ACCESSES: Final = (
    *KEY,
    *LINE,
    Column("column", "column of the access", "", pl.Int64),
    Column("called_at", "the call that leads to it, where a helper makes it", "", pl.String),
    Column("kind", "load, store, async copy, tma copy, tma store or atomic", "", pl.String),
    Column("argument", "pointer argument that it goes through", "", pl.String),
    Column("element", "type of an element", "", pl.String),
    Column("shape", "shape of the tile", "", pl.String),
    Column("width_bits", "bits that a thread moves per instruction; null for a TMA box", "bits", pl.Int64),
    Column("best_bits", "bits that the tile would allow", "bits", pl.Int64),
    Column("vectorised", "whether the two are equal", "", pl.Boolean),
    Column("masked", "whether the source masks it", "", pl.Boolean),
    Column("in_loop", "whether it is in a loop", "", pl.Boolean),
    Column("instructions", "machine instructions that it became", "", pl.Int64),
    Column("sectors", "sectors of 32 bytes that a warp's access touches, in CUDA C++", "", pl.Int64),
    Column("sectors_needed", "sectors that the same bytes would fill", "", pl.Int64),
    Column("undivided", "arguments of address and mask that are not known to be divisible by 16", "", pl.String),
)
REMARKS: Final = (
    *KEY,
    *LINE,
    Column("column", "column that the caret marks", "", pl.Int64),
    Column("text", "the compiler's text", "", pl.String),
    Column("notes", "what it adds", "", pl.String),
    Column("source", "text of the line", "", pl.String),
    Column("count", "how often it said so", "", pl.Int64),
)
LAYOUTS: Final = (
    *KEY,
    *LINE,
    Column(
        "kind", "store, load, load matrix, async copy, or the threads that a conversion moves between", "", pl.String
    ),
    Column("shape", "shape of the tile", "", pl.String),
    Column("element_bits", "size of an element", "bits", pl.Int64),
    Column("in_loop", "whether it is in a loop", "", pl.Boolean),
    Column("layout", "the layout in shared memory, or both layouts of a conversion", "", pl.String),
    Column("vector_bits", "bits that a lane moves at once", "bits", pl.Int64),
    Column("conflicts", "extra passes for bank conflicts; null where not modelled", "", pl.Int64),
    Column("conflicts_unswizzled", "with plain rows", "", pl.Int64),
    Column("conflicts_padded", "with the best padding", "", pl.Int64),
    Column("padding", "that padding, in elements per row", "", pl.Int64),
    Column("conflicts_swizzled", "with the best swizzle", "", pl.Int64),
    Column(
        "wavefronts",
        "passes that all warps of a block take, with each loop's body once; null where not modelled",
        "",
        pl.Int64,
    ),
    Column("wavefronts_needed", "those that they would take without conflicts", "", pl.Int64),
)
BRANCHES: Final = (
    *KEY,
    *LINE,
    Column(
        "difference",
        "why lanes of a warp may decide differently: none, edge (a bound, which parts one warp of the grid at most), "
        "lanes (the thread's number) or data (loaded values)",
        "",
        pl.String,
    ),
    Column("divergent", "whether lanes go different ways: differences other than an edge, with a jump", "", pl.Boolean),
    Column("lanes", "lanes of a warp that jump, where they differ and this is known", "", pl.Int64),
    Column("warps", "warps of the block in which lanes differ; null where not known", "", pl.Int64),
    Column("in_loop", "whether it is in a loop", "", pl.Boolean),
    Column("jumps", "conditional jumps of the machine code; 0 where instructions are predicated instead", "", pl.Int64),
    Column("regions", "regions after which lanes are brought together again (BSSY)", "", pl.Int64),
    Column("predicated", "lanes may decide differently, and instructions are predicated instead", "", pl.Boolean),
    Column("body_instructions", "PTX statements that only some of the lanes do", "", pl.Int64),
    Column("turns", "whether it decides how often a loop turns", "", pl.Boolean),
)
BARRIERS: Final = (
    *KEY,
    *LINE,
    Column("kind", "sync (arrive and wait), arrive or reduce", "", pl.String),
    Column(
        "barrier",
        "its number: 0 is __syncthreads(), several where it is computed, an argument, ? where not known",
        "",
        pl.String,
    ),
    Column("threads", "threads that it waits for; null for the whole block", "", pl.Int64),
    Column("warps", "warps of the block that get there", "", pl.String),
    Column("in_loop", "whether it is in a loop", "", pl.Boolean),
    Column("parted_by", "line of a condition that may keep some lanes of a warp away", "", pl.Int64),
    Column("fault", "why it cannot be met", "", pl.String),
)


def facts_tables(facts: Sequence[KernelFacts]) -> list[Table]:
    """`kernel_facts`, `kernel_lines`, `kernel_accesses` and the other tables of a kernel's facts."""
    return [entry(facts) for entry in FACT_TABLES.values()]


def _has_cuda(facts: Sequence[KernelFacts]) -> bool:
    return any(kernel.is_cuda for kernel in facts)


def _entry(
    name: str,
    meaning: str,
    columns: tuple[Column, ...],
    rows: Callable[[KernelFacts], Iterable[Row]],
    exists: Callable[[Sequence[KernelFacts]], bool] = always,
) -> TableEntry[Sequence[KernelFacts]]:
    def make(facts: Sequence[KernelFacts]) -> Table:
        notes = dict.fromkeys(note for kernel in facts for note in kernel.notes)
        return Table.from_rows(name, meaning, columns, (row for kernel in facts for row in rows(kernel)), *notes)

    return TableEntry(name, make, exists, "" if exists is always else "a CUDA C++ kernel")


def _facts_rows(facts: KernelFacts) -> Iterator[Row]:
    occupancy = facts.occupancy
    tiles = [access.width_bits for access in facts.accesses if access.is_tile and access.width_bits]
    counts = [access.conflicts for access in facts.shared if access.conflicts is not None]
    yield {
        "kernel": facts.kernel,
        **key_cells(facts),
        "signature": facts.signature,
        "triton": facts.triton_version or None,
        "compiler": facts.compiler_text,
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "stack_bytes": facts.stack_bytes,
        "shared_bytes": facts.shared_bytes,
        "warps": facts.num_warps,
        "stages": facts.num_stages,
        "buffers": facts.buffers,
        "pipelined": f"{sum(loop.is_pipelined for loop in facts.loops)} of {len(facts.loops)}",
        "occupancy_percent": occupancy.percent if occupancy else None,
        "blocks": occupancy.blocks if occupancy else None,
        "limiter": occupancy.limiter if occupancy else None,
        "matrix_instruction": ", ".join(facts.matrix_instructions) or "none",
        "narrowest_bits": min(tiles, default=None),
        "async_copies": facts.async_copies,
        "tma_copies": facts.tma_copies,
        "conversions": len(facts.conversions),
        "conversions_in_loops": sum(c.in_loop and c.through == "warps" for c in facts.conversions),
        "bank_conflicts": max(counts, default=None),
        "divergent_branches": facts.divergent_branches if facts.is_cuda else None,
        "instructions": facts.instructions,
        "compile_s": facts.seconds,
        "failure": facts.failure or None,
    }


def _line_rows(facts: KernelFacts) -> Iterator[Row]:
    for line in facts.lines:
        classes = dict(line.classes)
        yield {
            **key_cells(facts),
            **place_cells(line.place),
            "source": line.source,
            "instructions": line.instructions,
            "in_loops": line.in_loops,
            **{name: classes.get(name, 0) for name in CLASSES},
        }


def _access_rows(facts: KernelFacts) -> Iterator[Row]:
    for access in facts.accesses:
        yield {
            **key_cells(facts),
            **place_cells(access.place),
            "column": access.place.column,
            "called_at": ", ".join(f"{PurePath(caller.file).name}:{caller.line}" for caller in access.callers) or None,
            "kind": access.kind,
            "argument": access.argument,
            "element": access.element,
            "shape": shape_text(access.shape),
            "width_bits": None if access.is_tma else access.width_bits or None,
            "best_bits": None if access.is_tma else access.best_bits,
            "vectorised": access.is_vectorised if access.width_bits and not access.is_tma else None,
            "masked": access.is_masked,
            "in_loop": access.in_loop,
            "instructions": access.instructions,
            "sectors": access.sectors,
            "sectors_needed": access.sectors_needed,
            "undivided": ", ".join(access.undivided),
        }


def _remark_rows(facts: KernelFacts) -> Iterator[Row]:
    for remark in facts.remarks:
        yield {
            **key_cells(facts),
            **place_cells(SourcePlace(remark.file, remark.line)),
            "column": remark.column,
            "text": remark.text,
            "notes": "; ".join(remark.notes),
            "source": remark.source,
            "count": remark.count,
        }


def _layout_rows(facts: KernelFacts) -> Iterator[Row]:
    for access in facts.shared:
        yield {
            **key_cells(facts),
            **place_cells(access.place),
            "kind": access.kind,
            "shape": shape_text(access.shape),
            "element_bits": access.element_bits,
            "in_loop": access.in_loop,
            "layout": access.layout,
            "vector_bits": access.vector_bits or None,
            "conflicts": access.conflicts,
            "conflicts_unswizzled": access.conflicts_unswizzled,
            "conflicts_padded": access.conflicts_padded,
            "padding": access.padding or None,
            "conflicts_swizzled": access.conflicts_swizzled,
            "wavefronts": access.wavefronts,
            "wavefronts_needed": access.wavefronts_needed,
        }
    for conversion in facts.conversions:
        yield {
            **key_cells(facts),
            **place_cells(conversion.place),
            "kind": f"conversion ({conversion.through})",
            "shape": shape_text(conversion.shape),
            "element_bits": conversion.element_bits,
            "in_loop": conversion.in_loop,
            "layout": f"{conversion.source} → {conversion.destination}",
        }


def _branch_rows(facts: KernelFacts) -> Iterator[Row]:
    for branch in facts.branches:
        yield {
            **key_cells(facts),
            **place_cells(branch.place),
            "difference": branch.difference or "none",
            "divergent": branch.is_divergent,
            "lanes": branch.lanes,
            "warps": branch.warps,
            "in_loop": branch.in_loop,
            "jumps": branch.jumps,
            "regions": branch.regions,
            "predicated": branch.is_predicated,
            "body_instructions": branch.body_instructions,
            "turns": branch.turns,
        }


def _barrier_rows(facts: KernelFacts) -> Iterator[Row]:
    for use in facts.barriers:
        yield {
            **key_cells(facts),
            **place_cells(use.place),
            "kind": use.kind,
            "barrier": use.number,
            "threads": use.threads,
            "warps": ranges(use.warps),
            "in_loop": use.in_loop,
            "parted_by": use.parted_by.line if use.parted_by else None,
            "fault": use.fault or None,
        }


def ranges(numbers: Sequence[int]) -> str:
    """
    >>> ranges([0, 1, 2, 3, 6])
    '0–3, 6'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


FACT_TABLES: Final = {
    entry.name: entry
    for entry in (
        _entry("kernel_facts", "one row per target and config", FACTS, _facts_rows),
        _entry("kernel_lines", "one row per target, config and line of the source", LINES, _line_rows),
        _entry("kernel_accesses", "one row per access of global memory in the source", ACCESSES, _access_rows),
        _entry("kernel_remarks", "one row per remark of the compiler", REMARKS, _remark_rows),
        _entry("kernel_layouts", "one row per access of shared memory and change of layout", LAYOUTS, _layout_rows),
        _entry("kernel_schedule", "one row per operation of a loop or of a group of warps", SCHEDULE, schedule_rows),
        _entry("kernel_branches", "one row per condition of a CUDA C++ kernel", BRANCHES, _branch_rows, _has_cuda),
        _entry("kernel_barriers", "one row per barrier of a CUDA C++ kernel", BARRIERS, _barrier_rows, _has_cuda),
    )
}
