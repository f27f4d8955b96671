"""The units of a trace as a plan holds them: each with its arguments, or with the reason why it cannot be rebuilt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens import lab
from warplens.analyses.units.calls import OP, TRITON, UnitCalls, unit_calls
from warplens.analyses.units.launch_api import TRITON as TRITON_SOURCE
from warplens.analyses.units.launch_api import api_of
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE, KINDS
from warplens.model.records import records
from warplens.planning.arguments import CallBuilder, NotReplayable, build, choose
from warplens.planning.context import Context
from warplens.planning.parameter_lists import (
    BackwardPass,
    NoLists,
    are_omitted,
    backward_passes,
    likely_first,
    rebuilt_lists,
)
from warplens.planning.recorded import Recorded, TracedCall, from_arguments, from_spec
from warplens.planning.reuse import by_storage, is_likely_cached, reuse_distances
from warplens.planning.schemas import OpSchema, parse_schema
from warplens.planning.shards import Sharding, shardings
from warplens.planning.triton_units import triton_arguments, triton_kernel
from warplens.planning.zeros import with_zeros, zero_fills
from warplens_run.base import bounded
from warplens_run.base.loading import loaded
from warplens_run.formats.replay_plan import REFUSED, Argument, Kernel, Storage, Times, Unit
from warplens_run.replay.op_rules import hazard

NO_SHAPES: Final = "the trace records no shapes (profile with record_shapes=True)"
BETWEEN_GPUS: Final = re.compile(r"Memcpy (PtoP|Peer)")
COPY_CODES: Final = (CODE["memcpy"], CODE["memset"])


@dataclass(frozen=True)
class UnitInputs:
    """What units are made from."""

    work: Workspace
    unit_calls: UnitCalls
    context: Context
    reuse: Mapping[int, Mapping[int, int]]
    zeros: Mapping[int, Mapping[int, str]]
    passes: tuple[BackwardPass, ...]
    shardings: tuple[Sharding, ...]
    external: np.ndarray[Any, Any]
    uncertain: frozenset[int] = frozenset()
    """Units of launches that may be others than the recorded ones."""


class UnitRow(NamedTuple):
    """A row of `UnitCalls.units`: names and arguments are row numbers of the trace's own tables, -1 for none."""

    unit: int
    op: int
    spec: int
    arguments: int
    launch: int
    call: int
    calls: int


class PieceRow(NamedTuple):
    """One launch of a unit's call, with its durations over all calls."""

    kernel: str
    kind: int
    kernel_category: str
    grid: str
    block: str
    bytes: int
    dur_ns: list[int]


def plan_units(work: Workspace, context: Context) -> list[Unit]:
    calls = unit_calls(work)
    reuse, zeros = reuse_distances(work.trace, calls), zero_fills(work.trace, calls)
    passes, external = backward_passes(work.trace), work.trace.ints("external_id")
    sharded = shardings(work.trace) if passes else ()
    source = UnitInputs(work, calls, context, reuse, zeros, passes, sharded, external, _uncertain(work, calls))
    pieces = dict(_by_unit(calls.pieces))
    times = dict(calls.calls.group_by("unit").agg("total_ns").iter_rows())
    return [
        _unit(source, row, f"u{row.unit + 1}", pieces[row.unit], times[row.unit])
        for row in records(calls.units, UnitRow)
    ]


def _uncertain(work: Workspace, calls: UnitCalls) -> frozenset[int]:
    guessed = work.trace.launched.filter(~pl.col("is_certain"))
    return frozenset(calls.pieces.join(guessed, on="id", how="semi")["unit"].to_list())


