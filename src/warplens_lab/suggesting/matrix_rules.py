"""Rules about matrix products: the matrix unit, loading ahead, and layouts that change inside the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from warplens_lab.facts.records import Dot, KernelFacts
from warplens_lab.facts.schedule_words import UNPIPELINED
from warplens_lab.suggesting.counterfactual import Change
from warplens_lab.suggesting.records import Draft, Situation
from warplens_lab.suggesting.thresholds import THRESHOLDS

_STAGES = 3
_WIDENED: Final[Mapping[str, Mapping[str, str]]] = {
    "gfx942": {"f8E4M3FN": "fp8e4b8 (torch.float8_e4m3fnuz)", "f8E5M2": "fp8e5b16 (torch.float8_e5m2fnuz)"},
}
"""Kinds of fp8 that the matrix unit of a target does not take, each with the one it does."""
_UNSPLIT = "omit warp_specialize=True for this GPU: then the compiler pipelines the loop"
_PREFETCH = "make the loads of the loop wide (WK102) and independent of loaded values, so that it can prefetch"


def matrix_unit(situation: Situation) -> Iterator[Draft]:
    """WK103: ordinary arithmetic, or an older instruction than the GPU has."""
    target = situation.target
    for dot in situation.facts.dots:
        if not target.is_nvidia and dot.uses_matrix_unit:
            if dot.element in _WIDENED.get(target.name, {}):
                yield _widened(situation, dot)
            continue
        if dot.instruction == target.matrix_unit:
            continue
        changes = tuple(_matrix_changes(situation, dot))
        instead = f"{dot.instruction} {dot.instruction_shape}" if dot.instruction else "no matrix instruction"
        yield Draft(
            code="WK103",
            target=situation.line_row(dot.place),
            place=dot.place,
            evidence=f"{'×'.join(map(str, dot.shape))} product of {dot.element} uses {instead}, not "
            f"{target.matrix_unit}: {_why(situation, dot)}",
            advice="compile with {change}{written}" if changes else _matrix_advice(dot),
            changes=changes,
            helps=_uses(situation.facts, dot, target.matrix_unit),
            otherwise=_matrix_advice(dot),
            written=lambda change: " where the problem is that large" if change.constants else "",
        )


def _widened(situation: Situation, dot: Dot) -> Draft:
    own = _WIDENED[situation.target.name][dot.element]
    return Draft(
        code="WK103",
        target=situation.line_row(dot.place),
        place=dot.place,
        evidence=f"{'×'.join(map(str, dot.shape))} product of {dot.element} uses {dot.instruction} "
        f"{dot.instruction_shape} on f16: {situation.target.name} does not multiply this fp8, so the operands are "
        "widened first",
        advice=f"store the operands as {own}, the fp8 that {situation.target.name} multiplies",
    )


def _uses(facts: KernelFacts, dot: Dot, instruction: str) -> Callable[[KernelFacts], bool]:
    """It does, and neither spills nor a block that does not fit takes back what that gives."""

    def helps(after: KernelFacts) -> bool:
        fits = after.occupancy is None or after.occupancy.blocks > 0
        is_used = any(other.place == dot.place and other.instruction == instruction for other in after.dots)
        return is_used and fits and after.spill_bytes <= facts.spill_bytes

    return helps


def _matrix_changes(situation: Situation, dot: Dot) -> Iterator[Change]:
    """The tile and the warps that the instruction needs, where constants say how large the tile is."""
    rows, warps = int(THRESHOLDS.matrix_rows), int(THRESHOLDS.matrix_warps)
    if dot.element == "f64" or (dot.element == "f32" and dot.precision == "ieee"):
        return
    options = (("num_warps", warps),) if situation.facts.num_warps < warps else ()
    is_low = 0 < dot.shape[0] < rows
    names = situation.constants_equal(dot.shape[0]) if is_low else []
    if is_low and not names:
        return
    # Where several constants have the value, each may be the one that sets the rows.
    for name in names or [""]:
        constants = ((name, rows),) if name else ()
        if constants or options:
            yield Change(constants=constants, options=options)


def _why(situation: Situation, dot: Dot) -> str:
    reasons = []
    if dot.element == "f32" and dot.precision == "ieee":
        reasons.append("input_precision is ieee, and no matrix unit multiplies full fp32")
    if dot.element == "f64":
        reasons.append("fp64 has no such instruction in Triton")
    if situation.target.matrix_unit != "mma.sync" and situation.target.is_nvidia:
        if 0 < dot.shape[0] < THRESHOLDS.matrix_rows:
            reasons.append(f"the tile has {dot.shape[0]} rows, it needs {int(THRESHOLDS.matrix_rows)} or more")
        if situation.facts.num_warps < THRESHOLDS.matrix_warps:
            reasons.append(f"{situation.facts.num_warps} warps, it needs {int(THRESHOLDS.matrix_warps)} or more")
    on_line = [remark.text for remark in situation.facts.remarks if remark.line == dot.place.line]
    remarks = [text for text in on_line if "MMA" in text]
    return "; ".join(reasons or remarks[:1] or ["the compiler gives no reason"])


def _matrix_advice(dot: Dot) -> str:
    if dot.element == "f32" and dot.precision == "ieee":
        return 'give tl.dot input_precision="tf32" (or "tf32x3", near fp32), or cast the operands to fp16 or bf16'
    if dot.element in ("f32", "f64"):
        return "cast the operands to fp16, bf16 or fp8, or let both of them run along K in memory"
    return "give the tile at least 64 rows and the block a multiple of 4 warps"


def pipelining(situation: Situation) -> Iterator[Draft]:
    """WK104: the loop waits for each tile before it multiplies."""
    facts = situation.facts
    for loop in facts.loops:
        if not loop.has_dot or loop.loads_ahead == loop.loads:
            continue

        def helps(after: KernelFacts, before: int = loop.loads_ahead, line: int = loop.place.line) -> bool:
            return any(other.place.line == line and other.loads_ahead > before for other in after.loops)

        changes = (Change(options=(("num_stages", _STAGES),)),) if facts.num_stages < _STAGES else ()
        remarks = [remark.text for remark in facts.remarks if "ipelin" in remark.text]
        schedules = [schedule for schedule in facts.schedule if schedule.place == loop.place]
        unpipelined = [schedule.refusal for schedule in schedules if schedule.refusal.endswith(UNPIPELINED)]
        why = (
            f"num_stages is {facts.num_stages}"
            if facts.num_stages < 2
            else "; ".join([*unpipelined, *remarks][:1]) or _narrow(facts)
        )
        advice = (
            "omit warp_specialize=True for this GPU: then the compiler pipelines the loop" if unpipelined else _PREFETCH
        )
        yield Draft(
            code="WK104",
            target=situation.line_row(loop.place),
            place=loop.place,
            evidence=f"{loop.loads_ahead} of {loop.loads} loads of the loop start before they are needed: {why}",
            advice="compile with {change}" if changes else advice,
            changes=changes,
            helps=helps,
            otherwise=advice,
        )


def _narrow(facts: KernelFacts) -> str:
    narrow = [a for a in facts.accesses if a.in_loop and a.is_tile and 0 < a.width_bits < THRESHOLDS.narrow_bits]
    indirect = [a for a in facts.accesses if a.in_loop and a.is_tile and a.is_indirect]
    if narrow:
        load = narrow[0]
        return (
            f"the load of {load.argument} moves {load.width_bits} bits at once, an asynchronous copy needs 32 or more"
        )
    if indirect:
        return f"the address of {indirect[0].argument} depends on a loaded value"
    return "the compiler gives no reason"


def conversions_in_loops(situation: Situation) -> Iterator[Draft]:
    """WK105: each iteration of the loop writes a tile to shared memory and reads it back for another layout."""
    reported = set()
    for conversion in situation.facts.conversions:
        if not conversion.in_every_turn or conversion.through != "warps" or conversion.place in reported:
            continue
        reported.add(conversion.place)
        kinds = [text.partition("<")[0].rpartition(".")[2] for text in (conversion.source, conversion.destination)]
        yield Draft(
            code="WK105",
            target=situation.conversion_row(conversion),
            place=conversion.place,
            evidence=f"a {'×'.join(map(str, conversion.shape))} tile goes from {kinds[0]} to {kinds[1]} layout in "
            "every iteration",
            advice="move what needs the other layout (a store, a reduction, a transposed operand) after the loop, or "
            "load the operand in the layout that the product requires",
        )
