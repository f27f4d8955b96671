"""What `warplens try` measures, beside separate runs of the same programs.

    python benchmarks/bench_try.py

On a GPU host with PyTorch. Three programs, of which the GPU, both, or the host is the limit, each with a fix:

- `warplens try` switches the fix on and off in one run;
- processes in turns run the programs with and without the fix written into them.

Both have to find the same gain: their ranges, widened by 2 % of the step, overlap. The kernels of steps without the
fix, as `try --profile` records them after all its turns, have to be those of a program that never had it. Exit status 1
where something of that fails.

`--smoke` tries every other fix once, in a program that has a use for all of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FIXES = {"gpu": "WL202", "mixed": "WL202=bf16", "host": "WL208"}
SMOKE = (
    "WL203=cublaslt", "WL204=flash", "WL204=efficient", "WL205=Block", "WL206", "WL208=fused", "WL301", "WL302",
    "env:PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
)  # fmt: skip
MARGIN = 0.02
SOURCES = str(Path(__file__).resolve().parents[1] / "src")
WARM_STEPS, TIMED_STEPS, WINDOWS = 8, 12, 3


def device_of(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Sizes:
    """Of a program: on a CPU, where nothing but the script itself is tested, all are small."""

    layers: int
    width: int
    batch: int


def sizes_of(name: str, device: str) -> Sizes:
    if device == "cpu":
        return Sizes(2, 16, 4)
    return {"gpu": Sizes(4, 4096, 4096), "mixed": Sizes(24, 1024, 2048), "host": Sizes(64, 64, 64)}[name]


def steps_of(name: str, *, has_fix: bool = False) -> Iterator[None]:
    """The program: a step for each `next`. With `has_fix` the fix is written into it, as its author would."""
    import torch

    device = device_of(torch)
    sizes = sizes_of(name, device)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = has_fix and name == "gpu"
    parts = [part for _ in range(sizes.layers) for part in (torch.nn.Linear(sizes.width, sizes.width), torch.nn.GELU())]
    model = torch.nn.Sequential(*parts).to(device)
    is_fused = has_fix and name == "host"
    optimizer = torch.optim.AdamW(model.parameters(), fused=is_fused, foreach=name != "host" and not is_fused)
    data = torch.randn(sizes.batch, sizes.width, device=device)
    region = torch.autocast(device, dtype=torch.bfloat16) if has_fix and name == "mixed" else nullcontext()
    while True:
        optimizer.zero_grad()
        with region:
            loss = model(data).float().square().mean()
        loss.backward()
        optimizer.step()
        yield


def run_program(name: str) -> None:
    steps = steps_of(name)
    for _ in range(100_000):
        next(steps)


def run_smoke_program() -> None:
    """Attention, autocast with accumulated gradients, a loader with workers, and losses that are only logged."""
    import torch

    device = device_of(torch)
    width, heads = (512, 8) if device == "cuda" else (16, 2)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, value: Any) -> Any:
            batch, length, _ = value.shape
            query, key, values = (
                part.view(batch, length, heads, -1).transpose(1, 2) for part in self.qkv(self.norm(value)).chunk(3, -1)
            )
            mixed = torch.nn.functional.scaled_dot_product_attention(query, key, values, is_causal=True)
            return value + torch.nn.functional.gelu(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))

    model = torch.nn.Sequential(*(Block() for _ in range(4))).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    data = torch.randn(4096, 64, width)
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=2)
    losses = []
    for _ in range(100):
        for number, batch in enumerate(loader):
            # bf16 on a CPU without it takes seconds.
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                loss = model(batch.to(device)).float().square().mean()
            loss.backward()
            losses.append(loss.item())
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()


def measured_alone(has_fix: bool) -> dict[str, Any]:
    """The step of every program in this process, in milliseconds, and the kernels of one step."""
    import torch

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    result: dict[str, Any] = {}
    for name in FIXES:
        steps = steps_of(name, has_fix=has_fix)
        for _ in range(WARM_STEPS):
            next(steps)
        times = []
        for _ in range(WINDOWS):
            wait()
            start = time.perf_counter()
            for _ in range(TIMED_STEPS):
                next(steps)
            wait()
            times.append(1e3 * (time.perf_counter() - start) / TIMED_STEPS)
        result[name] = median(times)
    if not has_fix:
        result["kernels"] = {name: kernels_alone(torch, name) for name in FIXES}
    return result


def kernels_alone(torch: Any, name: str) -> list[str]:
    steps = steps_of(name)
    for _ in range(3):
        next(steps)
    with torch.profiler.profile() as profiler:
        next(steps)
        next(steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return kernel_names(path.read_bytes())


def command(*words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)} ended with status {done.returncode}")
    return done.stdout


def tried(name: str, folder: Path) -> dict[str, Any]:
    words = ["-m", "warplens", "try", "--json", "--rounds", "5", "--steps", str(TIMED_STEPS), "--warm-up", "8",
             "--fix", FIXES[name], "--profile", str(folder), __file__, "program", name]  # fmt: skip
    (row,) = json.loads(command(*words))
    return dict(row)


def recorded_kernels(bundle: Path) -> list[str]:
    return kernel_names(gzip.decompress((bundle / "trace.json.gz").read_bytes()))


def kernel_names(trace: bytes) -> list[str]:
    events = json.loads(trace)["traceEvents"]
    return sorted({event["name"] for event in events if event.get("cat") == "kernel"})


def compare(rounds: int) -> bool:
    runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for number in range(rounds):
        for has_fix in (False, True) if number % 2 == 0 else (True, False):
            runs[has_fix].append(json.loads(command(__file__, "alone", "on" if has_fix else "off").splitlines()[-1]))
    all_agree = True
    print(f"{'program':8}{'fix':12}{'separate runs, ms':>20}{'gain (range)':>28}{'try, ms':>20}{'gain (range)':>28}")
    for name, fix in FIXES.items():
        off, on = ([run[name] for run in runs[has_fix]] for has_fix in (False, True))
        gains = [before - after for before, after in zip(off, on, strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            row = tried(name, Path(folder))
            plain = recorded_kernels(Path(folder) / "plain.warplens")
            fixed = recorded_kernels(Path(folder) / f"{fix}.warplens")
        agree = overlaps((min(gains), max(gains)), (row["low_ms"], row["high_ms"]), MARGIN * median(off))
        alone = runs[False][0]["kernels"][name]
        same = plain == alone
        print(f"{name:8}{fix:12}{median(off):9.3f} → {median(on):8.3f}{ranged(gains):>28}"
              f"{row['off_ms']:9.3f} → {row['on_ms']:8.3f}{ranged([row['low_ms'], row['gain_ms'], row['high_ms']]):>28}"
              f"  {'agree' if agree else 'DIFFER'}; kernels without the fix {'equal' if same else 'DIFFER'} "
              f"({len(plain)}), with it {len(set(fixed) - set(plain))} others")  # fmt: skip
        for label, kernels in (("only in try", set(plain) - set(alone)), ("only alone", set(alone) - set(plain))):
            for kernel in sorted(kernels):
                print(f"    {label}: {kernel[:110]}")
        all_agree &= agree and same
    return all_agree


def overlaps(one: tuple[float, float], other: tuple[float, float], margin: float) -> bool:
    return one[0] - margin <= other[1] and other[0] - margin <= one[1]


def ranged(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def smoke() -> bool:
    words = ["-m", "warplens", "try", "--json", "--rounds", "2", "--steps", "6", "--warm-up", "4"]
    words += [word for fix in SMOKE for word in ("--fix", fix)]
    rows = json.loads(command(*words, __file__, "smoke"))
    for row in rows:
        figures = "no round" if row["gain_ms"] is None else f"{row['off_ms']:9.3f} → {row['on_ms']:8.3f} ms"
        print(f"{row['fix'][:50]:52}{figures} {row['failure']}")
    missing = sorted(set(SMOKE) - {row["fix"] for row in rows})
    print(f"refused: {', '.join(missing) or 'none'}")
    return not missing and all(row["rounds"] == 2 for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("part", nargs="?", default="compare", choices=("compare", "program", "alone", "smoke"))
    parser.add_argument("which", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=3, help="separate processes of each kind (default 3)")
    parser.add_argument("--smoke", action="store_true", help="also try every other fix once")
    args = parser.parse_args()
    if args.part == "program":
        run_program(args.which)
    elif args.part == "alone":
        print(json.dumps(measured_alone(args.which == "on")))
    elif args.part == "smoke":
        run_smoke_program()
    else:
        is_fine = compare(args.rounds)
        if args.smoke:
            is_fine &= smoke()
        return 0 if is_fine else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
