"""Truth for graphs: steps that are captured and replayed, and their eager twins, recorded by the code of Warplens.

usage: gpu_graphs.py JOB --out DIR [--device cuda|cpu] [--tiny]

JOB is one of `JOBS`. DIR gets JOB.graph.zip (the captures, then replays in the recorded window) and for most jobs
JOB.eager.zip (the same steps without a graph), and JOB.json with what was measured. On a CPU a class that captures
nothing and runs the step again takes the place of a graph: it proves the code and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch

import warplens
from gpu_models import GPT, TINY, ConvNet, Decoder, Size
from gpu_run import NeedsCudaError, Run, attempt
from warplens_run.capture.session import marks_own_steps
from warplens_run.workloads.marks import decode_mark

STEPS = 5
WARMUPS = 3
Step = Callable[[], Any]


class HostGraph:
    """In the place of `torch.cuda.CUDAGraph` on a CPU: a replay runs the step once more."""

    work: Step | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        if self.work is not None:
            self.work()


def captured(run: Run, work: Step, pool: Any = None) -> tuple[Any, Step]:
    """A graph of a step, and what replays it; the step runs a few times before."""
    if not run.cuda:
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        work()
        graph.capture_end()
        graph.work = work
        return graph, graph.replay
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUPS):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    return graph, graph.replay


def recorded(
    run: Run, path: Path, prepare: Callable[[], Sequence[Step]], *, after: int = 0, **options: Any
) -> dict[str, Any]:
    """One bundle: what `prepare` does is before the window, and each of its steps in turn is a step of it."""
    defaults = {"steps": STEPS, "wait": 1, "light_steps": 0, "execution_trace": "none", "stacks": True}
    session = warplens.start(str(path), data="trace", force=True, **(defaults | options))
    # The optimizer of a step before the window would mark it.
    marks_own_steps()
    began = time.perf_counter()
    steps = prepare()
    run.sync()
    prepared_s = time.perf_counter() - began
    wait = options.get("wait", 1)
    for number in range(wait + STEPS * len(steps) + after):
        # A window of several kinds of steps has STEPS of each.
        steps[max(0, number - wait) % len(steps)]()
        run.sync()
        warplens.step()
    warplens.finalize(session)
    return {"prepare_s": round(prepared_s, 3), "bytes": path.stat().st_size}


def twins(run: Run, out: Path, name: str, work: Step, **options: Any) -> dict[str, Any]:
    """The captured step and the eager one, a bundle each, and what a capture costs with and without recording."""
    for _ in range(WARMUPS):
        work()
    run.sync()
    began = time.perf_counter()
    plain_graph, replay = captured(run, work)
    run.sync()
    result: dict[str, Any] = {"capture_plain_s": round(time.perf_counter() - began, 3)}
    replay()
    run.sync()
    del plain_graph, replay
    result["graph"] = recorded(run, out / f"{name}.graph.zip", lambda: [captured(run, work)[1]], **options)
    result["eager"] = recorded(run, out / f"{name}.eager.zip", lambda: [work])
    return result


class DecodeLoop:
    """A decoder, its current tokens and their position, all in place."""

    def __init__(self, run: Run, batch: int) -> None:
        self.size = TINY if run.tiny else Size()
        dtype = torch.bfloat16 if run.cuda else torch.float32
        self.model = Decoder(self.size, batch).to(run.device, dtype).eval()
        self.batch = batch
        self.tokens = torch.zeros((batch, 1), dtype=torch.long, device=run.device)
        self.position = torch.full((1,), 8, dtype=torch.long, device=run.device)
        self.end = self.size.length - 1

    def __call__(self) -> None:
        with torch.no_grad():
            self.tokens.copy_(self.model(self.tokens, self.position))
            self.position.add_(1).clamp_(max=self.end)


def llama_decode(run: Run, out: Path) -> dict[str, Any]:
    return twins(run, out, "llama_decode", DecodeLoop(run, batch=4))


def gpt_train(run: Run, out: Path) -> dict[str, Any]:
    """Forward, loss, backward and optimizer in one graph."""
    size = TINY if run.tiny else Size(width=768, heads=12)
    model = GPT(size).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=run.cuda)
    tokens = torch.randint(size.vocabulary, (2, size.length), device=run.device)
    dtype = torch.bfloat16

    def work() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(run.device, dtype=dtype, cache_enabled=False):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()

    return twins(run, out, "gpt_train", work)


def conv_net(run: Run, out: Path) -> dict[str, Any]:
    """Inference, recorded with all that a bundle has: ExecutionTrace, light pass, steps timed before and after."""
    dtype = torch.half if run.cuda else torch.float32
    model = ConvNet(run.size(64, 8)).to(run.device, dtype, memory_format=torch.channels_last).eval()
    images = run.randn(run.size(32, 2), 3, run.size(128, 32), run.size(128, 32), dtype=dtype)
    images = images.to(memory_format=torch.channels_last)

    def work() -> None:
        with torch.no_grad():
            model(images)

    return twins(run, out, "conv_net", work, wait=6, light_steps=2, execution_trace="step", after=6)


def same_file(run: Run, out: Path) -> dict[str, Any]:
    """The profiler runs over capture and replays: one trace has both."""
    loop = DecodeLoop(run, batch=4)
    for _ in range(WARMUPS):
        loop()
    session = warplens.start(str(out / "same_file.graph.zip"), data="trace", force=True, stacks=True)
    replay = captured(run, loop)[1]
    for _ in range(STEPS):
        replay()
        run.sync()
        warplens.step()
    warplens.finalize(session)
    return {}


def piecewise(run: Run, out: Path) -> dict[str, Any]:
    """Three graphs a step, with an eager op between them."""
    loop = DecodeLoop(run, batch=4)
    model, layers = loop.model, list(loop.model.layers)
    middle = len(layers) // 2
    hidden = model.embedding(loop.tokens).detach().clone()
    mask = model.mask(loop.position).clone()

    def first() -> None:
        with torch.no_grad():
            mask.copy_(model.mask(loop.position))
            x = model.embedding(loop.tokens)
            for layer in layers[:middle]:
                x = layer(x, loop.position, mask)
            hidden.copy_(x)

    def second() -> None:
        with torch.no_grad():
            x = hidden
            for layer in layers[middle:]:
                x = layer(x, loop.position, mask)
            hidden.copy_(x)

    def third() -> None:
        with torch.no_grad():
            loop.tokens.copy_(model.finish(hidden))
            loop.position.add_(1).clamp_(max=loop.end)

    def between() -> None:
        with torch.no_grad():
            hidden.mul_(1.0)

    def graphs() -> list[Step]:
        parts = []
        pool = None
        for part in (first, second, third):
            with torch.profiler.record_function(f"capture_{loop.batch}_PIECEWISE"):
                graph, replay = captured(run, part, pool)
            pool = graph.pool() if run.cuda else None
            parts.append(replay)

        def step() -> None:
            with torch.profiler.record_function(decode_mark(loop.batch, 8)):
                parts[0]()
                between()
                parts[1]()
                between()
                parts[2]()

        return [step]

    def eager() -> None:
        for part in (first, between, second, between, third):
            part()

    result = {"graph": recorded(run, out / "piecewise.graph.zip", graphs)}
    result["eager"] = recorded(run, out / "piecewise.eager.zip", lambda: [eager])
    return result


def two_sizes(run: Run, out: Path) -> dict[str, Any]:
    """Graphs of two batch sizes, as a server has them; which one runs is in the annotation only."""
    loops = [DecodeLoop(run, batch) for batch in (8, 2)]

    def graphs() -> list[Step]:
        return [marked(loop, capture(loop)) for loop in loops]

    def capture(loop: DecodeLoop) -> Step:
        with torch.profiler.record_function(f"capture_{loop.batch}_DECODE"):
            return captured(run, loop)[1]

    def marked(loop: DecodeLoop, work: Step) -> Step:
        def step() -> None:
            with torch.profiler.record_function(decode_mark(loop.batch, 8)):
                work()

        return step

    result = {"graph": recorded(run, out / "two_sizes.graph.zip", graphs, steps=2 * STEPS)}
    eager = [marked(loop, loop) for loop in loops]
    result["eager"] = recorded(run, out / "two_sizes.eager.zip", lambda: eager, steps=2 * STEPS)
    return result


def callables(run: Run, out: Path) -> dict[str, Any]:
    """`make_graphed_callables`: graphs of forward and backward, the latter replayed by autograd's thread."""
    if not run.cuda:
        raise NeedsCudaError("needs a CUDA device")
    width, x = 1024, run.randn(64, 1024)

    def make(is_graphed: bool) -> Step:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)).to(
            run.device, torch.bfloat16
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        if is_graphed:
            model = torch.cuda.make_graphed_callables(model, (x.clone(),))

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            optimizer.step()

        return step

    result = {"graph": recorded(run, out / "callables.graph.zip", lambda: [make(True)])}
    result["eager"] = recorded(run, out / "callables.eager.zip", lambda: [make(False)])
    return result


def compiled(run: Run, out: Path) -> dict[str, Any]:
    """`torch.compile(mode="reduce-overhead")`: the compiler captures by itself, in its second call."""
    if not run.cuda:
        raise NeedsCudaError("needs a CUDA device")
    width = 512
    model = torch.nn.Sequential(
        torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
    ).to(run.device, torch.bfloat16)
    x = run.randn(64, width)

    def prepare(mode: str) -> list[Step]:
        fast = torch.compile(model, mode=mode)

        def step() -> None:
            with torch.no_grad():
                torch.compiler.cudagraph_mark_step_begin()
                fast(x)

        for _ in range(3):
            step()
        return [step]

    result = {"graph": recorded(run, out / "compiled.graph.zip", lambda: prepare("reduce-overhead"))}
    torch._dynamo.reset()
    result["eager"] = recorded(run, out / "compiled.eager.zip", lambda: prepare("default"))
    return result


JOBS: dict[str, Callable[[Run, Path], dict[str, Any]]] = {
    "llama_decode": llama_decode,
    "gpt_train": gpt_train,
    "conv_net": conv_net,
    "same_file": same_file,
    "piecewise": piecewise,
    "two_sizes": two_sizes,
    "callables": callables,
    "compiled": compiled,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.device, options.tiny)
    if not run.cuda:
        torch.cuda.CUDAGraph = HostGraph
    result, status = attempt(run, lambda: JOBS[options.job](run, options.out))
    (options.out / f"{options.job}.json").write_text(json.dumps({"status": status, **(result or {})}, indent=1))
    print(f"{options.job}: {status}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
