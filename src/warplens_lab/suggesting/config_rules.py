"""Rules about the config: spills, occupancy, waves and the size of the tile."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens.hardware import Gpu
from warplens_lab.facts.records import KernelFacts, Occupancy, SourcePlace
from warplens_lab.suggesting.counterfactual import Change
from warplens_lab.suggesting.records import Draft, Situation
from warplens_lab.suggesting.thresholds import THRESHOLDS
from warplens_run.base.units import plural

_MOST_WARPS = 16


def spills(situation: Situation) -> Iterator[Draft]:
    """WK101: more values are alive than the registers hold."""
    facts = situation.facts
    if facts.spill_bytes < THRESHOLDS.spill_bytes:
        return
    yield Draft(
        code="WK101",
        target=situation.line_row(most_local(facts)),
        place=most_local(facts),
        evidence=f"{facts.spill_store_bytes} bytes per thread are written to local memory and "
        f"{facts.spill_load_bytes} read back; {facts.registers} registers per thread",
        advice="compile with {change}",
        changes=tuple(_relief(situation)),
        helps=lambda after: after.spill_bytes * 2 <= facts.spill_bytes,
        otherwise="halve the tile, or load values that are needed late as late as possible",
    )


def most_local(facts: KernelFacts) -> SourcePlace | None:
    """The line with the most instructions that go to local memory."""
    counts = {line.place: dict(line.classes).get("local", 0) for line in facts.lines if line.place.line}
    worst = max(counts, key=lambda place: counts[place], default=None)
    return worst if worst is not None and counts[worst] else None


def _relief(situation: Situation) -> Iterator[Change]:
    """More threads for the same tile, then half of its longest side."""
    facts = situation.facts
    if facts.num_warps < _MOST_WARPS:
        yield Change(options=(("num_warps", 2 * facts.num_warps),))
    yield from _smaller_tiles(situation)


def _smaller_tiles(situation: Situation) -> Iterator[Change]:
    dots = situation.facts.dots
    sides = {side for dot in dots for side in dot.shape[:2]} or {
        side for access in situation.facts.accesses for side in access.shape
    }
    constants = {
        name: value
        for name, value in situation.facts.constants
        if value in sides and value > 16 and situation.is_free(name)
    }
    for name, value in sorted(constants.items(), key=lambda item: -item[1])[:2]:
        yield Change(constants=((name, value // 2),))


def low_occupancy(situation: Situation) -> Iterator[Draft]:
    """WK108: for kernels without matrix products, whose speed is that of the memory; those need warps to wait with."""
    facts, occupancy = situation.facts, situation.facts.occupancy
    if occupancy is None or occupancy.blocks == 0 or facts.dots:
        return
    if occupancy.percent >= THRESHOLDS.occupancy_percent:
        return

    def helps(after: KernelFacts) -> bool:
        return (
            after.occupancy is not None
            and after.occupancy.percent > occupancy.percent
            and after.spill_bytes <= facts.spill_bytes
        )

    yield Draft(
        code="WK108",
        target=situation.whole,
        evidence=f"{occupancy.warps} of {occupancy.warp_slots} warps fit ({occupancy.percent:.0f} %): "
        f"{plural(occupancy.blocks, 'block')} of {plural(occupancy.block_warps, 'warp')}, limited by "
        f"{occupancy.limiter}{next_limit(occupancy)}",
        advice="compile with {change}",
        changes=tuple(_occupancy_changes(situation, occupancy)),
        helps=helps,
        otherwise=f"use less of what limits it: {occupancy.limiter}",
    )


def next_limit(occupancy: Occupancy) -> str:
    others = sorted((count, name) for name, count in occupancy.limits if name != occupancy.limiter)
    return f", {others[0][1]} would allow {others[0][0]}" if others else ""


def _occupancy_changes(situation: Situation, occupancy: Occupancy) -> Iterator[Change]:
    facts = situation.facts
    if occupancy.limiter == "block slots":
        yield Change(options=(("num_warps", 2 * facts.num_warps),))
        return
    if occupancy.limiter == "shared memory" and facts.num_stages > 1:
        yield Change(options=(("num_stages", facts.num_stages - 1),))
    if occupancy.limiter == "registers" and facts.num_warps < _MOST_WARPS:
        yield Change(options=(("num_warps", 2 * facts.num_warps),))
    yield from _smaller_tiles(situation)


def waves(situation: Situation) -> Iterator[Draft]:
    """WK109: blocks come in waves as large as the card; what the last one leaves empty is lost."""
    facts, occupancy = situation.facts, situation.facts.occupancy
    if situation.grid is None or occupancy is None or occupancy.blocks == 0:
        return
    gpu, unit = situation.target.gpu(situation.card), situation.unit
    blocks = math.prod(situation.grid) * facts.num_ctas
    per_wave = gpu.multiprocessors * occupancy.blocks
    count = math.ceil(blocks / per_wave)
    if count <= 1:
        # A grid that does not fill every multiprocessor once is spread over all of them, one block each.
        without = gpu.multiprocessors - blocks
        if not situation.is_test_data and 100 * without >= THRESHOLDS.idle_wave_percent * gpu.multiprocessors:
            yield _too_few(situation, gpu, blocks)
        return
    last = blocks - (count - 1) * per_wave
    idle = 100.0 * (1 - blocks / (count * per_wave))
    if idle < THRESHOLDS.idle_wave_percent or count > THRESHOLDS.many_waves:
        return
    yield Draft(
        code="WK109",
        target=situation.whole,
        evidence=f"{blocks} blocks on {gpu.name}: {gpu.multiprocessors} {unit}s × {plural(occupancy.blocks, 'block')} "
        f"hold {per_wave} at once, so {count} waves with {plural(last, 'block')} in the last, which leaves "
        f"{100 * (1 - last / per_wave):.0f} % of it empty",
        advice=f"choose a tile that gives a multiple of {per_wave} blocks{_split_k(facts)}, or launch as many blocks "
        "as fit and let them loop over the tiles (a persistent kernel)",
    )


def _too_few(situation: Situation, gpu: Gpu, blocks: int) -> Draft:
    without = gpu.multiprocessors - blocks
    return Draft(
        code="WK109",
        target=situation.whole,
        evidence=f"{plural(blocks, 'block')} on {gpu.name}, which has {gpu.multiprocessors} {situation.unit}s: "
        f"{without} of them ({100 * without / gpu.multiprocessors:.0f} %) have no block",
        advice=f"choose a smaller tile, which gives more blocks{_split_k(situation.facts)}, or do more of the work in "
        "one launch",
    )


def _split_k(facts: KernelFacts) -> str:
    return ", split K over more blocks" if facts.dots else ""


def tile_size(situation: Situation) -> Iterator[Draft]:
    """WK110: threads without an element, tiles that load twice for each use, blocks that do not fit at all."""
    facts, occupancy, target = situation.facts, situation.facts.occupancy, situation.target
    if occupancy is not None and occupancy.blocks == 0:
        yield _too_large(situation, occupancy)
        return
    threads = facts.num_warps * target.warp_size
    tiles = [access for access in facts.accesses if access.is_tile]
    largest = max((math.prod(access.shape) for access in tiles), default=threads)
    if largest < threads and not facts.dots:
        warps = max(largest // target.warp_size, 1)
        yield Draft(
            code="WK110",
            target=situation.access_row(tiles[0]),
            place=tiles[0].place,
            evidence=f"the largest tile has {largest} elements for {threads} threads",
            advice="compile with {change}, or give each program a larger tile",
            changes=(Change(options=(("num_warps", warps),)),) if warps < facts.num_warps else (),
        )
    for dot in facts.dots:
        if dot.in_loop and min(dot.shape) > 0 and min(dot.shape[:2]) < THRESHOLDS.smallest_dot_side:
            yield Draft(
                code="WK110",
                target=situation.line_row(dot.place),
                place=dot.place,
                evidence=f"a product of {'×'.join(map(str, dot.shape))} does {_uses_per_element(dot.shape):.0f} "
                "multiplications for each element of its operands",
                advice="use a tile of 64 or 128 on each side of the result where the problem is that large",
            )


def _uses_per_element(shape: tuple[int, int, int]) -> float:
    m, n, k = shape
    return m * n * k / (m * k + k * n)


def _too_large(situation: Situation, occupancy: Occupancy) -> Draft:
    facts, target = situation.facts, situation.target
    excess = (
        f"{facts.shared_bytes} bytes of shared memory, the limit is {target.shared_bytes_per_block_limit} per block"
        if occupancy.limiter == "shared memory"
        else f"{facts.registers} registers for each of {facts.num_warps * target.warp_size} threads"
    )
    changes = [Change(options=(("num_stages", stages),)) for stages in range(facts.num_stages - 1, 1, -1)]
    return Draft(
        code="WK110",
        target=situation.whole,
        place=facts.dots[0].place if facts.dots else None,
        evidence=f"the kernel does not fit: {excess}; launching it fails",
        advice="compile with {change}",
        changes=(*changes, *_smaller_tiles(situation)),
        helps=lambda after: after.occupancy is not None and after.occupancy.blocks > 0,
        otherwise="use a smaller tile and fewer stages",
    )
