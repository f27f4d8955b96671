"""A stage's program as arrays, so that a rank's step costs a few vector operations instead of a loop over its events.

A block's effect on a rank is three numbers: the host moves on by `host_ns`, and the compute stream, free at `c` while
the host begins at `h`, is free again at max(c + gpu_ns, h + launched_gpu_ns).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ranks_sim.base import Floats, Ints
from ranks_sim.effects import POOL, Chance, pool_start
from ranks_sim.program import Instruction, Run
from ranks_sim.spec import MICROSECOND

LATENCY_NS = 4 * MICROSECOND  # from a launch to the start of its kernel
KERNEL_GAP_NS = 0.8 * MICROSECOND
# More than any time inside a block: keeps the running maxima of two blocks apart.
APART_NS = 4e9


@dataclass(frozen=True)
class StepTimes:
    """A rank's step, each block from its own begin."""

    unit_starts: Floats
    unit_scales: Floats
    launch_ready: Floats
    gpu_ns: Floats
    gpu_before: Floats
    host_ns: list[float]
    block_gpu_ns: list[float]
    launched_gpu_ns: list[float]


class FlatProgram:
    def __init__(self, instructions: list[Instruction]) -> None:
        self.instructions = instructions
        self.runs = [each for each in instructions if isinstance(each, Run)]
        blocks = [run.block for run in self.runs]
        unit_counts = [len(block.units) for block in blocks]
        gpu_counts = [len(block.gpu_ns) for block in blocks]
        self.unit_run = np.repeat(np.arange(len(blocks)), unit_counts)
        self.unit_first = _firsts(unit_counts)
        self.gpu_run = np.repeat(np.arange(len(blocks)), gpu_counts)
        self.gpu_first = _firsts(gpu_counts)
        self.pitch = np.concatenate([block.pitch for block in blocks])
        self.launch_unit = np.concatenate(
            [block.launch_unit + first for block, first in zip(blocks, self.unit_first, strict=True)]
        )
        self.launch_end = np.concatenate([block.launch_end for block in blocks])
        self.gpu_ns = np.concatenate([block.gpu_ns for block in blocks])
        slots = [pool_start(run.slot) for run in self.runs]
        self.unit_noise = _noise_places(slots, unit_counts)
        self.gpu_noise = _noise_places(slots, gpu_counts)
        self.is_expert = np.array([run.is_expert for run in self.runs])

    @cached_property
    def host_unit(self) -> Ints:
        """The unit of each host event."""
        return np.concatenate(
            [run.block.host_unit + first for run, first in zip(self.runs, self.unit_first, strict=True)]
        )

    @cached_property
    def host_start(self) -> Floats:
        return np.concatenate([run.block.host_start for run in self.runs])

    @cached_property
    def host_ns(self) -> Floats:
        return np.concatenate([run.block.host_ns for run in self.runs])

    def step_times(self, chance: Chance, host_factor: float, gpu_factor: float, expert_load: float) -> StepTimes:
        scales = chance.host[self.unit_noise] * host_factor
        pitch = self.pitch * scales
        starts = np.cumsum(pitch) - pitch
        starts -= starts[self.unit_first][self.unit_run]
        ready = starts[self.launch_unit] + self.launch_end * scales[self.launch_unit] + LATENCY_NS
        gpu_ns = self.gpu_ns * chance.gpu[self.gpu_noise]
        gpu_ns *= np.where(self.is_expert, gpu_factor * expert_load, gpu_factor)[self.gpu_run]
        taken = gpu_ns + KERNEL_GAP_NS
        before = np.cumsum(taken) - taken
        before -= before[self.gpu_first][self.gpu_run]
        before += KERNEL_GAP_NS
        of_block = np.add.reduceat(taken, self.gpu_first)
        launched = of_block + np.maximum.reduceat(ready - before, self.gpu_first)
        host_ns = np.add.reduceat(pitch, self.unit_first)
        return StepTimes(starts, scales, ready, gpu_ns, before, host_ns.tolist(), of_block.tolist(), launched.tolist())

    def gpu_starts(self, times: StepTimes, host: Floats, compute: Floats) -> Floats:
        """When kernels start, given when each block began on the host and its stream was free."""
        apart = self.gpu_run * APART_NS
        late = np.maximum.accumulate(times.launch_ready - times.gpu_before + apart) - apart
        starts: Floats = times.gpu_before + np.maximum(compute[self.gpu_run], host[self.gpu_run] + late)
        return starts


def _firsts(counts: list[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)


def _noise_places(slots: list[int], counts: list[int]) -> Ints:
    return np.concatenate([(slot + np.arange(count)) & (POOL - 1) for slot, count in zip(slots, counts, strict=True)])
