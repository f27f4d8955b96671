"""What fused attention reaches on a device, by back-end, number type, width of a head, length and pass.

usage: gpu_attention.py --out DIR [--device cuda|cpu] [--tiny]

The rates count what `warplens.costs.attention` counts: two products forward, four backward, without the softmax; a
causal mask halves them. Short bursts: the clocks that a step with other work sees. Writes DIR/attention.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_run import Run, attempt, tf32, versions

TOKENS = 64 * 1024
"""Of all batches together, for heads of width 64: enough blocks for any GPU at every length."""
HEADS = 16
KINDS = {
    # name: back-end, number type, whether TF32 is allowed
    "flash bf16": (SDPBackend.FLASH_ATTENTION, torch.bfloat16, False),
    "flash fp16": (SDPBackend.FLASH_ATTENTION, torch.float16, False),
    "cudnn bf16": (SDPBackend.CUDNN_ATTENTION, torch.bfloat16, False),
    "cudnn fp16": (SDPBackend.CUDNN_ATTENTION, torch.float16, False),
    "efficient bf16": (SDPBackend.EFFICIENT_ATTENTION, torch.bfloat16, False),
    "efficient fp32": (SDPBackend.EFFICIENT_ATTENTION, torch.float32, False),
    "efficient fp32 with TF32": (SDPBackend.EFFICIENT_ATTENTION, torch.float32, True),
    "chosen bf16": (None, torch.bfloat16, False),
    "chosen fp32": (None, torch.float32, False),
    "chosen fp32 with TF32": (None, torch.float32, True),
}
WIDTHS = (32, 64, 128, 256)
LENGTHS = (128, 256, 512, 1024, 4096)


@contextmanager
def allowed(backend: SDPBackend | None) -> Iterator[None]:
    if backend is None:
        yield
    else:
        with sdpa_kernel(backend):
            yield


def times_ms(run: Run, call: Any, calls: int, bursts: int) -> float:
    """Median over bursts of one call's time."""
    call()
    run.sync()
    times = []
    for _ in range(bursts):
        first = run.mark()
        for _ in range(calls):
            call()
        last = run.mark()
        run.sync()
        times.append(run.between_ms(first, last) / calls)
    return statistics.median(times)


def rates(run: Run, kind: str, width: int, length: int, causal: bool) -> dict[str, Any]:
    backend, dtype, is_tf32 = KINDS[kind]
    batch = max(1, TOKENS * 64 // width // length // HEADS)
    shape = (batch, 2 if run.tiny else HEADS, length, width)
    q, k, v = (run.randn(*shape, dtype=dtype).requires_grad_() for _ in range(3))
    grad = run.randn(*shape, dtype=dtype)
    flop = 4 * shape[0] * shape[1] * length * length * width / (2 if causal else 1)
    with tf32(is_tf32), allowed(backend):
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        calls = 1 if run.tiny else 4

        def forward() -> None:
            functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def backward() -> None:
            torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

        forward_ms, backward_ms = (times_ms(run, call, calls, 3 if run.tiny else 7) for call in (forward, backward))
    return {
        "forward_ms": forward_ms,
        "backward_ms": backward_ms,
        "forward": flop / forward_ms / 1e9,
        "backward": 2 * flop / backward_ms / 1e9,
        "batch": shape[0],
        "heads": shape[1],
    }


def run_attention(run: Run, folder: Path) -> None:
    found: dict[str, Any] = {**versions(run), "attention": {}}
    print(f"{'attention':44}{'forward':>9}{'backward':>9}  TFLOP/s")
    for kind in KINDS:
        for width in WIDTHS:
            for length in (128,) if run.tiny else LENGTHS:
                for causal in (False, True) if length in (1024, 4096) else (False,):
                    name = f"{kind} width {width} length {length}{' causal' if causal else ''}"
                    result, status = attempt(run, functools.partial(rates, run, kind, width, length, causal))
                    found["attention"][name] = result or {"status": status}
                    text = f"{result['forward']:9.1f}{result['backward']:9.1f}" if result else f"  {status[:70]}"
                    print(f"{name:44}{text}", flush=True)
    (folder / "attention.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    run_attention(Run(options.device, options.tiny), options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
