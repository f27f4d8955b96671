"""The event simulation: ranks run their programs until they need the end of a collective that others have not reached.

A kernel starts when it is launched, its stream is free and what it waits for has ended. A collective ends, for every
rank of its group, when the last one has started and the data are transferred. All times are ns of one true clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ranks_sim.base import Base, Floats
from ranks_sim.effects import LOAD_NS, Chance, Effects, SharedChance, effects, expert_loads, late_start_ns, place_of
from ranks_sim.flat import KERNEL_GAP_NS, LATENCY_NS, FlatProgram, StepTimes
from ranks_sim.program import (
    CALL_NS,
    COLLECTIVE_KINDS,
    LAUNCH_AFTER_NS,
    WAIT_CALL_NS,
    Communicate,
    Instruction,
    Item,
    Load,
    Run,
    StepProgram,
    Wait,
    kernel_stretch,
)
from ranks_sim.spec import MICROSECOND, Group, JobSpec

COPY_NS = 1.6 * MICROSECOND
SYNC_RETURN_NS = 6 * MICROSECOND
BETWEEN_STEPS_NS = 60 * MICROSECOND
COLLECTIVE_LATENCY_NS = 12 * MICROSECOND
BYTES_PER_NS = {True: 150.0, False: 40.0}  # GB/s between ranks of one host, and of several
ELEMENT_BYTES = 4
TAIL_NS = 3 * MICROSECOND


@dataclass
class Meeting:
    """One collective call of a group."""

    group: Group
    kind: str
    number: int
    step: int
    size: int
    key: str
    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    transfer_ns: float = 0.0
    waiting: list[Iterator[Meeting]] = field(default_factory=list)


@dataclass
class Called:
    """A collective's call on the host; `scale` stretches its parts."""

    call: Communicate
    meeting: Meeting
    start: float
    scale: float
    splits: tuple[list[int], list[int]] | None
    elements: int


@dataclass
class HostSpan:
    """A host event of its own: a wait's call, a data loader, an item(), a step."""

    kind: str
    start: float
    end: float
    phase: str = "forward"
    copy_start: float = 0.0


@dataclass
class StepRun:
    """What a rank did in a step. The kernels of its blocks follow from when each block began (`FlatProgram`)."""

    start: float
    end: float = 0.0
    block_host: list[float] = field(default_factory=list)
    block_compute: list[float] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    spans: list[HostSpan] = field(default_factory=list)


@dataclass
class RankRun:
    rank: int
    steps: list[StepRun] = field(default_factory=list)
    step_ends: list[float] = field(default_factory=list)


@dataclass
class JobRun:
    ranks: list[RankRun]
    meetings: list[Meeting]

    def step_times_ns(self) -> Floats:
        """The job's time of each step: from the end of the last one on its slowest rank to the end of this one."""
        ends = np.max([rank.step_ends for rank in self.ranks], axis=0)
        return np.diff(ends, prepend=0.0)


