"""Runs a plan in worker processes, so that no unit can end the run, and keeps what is done at every moment."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from warplens_run.base.errors import FormatError, UsageError, WarplensError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_plan import ReplayPlan, Unit
from warplens_run.formats.replay_result import ReplayResult, UnitResult
from warplens_run.processes.child import KILLED, ChildEnded
from warplens_run.replay import safe_values, wire
from warplens_run.replay.energy_choice import units_to_meter
from warplens_run.replay.journal import Earlier, Journal, RunHead, earlier, refuse_other_run
from warplens_run.replay.options import Progress, RunOptions
from warplens_run.replay.process import WorkerProcess
from warplens_run.replay.unit_results import unit_result

__all__ = ["ChooseMetered", "Progress", "not_reached", "run_plan"]
ChooseMetered = Callable[[Mapping[str, UnitResult]], Collection[str]]
"""The ids of the units whose energy is measured, from the times of all of them."""
START_SECONDS: Final = 300.0
"""Importing PyTorch from a cold disk, starting the GPU and measuring idle power take long."""
LEAST_SECONDS: Final = 1.0
"""What a unit that has begun may take beyond the run's seconds."""
NOT_REACHED_WITHIN: Final = "not reached within"
NOT_REACHED: Final = "the run was interrupted"
NO_ENERGY: Final = "no energy: "


def run_plan(
    plan_path: Path,
    output: Path,
    options: RunOptions,
    progress: Callable[[Progress], None],
    fresh: bool = False,
    choose_metered: ChooseMetered | None = None,
    ranks: Mapping[str, int] | None = None,
    deadline: float | None = None,
) -> ReplayResult:
    """The result, which is also written to `output`; after Ctrl-C it holds what was done by then, and so it does where
    `options.seconds` are over.

    Energy is measured of the units that `choose_metered` names; without it, by `energy_cover`. Units of a low rank come
    first, the longest of them first. `deadline`: of `time.monotonic()`, where the seconds are shared with other runs.
    """
    options.check()
    plan = plan_file.load(plan_path)
    unknown = sorted(set(options.units) - {unit.id for unit in plan.units})
    if unknown:
        raise UsageError(f"the plan has no unit {unknown[0]!r}")
    if not output.parent.is_dir():
        raise UsageError(f"the folder {output.parent} does not exist")
    head = RunHead(plan.id, options.measured(), "", plan_fingerprint=plan_file.fingerprint(plan))
    previous = earlier(output, head, fresh)
    job = wire.ReplayJob(str(plan_path.resolve()), head.plan_fingerprint, options)
    metered = units_to_meter(plan, options.energy_cover)
    if deadline is None:
        deadline = time.monotonic() + options.seconds if options.seconds else float("inf")
    run = _Run(
        plan, job, head, previous, output, progress, choose_metered or (lambda _: metered), ranks or {}, deadline
    )
    try:
        run.go()
    finally:
        run.end_worker()
        if run.is_begun:
            result_file.save(output, run.result())
            run.journal.remove()
    return run.result()


class OutOfTimeError(Exception):
    """The seconds of the run were over before a unit was done."""


