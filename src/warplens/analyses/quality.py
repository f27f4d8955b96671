"""`quality`: what this trace records and what it does not."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from warplens.analyses.graph.clock import source_of
from warplens.analyses.workspace import Workspace
from warplens.categories import demangle
from warplens.hardware import Family, family_of_kernels, is_generic
from warplens.model.clock import GIVEN
from warplens.model.quality import Note
from warplens.model.table import Column, Table
from warplens_run.base.units import format_ms, listed

COLUMNS = (
    Column("code", "stable name of the note", "", pl.String),
    Column("severity", "warning: numbers are affected; info: something is not recorded", "", pl.String),
    Column("count", "number of events affected, 0 where it does not apply", "", pl.Int64),
    Column("message", "what it means", "", pl.String),
)


def quality(work: Workspace) -> Table:
    own = (
        *_mangled_names(work),
        *_unknown_gpu(work),
        *_unused_step_time(work),
        *_memory(work),
        *_inferred_passes(work),
    )
    return quality_table(work.trace.quality.with_notes(*own, *_inferred_passes(work)).notes)


def quality_table(notes: Iterable[Note]) -> Table:
    return Table.from_rows("quality", "one row per note on the trace", COLUMNS, notes)


def _memory(work: Workspace) -> list[Note]:
    """On the memory that was recorded beside the trace."""
    if work.read_memory is None:
        return []
    from warplens.analyses.memory.traced import memory_work  # few traces come with it

    return memory_work(work).quality_notes()


def _mangled_names(work: Workspace) -> list[Note]:
    """Names that no installed demangler could read: their categories derive from parts of the mangled name."""
    names = work.kernel_facts["kernel"]
    mangled = sum(demangle(name).startswith("_Z") for name in names.filter(names.str.starts_with("_Z")).to_list())
    return [Note("mangled", mangled)] if mangled else []


def _unknown_gpu(work: Workspace) -> list[Note]:
    if work.hardware is not None or not len(work.gpu):
        return []
    names = [device.name for device in work.trace.meta.devices if device.name]
    detail = ", ".join(dict.fromkeys(names)) or "the trace does not name it"
    if (family := inferred_family(work)) is not None:
        detail += f"; its kernels are for {family.architecture}: {listed(family.members, 'or') or family.name}"
    return [Note("unknown_gpu", detail=detail)]


def inferred_family(work: Workspace) -> Family | None:
    """The family of an unnamed GPU, by the names of its kernels."""
    if work.hardware is not None or not all(is_generic(device.name) for device in work.trace.meta.devices):
        return None
    return family_of_kernels({own.arch for own in work.kernel_classes.values()})


def _inferred_passes(work: Workspace) -> list[Note]:
    """Iterations of a served model that nothing marks."""
    from warplens.analyses.serving.iterations import served
    from warplens.analyses.serving.served import INFERRED

    passes = served(work)
    if passes is None or passes.source != INFERRED:
        return []
    return [Note("passes_inferred", len(passes), detail=passes.reason)]


def _unused_step_time(work: Workspace) -> list[Note]:
    """A step time that was given and is of another program, or of steps of which one is much longer."""
    given_ns = work.options.step_ns
    if not given_ns or not len(work.gpu) or source_of(work).name == GIVEN:
        return []
    return [Note("step_time_unused", detail=format_ms(given_ns / 1e6))]
