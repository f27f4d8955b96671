"""How warm a call's inputs were: the bytes that the run touched since it last touched each of them.

An ExecutionTrace shows the storage of each tensor. In the order in which the GPU ran the calls, a storage's reuse
distance is the number of bytes read and written since its last use; if that is less than the GPU's cache holds, the
storage was still cached. Without an ExecutionTrace, argument names decide: weights, optimizer states and what a forward
pass left for the backward one were used long ago, other inputs just before.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import polars as pl

from warplens.analyses.units.calls import UnitCalls
from warplens.model.kinds import NONE
from warplens.model.trace import Trace
from warplens.planning.schemas import OpSchema
from warplens_run.base import bounded

T = TypeVar("T")
COLD: Final = re.compile(
    r"weight|bias|mat2|running_mean|running_var|grads?|exp_avgs?|(max_)?exp_avg_sqs|state_steps|vec"
)
GRADIENT: Final = re.compile(r"grad|grad_out|grad_output|grad_input")
LISTS_ARE_COLD: Final = re.compile(r"_foreach_\w+|_fused_\w+|_amp_foreach_\w+")


def reuse_distances(trace: Trace, unit_calls: UnitCalls) -> dict[int, dict[int, int]]:
    """Per unit: storage (by its place among those of a call, first seen first) → median bytes since its last use.

    Storages that no earlier call touched are left out. Empty without an ExecutionTrace.
    """
    if trace.arguments.is_empty():
        return {}
    rows = dict(zip(trace.arguments["id"].to_list(), range(len(trace.arguments)), strict=True))
    inputs, outputs = trace.arguments["inputs"], trace.arguments["outputs"]
    touched, last = 0, dict[int, int]()
    distances: dict[int, dict[int, list[int]]] = {}
    for call, unit in calls_in_order(unit_calls):
        row = rows.get(call, NONE)
        if row < 0:
            continue
        read, written = storages_of(inputs[row]), storages_of(outputs[row])
        unit_distances = distances.setdefault(unit, {})
        for position, storage in enumerate(read):
            if storage in last:
                unit_distances.setdefault(position, []).append(touched - last[storage])
        used = read | {storage: size for storage, size in written.items() if size > read.get(storage, 0)}
        touched += sum(used.values())
        last.update(dict.fromkeys(used, touched))
    return {
        unit: {position: int(statistics.median(values)) for position, values in by_position.items()}
        for unit, by_position in distances.items()
    }


def by_storage(by_position: Mapping[int, T], inputs: str) -> dict[int, T]:
    """What is known of a unit's storages by their places, by the storages of one of its calls.

    >>> by_storage({1: 64}, '[[1,7,0,2,4,"cuda:0"],[2,8,0,2,4,"cpu"],[3,9,0,2,4,"cuda:0"]]')
    {9: 64}
    """
    return {
        storage: by_position[position]
        for position, storage in enumerate(storages_of(inputs))
        if position in by_position
    }


def calls_in_order(unit_calls: UnitCalls) -> Iterator[tuple[int, int]]:
    """Calls and their units in the order in which the GPU began with them."""
    starts = unit_calls.pieces.group_by("call").agg(pl.col("start_ns").min(), pl.col("unit").first())
    return starts.sort("start_ns", "call").select("call", "unit").iter_rows()


def storages_of(text: str) -> dict[int, int]:
    """Storage → bytes of it that the recorded tensors cover, in the order of first appearance."""
    try:
        values = bounded.decoded(text) if text else []
    except ValueError:
        return {}
    sizes: dict[int, int] = {}
    for storage, size in _tensors(values):
        sizes[storage] = max(sizes.get(storage, 0), size)
    return sizes


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


def is_likely_cached(schema: OpSchema, parameter_name: str) -> bool:
    """Whether an argument was used just before, by its name alone."""
    op = schema.name.partition("::")[2]
    if LISTS_ARE_COLD.fullmatch(op) or COLD.fullmatch(parameter_name):
        return False
    names = [parameter.name for parameter in schema.parameters]
    if "backward" in op and any(GRADIENT.fullmatch(name) for name in names):
        return GRADIENT.fullmatch(parameter_name) is not None
    return True
