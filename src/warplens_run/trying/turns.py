"""Orders turns of all sides, round after round, and collects what they report.

Every variant is measured against the program as it is. Those whose fixes can be switched while it runs share its
process; each that needs a fresh one has a process of its own, which waits while others take their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warplens_run.base.errors import WarplensError
from warplens_run.trying import wire
from warplens_run.trying.processes import SideProcess
from warplens_run.trying.results import TrialResult, result_of
from warplens_run.trying.syntax import FixVariant
from warplens_run.trying.trial import PLAIN, Order, Recorded, Refused, TrialPlan, Turn

RECORDED_STEPS: Final = 3
PLAIN_BUNDLE: Final = "plain"
BUNDLE_ENDING: Final = ".warplens"
OWN_END: Final = ("complete",)
STOPPED: Final = ("interrupted", "terminated")


@dataclass
class TrialRecord:
    """What is known so far."""

    turns: list[Turn] = field(default_factory=list)
    refusals: dict[int, Refused] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    bundles: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ending: wire.Ended | None = None
    """How the program itself ended before all turns were done."""


class TurnTaker:
    """Runs a trial of one program and some variants."""

    def __init__(
        self,
        words: Sequence[str],
        variants: Sequence[FixVariant],
        plan: TrialPlan,
        *,
        quiet: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.record = TrialRecord()
        self._words, self._plan, self._quiet, self._progress = tuple(words), plan, quiet, progress
        self._variants = dict(enumerate(variants, start=1))
        self._processes: dict[int, SideProcess] = {}
        """By host: the side whose process it is."""

    def run(self, bundles: Path | None = None) -> TrialRecord:
        try:
            self._prepare()
            self._take_turns()
            if bundles is not None and self.record.ending is None:
                self._record_sides(bundles)
        except KeyboardInterrupt:
            for process in self._processes.values():
                process.interrupt()
            self._processes = {}
            self.record.ending = self.record.ending or wire.Ended("interrupted", 130, PLAIN, 0)
        finally:
            for process in self._processes.values():
                process.end()
        return self.record

    def results(self) -> list[TrialResult]:
        """One for each variant that was not refused."""
        return [
            result_of(
                self.record.turns,
                side,
                variant.text,
                self._names(side),
                failure=self.record.failures.get(side, ""),
            )
            for side, variant in self._variants.items()
            if side not in self.record.refusals
        ]

    def text(self, side: int) -> str:
        return self._variants[side].text

    def _names(self, side: int) -> list[str]:
        variables = [f"{name}={value}" for name, value in self._variants[side].variables.items()]
        return [*variables, *self.record.names.get(side, [])]

    def _prepare(self) -> None:
        """Every process is made before a program runs, so that what is impossible anywhere is refused."""
        hosts = {self._host(side) for side in self._variants} | {PLAIN}
        for host in sorted(hosts):
            self._start(host)
        if not self._open_sides():
            for process in self._processes.values():
                process.end()
            self._processes = {}

    def _start(self, host: int) -> None:
        sides = [
            wire.SideFixes(side, variant.fixes, variant.attention)
            for side, variant in self._variants.items()
            if self._host(side) == host and self._is_open(side)
        ]
        variables = self._variants[host].variables if host != PLAIN else {}
        process = SideProcess(
            wire.Job(self._words, self._plan, tuple(sides)), variables, is_main=host == PLAIN, quiet=self._quiet
        )
        self._processes[host] = process
        process.prepare()
        self.record.names |= process.names
        self.record.refusals |= {refused.side: refused for refused in process.refused}

    def _host(self, side: int) -> int:
        return side if side != PLAIN and self._variants[side].is_fresh else PLAIN

    def _is_open(self, side: int) -> bool:
        return side not in self.record.refusals and side not in self.record.failures

    def _open_sides(self) -> list[int]:
        return [side for side in self._variants if self._is_open(side)]

    def _take_turns(self) -> None:
        """In every other round the order is reversed, so that a machine which grows slower favours no side."""
        for number in range(self._plan.rounds):
            self._progress(f"round {number + 1} of {self._plan.rounds}")
            sides = [PLAIN, *self._variants]
            for side in sides if number % 2 == 0 else reversed(sides):
                if self._open_sides() and (side == PLAIN or self._is_open(side)):
                    self._order(Order(side))
                if self.record.ending is not None:
                    return

    def _order(self, order: Order) -> None:
        host = self._host(order.side)
        if host not in self._processes:  # it ended with another side's fixes on
            self._start(host)
        process = self._processes[host]
        if not process.has_begun:
            process.begin()
        process.send(order)
        self._heed(order, process.receive())

    def _heed(self, order: Order, message: wire.Message) -> None:
        record = self.record
        if isinstance(message, Turn):
            record.turns.append(message)
        elif isinstance(message, Refused):
            record.refusals[message.side] = message
        elif isinstance(message, Recorded) and message.problem:
            record.notes.append(f"{message.path} is not recorded: {message.problem}")
        elif isinstance(message, Recorded):
            record.bundles[message.side] = message.path
        elif isinstance(message, wire.Ended):
            self._process_ended(order, message)

    def _process_ended(self, order: Order, ended: wire.Ended) -> None:
        """A program that fails with fixes on is a failure of these; any other end is one of the trial."""
        host = self._host(order.side)
        self._processes.pop(host).end()
        side = ended.side if ended.side >= 0 else order.side
        is_of_variant = host != PLAIN or side != PLAIN
        if is_of_variant and ended.status not in (*OWN_END, *STOPPED):
            failed = side if side != PLAIN else host
            self.record.failures[failed] = ended.error or f"the program {ended.status}"
        else:
            self.record.ending = ended

    def bundle_paths(self, folder: Path) -> dict[int, Path]:
        """By side: where its recording goes."""
        names = {PLAIN: PLAIN_BUNDLE} | {side: bundle_name(variant.text) for side, variant in self._variants.items()}
        return {side: folder / f"{name}{BUNDLE_ENDING}" for side, name in names.items()}

    def _record_sides(self, folder: Path) -> None:
        for side, path in self.bundle_paths(folder).items():
            if self.record.ending is None and self._open_sides() and (side == PLAIN or self._is_open(side)):
                # The program may have changed its directory.
                self._order(Order(side, str(path.absolute()), RECORDED_STEPS))
                if side in self.record.bundles:
                    self.record.bundles[side] = str(path)


def bundle_name(text: str) -> str:
    """A fix as the name of a file.

    >>> bundle_name("WL202,env:A=b/c")
    'WL202+env-A=b-c'
    """
    kept = text.replace(",", "+")
    return "".join(letter if letter.isalnum() or letter in "+=._" else "-" for letter in kept)


def first_refusal(record: TrialRecord) -> WarplensError:
    """As the error of a trial of which nothing is left."""
    refused = next(iter(record.refusals.values()))
    return WarplensError(refused.reason, hint=refused.hint or None)
