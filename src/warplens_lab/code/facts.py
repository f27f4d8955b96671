"""The figures of a whole kernel, for the head of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from warplens_lab.checking.checks import KernelCheck
from warplens_lab.facts.records import KernelFacts
from warplens_lab.measured.joining import KernelMeasurements
from warplens_lab.scenes.kernel_code import CodeFact
from warplens_run.base.units import format_bytes, format_us

_BLAMED: Final[Mapping[str, str]] = {
    # The figure that each suggestion is about.
    "WK101": "spills",
    "WK102": "narrowest access",
    "WK103": "matrix unit",
    "WK104": "load ahead",
    "WK105": "layout changes in loops",
    "WK106": "bank conflicts",
    "WK107": "narrowest access",
    "WK108": "occupancy",
    "WK121": "divergent branches",
    "WK122": "sectors per access",
    "WK123": "barriers",
    "WK124": "barriers",
}


def code_facts(check: KernelCheck) -> Iterable[CodeFact]:
    """What compiling says, then what profiles say."""
    bad = {_BLAMED[suggestion.code] for suggestion in check.suggestions if suggestion.code in _BLAMED}
    for name, value, meaning in _figures(check.facts) if check.facts.is_compiled else ():
        if value:
            yield CodeFact(name, value, meaning, name in bad)
    yield from _measured(check.measured)


def _figures(facts: KernelFacts) -> Iterable[tuple[str, str, str]]:
    """Name, value ("" where there is nothing to say) and meaning."""
    spills = f"{facts.spill_store_bytes} B, {facts.spill_load_bytes} B read back" if facts.spill_bytes else "none"
    yield "registers", str(facts.registers) if facts.registers else "not known", "per thread"
    yield "spills", spills, "bytes that a thread writes to memory and reads back because registers run out"
    yield "shared", format_bytes(facts.shared_bytes), "shared memory of a block"
    fit = facts.occupancy
    if fit is not None:
        blocks = f"{_counted(fit.blocks, 'block')} of {_counted(facts.num_warps, 'warp')}"
        limits = ", ".join(f"{name} {count}" for name, count in fit.limits)
        yield "occupancy", f"{fit.percent:.0f} % ({blocks})", "warps that a multiprocessor holds, of its slots"
        yield "limited by", fit.limiter, f"blocks that each would allow: {limits}"
    yield (
        "stack",
        format_bytes(facts.stack_bytes) if facts.is_cuda and facts.stack_bytes else "",
        "of a thread, in memory",
    )
    yield "matrix unit", ", ".join(facts.matrix_instructions) or "not used", "instructions of the matrix unit"
    ahead = f"{sum(loop.is_pipelined for loop in facts.loops)} of {_counted(len(facts.loops), 'loop')}"
    buffers = f", {_counted(facts.buffers, 'buffer')}" if facts.buffers else ""
    patterns = ", ".join(dict.fromkeys(loop.pattern for loop in facts.schedule))
    yield "schedule", patterns, "; ".join(f"line {loop.place.line}: {loop.sentence}" for loop in facts.schedule)
    yield "load ahead", ahead + buffers if facts.loops else "", "loops that begin to load before they need it"
    widths = [access.width_bits for access in facts.accesses if access.is_tile and access.width_bits]
    narrowest = f"{min(widths)} bits" if widths else ""
    yield "narrowest access", narrowest, "of a tile in global memory, per thread and instruction"
    conflicts = [access.conflicts for access in facts.shared if access.conflicts is not None]
    yield "bank conflicts", str(max(conflicts)) if conflicts else "", "most extra passes of an access of shared memory"
    yield from _cuda_figures(facts)
    changes = sum(conversion.in_loop and conversion.through == "warps" for conversion in facts.conversions)
    yield "layout changes in loops", str(changes) if changes else "", "those that go through shared memory"
    yield "instructions", f"{facts.instructions:,}" if facts.instructions else "", "of the machine, each counted once"


def _cuda_figures(facts: KernelFacts) -> Iterable[tuple[str, str, str]]:
    if not facts.is_cuda:
        return
    yield "divergent branches", str(facts.divergent_branches), "conditions that send lanes of a warp different ways"
    counts = [(a.sectors / a.sectors_needed, a) for a in facts.accesses if a.sectors and a.sectors_needed]
    worst = max(counts, key=lambda count: count[0], default=None)
    text = f"{worst[1].sectors} of {worst[1].sectors_needed}" if worst else ""
    yield "sectors per access", text, "sectors of 32 bytes that a warp's worst access touches, of those that it fills"
    named = sorted({use.number for use in facts.barriers if use.is_named})
    yield "barriers", ", ".join(named), "named barriers, by their numbers"


def _measured(measurements: KernelMeasurements | None) -> Iterable[CodeFact]:
    if measurements is None or not measurements.count:
        return
    launches = "one launch" if measurements.count == 1 else f"mean of {measurements.count} launches"
    share = f"{measurements.gpu_percent:.0f} % of all GPU time in {measurements.source}"
    yield CodeFact("measured", format_us(measurements.mean_us), f"{launches}; {share}")
    if measurements.reached is not None:
        limit = f"{measurements.reached.roofline_us:.3g} µs is the least that {measurements.reached.card} needs for it"
        yield CodeFact("of roofline", f"{measurements.reached.percent:.0f} % ({measurements.reached.bound})", limit)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
