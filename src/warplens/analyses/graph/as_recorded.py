"""Of which traces the recorded step is the best that is known, and why."""

from __future__ import annotations

from typing import Final

from warplens.analyses.graph.building import graph_of
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace

NO_OPS: Final = "no ops are recorded, only calls: recording these costs a host-bound step some 10 %"
IN_GRAPHS: Final = "nearly all GPU work is launched by graphs: the host records little"
UNEXPLAINED_WAITS: Final = "many waits that nothing recorded explains: the step cannot be simulated without them"
OF_FORMAT: Final = {
    "nsys": "Nsight Systems records calls, not ops: less than 1 µs a call",
    "rocprof": "rocprof records calls and kernels, not ops: the cost of that is not known",
    "rocprofv3": "rocprofv3 records calls and kernels, not ops: the cost of that is not known",
    "rocpd": "rocprofiler records calls and kernels, not ops: the cost of that is not known",
    "xplane": "JAX launches compiled programs: the host records little",
    "xla_json": "JAX launches compiled programs: the host records little",
}
"""Formats in which a recorded step is the best that is known, and why."""
OP_LEVEL: Final = ("kineto",)
MOST_IN_GRAPHS: Final = 0.9


@shared
def recorded_reason(work: Workspace) -> str:
    """Why the recorded step is the best that is known; empty where its cost can be estimated from its ops."""
    if work.trace.meta.format not in OP_LEVEL:
        return OF_FORMAT.get(work.trace.meta.format, NO_OPS)
    if graph_of(work).unexplained_ns:
        return UNEXPLAINED_WAITS
    if not work.trace.is_kind("op").any():
        return NO_OPS
    in_graph = work.gpu["in_graph"].to_numpy() & (work.gpu["launch"].to_numpy() >= 0)
    return IN_GRAPHS if in_graph.mean() >= MOST_IN_GRAPHS else ""
