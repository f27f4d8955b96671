"""Proton call trees: `.hatchet` (JSON) and `.hatchet_msgpack`, from Triton's profiler (`triton.profiler`).

A file is a list of a root node and the table of GPUs; a node is {frame: {name}, metrics: {…}, children: […]}. Reads
every number in it: kernels have "time (ns)" and "count", scopes what their user said of them (flops16, bytes, tokens),
source lines in a kernel the samples of PC sampling, and scopes in a kernel "cycles". How a metric goes along a path
(added up, included already, or neither) is what `_own_values` decides. Ignores: values that are texts or lists.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from warplens.model.budget import spend
from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.quality import Note, Quality
from warplens.model.trace import Device, Meta
from warplens.model.tree import EXCLUSIVE, Floats, build_tree
from warplens.readers.proton.frames import PYTHON_FRAME, frame_of
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

TIME, COUNT, SAMPLES, CYCLES, DEVICE = "time (ns)", "count", "num_samples", "cycles", "device_id"
OLD_NAMES: Final = {"Time (ns)": TIME, "Count": COUNT, "DeviceId": DEVICE, "DeviceType": "device_type"}
NO_METRICS: Final = frozenset({"device_type", "_hatchet_nid"})
MEASURED: Final = re.compile(r"time \(ns\)|count|(?:normalized_)?cycles|num_(?:stalled_)?samples|stalled_\w+")
"""What Proton measures itself; all other metrics come from scopes and launch metadata."""
WORK: Final = re.compile(r"flops(?:8|16|32|64)?|bytes|num_(?:stalled_)?samples|stalled_\w+")
"""Amounts: always added up, never negative."""
NESTED: Final = frozenset({"cpu_time (ns)", CYCLES, "normalized_cycles"})
"""Read off a clock: what a node has includes what ran inside it."""
HOW: Final = re.compile(r"(?P<name>.*[^ \n]|.) *\((?P<how>inc|exc|pty)\)")
UNIT: Final = re.compile(r"(?P<name>.*[^ \n]|.) *\((?P<unit>[A-Za-z]+)\)")
METADATA: Final = re.compile(r"__proton_launch_metadata(?::.*)?|<metric>", re.DOTALL)
CAPTURED: Final = "<captured_at>"
OLD_FRAME: Final = re.compile(r"(?P<file>.+\.py):(?P<function>[^:@]+)@(?P<line>\d+)", re.DOTALL)
"""How frames were spelled before the line came first."""
LARGEST: Final = 1 << 53
MOST_DEVICE: Final = 10**8
MOST_COUNT: Final = 1 << 31
PACKED: Final = re.compile(rb"[\x91-\x9f][\x81-\x84](?:\xa5frame|\xa7metrics|\xa8children)")
WHOLE: Final = "check that the run finished (proton.finalize) and the file is complete"


def is_msgpack(head: bytes) -> bool:
    """Whether a file starts as Proton's packed trees do: a list whose first entry is a node."""
    return PACKED.match(head) is not None


def read(text: bytes, meta: Meta, notes: list[Note]) -> CallPaths:
    roots, tables = _parts(_decoded(text, meta, notes), meta)
    nodes = _TreeNodes()
    for root in roots:
        nodes.add_tree(root)
    kinds, names = nodes.kinds_and_names()
    numbers = _MetricValues(nodes)
    ns, count = numbers.whole(TIME), numbers.whole(COUNT)
    if max(sum(ns), sum(count)) > 1 << 62:
        raise FormatError("a Proton tree with impossible times", where=meta.source, hint=WHOLE)
    parent = np.array(nodes.parent, np.int64)
    tree = build_tree(parent, names, kinds, np.array(ns, np.int64), np.array(count, np.int64), "GPU time")
    meta = msgspec.structs.replace(
        meta,
        format="Proton call tree",
        devices=(devices := tuple(_device(number, facts) for number, facts in _gpus(tables))),
        facts=meta.facts | _facts(devices),
        events_in_file=nodes.in_file,
    )
    nothing = [] if "kernel" in kinds else [Note("no_gpu")]
    quality = Quality((*notes, *nodes.notes(), *numbers.notes(), *nothing))
    return CallPaths(meta, tree.with_metrics(numbers.metrics()), quality, tuple(nodes.device))


