"""Arguments whose values must obey an invariant: what the table gives them, and that ops take it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warplens.planning.arguments import CallBuilder, build, choose
from warplens.planning.invariants import INVARIANTS, KINDS, SIDES
from warplens.planning.recorded import from_spec
from warplens.planning.schemas import overloads
from warplens_run.formats.records import decode, encode
from warplens_run.formats.replay_plan import Unit

torch = pytest.importorskip("torch")

Spec = tuple[Any, str, str]


def tensor(*shape: int, dtype: str = "float") -> Spec:
    return list(shape), dtype, ""


def whole(*shape: int) -> Spec:
    return tensor(*shape, dtype="long int")


def number(value: object) -> Spec:
    return [], "Scalar", str(value)


NOTHING: Spec = ([], "", "")


def called(op: str, *values: Spec) -> dict[str, Any]:
    """Rebuilds the arguments of a recorded call, calls the op on the CPU, and gives them by name, with its `result`."""
    from replay_plans import times
    from warplens_run.replay.calls import bind, combinations, resolve
    from warplens_run.replay.inputs import Inputs
    from warplens_run.replay.values import value_of

    shapes, types, concrete = (json.dumps([value[place] for value in values]) for place in range(3))
    recorded = from_spec(shapes, types, "", concrete)
    schema = choose(op, "", recorded)
    given = {parameter.name: value for parameter, value in zip(schema.parameters, recorded, strict=False)}
    call = CallBuilder(op.partition("::")[2], given, ())
    arguments = build(schema, recorded, call)
    unit = Unit("u1", op, (), 1, times(), "", schema.overload, "", arguments, tuple(call.storages))
    assert decode(Unit, json.loads(json.dumps(encode(unit)))) == unit
    device = torch.device("cpu")
    inputs = Inputs.build(unit, device, 0)
    chosen = next(iter(combinations(unit)))
    bound = bind(resolve(op, schema.overload), chosen, inputs, device)
    names = [parameter.name for parameter in schema.parameters]
    made = {name: value_of(argument, inputs, device) for name, argument in zip(names, chosen, strict=True)}
    return made | {"result": bound.function(*bound.args, **bound.named)}


def flat(value: Any) -> list[Any]:
    found: list[Any] = value.flatten().tolist()
    return found


def test_offsets_of_bags_begin_at_the_start_and_follow_each_other() -> None:
    given = called("aten::_embedding_bag", tensor(50, 8), whole(30), whole(5), number(False), number(0), number(False),
                   NOTHING, number(False), number(-1))  # fmt: skip
    assert flat(given["offsets"]) == [0, 6, 12, 18, 24]
    assert max(flat(given["indices"])) < 50


def test_lengths_and_offsets_of_segments_cover_the_data() -> None:
    data, lengths, initial = tensor(10, 3), whole(4), number("0.")
    reduce = ([], "", "")
    given = called("aten::segment_reduce", data, reduce, lengths, NOTHING, NOTHING, number(0), number(False), initial)
    assert sum(flat(given["lengths"])) == 10
    given = called("aten::segment_reduce", data, reduce, NOTHING, NOTHING, whole(5), number(0), number(False), initial)
    assert (flat(given["offsets"])[0], flat(given["offsets"])[-1]) == (0, 10)
    assert flat(given["offsets"]) == sorted(flat(given["offsets"]))


def test_ragged_rows_are_cut_where_they_end() -> None:
    values, offsets = tensor(12, 4), ([[5]], "TensorList", "")
    given = called("aten::_jagged_to_padded_dense_forward", values, offsets, ([], "ScalarList", "[3]"), number("0."))
    assert flat(given["offsets"][0]) == [0, 3, 6, 9, 12]
    assert given["result"].shape == (4, 3, 4)


def test_repeats_add_up_to_the_size_of_the_result() -> None:
    given = called("aten::repeat_interleave", whole(6), number(20))
    assert (sum(flat(given["repeats"])), given["result"].numel()) == (20, 20)


def test_a_permutation_has_each_number_once_and_experts_have_as_many_tokens() -> None:
    given = called("aten::index_select", tensor(9, 4), number(0), whole(9))
    assert sorted(flat(given["index"])) == list(range(9))
    given = called("aten::index_add_", tensor(8, 4), number(0), whole(24), tensor(24, 4), number(1))
    assert sorted(flat(given["index"])) == sorted(list(range(8)) * 3)


def test_other_indices_are_in_bounds() -> None:
    assert set(flat(called("aten::index_select", tensor(9, 4), number(1), whole(7))["index"])) <= set(range(4))


def test_top_k_indices_differ_in_each_row_and_are_as_often_each() -> None:
    given = called("aten::gather", tensor(16, 8), number(1), whole(16, 2), number(False))
    rows = given["index"].tolist()
    assert all(len(set(row)) == 2 for row in rows)
    assert sorted(flat(given["index"])) == sorted(list(range(8)) * 4)
    given = called("aten::scatter_add", tensor(6, 5), number(1), whole(6, 3), tensor(6, 3))
    assert all(len(set(row)) == 3 for row in given["index"].tolist())


def test_top_k_along_another_side_differ_along_it() -> None:
    index = called("aten::gather", tensor(64, 6), number(0), whole(16, 6), number(False))["index"]
    assert all(len(set(column)) == 16 for column in index.t().tolist())
    assert 0 <= int(index.min()) <= int(index.max()) < 64


def test_targets_are_classes_and_no_blanks() -> None:
    given = called("aten::nll_loss_forward", tensor(32, 10), whole(32), NOTHING, number(1), number(-100))
    assert set(flat(given["target"])) <= set(range(10))
    given = called("aten::_ctc_loss", tensor(20, 3, 6), whole(3, 7), whole(3), whole(3), number(0), number(False))
    assert (flat(given["input_lengths"]), flat(given["target_lengths"])) == ([20] * 3, [7] * 3)
    assert set(flat(given["targets"])) <= set(range(1, 6))


def test_what_is_searched_is_sorted() -> None:
    given = called("aten::searchsorted", tensor(11), tensor(4), number(False), number(False), NOTHING, NOTHING)
    assert flat(given["sorted_sequence"]) == sorted(flat(given["sorted_sequence"]))


def test_pages_of_a_cache_are_in_it_and_none_is_used_twice() -> None:
    from warplens.planning.fills import fill_of
    from warplens.planning.recorded import Recorded, RecordedTensor, contiguous

    cache = Recorded("tensor", tensors=(RecordedTensor((64, 16, 2, 128), "bfloat16", contiguous((64, 16, 2, 128))),))
    table = fill_of("paged_attention_v1", "block_tables", RecordedTensor((4, 8), "int32", (8, 1)), {"key_cache": cache})
    assert (table.kind, table.low, table.high, table.step) == ("ramp", 0, 63, 1)
    lengths = fill_of("varlen_fwd", "seqused_k", RecordedTensor((4,), "int32", (1,)), {
        "k": cache, "max_seqlen_k": Recorded("scalar", "128"),
    })  # fmt: skip
    assert (lengths.kind, lengths.low) == ("constant", 128)
    totals = fill_of("varlen_fwd", "cu_seqlens_q", RecordedTensor((5,), "int32", (1,)), {
        "q": Recorded("tensor", tensors=(RecordedTensor((40, 8, 128), "bfloat16", (1024, 128, 1)),)),
    })  # fmt: skip
    assert [min(totals.low + place * totals.step, totals.high) for place in range(5)] == [0, 10, 20, 30, 40]


def test_every_row_of_the_table_is_of_a_known_kind_and_names_arguments() -> None:
    parameters = {parameter.name for schema in _schemas() for parameter in schema.parameters}
    for row in INVARIANTS:
        assert row.kind in KINDS
        if isinstance(row.side, str):
            assert row.side in ("", "own", "position", *SIDES) or row.side in parameters
        if row.ops != r"\w*":  # those of other libraries are not listed
            assert not row.of or parameters & set(row.of.split("|"))


def _schemas() -> list[Any]:
    from warplens.planning.schemas import _table

    return [schema for name in _table() for schema in overloads(name)]
