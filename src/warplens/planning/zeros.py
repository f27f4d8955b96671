"""Which inputs hold zeros, and how many: what ReLU and its backward pass left of them, half of it zero.

A GPU draws less power for numbers that are zero, and stores of activations are the most of what a network with ReLU
reads. An ExecutionTrace shows which op last wrote a storage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from warplens.analyses.units.calls import OP, UnitCalls
from warplens.model.trace import Trace
from warplens.planning.reuse import calls_in_order, storages_of
from warplens_run.formats.replay_plan import Fill, Storage

LEAVE: Final = {
    # op: what its output holds
    "aten::relu": "rectified", "aten::relu_": "rectified", "aten::clamp_min": "rectified",
    "aten::clamp_min_": "rectified", "aten::threshold": "rectified", "aten::threshold_": "rectified",
    "aten::threshold_backward": "masked",
}  # fmt: skip
COPIES: Final = frozenset(("aten::copy_", "aten::clone", "aten::_to_copy", "aten::contiguous"))


def zero_fills(trace: Trace, unit_calls: UnitCalls) -> dict[int, dict[int, str]]:
    """Per unit: storage (by its place among those of a call, first seen first) → kind of fill, where most calls
    found it so. Empty without an ExecutionTrace."""
    if trace.arguments.is_empty():
        return {}
    rows = dict(zip(trace.arguments["id"].to_list(), range(len(trace.arguments)), strict=True))
    inputs, outputs = trace.arguments["inputs"], trace.arguments["outputs"]
    ops = {unit: _name(trace.names[op]) for unit, op in unit_calls.units.select("unit", "op").iter_rows()}
    counts, fills = Counter[int](), defaultdict[int, Counter[tuple[int, str]]](Counter)
    storage_fills: dict[int, str] = {}
    for call, unit in calls_in_order(unit_calls):
        if (row := rows.get(call)) is None:
            continue
        storages = list(storages_of(inputs[row]))
        counts[unit] += 1
        fills[unit].update(
            (position, storage_fills[storage]) for position, storage in enumerate(storages) if storage in storage_fills
        )
        for storage in storages_of(outputs[row]):
            fill = storage_fills.get(storages[-1]) if ops[unit] in COPIES and storages else LEAVE.get(ops[unit])
            storage_fills.pop(storage, None)
            if fill is not None:
                storage_fills[storage] = fill
    return {
        unit: {position: kind for (position, kind), count in by_position.items() if count * 2 > counts[unit]}
        for unit, by_position in fills.items()
    }


def with_zeros(
    storages: tuple[Storage, ...], shared: Mapping[int, int], kinds: Mapping[int, str]
) -> tuple[Storage, ...]:
    """`shared`: traced storage → its place among the storages; `kinds` by traced storage."""
    filled = list(storages)
    for storage, position in shared.items():
        if storage in kinds and filled[position].fill == Fill():
            filled[position] = replace(filled[position], fill=Fill(kinds[storage]))
    return tuple(filled)


def _name(op: str) -> str:
    head = OP.fullmatch(op)
    return head["name"] if head else op
