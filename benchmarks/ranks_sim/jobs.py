"""Sets of small jobs: with faults of every kind, and healthy ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from ranks_sim.spec import CAUSES, Fault, Grid, JobSpec

GRIDS = [Grid(dp=4), Grid(dp=8), Grid(tp=2, dp=4), Grid(tp=2, pp=2, dp=2), Grid(pp=4, dp=2), Grid(dp=2, ep=4)]
PIPELINES = [grid for grid in GRIDS if grid.pp > 1]
EXPERTS = [grid for grid in GRIDS if grid.ep > 1]
# A slow link shows in the groups that pass it against others of their size; one group alone has nothing to compare.
SEVERAL_GROUPS = [grid for grid in GRIDS if grid.tp * grid.pp > 1]
STEPS = 10


def faulty_jobs(count: int, seed: int = 0) -> Iterator[JobSpec]:
    """`count` jobs, the kinds of faults in turn.

    Every third has clocks that are off, every eighth a second fault, every eleventh no metadata, and every thirteenth
    lacks a rank, one without a fault.
    """
    chance = random.Random(seed)
    kinds = list(_MAKERS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        grid = chance.choice(
            {"uneven_stage": PIPELINES, "hot_expert": EXPERTS, "slow_link": SEVERAL_GROUPS}.get(kind, GRIDS)
        )
        faults = [_MAKERS[kind](chance, grid)]
        if number % 8 == 7:
            second = chance.choice([other for other in ("slow_gpu", "late_data", "gc") if other != kind])
            faults.append(_MAKERS[second](chance, grid))
        if number % 11 == 10:
            faults.append(Fault("no_metadata"))
        spec = _spec(chance, grid, faults, number, with_clock=number % 3 == 2)
        yield _without_a_rank(spec) if number % 13 == 12 else spec


def healthy_jobs(count: int, seed: int = 0) -> Iterator[JobSpec]:
    chance = random.Random(seed + 1)
    for number in range(count):
        yield _spec(chance, chance.choice(GRIDS), [], 10_000 + number, with_clock=number % 2 == 1)


def _without_a_rank(spec: JobSpec) -> JobSpec:
    faulty = {rank for fault in spec.faults if CAUSES[fault.kind] for rank in spec.faulty_ranks(fault)}
    others = [rank for rank in range(spec.grid.world) if rank not in faulty]
    return replace(spec, faults=(*spec.faults, Fault("missing", others[-1])))


def _spec(chance: random.Random, grid: Grid, faults: list[Fault], seed: int, *, with_clock: bool) -> JobSpec:
    clock = [Fault("clock")] if with_clock else []
    return JobSpec(
        grid=grid,
        steps=STEPS,
        events=chance.choice([400, 800]),
        layers=chance.choice([2, 3]),
        faults=(*faults, *clock),
        seed=seed,
        sharded=grid.pp == 1 and chance.random() < 0.3,
        seq=chance.random() < 0.3,
        gpus_per_host=chance.choice([2, 4, 8]),
        noise=chance.choice([0.5, 1.0, 2.0]),
    )


def _place(chance: random.Random, grid: Grid) -> tuple[int, int]:
    return chance.randrange(grid.world), chance.choice([0, 0, 4, 5, 6])


def _slow_gpu(chance: random.Random, grid: Grid) -> Fault:
    return Fault("slow_gpu", *_place(chance, grid), values={"factor": round(chance.uniform(1.15, 1.6), 2)})


def _slow_link(chance: random.Random, grid: Grid) -> Fault:
    return Fault("slow_link", *_place(chance, grid), values={"factor": round(chance.uniform(3, 8), 2)})


def _gc(chance: random.Random, grid: Grid) -> Fault:
    return Fault(
        "gc", *_place(chance, grid), values={"ms": round(chance.uniform(8, 40), 1), "every": chance.choice([1, 2])}
    )


def _late_data(chance: random.Random, grid: Grid) -> Fault:
    return Fault("late_data", *_place(chance, grid), values={"ms": round(chance.uniform(3, 30), 1)})


def _uneven_data(chance: random.Random, grid: Grid) -> Fault:
    return Fault("uneven_data", *_place(chance, grid), values={"factor": round(chance.uniform(1.2, 2.0), 2)})


def _slow_host(chance: random.Random, grid: Grid) -> Fault:
    return Fault("slow_host", *_place(chance, grid), values={"factor": round(chance.uniform(2.2, 4.0), 2)})


def _late_start(chance: random.Random, grid: Grid) -> Fault:
    return Fault("late_start", chance.randrange(grid.world), values={"ms": round(chance.uniform(5, 20), 1)})


def _uneven_stage(chance: random.Random, grid: Grid) -> Fault:
    return Fault("uneven_stage", values={"stage": chance.randrange(grid.pp), "layers": chance.choice([1, 2])})


def _hot_expert(chance: random.Random, grid: Grid) -> Fault:
    return Fault("hot_expert", *_place(chance, grid), values={"factor": round(chance.uniform(1.4, 2.5), 2)})


_MAKERS = {
    "slow_gpu": _slow_gpu,
    "slow_link": _slow_link,
    "gc": _gc,
    "late_data": _late_data,
    "uneven_data": _uneven_data,
    "slow_host": _slow_host,
    "late_start": _late_start,
    "uneven_stage": _uneven_stage,
    "hot_expert": _hot_expert,
}