class Job:
    def __init__(self, spec: JobSpec, base: Base) -> None:
        self.spec = spec
        self.shared = SharedChance(spec)
        self.groups = spec.grid.groups()
        self.programs = [FlatProgram(StepProgram(spec, base, stage).instructions()) for stage in range(spec.grid.pp)]
        self.stretch = kernel_stretch(spec, StepProgram(spec.without(), base, 0).instructions())
        self.meetings: dict[tuple[str, int], Meeting] = {}
        self.ready: deque[Iterator[Meeting]] = deque()
        self.effects = [[effects(spec, rank, step) for rank in range(spec.grid.world)] for step in range(spec.steps)]

    def step_times(self, rank: int, step: int, chance: Chance) -> StepTimes:
        """The times of a rank's blocks in a step, each from the block's begin."""
        effect, program = self.effects[step][rank], self.programs[self.spec.grid.stage(rank)]
        load = 1.0
        if self.spec.grid.ep > 1:
            ranks = next(group.ranks for group in self.groups if group.axis == "ep" and rank in group.ranks)
            load = float(expert_loads(self.spec, ranks, step)[ranks.index(rank)])
        return program.step_times(chance, effect.host, self.stretch * effect.gpu * effect.data, load)

    def run(self) -> JobRun:
        ranks = [RankProcess(self, rank) for rank in range(self.spec.grid.world)]
        self.ready.extend(rank.run() for rank in ranks)
        while self.ready:
            process = self.ready.popleft()
            meeting = next(process, None)
            if meeting is not None:
                (self.ready if meeting.ends else meeting.waiting).append(process)
        if any(len(rank.result.step_ends) < self.spec.steps for rank in ranks):
            raise RuntimeError("ranks wait for each other")
        return JobRun([rank.result for rank in ranks], list(self.meetings.values()))

    def arrive(self, meeting: Meeting, rank: int, start: float, transfer_ns: float) -> None:
        meeting.starts[rank] = start
        meeting.transfer_ns = max(meeting.transfer_ns, transfer_ns)
        if len(meeting.starts) < meeting.size:
            return
        place = place_of(meeting.key, meeting.number)
        meeting.transfer_ns *= self.shared.transfer(place)
        end = max(meeting.starts.values()) + meeting.transfer_ns
        tail_ns = TAIL_NS + 0.01 * meeting.transfer_ns
        for each in meeting.starts:
            meeting.ends[each] = end + tail_ns * self.shared.tail(place, each)
        self.ready.extend(meeting.waiting)
        meeting.waiting.clear()


