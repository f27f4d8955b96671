"""The Answer of a trace: the clock, where one step goes, what bounds it, what to change, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

from warplens.advice.limits import at_most_ms
from warplens.advice.serving_verdict import serving_sentence
from warplens.advice.top_kernels import top_kernels
from warplens.advice.verdict import verdict
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.breakdown import EXPOSED_COMMUNICATION
from warplens.analyses.graph.host_work import NO_NAME
from warplens.model.answer import CANNOT_TELL, SIMULATED, Answer, Part, Saving
from warplens.model.clock import ESTIMATED, RECORDED, Clock
from warplens.model.finding import Finding, answered, ranked
from warplens.model.quality import notes_of
from warplens.model.table import Table

NO_SHAPES: Final = ("no_shapes", "no_op_shapes")
IDLE_PERCENT: Final = 10.0
EXPOSED_PERCENT: Final = 10.0
NAMELESS_PERCENT: Final = 10.0
"""Of the step: as much host time without a name is said."""


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
    ranks: int = 1,
) -> Answer:
    """`first`: what stands before everything else, as why memory ran out; `captured`: the share of the recording in
    which graphs are captured; `ranks`: of the job that it is a rank of."""
    quality = tables["quality"].frame
    warnings, quiet = notes_of(tables["quality"])
    one_rank = _of_one_rank(parts) if ranks > 1 else []
    notes = [*one_rank, *_without_name(parts, quality["code"].to_list()), *quiet]
    saved = at_most_ms(clock, bounds) if clock is not None and bounds is not None else {}
    said = verdict(clock, parts, bounds, saved, quality["code"].to_list(), captured, bool(len(tables["timeline"])))
    sure = ESTIMATED if clock is not None and clock.source == ESTIMATED else SIMULATED
    if clock is not None and clock.source == RECORDED and clock.reason and said.certainty != CANNOT_TELL:
        notes.append(f"the step is as recorded: {clock.reason}")
    return Answer(
        kind="trace",
        opened=opened,
        verdict=" ".join(filter(None, (first, serving_sentence(tables, clock), said.text))),
        certainty=said.certainty,
        bound=said.bound,
        clock=clock,
        parts=tuple(parts),
        kernels=top_kernels(tables["kernels"], parts, clock),
        savings=tuple(Saving(of, ms) for of, ms in saved.items()),
        findings=tuple(answered(finding, clock, sure) for finding in ranked(findings)),
        warnings=warnings,
        limits=tuple(notes),
        next=tuple(f"warplens {command}" for command in _commands(quote(source), clock, parts, findings, tables)),
    )


def _of_one_rank(parts: Sequence[Part]) -> list[str]:
    """A rank's own trace does not show when the others began a collective."""
    percent = sum(part.percent for part in parts if part.part == EXPOSED_COMMUNICATION)
    if percent < EXPOSED_PERCENT:
        return []
    what = f"exposed communication, {percent:.0f} % of the step, is transfers and waits for other ranks"
    return [f"{what}; one rank does not show how much of each: record every rank, and open their folder"]


def _without_name(parts: Sequence[Part], codes: Sequence[str]) -> list[str]:
    """What the host does is a part of the step that may be larger than those that have a name."""
    percent = sum(part.percent for part in parts if part.cause == f"host: {NO_NAME}")
    if percent < NAMELESS_PERCENT:
        return []
    more = "record Python stacks (with_stack=True)" if "no_stacks" in codes else "no module, line, op or call is there"
    return [f"what the host does in {percent:.0f} % of the time is not recorded: {more}"]


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
