"""Collectives as an ExecutionTrace describes them, for calls whose trace says less.

PyTorch records each call of a collective under one name. The inputs of its node are the tensors (a wait or a barrier
has none), the call's number in its group, the group, the rank in it, the kind, the elements to and from each rank and,
from 2023 on, the first rank, their distance and the size of the group. The number may be a pair of it and whether it is
of a send or receive; the group is a pair of name and description, a name, or in old files an address that is another
one on each rank. Groups are listed with their ranks in a node of their own.

Calls are paired by the number that both profilers write down. Older traces do not have it: there all calls have to
agree in order and shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import polars as pl

from warplens.model.event_records import Collective
from warplens.model.kinds import NONE
from warplens.model.lists import decoded_list
from warplens.model.quality import Note
from warplens.model.trace import MOST_RANKS, SIDE_FRAMES, Bools, ProcessGroup, Trace
from warplens.readers.execution_trace.agreement import agree, record_ids
from warplens.readers.execution_trace.nodes import Nodes
from warplens_run.base import bounded

CALL: Final = "record_param_comms"
GROUPS: Final = "## process_group:init ##"
NOT_SENT: Final = ("wait", "init")
"""Calls that move nothing."""
MOST_CALLS: Final = 10_000
"""To compare longer sequences takes too long."""
MOST_COMPARED: Final = 100_000
"""So does comparing more shapes with each other: a step has some hundred different ones."""
"""Of all groups together that are listed without their ranks."""
TYPES: Final = {
    # C++ → as Kineto names them
    "float": "Float", "double": "Double", "c10::Half": "Half", "c10::BFloat16": "BFloat16", "int": "Int",
    "long int": "Long", "long": "Long", "short int": "Short", "signed char": "Char", "unsigned char": "Byte",
    "bool": "Bool", "c10::Float8_e4m3fn": "Float8_e4m3fn", "c10::Float8_e5m2": "Float8_e5m2",
}  # fmt: skip
FILLED: Final = ("group_size", "group", "ranks", "seq", "in_splits", "out_splits", "description")
"""What an ExecutionTrace adds to the calls that a trace describes itself."""

_T = TypeVar("_T")


class _Call(NamedTuple):
    """A call of an ExecutionTrace."""

    record_id: int
    shapes: str
    types: str
    collective: Collective | None
    """None where it moves nothing or cannot be read."""
    address: int
    """Of its group, where that has no name; else -1."""


def describe_collectives(trace: Trace, kineto_text: bytes, nodes: Nodes) -> Trace:
    """The trace with what the ExecutionTrace of the same step knows of its collectives."""
    trace = with_groups(trace, nodes)
    own = _own_calls(trace, kineto_text)
    ranks = {group.name: str(list(group.ranks)) for group in _groups(nodes) if group.ranks}
    calls = _of_one_group([_call(row, ranks) for row in _rows(nodes)])
    if not own.height or not calls or _is_of_another_process(trace, nodes):
        return trace
    by_number = _by_number(own, calls) if own["record_id"].is_not_null().any() else _by_order(own, calls)
    described = {event: calls[place].collective for event, place in by_number}
    rows = [(event, *collective) for event, collective in described.items() if collective is not None]
    if not rows:
        return trace
    added = pl.DataFrame(rows, schema=SIDE_FRAMES["collectives"], orient="row")
    quality = trace.quality.with_notes(Note("execution_collectives", len(rows)))
    return replace(trace, collectives=_merged(trace.collectives, added), quality=quality)


def with_groups(trace: Trace, nodes: Nodes) -> Trace:
    """The trace with the process groups of an ExecutionTrace, where it has none of its own."""
    distributed, groups = trace.meta.distributed, _groups(nodes)
    if distributed is None or distributed.groups or not groups:
        return trace
    own = tuple(group for group in groups if distributed.rank in group.ranks)
    return replace(
        trace,
        meta=msgspec.structs.replace(trace.meta, distributed=msgspec.structs.replace(distributed, groups=own)),
    )


def _groups(nodes: Nodes) -> list[ProcessGroup]:
    """An empty list of ranks stands for all."""
    texts = nodes.frame.filter(pl.col("name") == GROUPS)["inputs"].to_list()
    entries = [entry for text in texts for value in decoded_list(text)[:1] for entry in decoded_list(_text(value))]
    groups = {}
    unlisted = MOST_RANKS
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("ranks"), list):
            size = entry.get("group_size", entry.get("pg_size", 0))
            ranks = tuple(bounded.whole(rank) for rank in entry["ranks"] if bounded.is_whole(rank, 0))
            if not ranks and isinstance(size, int) and 0 <= size < unlisted:
                ranks = tuple(range(size))
                unlisted -= size
            name = bounded.text(entry.get("pg_name"))
            groups[name] = ProcessGroup(name, bounded.text(entry.get("pg_desc")), ranks)
    return list(groups.values())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _own_calls(trace: Trace, kineto_text: bytes) -> pl.DataFrame:
    """The calls of the trace in the order of time: id, shapes, types and PyTorch's number (null: not recorded)."""
    if CALL not in trace.names:
        return pl.DataFrame()
    calls = trace.events.filter(pl.col("name") == trace.names.index(CALL), trace.is_kind("op"))
    numbered = record_ids(kineto_text).unique().filter(pl.len().over("external_id") == 1)
    specs = trace.specs.select("input_dims", "input_types").with_row_index("spec")
    specs = specs.with_columns(pl.col("spec").cast(pl.Int32))
    calls = calls.sort("start_ns", "id").select("id", "spec", "external_id")
    calls = calls.join(specs, on="spec", how="left", maintain_order="left")
    return calls.join(numbered, on="external_id", how="left", maintain_order="left")


