"""`Overview`: a trace in a few numbers, as they stand at the head of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Overview:
    """Times are of a step, or of the whole trace where no steps are marked; None for what the trace does not give.

    The recorded times contain the profiler's own cost, the others do not (docs/concepts/step-graph.md).
    """

    is_step: bool
    recorded_ms: float | None = None
    plain_ms: float | None = None
    """Without the profiler: given, measured or simulated; None where the last would be doubtful."""
    plain_origin: str = ""
    """How the plain time is known."""
    fast_gpu_ms: float | None = None
    """The same if GPU work took no time at all."""
    fast_host_ms: float | None = None
    """The same if the host took no time at all."""
    bound: str = ""
    """What limits the plain time, as in `GPU-bound`; empty where it was not simulated."""
    busy_percent: float | None = None
    """Share of the recorded time in which the GPU worked."""
    plain_busy_percent: float | None = None
    """The same time of the GPU as a share of the plain step; a run without steps begins and ends on the host."""
    model_tflop: float | None = None
    """Floating-point operations that the ops ask for, in units of 10¹²."""
    peak_tflops: float | None = None
    """Peak rate of the GPUs that worked, for most of the matrix products."""
    peak_of: str = ""
    """What that is the peak of: a unit and a number type, as in `matrix bf16`."""
    costed_percent: float | None = None
    """Share of the GPU time whose operations are known."""
    mfu_percent: float | None = None
    """Model FLOP/s over the peak (model FLOPs utilisation), of the plain time where that is known."""
    memory_peak_bytes: int | None = None
    """The most that tensors held on one GPU at any moment of the recording."""
    memory_capacity_bytes: int | None = None
    """The memory of that GPU."""
    gains_of_ms: float | None = None
    """What percentages of gains are shares of."""
    gains_are_simulated: bool = False
    """Gains are then time of the step without the profiler."""
