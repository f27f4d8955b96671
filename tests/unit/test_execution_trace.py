"""ExecutionTrace JSON: the arguments of ops when joined to its Kineto trace; refused alone."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import warplens
from mutations import TEXT_MUTATIONS
from support import ROOT, Opened, annotation, kernel, launch, op
from warplens.analyses import Workspace
from warplens.analyses.work.arguments import HOW_TO_JOIN, NOT_JOINED, arguments
from warplens.model.quality import Note
from warplens.model.trace import Trace
from warplens.readers.execution_trace import join as joining
from warplens.readers.execution_trace.agreement import record_ids
from warplens.readers.execution_trace.join import join, joined_share
from warplens.readers.execution_trace.nodes import Nodes, decode_nodes
from warplens_run.base.errors import FormatError

SAMPLE = ROOT / "samples" / "execution_trace" / "mlp_train.et.json.gz"
ROOTS = "[pytorch|profiler|execution_trace|{}]"
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"


def tensor(number: int, shape: list[int], *, size: int = 2, device: str = "cuda:0", offset: int = 0) -> tuple[Any, ...]:
    elements = 1
    for extent in shape:
        elements *= extent
    strides = [1] * len(shape)
    kind = {2: "c10::Half", 4: "float", 8: "long int"}[size]
    return [number, number + 1000, offset, elements, size, device], shape, f"Tensor({kind})", strides


def scalar(value: Any, kind: str) -> tuple[Any, ...]:
    return value, [], kind, []


def tensors(*members: tuple[Any, ...]) -> tuple[Any, ...]:
    values, shapes, kinds, strides = ([member[place] for member in members] for place in range(4))
    return values, shapes, f"GenericList[{','.join(kinds)}]", strides


def node(
    number: int,
    name: str,
    parent: int,
    *inputs: tuple[Any, ...],
    outputs: tuple[tuple[Any, ...], ...] = (),
    record: int = 0,
    scope: int = 0,
    thread: int = 1,
    schema: str = "",
    **more: Any,
) -> dict[str, Any]:
    facts = {"rf_id": record, "fw_parent": 0, "seq_id": -1, "scope": scope, "tid": thread, "fw_tid": 0}
    facts |= {"op_schema": schema, **more}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": listed(inputs),
        "outputs": listed(outputs),
        "attrs": [{"name": key, "type": "", "value": value} for key, value in facts.items()],
    }


def listed(values: tuple[tuple[Any, ...], ...]) -> dict[str, list[Any]]:
    parts = ("values", "shapes", "types", "strides")
    return {part: [value[place] for value in values] for place, part in enumerate(parts)}


def flat(nested: dict[str, Any]) -> dict[str, Any]:
    """The same node as schema 1.0.1 writes it."""
    facts = {fact["name"]: fact["value"] for fact in nested["attrs"]}
    given, made = nested["inputs"], nested["outputs"]
    return {
        "name": nested["name"].replace("execution_trace", "execution_graph"),
        "id": nested["id"],
        "parent": nested["ctrl_deps"],
        **{key: facts[key] for key in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")},
        "inputs": given["values"],
        "input_shapes": given["shapes"],
        "input_types": given["types"],
        "outputs": made["values"],
        "output_shapes": made["shapes"],
        "output_types": made["types"],
    }


def roots(*threads: int) -> list[dict[str, Any]]:
    process = node(1, ROOTS.format("process"), 1, scope=7, thread=0)
    return [*(node(1 + tid, ROOTS.format("thread"), 1, scope=7, thread=tid) for tid in threads), process]


def document(nodes: list[dict[str, Any]], schema: str = "1.1.1-chakra.0.0.4") -> bytes:
    head = {"schema": schema, "pid": 7, "time": "2026-01-02 03:04:05", "start_ts": 1}
    return json.dumps({**head, "nodes": nodes, "finish_ts": 2}).encode()


def decoded(text: bytes) -> Nodes:
    return decode_nodes(text, "et.json")


def names(nodes: Nodes) -> list[str]:
    return nodes.frame["name"].to_list()


def codes(notes: Iterable[Note]) -> dict[str, int]:
    return {note.code: note.count for note in notes}


FORWARD = [
    node(10, "aten::t", 5, tensor(50, [4, 8]), record=3, schema="aten::t(Tensor(a) self) -> Tensor(a)"),
    node(12, "aten::t", 5, tensor(51, [4, 8]), record=4, schema="aten::t(Tensor(a) self) -> Tensor(a)"),
    node(5, "forward", 2, record=2, scope=7),
    node(20, "aten::add", 3, tensor(52, [4]), tensor(53, [], size=4, device="cpu"), scalar(1, "Int"),
         outputs=(tensor(54, [4]),), record=5, thread=2, schema=ADD),
]  # fmt: skip


def test_the_flat_layout_of_old_schemas_reads_the_same() -> None:
    nodes = [*FORWARD, *roots(1, 2)]
    new = decoded(document(nodes))
    old = decoded(document([flat(each) for each in nodes], "1.0.1"))
    assert new.process == old.process == 7
    assert set(new.frame["input_strides"]) == {"[]", "[[1, 1]]", "[[1], [], []]"}
    assert set(old.frame["input_strides"]) == {"[]"}
    assert names(old) == [name.replace("execution_trace", "execution_graph") for name in names(new)]
    assert_frame_equal(old.frame.drop("name", "input_strides"), new.frame.drop("name", "input_strides"))


def test_the_layout_of_the_old_writer_reads_whole_and_cut() -> None:
    def written(each: dict[str, Any]) -> str:
        texts = {key: json.dumps(value, separators=(",", ":")) for key, value in flat(each).items()}
        lines = [list(texts)[:10], list(texts)[10:13], list(texts)[13:]]
        body = ",\n      ".join(", ".join(f'"{key}": {texts[key]}' for key in line) for line in lines)
        return f"\n    {{\n      {body}\n    }}"

    nodes = [*FORWARD, *roots(1, 2)]
    head = '{\n  "schema": "1.0.1", "pid": 7, "time": "2023-07-12 12:47:27", "start_ts": 1,\n  "nodes": ['
    text = f'{head}{",".join(map(written, nodes))}\n  ],\n  "finish_ts": 2\n}}'.encode()
    assert names(decoded(text)) == [flat(each)["name"] for each in nodes]
    cut = decoded(text[: text.index(b'"forward"')])
    assert (names(cut), codes(cut.notes()), cut.process) == (["aten::t", "aten::t"], {"truncated": 0}, 7)


@pytest.mark.parametrize("schema", ["1.0.2-chakra.0.0.4", "1.0.4-chakra.0.0.4", "1.1.0-chakra.0.0.4"])
def test_versions_without_strides_have_empty_ones(schema: str) -> None:
    nodes = json.loads(json.dumps([*FORWARD, *roots(1, 2)]))
    for each in nodes:
        del each["inputs"]["strides"], each["outputs"]["strides"]
    found = decoded(document(nodes, schema))
    assert len(names(found)) == 7
    assert set(found.frame["input_strides"]) == {"[]"}


def test_a_name_with_bare_quotes_is_mended() -> None:
    """PyTorch writes names as they are: record_function('the "hot" loop') makes the file unsound."""
    text = document([*FORWARD, *roots(1, 2)]).replace(b'"forward"', b'"the "hot" \\ loop"')
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(text)
    found = decoded(text)
    assert names(found)[2] == 'the "hot" \\ loop'
    assert found.notes() == []
    old = document([flat(each) for each in [*FORWARD, *roots(1, 2)]], "1.0.1")
    again = decoded(old.replace(b'"forward"', b'"the "hot" \\ loop"'))
    assert names(again)[:4] == names(found)[:4]


def test_a_damaged_node_costs_only_itself() -> None:
    text = document([*FORWARD, *roots(1, 2)])
    at = text.index(b'"aten::add"')
    found = decoded(text[:at] + b"?" + text[at:])
    assert codes(found.notes()) == {"damaged": 1}
    assert len(names(found)) == 6
    assert "aten::add" not in names(found)
    mistyped = json.loads(json.dumps([*FORWARD, *roots(1, 2)]))
    mistyped[0]["name"] = ["no", "text"]
    assert len(names(decoded(document(mistyped)))) == 6


def test_a_cut_file_gives_every_node_that_is_whole() -> None:
    text = document([*FORWARD, *roots(1, 2)])
    starts = [text.index(f'{{"id": {each["id"]}, "name"'.encode()) for each in [*FORWARD, *roots(1, 2)]]
    ends = [*(start - len(", ") for start in starts[1:]), text.index(b'], "finish_ts"')]
    for cut in sorted({*range(1, len(text), 13), *(end + more for end in ends for more in (-1, 0, 1, 2, 9))}):
        whole = sum(end <= cut for end in ends)
        if whole == 0:
            with pytest.raises(FormatError, match="an ExecutionTrace"):
                decoded(text[:cut])
            continue
        found = decoded(text[:cut])
        assert len(names(found)) == whole, cut
        assert ("truncated" in codes(found.notes())) == (cut <= ends[-1]), cut


@pytest.mark.parametrize("text", [b"", b"{}", b'{"schema": "1.0.1", "nodes": []}', b'{"nodes": 3}', b'{"nodes": [3]}',
                                  b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id"', b"[" * 100_000])  # fmt: skip
def test_a_file_without_nodes_is_one_clear_error(text: bytes) -> None:
    with pytest.raises(FormatError, match=r"et\.json: an ExecutionTrace"):
        decoded(text)


def test_one_alone_is_refused_and_told_where_it_belongs() -> None:
    with pytest.raises(FormatError, match=r"mlp_train\.et\.json\.gz: an ExecutionTrace, which has no times") as refused:
        warplens.open(SAMPLE)
    assert "--execution-trace" in str(refused.value.hint)


@pytest.mark.nightly
def test_no_damage_makes_a_traceback(opened: Opened) -> None:
    with gzip.open(SAMPLE) as stream:
        whole = stream.read()
    trace = opened(CALLS).trace
    outcomes: Counter[str] = Counter()
    for seed in range(120):
        rng = Random(seed)
        text = rng.choice(TEXT_MUTATIONS)(whole, rng)
        try:
            join(trace, b"", text)
        except FormatError:
            outcomes["refused"] += 1
        else:
            outcomes["joined"] += 1
    assert outcomes["joined"] > 60
    assert outcomes.total() == 120


CALLS = [
    op("aten::add.Tensor", 0, 10, **{"External id": 101, "Record function id": 5}),
    launch(1, 2, 1),
    kernel("add_kernel", 20, 4, 1),
    op("aten::t", 30, 10, **{"External id": 102, "Record function id": 3}),
    op("aten::t", 50, 10, **{"External id": 103, "Record function id": 4}),
    annotation("forward", 29, 40, **{"External id": 104, "Record function id": 2}),
]


def kineto_text(events: list[dict[str, Any]]) -> bytes:
    return json.dumps({"traceEvents": events}).encode()


def joined(opened: Opened, events: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Trace:
    return join(opened(events).trace, kineto_text(events), document(nodes))


def partners(trace: Trace) -> dict[int, int]:
    """External id → id of the node."""
    external = trace.ints("external_id")
    return {int(external[row]): number for row, number in trace.arguments.select("id", "node").iter_rows()}


def test_calls_are_joined_by_the_number_pytorch_gave_them(opened: Opened) -> None:
    trace = joined(opened, CALLS, [*FORWARD, *roots(1, 2)])
    assert partners(trace) == {101: 20, 102: 10, 103: 12, 104: 5}
    assert joined_share(trace) == 1.0
    note = next(note for note in trace.quality.notes if note.code == "execution_trace")
    assert (note.count, note.detail) == (3, "100.0 %")
    assert not trace.quality.has("execution_trace_unmatched")
    row = trace.arguments.filter(schema=ADD).to_dicts()[0]
    assert json.loads(row["inputs"]) == [[52, 1052, 0, 4, 2, "cuda:0"], [53, 1053, 0, 1, 4, "cpu"], 1]
    assert json.loads(row["input_types"]) == ["Tensor(c10::Half)", "Tensor(float)", "Int"]
    assert json.loads(row["output_shapes"]) == [[4]]


def test_names_must_agree_with_or_without_the_overload(opened: Opened) -> None:
    names = ("aten::add", "aten::add.Tensor", "aten::add.Scalar", "aten::sub")
    events = [
        op(name, 20 * place, 10, **{"External id": 100 + place, "Record function id": 50 + place})
        for place, name in enumerate(names)
    ]
    nodes = [node(70 + place, "aten::add", 2, record=50 + place, schema=ADD) for place in range(4)]
    trace = joined(opened, events, [*nodes, *roots(1)])
    assert partners(trace) == {100: 70, 101: 71}
    unmatched = next(note for note in trace.quality.notes if note.code == "execution_trace_unmatched")
    assert (unmatched.count, unmatched.detail) == (2, "2 have another name there")
    assert joined_share(trace) == 0.5
    bare = joined(opened, events, [*map(without_schema, nodes), *roots(1)])
    assert partners(bare) == {100: 70, 101: 71, 102: 72}, "without schemas any overload of the op is accepted"


def without_schema(each: dict[str, Any]) -> dict[str, Any]:
    return {**each, "attrs": [fact for fact in each["attrs"] if fact["name"] != "op_schema"]}


ONE_SHAPE = {"Input Dims": [[8, 4]], "Input type": ["c10::Half"], "Input Strides": [[4, 1]]}


def calls_of_shapes(count: int, batch: int, odd: int) -> list[dict[str, Any]]:
    """Calls on [batch, 4], the first `odd` of them on [9, 4]."""
    shaped = {"Input type": ["c10::Half", "Scalar"], "Input Strides": [[4, 1], []]}
    return [
        op("aten::t", 20 * place, 10, **shaped, **{
            "Input Dims": [[9 if place < odd else batch, 4], []],
            "External id": 100 + place, "Record function id": 500 + place,
        })
        for place in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("odd", "found"), [(0, 200), (2, 198), (3, 0)])
def test_a_file_of_another_run_is_told_by_its_shapes(opened: Opened, odd: int, found: int) -> None:
    """A few may differ, as shapes inside a call do; more than a hundredth, and the numbers agree by chance."""
    nodes = [node(1000 + place, "aten::t", 2, tensor(9, [8, 4]), record=500 + place) for place in range(200)]
    trace = joined(opened, calls_of_shapes(200, 8, odd), [*nodes, *roots(1)])
    assert len(partners(trace)) == found
    details = [note.detail for note in trace.quality.notes if note.code == "execution_trace_unmatched"]
    assert details == ([f"{200 - found} have other shapes there"] if odd else [])


def test_what_has_no_partner_is_counted_by_reason(opened: Opened) -> None:
    numbers = [0, None, 99, 5, 6, 6]
    events = [
        op("aten::t", 20 * place, 10, **{"External id": 100 + place, "Record function id": number})
        for place, number in enumerate(numbers)
    ]
    del events[1]["args"]["Record function id"]
    nodes = [node(70, "aten::t", 2, record=5), node(71, "aten::t", 2, record=5), node(72, "aten::t", 2, record=6)]
    trace = joined(opened, events, [*nodes, *roots(1)])
    assert trace.arguments.is_empty()
    assert joined_share(trace) == 0
    assert not trace.quality.has("execution_trace")
    unmatched = next(note for note in trace.quality.notes if note.code == "execution_trace_unmatched")
    assert unmatched.count == 6
    assert unmatched.detail == (
        "2 have no record function id (nothing recorded an ExecutionTrace then), 1 are not in it, 3 have several partners"
    )


@pytest.mark.parametrize(("sharing", "found", "most_compared"), [(16, 16, 256), (17, 0, 0), (300, 0, 0)])
def test_calls_that_share_a_number_are_not_all_paired(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, sharing: int, found: int, most_compared: int
) -> None:
    """Names tell a few apart; of 100,000 on both sides the pairs would be 10,000,000,000."""
    compared = []
    monkeypatch.setattr(joining, "agree", lambda *row: compared.append(row) or True)
    events = [
        op(f"aten::t{place}", 20 * place, 10, **{"External id": 100 + place, "Record function id": 5, **ONE_SHAPE})
        for place in range(sharing)
    ]
    nodes = [node(1000 + place, f"aten::t{place}", 2, tensor(9, [8, place]), record=5) for place in range(sharing)]
    trace = joined(opened, events, [*nodes, *roots(1)])
    assert len(partners(trace)) == found
    assert len(compared) <= most_compared
    details = [note.detail for note in trace.quality.notes if note.code == "execution_trace_unmatched"]
    assert details == ([] if found else [f"{sharing} have several partners"])


def test_record_ids_are_found_in_any_order_and_in_cut_files() -> None:
    text = (
        b'{"args": {"External id": 1,"Record function id": 11}}, {"args": {"External id": 2, "device": 0}}, '
        b'{"args": {"External id": 3, "Sequence number": 9, "Record function id": 13}}, '
        b'{"name": "\\"External id\\": 8", "args": {"Record function id": 14, "Ev Idx": 0, "External id": 4}}, '
        b'{"args": {"Record function id": 15}}, {"args": {"External id": 6, "Record function id": 0}}, '
        b'{"args": {"External id": 7, "Record function id": 17'
    )
    assert record_ids(text).rows() == [(1, 11), (3, 13), (4, 14), (7, 17)]
    assert record_ids(b"").is_empty()


def test_a_share_is_never_rounded_up_to_all(opened: Opened) -> None:
    events = [op("aten::t", 20 * place, 10, **{"External id": 1 + place, "Record function id": 1 + place})
              for place in range(2001)]  # fmt: skip
    nodes = [node(10 + place, "aten::t", 2, record=1 + place) for place in range(2000)]
    trace = joined(opened, events, [*nodes, *roots(1)])
    note = next(note for note in trace.quality.notes if note.code == "execution_trace")
    assert (note.count, note.detail) == (2000, "99.9 %")


def test_joining_again_replaces_what_was_joined(opened: Opened) -> None:
    trace = opened(CALLS).trace
    text = kineto_text(CALLS)
    first = join(trace, text, document([*FORWARD[:1], *roots(1)]))
    second = join(first, text, document([*FORWARD, *roots(1, 2)]))
    assert (len(first.arguments), len(second.arguments)) == (1, 4)
    assert codes(second.quality.notes)["execution_trace"] == 3
    assert not second.quality.has("execution_trace_unmatched")


def test_damage_of_the_execution_trace_is_told_by_the_joined_trace(opened: Opened) -> None:
    text = document([*FORWARD, *roots(1, 2)])
    cut = join(opened(CALLS).trace, kineto_text(CALLS), text[: text.index(b'"aten::add"')])
    assert partners(cut) == {102: 10, 103: 12, 104: 5}
    assert "ExecutionTrace" in next(note.message for note in cut.quality.notes if note.code == "truncated")


def test_the_arguments_table_books_gpu_time_on_signatures(opened: Opened) -> None:
    events = [*CALLS, op("aten::mul", 80, 10), launch(81, 2, 2), kernel("mul_kernel", 90, 6, 2)]
    table = arguments(Workspace(joined(opened, events, [*FORWARD, *roots(1, 2)])))
    rows = {row["op"]: row for row in table.to_dicts()}
    assert [row["op"] for row in table.to_dicts()] == ["aten::mul", "aten::add.Tensor", "aten::t"]
    assert (rows["aten::add.Tensor"]["kernel_us"], rows["aten::add.Tensor"]["schema"]) == (4.0, ADD)
    assert rows["aten::add.Tensor"]["inputs"] == '["cuda:0", "cpu", 1]'
    assert (rows["aten::t"]["count"], rows["aten::t"]["joined"], rows["aten::t"]["kernel_us"]) == (2, 2, 0.0)
    assert (rows["aten::mul"]["count"], rows["aten::mul"]["joined"], rows["aten::mul"]["schema"]) == (1, 0, "")
    assert table.frame["percent"].to_list() == [60.0, 40.0, 0.0]


def test_the_arguments_table_of_a_trace_alone_is_empty_and_says_why(opened: Opened) -> None:
    table = arguments(Workspace(opened(CALLS).trace))
    assert len(table) == 0
    assert table.notes == (NOT_JOINED + HOW_TO_JOIN,)
