"""What faults and chance do to a rank in a step."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from ranks_sim.base import Floats
from ranks_sim.spec import MICROSECOND, MILLISECOND, Fault, JobSpec

POOL = 2048
KERNEL_NOISE = 0.015
RANK_NOISE = 0.002
HOST_NOISE = 0.06
TRANSFER_NOISE = 0.03
HICCUP_CHANCE = 0.01
HICCUP_NS = 150 * MICROSECOND
LOAD_NS = 400 * MICROSECOND


@dataclass
class Effects:
    """Factors and delays of one rank in one step."""

    gpu: float = 1.0
    host: float = 1.0
    link: float = 1.0
    data: float = 1.0
    load_ns: float = 0.0
    pause_ns: float = 0.0


def effects(spec: JobSpec, rank: int, step: int) -> Effects:
    """The planted faults of a rank in a step; `step` counts from 0."""
    result = Effects()
    for fault in spec.faults:
        if not fault.is_on(step) or rank not in spec.faulty_ranks(fault):
            continue
        if fault.kind == "slow_gpu":
            result.gpu *= fault["factor"]
        elif fault.kind == "slow_host":
            result.host *= fault["factor"]
        elif fault.kind == "slow_link":
            result.link *= fault["factor"]
        elif fault.kind == "uneven_data":
            result.data *= _length(spec, fault, rank, step) if fault["spread"] else fault["factor"]
        elif fault.kind == "late_data":
            result.load_ns += fault["ms"] * MILLISECOND
        elif fault.kind == "gc" and (step - fault.since) % int(fault["every"]) == 0:
            result.pause_ns += fault["ms"] * MILLISECOND
    return result


def _length(spec: JobSpec, fault: Fault, rank: int, step: int) -> float:
    """The length of a batch's sequences over the mean of all batches, in eighths; ranks that share a batch share it."""
    _tp, expert, data, _stage = spec.grid.place(rank)
    generator = np.random.default_rng((spec.seed, 1 << 29, step))
    lengths = np.exp(fault["spread"] * generator.standard_normal((spec.grid.dp, spec.grid.ep)))
    return max(4, round(float(8 * lengths[data, expert] / lengths.mean()))) / 8


def late_start_ns(spec: JobSpec, rank: int) -> float:
    late = [fault["ms"] for fault in spec.faults if fault.kind == "late_start" and fault.rank == rank]
    return sum(late) * MILLISECOND


def expert_loads(spec: JobSpec, ranks: tuple[int, ...], step: int) -> Floats:
    """The share of tokens that each expert of a group is given; 1 is even."""
    loads = np.ones(len(ranks))
    for fault in spec.faults:
        if fault.kind != "hot_expert" or not fault.is_on(step):
            continue
        hot = [position for position, rank in enumerate(ranks) if rank in spec.faulty_ranks(fault)]
        if hot:
            loads *= (len(ranks) - fault["factor"]) / (len(ranks) - 1)
            loads[hot[0]] = fault["factor"]
    return loads


class Chance:
    """The noise of a rank in a step, the same whatever faults are planted: each block takes its own part of a pool."""

    def __init__(self, spec: JobSpec, rank: int, step: int) -> None:
        generator = np.random.default_rng((spec.seed, rank, step))
        normal = generator.standard_normal((2, POOL)) * spec.noise
        of_rank = np.random.default_rng((spec.seed, rank)).standard_normal() * RANK_NOISE * spec.noise
        self.gpu = np.exp(KERNEL_NOISE * normal[0] + of_rank)
        self.host = np.exp(HOST_NOISE * normal[1])
        hiccups = generator.exponential(HICCUP_NS, 64)
        self._hiccups = np.where(generator.random(64) < HICCUP_CHANCE * spec.noise, hiccups, 0.0).tolist()
        self._calls = self.host.tolist()
        self.pause_at = float(generator.random())

    def call(self, slot: int) -> float:
        return float(self._calls[pool_start(slot)])

    def hiccup_ns(self, slot: int) -> float:
        return float(self._hiccups[pool_start(slot) & 63])


def pool_start(slot: int) -> int:
    """Where a block's noise begins; neighbouring slots are far apart."""
    return slot * 2654435761 >> 5 & (POOL - 1)


class SharedChance:
    """The noise of what ranks share: transfers, when each rank leaves a collective, and routing to experts."""

    def __init__(self, spec: JobSpec) -> None:
        generator = np.random.default_rng((spec.seed, 1 << 30))
        self._normal = np.tile(generator.standard_normal(POOL) * spec.noise, 2)
        self._uniform = generator.random(POOL).tolist()

    def transfer(self, place: int) -> float:
        return math.exp(TRANSFER_NOISE * float(self._normal[place & (POOL - 1)]))

    def tail(self, place: int, rank: int) -> float:
        return float(self._uniform[place + rank * 40_503 & (POOL - 1)])

    def routing(self, key: str, number: int, size: int) -> Floats:
        first = place_of(key, number) & (POOL - 1)
        return np.exp(0.02 * np.resize(self._normal[first:], (size, size)))


def place_of(key: str, number: int) -> int:
    """Where the noise of a group's call is in the pool."""
    return zlib.crc32(f"{key} {number}".encode())
