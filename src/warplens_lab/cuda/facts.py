"""Facts of a CUDA C++ kernel, in the records that a Triton kernel has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.cuda.activity import Activity
from warplens_lab.cuda.assembled import as_assembled
from warplens_lab.cuda.barriers import barriers
from warplens_lab.cuda.branching import branches
from warplens_lab.cuda.compiling import CudaCompilation
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import Flow
from warplens_lab.cuda.following import follow
from warplens_lab.cuda.global_memory import global_accesses
from warplens_lab.cuda.handing_over import block_schedule, schedule_by_name
from warplens_lab.cuda.lanes import LANES
from warplens_lab.cuda.memory import memory_accesses
from warplens_lab.cuda.ptx import PtxKernel, Statement, parse_kernel
from warplens_lab.cuda.request import CudaRequest
from warplens_lab.cuda.shared_banks import shared_accesses, shared_arrays
from warplens_lab.cuda.source import CudaSource
from warplens_lab.facts import lines, matrix_instructions
from warplens_lab.facts.browsing import with_places_of_products
from warplens_lab.facts.machine import read_ptx, read_sass
from warplens_lab.facts.occupancy import occupancy
from warplens_lab.facts.records import KernelFacts, SourcePlace
from warplens_lab.facts.resources import from_assembler_log

DEFAULT_THREADS: Final = 256
DEFAULT_WIDE: Final = (32, 8)
_SHARED = re.compile(r"(?<!\d)(\d{1,12})(?:\+\d{1,12})? bytes smem")
_SIDES = re.compile(r"%tid\.([yz])")


@dataclass(frozen=True)
class ChosenBlock:
    """Threads and dynamic shared memory of a block; `note` where nothing said the threads."""

    threads: tuple[int, ...]
    shared_bytes: int = 0
    note: str = ""


def cuda_facts(
    artefacts: Artefacts, compilation: CudaCompilation, source: CudaSource, request: CudaRequest
) -> KernelFacts:
    name = str(artefacts.metadata.get("name", ""))
    text = artefacts.texts.get("ptx", "")
    kernel = parse_kernel(text, name)
    chosen = chosen_block(request, source, compilation, kernel, text)
    head = _head(artefacts, compilation, chosen, request)
    if artefacts.failure is not None:
        failure = artefacts.failure
        place = SourcePlace(failure.file, failure.line, failure.column or 0) if failure.line else None
        return KernelFacts(**head, failure=failure.message, failure_place=place)
    ptx = read_ptx(text)
    sass = artefacts.texts.get("sass", "")
    machine = with_places_of_products(read_sass(sass), ptx)
    resources = from_assembler_log(artefacts.assembler_log)
    static = _SHARED.search(artefacts.assembler_log)
    shared = (int(static[1]) if static else 0) + chosen.shared_bytes
    statements = [item for item in kernel.items if isinstance(item, Statement)]
    return KernelFacts(
        **head,
        registers=resources.registers,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        stack_bytes=resources.stack_bytes,
        shared_bytes=shared,
        occupancy=occupancy(artefacts.target, resources.registers, shared, head["num_warps"]),
        matrix_instructions=matrix_instructions(ptx),
        async_copies=sum(s.name.startswith(("cp.async.ca", "cp.async.cg")) for s in statements),
        tma_copies=sum(s.name.startswith("cp.async.bulk") and "group" not in s.name for s in statements),
        instructions=len(machine),
        lines=lines(machine, artefacts.target.vendor, artefacts),
        notes=tuple(_notes(artefacts, chosen, kernel, resources.registers)),
        **_of_lanes(kernel, name, compilation, source, request, chosen, machine, sass),
    )


def _of_lanes(
    kernel: PtxKernel,
    name: str,
    compilation: CudaCompilation,
    source: CudaSource,
    request: CudaRequest,
    chosen: ChosenBlock,
    machine: Sequence[Any],
    sass: str,
) -> dict[str, Any]:
    """What the values of each lane show: accesses, bank conflicts, branches and barriers."""
    parameters = compilation.kernel.parameters
    evaluation = Evaluation(kernel, Flow(kernel.items), chosen.threads, [parameter.name for parameter in parameters])
    if not evaluation.is_complete:
        return {}
    activity = Activity(evaluation)
    accesses = as_assembled(list(memory_accesses(evaluation, activity)), machine)
    followed = follow(evaluation, [parameter.name for parameter in parameters if parameter.is_whole_number])
    schedule = block_schedule(followed, evaluation) if followed else None
    first_line = SourcePlace(str(source.path), compilation.kernel.first_line)
    shapes = source.shared_arrays(compilation.kernel, compilation.arguments, request.defines)
    arrays = shared_arrays(kernel.shared, shapes)
    return {
        "accesses": global_accesses(accesses, parameters, math.prod(chosen.threads)),
        "shared": shared_accesses(accesses, arrays, evaluation.addresses),
        "branches": branches(evaluation, activity, machine, sass),
        "barriers": barriers(evaluation, activity, followed, is_assumed=bool(chosen.note)),
        "schedule": tuple(filter(None, (schedule or schedule_by_name(name, first_line),))),
    }


def chosen_block(
    request: CudaRequest, source: CudaSource, compilation: CudaCompilation, kernel: PtxKernel, ptx: str
) -> ChosenBlock:
    """As requested, as a launch in the file says, as the kernel's bounds allow, or a usual one with a note."""
    names = (compilation.kernel.name, compilation.kernel.plain_name)
    named = [launch for launch in source.launches if launch.name in names]
    launches = [launch for launch in named if launch.arguments == compilation.arguments] or named
    dynamic = request.dynamic_shared_bytes or max((launch.shared_bytes for launch in launches), default=0)
    launched = [launch.block for launch in launches if launch.block]
    if request.block or launched or kernel.threads:
        return ChosenBlock(request.block or (launched[0] if launched else _trimmed(kernel.threads)), dynamic)
    usual = DEFAULT_WIDE if _SIDES.search(ptx) else (DEFAULT_THREADS,)
    sides = "×".join(map(str, usual))
    return ChosenBlock(usual, dynamic, f"no block size is known: a block of {sides} threads is assumed")


