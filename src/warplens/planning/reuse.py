"""How warm a call's inputs were: the bytes that the run touched since it last touched each of them.

An ExecutionTrace tells which storage each tensor lies in. Going through the calls in the order in which the GPU ran
them, a storage's reuse distance is what was read and written since; less than the GPU's cache holds, and it was still
there. Without an ExecutionTrace, names tell: weights, optimizer states and what a forward pass left for the backward
one were used long ago, other inputs just now.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import polars as pl

from warplens.analyses.units.calls import UnitCalls
from warplens.model.kinds import NONE
from warplens.model.trace import Trace
from warplens.planning.schemas import OpSchema

T = TypeVar("T")
COLD: Final = re.compile(
    r"weight|bias|mat2|running_mean|running_var|grads?|exp_avgs?|(max_)?exp_avg_sqs|state_steps|vec"
)
GRADIENT: Final = re.compile(r"grad|grad_out|grad_output|grad_input")
LISTS_ARE_COLD: Final = re.compile(r"_foreach_\w+|_fused_\w+|_amp_foreach_\w+")


def reuse_distances(trace: Trace, found: UnitCalls) -> dict[int, dict[int, int]]:
    """Per unit: storage (by its place among those of a call, first seen first) → median bytes since its last use.

    Storages that no earlier call touched are left out. Empty without an ExecutionTrace.
    """
    if trace.arguments.is_empty():
        return {}
    rows = dict(zip(trace.arguments["id"].to_list(), range(len(trace.arguments)), strict=True))
    inputs, outputs = trace.arguments["inputs"], trace.arguments["outputs"]
    touched, last = 0, dict[int, int]()
    distances: dict[int, dict[int, list[int]]] = {}
    for call, unit in calls_in_order(found):
        row = rows.get(call, NONE)
        if row < 0:
            continue
        given, made = storages_of(inputs[row]), storages_of(outputs[row])
        known = distances.setdefault(unit, {})
        for place, storage in enumerate(given):
            if storage in last:
                known.setdefault(place, []).append(touched - last[storage])
        used = given | {storage: size for storage, size in made.items() if size > given.get(storage, 0)}
        touched += sum(used.values())
        last.update(dict.fromkeys(used, touched))
    return {
        unit: {place: int(statistics.median(values)) for place, values in places.items()}
        for unit, places in distances.items()
    }


def by_storage(known: Mapping[int, T], inputs: str) -> dict[int, T]:
    """What is known of a unit's storages by their places, by the storages of one of its calls.

    >>> by_storage({1: 64}, '[[1,7,0,2,4,"cuda:0"],[2,8,0,2,4,"cpu"],[3,9,0,2,4,"cuda:0"]]')
    {9: 64}
    """
    return {storage: known[place] for place, storage in enumerate(storages_of(inputs)) if place in known}


def calls_in_order(found: UnitCalls) -> Iterator[tuple[int, int]]:
    """Calls and their units in the order in which the GPU began with them."""
    starts = found.pieces.group_by("call").agg(pl.col("start_ns").min(), pl.col("unit").first())
    return starts.sort("start_ns", "call").select("call", "unit").iter_rows()


def storages_of(text: str) -> dict[int, int]:
    """Storage → bytes of it that the recorded tensors cover, in the order of first appearance."""
    try:
        values = json.loads(text) if text else []
    except ValueError:
        return {}
    found: dict[int, int] = {}
    for storage, size in _tensors(values):
        found[storage] = max(found.get(storage, 0), size)
    return found


def _tensors(values: Any) -> Iterable[tuple[int, int]]:
    if not isinstance(values, list):
        return
    if len(values) == 6 and isinstance(values[5], str) and all(isinstance(number, int) for number in values[:5]):
        _, storage, _, elements, size, device = values
        if elements and not device.startswith("cpu"):
            yield storage, elements * size
        return
    for value in values:
        yield from _tensors(value)


def guessed_warm(schema: OpSchema, parameter_name: str) -> bool:
    """Whether an argument was used just now, told by its name alone."""
    op = schema.name.partition("::")[2]
    if LISTS_ARE_COLD.fullmatch(op) or COLD.fullmatch(parameter_name):
        return False
    names = [parameter.name for parameter in schema.parameters]
    if "backward" in op and any(GRADIENT.fullmatch(name) for name in names):
        return GRADIENT.fullmatch(parameter_name) is not None
    return True