def _rows(nodes: Nodes) -> list[dict[str, Any]]:
    """Nodes of collectives in the order of their calls."""
    return nodes.frame.filter(pl.col("name") == CALL).sort("record_id", "node").to_dicts()


def _call(row: dict[str, Any], ranks: dict[str, str]) -> _Call:
    values = decoded_list(row["inputs"])
    place = next((place for place in (4, 3) if len(values) > place and isinstance(values[place], str)), NONE)
    named = _Call(row["record_id"], row["input_shapes"], row["input_types"], None, NONE)
    if place < 0 or values[place] in NOT_SENT:
        return named
    number, group = values[place - 3], values[place - 2]
    is_message = isinstance(number, list) and len(number) > 1 and bool(number[1])
    number = number[0] if isinstance(number, list) and number else number
    name = group[0] if isinstance(group, list) and group else group
    splits = [str(list(part)) if isinstance(part, list) else "" for part in values[place + 1 : place + 3]]
    given = (values[:1] if place == 4 else [], decoded_list(row["outputs"]))
    collective = Collective(
        collective=values[place],
        dtype=_type(row["input_types"] if place == 4 else ""),
        in_elements=_elements(given[0]),
        out_elements=_elements(given[1]),
        group_size=_size(values[place + 3 :], splits),
        group=name if isinstance(name, str) else None,
        ranks=ranks.get(name) if isinstance(name, str) else None,
        seq=NONE if is_message else bounded.whole(number, NONE, 0),
        in_splits=splits[0] if splits else "",
        out_splits=splits[1] if len(splits) > 1 else "",
    )
    return named._replace(collective=collective, address=bounded.whole(name, NONE) if isinstance(name, int) else NONE)


def _type(types: str) -> str | None:
    """
    >>> _type('["GenericList[Tensor(c10::BFloat16)]", "Int"]'), _type('["Int"]')
    ('BFloat16', None)
    """
    first = str(next(iter(decoded_list(types)), "")).partition("Tensor(")[2].partition(")")[0]
    return TYPES.get(first, first) or None


def _elements(values: Sequence[object]) -> int:
    """Of all tensors; one is [id, storage id, offset, elements, element size, device].

    >>> _elements([[[8, 9, 0, 100, 4, "cuda:0"], [10, 11, 0, 20, 4, "cuda:0"]]]), _elements([7])
    (120, -1)
    """
    sizes = [_elements_of(value) for value in values]
    return sum(size for size in sizes if size >= 0) if any(size >= 0 for size in sizes) else NONE


def _elements_of(value: object) -> int:
    if not isinstance(value, list):
        return NONE
    if len(value) == 6 and isinstance(value[5], str) and isinstance(value[3], int):
        return value[3]
    return _elements(value)


def _size(facts: Sequence[object], splits: Sequence[str]) -> int:
    """Of the group: recorded last, or as many as there are parts."""
    if facts:
        return facts[-1] if isinstance(facts[-1], int) and facts[-1] > 0 else NONE
    parts = max((len(decoded_list(text)) for text in splits), default=0)
    return parts or NONE


