"""The op table's argument numbers against the schemas of the installed PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import fields

from support import each_case
from warplens.costs.attention import AttentionOp
from warplens.costs.convolution import Convolution
from warplens.costs.gemm import Gemm, GroupedGemm
from warplens.costs.indexing import AddedRows, Elements, EmbeddingBackward, PutValues, SelectedRows
from warplens.costs.lists import JoinedTensors, MultiTensor
from warplens.costs.ops import OPS
from warplens.costs.pointwise import Pointwise
from warplens.costs.streams import ByteStream, Copy, Like, Reduction, Resampling, Resized, TopK

torch = pytest.importorskip("torch")

ROLES: dict[type, dict[str, set[str]]] = {
    # family: each field that is an argument's number, and the names that argument may have
    Gemm: {
        "a": {"self", "mat1", "batch1", "input", "mat"},
        "b": {"mat2", "batch2", "other", "weight", "vec", "tensor"},
        "bias": {"self", "bias"},
        "out_dtype": {"out_dtype"},
    },
    GroupedGemm: {"offsets": {"offs"}, "bias": {"bias"}, "out_dtype": {"out_dtype"}},
    AttentionOp: {
        "q": {"query"},
        "causal": {"is_causal"},
        "bias": {"attn_bias", "attn_mask", "bias"},
        "cumulative_q": {"cum_seq_q", "cu_seqlens_q"},
        "cumulative_k": {"cum_seq_k", "cu_seqlens_k"},
        "mask_type": {"custom_mask_type"},
    },
    Convolution: {
        "x": {"input", "self"},
        "weight": {"weight"},
        "bias": {"bias"},
        "stride": {"stride"},
        "padding": {"padding"},
        "dilation": {"dilation"},
        "groups": {"groups"},
        "transposed": {"transposed"},
        "output_padding": {"output_padding"},
        "gradient": {"grad_output"},
        "output_mask": {"output_mask"},
        "added": {"z"},
    },
    SelectedRows: {"table": {"weight", "self"}, "index": {"indices", "index"}, "dim": {"dim"}},
    Elements: {"table": {"self"}, "index": {"index"}},
    AddedRows: {"table": {"self"}, "index": {"index"}, "source": {"source"}},
    PutValues: {"table": {"self"}, "values": {"values"}, "accumulate": {"accumulate"}},
    EmbeddingBackward: {"gradient": {"grad_output", "grad"}, "index": {"indices"}, "rows": {"num_weights"}},
    Reduction: {"dim": {"dim"}, "dtype_arg": {"dtype"}},
    TopK: {"k": {"k"}, "dim": {"dim"}},
    Copy: {"destination": {"self"}, "source": {"src"}},
    JoinedTensors: {"tensors": {"tensors"}},
    MultiTensor: {"one_more_if": {"amsgrad", "momentum"}},
}
ATEN = {name.removeprefix("aten::"): family for name, family in OPS.items() if name.startswith("aten::")}


def overloads(name: str) -> Iterator[Any]:
    """The schemas that take a tensor and return a new one."""
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        arguments = getattr(packet, overload)._schema.arguments
        is_out = any(argument.is_out for argument in arguments)
        if not is_out and any("Tensor" in str(argument.type) for argument in arguments):
            yield arguments


def names_at(name: str, place: int) -> set[str]:
    return {arguments[place].name for arguments in overloads(name) if place < len(arguments)}


def takes_tensor(name: str, place: int) -> bool:
    return any("Tensor" in str(arguments[place].type) for arguments in overloads(name) if place < len(arguments))


@each_case(ATEN)
def test_the_op_exists(name: str) -> None:
    assert hasattr(torch.ops.aten, name)


@each_case(name for name, family in ATEN.items() if type(family) in ROLES)
def test_arguments_play_the_role_that_their_name_says(name: str) -> None:
    family = ATEN[name]
    for role, allowed in ROLES[type(family)].items():
        place = getattr(family, role)
        if place is not None:
            assert names_at(name, place) & allowed, (role, place, names_at(name, place))


def test_every_number_of_a_family_has_its_role_checked() -> None:
    """A new field that is an argument's number must be added above."""
    checked = {kind: set(roles) for kind, roles in ROLES.items()}
    not_places = {
        Gemm: {"b_is_nk", "out", "scales"}, GroupedGemm: {"scales"}, AttentionOp: {"order", "backward", "aligned"},
        Convolution: {"always_transposed"}, Elements: {"sides", "adds"}, AddedRows: {"adds"},
        Reduction: {"results", "flop", "family", "sums"}, MultiTensor: {"reads", "writes", "flop", "family", "note"},
    }  # fmt: skip
    for kind, roles in checked.items():
        assert roles | not_places.get(kind, set()) == {field.name for field in fields(kind)}, kind


