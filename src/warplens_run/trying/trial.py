"""A program's steps in turns: as they are, and with fixes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from warplens_run.base.errors import WarplensError
from warplens_run.meter.window import EnergyWindow
from warplens_run.trying.fixes.protocol import Fix
from warplens_run.trying.watched import take_watched

PLAIN: Final = 0
"""The side without a fix."""
SETTLING_STEPS: Final = 2
"""After each switch: what is chosen or set up anew is not timed."""
MOST_SETTLING_STEPS: Final = 50
"""While PyTorch compiles, more steps than that are not waited for."""
MOST_TIMINGS: Final = 3
"""A turn in which something was compiled is timed again."""


class TrialOver(SystemExit):
    """All turns are done: the program need not go on."""


@dataclass(frozen=True)
class TrialPlan:
    steps: int = 10
    """Timed in each turn."""
    rounds: int = 5
    """Each has a turn without fixes and one with each variant."""
    warm_up: int = 5
    """Steps before the first turn."""

    def all_steps(self, sides: int) -> int:
        """What a program has to make for all of it."""
        return self.warm_up + sides * self.rounds * (SETTLING_STEPS + self.steps)


@dataclass(frozen=True)
class Turn:
    """Steps one after the other, all on one side."""

    side: int
    steps: int
    seconds: float
    peak_bytes: int = 0
    joules: float | None = None
    watched: dict[str, float] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def step_ms(self) -> float:
        return 1e3 * self.seconds / self.steps


@dataclass(frozen=True)
class Refused:
    """A side whose fixes cannot be made in this program."""

    side: int
    reason: str
    hint: str = ""


@dataclass(frozen=True)
class Recorded:
    """A bundle of some steps of a side."""

    side: int
    path: str
    problem: str = ""


Report = Turn | Refused | Recorded


@dataclass(frozen=True)
class Order:
    """What comes next: a turn on a side, or a recording of it."""

    side: int
    bundle: str = ""
    steps: int = 0
    """Of the recording."""


@dataclass(frozen=True)
class TrialHooks:
    """What a trial asks of the device and of PyTorch; a CPU has nothing to wait for."""

    settle: Callable[[], bool] = lambda: True
    reset_peak: Callable[[], None] = lambda: None
    peak_bytes: Callable[[], int] = lambda: 0
    energy: Callable[[], EnergyWindow] | None = None
    clock: Callable[[], float] = time.perf_counter
    device: Callable[[], str] = lambda: "cpu"
    compilations: Callable[[], int] = lambda: 0
    """How many have begun so far."""
    observe_ops: Callable[[], Callable[[], frozenset[str] | None]] = lambda: lambda: None
    """Begins to observe which ops are called; what it returns ends that."""
    record: Callable[[str], Callable[[], str]] | None = None
    """Begins a bundle; what it returns ends it, with its path."""


NO_HOOKS: Final = TrialHooks()


class Trial:
    """Is called at each step's end; takes turns as it is ordered, and reports each.

    `sides` has the fixes of those that this process can take; `PLAIN` has none.
    """

    def __init__(
        self,
        sides: Mapping[int, Sequence[Fix]],
        plan: TrialPlan,
        orders: Iterable[Order],
        report: Callable[[Report], None],
        hooks: TrialHooks = NO_HOOKS,
    ) -> None:
        self.steps_seen = 0
        self.side = PLAIN
        self._sides = {PLAIN: (), **sides}
        self._plan, self._orders, self._report, self._hooks = plan, orders, report, hooks
        self._ops: frozenset[str] | None = None
        """What the program calls in a step, where that was observed."""
        self._course = self._run()
        next(self._course)

    def step(self) -> None:
        """A step has ended."""
        self.steps_seen += 1
        try:
            next(self._course)
        except StopIteration:  # a program that goes on after it was ended
            raise TrialOver(0) from None

    def stop(self) -> None:
        """Leaves the program as it was."""
        self._switch(PLAIN)

    def _run(self) -> Iterator[None]:
        """Goes on with each step's end; it ends with `TrialOver`."""
        yield from self._warm_up()
        for order in self._orders:
            try:
                self._switch(order.side)
            except WarplensError as error:
                self._report(Refused(order.side, str(error), error.hint or ""))
                continue
            yield from self._settling_steps()
            yield from self._recording(order) if order.bundle else self._turn(order.side)
        self._switch(PLAIN)
        yield  # the last step is the program's own again
        raise TrialOver(0)

    def _warm_up(self) -> Iterator[None]:
        for _ in range(max(1, self._plan.warm_up) - 1):
            yield
        needs_ops = any(fix.needs_op for fixes in self._sides.values() for fix in fixes)
        end = self._hooks.observe_ops() if needs_ops else None
        yield
        self._ops = end() if end is not None else None

    def _settling_steps(self) -> Iterator[None]:
        for number in range(1, MOST_SETTLING_STEPS + 1):
            compiled_before = self._hooks.compilations()
            yield
            if number >= SETTLING_STEPS and self._hooks.compilations() == compiled_before:
                return

    def _turn(self, side: int) -> Iterator[None]:
        for number in range(1, MOST_TIMINGS + 1):
            compiled_before = self._hooks.compilations()
            turn = yield from self._timed(side)
            if number == MOST_TIMINGS or self._hooks.compilations() == compiled_before:
                self._report(turn)
                return

    def _timed(self, side: int) -> Generator[None, None, Turn]:
        hooks = self._hooks
        hooks.settle()
        hooks.reset_peak()
        take_watched()
        window = hooks.energy() if hooks.energy is not None else None
        if window is not None:
            window.__enter__()
        start = hooks.clock()
        for _ in range(self._plan.steps):
            yield
        hooks.settle()
        seconds = hooks.clock() - start
        if window is not None:
            window.__exit__(None, None, None)
        return Turn(
            side,
            self._plan.steps,
            seconds,
            hooks.peak_bytes(),
            _joules(window, seconds),
            take_watched(),
            hooks.device(),
        )

    def _recording(self, order: Order) -> Iterator[None]:
        assert self._hooks.record is not None
        try:
            self._hooks.settle()  # what runs of earlier steps is not a part of it
            end = self._hooks.record(order.bundle)
            for _ in range(order.steps):
                yield
            self._hooks.settle()
            self._report(Recorded(order.side, end()))
        except WarplensError as error:  # the timed turns count all the same
            self._report(Recorded(order.side, order.bundle, str(error)))

    def _switch(self, side: int) -> None:
        if side == self.side:
            return
        self._all_off(self._sides[self.side])
        self.side = PLAIN
        fixes = self._sides[side]
        for fix in fixes:
            if fix.needs_op and self._ops is not None and fix.needs_op not in self._ops:
                called = fix.needs_op.removeprefix("aten::")
                raise WarplensError(f"{fix.name}: no step of the program calls {called} (outside compiled code)")
        done: list[Fix] = []
        try:
            for fix in fixes:
                done.append(fix)
                fix.switch(True)
        except BaseException:
            self._all_off(done)
            raise
        self.side = side

    def _all_off(self, fixes: Sequence[Fix]) -> None:
        for fix in reversed(fixes):
            fix.switch(False)


def _joules(window: EnergyWindow | None, seconds: float) -> float | None:
    """Of the turn: the window is up to a tick longer."""
    watts = window.watts if window is not None else None
    return None if watts is None else watts * seconds
