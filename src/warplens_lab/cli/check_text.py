"""What `kernel check` says on a screen: a block of facts per compilation, then its suggestions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from textwrap import wrap
from typing import TYPE_CHECKING

from warplens_lab.checking.checks import CheckResult, KernelCheck, effect
from warplens_lab.checking.measured_tables import line_code, stalls_text, whole_kernel
from warplens_lab.cli.cuda_text import cuda_lines
from warplens_run.base.units import format_bytes, format_count, format_flop, format_us

if TYPE_CHECKING:
    from warplens_lab.facts.records import Access, KernelFacts, Occupancy
    from warplens_lab.measured.joining import KernelMeasurements
    from warplens_lab.suggesting.records import Suggestion

INDENT = "      "
MOST_GRIDS = 4
MOST_STALLS = 4
MOST_LINES = 6
"""Sampled lines that are shown; the table kernel_stalls has all."""


def check_lines(result: CheckResult, width: int) -> Iterator[str]:
    compiled = [check.facts for check in result.checks]
    for number, check in enumerate(result.checks):
        if number:
            yield ""
        yield from _check(check, width, with_grid=compiled.count(check.facts) > 1 or len(check.grids) > 1)
    for note in result.notes:
        yield f"note: {note}"


def _check(check: KernelCheck, width: int, *, with_grid: bool) -> Iterator[str]:
    facts = check.facts
    times = "once" if check.launches == 1 else f"{check.launches} times"
    often = f", launched {times}{_grids(check) if with_grid else ''}" if check.launches else ""
    yield f"{facts.kernel} on {facts.target}, {facts.config or 'defaults'}{often}"
    yield f"  ({facts.signature}; {facts.compiler_text})"
    if not facts.is_compiled:
        at = f" ({Path(facts.failure_place.file).name}:{facts.failure_place.line})" if facts.failure_place else ""
        yield f"  does not compile{at}: {facts.failure}"
        return
    yield from (f"  {line}" for line in _facts(facts))
    if check.measured is not None:
        yield from (f"  {line}" for line in _measured(check, check.measured, width))
    if not check.suggestions:
        yield "  nothing to suggest"
    yield from suggestion_lines(check, width)


def suggestion_lines(check: KernelCheck, width: int) -> Iterator[str]:
    for suggestion, stake_us in zip(check.suggestions, check.stakes_us, strict=True):
        yield from _suggestion(suggestion, stake_us, width)


def _grids(check: KernelCheck) -> str:
    shown = ["×".join(map(str, grid)) for grid in check.grids[:MOST_GRIDS]]
    more = len(check.grids) - len(shown)
    return f" ({'grid' if len(check.grids) == 1 else 'grids'} {', '.join(shown)}{f' and {more} more' * bool(more)})"


def _suggestion(suggestion: Suggestion, stake_us: float | None, width: int) -> Iterator[str]:
    at = f"  {suggestion.place}" if suggestion.places else ""
    stake = f"  (≤ {format_us(stake_us)} at stake)" if stake_us is not None else ""
    yield f"  {suggestion.code}  {suggestion.title}{at}{stake}"
    texts = [suggestion.evidence, f"→ {suggestion.advice}"]
    if suggestion.counterfactual is not None:
        texts.append(f"compiled with {suggestion.counterfactual.change}: {effect(suggestion) or 'no measure moves'}")
    for text in texts:
        yield from (INDENT + line for line in wrap(text, max(40, width - len(INDENT)), break_on_hyphens=False))


def _measured(check: KernelCheck, measured: KernelMeasurements, width: int) -> Iterator[str]:
    """The time, the share of the card's limits, what warps waited for, and the lines where they did."""
    if measured.total_ns:
        yield (
            f"measured    {format_us(measured.total_us)} in {_launches(measured.count)}, "
            f"{format_us(measured.mean_us)} each, {measured.gpu_percent:.1f} % of GPU time  {measured.source}"
        )
    yield from _limits(measured)
    yield from _waits(check, measured, width)
    for note in measured.notes:
        yield from wrap(
            note, width - 2, initial_indent="note        ", subsequent_indent=" " * 12, break_on_hyphens=False
        )


