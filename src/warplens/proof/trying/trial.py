"""A program's steps in turns, with and without some fixes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Final

from warplens.errors import WarplensError
from warplens.proof.trying.fixes import Fix
from warplens.proof.trying.watched import take_watched
from warplens.replay.meter.window import EnergyWindow

SETTLING_STEPS: Final = 2
"""After each switch: what is chosen or set up anew is not timed."""


class TrialOver(SystemExit):
    """All turns are done: the program need not go on."""


@dataclass(frozen=True)
class TrialPlan:
    steps: int = 10
    """Timed in each turn."""
    rounds: int = 5
    """Each has a turn without the fixes and one with them."""
    warm_up: int = 5
    """Steps before the first turn."""

    @property
    def all_steps(self) -> int:
        """What a program has to make for all of it."""
        return self.warm_up + 2 * self.rounds * (SETTLING_STEPS + self.steps)


@dataclass(frozen=True)
class Turn:
    """Steps one after the other, all with the fixes or all without."""

    is_on: bool
    steps: int
    seconds: float
    peak_bytes: int = 0
    joules: float | None = None
    watched: dict[str, float] = field(default_factory=dict)

    @property
    def step_ms(self) -> float:
        return 1e3 * self.seconds / self.steps


@dataclass(frozen=True)
class DeviceHooks:
    """What a trial asks of the device; a CPU has nothing to wait for."""

    settle: Callable[[], bool] = lambda: True
    reset_peak: Callable[[], None] = lambda: None
    peak_bytes: Callable[[], int] = lambda: 0
    energy: Callable[[], EnergyWindow] | None = None
    clock: Callable[[], float] = time.perf_counter


class Trial:
    """Is told of each step's end, and switches the fixes between turns. In every other round the fixes come first,
    so that a machine which grows slower favours neither side."""

    def __init__(self, fixes: Sequence[Fix], plan: TrialPlan, device: DeviceHooks) -> None:
        self.turns: list[Turn] = []
        self.steps_seen = 0
        self.is_on = False
        self.refusal: WarplensError | None = None
        """Why a fix cannot be made in this program."""
        self._fixes, self._plan, self._device = fixes, plan, device
        self._course = self._run()
        next(self._course)

    def step(self) -> None:
        """A step has ended."""
        self.steps_seen += 1
        next(self._course)

    def stop(self) -> None:
        """Leaves the program as it was."""
        if self.is_on:
            self._switch(False)

    def _run(self) -> Iterator[None]:
        """Goes on with each step's end; it ends with `TrialOver`."""
        for _ in range(max(1, self._plan.warm_up)):
            yield
        for number in range(self._plan.rounds):
            for is_on in (False, True) if number % 2 == 0 else (True, False):
                yield from self._turn(is_on)
        self._switch(False)
        yield  # the last step is the program's own again
        raise TrialOver(0)

    def _turn(self, is_on: bool) -> Iterator[None]:
        self._switch(is_on)
        for _ in range(SETTLING_STEPS):
            yield
        device = self._device
        device.settle()
        device.reset_peak()
        take_watched()
        window = device.energy() if device.energy is not None else None
        if window is not None:
            window.__enter__()
        start = device.clock()
        for _ in range(self._plan.steps):
            yield
        device.settle()
        seconds = device.clock() - start
        if window is not None:
            window.__exit__(None, None, None)
        self.turns.append(
            Turn(is_on, self._plan.steps, seconds, device.peak_bytes(), _joules(window, seconds), take_watched())
        )

    def _switch(self, on: bool) -> None:
        if on == self.is_on:
            return
        try:
            for fix in self._fixes:
                fix.switch(on)
        except WarplensError as error:
            self.refusal = error
            raise TrialOver(error.exit_code) from None
        self.is_on = on


def _joules(window: EnergyWindow | None, seconds: float) -> float | None:
    """Of the turn: the window is up to a tick longer."""
    watts = window.watts if window is not None else None
    return None if watts is None else watts * seconds


@dataclass(frozen=True)
class TrialResult:
    """What the turns say: medians of the rounds, and the least and the most of them."""

    fixes: tuple[str, ...]
    device: str
    rounds: int
    steps: int
    off_ms: float
    on_ms: float
    gain_ms: float
    low_ms: float
    high_ms: float
    off_joules: float | None = None
    on_joules: float | None = None
    off_peak_bytes: int = 0
    on_peak_bytes: int = 0
    watched: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By name: the mean without the fixes, and with them."""


def result_of(turns: Sequence[Turn], fixes: Sequence[Fix], device: str) -> TrialResult | None:
    """None where no round is whole."""
    off, on = ([turn for turn in turns if turn.is_on == is_on] for is_on in (False, True))
    pairs = list(zip(off, on, strict=False))
    if not pairs:
        return None
    gains = [without.step_ms - with_fixes.step_ms for without, with_fixes in pairs]
    names = dict.fromkeys(name for turn in turns for name in turn.watched)
    return TrialResult(
        tuple(fix.name for fix in fixes),
        device,
        rounds=len(pairs),
        steps=off[0].steps,
        off_ms=median(turn.step_ms for turn in off),
        on_ms=median(turn.step_ms for turn in on),
        gain_ms=median(gains),
        low_ms=min(gains),
        high_ms=max(gains),
        off_joules=_per_step(off),
        on_joules=_per_step(on),
        off_peak_bytes=max(turn.peak_bytes for turn in off),
        on_peak_bytes=max(turn.peak_bytes for turn in on),
        watched={name: (_mean(off, name), _mean(on, name)) for name in names},
    )


def _per_step(turns: Sequence[Turn]) -> float | None:
    joules = [turn.joules / turn.steps for turn in turns if turn.joules is not None]
    return median(joules) if len(joules) == len(turns) else None


def _mean(turns: Sequence[Turn], name: str) -> float:
    values = [turn.watched[name] for turn in turns if name in turn.watched]
    return fmean(values) if values else float("nan")


def hooks_of(torch: Any) -> DeviceHooks:
    """For the device that PyTorch uses."""
    from warplens.capture.plain_steps import wait_for_gpu

    if not torch.cuda.is_available():
        return DeviceHooks()
    return DeviceHooks(
        settle=lambda: wait_for_gpu(torch),
        reset_peak=lambda: torch.cuda.reset_peak_memory_stats() if torch.cuda.is_initialized() else None,
        peak_bytes=lambda: int(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else 0,
        energy=EnergyWindow,
    )