def _trimmed(sides: tuple[int, ...]) -> tuple[int, ...]:
    """
    >>> _trimmed((256, 1, 1)), _trimmed((1,))
    ((256,), (1,))
    """
    while len(sides) > 1 and sides[-1] == 1:
        sides = sides[:-1]
    return sides


def _head(
    artefacts: Artefacts, compilation: CudaCompilation, chosen: ChosenBlock, request: CudaRequest
) -> dict[str, Any]:
    threads = "×".join(map(str, chosen.threads))
    dynamic = [f"dynamic_shared={chosen.shared_bytes}"] if chosen.shared_bytes else []
    return {
        "kernel": compilation.name,
        "file": str(artefacts.kernel.file),
        "target": artefacts.target.name,
        "triton_version": "",
        "signature": ", ".join(parameter.text() for parameter in compilation.kernel.parameters),
        "config": ", ".join([f"block={threads}", *request.defines, *request.options, *dynamic]),
        "num_warps": -(-math.prod(chosen.threads) // LANES),
        "num_stages": 1,
        "num_ctas": 1,
        "seconds": artefacts.seconds,
        "language": "cuda",
        "compiler": str(artefacts.metadata.get("compiler") or "NVRTC"),
        "block": chosen.threads,
    }


def _notes(artefacts: Artefacts, chosen: ChosenBlock, kernel: PtxKernel, registers: int) -> Iterator[str]:
    if chosen.note:
        yield chosen.note
    if "sass" not in artefacts.texts:
        yield "no nvdisasm was found, so machine instructions are not counted: pip install 'warplens[cuda]'"
    if not registers:
        yield "the assembler said nothing of registers and spills; occupancy is without them"
    if 0 in kernel.shared.values() and not chosen.shared_bytes:
        yield "the launch decides the size of the shared memory: it counts as none here"
    limit = math.prod(kernel.threads) if kernel.threads else 0
    if limit and math.prod(chosen.threads) > limit:
        yield f"the kernel allows {limit} threads in a block: a launch with {math.prod(chosen.threads)} fails"
