"""A call tree for flame-graph viewers: folded stacks and speedscope's JSON; and as a picture, SVG.

Folded stacks: one line per path, frames joined by `;`, then the weight in ns. Speedscope: the "sampled" profile
of https://www.speedscope.app/file-format-schema.json, one sample per path with its own time as weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warplens.model.tree import Tree
from warplens.outputs.flamegraph_svg import FlameLook, svg_bytes
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_file, write_whole
from warplens_run.base.printable import clean


def folded_bytes(tree: Tree, name: str) -> bytes:
    lines = []
    for node in range(len(tree)):
        if tree.self_ns[node] > 0:
            path = tree.path(node) or [tree.name[0]]
            lines.append(";".join(clean(part).replace(";", ":") for part in path) + f" {tree.self_ns[node]}")
    return ("\n".join(lines) + "\n").encode()


def speedscope_bytes(tree: Tree, name: str) -> bytes:
    frames: dict[str, int] = {}
    samples, weights = [], []
    for node in range(len(tree)):
        if tree.self_ns[node] > 0:
            path = tree.path(node) or [tree.name[0]]
            samples.append([frames.setdefault(part, len(frames)) for part in path])
            weights.append(int(tree.self_ns[node]))
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": "warplens",
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{tree.weight} of {name}",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
    return msgspec.json.encode(document)


Render = Callable[[Tree, str, FlameLook], bytes]
FORMATS: dict[str, Render] = {
    ".folded": lambda tree, name, look: folded_bytes(tree, name),
    ".speedscope.json": lambda tree, name, look: speedscope_bytes(tree, name),
    ".svg": svg_bytes,
}


@dataclass(frozen=True)
class FlamegraphTarget:
    """A checked place for a flame graph and the function that makes its bytes."""

    path: Path
    render: Render
    force: bool = False


def plan_flamegraph(path: str, *, force: bool, inputs: Sequence[str] = ()) -> FlamegraphTarget:
    """The target a path asks for, or a `UsageError` before anything is computed."""
    for suffix, render in FORMATS.items():
        if path.endswith(suffix):
            check_file(Path(path), force=force, inputs=inputs)
            return FlamegraphTarget(Path(path), render, force)
    raise UsageError(f"unknown output format: {path!r}", hint=f"end it in {' or '.join(FORMATS)}")


def write_flamegraph(target: FlamegraphTarget, tree: Tree, *, name: str, look: FlameLook | None = None) -> None:
    write_whole(target.path, target.render(tree, name, look or FlameLook()), force=target.force)
