"""Notes on one line of the source for the margin of the page: a few characters each, and the same in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

from warplens_lab.facts.records import (
    Access,
    BarrierUse,
    Branch,
    Conversion,
    Dot,
    KernelFacts,
    KernelLoop,
    Line,
    LoopSchedule,
    SharedAccess,
    SourcePlace,
)
from warplens_lab.scenes.kernel_code import CodeMark

_SHORT: Final = {
    "load": "ld",
    "store": "st",
    "async copy": "async",
    "tma copy": "tma",
    "tma store": "tma st",
    "atomic": "atom",
}


_NAMED: Final = ("producer/consumer", "ping-pong")
"""Schedules that have a mark of their own; how far a pipelined loop loads ahead has one already."""
_STAGED: Final = ("load", "async copy", "tma copy", "product")


def marks(facts: KernelFacts, file: str, line: int, *, is_blamed: bool = True) -> tuple[CodeMark, ...]:
    """The worst first: a narrow margin shows only some of them. A narrow access is bad where a suggestion says so."""
    line_marks = [mark for mark, _ in _notes(facts, file, line, is_blamed) if mark is not None]
    return tuple(sorted(dict.fromkeys(line_marks), key=lambda mark: not mark.is_bad))


def details(facts: KernelFacts, file: str, line: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for _, text in _notes(facts, file, line)))


def noted_places(facts: KernelFacts) -> set[tuple[str, int]]:
    places = [
        *(access.place for access in facts.accesses),
        *(dot.place for dot in facts.dots),
        *(loop.place for loop in facts.loops),
        *(conversion.place for conversion in facts.conversions),
        *(shared_access.place for shared_access in facts.shared),
        *(branch.place for branch in facts.branches),
        *(barrier.place for barrier in facts.barriers),
        *(line.place for line in facts.lines),
    ]
    return {(place.file, place.line) for place in places if place.line > 0}


Note = tuple[CodeMark | None, str]


def _notes(facts: KernelFacts, file: str, line: int, is_blamed: bool = True) -> Iterator[Note]:
    def is_on_line(place: SourcePlace) -> bool:
        return place.line == line and place.file == file

    yield from (_access(access, is_blamed) for access in facts.accesses if is_on_line(access.place))
    yield from (_dot(dot) for dot in facts.dots if is_on_line(dot.place))
    yield from (_loop(loop) for loop in facts.loops if is_on_line(loop.place))
    yield from (note for loop in facts.schedule for note in _scheduled(loop, is_on_line))
    yield from (_shared(shared) for shared in facts.shared if is_on_line(shared.place))
    yield from (_branch(branch) for branch in facts.branches if is_on_line(branch.place))
    yield from (_barrier(barrier) for barrier in facts.barriers if is_on_line(barrier.place))
    yield from (_conversion(conversion) for conversion in facts.conversions if is_on_line(conversion.place))
    yield from (note for code in facts.lines if is_on_line(code.place) for note in _spills(code))


def _access(access: Access, is_blamed: bool) -> Note:
    subject = f"{access.kind} of {access.argument or 'an address that no argument explains'}"
    if access.is_tile and access.sectors is None:
        subject += f", a {_shape(access.shape)} tile of {access.element}"
    if access.callers:
        subject += f" (called at {PurePath(access.callers[0].file).name}:{access.callers[0].line})"
    if access.is_tma:
        text = f"{subject}; the tensor memory accelerator moves it as one box"
        return CodeMark(f"{_SHORT[access.kind]} {_shape(access.shape)}", text), text
    narrow = access.is_tile and 0 < access.width_bits < access.best_bits
    width = f"{access.width_bits} bits per thread and instruction" if access.width_bits else "width not found"
    best = f", {access.best_bits} would fit" if narrow else ""
    words = [subject, width + best, _counted(access.instructions, "instruction")]
    is_scattered = access.sectors is not None and access.sectors > (access.sectors_needed or 0)
    if access.sectors is not None:
        words.append(f"a warp touches {access.sectors} sectors, {access.sectors_needed} would hold as much")
    words += [text for text, holds in (("masked", access.is_masked), ("indirect", access.is_indirect)) if holds]
    if access.narrowest_bits and access.narrowest_bits < access.width_bits:
        words.append(f"some only {access.narrowest_bits} bits")
    text = "; ".join(words)
    size = "" if not access.width_bits else f" {access.width_bits}" + (f"/{access.best_bits}" if narrow else "")
    size += f" ×{access.sectors}" if is_scattered else ""
    return CodeMark(_SHORT.get(access.kind, access.kind) + size, text, (narrow or is_scattered) and is_blamed), text


def _dot(dot: Dot) -> Note:
    product = f"{_shape(dot.shape)} product of {dot.element}"
    if not dot.uses_matrix_unit:
        text = f"{product} without the matrix unit: ordinary arithmetic does it"
        return CodeMark("no MMA", text, is_bad=True), text
    text = f"{product} by {dot.instruction} {dot.instruction_shape}".rstrip()
    return CodeMark(dot.instruction.removeprefix("v_").partition(".")[0], text), text


def _loop(loop: KernelLoop) -> Note:
    buffers = f", {_counted(loop.buffers, 'buffer')} in shared memory" if loop.buffers else ""
    text = f"loop: {loop.loads_ahead} of {_counted(loop.loads, 'load')} begun before needed{buffers}"
    if loop.is_pipelined:
        return CodeMark("ahead" + (f" ×{loop.buffers}" if loop.buffers > 1 else ""), text), text
    return (CodeMark("no ahead", text, is_bad=True) if loop.has_dot else None), text


def _scheduled(loop: LoopSchedule, is_on_line: Callable[[SourcePlace], bool]) -> Iterator[Note]:
    """The loop's own line says how it is arranged; lines of its copies and products in which stage or partition."""
    if is_on_line(loop.place):
        mark = CodeMark(loop.pattern, loop.sentence) if loop.pattern in _NAMED else None
        yield mark, f"loop: {loop.sentence}"
    for step in loop.steps:
        if not is_on_line(step.place) or step.kind not in _STAGED:
            continue
        where = step.partition or (f"stage {step.stage}" if loop.stages > 1 else "")
        if where:
            early = f", {_counted(step.ahead, 'iteration')} ahead" if step.ahead else ""
            yield CodeMark(where, f"{step.kind} in {where}{early}"), f"{step.kind} in {where}{early}"


