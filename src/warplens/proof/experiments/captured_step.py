"""The calls of a step, in their order, as one CUDA or HIP graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits
from warplens.proof.experiments.sequences import SEQUENCE, sequence_unit
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import READY, Unit

WAITING: Final = (
    "aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::masked_select", "aten::unique_dim",
    "aten::_unique2", "aten::equal", "aten::is_nonzero",
)  # fmt: skip
"""Ops that wait for the GPU, which a graph cannot."""
COPIES: Final = ("aten::copy_", "aten::_to_copy")
ONE_NUMBER: Final = 16
"""Bytes: an operand of the host of one element is an argument of the kernel, which a graph keeps."""
FEWEST: Final = 8
MOST_CALLS: Final = 20_000
WHOLE: Final = 0.995
AS_ONE: Final = "as one graph"
"""A CUDA or a HIP graph, by the GPU that runs the plan: it may be another one than in the trace."""


def capture_step(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL101, WL104: all launches of a step as one."""
    step = [unit for unit in about.recorded.of_first_whole_step() if can_be_captured(unit)]
    if len(step) < FEWEST:
        reason = about.recorded.why_not
        raise NoExperiment("too few of the step's calls can be run again" + (f"; {reason}" if reason else ""))
    if len(step) > MOST_CALLS:
        raise NoExperiment(f"the {len(step):,} calls of a step are more than are run as one graph")
    one_by_one = sequence_unit("step.calls", SEQUENCE, step)
    captured = replace(one_by_one, id="step.graph")
    swap = Swap((UnitCalls(one_by_one.id, 1.0),), (UnitCalls(captured.id, 1.0),))
    share = sum(unit.times.median_ns for unit in step) / about.recorded.step_gpu_ns
    note = f"the {len(step):,} calls that can be captured take {100 * share:.0f} % of its GPU time"
    notes = (note,) if share < WHOLE else ()
    changed.add([Variant(AS_ONE, (swap,), timer="graph", notes=notes)], [one_by_one, captured])


def can_be_captured(unit: Unit) -> bool:
    """Whether a graph can hold its calls."""
    on_host = [storage for storage in unit.storages if storage.device == "cpu" and not storage.pinned]
    is_copied = unit.op in COPIES or any(storage.bytes > ONE_NUMBER for storage in on_host)
    return unit.status == READY and unit.op not in WAITING and unit.triton is None and not (on_host and is_copied)
