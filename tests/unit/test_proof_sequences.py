"""Recorded calls one after the other: on their own tensors, as a chain, compiled, as a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proof_runs import experiment, ran
from replay_plans import storage, tensor, unit, value
from warplens.proof.experiments.sequences import CHAIN, COMPILED_CHAIN, SEQUENCE, separate_calls_unit, sequence_unit
from warplens_run.base.errors import FormatError
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import Argument, Unit
from warplens_run.proof.sequence_calls import CallSequence, from_text, tensors_among, to_text

torch = pytest.importorskip("torch")

SHAPE = (4, 5)


def pointwise(op: str, *others: Argument, tensors: int = 1, dtype: str = "float32", name: str = "") -> Unit:
    """An op on as many tensors of one shape."""
    given = tuple(tensor(number, *SHAPE, dtype=dtype) for number in range(tensors))
    return unit(op, (*given, *others), (storage(20, dtype),) * tensors, id=name or op.partition("::")[2].split(".")[0])


CUBE = [pointwise("aten::mul.Tensor", tensors=2, name="square"), pointwise("aten::mul.Tensor", tensors=2, name="cube")]
TANH = [*CUBE, pointwise("aten::add.Tensor", tensors=2), pointwise("aten::tanh")]


@pytest.fixture(autouse=True)
def own_ops() -> Iterator[None]:
    from warplens_run.proof import own_ops, own_sequences

    assert own_ops.LIBRARY is not None
    own_sequences._made.clear()
    yield
    own_sequences._made.clear()


def given_to(own: Unit) -> tuple[list[Any], str]:
    """Random tensors, as many as the unit has, and its text."""
    torch.manual_seed(0)
    views = tensors_among(own.arguments[:1])
    tensors = [torch.randn(view.tensor.shape).to(getattr(torch, view.tensor.dtype)) for view in views if view.tensor]
    return tensors, own.arguments[1].value


def test_a_unit_that_runs_twice_keeps_its_tensors() -> None:
    twice = sequence_unit("s", SEQUENCE, [TANH[0], TANH[3], TANH[0]])
    assert len(tensors_among(twice.arguments)) == 3
    assert from_text(twice.arguments[1].value).order == (0, 1, 0)
    apart = separate_calls_unit("s", CHAIN, [TANH[0], TANH[3], TANH[0]])
    assert len(tensors_among(apart.arguments)) == 5
    assert apart.times.median_ns == sum(own.times.median_ns for own in (TANH[0], TANH[3], TANH[0]))


def test_calls_of_a_sequence_change_their_own_tensors() -> None:
    add = pointwise("aten::add_.Scalar", value("int", 2))
    tensors, calls = given_to(sequence_unit("s", SEQUENCE, [add, add]))
    expected = tensors[0] + 4
    torch.ops.warplens.sequence(tensors, calls)
    torch.testing.assert_close(tensors[0], expected)


def test_results_of_a_chain_are_read_by_the_next_calls() -> None:
    """x·x, times x, plus x, tanh: all that is not a result is the chain's one input."""
    tensors, calls = given_to(separate_calls_unit("c", CHAIN, TANH))
    (result,) = torch.ops.warplens.chain(tensors, calls)
    first = tensors[0]
    torch.testing.assert_close(result, torch.tanh(first * first * first + first))


def test_a_copy_to_another_type_is_a_cast_in_a_chain() -> None:
    narrow = unit(
        "aten::copy_", (tensor(0, *SHAPE, dtype="bfloat16"), tensor(1, *SHAPE)), (storage(20, "bfloat16"), storage(20))
    )
    chain = [pointwise("aten::neg"), narrow, pointwise("aten::neg", dtype="bfloat16", name="again")]
    tensors, calls = given_to(separate_calls_unit("c", CHAIN, chain))
    (result,) = torch.ops.warplens.chain(tensors, calls)
    torch.testing.assert_close(result, tensors[0].bfloat16())


def test_all_results_that_nothing_reads_are_kept() -> None:
    """A norm returns statistics besides its result."""
    norm = unit(
        "aten::native_layer_norm",
        (tensor(0, *SHAPE), Argument("list", items=(value("int", 5),)), Argument("none"), Argument("none"), value("float", 1e-5)),
        (storage(20),),
    )  # fmt: skip
    tensors, calls = given_to(separate_calls_unit("c", CHAIN, [norm, pointwise("aten::neg")]))
    mean, rstd, result = torch.ops.warplens.chain(tensors, calls)
    assert mean.shape == rstd.shape == (4, 1)
    torch.testing.assert_close(result, -torch.nn.functional.layer_norm(tensors[0], (5,)))


def test_a_compiled_chain_gives_what_the_chain_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the code generator, which is PyTorch's own and takes a compiler and its time."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, **options: compiler(module, backend="eager", **options))
    chain = separate_calls_unit("c", CHAIN, TANH)
    tensors, calls = given_to(chain)
    expected = torch.ops.warplens.chain(tensors, calls)
    torch.testing.assert_close(torch.ops.warplens.compiled_chain(tensors, calls), expected)


@pytest.mark.usefixtures("warm_runner")
def test_a_sequence_runs_as_a_unit_before_and_after(tmp_path: Path) -> None:
    """On a CPU there is no graph: both sides are plain calls."""
    calls = sequence_unit("step.calls", SEQUENCE, TANH)
    graph = replace(calls, id="step.graph")
    variant = Variant("as one graph", (Swap((UnitCalls(calls.id, 1.0),), (UnitCalls(graph.id, 1.0),)),), timer="graph")
    result = ran(tmp_path, experiment("WL104", variant), units=(calls, graph)).experiments[0].variants[0]
    assert (result.status, result.failures) == ("done", ())
    assert result.before_ns > 0 < result.after_ns
    assert result.swaps[0].traced_ns == calls.times.median_ns


def test_a_text_that_is_no_sequence_is_an_error() -> None:
    with pytest.raises(FormatError, match="not a sequence"):
        from_text("[")
    with pytest.raises(FormatError, match="does not have"):
        from_text(to_text(CallSequence((), (0,))))
    assert COMPILED_CHAIN != CHAIN
