"""One unit: inputs, the call that is the trace's, its kernels, its time, its energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from warplens_run.base.units import plural
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_plan import KernelSource, Unit
from warplens_run.formats.replay_result import Energy, RunKernel, Time, UnitResult
from warplens_run.replay import triton_units
from warplens_run.replay.caches import Cache
from warplens_run.replay.calls import bind, combinations, resolve
from warplens_run.replay.choosing import WorkingCall, first_matching_trace, working_calls
from warplens_run.replay.energy_meter import LazyMeter
from warplens_run.replay.faults import BadUnit, UnitRefused, one_line
from warplens_run.replay.graphs import Candidate, loop_of
from warplens_run.replay.inputs import Inputs, check_memory
from warplens_run.replay.options import GRAPH, SUSTAINED, RunOptions
from warplens_run.replay.same import difference
from warplens_run.replay.statistics import median, summarise
from warplens_run.replay.timing import ProfiledCalls, first_repeats, host_sample, repeated
from warplens_run.replay.unit_results import unit_result
from warplens_run.replay.widening import narrow_dtypes, widened

NOTHING: Final = "it launched nothing on the GPU"
SETTLING_S: Final = 2.0
"""Load after which clocks are those of a long run: a GPU takes about a second to reach its power limit."""
LOOK_REPEATS: Final = 10
"""Calls under the profiler where it only shows which kernels run."""


@dataclass(frozen=True)
class Bench:
    """What all units of a worker share."""

    device: Any
    options: RunOptions
    cache: Cache
    sources: dict[str, KernelSource]
    folder: Path
    """for files of this process"""
    meter: LazyMeter | None = None
    report_part: Callable[[str], None] = lambda part: None
    """Called when a unit goes on with its next part."""


@dataclass(frozen=True)
class UnitOutcome:
    """What was measured of a unit: its time, or its energy."""

    time: Time | None = None
    kernels: tuple[RunKernel, ...] = ()
    same: bool | None = None
    difference: str = ""
    energy: Energy | None = None
    notes: tuple[str, ...] = ()


def run_unit(unit: Unit, bench: Bench, energy: bool = False) -> UnitResult:
    """Its time, or its energy. The result has the reason of whatever goes wrong."""
    try:
        if bench.device.type == "cuda":
            outcome = _without_gradients(partial(_metered if energy else _measured, unit, bench))
        else:
            outcome = _on_cpu(unit, bench)
    except UnitRefused as error:
        return unit_result(unit, result_file.REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - an op may raise anything; one unit never ends the run
        return unit_result(unit, result_file.FAILED, one_line(error))
    return replace(
        unit_result(unit, result_file.DONE),
        kernels=outcome.kernels,
        same=outcome.same,
        difference=outcome.difference,
        time=outcome.time,
        energy=outcome.energy,
        notes=(*unit.notes, *outcome.notes),
    )


def _on_cpu(unit: Unit, bench: Bench) -> UnitOutcome:
    try:
        return _without_gradients(partial(_timed_on_host, unit, bench))
    except (BadUnit, UnitRefused):
        raise
    except Exception as error:
        narrow = narrow_dtypes(unit)
        if not narrow:
            raise
        try:
            outcome = _without_gradients(partial(_timed_on_host, widened(unit), bench))
        except Exception:  # noqa: BLE001 - it was not the dtype: what it said first is the reason
            raise error from None
        return replace(outcome, notes=(f"{', '.join(narrow)} widened to float32: {one_line(error)}",))


def _timed_on_host(unit: Unit, bench: Bench) -> UnitOutcome:
    inputs, candidates = _prepared(unit, bench)
    working = working_calls(candidates, inputs, lambda: None)[0]
    samples = repeated(host_sample(working.call, inputs, bench.options), bench.options, bench.options.min_repeats)
    return UnitOutcome(summarise(samples, "host"))


def _measured(unit: Unit, bench: Bench) -> UnitOutcome:
    working, profiled = _profiled(unit, bench)
    time, note = _time(unit, bench, working, profiled)
    differs = difference(unit.kernels, profiled.usual)
    unusual = f"{plural(profiled.unusual, 'call')} launched something else and are not counted"
    notes = (*([note] if note else []), *([unusual] if profiled.unusual else []))
    return UnitOutcome(time, profiled.kernels(), not differs, differs, notes=notes)


def _profiled(unit: Unit, bench: Bench) -> tuple[WorkingCall, ProfiledCalls]:
    inputs, candidates = _prepared(unit, bench)
    working = first_matching_trace(
        working_calls(candidates, inputs, torch.cuda.synchronize), unit, inputs, bench.folder
    )
    return working, ProfiledCalls(working.call, inputs, bench.cache.preparation(inputs), bench.folder)


def _time(unit: Unit, bench: Bench, working: WorkingCall, profiled: ProfiledCalls) -> tuple[Time, str]:
    """The time of a call, and a note where the timer is not the one that was asked for."""
    options, note = bench.options, ""
    if options.timer in (GRAPH, SUSTAINED):
        loop, note = loop_of(
            working.candidate, profiled.inputs, bench.cache, _trial_ns(profiled, options), bench.device
        )
        if not note:
            if options.timer == SUSTAINED:
                loop.settle(SETTLING_S)
            return summarise(repeated(loop.timed, options, options.min_repeats), options.timer), ""
    samples = repeated(profiled.sample, options, first_repeats(unit.times.median_ns, options))
    if not samples:
        raise BadUnit(NOTHING)
    return summarise(samples, "profiler"), note


def _trial_ns(profiled: ProfiledCalls, options: RunOptions) -> float:
    """How long its kernels take, from a few calls."""
    samples = profiled.sample(min(LOOK_REPEATS, options.max_repeats))
    if not samples:
        raise BadUnit(NOTHING)
    return median(samples)


def _metered(unit: Unit, bench: Bench) -> UnitOutcome:
    assert bench.meter is not None
    bench.report_part("idle")
    meter = bench.meter.ready()
    working, profiled = _profiled(unit, bench)
    busy_ns = _trial_ns(profiled, bench.options)
    bench.report_part("energy")
    loop, note = loop_of(working.candidate, profiled.inputs, bench.cache, busy_ns, bench.device)
    energy = meter.measure(loop, busy_ns, bench.options.energy_seconds)
    return UnitOutcome(energy=energy, notes=(note,) if note else ())


def _prepared(unit: Unit, bench: Bench) -> tuple[Inputs, Sequence[Candidate]]:
    candidates = _candidates(unit, bench)
    check_memory(unit, bench.device)
    return Inputs.build(unit, bench.device, bench.options.seed), candidates


def _candidates(unit: Unit, bench: Bench) -> Sequence[Candidate]:
    if unit.triton is not None:
        if not bench.options.allow_source:
            raise UnitRefused("it contains source code, which runs only if it is allowed (option allow_source)")
        return triton_units.candidates(unit, bench.sources[unit.triton.source], bench.device, bench.folder)
    op = resolve(unit.op, unit.overload)

    def candidate(arguments: tuple[plan_file.Argument, ...]) -> Candidate:
        return lambda inputs: bind(op, arguments, inputs, bench.device)

    return [candidate(arguments) for arguments in combinations(unit)]


def _without_gradients(measure: Callable[[], UnitOutcome]) -> UnitOutcome:
    """In inference mode, as it costs least; a few ops refuse tensors made in it."""
    modes: tuple[Callable[[], AbstractContextManager[Any]], ...] = (torch.inference_mode, torch.no_grad)
    with modes[0]():
        try:
            return measure()
        except RuntimeError as error:
            if "inference" not in str(error).lower():
                raise
    with modes[1]():
        return measure()
