"""Traces made by hand for the tests of findings: work on an H200, laid out so that figures are easy to work out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import warplens
from support import annotation, frame, kernel, launch, op
from warplens.advice import NEEDED_TABLES, SERVING_TABLES, find
from warplens.model.finding import Finding

Event = dict[str, Any]
BF16 = "c10::BFloat16"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
LEGACY_GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x1_tn"
PLAIN_GEMM = "ampere_sgemm_128x64_tn"
TF32_GEMM = "cutlass_80_tensorop_s1688tf32gemm_256x128_16x4_tn_align4"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false>(int)"
TRANSPOSE = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"
NAMELESS = "zzqx_v7"
LINE = "train.py(4): step"
PLACE = "train.py:4 step"

BF16_TFLOPS, TF32_TFLOPS, MEMORY_TBPS, LINK_TBPS = 790.0, 409.0, 4.3, 0.063
"""What the table of GPUs says of an H200: measured, but for the link to the host."""
REACHABLE = 0.85
H200: Event = {
    "deviceProperties": [
        {
            "id": 0,
            "name": "NVIDIA H200",
            "totalGlobalMem": 150_109_880_320,
            "computeMajor": 9,
            "computeMinor": 0,
            "numSms": 132,
            "warpSize": 32,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerMultiprocessor": 65536,
            "sharedMemPerMultiprocessor": 233472,
        }
    ]
}


def rule_findings(profile: warplens.Profile) -> list[Finding]:
    """What the rules find in the tables, with gains as the tables have them: before the step is simulated."""
    served = [name for name in SERVING_TABLES if name in profile.table_names]
    tables = {name: profile.table(name) for name in (*NEEDED_TABLES, *served)}
    return find(tables, profile.min_gain_percent, profile.trace.meta.format)


def by_code(profile: warplens.Profile) -> dict[str, Finding]:
    """The same by code, of a trace that has each at most once."""
    findings = rule_findings(profile)
    assert len({finding.code for finding in findings}) == len(findings)
    return {finding.code: finding for finding in findings}


def rows_gain_ms(finding: Finding) -> float:
    return sum(row.gain_ms for row in finding.rows)


def inputs(*shapes: list[int], dtype: str = BF16, types: list[str] | None = None) -> Event:
    """The recorded arguments of an op; [] stands for a scalar."""
    return {
        "Input Dims": list(shapes),
        "Input type": types or [dtype if shape else "Scalar" for shape in shapes],
        "Concrete Inputs": [""] * len(shapes),
    }


def geometry(blocks: int, threads: int = 256, registers: int = 168) -> Event:
    """256 threads of 168 registers: one block on each multiprocessor."""
    return {
        "grid": [blocks, 1, 1],
        "block": [threads, 1, 1],
        "registers per thread": registers,
        "shared memory": 0,
    }


@dataclass(frozen=True)
class Call:
    """An op that launches one kernel."""

    op: str
    kernel: str
    dur: float
    args: Event = field(default_factory=dict)
    kernel_args: Event = field(default_factory=dict)


def product(dur: float, m: int, n: int, k: int, *, kernel: str = GEMM, dtype: str = BF16) -> Call:
    return Call("aten::mm", kernel, dur, inputs([m, k], [k, n], dtype=dtype))


def elementwise(name: str, dur: float, *shapes: list[int]) -> Call:
    return Call(f"aten::{name}", ELEMENTWISE, dur, inputs(*shapes))


def cast(dur: float, elements: int, source: str, target: str) -> Call:
    return Call("aten::copy_", ELEMENTWISE, dur, inputs([elements], [elements], [], types=[target, source, "Scalar"]))


def filler(dur: float) -> Call:
    """GPU time that no rule has anything to say about."""
    return Call("mine::work", GEMM, dur)


def back_to_back(*calls: Call, line: str = LINE, ts: float = 0, first: int = 1) -> list[Event]:
    """Everything is launched before the GPU begins, so that it is never idle; the ops are 10 µs apart on the host."""
    begin = ts + 10 * len(calls)
    events = [frame(line, ts, begin - ts)] if line else []
    for place, call in enumerate(calls):
        at = ts + 10 * place
        events += [op(call.op, at + 1, 8, **call.args), launch(at + 3, 2, first + place)]
        events.append(kernel(call.kernel, begin, call.dur, first + place, **call.kernel_args))
        begin += call.dur
    return events


def waits(gaps: Iterable[float], *, dur: float = 100, host: str = "aten::mm", name: str = GEMM) -> list[Event]:
    """Kernels of one length; before each but the first the GPU waits, because its launch comes that late."""
    lengths = list(gaps)
    events = [frame(LINE, 0, 20 + sum(lengths) + (1 + len(lengths)) * dur), op(host, 1, 5), launch(2, 1, 1)]
    events.append(kernel(name, 10, dur, 1))
    end = 10 + dur
    for place, gap in enumerate(lengths):
        events += [op(host, end + gap - 6, 5), launch(end + gap - 4, 2, 2 + place)]
        events.append(kernel(name, end + gap, dur, 2 + place))
        end += gap + dur
    return events


def call(name: str, ts: float, dur: float) -> Event:
    """A call of the runtime that launches nothing."""
    return launch(ts, dur, 0, name=name)


def step_marks(*edges: float) -> list[Event]:
    return [
        annotation(f"ProfilerStep#{number}", start, end - start) for number, (start, end) in enumerate(pairwise(edges))
    ]
