"""Trace events as format strings: what is the same for all ranks is rendered once, times and ids are filled in."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from ranks_sim.base import Base, Event, Ints, Unit
from ranks_sim.flat import FlatProgram

# Stand for a rank's own numbers until its file is written; no name in a trace contains NUL.
PROCESS, MAIN, AUTOGRAD, DEVICE = "\0P", "\0M", "\0A", "\0D"
COMPUTE_STREAM = 7
_DROPPED = {"External id", "Ev Idx", "correlation", "Sequence number", "Fwd thread id", "stream", "device", "context"}


def literal(value: Any) -> str:
    """JSON that survives %-formatting."""
    return json.dumps(value, separators=(",", ":")).replace("%", "%%")


def arguments(args: dict[str, Any]) -> str:
    """The inside of an `args` object, with a comma before it."""
    rest = {name: value for name, value in args.items() if name not in _DROPPED}
    return "," + literal(rest)[1:-1] if rest else ""


def host_event(category: str, name: str, thread: str, ids: str, rest: str = "") -> str:
    return (
        f'{{"ph":"X","cat":"{category}","name":{literal(name)},"pid":{PROCESS},"tid":{thread},'
        f'"ts":%.3f,"dur":%.3f,"args":{{{ids}{rest}}}}},\n'
    )


def gpu_event(category: str, name: str, stream: int, ids: str, rest: str = "") -> str:
    return (
        f'{{"ph":"X","cat":"{category}","name":{literal(name)},"pid":{DEVICE},"tid":{stream},'
        f'"ts":%.3f,"dur":%.3f,"args":{{{ids}{rest}}}}},\n'
    )


def kernel_ids(stream: int) -> str:
    return f'"External id":%d,"device":{DEVICE},"context":1,"stream":{stream},"correlation":%d'


class ProgramText:
    """All host ops, launches and kernels of a stage's step as one format string, and where its numbers go."""

    def __init__(self, program: FlatProgram, base: Base, data: float) -> None:
        sizes = _data_sizes(base) if data != 1.0 else None
        parts: list[str] = []
        fields: dict[str, list[int]] = {name: [] for name in ("host_ts", "gpu_ts")}
        numbers: dict[str, list[tuple[int, int]]] = {"ext": [], "corr": []}
        position = ops = launches = 0
        for run in program.runs:
            thread = AUTOGRAD if run.phase == "backward" else MAIN
            for unit in run.block.units:
                owners, own_launches = _owners(unit, ops), {}
                for event, owner in zip(unit.events, owners, strict=True):
                    fields["host_ts"].append(position)
                    numbers["ext"].append((position + 2, owner))
                    if event["cat"] == "cpu_op":
                        args = _scaled(event["args"], sizes, data) if sizes else event["args"]
                        parts.append(host_event("cpu_op", event["name"], thread, '"External id":%d', arguments(args)))
                        position += 3
                        continue
                    numbers["corr"].append((position + 3, launches))
                    own_launches[event["args"]["correlation"]] = (owner, launches)
                    ids = '"External id":%d,"correlation":%d'
                    parts.append(host_event(event["cat"], event["name"], thread, ids, arguments(event["args"])))
                    position += 4
                    launches += 1
                for kernel in unit.kernels:
                    owner, launch = own_launches[kernel["args"]["correlation"]]
                    fields["gpu_ts"].append(position)
                    numbers["ext"].append((position + 2, owner))
                    numbers["corr"].append((position + 3, launch))
                    ids, rest = kernel_ids(COMPUTE_STREAM), arguments(kernel["args"])
                    parts.append(gpu_event(kernel["cat"], kernel["name"], COMPUTE_STREAM, ids, rest))
                    position += 4
                ops += len(unit.events)
        self.text = "".join(parts)
        self.host_ts, self.gpu_ts = (np.array(fields[name]) for name in ("host_ts", "gpu_ts"))
        self.ext, self.corr = np.array(numbers["ext"]), np.array(numbers["corr"])
        self.size, self.ops, self.launches = position, ops, launches

    def fill(self, text: str, host: tuple[Ints, Ints], gpu: tuple[Ints, Ints], first_ext: int, first_corr: int) -> str:
        """`text` is this one with a rank's own numbers; starts and ends are in ns."""
        values = np.empty(self.size)
        for places, (starts, ends) in ((self.host_ts, host), (self.gpu_ts, gpu)):
            values[places] = starts / 1_000
            values[places + 1] = (ends - starts) / 1_000
        values[self.ext[:, 0]] = self.ext[:, 1] + first_ext
        values[self.corr[:, 0]] = self.corr[:, 1] + first_corr
        return text % tuple(values.tolist())


def _owners(unit: Unit, first: int) -> list[int]:
    """The number of the op that each event belongs to: itself, or the innermost op around a launch."""
    owners: list[int] = []
    stack: list[tuple[float, int]] = []
    for number, (event, start, duration) in enumerate(zip(unit.events, unit.starts, unit.durations, strict=True)):
        while stack and stack[-1][0] <= start:
            stack.pop()
        if event["cat"] == "cpu_op":
            stack.append((start + duration, first + number))
        owners.append(stack[-1][1] if stack else first + number)
    return owners


def _data_sizes(base: Base) -> tuple[int, int] | None:
    """Batch and length of the recorded data: the leading sizes of most tensors that have three or more."""
    counts: Counter[tuple[int, int]] = Counter()
    for unit in base.phases["forward"]:
        for event in unit.events:
            shapes = event["args"].get("Input Dims", [])
            counts.update((shape[0], shape[1]) for shape in shapes if len(shape) == 3 and isinstance(shape[0], int))
    return counts.most_common(1)[0][0] if counts else None


def _scaled(args: Event, sizes: tuple[int, int], factor: float) -> Event:
    """A longer sequence in an op's input sizes; strides are omitted, since they would no longer fit."""
    if "Input Dims" not in args:
        return args
    batch, length = sizes
    longer = round(length * factor)

    def scale(shape: Any) -> Any:
        if not isinstance(shape, list) or any(isinstance(each, list) for each in shape):
            return [scale(each) for each in shape] if isinstance(shape, list) else shape
        if shape and shape[0] == batch * length:
            return [batch * longer, *shape[1:]]
        if len(shape) > 1 and shape[0] == batch and length in shape[1:3]:
            place = shape.index(length, 1)
            return [*shape[:place], longer, *shape[place + 1 :]]
        return shape

    kept = {name: value for name, value in args.items() if name != "Input Strides"}
    return {**kept, "Input Dims": [scale(shape) for shape in args["Input Dims"]]}
