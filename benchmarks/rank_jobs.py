"""The jobs that gpu_ranks.py records: which program, on how many ranks, of which size, with which fault."""

from __future__ import annotations

from dataclasses import dataclass, replace

WAIT, WARMUP, ACTIVE = 1, 2, 8
FIRST = WAIT + WARMUP
"""The number of the first recorded step, as in `ProfilerStep#3`."""
HOST_MS, GPU_MS = 40.0, 20.0


@dataclass(frozen=True)
class Sizes:
    """`expansion` is the width of a block's hidden layer over the model's, `microbatches` those of a pipeline.

    Pipelines have no attention: their many microbatches would make traces large.
    """

    width: int
    blocks: int
    batch: int
    length: int
    expansion: int = 4
    microbatches: int = 1
    has_attention: bool = True


@dataclass(frozen=True)
class Fault:
    """`kind`: host, gpu, late_data, uneven_data, uneven_stage, hot_expert or none; `amount` is ms, or a factor.

    `cause` is what a report of the job should name.
    """

    kind: str = "none"
    rank: int = -1
    amount: float = 0.0
    cause: str | None = None


@dataclass(frozen=True)
class Job:
    """`since` is the first step with the fault; `recorder` is torch's profiler, or warplens for capture bundles."""

    program: str
    ranks: int
    fault: Fault = Fault()
    since: int = FIRST
    stacks: bool = False
    recorder: str = "torch"


def host(rank: int) -> Fault:
    return Fault("host", rank, HOST_MS, "host")


def gpu(rank: int) -> Fault:
    return Fault("gpu", rank, GPU_MS, "gpu")


JOBS = {
    "ddp8_gpu": Job("ddp", 8, gpu(5), since=7),
    "ddp8_healthy": Job("ddp", 8),
    "ddp4_healthy": Job("ddp", 4),
    "ddp4_host": Job("ddp", 4, host(2), since=7, stacks=True),
    "ddp4_late_data": Job("ddp", 4, Fault("late_data", 3, HOST_MS, "data"), since=6, stacks=True),
    "ddp4_uneven_data": Job("ddp", 4, Fault("uneven_data", 0, 3, "imbalance")),
    "fsdp4_healthy": Job("fsdp", 4),
    "fsdp4_gpu": Job("fsdp", 4, gpu(1), since=8),
    "tp4_host": Job("tp", 4, host(3), since=5),
    "pp4_healthy": Job("pp", 4),
    "pp4_uneven_stage": Job("pp", 4, Fault("uneven_stage", 1, 3, "imbalance")),
    "a2a4_healthy": Job("a2a", 4),
    "a2a4_hot_expert": Job("a2a", 4, Fault("hot_expert", 2, 7, "imbalance")),
    "ddp4_bundle": Job("ddp", 4, host(1), since=6, recorder="warplens"),
    "grid4_gpu": Job("grid", 4, gpu(2), since=7),
}

SIZES = {
    "ddp": Sizes(width=256, blocks=2, batch=8, length=1024),
    "fsdp": Sizes(width=256, blocks=2, batch=8, length=1024),
    "tp": Sizes(width=256, blocks=2, batch=4, length=256),
    "grid": Sizes(width=256, blocks=2, batch=4, length=256),
    # Few bytes are sent and many products made, so that the stages differ by more than the GPU's time slices of 2 ms.
    "pp": Sizes(width=512, blocks=1, batch=1, length=1024, expansion=64, microbatches=6, has_attention=False),
    "a2a": Sizes(width=256, blocks=2, batch=4, length=1024, expansion=64),
}
TINY = {
    program: replace(size, width=256, batch=1, length=8, expansion=1, microbatches=min(size.microbatches, 2))
    for program, size in SIZES.items()
}
