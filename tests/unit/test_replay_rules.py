"""A plan comes from a trace that may be hostile: it calls ops of known namespaces, within the memory it was given."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from replay_plans import listed, plan, storage, tensor, unit, value
from warplens.replay.script import unit_script
from warplens_run.base.errors import FormatError, UsageError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.replay_plan import Argument, ReplayPlan, SourceKernel, TracedGpu, Unit, source_of
from warplens_run.replay import op_rules


def numbers(*sides: int) -> Argument:
    return listed(*(value("int", side) for side in sides))


def read_again(made: ReplayPlan) -> ReplayPlan:
    return plan_file.parse(plan_file.to_json(made))


INJECTED = "default(); import os; os.abort() #"


@pytest.mark.parametrize(
    "hostile",
    [
        unit("aten::neg", (tensor(0, 2),), (storage(2),), id="u1", triton=None),
        unit("aten::empty.memory_format", (numbers(2), value("none"), value("layout", INJECTED)), id="u1"),
        unit("aten::clone", (tensor(0, 2), value("memory_format", INJECTED)), (storage(2),), id="u1"),
        unit("aten::_to_copy", (tensor(0, 2), value("dtype", INJECTED)), (storage(2),), id="u1"),
        unit("aten::_to_copy", (tensor(0, 2), value("device", INJECTED)), (storage(2),), id="u1"),
        unit("aten::mul.Scalar", (tensor(0, 2), value("complex", INJECTED)), (storage(2),), id="u1"),
        unit("aten::mul.Scalar", (tensor(0, 2), value("complex", [1, INJECTED])), (storage(2),), id="u1"),
        unit("k", (value("function", INJECTED),), id="u1", triton=SourceKernel("k.py", "k", {}, (1,))),
        unit("k", id="u1", triton=SourceKernel("k.py", "k", {INJECTED: 1}, (1,))),
        unit("k", id="u1", triton=SourceKernel("k.py", INJECTED, {}, (1,))),
    ],
)
def test_no_text_of_a_plan_becomes_code_of_a_script(hostile: Unit) -> None:
    if hostile.op == "aten::neg":
        hostile = replace(hostile, overload=INJECTED)
    with pytest.raises(FormatError):
        read_again(plan(hostile, sources={"k.py": source_of("def k():\n    pass\n")}))


def test_names_of_a_trace_stay_within_the_docstring_of_a_script() -> None:
    odd = '"""\nimport os\n\x1b]0;x\x07\u202e\\"'
    own = unit("aten::neg", (tensor(0, 2),), (storage(2),), id="u1", notes=(odd, 'ends with "'))
    made = replace(plan(replace(own, kernels=(replace(own.kernels[0], name=odd),))), trace=odd, gpus=(TracedGpu(odd),))
    text = unit_script(made, "u1")
    tree = ast.parse(text)
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert modules == ["torch"]
    assert not re.search(r"[\x1b\x07\u202e]", text)


def test_numbers_that_json_lacks_are_written_in_scripts() -> None:
    own = unit("aten::mul.Scalar", (tensor(0, 2), value("complex", ["inf", -1.5])), (storage(2),), id="u1")
    assert 'complex(float("inf"), -1.5)' in unit_script(read_again(plan(own)), "u1")


@pytest.mark.parametrize("op", [*op_rules.HAZARDS, "c10d::allreduce_", "prim::Print"])
def test_no_hazardous_op_is_written_as_a_script(op: str) -> None:
    made = plan(unit(op, id="u1"))
    for imports in ((), ("some_module",)):
        with pytest.raises(UsageError, match="is not written"):
            unit_script(made, "u1", imports)


def test_a_script_of_a_custom_op_imports_the_module_that_was_named() -> None:
    made = plan(unit("mine::op", (tensor(0, 2),), (storage(2),), id="u1"))
    with pytest.raises(UsageError, match="--import the module"):
        unit_script(made, "u1")
    assert "import torch\nimport my.ops\n" in unit_script(made, "u1", ["my.ops"])


def test_the_cpp_runner_has_the_same_rules() -> None:
    text = files("warplens.replay.cpp").joinpath("project", "src", "torch_ops.cpp").read_text("utf-8")
    tables = dict(re.findall(r"(no_units|hazards) = \{\n(.*?)\n\};", text, re.DOTALL))
    assert set(re.findall(r'\{"([^"]+)",', tables["hazards"])) == set(op_rules.HAZARDS)
    assert set(re.findall(r'\{"([^"]+)",', tables["no_units"])) == set(op_rules.NO_UNITS)
    strided = re.search(r"strided = \{(.*?)\}", text)
    assert strided is not None
    assert set(re.findall(r'"(\w+)"', strided[1])) == op_rules.STRIDED


torch: Any = pytest.importorskip("torch")