def _of_one_group(calls: list[_Call]) -> list[_Call]:
    """Calls of a group that only has an address have its size; their numbers count where it is the only one."""
    sizes: dict[int, int] = {}
    for call in calls:
        if call.collective is not None and call.address >= 0:
            sizes[call.address] = max(sizes.get(call.address, NONE), call.collective.group_size)
    is_only = len(sizes) < 2
    return [
        call
        if call.collective is None or call.address < 0
        else call._replace(
            collective=call.collective._replace(
                group_size=sizes[call.address], seq=call.collective.seq if is_only else NONE
            )
        )
        for call in calls
    ]


def _is_of_another_process(trace: Trace, nodes: Nodes) -> bool:
    """Whether the file of another rank was given."""
    processes = {text for text in trace.lanes["process"].to_list() if str(text).isdigit()}
    return nodes.process is not None and bool(processes) and str(nodes.process) not in processes


def _by_number(own: pl.DataFrame, calls: Sequence[_Call]) -> list[tuple[int, int]]:
    """Pairs of an event and a place in `calls`."""
    place = {call.record_id: number for number, call in enumerate(calls)}
    rows = own.filter(pl.col("record_id").is_in(list(place))).select("id", "input_dims", "input_types", "record_id")
    return [
        (event, place[record])
        for event, dims, types, record in rows.iter_rows()
        if agree(dims, types, calls[place[record]].shapes, calls[place[record]].types)
    ]


def _by_order(own: pl.DataFrame, calls: Sequence[_Call]) -> list[tuple[int, int]]:
    """The same, where the shorter of both sequences fits at exactly one place of the longer."""
    if max(own.height, len(calls)) > MOST_CALLS:
        return []
    agrees = _agreement(own, calls)
    if agrees is None:
        return []
    is_longer = own.height > len(calls)
    longer, shorter = max(agrees.shape), min(agrees.shape)
    offsets = [
        offset
        for offset in range(longer - shorter + 1)
        if np.diagonal(agrees, -offset if is_longer else offset)[:shorter].all()
    ]
    if len(offsets) != 1:
        return []
    first, at = (offsets[0], 0) if is_longer else (0, offsets[0])
    return [(event, at + number) for number, event in enumerate(own["id"].to_list()[first : first + shorter])]


def _agreement(own: pl.DataFrame, calls: Sequence[_Call]) -> Bools | None:
    """Whether each call of the trace can be each of the ExecutionTrace: as many inputs, the same shapes.

    None where there are too many to compare.
    """
    rows = own.select("input_dims", "input_types").rows()
    theirs = [(call.shapes, call.types) for call in calls]
    distinct_rows, distinct = _numbered(rows), _numbered(theirs)
    if len(distinct_rows) * len(distinct) > MOST_COMPARED:
        return None
    verdicts = np.array(
        [
            [
                len(decoded_list(dims)) == len(decoded_list(shapes)) and agree(dims, types, shapes, kinds)
                for shapes, kinds in distinct
            ]
            for dims, types in distinct_rows
        ],
        bool,
    )
    agreement: Bools = verdicts[np.ix_([distinct_rows[each] for each in rows], [distinct[each] for each in theirs])]
    return agreement


def _numbered(values: Iterable[_T]) -> dict[_T, int]:
    """The different ones, in their order."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _merged(recorded: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """What the trace records counts; what it lacks is added."""
    more = added.select("id", *(pl.col(name).alias(f"more_{name}") for name in FILLED))
    joined = recorded.join(more, on="id", how="left", maintain_order="left")
    filled = [
        pl.when(_is_unknown(name)).then(pl.coalesce(f"more_{name}", name)).otherwise(name).alias(name)
        for name in FILLED
    ]
    new = added.join(recorded.select("id"), on="id", how="anti", maintain_order="left")
    return pl.concat([joined.with_columns(filled).select(recorded.columns), new.select(recorded.columns)]).sort("id")


def _is_unknown(name: str) -> pl.Expr:
    if SIDE_FRAMES["collectives"][name] == pl.Int64:
        return pl.col(name).fill_null(NONE) < 0
    return pl.col(name).fill_null("").is_in(["", "[]"])
