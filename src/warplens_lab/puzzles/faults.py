"""Faults of a trace, described for a learner: bounds, races, uninitialised reads, stores outside of the outputs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from warplens_lab.puzzles.records import Problem
from warplens_lab.puzzles.spots import coordinates, program_text, spot_of, spots_of
from warplens_lab.puzzles.writers import Accesses, storage_elements
from warplens_lab.tracing import verb
from warplens_lab.tracing.records import NO_TENSOR, Fault, TensorInfo, TracedLaunch
from warplens_lab.tracing.watching.places import index_text
from warplens_run.base.units import plural

ADVICE: Final = {
    "out_of_bounds": "lanes outside a tensor must be switched off: mask= with a condition on every index",
    "uninitialised_read": "check the index: is it beyond the end of a row, or multiplied by the wrong stride?",
    "write_write_race": "programs run in any order: let each element belong to one program, or use an atomic",
    "read_write_race": "programs run in any order: no program may read what another writes; an atomic does both as one",
    "assertion": "",
}


MASKED_OUT_OF_BOUNDS: Final = (
    "the mask lets these lanes through: does it test the index that is used here, each with < and its own size? "
    "or is an index multiplied by the wrong stride?"
)


def faults_of(launch: TracedLaunch, outputs: Container[str]) -> Iterator[Problem]:
    # Equal values are luck: a learner's blocks overlap all the same.
    races = {"same_value_race": "write_write_race"}
    faults = [replace(fault, kind=races.get(fault.kind, fault.kind)) for fault in launch.faults]
    return (_fault(fault, launch, outputs) for fault in _telling(faults))


def stray_stores(launch: TracedLaunch, outputs: Container[str]) -> Iterator[Problem]:
    """Stores to inputs, and to memory of an output's storage that is not part of the output."""
    accesses = Accesses(launch)
    for number, info in enumerate(launch.tensors):
        own = np.ones(info.storage_bytes // info.itemsize, bool)
        if info.name in outputs:
            own[storage_elements(info).reshape(-1)] = False
        stray = np.flatnonzero(accesses.written(number) & own)
        if len(stray):
            yield _stray(accesses, number, info, int(stray[0]), len(stray), is_output=info.name in outputs)


def _stray(accesses: Accesses, number: int, info: TensorInfo, element: int, count: int, *, is_output: bool) -> Problem:
    writers = accesses.touching(number, element, active=True)
    who = program_text(writers[0].program, accesses.launch)
    spots, details = spots_of(writers, accesses.launch), (f"{plural(count, 'element')} of this kind",)
    if is_output:
        distance = f"{element - info.offset} elements after its first"
        text = f"{who} stores to the memory of {info.name} outside of its elements, {distance}"
        advice = "an index is beyond the end of a row, or multiplied by the wrong stride"
        return Problem("stray_store", text, spots, details, advice, tensor=info.name)
    text = f"{who} stores to {index_text(info, element - info.offset)}, which is an input"
    return Problem("input_changed", text, spots, details, "outputs are the only tensors to write", tensor=info.name)


def _telling(faults: Sequence[Fault]) -> Iterator[Fault]:
    """Of the races on one tensor the first only: a load and a store that clash are found from both sides."""
    raced: set[str] = set()
    for fault in faults:
        if fault.kind in ADVICE and not (fault.other_program is not None and fault.tensor in raced):
            yield fault
        if fault.other_program is not None:
            raced.add(fault.tensor)


def _fault(fault: Fault, launch: TracedLaunch, outputs: Container[str]) -> Problem:
    who = f"program {coordinates(fault.program, launch.grid)}"
    info = next((tensor for tensor in launch.tensors if tensor.name == fault.tensor), None)
    element = index_text(info, fault.index) if info is not None else f"{fault.tensor}[{fault.index}]"
    spots = [spot_of(launch, fault.program, fault.site)]
    text = f"{who} {verb(fault.op)} {element}"
    if fault.kind == "out_of_bounds" and info is not None:
        text += f", outside of {info.name}, which {_size(info)}"
    elif fault.kind == "uninitialised_read":
        text += ", where nothing was written"
    elif fault.other_program is not None and fault.other_site is not None:
        other = f"program {coordinates(fault.other_program, launch.grid)}"
        spots.append(spot_of(launch, fault.other_program, fault.other_site))
        does = verb(_other_op(fault, launch))
        text += f", and {other} {does} it too: on a GPU either may come first"
    else:
        text = fault.message
    often = f"{plural(fault.elements, 'element')} in {plural(fault.programs, 'program')}, at this line"
    details = (often,) if fault.elements > 1 or fault.programs > 1 else ()
    return Problem(
        fault.kind, text, tuple(spots), details, _advice_on(fault, outputs, spots[0].statement), tensor=fault.tensor
    )


def _advice_on(fault: Fault, outputs: Container[str], statement: str) -> str:
    if fault.kind == "out_of_bounds" and fault.index < 0:
        return "an index below 0 must be switched off too: mask=(index >= 0) & …"
    if fault.kind == "uninitialised_read" and fault.tensor in outputs:
        return "an output holds nothing before the kernel has written it"
    if fault.kind == "out_of_bounds" and "mask" in statement:
        return MASKED_OUT_OF_BOUNDS
    return ADVICE[fault.kind]


def _other_op(fault: Fault, launch: TracedLaunch) -> str:
    """What the other program of a race does to the element: its statement may both load and store it."""
    writes = fault.op == "load" or fault.kind == "write_write_race"
    rows = (row for row in launch.accesses if row.site == fault.other_site and row.tensor != NO_TENSOR)
    ops = (row.op for row in rows if launch.tensors[row.tensor].name == fault.tensor)
    return next((op for op in ops if (op != "load") == writes), "store" if writes else "load")


def _size(info: TensorInfo) -> str:
    if len(info.shape) == 1:
        return f"has {plural(info.shape[0], 'element')}"
    return f"is {' × '.join(map(str, info.shape))}"
