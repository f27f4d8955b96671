"""What a workload measured: one row, the same as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from warplens_run.base.printable import clean_lines
from warplens_run.base.units import format_count, format_number
from warplens_run.workloads.options import RANDOM


@dataclass(frozen=True)
class WorkloadResult:
    model: str
    tiny: bool
    parameters: int
    device: str
    dtype: str
    mode: str
    batch: int
    prompt_tokens: int | None
    new_tokens: int | None
    prompt: str | None
    text: str | None
    """What the model generated of the prompt, for the first sequence; None where only lengths were given."""
    tp: int
    compile: bool
    cuda_graph: bool
    weights: str
    load_in_8bit: bool
    built_by: str
    iterations: int
    mean_ms: float
    tokens_per_s: float | None
    """Tokens made where the model generates, tokens read otherwise; None for images."""
    images_per_s: float | None
    peak_memory_bytes: int | None
    """What torch's allocator held at most on this rank's GPU; None on a CPU."""


def render(result: WorkloadResult) -> str:
    """A heading and a row, aligned; below them the generated text."""
    images = result.images_per_s is not None
    cells = {
        "model": f"{result.model} (tiny)" if result.tiny else result.model,
        "parameters": format_count(result.parameters),
        "device": result.device,
        "dtype": f"{result.dtype}, int8" if result.load_in_8bit else result.dtype,
        "mode": result.mode,
        "batch": format_count(result.batch),
        "iterations": format_count(result.iterations),
        "ms/iteration": format_number(result.mean_ms),
        "images/s" if images else "tokens/s": format_number((result.images_per_s or result.tokens_per_s) or 0.0),
    }
    numbers = ("parameters", "batch", "iterations", "ms/iteration", "images/s", "tokens/s")
    widths = {name: max(len(name), len(text)) for name, text in cells.items()}

    def pad(name: str, text: str) -> str:
        return text.rjust(widths[name]) if name in numbers else text.ljust(widths[name])

    heading = "  ".join(pad(name, name) for name in cells)
    table = f"{heading}\n{'  '.join(pad(name, text) for name, text in cells.items())}".rstrip()
    if result.text is None:
        return table
    meaningless = " (random weights: it means nothing)" if result.weights == RANDOM else ""
    return f"{table}\n\ngenerated text{meaningless}:\n{clean_lines(result.text)}"


def to_json(result: WorkloadResult) -> str:
    return json.dumps([asdict(result)], indent=2)
