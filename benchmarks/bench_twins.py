"""Graphs that were recorded on a GPU beside the same steps without a graph: does each kernel have its twin's op?

    python benchmarks/bench_twins.py FOLDER

FOLDER has NAME.graph.zip and NAME.eager.zip, as gpu_inside.py writes them. Kernels of both are aligned by name, step by
step. Where as many others stand between two of the same name, a library chose other kernels: they are twins by place.
"""

from __future__ import annotations

import argparse
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import warplens


class Launched(NamedTuple):
    kernel: str
    op: str
    shapes: str
    in_graph: bool


def steps_of(path: Path) -> list[list[Launched]]:
    """The GPU events of each step, by start."""
    work = warplens.open(path, cache=False).with_timeline().workspace
    trace, gpu = work.trace, work.gpu.filter(work.gpu["step"] >= 0).sort("step", "start_ns", "id")
    dims = [*trace.specs["input_dims"].to_list(), ""]
    shapes = [dims[code] for code in trace.ints("spec")[gpu["owner"].to_numpy()].tolist()]
    events = map(Launched, gpu["kernel"], gpu["op"], shapes, gpu["in_graph"])
    by_step = groupby(zip(gpu["step"], events, strict=True), key=lambda pair: pair[0])
    return [[event for _, event in pairs] for _, pairs in by_step]


def twins(graph: list[Launched], eager: list[Launched]) -> list[tuple[Launched, Launched]]:
    names = [[event.kernel for event in side] for side in (graph, eager)]
    parts = SequenceMatcher(None, names[0], names[1], autojunk=False).get_opcodes()
    alike = [part for part in parts if part[2] - part[1] == part[4] - part[3]]
    return [pair for _, *ends in alike for pair in zip(graph[slice(*ends[:2])], eager[slice(*ends[2:])], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(f"{'program':16}{'in graphs':>10}{'with a twin':>12}{'its op':>9}{'and shapes':>11}")
    for path in sorted(parser.parse_args().folder.glob("*.graph.zip")):
        other = path.with_name(path.name.replace(".graph.", ".eager."))
        if not other.exists():
            continue
        steps = list(zip(steps_of(path), steps_of(other), strict=True))
        pairs = [pair for step in steps for pair in twins(*step) if pair[0].in_graph]
        count = sum(event.in_graph for step, _ in steps for event in step)
        ops = sum(own.op == twin.op for own, twin in pairs)
        shapes = sum(own[1:3] == twin[1:3] for own, twin in pairs)
        print(f"{path.name.split('.')[0]:16}{count:10}{len(pairs):12}{100 * ops / len(pairs):8.1f}%"
              f"{100 * shapes / len(pairs):10.1f}%")  # fmt: skip


if __name__ == "__main__":
    main()
