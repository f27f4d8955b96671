"""Which inputs hold zeros, and how many: what ReLU and its backward pass left of them, half of it zero.

A GPU draws less power for numbers that are zero, and stores of activations are the most of what a network with ReLU
reads. An ExecutionTrace tells which op last wrote a storage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from warplens.analyses.units.calls import OP, UnitCalls
from warplens.model.trace import Trace
from warplens.planning.reuse import calls_in_order, storages_of
from warplens.replay.plan_file import Fill, Storage

LEAVE: Final = {
    # op: what its output holds
    "aten::relu": "rectified", "aten::relu_": "rectified", "aten::clamp_min": "rectified",
    "aten::clamp_min_": "rectified", "aten::threshold": "rectified", "aten::threshold_": "rectified",
    "aten::threshold_backward": "masked",
}  # fmt: skip
COPIES: Final = frozenset(("aten::copy_", "aten::clone", "aten::_to_copy", "aten::contiguous"))


def left_zeros(trace: Trace, found: UnitCalls) -> dict[int, dict[int, str]]:
    """Per unit: storage (by its place among those of a call, first seen first) → kind of fill, where most calls
    found it so. Empty without an ExecutionTrace."""
    if trace.arguments.is_empty():
        return {}
    rows = dict(zip(trace.arguments["id"].to_list(), range(len(trace.arguments)), strict=True))
    inputs, outputs = trace.arguments["inputs"], trace.arguments["outputs"]
    ops = {row["unit"]: _name(trace.names[row["op"]]) for row in found.units.iter_rows(named=True)}
    counts, seen = Counter[int](), defaultdict[int, Counter[tuple[int, str]]](Counter)
    held: dict[int, str] = {}
    for call, unit in calls_in_order(found):
        if (row := rows.get(call)) is None:
            continue
        given = list(storages_of(inputs[row]))
        counts[unit] += 1
        seen[unit].update((place, held[storage]) for place, storage in enumerate(given) if storage in held)
        for storage in storages_of(outputs[row]):
            left = held.get(given[-1]) if ops[unit] in COPIES and given else LEAVE.get(ops[unit])
            held.pop(storage, None)
            if left is not None:
                held[storage] = left
    return {
        unit: {place: kind for (place, kind), count in places.items() if count * 2 > counts[unit]}
        for unit, places in seen.items()
    }


def with_zeros(
    storages: tuple[Storage, ...], shared: Mapping[int, int], kinds: Mapping[int, str]
) -> tuple[Storage, ...]:
    """`shared`: traced storage → its place among the storages; `kinds` by traced storage."""
    made = list(storages)
    for storage, place in shared.items():
        if storage in kinds and made[place].fill == Fill():
            made[place] = replace(made[place], fill=Fill(kinds[storage]))
    return tuple(made)


def _name(op: str) -> str:
    head = OP.fullmatch(op)
    return head["name"] if head else op