def _limits(measured: KernelMeasurements) -> Iterator[str]:
    work, reached = measured.work, measured.reached
    if work is None:
        if measured.total_ns:
            yield "roofline    bytes and FLOPs are not known: --traced x.wkt, or --count with a script, counts them"
        return
    done = [format_flop(work.total_flop)] * bool(work.flop) + [format_bytes(work.bytes)] * bool(work.bytes)
    if reached is None:
        yield f"work        {', '.join(done)} per launch ({work.source})"
        return
    rates = [f"{reached.tflops:.3g} TFLOP/s"] * bool(work.flop) + [f"{reached.tbps:.3g} TB/s"] * bool(work.bytes)
    yield (f"roofline    {reached.percent:.3g} % of what {reached.card} allows, bound by {reached.bound} "
           f"({reached.ceiling}): {', '.join(rates)}")  # fmt: skip
    yield f"            {', '.join(done)} per launch ({work.source})"
    if reached.flag:
        yield f"            {reached.flag}"


def _waits(check: KernelCheck, measured: KernelMeasurements, width: int) -> Iterator[str]:
    if not measured.samples:
        return
    whole = whole_kernel(measured)
    lines = "" if measured.has_lines else ", not by line"
    yield f"stalls      {stalls_text(whole, MOST_STALLS)} of the waits"
    waited = f"{100 * whole.stalled / whole.samples:.0f} % of {format_count(whole.samples)} samples waited"
    yield f"            {waited}{lines}  {measured.sampled_in}"
    if not measured.has_lines:
        return
    code = line_code(check.artefacts) if check.artefacts is not None else {}
    for line in measured.samples[:MOST_LINES]:
        position = PurePath(line.file.replace("\\", "/")).name, line.line
        share = 100 * line.samples / whole.samples
        where = f"{position[0]}:{position[1]}" if line.line else "(no line)"
        yield f"  {share:5.1f} %   {where}  {stalls_text(line, 2)}"
        if position in code:
            yield from wrap(
                code[position], width - 2, initial_indent=" " * 12, subsequent_indent=" " * 12, break_on_hyphens=False
            )


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{format_count(count)} launches"


def _facts(facts: KernelFacts) -> Iterator[str]:
    spills = f"{facts.spill_store_bytes} B spilled and {facts.spill_load_bytes} B read back by each"
    stack = f", {facts.stack_bytes} B of stack" if facts.is_cuda and facts.stack_bytes else ""
    yield f"registers   {facts.registers} per thread, {spills if facts.spill_bytes else 'no spills'}{stack}"
    pipelined = sum(loop.is_pipelined for loop in facts.loops)
    stages = f", {_counted(facts.buffers, 'buffer')}" if facts.buffers else ""
    loops = f"; {pipelined} of {len(facts.loops)} loading loops load ahead" if facts.loops else ""
    yield f"shared      {format_bytes(facts.shared_bytes)}{stages}{loops}"
    if facts.occupancy is not None:
        fit = facts.occupancy
        yield f"occupancy   {fit.percent:.0f} %: {_fitting(facts, fit)}, limited by {fit.limiter}"
    yield f"matrix unit {', '.join(facts.matrix_instructions) or 'not used'}"
    for loop in facts.schedule:
        yield f"schedule    {loop.sentence}  {Path(loop.place.file).name}:{loop.place.line}"
    for access in facts.accesses:
        if access.is_tile:
            yield f"{access.kind:<11} {access.argument or '?'}: {_moved(access)}  {_where(access)}"
    if facts.is_cuda:
        yield from cuda_lines(facts)


def _fitting(facts: KernelFacts, fit: Occupancy) -> str:
    """A block of a warp-specialised kernel has the warps of its partitions besides those that it was launched with."""
    if not fit.blocks:
        return "no block fits"
    fits = "fits" if fit.blocks == 1 else "fit"
    own = f" (num_warps={facts.num_warps}, and those of its partitions)" if fit.block_warps != facts.num_warps else ""
    blocks = f"{_counted(fit.blocks, 'block')} of {_counted(fit.block_warps, 'warp')}{own}"
    return f"{blocks} {fits}, {fit.warps} of {fit.warp_slots} warps"


def _moved(access: Access) -> str:
    if access.is_tma:
        return f"box {'×'.join(map(str, access.shape))}"
    if not access.width_bits:
        return "width not found"
    best = "" if access.is_vectorised else f" of {access.best_bits}"
    sectors = "" if access.sectors is None else f", {_counted(access.sectors, 'sector')} per warp"
    needed = (
        f" where {access.sectors_needed} would do" if access.sectors and access.sectors != access.sectors_needed else ""
    )
    return f"{access.width_bits}{best} bits per thread{sectors}{needed}"


def _where(access: Access) -> str:
    calls = ", ".join(f"{Path(place.file).name}:{place.line}" for place in access.callers)
    return f"{Path(access.place.file).name}:{access.place.line}" + (f" (called at {calls})" if calls else "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
