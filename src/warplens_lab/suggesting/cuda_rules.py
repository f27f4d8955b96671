"""Rules about CUDA C++ kernels: what the source should say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from warplens_lab.facts.records import Access, Branch, SharedAccess
from warplens_lab.suggesting.access_rules import is_narrow
from warplens_lab.suggesting.config_rules import most_local, next_limit
from warplens_lab.suggesting.records import Draft, Situation
from warplens_lab.suggesting.thresholds import THRESHOLDS
from warplens_run.base.units import listed, plural

WORD_BITS: Final = 32
LANES: Final = 32
_USE_LESS: Final = {
    "registers": "tell the compiler how many blocks should fit, `__launch_bounds__({threads}, {more})`, which makes it "
    "use fewer registers, or let a thread do less",
    "shared memory": "use less shared memory in a block: a smaller tile or fewer buffers",
    "block slots": "use larger blocks: a block takes a slot however few threads it has",
    "warp slots": "use a block size that divides the {slots} warps that fit",
}


def nothing(situation: Situation) -> Iterator[Draft]:
    """What CUDA C++ has no such thing for."""
    yield from ()


def spills(situation: Situation) -> Iterator[Draft]:
    """WK101."""
    facts = situation.facts
    if facts.spill_bytes < THRESHOLDS.spill_bytes:
        return
    limit = situation.target.registers_per_thread_limit
    bound = (
        "allow more registers: __launch_bounds__ or the register limit of the compilation keeps them at "
        f"{facts.registers}; or "
        if facts.registers < limit - situation.target.register_granularity
        else ""
    )
    yield Draft(
        code="WK101",
        target=situation.line_row(most_local(facts)),
        place=most_local(facts),
        evidence=f"{facts.spill_store_bytes} bytes per thread are written to local memory and "
        f"{facts.spill_load_bytes} read back; {facts.registers} registers per thread",
        advice=f"{bound}keep fewer values at a time: a smaller tile per thread, less unrolling (`#pragma unroll 2`), "
        "values that are needed late loaded late",
    )


def narrow_accesses(situation: Situation) -> Iterator[Draft]:
    """WK102: a thread accesses neighbours one by one."""
    for access in situation.facts.accesses:
        if not is_narrow(access):
            continue
        if access.width_bits < WORD_BITS and access.best_bits == WORD_BITS:
            why = "a warp's access fills only part of a 128-byte line"
            advice = "let a thread take two or more neighbours at once, as a vector type: half2, char4, float4"
        else:
            count = access.best_bits // access.width_bits
            why = f"{count} neighbours are accessed one by one"
            advice = (
                f"access them as one vector of {count}, such as float4 for four floats: "
                "`reinterpret_cast<float4*>(pointer)[i]`, at an address that is a multiple of its size"
            )
        yield Draft(
            code="WK102",
            target=situation.access_row(access),
            place=access.place,
            evidence=f"{_subject(access)} moves {access.width_bits} bits per thread at once, {access.best_bits} would "
            f"fit: {why}",
            advice=advice,
        )


def _subject(access: Access) -> str:
    return f"the {access.kind} of {access.argument}" if access.argument else f"the {access.kind}"


def bank_conflicts(situation: Situation) -> Iterator[Draft]:
    """WK106: of each array the worst access."""
    by_array: dict[str, SharedAccess] = {}
    for access in situation.facts.shared:
        worst = by_array.get(access.layout)
        if access.conflicts and (worst is None or access.conflicts > (worst.conflicts or 0)):
            by_array[access.layout] = access
    for access in by_array.values():
        ways = 1 + (access.conflicts or 0)
        if ways < THRESHOLDS.conflict_ratio:
            continue
        yield Draft(
            code="WK106",
            target=situation.shared_row(access),
            place=access.place,
            evidence=f"the {access.kind} of {access.layout} is a {ways}-way bank conflict: lanes of a warp need "
            f"different words of one bank, which takes {plural(access.conflicts or 0, 'extra pass', 'extra passes')}",
            advice=_other_rows(access) or "let neighbouring lanes access neighbouring words",
        )


def _other_rows(access: SharedAccess) -> str:
    """What padded or swizzled rows would give, where that is at least half."""
    ways = 1 + (access.conflicts or 0)
    remedies = []
    if access.padding and access.conflicts_padded is not None:
        sides = [*access.shape[:-1], access.shape[-1] + access.padding]
        name = access.layout.partition("[")[0]
        declared = name + "".join(f"[{side}]" for side in sides)
        remedies.append((access.conflicts_padded, f"declare it with padded rows, `{declared}`"))
    if access.conflicts_swizzled is not None:
        remedies.append((access.conflicts_swizzled, "exclusive-or the column with the row in every access of it"))
    helping = [(extra, text) for extra, text in remedies if THRESHOLDS.conflict_ratio * (1 + extra) <= ways]
    return ", or ".join(f"{text} ({'no conflict' if not extra else f'{1 + extra}-way'})" for extra, text in helping)


def low_occupancy(situation: Situation) -> Iterator[Draft]:
    """WK108."""
    facts, fit = situation.facts, situation.facts.occupancy
    if fit is None or fit.blocks == 0 or facts.matrix_instructions or fit.percent >= THRESHOLDS.occupancy_percent:
        return
    threads = facts.num_warps * situation.target.warp_size
    advice = _USE_LESS[fit.limiter].format(threads=threads, more=fit.blocks + 1, slots=fit.warp_slots)
    yield Draft(
        code="WK108",
        target=situation.whole,
        evidence=f"{fit.warps} of {fit.warp_slots} warps fit ({fit.percent:.0f} %), in blocks of {facts.num_warps}; "
        f"limited by {fit.limiter} ({fit.blocks} of them{next_limit(fit)})",
        advice=advice,
    )


def too_large(situation: Situation) -> Iterator[Draft]:
    """WK110: a block that does not fit."""
    facts, fit, target = situation.facts, situation.facts.occupancy, situation.target
    if fit is None or fit.blocks:
        return
    threads = facts.num_warps * target.warp_size
    excess = (
        f"{facts.shared_bytes} bytes of shared memory, the limit is {target.shared_bytes_per_block_limit} per block"
        if fit.limiter == "shared memory"
        else f"{facts.registers} registers for each of {threads} threads"
    )
    yield Draft(
        code="WK110",
        target=situation.whole,
        evidence=f"a block does not fit: {excess}; launching it fails",
        advice="use a smaller tile, or, where registers are the limit, smaller blocks or `__launch_bounds__"
        f"({threads})`",
    )


def divergence(situation: Situation) -> Iterator[Draft]:
    """WK121: conditions on the thread's number that differ within many warps, or on loaded values before much work."""
    facts = situation.facts
    for branch in facts.branches:
        if branch.is_divergent and branch.difference == "data":
            yield from _by_data(situation, branch)
            continue
        is_rare = branch.warps is not None and 100 * branch.warps < THRESHOLDS.parted_warps_percent * facts.num_warps
        if branch.difference != "lanes" or not branch.is_divergent or is_rare:
            continue
        known = (
            f"{branch.lanes} of {LANES} lanes of a warp go one way, the others the other, in {branch.warps} of "
            f"{plural(facts.num_warps, 'warp')}"
            if branch.lanes is not None
            else "the condition depends on the thread's number in a way that differs within warps"
        )
        yield Draft(
            code="WK121",
            target=situation.branch_row(branch),
            place=branch.place,
            evidence=f"{known}; both ways are run{' in every turn of the loop' * branch.in_loop}",
            advice="let whole warps take one way, with a condition on `threadIdx.x / 32` or by giving a warp's lanes "
            "the same kind of work, or compute both results and select one (`c ? a : b`)",
        )