def _by_unit(pieces: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    for key, frame in pieces.group_by("unit", maintain_order=True):
        unit: Any = key[0]
        yield unit, frame


def _unit(source: UnitInputs, row: UnitRow, name: str, pieces: pl.DataFrame, totals: list[int]) -> Unit:
    trace = source.work.trace
    op = trace.names[row.op]
    kernels = _kernels(pieces)
    longest = max(kernels, key=lambda kernel: kernel.times.total_ns)
    head = OP.fullmatch(op)
    unit = Unit(
        id=name,
        op=head["name"] if head else op,
        kernels=kernels,
        count=row.calls,
        times=times_of(totals),
        api=TRITON_SOURCE if row.launch >= 0 else api_of(longest.name, longest.kind, op),
        overload=(head["overload"] or "") if head else "",
        category=longest.category,
    )
    try:
        if row.launch >= 0:
            make: Callable[..., Unit] = loaded(lab.UNITS)
            return make(unit, row.launch, source.context, is_certain=row.unit not in source.uncertain)
        return _with_arguments(unit, source, row)
    except NotReplayable as refusal:
        return replace(unit, status=REFUSED, reason=str(refusal))


def _kernels(pieces: pl.DataFrame) -> tuple[Kernel, ...]:
    """The GPU work of one call; its durations over all calls of the unit."""
    frames = pieces.group_by("place", maintain_order=True).agg(
        pl.col("kernel", "kind", "kernel_category", "grid", "block", "bytes").first(), "dur_ns"
    )
    return tuple(
        Kernel(
            name=piece.kernel,
            kind=KINDS[piece.kind],
            times=times_of(piece.dur_ns),
            category=piece.kernel_category,
            grid=_sides(piece.grid) if piece.kind not in COPY_CODES else (),
            block=_sides(piece.block) if piece.kind not in COPY_CODES else (),
            bytes=piece.bytes if piece.bytes >= 0 else None,
        )
        for piece in records(frames.sort("place"), PieceRow)
    )


def times_of(values: Sequence[int]) -> Times:
    numbers = np.asarray(values, np.float64)
    p10, median, p90 = np.quantile(numbers, (0.1, 0.5, 0.9)).tolist()
    return Times(int(numbers.sum()), median, p10, p90, int(numbers.min()), int(numbers.max()))


def _sides(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,12}", text))


def _with_arguments(unit: Unit, source: UnitInputs, row: UnitRow) -> Unit:
    trace = source.work.trace
    spec = from_spec(*trace.specs.row(row.spec)) if row.spec >= 0 else ()
    traced = records(trace.arguments[row.arguments], TracedCall)[0] if row.arguments >= 0 else None
    recorded = from_arguments(traced, spec) if traced is not None else spec
    kernels = [kernel.name for kernel in unit.kernels]
    if not recorded:
        raise NotReplayable(NO_SHAPES)
    if any(BETWEEN_GPUS.match(name) for name in kernels):
        raise NotReplayable("a copy between two GPUs")
    reuse = by_storage(source.reuse.get(row.unit, {}), traced.inputs) if traced is not None else None
    if TRITON.fullmatch(unit.op):
        return _triton_unit(unit, source, row, traced, recorded, kernels, reuse)
    schema = _schema(unit, traced, recorded)
    reason = hazard(schema.name)
    if reason:
        raise NotReplayable(reason)
    notes: list[str] = []
    if are_omitted(schema, recorded):
        recorded, note = _with_lists(unit, source, row, schema, recorded)
        notes.append(note)
    arguments_by_name = {parameter.name: value for parameter, value in zip(schema.parameters, recorded, strict=False)}
    call = CallBuilder(schema.name.partition("::")[2], arguments_by_name, kernels, _ranges(traced), notes=notes)
    arguments = build(schema, recorded, call)
    warm = None if reuse is not None else schema
    zeros = by_storage(source.zeros.get(row.unit, {}), traced.inputs) if traced is not None else {}
    return replace(
        unit,
        op=schema.name,
        overload=schema.overload,
        schema=schema.text,
        arguments=arguments,
        storages=with_zeros(with_reuse(call, arguments, reuse, warm), call.shared, zeros),
        notes=tuple(call.notes),
    )


def _with_lists(
    unit: Unit, source: UnitInputs, row: UnitRow, schema: OpSchema, recorded: Sequence[Recorded]
) -> tuple[tuple[Recorded, ...], str]:
    start_ns = int(source.work.trace.ints("start_ns")[row.call])
    passes = likely_first(source.passes, start_ns)
    try:
        return rebuilt_lists(unit, schema, recorded, passes, source.work.hardware, source.shardings)
    except NoLists as reason:
        raise NotReplayable(str(reason)) from None


def _schema(unit: Unit, traced: TracedCall | None, recorded: Sequence[Recorded]) -> OpSchema:
    recorded_schema = parse_schema(traced.schema) if traced is not None and traced.schema else None
    if recorded_schema is not None:
        return recorded_schema
    return choose(unit.op, unit.overload, recorded, [kernel.name for kernel in unit.kernels])


def _triton_unit(
    unit: Unit,
    source: UnitInputs,
    row: UnitRow,
    traced: TracedCall | None,
    recorded: Sequence[Recorded],
    kernels: Sequence[str],
    reuse: Mapping[int, int] | None,
) -> Unit:
    launch = source.context.launches.get(int(source.external[row.call]))
    kernel = triton_kernel(unit.op, traced.kernel_file if traced is not None else "", launch, source.context)
    call = CallBuilder(unit.op, {}, kernels)
    text = source.context.sources[kernel.source]
    arguments = triton_arguments(recorded, kernel, text, call)
    storages = with_reuse(call, arguments, reuse, None)
    return replace(unit, arguments=arguments, storages=storages, notes=tuple(call.notes), triton=kernel)


def _ranges(traced: TracedCall | None) -> dict[int, tuple[float, float]]:
    """`{"1": [0, 1023]}`: smallest and largest value of index tensors."""
    text = traced.tensor_range if traced is not None else ""
    try:
        pairs = msgspec.json.decode(text, type=dict[str, tuple[float, float]]) if text else {}
    except msgspec.DecodeError:
        return {}
    return {
        bounded.whole(position): pair
        for position, pair in pairs.items()
        if bounded.is_whole(position, 0) and pair[0] <= pair[1]
    }


def with_reuse(
    call: CallBuilder, arguments: Sequence[Argument], reuse: Mapping[int, int] | None, schema: OpSchema | None
) -> tuple[Storage, ...]:
    """Each storage with its last use: as traced, else guessed from the names of the arguments in it."""
    storages = list(call.storages)
    if reuse is not None:
        for storage, index in call.shared.items():
            storages[index] = replace(storages[index], reuse_bytes=reuse.get(storage))
        return tuple(storages)
    if schema is not None:
        for parameter, argument in zip(schema.parameters, arguments, strict=True):
            if is_likely_cached(schema, parameter.name):
                for index in _storages_in(argument):
                    storages[index] = replace(storages[index], reuse_bytes=0)
    return tuple(storages)


def _storages_in(argument: Argument) -> Iterator[int]:
    if argument.tensor is not None:
        yield argument.tensor.storage
    for item in argument.items:
        yield from _storages_in(item)
