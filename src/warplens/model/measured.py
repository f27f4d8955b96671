"""What a profile measured of kernels: their times by name and launch, the work they did, and samples by source line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ISSUED = "selected"
"""Among the states of a sampled warp the one that is not a wait: it issued an instruction."""
STALL_MEANINGS: Final = {
    ISSUED: "issued an instruction: no stall",
    "barrier": "waits for other warps of the block at a barrier",
    "branch_resolving": "waits for a branch's target",
    "dispatch_stall": "held back by the dispatcher",
    "drain": "has ended and waits for its stores to leave",
    "gmma": "waits for a warp-group matrix product",
    "imc_miss": "waits for a constant that is not in the cache",
    "lg_throttle": "too many loads and stores of global or local memory are queued",
    "long_scoreboard": "waits for data from global, local or texture memory",
    "math_pipe_throttle": "waits for an arithmetic unit that is busy",
    "membar": "waits at a memory fence",
    "mio_throttle": "too many shared-memory, special-function or similar instructions are queued",
    "misc": "other reasons",
    "no_instruction": "waits for instructions to be fetched",
    "not_selected": "ready, but another warp was issued: there are warps enough",
    "short_scoreboard": "waits for data from shared memory or a special function",
    "sleeping": "sleeps by its own wish",
    "tex_throttle": "too many texture instructions are queued",
    "wait": "waits a fixed number of cycles for its previous instruction",
}


@dataclass(frozen=True)
class LineSamples:
    """Samples of the program counter on one line of a kernel's source; of the whole kernel where `file` is empty."""

    samples: int
    stalled: int
    """Those in which the warp waited, as the profiler counts them."""
    reasons: tuple[tuple[str, int], ...]
    """What it waited for, most first."""
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    """Its text, where that was recorded."""


@dataclass(frozen=True)
class MeasuredKernel:
    """The launches of one name and geometry. Absent geometry is empty or -1; amounts are sums over the launches."""

    name: str
    count: int
    total_ns: int
    grid: tuple[int, ...] = ()
    threads: int = -1
    """Of a block."""
    warps: int = -1
    stages: int = -1
    """Of Triton's pipeline; like `warps` only where the name contains it."""
    registers: int = -1
    shared_bytes: int = -1
    flop: tuple[tuple[str, float], ...] = ()
    """FLOPs by width ("8" to "64", "" where none is said), as the program's own metrics have them."""
    bytes: float = 0.0
    """As the program's own metrics have them."""
    dram_bytes: float = 0.0
    """Bytes that the GPU's counters saw."""
    samples: tuple[LineSamples, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The kernels of one profile."""

    source: str
    gpu: str = ""
    """The GPU as the table of hardware names it; empty where the profile does not name it."""
    architecture: str = ""
    """Of that GPU: "sm_90", "gfx942"."""
    gpu_ns: int = 0
    """Time of all GPU work."""
    kernels: tuple[MeasuredKernel, ...] = field(default=())