class RankProcess:
    """One rank: its host's time, when its streams are free, and the collectives that it has started."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job = job
        self.rank = rank
        self.result = RankRun(rank)
        self.host = late_start_ns(job.spec, rank)
        self.compute = 0.0
        self.groups = {group.axis: group for group in job.groups if rank in group.ranks}
        self.counts: dict[str, int] = {}
        self.last_on: dict[str, Meeting] = {}
        self.handles: dict[str, Meeting] = {}
        self._transfers: dict[tuple[Communicate, int], float] = {}
        self.number = 0
        self.step: StepRun
        self.chance: Chance
        self.effect: Effects
        self.times: StepTimes

    def run(self) -> Iterator[Meeting]:
        job = self.job
        program = job.programs[job.spec.grid.stage(self.rank)]
        for step in range(job.spec.steps):
            self.chance = Chance(job.spec, self.rank, step)
            self.effect = job.effects[step][self.rank]
            self.times = job.step_times(self.rank, step, self.chance)
            self.number = step
            self.step = StepRun(self.host)
            self.result.steps.append(self.step)
            pause_before = int(self.chance.pause_at * len(program.runs))
            for instruction in program.instructions:
                if isinstance(instruction, Run):
                    if len(self.step.block_host) == pause_before:
                        self.host += self.effect.pause_ns
                    self._run_block(instruction)
                else:
                    yield from self._do(instruction)
            self.step.end = self.host
            self.host += BETWEEN_STEPS_NS * self.effect.host
            self.result.step_ends.append(max(self.host, self.compute))
        yield from self._settled(list(self.last_on.values()))

    def _run_block(self, run: Run) -> None:
        number = len(self.step.block_host)
        host = self.host + self.chance.hiccup_ns(run.slot) * self.effect.host
        self.step.block_host.append(host)
        self.step.block_compute.append(self.compute)
        self.host = host + self.times.host_ns[number]
        self.compute = max(self.compute + self.times.block_gpu_ns[number], host + self.times.launched_gpu_ns[number])

    def _do(self, instruction: Instruction) -> Iterator[Meeting]:
        if isinstance(instruction, Communicate):
            yield from self._communicate(instruction)
        elif isinstance(instruction, Wait):
            meeting = self.handles[instruction.handle]
            yield from self._settled([meeting])
            self.compute = max(self.compute, meeting.ends[self.rank])
            self._span("wait", WAIT_CALL_NS * self.effect.host, instruction.phase)
        elif isinstance(instruction, Load):
            self._span("load", LOAD_NS * self.effect.host * self.chance.call(1) + self.effect.load_ns)
        elif isinstance(instruction, Item):
            self._item()

    def _settled(self, meetings: list[Meeting]) -> Iterator[Meeting]:
        for meeting in meetings:
            while not meeting.ends:
                yield meeting

    def _communicate(self, call: Communicate) -> Iterator[Meeting]:
        stream = call.stream
        if stream in self.last_on:
            yield from self._settled([self.last_on[stream]])
        group = self.groups[call.axis]
        meeting = self._meeting(call, group)
        scale = self.chance.call(call.slot) * self.effect.host
        ready = self.host + LAUNCH_AFTER_NS * scale + LATENCY_NS
        start = max(ready, self.compute + KERNEL_GAP_NS)
        if call.handle:
            free = self.last_on[stream].ends[self.rank] + KERNEL_GAP_NS if stream in self.last_on else 0.0
            start = max(start, free)
            self.last_on[stream] = meeting
            self.handles[call.handle] = meeting
        elements = round(call.elements * self.effect.data) if call.is_data else call.elements
        splits, weight = self._splits(call, group, meeting, elements)
        self.step.calls.append(Called(call, meeting, self.host, scale, splits, elements))
        self.host += CALL_NS * scale
        even_ns = self._transfers.get((call, elements))
        if even_ns is None:
            even_ns = self._transfers[(call, elements)] = self._transfer_ns(call, group, elements)
        transfer_ns = even_ns * weight * self.effect.link
        self.job.arrive(meeting, self.rank, start, transfer_ns)
        if not call.handle:
            yield from self._settled([meeting])
            self.compute = meeting.ends[self.rank]

    def _meeting(self, call: Communicate, group: Group) -> Meeting:
        key = group.name
        if call.towards:
            other = group.ranks[group.ranks.index(self.rank) + call.towards]
            source, target = (self.rank, other) if call.kind == "send" else (other, self.rank)
            key = f"{group.name} {source}->{target}"
        number = self.counts.get(key, 0)
        self.counts[key] = number + 1
        size = 2 if call.towards else len(group.ranks)
        found = self.job.meetings.get((key, number))
        if found is None:
            kind = "send_recv" if call.towards else call.kind
            found = self.job.meetings[(key, number)] = Meeting(group, kind, number, self.number, size, key)
        return found

    def _splits(
        self, call: Communicate, group: Group, meeting: Meeting, elements: int
    ) -> tuple[tuple[list[int], list[int]] | None, float]:
        """What this rank sends to and receives from each other one, and the larger sum over an even share."""
        if call.kind != "all_to_all":
            return None, 1.0
        size, mine = len(group.ranks), group.ranks.index(self.rank)
        loads = expert_loads(self.job.spec, group.ranks, self.number)
        data = np.array([self.job.effects[self.number][rank].data for rank in group.ranks])
        pairs = self.job.shared.routing(group.name, meeting.number // 2, size) * loads[None, :] * data[:, None]
        counts = np.rint(pairs * (call.elements / size)).astype(np.int64)
        if call.slot % 8 == 3:  # the results go back where the tokens came from
            counts = counts.T
        sent, received = counts[mine].tolist(), counts[:, mine].tolist()
        return (sent, received), max(sum(sent), sum(received)) / elements

    def _transfer_ns(self, call: Communicate, group: Group, elements: int) -> float:
        size = 2 if call.towards else len(group.ranks)
        per_host = self.job.spec.gpus_per_host
        ranks = (self.rank, group.ranks[group.ranks.index(self.rank) + call.towards]) if call.towards else group.ranks
        is_local = len({rank // per_host for rank in ranks}) == 1
        share = COLLECTIVE_KINDS[call.kind].link_share * (1.0 if call.towards else (size - 1) / size)
        return COLLECTIVE_LATENCY_NS + elements * ELEMENT_BYTES * share / BYTES_PER_NS[is_local]

    def _item(self) -> None:
        start = self.host
        launched = start + 20 * MICROSECOND * self.effect.host
        copy_start = max(launched + LATENCY_NS, self.compute + KERNEL_GAP_NS)
        self.compute = copy_start + COPY_NS
        self.host = self.compute + SYNC_RETURN_NS * self.effect.host
        self.step.spans.append(HostSpan("item", start, self.host, copy_start=copy_start))

    def _span(self, kind: str, duration_ns: float, phase: str = "forward") -> None:
        self.step.spans.append(HostSpan(kind, self.host, self.host + duration_ns, phase))
        self.host += duration_ns
