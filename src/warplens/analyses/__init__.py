"""Trace → Table. The registries of tables, each entry with the condition under which the table exists.

| registry | source | its tables |
|---|---|---|
| `TABLES` | `Workspace` | of every trace, in the order of a report |
| `SERVING_TABLES` | `Workspace` | of the trace of a served model: iterations, phases, latency |
| `TRACE_TABLES` | `Workspace` | all tables of a trace: these, those of a replay, and those made on demand |
| `MEMORY_TABLES` | `Workspace` | of traces whose memory is recorded |
| `COUNTER_TABLES` | `Workspace` | of traces with samples of the GPU's power and clocks |
| `RANGE_TABLES` | `Workspace` | of traces with hardware counters in place of kernels' times |
| `UNIT_TABLES` | `Workspace` | made on demand: unique kernels and units |
| `GRAPH_TABLES` | `Workspace` | made on demand: what bounds a step, and its critical path |
| `SEQUENCE_TABLES` | `Workspace` | made on demand: what the calls of each op launch |
| `EVENT_TABLES` | `Workspace` | made on demand: the page's tables of events and call paths |
| `units.replayed.REPLAY_TABLES` | `Result` | of the result of a replay |
| `paths.PATH_TABLES` | `PathWorkspace` | of every profile of call paths |
| `paths.FORMAT_TABLES` | `PathWorkspace` | that only files of one format have |
| `diff.DIFF_TABLES` | `Pair` | of two traces |
"""

from __future__ import annotations

from typing import Final

from warplens.analyses.counters import NEEDS_COUNTERS, has_counters
from warplens.analyses.inside_kernels.counters import measured_kernels
from warplens.analyses.inside_kernels.profiler_ranges import NEEDS_RANGES, counters, has_ranges
from warplens.analyses.inside_kernels.regions import regions
from warplens.analyses.inside_kernels.warp_regions import warp_regions
from warplens.analyses.quality import quality
from warplens.analyses.roofline.tables import PARAMS, ceilings, cost_coverage, family_table, roofline
from warplens.analyses.serving.registry import SERVING_TABLES
from warplens.analyses.time.activity import activity
from warplens.analyses.time.durations import kernel_durations, short_kernels
from warplens.analyses.time.gaps import gaps, idle
from warplens.analyses.time.phases import phases
from warplens.analyses.time.queue import queue, queue_timeline
from warplens.analyses.time.steps import steps
from warplens.analyses.time.timeline import timeline
from warplens.analyses.units.replayed import TRACE_REPLAY_TABLES
from warplens.analyses.work.arguments import arguments
from warplens.analyses.work.chains import chains
from warplens.analyses.work.comm import comm
from warplens.analyses.work.graphs import graph_joins, graph_ops
from warplens.analyses.work.kernel_sequences import kernel_sequences
from warplens.analyses.work.kernels import kernel_categories, kernels, launch_categories
from warplens.analyses.work.launches import launches
from warplens.analyses.work.memory import has_memory, memory, memory_instead, memory_ops
from warplens.analyses.work.modules import modules, python_lines
from warplens.analyses.work.ops import op_shapes, ops
from warplens.analyses.work.repeated_calls import repeated_calls
from warplens.analyses.workspace import Options, Workspace
from warplens.model.table_entry import TableEntry, entries, later, when_needed

TABLES: Final[dict[str, TableEntry[Workspace]]] = entries(
    quality,
    timeline,
    kernel_categories,
    kernels,
    launch_categories,
    ops,
    op_shapes,
    graph_joins,
    graph_ops,
    arguments,
    roofline,
    *(family_table(family) for family in PARAMS),
    cost_coverage,
    ceilings,
    measured_kernels,
    chains,
    kernel_sequences,
    repeated_calls,
    launches,
    phases,
    modules,
    python_lines,
    steps,
    idle,
    gaps,
    short_kernels,
    kernel_durations,
    queue,
    queue_timeline,
    activity,
    regions,
    warp_regions,
    comm,
    memory,
    memory_ops,
)
"""The tables of a report."""
UNIT_TABLES: Final = later("warplens.analyses.units.unique", "unique", "unique_kernels", "units")
SEQUENCE_TABLES: Final = later("warplens.analyses.work.op_sequences", "op_sequences")
EVENT_TABLES: Final = later("warplens.analyses.page.event_tables", "gpu_events", "host_events", "call_tree")
GRAPH_TABLES: Final = {
    **later("warplens.analyses.graph.clock", "step_time"),
    **later("warplens.analyses.graph.breakdown", "breakdown"),
    **later("warplens.analyses.graph.bounds", "bounds"),
    **later("warplens.analyses.graph.critical_path", "critical_path"),
    **later("warplens.analyses.graph.path_sums", "critical_path_sums"),
}
MEMORY_TABLES: Final = when_needed(
    "warplens.analyses.memory.traced", "trace_table", "memory_peak", "memory_modules", "memory_timeline", "allocations",
    "fragmentation", "memory_failures", exists=has_memory, instead=memory_instead,
    needs="a memory snapshot, or memory events of the profiler (profile_memory=True)",
)  # fmt: skip
"""Who holds the memory, where that is recorded."""
COUNTER_TABLES: Final = when_needed(
    "warplens.analyses.counters.tables", "counter_table", "gpu_counters", "step_energy", "counter_timeline",
    exists=has_counters, needs=NEEDS_COUNTERS,
)  # fmt: skip
"""Power and clocks of the GPUs, where they were sampled."""
RANGE_TABLES: Final = {"counters": TableEntry("counters", counters, has_ranges, NEEDS_RANGES)}
"""Hardware counters of single kernels, where the trace itself has them."""
TRACE_TABLES: Final[dict[str, TableEntry[Workspace]]] = {
    **TABLES,
    **SERVING_TABLES,
    **MEMORY_TABLES,
    **COUNTER_TABLES,
    **RANGE_TABLES,
    **TRACE_REPLAY_TABLES,
    **UNIT_TABLES,
    **SEQUENCE_TABLES,
    **EVENT_TABLES,
    **GRAPH_TABLES,
}

__all__ = ["TABLES", "TRACE_TABLES", "Options", "Workspace"]
