"""`Overview`: what the head of a page has besides the Answer: how well the GPU and its memory are used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Overview:
    """None for what the trace does not give."""

    model_tflop: float | None = None
    """Floating-point operations that the ops of one step ask for, in units of 10¹²."""
    peak_tflops: float | None = None
    """Peak rate of the GPUs that worked, for most of the matrix products."""
    peak_of: str = ""
    """What that is the peak of: a unit and a number type, as in `matrix bf16`."""
    costed_percent: float | None = None
    """Share of the GPU time whose operations are known."""
    mfu_percent: float | None = None
    """Model FLOP/s over the peak (model FLOPs utilisation), of the step as the clock has it."""
    memory_peak_bytes: int | None = None
    """The most that tensors held on one GPU at any moment of the recording."""
    memory_capacity_bytes: int | None = None
    """The memory of that GPU."""
