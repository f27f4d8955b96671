"""A unit as a plain Python file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch

import warplens
from replay_plans import add, choice, listed, plan, storage, tensor, unit, value
from support import ROOT
from warplens.cli import main
from warplens.planning import make_plan
from warplens.replay.script import unit_script
from warplens_run.base.errors import UsageError
from warplens_run.formats.replay_plan import READY, Fill, ReplayPlan, Unit
from warplens_run.replay.inputs import Inputs

FILLS = (
    Fill("constant", 3.0), Fill("ramp", 2.0, 9.0, 2.0), Fill("shares", 17.0, step=5.0), Fill("digits", digits=(4, 2, 7, 1, 4, 1)),
)  # fmt: skip


def executed(made: ReplayPlan, name: str) -> dict[str, Any]:
    """The names that the file defines."""
    namespace: dict[str, Any] = {"__name__": "reproducer"}
    exec(compile(unit_script(made, name), "reproducer.py", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.kind)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_inputs_that_are_not_random_are_those_of_a_replay(fill: Fill, dtype: str) -> None:
    own = unit("aten::neg", (tensor(0, 2, 4, dtype=dtype),), (storage(8, dtype, fill),), id="u1")
    made = executed(plan(own), "u1")
    replayed = Inputs.build(own, torch.device("cpu"), 0).flats[0].view(getattr(torch, dtype))
    assert torch.equal(made["memory_0"], replayed)
    assert torch.equal(made["call"](), -replayed.view(2, 4))


@pytest.mark.parametrize("kind", ["normal", "rectified", "masked", "uniform", "integers", "permutation"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
def test_random_inputs_have_the_dtype_and_the_range(kind: str, dtype: str) -> None:
    if (kind, dtype) == ("uniform", "bool"):
        pytest.skip("no plan has it")
    fill = Fill(kind, 0.0, 5.0)
    own = unit("aten::clone", (tensor(0, 100, dtype=dtype),), (storage(100, dtype, fill),), id="u1")
    memory = executed(plan(own), "u1")["memory_0"]
    assert (str(memory.dtype), memory.numel()) == (f"torch.{dtype}", 100)
    if kind in ("rectified", "uniform", "integers", "permutation"):
        assert 0 <= memory.min() <= memory.max()
        assert kind == "rectified" or memory.max() <= 5


def test_views_lists_choices_and_words_are_what_the_op_is_given() -> None:
    joined = unit(
        "aten::cat", (listed(tensor(0, 2, 3), tensor(0, 2, 3, offset=6)), value("int", 1)), (storage(12),), id="cat"
    )
    cast = unit("aten::_to_copy", (tensor(0, 4), value("dtype", "float64")), (storage(4),), id="cast")
    from dataclasses import replace

    schema = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None) -> Tensor"
    clamped = unit("aten::clamp", (tensor(0, 4), choice(value("float", float("inf")), value("none")), value("none")),
                   (storage(4),), id="clamp")  # fmt: skip
    made = plan(joined, replace(cast, schema=schema), clamped)
    assert executed(made, "cat")["call"]().shape == (2, 6)
    assert executed(made, "cast")["call"]().dtype == torch.float64
    assert executed(made, "clamp")["call"]().isinf().all()


def test_what_the_trace_was_recorded_under_is_set() -> None:
    made = plan(add(), settings={"backends.cudnn.benchmark": True, "get_float32_matmul_precision": "high", "other": 1})
    text = unit_script(made, "add")
    assert "torch.backends.cudnn.benchmark = True" in text
    assert "torch.set_float32_matmul_precision('high')" in text
    assert "other" not in text


def test_names_of_kernels_cannot_end_the_text_around_them() -> None:
    from dataclasses import replace

    own = add()
    odd = replace(own, kernels=(replace(own.kernels[0], name='x""" + boom() \\'),), notes=("a\nb",))
    tree = ast.parse(unit_script(plan(odd), "add"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "boom"]


def test_every_unit_of_real_plans_can_be_written() -> None:
    written = 0
    for path in sorted((ROOT / "samples" / "faults").glob("*.json.gz"))[:6]:
        profile = warplens.open(path, cache=False)
        assert isinstance(profile, warplens.Profile)
        made = make_plan(profile.workspace, path)
        ready = [own for own in made.units if own.status == READY and own.triton is None]
        for own in ready:
            ast.parse(unit_script(made, own.id))
        written += len(ready)
    assert written > 50


def test_a_unit_that_cannot_run_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused: Unit = unit("aten::mm", id="u2", status="refused", reason="the trace records no shapes")
    made = plan(add(), refused)
    with pytest.raises(UsageError, match="cannot be run: the trace records no shapes"):
        unit_script(made, "u2")
    with pytest.raises(UsageError, match="no unit 'u9'"):
        unit_script(made, "u9")
    from warplens_run.formats import replay_plan as plan_file

    plan_file.save(tmp_path / "plan.json", made)
    assert main(["replay", "script", str(tmp_path / "plan.json"), "--unit", "add", "-o", str(tmp_path / "r.py")]) == 0
    assert main(["replay", "script", str(tmp_path / "plan.json"), "--unit", "add"]) == 0
    assert capsys.readouterr().out == (tmp_path / "r.py").read_text()
