"""The Answer of a trace: the clock, where one step goes, what bounds it, what to change, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Final

from warplens.advice.limits import HOST
from warplens.advice.serving_verdict import serving_sentence
from warplens.advice.top_kernels import top_kernels
from warplens.advice.verdict import savings, verdict
from warplens.analyses.graph.bounds import StepBounds
from warplens.model.answer import CANNOT_TELL, SIMULATED, Answer, Part, Saving
from warplens.model.clock import ESTIMATED, RECORDED, Clock
from warplens.model.edits import CaptureGraph, RemoveHostTime
from warplens.model.finding import Finding, answered, ranked
from warplens.model.quality import notes_of
from warplens.model.table import Table

NO_SHAPES: Final = ("no_shapes", "no_op_shapes")
IDLE_PERCENT: Final = 10.0


def answer_of_trace(
    opened: tuple[str, ...],
    source: str,
    clock: Clock | None,
    parts: Sequence[Part],
    bounds: StepBounds | None,
    findings: Sequence[Finding],
    tables: Mapping[str, Table],
    first: str = "",
    captured: float = 0.0,
) -> Answer:
    """`first`: what stands before everything else, as why memory ran out; `captured`: the share of the recording in
    which graphs are captured."""
    quality = tables["quality"].frame
    warnings, told = notes_of(tables["quality"])
    notes = list(told)
    saved = _savings(clock, bounds, findings) if clock is not None and bounds is not None else ()
    said = verdict(clock, parts, bounds, saved, quality["code"].to_list(), captured, bool(len(tables["timeline"])))
    sure = ESTIMATED if clock is not None and clock.source == ESTIMATED else SIMULATED
    if clock is not None and clock.source == RECORDED and clock.reason and said.certainty != CANNOT_TELL:
        notes.append(f"the step is as recorded: {clock.reason}")
    answered_findings = (answered(each, clock, sure, _bound_of(each, saved, clock)) for each in ranked(findings))
    return Answer(
        kind="trace",
        opened=opened,
        verdict=" ".join(filter(None, (first, serving_sentence(tables, clock), said.text))),
        certainty=said.certainty,
        bound=said.bound,
        clock=clock,
        parts=tuple(parts),
        kernels=top_kernels(tables["kernels"], parts, clock),
        savings=saved,
        findings=tuple(answered_findings),
        warnings=warnings,
        limits=tuple(notes),
        next=tuple(f"warplens {command}" for command in _commands(quote(source), clock, parts, findings, tables)),
    )


def _savings(clock: Clock, bounds: StepBounds, findings: Sequence[Finding]) -> tuple[Saving, ...]:
    """A graph spares the GPU's pauses besides the host's time: the bound holds for that too."""
    launched = [finding.gain_ms for finding in findings if _spares_host(finding)]
    saved = savings(clock, bounds)
    most_ms = min(clock.high_ms, max([*(saving.at_most_ms for saving in saved if saving.of == HOST), *launched]))
    return tuple(replace(saving, at_most_ms=most_ms) if saving.of == HOST else saving for saving in saved)


def _spares_host(finding: Finding) -> bool:
    return any(isinstance(edit, (CaptureGraph, RemoveHostTime)) for edit in finding.edits)


def _bound_of(finding: Finding, saved: Sequence[Saving], clock: Clock | None) -> float:
    """The most that any change of its kind could save."""
    if clock is None:
        return float("inf")
    host = [saving.at_most_ms for saving in saved if saving.of == HOST]
    return host[0] if host and _spares_host(finding) else clock.high_ms


def _commands(
    source: str, clock: Clock | None, parts: Sequence[Part], findings: Sequence[Finding], tables: Mapping[str, Table]
) -> list[str]:
    """What to look at next, the most telling first."""
    codes = set(tables["quality"].frame["code"].to_list())
    commands = [f"advise {source}"] if findings else []
    if "regions_only" in codes:
        commands.append(f"show {source} regions")
    elif "counters_only" in codes:
        commands.append(f"show {source} counters")
    elif len(tables.get("token_latency", ())):
        commands.append(f"show {source} token_latency")
    elif "serving_phases" in tables:
        commands.append(f"show {source} serving_phases")
    elif clock is None:
        commands.append(f"show {source} ops --sort cpu_self_us --top 10")
    elif sum(part.percent for part in parts if part.part == "GPU idle") > IDLE_PERCENT:
        commands.append(f"show {source} gaps --top 10")
    elif "no_stacks" not in codes:
        commands.append(f"tree {source} --context module")
    else:
        commands.append(f"tree {source}" if codes & set(NO_SHAPES) else f"show {source} op_shapes --top 10")
    if findings:
        commands.append(f"explain {ranked(findings)[0].code}")
    return commands
