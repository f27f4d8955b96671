"""What to simulate: the grid of ranks, the size of a rank and the faults that are planted."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
MICROSECOND = 1_000.0
MILLISECOND = 1_000_000.0


@dataclass(frozen=True)
class Group:
    """A process group: its name and ranks, as `distributedInfo` lists them."""

    name: str
    axis: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """Tensor, expert, data and pipeline parallel sizes; tensor-parallel neighbours have adjacent ranks.

    Gradients of dense layers are reduced over the data and the expert axis together.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    @property
    def world(self) -> int:
        return self.tp * self.pp * self.dp * self.ep

    def rank(self, tp: int, ep: int, dp: int, pp: int) -> int:
        return ((pp * self.dp + dp) * self.ep + ep) * self.tp + tp

    def place(self, rank: int) -> tuple[int, int, int, int]:
        """A rank's tensor, expert, data and pipeline index."""
        return (
            rank % self.tp,
            rank // self.tp % self.ep,
            rank // (self.tp * self.ep) % self.dp,
            rank // (self.tp * self.ep * self.dp),
        )

    def stage(self, rank: int) -> int:
        return self.place(rank)[3]

    def groups(self) -> list[Group]:
        """All process groups in the order in which a program makes them; those of one rank are left out."""
        tps, eps, dps, pps = range(self.tp), range(self.ep), range(self.dp), range(self.pp)
        axes: list[tuple[str, list[list[int]]]] = [
            ("tp", [[self.rank(t, e, d, p) for t in tps] for p in pps for d in dps for e in eps]),
            ("ep", [[self.rank(t, e, d, p) for e in eps] for p in pps for d in dps for t in tps]),
            ("dp", [[self.rank(t, e, d, p) for d in dps for e in eps] for p in pps for t in tps]),
            ("pp_forward", [[self.rank(t, e, d, p) for p in pps] for d in dps for e in eps for t in tps]),
            ("pp_backward", [[self.rank(t, e, d, p) for p in pps] for d in dps for e in eps for t in tps]),
        ]
        found = [Group("0", "world", tuple(range(self.world)))]
        for axis, rank_lists in axes:
            for ranks in rank_lists:
                if len(ranks) > 1:
                    found.append(Group(str(len(found)), axis, tuple(ranks)))
        return found


# What each kind of fault is called in the table `stragglers`; clocks, missing ranks and missing metadata cost nothing.
CAUSES = {
    "slow_gpu": "GPU",
    "slow_link": "network",
    "gc": "host",
    "late_data": "data",
    "uneven_data": "imbalance",
    "uneven_stage": "imbalance",
    "hot_expert": "imbalance",
    "slow_host": "host",
    "late_start": "host",
    "clock": "",
    "missing": "",
    "no_metadata": "",
}
DEFAULTS: dict[str, dict[str, float]] = {
    "slow_gpu": {"factor": 1.3},
    "slow_link": {"factor": 3.0},
    "gc": {"ms": 30.0, "every": 2},
    "late_data": {"ms": 20.0},
    "uneven_data": {"factor": 1.5, "spread": 0.0},
    "uneven_stage": {"stage": 1, "layers": 2},
    "hot_expert": {"factor": 1.6},
    "slow_host": {"factor": 3.0, "host": -1},
    "late_start": {"ms": 8.0},
    "clock": {"offset_ms": 50.0, "drift_ppm": 100.0},
    "missing": {},
    "no_metadata": {},
}


@dataclass(frozen=True)
class Fault:
    """One planted fault: `slow_gpu:rank=3,since=4,factor=1.3`."""

    kind: str
    rank: int = 0
    since: int = 0
    until: int = sys.maxsize  # the first step without it
    values: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, DEFAULTS[self.kind][name])

    @classmethod
    def parse(cls, text: str) -> Fault:
        kind, _, rest = text.partition(":")
        if kind not in CAUSES:
            raise ValueError(f"not a fault: {kind}; known are {', '.join(CAUSES)}")
        values = {name: float(value) for name, _, value in (part.partition("=") for part in rest.split(",") if part)}
        unknown = values.keys() - {"rank", "since", "until", *DEFAULTS[kind]}
        if unknown:
            raise ValueError(f"{kind} has no value {', '.join(sorted(unknown))}")
        until = int(values.pop("until", sys.maxsize))
        return cls(kind, int(values.pop("rank", 0)), int(values.pop("since", 0)), until, values)

    def is_on(self, step: int) -> bool:
        return self.since <= step < self.until


@dataclass(frozen=True)
class JobSpec:
    """A job to simulate. Sizes are per rank; times in the real rank's units unless named otherwise."""

    grid: Grid = field(default_factory=Grid)
    steps: int = 6
    first_step: int = 2
    events: int = 1_000
    layers: int = 4
    microbatches: int = 0  # 0: two per stage in a pipeline, else one
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    base: Path = SAMPLE
    sharded: bool = False  # data parallel by all-gather and reduce-scatter (FSDP) instead of gradient buckets (DDP)
    sync: bool = True  # loss.item() at the end of each step
    loader: bool = True
    modules: bool = True
    seq: bool = False
    gpus_per_host: int = 8
    host_share: float = 0.6  # a step's host time over its GPU time, at most; kernels are stretched to keep it
    noise: float = 1.0  # over the usual spread of kernels, host ops and transfers
    layer_elements: int = 7_077_888
    activation_elements: int = 6_291_456

    def __post_init__(self) -> None:
        world = self.grid.world
        for fault in self.faults:
            if not 0 <= fault.rank < world:
                raise ValueError(f"{fault.kind}: rank {fault.rank} is not below {world}")
            if fault.kind == "uneven_stage" and not 0 <= fault["stage"] < self.grid.pp:
                raise ValueError(f"uneven_stage: stage {fault['stage']:.0f} is not below {self.grid.pp}")
            if fault.kind == "hot_expert" and fault["factor"] >= self.grid.ep:
                raise ValueError(f"hot_expert: factor {fault['factor']:g} is not below ep, which is {self.grid.ep}")

    @property
    def batches(self) -> int:
        return self.microbatches or (2 * self.grid.pp if self.grid.pp > 1 else 1)

    def without(self, fault: Fault | None = None) -> JobSpec:
        """The same job and noise without one fault, or without any."""
        kept = () if fault is None else tuple(each for each in self.faults if each is not fault)
        return replace(self, faults=kept)

    def faulty_ranks(self, fault: Fault) -> tuple[int, ...]:
        """The ranks that a fault slows."""
        if fault.kind == "uneven_stage":
            return tuple(rank for rank in range(self.grid.world) if self.grid.stage(rank) == fault["stage"])
        if fault.kind == "slow_host" and fault["host"] >= 0:
            first = int(fault["host"]) * self.gpus_per_host
            return tuple(range(first, min(first + self.gpus_per_host, self.grid.world)))
        if fault.kind in ("clock", "no_metadata") or (fault.kind == "uneven_data" and fault["spread"]):
            return tuple(range(self.grid.world))
        mine = self.grid.place(fault.rank)
        if fault.kind == "uneven_data":  # all that work on one batch: its tensor-parallel ranks in every stage
            return tuple(rank for rank in range(self.grid.world) if self.grid.place(rank)[1:3] == mine[1:3])
        if fault.kind == "hot_expert":  # the tensor-parallel shards of one expert
            return tuple(rank for rank in range(self.grid.world) if self.grid.place(rank)[1:] == mine[1:])
        return (fault.rank,)
