"""Costs of lists, generated kernels and collectives, and how a recorded call is read."""

from __future__ import annotations

import pytest

from cost_calls import Argument, bf16, cost, fp32, int64, tensor
from warplens.costs import Call, Tensor, assumed_pointwise, cost_of, parse_call
from warplens.costs.collective import algbw_gbps, bus_factor, busbw_gbps
from warplens.costs.lists import CHUNK, FROM_GRID, SIZE_UNKNOWN
from warplens.costs.pointwise import broadcast

MEMBERS = (fp32(100), fp32(20, 5))


@pytest.mark.parametrize("op", ["aten::cat", "aten::stack"])
def test_joined_tensors_are_read_and_written_once(op: str) -> None:
    found = cost(op, MEMBERS, "0", item_bytes=2.0)
    assert (found.flop, found.bytes, found.approximate) == (0, 2 * 200 * 2, "")
    unknown = cost(op, MEMBERS, "0")
    assert (unknown.bytes, unknown.approximate) == (2 * 200 * 4, SIZE_UNKNOWN)


OPTIMIZERS = {
    # op: arguments after the list of weights, passes over the list, operations per element
    "aten::_fused_adam_": (("l", "l", "l", "l", "l", "", "", "", "", "", "False"), 4 + 3, 15),
    "aten::_fused_adamw_": (("l", "l", "l", "l", "l", "", "", "", "", "", "False"), 4 + 3, 16),
    "aten::_fused_adamw_.tensor_lr": (("l", "l", "l", "l", "l", "", "", "", "", "", "True"), 5 + 4, 16),
    "aten::_fused_sgd_": (("l", "l", "0.", "0."), 2 + 1, 4),
    "aten::_fused_sgd_.tensor_lr": (("l", "l", "0.", "0.9"), 3 + 2, 4),
    "aten::_fused_adagrad_": (("l", "l", "l"), 3 + 2, 7),
    "aten::_foreach_norm": (("2",), 1, 2),
    "aten::_foreach_zero_": ((), 1, 0),
    "aten::_foreach_copy_": (("l",), 2, 0),
    "aten::_amp_foreach_non_finite_check_and_unscale_": ((), 2, 2),
    "aten::_foreach_add_": (("l", "1"), 2 + 1, 1),
    "aten::_foreach_mul_": (("0.9",), 1 + 1, 1),
    "aten::_foreach_addcdiv_": (("l", "l", "1"), 3 + 1, 3),
    "aten::_foreach_lerp_": (("l", "0.1"), 2 + 1, 3),
    "aten::_foreach_sqrt": ((), 1 + 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("op", OPTIMIZERS)
def test_an_optimizer_passes_over_its_lists(op: str) -> None:
    rest, passes, flop = OPTIMIZERS[op]
    args = [MEMBERS if each == "l" else each for each in rest]
    found = cost(op, MEMBERS, *args, item_bytes=4.0)
    assert (found.flop, found.bytes, found.family) == (flop * 200, 4 * passes * 200, "optimizer")
    assert found.approximate == ""


def test_long_lists_are_sized_by_the_blocks_of_their_kernels() -> None:
    found = cost("aten::_foreach_mul_", (), "0.9", chunks=3, item_bytes=2.0)
    assert (found.flop, found.bytes) == (3 * CHUNK, 2 * 2 * 3 * CHUNK)
    assert (found.approximate, found.dtype) == (FROM_GRID, "bf16")
    assert cost_of(Call("aten::_foreach_mul_", ((), "0.9"))) is None


@pytest.mark.parametrize(
    ("op", "args", "flop", "moved"),
    [
        ("triton_poi_fused_add_0", (bf16(8, 16), bf16(8, 16), fp32(8, 16), "128"), 128, (2 + 2 + 4) * 128),
        ("triton_per_fused_mean_1", (bf16(8, 16), fp32(8), "8", "16"), 128, 2 * 128 + 4 * 8),
        ("triton_red_fused_sum_2", (bf16(8, 16), fp32(8), "8", "16"), 128, 2 * 128 + 4 * 8),
        # a table is looked up, not read
        (
            "triton_poi_fused_embedding_3",
            (int64(8), bf16(50_000, 16), bf16(8, 16), "128"),
            0,
            8 * 8 + 2 * 128 + 2 * 128,
        ),
        ("triton_poi_fused_add_0", (bf16(8, 16), bf16(8, 16)), 128, 2 * 256),
    ],
)
def test_a_triton_kernel_moves_its_tensors_once(op: str, args: tuple[Argument, ...], flop: int, moved: float) -> None:
    found = cost(op, *args)
    assert (found.flop, found.bytes, found.family) == (flop, moved, "triton")
    assert found.approximate


@pytest.mark.parametrize(
    ("kernel", "ops"),
    [
        ("triton_poi_fused_silu_0", ["silu"]),
        ("triton_poi_fused__unsafe_view_mul_silu_2", ["silu", "mul"]),
        ("triton_poi_fused__to_copy_gelu_gelu_backward_mul_11", ["gelu", "gelu_backward", "mul"]),
        (
            "triton_poi_fused_hardswish_mish_sigmoid_softplus_tanh_3",
            ["hardswish", "mish", "sigmoid", "softplus", "tanh"],
        ),
        ("triton_poi_fused_silu_backward_4", ["silu_backward"]),
        ("triton_per_fused__softmax_add_5", ["_softmax", "add"]),
        ("triton_red_fused_add_native_layer_norm_6", ["native_layer_norm", "add"]),
        ("triton_poi_fused_clone_7", ["clone"]),
    ],
)
def test_ops_count_as_many_operations_in_a_fused_kernel_as_alone(kernel: str, ops: list[str]) -> None:
    x = bf16(8, 16)
    alone = [cost_of(Call(f"aten::{op}", (x, x))) for op in ops]
    assert cost(kernel, x, x, x, "128").flop == sum(found.flop for found in alone if found is not None)


@pytest.mark.parametrize(
    ("op", "args", "moved"),
    [
        # the bias comes last and is too small to be the result: the first tensor is updated in place
        ("triton_poi_fused_addmm_gelu_0", (bf16(8, 16), bf16(16), "128"), 2 * 2 * 128 + 2 * 16),
        # two factors and a result in two tensors
        ("triton_poi_fused_mul_silu_1", (bf16(8, 16), bf16(128), "128"), 3 * 2 * 128),
        ("triton_poi_fused_mul_silu_1", (bf16(8, 16), fp32(8, 16), "128"), 6 * 128),
        ("triton_poi_fused_cat_2", (bf16(8, 4), bf16(8, 12), bf16(8, 16), "128"), 2 * (32 + 96 + 128)),
        # reductions write less than they read
        ("triton_per_fused_mean_3", (bf16(8, 16), fp32(8), "8", "16"), 2 * 128 + 4 * 8),
    ],
)
def test_a_tensor_that_a_triton_kernel_must_update_in_place_moves_twice(
    op: str, args: tuple[Argument, ...], moved: float
) -> None:
    assert cost(op, *args).bytes == moved


def test_an_elementwise_op_outside_the_table_is_taken_for_what_it_is() -> None:
    found = assumed_pointwise(Call("aten::new_thing", (bf16(4, 8), bf16(8), "1")))
    assert found is not None and (found.flop, found.bytes) == (32, 2 * (32 + 8 + 32))
    assert cost_of(Call("aten::new_thing", (bf16(4, 8),))) is None


def test_shapes_stretch_to_each_other() -> None:
    assert broadcast([(4, 1, 3), (5, 1), ()]) == (4, 5, 3)
    assert broadcast([]) == ()
    assert broadcast([(0, 3), (1, 3)]) == (0, 3)


def test_collectives_cross_the_links_as_nccl_tests_counts_them() -> None:
    assert bus_factor("allreduce", 8) == bus_factor("_allreduce_base", 8) == 2 * 7 / 8
    assert [bus_factor(name, 4) for name in ("allgather", "reduce_scatter", "all_to_allv", "_reduce_scatter_base")] == [
        0.75
    ] * 4
    assert [bus_factor(name, 4) for name in ("broadcast", "send", "recv", "reduce")] == [1.0] * 4
    assert bus_factor("allreduce", 1) == 0 and bus_factor("allreduce", 0) is None
    assert algbw_gbps(8e9, 1e6) == 8 and busbw_gbps("allreduce", 8, 8e9, 1e6) == 14
    assert algbw_gbps(0, 5) is algbw_gbps(5, 0) is busbw_gbps("allreduce", 0, 5, 5) is None


def test_a_recorded_call_keeps_dtypes_strides_lists_and_numbers() -> None:
    call = parse_call(
        "aten::cat",
        "[[[2, 3], [4]], [2, 0], [], [7]]",
        '["TensorList", "c10::Half", "Scalar", "no such type"]',
        "[[[3, 1], [1]], [1, 1], [], [1]]",
        '["", "", "-1", ""]',
    )
    assert call.tensors(0) == (tensor("fp32", 2, 3, strides=(3, 1)), tensor("fp32", 4, strides=(1,)))
    assert call.tensor(1) == tensor("fp16", 2, 0, strides=(1, 1)) and call.tensor(1).bytes == 0
    assert (call.integer(2), call.tensor(3), call.text(9)) == (-1, None, "")


def test_lists_have_the_types_that_are_recorded_else_those_of_the_kernel() -> None:
    """An ExecutionTrace spells the types of a list's members, PyTorch's profiler does not."""
    op, dims = "aten::_foreach_addcdiv_", "[[[100], [20, 5]], [[100], [20, 5]], [[100], [20, 5]]]"
    named = '["GenericList[Tensor(c10::Half),Tensor(c10::Half)]", "GenericList[Tensor(float)]", "TensorList"]'
    recorded, of_kernel, unknown = (
        cost_of(parse_call(op, dims, types, "", "", *known))
        for types, known in ((named, (4.0, "", "fp32")), ('["TensorList"]', (2.0, "", "fp16")), ('["TensorList"]', ()))
    )
    assert recorded is not None and of_kernel is not None and unknown is not None
    assert (recorded.dtype, recorded.bytes) == (of_kernel.dtype, of_kernel.bytes) == ("fp16", 2 * 4 * 200)
    assert (unknown.dtype, unknown.bytes, unknown.approximate) == ("fp32", 4 * 4 * 200, SIZE_UNKNOWN)


def test_plain_values_are_read_with_care() -> None:
    call = Call("op", ("[1, -2, x, --3, ²]", "--5", "²", "9" * 30, "true", "[True, False]", Tensor((), "fp32")))
    assert call.integers(0) == (1, -2)
    assert [call.integer(place, 7) for place in (1, 2, 3, 6)] == [7] * 4
    assert call.flag(4) and not call.flag(6) and call.flags(5) == (True, False)


def test_intensity_is_operations_per_byte() -> None:
    found = cost("aten::mm", bf16(128, 64), bf16(64, 32))
    assert found.intensity == found.flop / found.bytes
    assert cost("aten::zero_", bf16(0)).intensity == 0


GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
PICK = "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<int> >(int)"


def test_what_an_index_picks_is_counted_from_its_launch() -> None:
    """46 rows of 5,760 bytes, two blocks of 256 threads with 16 bytes each; or blocks of 512 elements."""
    rows = cost_of(Call("aten::index.Tensor", (bf16(8192, 2880), None), kernel=GATHER), chunks=92)
    assert rows is not None and rows.bytes == 46 * 8 + 2 * 46 * 5760 and not rows.approximate
    elements = cost_of(Call("aten::index", (bf16(512, 64), None), kernel=PICK), chunks=3)
    assert elements is not None and elements.bytes == 2 * 2 * 3 * 512 and "launch grid" in elements.approximate
    assert cost_of(Call("aten::index", (bf16(512, 64), None), kernel="another"), chunks=3) is None
    assert cost_of(Call("aten::index", (bf16(512, 64), None), kernel=PICK)) is None
