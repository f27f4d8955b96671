"""The finished units of a run, saved one by one next to its output, so that neither a kill nor Ctrl-C loses them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import FormatError, UsageError
from warplens_run.base.files import write_errors, write_whole
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.records import decode, encode
from warplens_run.formats.replay_result import MeterFacts, State, UnitResult
from warplens_run.replay.options import FREE_TO_CHANGE

SUFFIX: Final = ".partial.jsonl"


@dataclass(frozen=True)
class RunHead:
    """Which run it is."""

    plan: str
    options: dict[str, str | int | float | bool]
    """those that decide what is measured"""
    device: str
    versions: dict[str, str] = field(default_factory=dict)
    before: State | None = None
    after: State | None = None
    meter: MeterFacts | None = None
    notes: tuple[str, ...] = ()
    plan_fingerprint: str = ""


@dataclass(frozen=True)
class Earlier:
    """What an earlier run has done of the same plan in the same way."""

    head: RunHead | None = None
    units: dict[str, UnitResult] = field(default_factory=dict)


def partial_path(output: Path) -> Path:
    return output.with_name(output.name + SUFFIX)


class Journal:
    """Appends to the file next to the output; started again once the device of the units is known."""

    def __init__(self, output: Path) -> None:
        self.path = partial_path(output)

    def begin(self, head: RunHead, units: Mapping[str, UnitResult]) -> None:
        lines = [{"run": encode(head)}, *({"unit": encode(unit)} for unit in units.values())]
        write_whole(self.path, "".join(map(_line, lines)).encode())

    def add(self, unit: UnitResult) -> None:
        with write_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(_line({"unit": encode(unit)}))
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, allow_nan=False) + "\n"


def earlier(output: Path, run: RunHead, fresh: bool = False) -> Earlier:
    """The done units of a result or journal of the `run`. What another run has measured is not overwritten
    unless the run starts afresh, and a file that is not a result never is."""
    heads = [
        run_and_units
        for run_and_units in (_from_result(output), _from_journal(partial_path(output)))
        if run_and_units is not None
    ]
    if fresh:
        return Earlier()
    done: dict[str, UnitResult] = {}
    usable = None
    for head, units in heads:
        refuse_other_run(output, _problem(head, run))
        if usable is not None:
            refuse_other_run(output, f"on {usable.device}" if usable.device != head.device else "")
        usable = replace(head, plan_fingerprint=run.plan_fingerprint)
        done |= {unit.id: unit for unit in units if unit.status == result_file.DONE}
    return Earlier(usable, done)


def refuse_other_run(output: Path, problem: str) -> None:
    """`problem`: what is different about the run whose result is there; empty where nothing is."""
    if problem:
        raise UsageError(
            f"{output} contains a run {problem}",
            hint="choose another output, or set fresh to replace this one",
            options=("fresh",),
        )


def _problem(head: RunHead, run: RunHead) -> str:
    if head.plan != run.plan:
        return "of another plan"
    if head.plan_fingerprint not in ("", run.plan_fingerprint):  # older results and those of C++ have none
        return "of this plan before it was edited"
    differing = [name for name, value in run.options.items() if head.options.get(name) != value]
    return f"with another {', '.join(differing)}" if differing else ""


def _from_result(output: Path) -> tuple[RunHead, list[UnitResult]] | None:
    if not os.path.exists(output):  # noqa: PTH110 - Path's raises where a name is too long
        return None
    try:
        result = result_file.load(output)
    except FormatError as error:
        raise UsageError(f"{error}; it would be overwritten", hint="choose another file, or remove it") from error
    measured = {name: value for name, value in result.options.items() if name not in FREE_TO_CHANGE}
    head = RunHead(
        plan=result.plan,
        options=measured,
        device=result.device,
        versions=result.versions,
        before=result.before,
        after=result.after,
        meter=result.meter,
        notes=result.notes,
        plan_fingerprint=result.plan_fingerprint,
    )
    return head, list(result.units)


def _from_journal(path: Path) -> tuple[RunHead, list[UnitResult]] | None:
    """What is intact of it: the last line may be torn."""
    head: RunHead | None = None
    units = []
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for text in lines:
        try:
            value = json.loads(text)
            if head is None:
                head = decode(RunHead, value["run"])
            else:
                units.append(decode(UnitResult, value["unit"]))
        except (ValueError, KeyError, TypeError, FormatError):
            break
    return (head, units) if head is not None else None
