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
_DROPPED = {
    "External id",
    "Ev Idx",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Input Strides",
    "correlation",
    "queued",
    "stream",
    "device",
    "context",
}
# A block's numbers are strings and ints, which %s writes twice as fast as %.3f does floats.
_STAMP = "%s.%s"
_THOUSANDTHS = np.array([f"{number:03d}" for number in range(1_000)], dtype=object)
_FIELDS = 7  # µs and ns of the begin, µs and ns of the duration, external id, correlation, sequence number


def literal(value: Any) -> str:
    """JSON that survives %-formatting."""
    return json.dumps(value, separators=(",", ":")).replace("%", "%%")


def arguments(args: dict[str, Any]) -> str:
    """The inside of an `args` object, with a comma before it."""
    rest = {name: value for name, value in args.items() if name not in _DROPPED}
    return "," + literal(rest)[1:-1] if rest else ""


def host_event(category: str, name: str, thread: str, ids: str, rest: str = "", stamp: str = "%.3f") -> str:
    return (
        f'{{"ph":"X","cat":"{category}","name":{literal(name)},"pid":{PROCESS},"tid":{thread},'
        f'"ts":{stamp},"dur":{stamp},"args":{{{ids}{rest}}}}},\n'
    )


def gpu_event(category: str, name: str, stream: int, ids: str, rest: str = "", stamp: str = "%.3f") -> str:
    return (
        f'{{"ph":"X","cat":"{category}","name":{literal(name)},"pid":{DEVICE},"tid":{stream},'
        f'"ts":{stamp},"dur":{stamp},"args":{{{ids}{rest}}}}},\n'
    )


def kernel_ids(stream: int) -> str:
    return f'"External id":%s,"device":{DEVICE},"context":1,"stream":{stream},"correlation":%s'


class ProgramText:
    """All host ops, launches and kernels of a stage's step as two format strings, and the ids that go into them."""

    def __init__(self, program: FlatProgram, base: Base, data: float) -> None:
        self._sizes = _data_sizes(base) if data != 1.0 else None
        self._data = data
        self._host: list[str] = []
        self._gpu: list[str] = []
        self._host_ids: list[tuple[int, int, int]] = []
        self._gpu_ids: list[tuple[int, int, int]] = []
        self.ops = self.launches = self.sequences = 0
        forward: dict[int, tuple[int, int]] = {}
        for run in program.runs:
            units = run.block.units
            if run.phase == "forward":
                forward[run.pair] = (self.sequences, len(units))
                self.sequences += len(units)
            first, count = forward.get(run.pair, (0, 0))
            for number, unit in enumerate(units):
                # The last op's gradient is the first to be computed.
                forward_op = number if run.phase == "forward" else count - 1 - number * count // len(units)
                self._add(unit, run.phase, first + forward_op)
        self.host, self.gpu = "".join(self._host), "".join(self._gpu)
        self.host_ids, self.gpu_ids = np.array(self._host_ids), np.array(self._gpu_ids)

    def _add(self, unit: Unit, phase: str, sequence: int) -> None:
        thread = AUTOGRAD if phase == "backward" else MAIN
        launched: dict[int, tuple[int, int, int]] = {}
        for event, owner in zip(unit.events, _owners(unit, self.ops), strict=True):
            self._host_ids.append((owner, self.launches, sequence))
            if event["cat"] == "cpu_op":
                args = _scaled(event["args"], self._sizes, self._data) if self._sizes else event["args"]
                ids = f'"External id":%s%.0s{_sequence(event, unit, phase)}'
            else:
                args = event["args"]
                ids = '"External id":%s,"correlation":%s%.0s'
                launched[args["correlation"]] = (owner, self.launches, sequence)
                self.launches += 1
            self._host.append(host_event(event["cat"], event["name"], thread, ids, arguments(args), _STAMP))
        for kernel in unit.kernels:
            self._gpu_ids.append(launched[kernel["args"]["correlation"]])
            ids = kernel_ids(COMPUTE_STREAM) + "%.0s"
            rest = arguments(kernel["args"])
            self._gpu.append(gpu_event(kernel["cat"], kernel["name"], COMPUTE_STREAM, ids, rest, _STAMP))
        self.ops += len(unit.events)


def _sequence(event: Event, unit: Unit, phase: str) -> str:
    """How an op of the forward pass is found from its gradient's: both have its number."""
    if phase == "optimizer" or (phase == "forward" and event is not unit.events[0]):
        return "%.0s"
    if phase == "backward" and "Sequence number" not in event["args"]:
        return "%.0s"
    return f',"Sequence number":%s,"Fwd thread id":{int(phase == "backward")}'


def fill(text: str, starts: Ints, ends: Ints, ids: Ints, first_ids: tuple[int, int, int]) -> str:
    """A format string with times, in ns, and with ids counted from a rank's own next ones."""
    values: list[Any] = [None] * (_FIELDS * len(starts))
    lengths = ends - starts
    values[0::_FIELDS] = (starts // 1_000).tolist()
    values[1::_FIELDS] = _THOUSANDTHS[starts % 1_000].tolist()
    values[2::_FIELDS] = (lengths // 1_000).tolist()
    values[3::_FIELDS] = _THOUSANDTHS[lengths % 1_000].tolist()
    values[4::_FIELDS] = (ids[:, 0] + first_ids[0]).tolist()
    values[5::_FIELDS] = (ids[:, 1] + first_ids[1]).tolist()
    values[6::_FIELDS] = (ids[:, 2] + first_ids[2]).tolist()
    return text % tuple(values)


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
    """A longer sequence in an op's input sizes."""
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

    return {**args, "Input Dims": [scale(shape) for shape in args["Input Dims"]]}
