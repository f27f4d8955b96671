"""Triton kernels of the program with other grids."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proof_runs import OPTIONS, experiment
from replay_plans import plan as replay_plan
from replay_plans import storage, tensor, unit, value
from warplens.analyses.workspace import Workspace
from warplens.model.finding import Finding
from warplens.model.trace import empty_trace
from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits, UnitInStep
from warplens.proof.experiments.own_kernels import change_grids
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats.proof_plan import ProofPlan, Variant
from warplens_run.formats.replay_plan import KernelSource, SourceKernel, Unit
from warplens_run.proof.compared_outputs import compare_outputs

SOURCE = """import triton
import triton.language as tl

@triton.jit
def doubled(x, out, count, block: tl.constexpr):
    for start in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        at = start + tl.arange(0, block)
        tl.store(out + at, 2 * tl.load(x + at, mask=at < count), mask=at < count)
"""
DOUBLED = replace(
    unit(
        "doubled",
        (tensor(0, 100), tensor(1, 100), value("int", 100), value("int", 16)),
        (storage(100), replace(storage(100), written=True)),
        id="u1",
    ),
    triton=SourceKernel("doubled.py", "doubled", {}, (2, 1, 1)),
)


class TwoMultiprocessors(RecordedCalls):
    multiprocessors = 2


def about(*units: Unit, source: str = SOURCE) -> FindingUnits:
    recorded = TwoMultiprocessors(Workspace(empty_trace()), {}, {"doubled.py": source})
    finding = Finding(code="WL210", title="", evidence="", advice="")
    members = tuple(UnitInStep(own, 3.0) for own in units)
    return FindingUnits(finding, members, 1e6, (), np.zeros(0, bool), recorded)


def changed(*units: Unit, source: str = SOURCE) -> tuple[list[Variant], list[Unit]]:
    made = ChangedUnits()
    change_grids(about(*units, source=source), made)
    return made.variants, list(made.units.values())


def test_a_kernel_that_reads_its_grid_runs_with_others() -> None:
    variants, units = changed(DOUBLED)
    assert [variant.name for variant in variants] == [
        "1 block per multiprocessor", "4 blocks per multiprocessor", "32 blocks per multiprocessor",
    ]  # fmt: skip
    assert [own.triton.grid for own in units if own.triton is not None] == [(2, 1, 1), (8, 1, 1), (64, 1, 1)]
    assert variants[1].swaps[0].before[0].calls == 3.0


@pytest.mark.parametrize(("own", "source"), [
    (DOUBLED, SOURCE.replace("num_programs", "numb_programs")),
    (replace(DOUBLED, triton=None), SOURCE),
    (replace(DOUBLED, triton=SourceKernel("doubled.py", "doubled", {}, (2, 3, 1))), SOURCE),
])  # fmt: skip
def test_other_kernels_keep_their_grid(own: Unit, source: str) -> None:
    with pytest.raises(NoExperiment, match="how many blocks"):
        changed(own, source=source)


@pytest.mark.usefixtures("warm_runner")
def test_outputs_of_kernels_are_compared_where_their_sources_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    variants, units = changed(DOUBLED)
    sources = {"doubled.py": KernelSource(SOURCE, hashlib.sha256(SOURCE.encode()).hexdigest())}
    plan = ProofPlan(replace(replay_plan(DOUBLED, *units), sources=sources), (experiment("WL210", variants[1]),))
    path = tmp_path / "proof.plan.json"
    plan_file.save(path, plan)
    (answer,) = compare_outputs(path, plan.compared(), replace(OPTIONS, allow_source=True)).values()
    assert (answer.reason, answer.difference.is_equal if answer.difference else None) == ("", True)
    (refused,) = compare_outputs(path, plan.compared(), OPTIONS).values()
    assert "source code" in refused.reason
