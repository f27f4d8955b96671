"""Eager traces cut into the capture of a graph and its replay, joined again: how many kernels get their own op back?

    python benchmarks/bench_graphs.py TRACE… [--changed 0.02] [--seed 1] [--write FOLDER]

One step of each trace (all of it without steps) becomes a capture, which has the host's events and no GPU work, and a
replay, which has one graph launch and the GPU's events in the order of their launches, without a word on where they
come from. That is what CUDA records. The truth is the op, the shapes and the module that the eager trace has for each
event. `--write` keeps both files. With `--changed 0.02` two in a hundred nodes are left out of the replay, and as many
copies are added to it, as frameworks and drivers do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import warplens
from warplens.analyses.work.modules import modules_around

Event = dict[str, Any]
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
GRAPH_LAUNCH = 2_000_000_001
ADDED = "Memcpy DtoD (Device -> Device)"
ADDED_US = 0.777
"""By their time the copies that were added are told from the trace's own."""


class Pair(NamedTuple):
    eager: list[Event]
    """Host and GPU, whose events come one after the other in the order of their launches."""
    capture: list[Event]
    replay: list[Event]
    kept: list[int]
    """Which of the eager GPU events are in the replay, in order."""


class Score(NamedTuple):
    trace: str
    kernels: int
    joined: int
    op: int
    shapes: int
    module: int
    wrong: int
    """Added copies that were given an op."""


def _events(path: Path) -> tuple[list[Event], list[Event]]:
    """The events, and what is known of the GPUs."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        loaded = json.load(stream)
    events = [event for event in loaded["traceEvents"] if event.get("ph") == "X" and "ts" in event]
    return events, loaded.get("deviceProperties", [])


def _one_step(events: list[Event]) -> list[Event]:
    """Host events within the last step but one, or all of them, and what they launch."""
    steps = sorted((e for e in events if e["name"].startswith("ProfilerStep#") and e.get("cat") == "user_annotation"),
                   key=lambda e: e["ts"])  # fmt: skip
    host = [e for e in events if e.get("cat") not in GPU and not str(e.get("cat")).startswith("gpu_")]
    if steps:
        begin, end = steps[-2:][0]["ts"], steps[-2:][0]["ts"] + steps[-2:][0]["dur"]
        host = [e for e in host if begin <= e["ts"] < end and "ProfilerStep#" not in e["name"]]
    launched = {e["args"]["correlation"] for e in host if e.get("cat") in CALLS and "correlation" in e.get("args", {})}
    gpu = [e for e in events if e.get("cat") in GPU and e["args"].get("correlation") in launched]
    return host + gpu


def cut(events: list[Event], changed: float, chance: random.Random) -> Pair:
    host = [e for e in events if e.get("cat") not in GPU]
    calls = {e["args"]["correlation"]: e for e in host if e.get("cat") in CALLS and "correlation" in e.get("args", {})}
    gpu = sorted((e for e in events if e.get("cat") in GPU), key=lambda e: calls[e["args"]["correlation"]]["ts"])
    begin, end = min(e["ts"] for e in host), max(e["ts"] + e["dur"] for e in host)
    thread = calls[gpu[0]["args"]["correlation"]]
    call = {"ph": "X", "cat": "cuda_runtime", "pid": thread["pid"], "tid": thread["tid"], "dur": 0.5}
    capture = [
        {**call, "name": "cudaStreamBeginCapture", "ts": begin - 2, "args": {"correlation": GRAPH_LAUNCH + 1}},
        *host,
        {**call, "name": "cudaStreamEndCapture", "ts": end + 1, "args": {"correlation": GRAPH_LAUNCH + 2}},
    ]
    kept = [place for place in range(len(gpu)) if chance.random() >= changed]
    nodes = [gpu[place] for place in kept]
    for _ in range(round(changed * len(gpu))):
        added = {
            **gpu[0],
            "cat": "gpu_memcpy",
            "name": ADDED,
            "dur": ADDED_US,
            "args": {**gpu[0]["args"], "bytes": 4096},
        }
        nodes.insert(chance.randrange(len(nodes) + 1), added)
    launch = {**call, "name": "cudaGraphLaunch", "ts": begin, "dur": 20, "args": {"correlation": GRAPH_LAUNCH}}
    replayed = _in_turn(nodes, begin + 100)
    for node in replayed:
        node["args"] = {**node["args"], "correlation": GRAPH_LAUNCH, "External id": 0}
    return Pair([*host, *_in_turn(gpu, end + 100)], capture, [launch, *replayed], kept)


def _in_turn(gpu: list[Event], begin: float) -> list[Event]:
    """Copies of the events, one after the other."""
    copies = []
    for event in gpu:
        copies.append({**event, "ts": begin})
        begin += event["dur"] + 0.5
    return copies


def _written(folder: Path, name: str, events: list[Event], gpus: list[Event]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"deviceProperties": gpus, "traceEvents": events}), encoding="utf-8")
    return path


class Context(NamedTuple):
    kernel: str
    op: str
    shapes: str
    module: str
    is_added: bool


def _contexts(path: Path, captures: list[Path]) -> list[Context]:
    """Of each GPU event, by start."""
    work = warplens.open(path, graph_captures=captures, cache=False).with_timeline().workspace
    trace = work.trace
    gpu = work.gpu.sort("start_ns", "id")
    owners = gpu["owner"].to_numpy()
    dims = [*trace.specs["input_dims"].to_list(), ""]
    shapes = [dims[code] for code in trace.ints("spec")[owners].tolist()]
    is_added = gpu["dur_ns"] == round(1e3 * ADDED_US)
    return list(map(Context, gpu["kernel"], gpu["op"], shapes, modules_around(work, owners), is_added))


def score(path: Path, changed: float, seed: int, folder: Path) -> Score:
    events, gpus = _events(path)
    pair = cut(_one_step(events), changed, random.Random(seed))
    files = [_written(folder, name, getattr(pair, name), gpus) for name in ("eager", "capture", "replay")]
    truth = _contexts(files[0], [])
    replayed = _contexts(files[2], [files[1]])
    pairs = list(zip((truth[place] for place in pair.kept), (c for c in replayed if not c.is_added), strict=True))
    assert all(true.kernel == own.kernel for true, own in pairs)
    return Score(
        path.name.split(".")[0],
        len(pairs),
        sum("GraphLaunch" not in own.op for _, own in pairs),
        sum(true.op == own.op for true, own in pairs),
        sum(true[:3] == own[:3] for true, own in pairs),
        sum(true == own for true, own in pairs),
        sum(context.is_added and "GraphLaunch" not in context.op for context in replayed),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--changed", type=float, default=0.0, help="share of nodes left out, and as many added")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="leave capture.json and replay.json there")
    options = parser.parse_args()
    print(f"{'trace':50} {'nodes':>7} {'joined':>8} {'its op':>8} {'shapes':>8} {'module':>8} {'added, joined':>14}")
    for path in options.traces:
        with tempfile.TemporaryDirectory() as folder:
            found = score(path, options.changed, options.seed, options.write or Path(folder))
        shares = " ".join(f"{100 * count / found.kernels:7.2f}%" for count in found[2:6])
        print(f"{found.trace:50} {found.kernels:7} {shares} {found.wrong:14}", flush=True)


if __name__ == "__main__":
    main()
