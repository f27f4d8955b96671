"""What a device reaches at best: matrix products, memory, vector arithmetic, copies to and from the host.

usage: gpu_ceilings.py --out DIR [--device cuda|cpu] [--tiny]

Matrix products are measured twice: in short bursts on a rested device, the clocks that a step with other work between
its products sees, and sustained, under half a second of nothing else. Writes DIR/ceilings.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_run import NeedsCudaError, Run, Step, attempt, need_triton, tf32, versions, warm

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BURSTS = 12
REST_S = 0.25


if triton is not None:

    @triton.jit
    def fma_chain(out, rounds, factor, shift, block: tl.constexpr):
        """Nothing but fused multiply-adds; the store only keeps the compiler from dropping them."""
        at = tl.program_id(0) * block + tl.arange(0, block)
        x = at.to(tl.float32)
        for _ in range(rounds):
            x = x * factor + shift
            x = x * factor + shift
            x = x * factor + shift
            x = x * factor + shift
        tl.store(out + at, x)


def burst_ms(run: Run, call: Step, calls: int = 3) -> float:
    """Median time of one call in short bursts after a rest, at the clocks of a device that is not yet hot."""
    for _ in range(2):
        call()
    times = []
    for _ in range(BURSTS):
        run.sync()
        time.sleep(0.0 if run.tiny else REST_S)
        call()
        first = run.mark()
        for _ in range(calls):
            call()
        last = run.mark()
        run.sync()
        times.append(run.between_ms(first, last) / calls)
    return statistics.median(times)


def median_ms(run: Run, call: Step, repeat: int = 15) -> float:
    """Median time of one call, at the clocks the device holds under half a second of the same load."""
    warm(run, call)
    spans = []
    for _ in range(repeat):
        first = run.mark()
        call()
        spans.append((first, run.mark()))
    run.sync()
    return statistics.median(run.between_ms(a, b) for a, b in spans)


def product(run: Run, kind: str, m: int, n: int, k: int) -> Step:
    """A product of the kind on random data, the second operand column-major where the kind asks for it."""
    if kind.startswith("fp8"):
        a = run.randn(m, k).to(torch.float8_e4m3fn)
        b = run.randn(n, k).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=run.device)
        fast = kind.endswith("fast")
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    if kind == "int8":
        a = torch.randint(-127, 128, (m, k), dtype=torch.int8, device=run.device)
        b = torch.randint(-127, 128, (n, k), dtype=torch.int8, device=run.device).t()
        return lambda: torch._int_mm(a, b)
    names = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
    dtype = names.get(kind, torch.float32)
    a, b = run.randn(m, k, dtype=dtype), run.randn(k, n, dtype=dtype)

    def multiply() -> Tensor:
        with tf32(kind == "tf32"):
            return a @ b

    return multiply


def product_rate(run: Run, kind: str, m: int, n: int, k: int) -> dict[str, Any]:
    call = product(run, kind, m, n, k)
    ms, sustained_ms = burst_ms(run, call), median_ms(run, call)
    rate = 2 * m * n * k / 1e9
    unit = "TOP/s" if kind == "int8" else "TFLOP/s"
    return {"ms": ms, "value": rate / ms, "sustained": rate / sustained_ms, "unit": unit}


def memory_rate(run: Run, kind: str) -> dict[str, Any]:
    """Bytes that must cross the memory bus, over the time they take, on tensors far above the cache."""
    count = run.size(2**30, 2**16)
    x = run.randn(count, dtype=torch.float32)
    y = run.randn(count, dtype=torch.float32)
    calls: dict[str, tuple[Step, int]] = {
        "copy": (lambda: y.copy_(x), 2),
        "scale (kernel copy)": (lambda: torch.mul(x, 2.0, out=y), 2),
        "read (sum)": (lambda: x.sum(), 1),
        "write (fill)": (lambda: y.fill_(1.0), 1),
        "add in place": (lambda: y.add_(x), 3),
    }
    call, passes = calls[kind]
    ms = median_ms(run, call)
    return {"ms": ms, "value": passes * count * 4 / ms / 1e6, "unit": "GB/s"}


def host_rate(run: Run, pinned: bool, upward: bool) -> dict[str, Any]:
    """One way between host and device; 256 MiB."""
    if not run.cuda:
        raise NeedsCudaError("needs a CUDA device")
    count = run.size(2**28, 2**16)
    host = torch.randint(0, 255, (count,), dtype=torch.uint8, pin_memory=pinned)
    device = torch.randint(0, 255, (count,), dtype=torch.uint8, device=run.device)
    target, source = (device, host) if upward else (host, device)
    ms = median_ms(run, lambda: target.copy_(source, non_blocking=pinned))
    return {"ms": ms, "value": count / ms / 1e6, "unit": "GB/s"}


def vector_rate(run: Run) -> dict[str, Any]:
    """fp32 multiply-adds outside the tensor cores, two operations each."""
    programs, block, rounds = need_triton(run) * 64, 2048, 4096
    out = torch.empty(programs * block, device=run.device)
    ms = median_ms(run, lambda: fma_chain[(programs,)](out, rounds, 0.999, 0.001, block=block, num_warps=4))
    return {"ms": ms, "value": 2 * 4 * rounds * programs * block / ms / 1e9, "unit": "TFLOP/s"}


def ceiling_calls(run: Run) -> dict[str, Callable[[], dict[str, Any]]]:
    big = run.size(8192, 64)
    calls: dict[str, Callable[[], dict[str, Any]]] = {}
    for kind in ("bf16", "fp16", "fp8 e4m3 fast", "fp8 e4m3", "int8", "tf32", "fp32", "fp64"):
        calls[f"{kind} {big}³"] = functools.partial(product_rate, run, kind, big, big, big)
    calls["fp32 FMA (vector)"] = functools.partial(vector_rate, run)
    for kind in ("copy", "scale (kernel copy)", "read (sum)", "write (fill)", "add in place"):
        calls[f"memory {kind}"] = functools.partial(memory_rate, run, kind)
    for pinned in (True, False):
        for upward in (True, False):
            name = f"{'pinned' if pinned else 'pageable'} {'H2D' if upward else 'D2H'}"
            calls[name] = functools.partial(host_rate, run, pinned, upward)
    return calls


def run_ceilings(run: Run, folder: Path) -> None:
    found: dict[str, Any] = {**versions(run), "ceilings": {}}
    print(f"{'ceiling':36}{'ms':>10}{'value':>12}  unit")
    for name, call in ceiling_calls(run).items():
        result, status = attempt(run, call)
        if result is None:
            found["ceilings"][name] = {"status": status}
            print(f"{name:36}{'–':>10}{'–':>12}  {status[:80]}", flush=True)
        else:
            found["ceilings"][name] = result
            sustained = f", sustained {result['sustained']:.1f}" if "sustained" in result else ""
            print(f"{name:36}{result['ms']:10.3f}{result['value']:12.1f}  {result['unit']}{sustained}", flush=True)
    (folder / "ceilings.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    run_ceilings(Run(options.device, options.tiny), options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
