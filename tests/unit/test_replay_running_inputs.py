"""Storages are filled as the plan says, tensors lie in them as they did, and what an op changes is set back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay_plans import storage, tensor, unit
from warplens_run.formats.replay_plan import DTYPES, Argument, Fill, Storage

torch = pytest.importorskip("torch")

from warplens_run.replay import inputs as inputs_module  # noqa: E402 - they load PyTorch
from warplens_run.replay.faults import BadUnit, UnitRefused  # noqa: E402
from warplens_run.replay.fills import dtype_of  # noqa: E402
from warplens_run.replay.inputs import Inputs, check_memory  # noqa: E402

CPU = torch.device("cpu")


def built(*storages: Storage, seed: int = 0, identity: str = "u") -> Inputs:
    return Inputs.build(unit("aten::neg", (), storages, id=identity), CPU, seed)


def filled(elements: int, dtype: str, fill: Fill) -> Any:
    return built(storage(elements, dtype, fill)).tensor(record(tensor(0, elements, dtype=dtype)))


def record(argument: Argument) -> Any:
    assert argument.tensor is not None
    return argument.tensor


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_normal_floats_have_mean_0_and_deviation_1(dtype: str) -> None:
    values = filled(20_000, dtype, Fill()).double()
    assert abs(float(values.mean())) < 0.05
    assert abs(float(values.std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16", "uint16"])
def test_whole_numbers_are_in_range_and_reach_both_ends(dtype: str) -> None:
    values = filled(4000, dtype, Fill("integers", 3, 9)).to(torch.int64)
    assert sorted(set(values.tolist())) == [3, 4, 5, 6, 7, 8]


def test_uniform_floats_are_between_their_bounds() -> None:
    values = filled(10_000, "float32", Fill("uniform", -2, 6))
    assert -2 <= float(values.min()) < -1.9
    assert 5.9 < float(values.max()) <= 6
    assert abs(float(values.mean()) - 2) < 0.1


def test_what_relu_and_its_backward_pass_leave_is_half_zero() -> None:
    rectified, masked = filled(20_000, "float16", Fill("rectified")), filled(20_000, "float16", Fill("masked"))
    for values in (rectified, masked):
        assert float((values == 0).double().mean()) == pytest.approx(0.5, abs=0.02)
    assert float(rectified.min()) == 0.0
    assert float(masked.double().mean()) == pytest.approx(0, abs=0.02)


def test_a_ramp_climbs_by_its_step_and_stays_at_its_top() -> None:
    assert filled(5, "int32", Fill("ramp", 0, 20, 8)).tolist() == [0, 8, 16, 20, 20]
    assert filled(3, "float32", Fill("ramp", 1, 9, 0.5)).tolist() == [1.0, 1.5, 2.0]


def test_a_ramp_goes_on_from_one_chunk_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens_run.replay.fills.CHUNK", 4)
    assert filled(10, "int64", Fill("ramp", 0, 100, 1)).tolist() == list(range(10))


def test_shares_add_up_with_the_larger_ones_first() -> None:
    assert filled(7, "int64", Fill("shares", 8, step=3)).tolist() == [3, 3, 2, 3, 3, 2, 3]


def test_a_constant_is_everywhere() -> None:
    assert filled(2, "bool", Fill("constant", 1)).tolist() == [True, True]
    assert filled(3, "float32", Fill("constant", 0.25)).tolist() == [0.25] * 3
    assert filled(2, "int64", Fill("constant", (1 << 52) + 1)).tolist() == [(1 << 52) + 1] * 2


def test_booleans_are_of_both_kinds() -> None:
    assert set(filled(200, "bool", Fill()).tolist()) == {True, False}
    assert set(filled(200, "bool", Fill("integers", 0, 2)).tolist()) == {True, False}


def test_complex_numbers_have_two_random_parts() -> None:
    values = filled(2000, "complex64", Fill())
    assert float(values.real.std()) > 0.9
    assert float(values.imag.std()) > 0.9


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_of_a_plan_can_be_filled(dtype: str) -> None:
    if not hasattr(torch, dtype):
        pytest.skip("this PyTorch is older than that dtype")
    inputs = built(storage(64, dtype, Fill("integers", 0, 2)))
    assert inputs.tensor(record(tensor(0, 64, dtype=dtype))).shape == (64,)


def test_small_floats_are_cast_not_made_of_random_bytes() -> None:
    values = filled(4000, "float8_e4m3fn", Fill()).float()
    assert float(values.abs().max()) < 8, "random bytes reach 448"
    assert float(values.std()) > 0.8


def test_an_unknown_dtype_is_one_line() -> None:
    with pytest.raises(BadUnit, match="this PyTorch has no dtype float3"):
        dtype_of("float3")


def test_an_empty_range_of_whole_numbers_is_one_line() -> None:
    with pytest.raises(BadUnit, match="no integer is at least 5"):
        filled(4, "int64", Fill("integers", 5, 5))


def test_fills_are_the_same_on_every_run_and_differ_between_storages_units_and_seeds() -> None:
    two = (storage(100), storage(100))
    first, again = built(*two), built(*two)
    assert torch.equal(first.flats[0], again.flats[0])
    assert not torch.equal(first.flats[0], first.flats[1])
    assert not torch.equal(first.flats[0], built(*two, seed=1).flats[0])
    assert not torch.equal(first.flats[0], built(*two, identity="v").flats[0])


def test_tensors_of_one_storage_share_it_with_offsets_and_strides() -> None:
    inputs = built(storage(12, "int64", Fill("ramp", 0, 100, 1)))
    rows = inputs.tensor(record(tensor(0, 3, 4, dtype="int64")))
    column = inputs.tensor(record(tensor(0, 3, dtype="int64", stride=(4,), offset=1)))
    assert rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert column.tolist() == [1, 5, 9]
    column[2] = 77
    assert rows[2, 1] == 77


def test_a_stride_of_zero_repeats_one_element() -> None:
    inputs = built(storage(1, "int64", Fill("constant", 6)))
    assert inputs.tensor(record(tensor(0, 2, 3, dtype="int64", stride=(0, 0)))).tolist() == [[6, 6, 6], [6, 6, 6]]


def test_a_scalar_and_an_empty_tensor_are_tensors_too() -> None:
    inputs = built(storage(1), storage(0))
    assert inputs.tensor(record(tensor(0))).shape == ()
    assert inputs.tensor(record(tensor(1, 4, 0))).shape == (4, 0)


def test_storages_are_whole_words() -> None:
    assert built(Storage(13, "uint8")).flats[0].numel() == 16


def test_what_an_op_changes_is_set_back_and_nothing_else() -> None:
    inputs = built(storage(8, written=True), storage(8))
    before = [flat.clone() for flat in inputs.flats]
    for flat in inputs.flats:
        flat.zero_()
    inputs.reset()
    assert torch.equal(inputs.flats[0], before[0])
    assert not inputs.flats[1].any()


def test_copies_are_equal_apart_and_set_back_by_themselves() -> None:
    inputs = built(storage(8, written=True), storage(8))
    other = inputs.with_copies([0])
    assert other.flats[1] is inputs.flats[1]
    before = inputs.flats[0].clone()
    other.flats[0].zero_()
    assert torch.equal(inputs.flats[0], before)
    other.reset()
    assert torch.equal(other.flats[0], before)


def test_a_unit_larger_than_the_memory_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "free_bytes", lambda device: 8_700_000_000)
    large = unit("aten::neg", (), (replace(storage(1), bytes=6 << 30, written=True),))
    with pytest.raises(UnitRefused, match=r"needs 12\.0 GiB, 8\.1 GiB are free"):
        check_memory(large, CPU)
    check_memory(unit("aten::neg", (), (replace(storage(1), bytes=6 << 30),)), CPU)
