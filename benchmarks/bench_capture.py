"""What recording costs: a GPT-2 training step alone and under each kind of session.

    python benchmarks/bench_capture.py [--tiny] [--steps 30] [--rounds 3] [-o result.json]

Needs PyTorch and transformers, and a GPU for figures that mean anything. Each kind has a process of its own, because
two profilers cannot share a GPU's counters in one; each round is a fresh process, which times plain steps and then
steps in a session. Times are wall-clock over all steps, with one synchronisation at the end: as a training loop runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.scopes import scope
from warplens_run.capture.session import begin, finalize, step

KINDS: dict[str, RecordingPlan] = {
    "trace with shapes": RecordingPlan(data="trace", execution_trace="none"),
    "trace with shapes, without sync events": RecordingPlan(data="trace", execution_trace="none", sync_events=False),
    "tree (PyTorch's profiler)": RecordingPlan(data="tree", backend="torch"),
    "tree (Proton)": RecordingPlan(data="tree", backend="proton"),
    "trace with shapes and stacks": RecordingPlan(data="trace", execution_trace="none", stacks=True),
    "trace with shapes and ExecutionTrace": RecordingPlan(data="trace", execution_trace="all"),
}


def make_step(tiny: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """A training step, and what waits for all that was launched."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = {"n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 512} if tiny else {}
    batch, tokens = (2, 32) if tiny else (8, 1024)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**size)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=device == "cuda")
    words = torch.randint(0, model.config.vocab_size, (batch, tokens), device=device)

    def train() -> None:
        with scope("forward", {"tokens": batch * tokens}), torch.autocast(device, torch.bfloat16):
            loss = model(input_ids=words, labels=words).loss
        with scope("backward"):
            loss.backward()
        with scope("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return train, torch.cuda.synchronize if device == "cuda" else lambda: None


def timed(train: Callable[[], None], wait: Callable[[], None], steps: int) -> float:
    """Milliseconds per step."""
    wait()
    began = time.perf_counter()
    for _ in range(steps):
        train()
        step()
    wait()
    return 1000 * (time.perf_counter() - began) / steps


def under(
    plan: RecordingPlan, train: Callable[[], None], wait: Callable[[], None], steps: int, folder: Path
) -> dict[str, float]:
    """One kind of session: the step's time in it, the time to write it, and its size."""
    target = folder / "bundle"
    began = time.perf_counter()
    session = begin(target, plan, force=True, source="import torch")
    started = time.perf_counter()
    for _ in range(2):
        train()
    per_step = timed(train, wait, steps)
    stopped = time.perf_counter()
    finalize(session.number)
    files = [file for file in target.rglob("*") if file.is_file()]
    profile = [file for file in files if file.name.startswith(("trace", "tree", "proton"))]
    return {
        "step_ms": per_step,
        "start_s": started - began,
        "write_s": time.perf_counter() - stopped,
        "profile_bytes": sum(file.stat().st_size for file in profile),
        "bundle_bytes": sum(file.stat().st_size for file in files),
    }


def measure(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """In a fresh process, as users have it: plain steps, then steps in a session."""
    train, wait = make_step(args.tiny)
    for _ in range(5):
        train()
    plain = timed(train, wait, args.steps)
    with tempfile.TemporaryDirectory() as folder:
        return {"plain_ms": plain, **under(KINDS[kind], train, wait, args.steps, Path(folder))}


def scope_cost() -> float:
    """Microseconds for a scope while nothing records; the best of several tries."""
    rounds, best = 100_000, float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(rounds):
            with scope("idle", None):
                pass
        best = min(best, 1e6 * (time.perf_counter() - began) / rounds)
    return best


def show(kind: str, rounds: list[dict[str, float]]) -> None:
    median = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    ratios = [each["step_ms"] / each["plain_ms"] for each in rounds]
    print(f"{kind:38} {median['step_ms']:7.2f} ms against {median['plain_ms']:7.2f} ms: "
          f"{statistics.median(ratios):.2f}× ({min(ratios):.2f} to {max(ratios):.2f})  write {median['write_s']:.2f} s "
          f" profile {median['profile_bytes'] / 1e6:.2f} MB", flush=True)  # fmt: skip


def in_own_process(kind: str, args: argparse.Namespace) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--kind", kind, "--steps", str(args.steps)]
    command += ["--tiny"] * args.tiny
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        print(f"{kind}: {answer.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=KINDS, help="not all kinds but this one; may come again")
    parser.add_argument("--kind", choices=KINDS, help="only this one, in this process")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if args.kind:
        print(json.dumps(measure(args.kind, args)))
        return
    print(f"a scope while nothing records: {(scope_us := scope_cost()):.2f} µs", flush=True)
    results: dict[str, Any] = {"scope_us": scope_us}
    for kind in args.only or KINDS:
        found = [each for _ in range(args.rounds) if (each := in_own_process(kind, args)) is not None]
        if found:
            results[kind] = found
            show(kind, found)
    if args.output:
        Path(args.output).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
