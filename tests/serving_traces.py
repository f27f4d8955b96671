"""Traces of served models, made by hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from support import annotation, kernel, launch, op
from warplens.model.iteration_marks import IterationMark, parse_mark

Event = dict[str, Any]
GEMM = "ampere_fp16_s16816gemm_fp16_128x64_tn"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


@dataclass(frozen=True)
class Work:
    """A kernel of every pass, and the op that launches it."""

    kernel: str
    time: float
    op: str = ""
    args: Event = field(default_factory=dict)


def vllm(prefill: int = 0, tokens: int = 0, decode: int = 0) -> str:
    return f"execute_context_{prefill}({tokens})_generation_{decode}({decode})"


def mark(name: str) -> IterationMark:
    parsed = parse_mark(name)
    assert parsed is not None
    return parsed


def asynchronous() -> list[Event]:
    """A prefill whose GPU work the host does not wait for, a decode launched meanwhile, and one after a pause."""
    passes = [(vllm(1, 500), 0, 50, 1000), (vllm(decode=1), 100, 1050, 100), (vllm(decode=1), 1300, 1400, 100)]
    events: list[Event] = []
    for number, (name, begin, gpu_begin, duration) in enumerate(passes, start=1):
        events += [annotation(name, begin, 80), launch(begin + 10, 5, number)]
        events.append(kernel(GEMM, gpu_begin, duration, number))
    return events


def decode_loop(
    count: int,
    *,
    prompts_at: Collection[int],
    mixed_at: int = -1,
    growing: int = 0,
    late_at: int = -1,
    slow_collective_at: int = -1,
) -> list[Event]:
    """Passes of 32 requests every 0.2 ms: 100 µs of products and 50 µs of a collective, launched in time.

    Prompts take 1.1 ms; of the first `growing` passes each has more requests than the one before.
    """
    events: list[Event] = []
    now = 0.0
    for number in range(count):
        is_prompt, is_mixed = number in prompts_at, number == mixed_at
        requests = 1 + number if number < growing else 32
        late = 300.0 if number == late_at else 0.0
        product = 1000.0 if is_prompt or is_mixed else 100.0
        collective = 400.0 if number == slow_collective_at else 50.0
        name = vllm(1, 1024) if is_prompt else vllm(1, 1024, requests) if is_mixed else vllm(decode=requests)
        begin = now + late
        correlation = 2 * number + 1
        events += [
            annotation(name, begin, 40),
            launch(begin + 5, 2, correlation),
            launch(begin + 10, 2, correlation + 1),
        ]
        start = begin + 50
        events.append(kernel(GEMM, start, product, correlation))
        events.append(kernel(ALL_REDUCE, start + product, collective, correlation + 1))
        now = start + product + collective
    return events


def generate_loop(count: int, *, shapes: bool) -> list[Event]:
    """A loop that generates without marks: an embedding, attention, and the choice of a token per pass."""
    events: list[Event] = []
    for number in range(count):
        begin, product = 1000.0 * number, 400.0 if number == 0 else 100.0
        dims: Event = {"Input Dims": [[1000, 64], [2, 32 if number == 0 else 1], [], [], []]} if shapes else {}
        events += [op("aten::embedding", begin, 10, **dims), op("aten::scaled_dot_product_attention", begin + 20, 30)]
        events += [launch(begin + 25, 2, number + 1), kernel(GEMM, begin + 60, product, number + 1)]
        events.append(op("aten::argmax", begin + 600, 10))
    return events


def passes(names: Sequence[str], *works: Work, gap: float = 2) -> list[Event]:
    """Passes one after the other, each of which launches the same kernels ahead of time."""
    events: list[Event] = []
    now, number = 1000.0, 0
    for name in names:
        host = now - 500
        events.append(annotation(name, host, 50 * (len(works) + 1)))
        for place, work in enumerate(works):
            number += 1
            begin = host + 50 * place
            events += [op(work.op, begin, 20, **work.args)] if work.op else []
            events += [launch(begin + 5, 2, number), kernel(work.kernel, now, work.time, number)]
            now += work.time
        now += gap
    return events
