"""`Answer`: what is concluded of what was opened. Outputs render it; none of them concludes for itself.

Parts that do not apply are empty. Certainty has four words: a number is *measured* (timed without the profiler, proved,
or a sum of recorded times), *simulated* (from recorded events through the step's graph), *estimated* (with a model of
what is not recorded), or we *cannot tell*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warplens.model.clock import ESTIMATED, MEASURED, Clock

SIMULATED: Final = "simulated"
CANNOT_TELL: Final = "cannot tell"
CERTAINTIES: Final = {
    MEASURED: "timed without the profiler, proved on a GPU, or a sum of recorded times",
    SIMULATED: "from recorded events through the graph of the step",
    ESTIMATED: "with a model of what is not recorded: what recording cost the host",
    CANNOT_TELL: "the recording does not say; what to record for it stands beside it",
}


FIELDS: Final = {
    "kind": "what was opened: trace, sums, job, memory, replay, kernel or diff",
    "opened": "what was opened, in a few parts: file, device, format, size",
    "certainty": "how sure it is: one of four words, which the topic answer lists",
    "bound": "what limits the step in a word or two; empty where that is not known",
    "clock": "how long one step takes without the profiler, between what, and how that is known (table step_time)",
    "compared": "of a diff: the clocks of A and of B",
    "parts": "where one step goes; they add up to the clock (table breakdown)",
    "parts_of": "of a job: the rank that the parts and kernels are of, which surely delays the others most, else "
    "has most work of its own (all ranks: table breakdown)",
    "savings": "what would be saved of a step at most if something took no time",
    "of": "what would take no time: GPU, host, communication or streams",
    "at_most_ms": "a bound: what would be saved of the longest step that fits",
    "warnings": "what affects the numbers: a damaged file, lost events",
    "limits": "what is not certain or cannot be said, and what to record for it",
    "next": "commands that can be run as they stand",
    "gain": "what a finding wins of one step: an interval, or a bound (≤); empty where nothing is known of it",
    "low_ms": "the least; of a gain that is a bound nothing is known of it",
    "high_ms": "the most",
    "is_upper_bound": "the gain may be anything up to high_ms",
}
"""Names of fields that no table has as columns, or that mean more here."""
KINDS: Final = {
    "trace": "a recording with a timeline",
    "sums": "times by call path or kernel, without a timeline",
    "job": "traces of many ranks as one run",
    "memory": "a snapshot of who holds GPU memory",
    "replay": "kernels of a trace that were run alone",
    "kernel": "what was found of a kernel without running the program",
    "diff": "two of a kind, compared",
    "step": "what the program marks: the work of one iteration",
    "pass": "a step of a served model: one forward pass",
    "run": "all that was recorded, where no steps are marked",
    "host": "the CPU's side of the program",
    "GPU": "kernels, copies and memsets, on all GPUs of the trace",
    "GPU busy": "computation, communication or copies run: the share of the step in which any GPU works",
    "communication": "collectives and transfers between GPUs",
    "streams": "waits of GPU streams for each other",
}
"""Kinds of what is opened, what a clock is of, and what a bound takes away."""


NO_GAIN: Final = "no gain in step time"
LEAST_SAVING: Final = 0.001
"""Of the step: a bound below this is called nothing; it is what the simulation rounds away."""


@dataclass(frozen=True)
class Part:
    """A row of `breakdown`: a part of one step."""

    part: str
    cause: str
    time_ms: float
    percent: float
    place: str = ""
    place_ms: float | None = None
    low_ms: float = 0.0
    """In the shortest step that fits: idle time by its share of what is left beside the GPU's work."""
    high_ms: float = 0.0
    """In the longest."""


@dataclass(frozen=True)
class AnsweredKernel:
    """A kernel that an op launches, as a share of the part of the step that its category is."""

    kernel: str
    op: str
    time_ms: float
    percent: float
    count: int
    """GPU events in one step; in the recording where no steps are marked."""


@dataclass(frozen=True)
class Saving:
    """A bound: what would be saved of a step if something took no time at all."""

    of: str
    """GPU, host, communication or streams."""
    at_most_ms: float


@dataclass(frozen=True)
class AnsweredFinding:
    """A finding with its gain: an interval, or a bound."""

    code: str
    title: str
    gain: str
    """In words; empty where nothing is known of it."""
    place: str
    advice: str
    certainty: str
    gain_ms: float = 0.0
    low_ms: float | None = None
    high_ms: float | None = None
    is_upper_bound: bool = False
    proof: str = ""

    @property
    def wins(self) -> bool:
        """Whether time of the step, or memory, is expected to be won: what wins neither takes no place on a screen."""
        return bool(self.gain) and not self.gain.startswith(NO_GAIN)


@dataclass(frozen=True)
class Answer:
    kind: str
    """trace, sums, job, memory, replay, kernel or diff."""
    opened: tuple[str, ...]
    """What it is, in a few parts: file, device, format, size."""
    verdict: str
    """Two short sentences at most."""
    certainty: str = MEASURED
    """Of the verdict."""
    bound: str = ""
    """What limits the step in a word or two; empty where that is not known."""
    clock: Clock | None = None
    compared: tuple[Clock, ...] = ()
    """Of a diff: the steps of A and of B."""
    parts: tuple[Part, ...] = ()
    """Where one step goes; they add up to the clock."""
    parts_of: str = ""
    """Whose step that is, where several have parts of their own: a rank of a job."""
    kernels: tuple[AnsweredKernel, ...] = ()
    """Those that take most of the step; no sum of them exceeds the parts that they belong to."""
    savings: tuple[Saving, ...] = ()
    findings: tuple[AnsweredFinding, ...] = ()
    warnings: tuple[str, ...] = ()
    """What affects the numbers: a damaged file, lost events."""
    limits: tuple[str, ...] = ()
    """What is not certain or cannot be said, and what to record for it."""
    next: tuple[str, ...] = ()
    """Commands that can be run as they stand."""

    @property
    def largest(self) -> tuple[Part, ...]:
        """The parts by their time."""
        return tuple(sorted(self.parts, key=lambda part: -part.time_ms))