def _decoded(text: bytes, meta: Meta, notes: list[Note]) -> object:
    try:
        if is_msgpack(text[:64]):
            return msgspec.msgpack.decode(text, strict=False)
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(text)
        # Slower, but it reads NaN, numbers of any length, and invalid UTF-8.
        replaced = text.decode("utf-8-sig", "replace")
        content = bounded.decoded(replaced)
        notes += [Note("bad_text")] if "\ufffd" in replaced else []
        return content
    except RecursionError:
        raise FormatError("a Proton tree nested too deep to read", where=meta.source) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise FormatError(f"a damaged Proton tree ({error})", where=meta.source, hint=WHOLE) from error


def _parts(content: object, meta: Meta) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The roots and the tables of GPUs: one each as a rule."""
    entries = [entry for entry in (content if isinstance(content, list) else [content]) if isinstance(entry, dict)]
    roots = [entry for entry in entries if "frame" in entry or "children" in entry]
    if not roots:
        raise FormatError("a Proton tree without a root", where=meta.source, hint=WHOLE)
    return roots, [entry for entry in entries if "frame" not in entry and "children" not in entry]


class _TreeNodes:
    """The nodes of a file, parents before their children, equal siblings as one; 0 is the root."""

    def __init__(self) -> None:
        self.parent, self.name, self.device = [NONE], ["all"], [NONE]
        self.values: dict[str, list[tuple[int, object]]] = {}
        self.on_root: set[str] = set()
        self.in_file = 0
        self._node_of_path: dict[tuple[int, str], int] = {}
        self._unnamed = 0
        self._no_nodes = 0

    def add_tree(self, root: dict[str, object]) -> None:
        self.on_root.update(self._add_metrics(0, root))
        stack = [(child, 0) for child in reversed(self._children(root))]
        while stack:  # and no recursion: frames may be nested deeper than Python allows
            entry, above = stack.pop()
            node = self._node(entry, above)
            self._add_metrics(node, entry)
            stack.extend((child, node) for child in reversed(self._children(entry)))

    def _children(self, entry: dict[str, object]) -> list[dict[str, object]]:
        self.in_file += 1
        children = entry.get("children") or []
        listed = children if isinstance(children, list) else [children]
        nodes = [child for child in listed if isinstance(child, dict)]
        self._no_nodes += len(listed) - len(nodes)
        return nodes

    def _node(self, entry: dict[str, object], above: int) -> int:
        frame = entry.get("frame")
        name = frame.get("name") if isinstance(frame, dict) else None
        if not isinstance(name, str) or not name:
            name, self._unnamed = "(no name)", self._unnamed + 1
        name = bounded.text(name)
        node = self._node_of_path.setdefault((above, name), len(self.name))
        if node == len(self.name):
            self.parent.append(above)
            self.name.append(name)
            self.device.append(NONE)
        return node

    def _add_metrics(self, node: int, entry: dict[str, object]) -> set[str]:
        metrics = entry.get("metrics")
        listed = metrics.items() if isinstance(metrics, dict) else ()
        values = {OLD_NAMES.get(name, bounded.text(name)): value for name, value in listed if isinstance(name, str)}
        for name, value in values.items():
            if name == DEVICE:
                self._set_device(node, value)
            elif name not in NO_METRICS:
                self.values.setdefault(name, []).append((node, value))
        return set(values)

    def _set_device(self, node: int, value: object) -> None:
        device = bounded.whole(value, NONE, 0, MOST_DEVICE)
        # One kernel below one path on two GPUs is one node: then neither number would be right.
        self.device[node] = device if self.device[node] in (NONE, device) else NONE

    def kinds_and_names(self) -> tuple[list[str], list[str]]:
        timed, sampled, cycled = ({node for node, _ in self.values.get(name, ())} for name in (TIME, SAMPLES, CYCLES))
        instrumented = {self.parent[node] for node in cycled} - cycled
        kinds, names, inside = ["root"], [self.name[0]], [False]
        for node in range(1, len(self.name)):
            kind, name = _frame(self.name[node])
            above = self.parent[node]
            inside.append(inside[above] or kinds[above] == "kernel")
            if node in timed or (node in instrumented and not inside[node]):
                kind = "kernel"
            elif node in sampled:
                kind = "line" if inside[node] else "kernel"
            elif node in cycled:
                kind = "gpu_annotation"
            kinds.append(kind)
            names.append(name if kind in ("python", "line") else self.name[node])
        return kinds, names

    def notes(self) -> list[Note]:
        unnamed = [Note("unnamed", self._unnamed)] if self._unnamed else []
        return unnamed + ([Note("damaged", self._no_nodes, "entries that are not nodes")] if self._no_nodes else [])


def _frame(name: str) -> tuple[str, str]:
    if METADATA.fullmatch(name):
        return "overhead", name
    if name == CAPTURED:
        return "other", name
    old = None if PYTHON_FRAME.fullmatch(name) else OLD_FRAME.fullmatch(name)
    return frame_of(f"{old['file']}:{old['line']}@{old['function']}" if old else name)


class _MetricValues:
    """The metrics as numbers, each node without its children; what cannot be one is counted."""

    def __init__(self, nodes: _TreeNodes) -> None:
        self._nodes = nodes
        self._bad: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()
        self._negative: Counter[str] = Counter()
        self._values = {name: self._summed(name, values) for name, values in nodes.values.items()}
        user = [name for name, values in self._values.items() if values and not _is_measured(name)]
        # Proton 3.6 names on the root all that may be added up; 3.9 only what it measures itself.
        self._says_which = any(name in nodes.on_root for name in user)
        self._unsaid = [] if self._says_which else [name for name in user if not WORK.fullmatch(name)]

    def _summed(self, name: str, values: list[tuple[int, object]]) -> dict[int, float]:
        sums: dict[int, float] = {}
        for node, value in values:
            number = self._number(name, value)
            if number is not None:
                sums[node] = sums.get(node, 0) + number
        return sums

    def _number(self, name: str, value: object) -> float | None:
        is_exact = name in (TIME, COUNT)
        amount = bounded.number(value)
        if amount is None and isinstance(value, str | list | dict):
            self._odd[name] += 1
            return None
        if amount is None or amount > _largest(name):
            self._bad[name] += 1
            return None
        if amount < 0 and (is_exact or WORK.fullmatch(name)):
            self._negative[name] += 1
            return None if is_exact else amount
        return round(amount) if is_exact else amount

    def whole(self, name: str) -> list[int]:
        values = self._values.get(name, {})
        return [int(values.get(node, 0)) for node in range(len(self._nodes.name))]

    def metrics(self) -> dict[str, Floats]:
        metrics: dict[str, Floats] = {}
        for recorded, values in self._values.items():
            if recorded not in (TIME, COUNT) and values:
                name, own = self._own_values(recorded, values)
                if name not in metrics:
                    spend(len(self._nodes.name) * (1 + len(name) // 8), f"nodes × {len(self._values)} metrics")
                column = metrics.setdefault(name, np.zeros(len(self._nodes.name)))
                column[list(own)] += list(own.values())
        return metrics

    def _own_values(self, recorded: str, values: dict[int, float]) -> tuple[str, dict[int, float]]:
        """The name that a metric gets here, and what each node has of it besides its children."""
        match = HOW.fullmatch(recorded)
        name, how = (match["name"], match["how"]) if match else (recorded, "")
        unit = UNIT.fullmatch(name)
        label = " ".join((f"{unit['name']}_{unit['unit']}" if unit else name).split())
        if how == "inc" or (name in NESTED and not self._on_frames(values)):
            return label, self._without_inner(values)
        is_added = WORK.fullmatch(name) or name in self._nodes.on_root or not self._says_which
        alone = how in ("exc", "pty") or name in NESTED or not (is_added or _is_measured(name))
        return label + (EXCLUSIVE if alone else ""), values

    def _on_frames(self, values: dict[int, float]) -> bool:
        """Whether Python frames stand for scopes: those of nested scopes stand side by side."""
        return any(PYTHON_FRAME.fullmatch(self._nodes.name[node]) for node in values)

    def _without_inner(self, values: dict[int, float]) -> dict[int, float]:
        # A root of Proton's never has a value of its own, only a 0 that stands for the name.
        own = {node: value for node, value in values.items() if node > 0}
        for node, value in list(own.items()):
            above = self._nodes.parent[node]
            while above > 0 and above not in values:
                above = self._nodes.parent[above]
            if above > 0:
                own[above] -= value
        return own

    def notes(self) -> list[Note]:
        times = self._negative.pop(TIME, 0) + self._negative.pop(COUNT, 0)
        notes = [Note("negative_duration", times)] if times else []
        for code, counted in (
            ("bad_metrics", self._bad),
            ("odd_metrics", self._odd),
            ("negative_metrics", self._negative),
        ):
            if counted:
                notes.append(Note(code, counted.total(), ", ".join(counted)))
        return notes + ([Note("user_metrics", detail=", ".join(self._unsaid))] if self._unsaid else [])


def _largest(name: str) -> float:
    """Times and counts beyond this cannot come from a run."""
    return LARGEST if MEASURED.fullmatch(name) else math.inf


def _is_measured(name: str) -> bool:
    return name in NESTED or MEASURED.fullmatch(name) is not None


def _gpus(tables: list[dict[str, object]]) -> list[tuple[str, dict[str, object]]]:
    return [
        (number, facts)
        for table in tables
        for gpus in table.values()
        if isinstance(gpus, dict)
        for number, facts in gpus.items()
        if isinstance(facts, dict) and isinstance(number, str) and bounded.is_whole(number, 0, MOST_DEVICE)
    ]


def _device(number: str, facts: dict[str, object]) -> Device:
    arch = bounded.text(facts.get("arch"))
    return Device(
        bounded.whole(number),
        bounded.text(facts.get("name")),
        bounded.whole(facts.get("memory_bytes"), 0, 0, LARGEST),
        multiprocessors=_count(facts, "num_sms"),
        compute=f"{arch[:-1]}.{arch[-1]}" if arch.isdecimal() and len(arch) > 1 else arch,
        warp_size=_count(facts, "warp_size") or (64 if arch.startswith("gfx9") else 32),
        clock_khz=_count(facts, "clock_rate"),
        memory_clock_khz=_count(facts, "memory_clock_rate"),
        memory_bus_bits=_count(facts, "bus_width"),
    )


def _facts(devices: tuple[Device, ...]) -> dict[str, str]:
    """What distinguishes GPUs of one architecture, in words."""
    texts = {}
    for device in devices:
        if device.clock_khz:
            texts[f"clock of GPU {device.id}"] = f"{device.clock_khz / 1e3:g} MHz"
        if device.memory_clock_khz and device.memory_bus_bits:  # two transfers a clock
            bandwidth = 2 * device.memory_clock_khz * device.memory_bus_bits / 8e6
            texts[f"memory bandwidth of GPU {device.id}"] = f"{bandwidth:.1f} GB/s"
    return texts


def _count(facts: dict[str, object], name: str) -> int:
    return bounded.whole(facts.get(name), 0, 0, MOST_COUNT)