@pytest.mark.parametrize("name", [name for name, family in ATEN.items() if isinstance(family, AttentionOp)])
def test_keys_and_values_follow_the_queries(name: str) -> None:
    first = ATEN[name].q
    assert [names_at(name, first + place) for place in range(3)] == [{"query"}, {"key"}, {"value"}]


@pytest.mark.parametrize("name", ["_scaled_mm", "_scaled_grouped_mm"])
def test_scales_are_scales(name: str) -> None:
    assert [names_at(name, place) for place in ATEN[name].scales] == [{"scale_a"}, {"scale_b"}]


@each_case(name for name, family in ATEN.items() if isinstance(family, Pointwise))
def test_every_tensor_of_a_pointwise_op_is_among_its_operands(name: str) -> None:
    for arguments in overloads(name):
        places = [place for place, each in enumerate(arguments) if str(each.type) in ("Tensor", "Optional[Tensor]")]
        assert not places or max(places) < ATEN[name].inputs, [each.name for each in arguments]


STREAMS = [name for name, family in ATEN.items() if isinstance(family, ByteStream)]


@each_case(STREAMS)
def test_what_a_stream_reads_and_resembles_are_tensors(name: str) -> None:
    family = ATEN[name]
    likes = [like for like in family.writes if isinstance(like, Like)]
    places = {family.main, *family.reads, *family.counted, *(like.arg for like in family.writes)}
    places |= {like.dtype_of for like in likes if like.dtype_of is not None}
    if name == "fake_quantize_per_tensor_affine_cachemask":
        places -= {1, 2}  # plain numbers here, tensors in the op per channel
    assert [place for place in places if not takes_tensor(name, place)] == []
    for like in likes:
        assert like.dtype_arg is None or names_at(name, like.dtype_arg) <= {"dtype", "input_dtype"}
        assert like.fp32_if is None or names_at(name, like.fp32_if) == {"half_to_float"}
    assert family.rows_from is None or names_at(name, family.rows_from) == {"normalized_shape"}
    sizes = [names_at(name, result.sizes) for result in family.writes if isinstance(result, Resized)]
    assert all(each == {"input_size" if name.endswith("_backward") else "output_size"} for each in sizes)


@pytest.mark.parametrize("name", [name for name, family in ATEN.items() if isinstance(family, Resampling)])
def test_the_sizes_and_factors_of_a_resampling_are_where_its_schemas_have_them(name: str) -> None:
    assert names_at(name, 1) == {"output_size"}
    assert "scale_factors" in names_at(name, ATEN[name].factors) or name.endswith("_aa")


@pytest.mark.parametrize("name", [name for name in STREAMS if "norm_backward" in name])
def test_the_gradients_of_a_norm_resemble_its_input_and_its_weight(name: str) -> None:
    family = ATEN[name]
    shapes = [names_at(name, like.arg) for like in family.writes]
    assert shapes[0] == {"input"} and shapes[1:] and all(each == {"weight"} for each in shapes[1:])
    assert names_at(name, family.main) == {"input"}
    assert any(names_at(name, place) <= {"grad_out", "grad_output"} for place in family.reads)


@pytest.mark.parametrize("name", ["max_pool2d_with_indices", "avg_pool2d"])
def test_poolings_have_their_numbers_in_order(name: str) -> None:
    family = ATEN[name]
    assert [names_at(name, place) for place in (1, 2, 3)] == [{"kernel_size"}, {"stride"}, {"padding"}]
    assert names_at(name, family.ceil) == {"ceil_mode"}
    assert family.dilation is None or names_at(name, family.dilation) == {"dilation"}


@pytest.mark.parametrize("name", [name for name, family in ATEN.items() if isinstance(family, MultiTensor)])
def test_an_optimizer_reads_no_more_lists_than_it_is_given(name: str) -> None:
    family = ATEN[name]
    arguments = next(overloads(name))
    lists = [each.name for each in arguments if str(each.type) == "List[Tensor]" and each.name != "state_steps"]
    assert family.reads + (family.one_more_if is not None) <= len(lists)
    assert arguments[0].name == "self" and str(arguments[0].type) == "List[Tensor]"


def test_the_arange_that_launches_has_its_numbers_first_and_its_result_last() -> None:
    arguments = torch.ops.aten.arange.start_out._schema.arguments
    assert [each.name for each in arguments] == ["start", "end", "step", "out"]
