"""What `kernel check` says on a screen: a block of facts per compilation, then its suggestions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from warplens.units import format_bytes

if TYPE_CHECKING:
    from warplens.kernel_lab.checking import Check, Checked
    from warplens.kernel_lab.facts.records import Facts

INDENT = "      "


def check_lines(found: Checked, width: int) -> Iterator[str]:
    for place, check in enumerate(found.checks):
        if place:
            yield ""
        yield from _check(check, width)
    for note in found.notes:
        yield f"note: {note}"


def _check(check: Check, width: int) -> Iterator[str]:
    facts = check.facts
    often = f", launched {check.launches} times" if check.launches else ""
    yield f"{facts.kernel} on {facts.target}, {facts.config or 'defaults'}{often}"
    yield f"  ({facts.signature}; Triton {facts.triton_version})"
    if not facts.is_compiled:
        at = f" ({Path(facts.failure_place.file).name}:{facts.failure_place.line})" if facts.failure_place else ""
        yield f"  does not compile{at}: {facts.failure}"
        return
    yield from (f"  {line}" for line in _facts(facts))
    if not check.suggestions:
        yield "  nothing to suggest"
    for suggestion in check.suggestions:
        from warplens.kernel_lab.checking import effect

        at = f"  {Path(suggestion.place.file).name}:{suggestion.place.line}" if suggestion.place else ""
        yield f"  {suggestion.code}  {suggestion.title}{at}"
        for text in (suggestion.evidence, f"→ {suggestion.advice}"):
            yield from (INDENT + line for line in wrap(text, max(40, width - len(INDENT))))
        if suggestion.counterfactual is not None:
            moved = f"compiled with {suggestion.counterfactual.change}: {effect(suggestion) or 'no measure moves'}"
            yield from (INDENT + line for line in wrap(moved, max(40, width - len(INDENT))))


def _facts(facts: Facts) -> Iterator[str]:
    spills = f", {facts.spill_bytes} B spilled per thread" if facts.spill_bytes else ", no spills"
    yield f"registers   {facts.registers} per thread{spills}"
    pipelined = sum(loop.is_pipelined for loop in facts.loops)
    stages = f", {facts.buffers} buffers" if facts.buffers else ""
    loops = f"; {pipelined} of {len(facts.loops)} loading loops load ahead" if facts.loops else ""
    yield f"shared      {format_bytes(facts.shared_bytes)}{stages}{loops}"
    if facts.occupancy is not None:
        fit = facts.occupancy
        yield (f"occupancy   {fit.percent:.0f} %: {fit.blocks} blocks of {facts.num_warps} warps fit, "
               f"limited by {fit.limiter}")  # fmt: skip
    yield f"matrix unit {', '.join(facts.matrix_instructions) or 'not used'}"
    for access in facts.accesses:
        if access.is_tile:
            best = "" if access.is_vectorised else f" of {access.best_bits}"
            where = f"{Path(access.place.file).name}:{access.place.line}"
            yield f"{access.kind:<11} {access.argument or '?'}: {access.width_bits}{best} bits per thread  {where}"