def _shared(access: SharedAccess) -> Note:
    tile = f" of a {_shape(access.shape)} tile" if access.shape else ""
    text = f"shared memory, {access.kind}{tile}, layout {access.layout}: "
    if access.conflicts is None:
        return None, text + "bank conflicts are not modelled"
    text += f"{access.conflicts} extra passes for bank conflicts"
    if not access.conflicts:
        return None, text
    others = [
        ("with plain rows", access.conflicts_unswizzled),
        (f"with {access.padding} elements of padding", access.conflicts_padded if access.padding else None),
        ("swizzled", access.conflicts_swizzled),
    ]
    text += "".join(f", {count} {how}" for how, count in others if count is not None)
    return CodeMark(f"bank +{access.conflicts}", text, is_bad=True), text


_DIFFERENCES: Final = {
    "": "all lanes of a warp decide alike",
    "edge": "a bound: it parts the lanes of one warp of the grid at most",
    "lanes": "the thread's number decides, and differs within warps",
    "data": "loaded values decide, and may differ within warps",
}


def _branch(branch: Branch) -> Note:
    text = f"condition: {_DIFFERENCES[branch.difference]}"
    if branch.lanes is not None:
        text += f"; {branch.lanes} of 32 lanes jump, in {_counted(branch.warps or 0, 'warp')} of the block"
    if branch.is_predicated:
        text += "; no divergence: predicated"
    elif not branch.jumps:
        text += "; no jump: instructions are predicated"
    if not branch.is_divergent:
        return None, text
    return CodeMark("diverges", text, is_bad=branch.difference == "lanes"), text


def _barrier(use: BarrierUse) -> Note:
    threads = f" of {use.threads} threads" if use.threads else ""
    verb = {"sync": "arrive and wait", "arrive": "arrive", "reduce": "arrive, wait and reduce"}[use.kind]
    text = f"barrier {use.number}{threads}: {_counted(len(use.warps), 'warp')} {verb}"
    if use.fault:
        text += f"; {use.fault}"
        return CodeMark(f"bar {use.number} unmet", text, is_bad=True), text
    if use.parted_by is not None:
        text += f"; lanes of a warp may be apart here, because of line {use.parted_by.line}"
        return CodeMark(f"bar {use.number} apart", text, is_bad=True), text
    return (CodeMark(f"bar {use.number}", text) if use.is_named else None), text


def _conversion(conversion: Conversion) -> Note:
    through = {"warps": "shared memory", "lanes": "shuffles within a warp"}.get(conversion.through, conversion.through)
    where = "in a loop" if conversion.in_loop else "once"
    text = f"layout of a {_shape(conversion.shape)} tile changes through {through}, {where}"
    costly = conversion.in_loop and conversion.through == "warps"
    return (CodeMark("layout", text, is_bad=True) if costly else None), text


def _spills(line: Line) -> Iterator[Note]:
    count = dict(line.classes).get("local", 0)
    if count:
        text = f"registers spilled: {_counted(count, 'instruction')} for writing them to memory and reading them back"
        yield CodeMark(f"spill {count}", text, is_bad=True), text


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
