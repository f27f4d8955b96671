"""Makes `served.json.gz`: the trace of a made-up server, for the guide and its tests. Nothing in it was measured.

usage: make_served.py OUT.json.gz

A model on one of two GPUs decodes 32 requests every 8 ms and marks its passes as vLLM does: products, attention, a
collective per half of the layers, the choice of tokens, for which the host waits. Every 20th pass is a prompt of 2,048
tokens instead, two passes are launched late, one collective waits for the other GPU, and the recording begins while
requests still arrive.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

Event = dict[str, Any]
PASSES = 104
KERNELS = (
    # name, µs in decode, µs in prefill
    ("nvjet_sm90_tst_128x64_64x10_1x2_h_bz_TNT", 2400, 36000),
    ("flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>", 1500, 4000),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)", 600, 2500),
    ("nvjet_sm90_tst_64x32_64x14_1x1_h_bz_TNT", 1800, 24000),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)", 600, 2500),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>", 500, 500),
)
CHOICE = len(KERNELS) - 1
LATE, SLOW_COLLECTIVE = (50, 77), 66


def event(category: str, name: str, start: float, duration: float, process: int, thread: int, **args: Any) -> Event:
    place = {"pid": process, "tid": thread}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, **place, "args": args}


def mark_of(number: int) -> tuple[str, bool]:
    requests = min(32, 2 + 6 * number)
    if number % 20 == 0:
        return "execute_context_1(2048)_generation_0(0)", True
    return f"execute_context_0(0)_generation_{requests}({requests})", False


def one_pass(number: int, now: float) -> tuple[list[Event], float]:
    """The events of a pass whose GPU work can begin now, and when it ends."""
    name, is_prompt = mark_of(number)
    begin = now + (4000.0 if number in LATE else 700.0)
    host = [event("user_annotation", name, begin - 60, 260, 1, 1)]
    start, gpu = begin, []
    for place, (kernel, in_decode, in_prefill) in enumerate(KERNELS):
        correlation = number * len(KERNELS) + place + 1
        duration = float(in_prefill if is_prompt else in_decode)
        if number == SLOW_COLLECTIVE and place == 2:
            duration += 5000
        launched = begin - 50 + 25 * place
        if place == CHOICE:
            host.append(event("cpu_op", "aten::argmax", launched - 2, 12, 1, 1))
        host.append(event("cuda_runtime", "cudaLaunchKernel", launched, 5, 1, 1, correlation=correlation))
        start = max(start, launched + 4)
        own = {"device": 0, "stream": 7, "correlation": correlation}
        gpu.append(event("kernel", kernel, start, duration, 0, 7, **own))
        start += duration
    waits = begin - 50 + 25 * len(KERNELS)
    host.append(event("cuda_runtime", "cudaStreamSynchronize", waits, start - waits, 1, 1, correlation=0))
    return [*host, *gpu], start


def served() -> dict[str, Any]:
    events: list[Event] = []
    now = 0.0
    for number in range(PASSES):
        own, now = one_pass(number, now)
        events += own
    h200 = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_109_880_320, "computeMajor": 9, "numSms": 132}
    return {"schemaVersion": 1, "deviceProperties": [h200], "traceEvents": events}


def main() -> None:
    with gzip.GzipFile(sys.argv[1], "wb", mtime=0) as stream:
        stream.write(json.dumps(served(), separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