def _by_data(situation: Situation, branch: Branch) -> Iterator[Draft]:
    if not branch.has_loop and not branch.has_call and branch.body_instructions < THRESHOLDS.parted_body:
        return
    size = plural(branch.body_instructions, "PTX instruction")
    work = [size] + ["a loop"] * branch.has_loop + ["a function that is not inlined"] * branch.has_call
    yield Draft(
        code="WK121",
        target=situation.branch_row(branch),
        place=branch.place,
        evidence="loaded values decide how often the loop turns: a warp turns as often as the lane that turns most"
        if branch.turns
        else f"loaded values decide which way a lane goes: a warp runs all ways that any of its lanes takes, here "
        f"{listed(work)}, and the others idle",
        advice="let the lanes of a warp share the work of one element (a warp per row), or sort the elements by how "
        "much work each has, so that those of a warp have the same"
        if branch.turns
        else "give the lanes of a warp elements of one kind: sort or compact them by the condition before, or launch a "
        "kernel per kind; or compute both results and select one (`c ? a : b`) where both are cheap",
    )


def scattered_accesses(situation: Situation) -> Iterator[Draft]:
    """WK122."""
    for access in situation.facts.accesses:
        if access.sectors is None or not access.sectors_needed:
            continue
        if access.sectors < THRESHOLDS.sector_ratio * access.sectors_needed:
            continue
        yield Draft(
            code="WK122",
            target=situation.access_row(access),
            place=access.place,
            evidence=f"{_subject(access)} touches {access.sectors} sectors of 32 bytes for one access of a warp, "
            f"{access.sectors_needed} would hold as much",
            advice="let neighbouring threads access neighbouring elements (threadIdx.x as the fastest index), or move "
            "the tile through shared memory",
        )


def parted_barriers(situation: Situation) -> Iterator[Draft]:
    """WK123."""
    for barrier in situation.facts.barriers:
        condition = barrier.parted_by
        if condition is None:
            continue
        name = f"barrier {barrier.number}" if barrier.is_named else "__syncthreads()"
        yield Draft(
            code="WK123",
            target=situation.barrier_row(barrier),
            place=barrier.place,
            evidence=f"{name} is in a branch that lanes of a warp may not take together: the condition at "
            f"{PurePath(condition.file).name}:{condition.line} differs between them",
            advice="move it to where all threads come by, and put the condition around the work before and after it",
        )


def unmet_barriers(situation: Situation) -> Iterator[Draft]:
    """WK124: once per barrier and cause, where warps wait at it."""
    faulty = [use for use in situation.facts.barriers if use.fault]
    reported = set()
    for barrier in sorted(faulty, key=lambda use: use.kind == "arrive"):
        if (barrier.number, barrier.fault) in reported:
            continue
        reported.add((barrier.number, barrier.fault))
        yield Draft(
            code="WK124",
            target=situation.barrier_row(barrier),
            place=barrier.place,
            evidence=f"barrier {barrier.number} in a block of {'×'.join(map(str, situation.facts.block))} threads: "
            f"{barrier.fault}",
            advice="let its number of threads be 32 for each warp that comes to it in one turn, those that only arrive "
            "included, the same wherever it is used; warps that do not belong together need barriers of their own",
        )