class _Run:
    def __init__(
        self,
        plan: ReplayPlan,
        job: wire.ReplayJob,
        head: RunHead,
        previous: Earlier,
        output: Path,
        progress: Callable[[Progress], None],
        choose_metered: ChooseMetered,
        ranks: Mapping[str, int],
        deadline: float,
    ) -> None:
        self._ranks = ranks
        self._deadline = deadline
        self._plan = plan
        self._job = job
        self._previous = previous
        self._output = output
        self.journal = Journal(output)
        self._progress = progress
        self._worker: WorkerProcess | None = None
        self._done = dict(previous.units)
        self._head = previous.head or head
        self._throttled: Counter[str] = Counter()
        self._rest_reason = NOT_REACHED
        self._has_meter = False
        self._choose_metered = choose_metered
        self.is_begun = False

    def go(self) -> None:
        """First the times of all units, then energy: its loops heat the GPU, which would slow the others down."""
        units = [unit for unit in self._plan.units if self._is_wanted(unit)]
        remaining = [unit for unit in units if unit.id not in self._done]
        is_needed = bool(remaining) or not self._previous.head or bool(self._without_energy(units))
        if is_needed and time.monotonic() < self._deadline:
            self._start_first()
        self.is_begun = True
        if self._run_all(remaining, units, energy=False) and self._has_meter:
            metered = self._without_energy(units)
            self._run_all(metered, metered, energy=True)
        self._note_what_is_left(units)
        self._progress(Progress(len(units), len(units), "", "", 1.0))

    def _run_all(self, units: Sequence[Unit], all_units: Sequence[Unit], *, energy: bool) -> bool:
        """The most valuable first; whether all of them were reached. progress is a share of `all_units`."""
        whole_ns, left_ns = _total_ns(all_units), _total_ns(units)
        for number, unit in enumerate(sorted(units, key=self._order)):
            if time.monotonic() >= self._deadline:
                self._rest_reason = not_reached(self._job.options.seconds)
                return False
            share = 1 - left_ns / whole_ns if whole_ns else 0.0
            words = f"energy of {unit.op}" if energy else unit.op
            self._progress(Progress(len(all_units) - len(units) + number, len(all_units), unit.id, words, share))
            if self._worker is None and not self._start_again():
                return False
            try:
                result = self._outcome(unit, energy=energy)
            except OutOfTimeError:
                self._rest_reason = not_reached(self._job.options.seconds)
                return False
            self._done[unit.id] = self._with_energy(unit, result) if energy else result
            self.journal.add(self._done[unit.id])
            left_ns -= unit.times.total_ns
        return True

    def _order(self, unit: Unit) -> tuple[int, int]:
        return self._ranks.get(unit.id, len(self._ranks)), -unit.times.total_ns

    def _note_what_is_left(self, units: Sequence[Unit]) -> None:
        """Says what a limit of seconds left out."""
        if time.monotonic() < self._deadline:
            return
        timed = sum(unit.id in self._done for unit in units)
        unmetered = len(self._without_energy(units)) if self._has_meter else 0
        parts = [f"{len(units) - timed} of {len(units)} units"] if timed < len(units) else []
        parts += [f"the energy of {unmetered} units"] if unmetered else []
        if parts:
            note = f"{not_reached(self._job.options.seconds)}: {' and '.join(parts)}"
            self._head = replace(self._head, notes=(*self._head.notes, note))

    def _without_energy(self, units: Sequence[Unit]) -> list[Unit]:
        """Those whose energy is wanted and not known, though nothing went wrong with them."""
        wanted = self._choose_metered(self._done)
        return [unit for unit in units if unit.id in wanted and self._lacks_energy(unit)]

    def _lacks_energy(self, unit: Unit) -> bool:
        result = self._done.get(unit.id)
        if result is None:
            return False
        has_reason = any(note.startswith(NO_ENERGY) for note in result.notes)
        return result.status == result_file.DONE and result.energy is None and not has_reason

    def _with_energy(self, unit: Unit, metered: UnitResult) -> UnitResult:
        """What was measured before stays as it was, whatever became of the energy."""
        timed = self._done[unit.id]
        why = (NO_ENERGY + metered.reason,) if metered.status != result_file.DONE else ()
        notes = dict.fromkeys((*timed.notes, *metered.notes, *why))
        return replace(timed, energy=metered.energy, notes=tuple(notes))

    def _is_wanted(self, unit: Unit) -> bool:
        chosen = self._job.options.units
        return unit.status == plan_file.READY and (not chosen or unit.id in chosen)

    def _start_first(self) -> None:
        """Anything that goes wrong here is wrong for all units."""
        hello = self._start()
        device = self._head.device
        refuse_other_run(self._output, f"on {device}" if device not in ("", hello.device) else "")
        self._head = replace(
            self._head,
            device=hello.device,
            versions=hello.versions,
            before=hello.state,
            after=None,
            notes=(*hello.notes, *self._device_notes(hello.device)),
        )
        self.journal.begin(self._head, self._done)

    def _device_notes(self, device: str) -> list[str]:
        if device == "cpu":
            return ["it ran on the CPU: its times say nothing about a GPU"]
        if self._plan.gpus and self._plan.gpus[0].name not in ("", device):
            return [f"the trace is of {self._plan.gpus[0].name}, this run of {device}"]
        return []

    def _start(self) -> wire.Hello:
        self._worker = WorkerProcess(self._job)
        try:
            message = self._worker.receive(START_SECONDS)
        except (TimeoutError, ChildEnded) as error:
            raise WarplensError(f"the units cannot be run: {error}") from None
        if isinstance(message, wire.WorkerFault):
            raise WarplensError(message.message, hint=message.hint or None)
        if not isinstance(message, wire.Hello):
            raise WarplensError("the process that runs the units began with an unexpected message")
        self._has_meter = message.has_meter
        return message

    def _start_again(self) -> bool:
        try:
            self._start()
        except WarplensError as error:
            self.end_worker()
            self._rest_reason = error.message
            self._head = replace(self._head, notes=(*self._head.notes, f"the run ended early: {error.message}"))
            return False
        return True

    def _outcome(self, unit: Unit, *, energy: bool) -> UnitResult:
        """A unit that asserts on the GPU, or ends its process, is run again in another one with safe values."""
        result, has_crashed = self._attempt(unit, energy=energy, safe=self._is_safe(unit))
        has_others = safe_values.safe_values(unit) != unit
        if not has_crashed or energy or not has_others or not self._start_again():
            return result
        again, _ = self._attempt(unit, energy=False, safe=True)
        if again.status != result_file.DONE:
            return result
        return replace(again, notes=(*again.notes, safe_values.NOTE + result.reason))

    def _is_safe(self, unit: Unit) -> bool:
        """Whether its time was measured with safe values."""
        done = self._done.get(unit.id)
        return done is not None and any(note.startswith(safe_values.NOTE) for note in done.notes)

    def _attempt(self, unit: Unit, *, energy: bool, safe: bool) -> tuple[UnitResult, bool]:
        """The result, and whether the unit left its process useless."""
        assert self._worker is not None
        left = max(self._deadline - time.monotonic(), LEAST_SECONDS)
        limit = min(self._job.options.unit_timeout, left)
        self._worker.send(wire.UnitTask(unit.id, energy, safe))
        try:
            while not isinstance(message := self._worker.receive(limit), wire.Answer):
                continue
        except TimeoutError:
            self.end_worker()
            if limit == left:
                raise OutOfTimeError from None
            return unit_result(unit, result_file.FAILED, f"it took longer than {limit:g} s"), False
        except (ChildEnded, FormatError) as error:
            self.end_worker()
            # What ran out of memory would do so again.
            is_killed = isinstance(error, ChildEnded) and error.ending.status == KILLED
            return unit_result(unit, result_file.FAILED, str(error)), not is_killed
        if message.broken:
            self.end_worker()
        if message.meter is not None and message.meter != self._head.meter:
            self._job = replace(self._job, meter=message.meter)
            self._head = replace(self._head, meter=message.meter)
            self.journal.begin(self._head, self._done)
        if message.state is not None:
            self._throttled.update(message.state.throttle)
            self._head = replace(self._head, after=replace(message.state, throttle=tuple(self._throttled)))
        return message.unit, message.broken and message.unit.status != result_file.DONE

    def end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def result(self) -> ReplayResult:
        head = self._head
        return ReplayResult(
            plan=self._plan.id,
            plan_fingerprint=self._job.plan_fingerprint,
            trace=self._plan.trace,
            gpu_ns=self._plan.gpu_ns,
            wall_ns=self._plan.wall_ns,
            device=head.device,
            runner="python",
            cache=self._job.options.cache,
            units=tuple(map(self._unit_result, self._plan.units)),
            rest=self._rest_ns(),
            options=self._job.options.as_words(),
            versions=head.versions,
            before=head.before,
            after=head.after,
            meter=head.meter,
            notes=(*head.notes, *self._throttle_notes()),
        )

    def _rest_ns(self) -> dict[str, int]:
        by_reason: dict[str, int] = {}
        for rest in self._plan.rest:
            by_reason[rest.reason] = by_reason.get(rest.reason, 0) + rest.total_ns
        return by_reason

    def _throttle_notes(self) -> list[str]:
        return [f"the GPU was throttled by its {why} after {count} units" for why, count in self._throttled.items()]

    def _unit_result(self, unit: Unit) -> UnitResult:
        if unit.id in self._done:
            return self._done[unit.id]
        if unit.status == plan_file.REFUSED:
            return unit_result(unit, result_file.REFUSED, unit.reason)
        if unit.status == plan_file.LEFT_OUT:
            return unit_result(unit, result_file.NOT_RUN, unit.reason or "left out of the plan")
        return unit_result(unit, result_file.NOT_RUN, self._rest_reason if self._is_wanted(unit) else "not requested")


def not_reached(seconds: float) -> str:
    """Why something of a run with a limit is missing."""
    return f"{NOT_REACHED_WITHIN} {seconds:g} s"


def _total_ns(units: Iterable[Unit]) -> int:
    return sum(unit.times.total_ns for unit in units)