from warplens_run.replay import bounds, imported  # noqa: E402 - they load PyTorch
from warplens_run.replay.calls import bind, combinations, resolve  # noqa: E402
from warplens_run.replay.faults import BadUnit, UnitRefused  # noqa: E402
from warplens_run.replay.inputs import Inputs  # noqa: E402

CPU = torch.device("cpu")


def run_once(made: Unit) -> None:
    bind(resolve(made.op, made.overload), combinations(made)[0], Inputs.build(made, CPU, 0), CPU)()


@pytest.mark.parametrize("op", op_rules.HAZARDS)
def test_no_hazardous_op_runs(op: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnitRefused, match=re.escape(f"{op} is not replayed: {op_rules.HAZARDS[op]}")):
        run_once(unit(op, (value("str", "printed"),)))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("op", ["inductor::_mm_plus_mm", "quantized::add", "mkldnn::_linear_pointwise", "nowhere::op"])
def test_ops_of_other_namespaces_are_refused_until_a_module_is_imported(op: str) -> None:
    with pytest.raises(UnitRefused, match="neither aten nor prims; --import the module that defines it"):
        resolve(op, "")


@pytest.mark.parametrize("op", ["aten::_cufft_clear_plan_cache", "aten::_nnpack_available", "aten::can_cast"])
def test_an_op_without_tensors_is_refused(op: str) -> None:
    with pytest.raises(UnitRefused, match="it neither takes nor returns a tensor"):
        resolve(op, "")


@pytest.mark.parametrize("op", ["aten::save", "aten::warn", "aten::format", "aten::manual_seed"])
def test_ops_of_the_interpreter_alone_are_unknown(op: str) -> None:
    with pytest.raises((BadUnit, UnitRefused)):
        resolve(op, "default")


def test_an_imported_module_allows_its_own_ops_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\nlibrary = torch.library.Library('rulestest', 'DEF')\n"
    text += "library.define('same(Tensor x) -> Tensor')\nlibrary.impl('same', lambda x: x.clone(), 'CPU')\n"
    (tmp_path / "rulestest_ops.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imported, "_imported", set())
    imported.import_modules(["rulestest_ops"])
    assert imported.imported() == {"rulestest"}
    run_once(unit("rulestest::same", (tensor(0, 4),), (storage(4),)))
    with pytest.raises(UnitRefused):
        resolve("inductor::_mm_plus_mm", "")


@pytest.mark.parametrize("op", ["aten::as_strided", "aten::as_strided_", "aten::as_strided_copy", "prims::as_strided"])
@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2, 4), (8, 1), 0), ((8,), (1,), 1), ((1 << 40, 2), (1 << 40, 1), 0), ((2,), (-1,), 1), ((2,), (1, 1), 0)],
)
def test_a_view_beyond_its_storage_is_refused(
    op: str, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    arguments = (tensor(0, 8), numbers(*size), numbers(*stride), value("int", offset))
    with pytest.raises(UnitRefused, match=r"extends beyond its storage|are not lists of numbers"):
        run_once(unit(op, arguments, (storage(8),)))


def test_the_memory_of_a_scatter_is_checked_too() -> None:
    arguments = (tensor(0, 8), tensor(0, 4), numbers(4), numbers(4), value("int", 0))
    with pytest.raises(UnitRefused, match="beyond its storage"):
        run_once(unit("aten::as_strided_scatter", arguments, (storage(8),)))


def test_views_within_their_storage_run() -> None:
    run_once(unit("aten::as_strided", (tensor(0, 8), numbers(2, 4), numbers(4, 1), value("int", 0)), (storage(8),)))
    run_once(unit("aten::as_strided", (tensor(0, 8), numbers(0), numbers(1 << 40), value("int", 9)), (storage(8),)))
    run_once(unit("aten::unfold", (tensor(0, 8), value("int", 0), value("int", 4), value("int", 2)), (storage(8),)))
    run_once(unit("aten::split.Tensor", (tensor(0, 8), value("int", 3)), (storage(8),)))


def test_a_result_that_an_op_puts_beyond_its_storage_is_refused() -> None:
    """`_reshape_alias` is such an op, which is why no plan reaches it."""
    op = torch.ops.aten._reshape_alias.default
    wide = op(torch.zeros(4), [1024], [1])
    with pytest.raises(UnitRefused, match="beyond its storage"):
        bounds.check_results(op, [wide])
    bounds.check_results(op, (torch.zeros(4), [torch.zeros(2, 2).t(), torch.zeros(0)]))


def test_a_chain_does_not_make_views_by_stride() -> None:
    from warplens_run.proof import own_sequences, sequence_calls

    call = sequence_calls.OpCall("aten::as_strided", "", (tensor(0, 4), numbers(64), numbers(1)))
    text = sequence_calls.to_text(sequence_calls.CallSequence((call,), (0,)))
    for run in (own_sequences.chain, own_sequences.sequence):
        with pytest.raises(UnitRefused):
            run([torch.zeros(1).expand(4)], text)
