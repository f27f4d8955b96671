"""Derived metrics of a call tree: what `-m` of the tree understands, each with its formula.

A metric is computed for every node, from what the node has with all that is below it, or with `exc:` before its name
(or ` (exc)` behind it) from what it has alone. It is NaN where a node lacks the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.hardware import Gpu
from warplens.model.table import Column, Table, frame_of_rows
from warplens.model.tree import EXCLUSIVE, Floats, Tree, spelled_unit
from warplens_run.base.errors import UsageError

NS_IN: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
SCALES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
PEAKS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    # flops of a width: the units and types that may bound them; the first that the GPU has a figure for does
    "flops8": (("matrix", "fp8"), ("matrix", "int8"), ("matrix", "fp16")),
    "flops16": (("matrix", "bf16"), ("matrix", "fp16"), ("vector", "fp16")),
    "flops32": (("matrix", "tf32"), ("matrix", "fp32"), ("vector", "fp32")),
    "flops64": (("matrix", "fp64"), ("vector", "fp64")),
}
FLOPS: Final = ("flops", *PEAKS)
CPU_TIME: Final = "cpu_time"
SAMPLES: Final = re.compile(r"num_(?:stalled_)?samples|stalled_\w+")


class Figure(NamedTuple):
    """One metric of every node; `unit` says how its numbers are written."""

    name: str
    values: Floats
    unit: str
    meaning: str
    is_rate: bool
    """No amount: where a node is missing it is unknown, not 0."""


class _Missing(Exception):  # noqa: N818 - no error: the profile just lacks what a formula needs
    """The profile has no such metric."""


@dataclass(frozen=True)
class Amounts:
    """What the nodes of a tree have, with what is below them or `alone`."""

    tree: Tree
    gpu: Gpu | None = None
    alone: bool = False

    @cached_property
    def ns(self) -> Floats:
        return (self.tree.self_ns if self.alone else self.tree.total_ns).astype(np.float64)

    @cached_property
    def count(self) -> Floats:
        return (self.tree.self_count if self.alone else self.tree.total_count).astype(np.float64)

    def of(self, metric: str) -> Floats:
        """A recorded metric, by its name with or without the unit, in any case."""
        key = recorded_name(self.tree, metric)
        if key is None:
            raise _Missing(metric)
        return self.tree.metrics[key] if self.alone else inclusive(self.tree, key)

    def all(self, metric: str) -> float:
        """What all nodes together have of it."""
        return float(replace(self, alone=True).of(metric).sum())

    def flops(self, width: str = "") -> Floats:
        if width:
            return self.of(f"flops{width}")
        widths = [self.of(name) for name in FLOPS if name in self.tree.metrics]
        if not widths:
            raise _Missing("flops")
        return np.sum(widths, axis=0)  # type: ignore[no-any-return]

    def share(self, part: Floats, whole: float) -> Floats:
        return 100 * part / (whole or 1)

    def per_second(self, amount: Floats, scale: str = "") -> Floats:
        return ratio(amount, self.ns / 1e9) / SCALES[scale]

    def roofline_s(self, *, measured: bool) -> Floats:
        """The least time that the GPU needs for the flops and bytes: all of them at once, each at its ceiling."""
        of_flops = [name for name in PEAKS if name in self.tree.metrics]
        if not of_flops and "bytes" not in self.tree.metrics:
            raise _Missing("flops8 to flops64 or bytes")
        if self.gpu is None:
            return np.full(len(self.tree), np.nan)
        least: Floats = np.zeros(len(self.tree))
        for name in of_flops:
            least += self.of(name) / (peak_tflops(self.gpu, name, measured=measured) * 1e12)
        if "bytes" in self.tree.metrics:
            bandwidth = self.gpu.bandwidth_tbps().value if measured else self.gpu.datasheet.bandwidth_tbps
            least = np.maximum(least, self.of("bytes") / (bandwidth * 1e12))
        return least if self.alone else _at_least_the_parts(self.tree, least)


def _at_least_the_parts(tree: Tree, least: Floats) -> Floats:
    """Kernels run one after the other: what they need adds up, also where one computes and another copies."""
    parts: Floats = np.zeros(len(tree))
    whole: Floats = least.copy()
    for node in range(len(tree) - 1, 0, -1):
        whole[node] = max(whole[node], parts[node])
        parts[tree.parent[node]] += whole[node]
    whole[0] = max(whole[0], parts[0])
    return whole


def peak_tflops(gpu: Gpu, flops: str, *, measured: bool) -> float:
    """The ceiling for flops of a width: the measured one where there is one, or the data sheet's; infinite for none."""
    for unit, dtype in PEAKS[flops]:
        peak = gpu.peak_tflops(unit, dtype) if measured else None
        value = peak.value if peak else gpu.datasheet.of(unit).get(dtype, 0.0)
        if value:
            return value
    return float("inf")


@dataclass(frozen=True)
class Formula:
    """How metrics of one form are computed; `unit` and `meaning` may name the groups of the pattern."""

    pattern: str
    unit: str
    meaning: str
    value: Callable[[Amounts, re.Match[str]], Floats]
    is_rate: bool = False


TIME_UNIT = "(?P<unit>s|ms|us|ns)"
SCALE = "(?P<scale>[kmgtp]?)"
FORMULAS: Final = (
    Formula("gpu_us", "us", "GPU time", lambda a, m: a.ns / 1e3),
    Formula("self_us", "us", "GPU time of the node alone", lambda a, m: a.tree.self_ns / 1e3),
    Formula("percent|time/%", "%", "share of all GPU time", lambda a, m: a.share(a.ns, float(a.tree.total_ns[0]))),
    Formula("count", "count", "GPU events", lambda a, m: a.count),
    Formula("avg_us", "us", "GPU time per GPU event", lambda a, m: a.ns / 1e3 / np.maximum(1, a.count), is_rate=True),
    Formula("time", "ns", "GPU time", lambda a, m: a.ns),
    Formula(f"time/{TIME_UNIT}", "{unit}", "GPU time", lambda a, m: a.ns / NS_IN[m["unit"]]),
    Formula(f"avg_time/{TIME_UNIT}", "{unit}", "GPU time per GPU event",
            lambda a, m: ratio(a.ns, a.count) / NS_IN[m["unit"]], is_rate=True),
    Formula(f"cpu_time/{TIME_UNIT}", "{unit}", "time on the host's clock, of timed scopes",
            lambda a, m: recorded(a.of(CPU_TIME)) / NS_IN[m["unit"]]),
    Formula(f"avg_cpu_time/{TIME_UNIT}", "{unit}", "time on the host's clock per GPU event",
            lambda a, m: ratio(a.of(CPU_TIME), a.count) / NS_IN[m["unit"]], is_rate=True),
    Formula(f"{SCALE}flop(?P<width>8|16|32|64)?/s", "{scale}FLOP/s", "{width}FLOPs over GPU time",
            lambda a, m: a.per_second(a.flops(m["width"] or ""), m["scale"]), is_rate=True),
    Formula(f"{SCALE}b(?:yte)?/s", "{scale}B/s", "bytes over GPU time",
            lambda a, m: a.per_second(a.of("bytes"), m["scale"]), is_rate=True),
    Formula("flops", "FLOP", "FLOPs of every width", lambda a, m: a.flops()),
    Formula("intensity", "", "FLOPs per byte", lambda a, m: ratio(a.flops(), a.of("bytes")), is_rate=True),
    Formula("util", "", "least time by the data sheet over GPU time (1 is the most; above, a count or cache helps)",
            lambda a, m: ratio(a.roofline_s(measured=False), a.ns / 1e9), is_rate=True),
    Formula("percent_of_roofline", "%", "least time over GPU time, by the ceilings that were measured where they were",
            lambda a, m: 100 * ratio(a.roofline_s(measured=True), a.ns / 1e9), is_rate=True),
    Formula("(?P<metric>.+)/%", "%", "share of all {metric}",
            lambda a, m: a.share(a.of(m["metric"]), a.all(m["metric"]))),
    Formula("(?P<metric>.+)/s", "{rate}", "{metric} over GPU time",
            lambda a, m: a.per_second(a.of(m["metric"])), is_rate=True),
    Formula("(?P<metric>.+)", "{amount}", "{metric} as recorded", lambda a, m: a.of(m["metric"])),
)  # fmt: skip
"""The first whose pattern is the whole name computes it."""


def metric(tree: Tree, name: str, gpu: Gpu | None = None) -> Figure:
    """One metric of every node of a tree, by the name a person types."""
    plain, alone = _without_mark(name.strip())
    for formula in FORMULAS:
        match = re.fullmatch(formula.pattern, plain.lower(), re.DOTALL)
        if match is None:
            continue
        try:
            values = formula.value(Amounts(tree, gpu, alone), match)
        except _Missing as missing:
            hint = f"it offers: {', '.join(_candidates(tree))}"
            what = f"{missing}, which {name} needs" if str(missing) != plain.lower() else f"metric {name!r}"
            raise UsageError(f"this profile has no {what}", hint=hint) from None
        words = _words(match, plain)
        meaning = formula.meaning.format(**words) + (", of the node alone" if alone else "")
        return Figure(name.strip(), values, formula.unit.format(**words), meaning, formula.is_rate)
    raise UsageError("a metric without a name", hint="the table metrics lists what this profile offers")


def _words(match: re.Match[str], name: str) -> dict[str, str]:
    """What the unit and the meaning of a formula may name."""
    words = {key: text or "" for key, text in match.groupdict().items()}
    scale, width = words.get("scale", ""), words.get("width", "")
    return words | {
        "amount": amount_unit(name),
        "rate": "B/s" if amount_unit(words.get("metric", "")) == "bytes" else "",
        "scale": scale if scale == "k" else scale.upper(),
        "width": f"{width}-bit " if width else "",
    }


def offered(tree: Tree, gpu: Gpu | None = None) -> Table:
    """Every metric that this tree has something for."""
    figures = list(_offered(tree, gpu))
    alone = {key.removesuffix(EXCLUSIVE) for key in tree.metrics if key.endswith(EXCLUSIVE)}
    rows = [
        (figure.name, None if figure.name in alone else float(figure.values[0]), figure.unit, figure.meaning)
        for figure in figures
    ]
    columns = (
        Column("metric", "its name; the prefix exc: excludes what is below a node", "", pl.String),
        Column("total", "its value for the whole profile; empty for metrics of single nodes", "", pl.Float64),
        Column("unit", "of that value", "", pl.String),
        Column("meaning", "what it is", "", pl.String),
    )
    frame = frame_of_rows(columns, rows).fill_nan(None)
    return Table.from_frame("metrics", "one row per metric that this profile offers", columns, frame)


def _offered(tree: Tree, gpu: Gpu | None) -> Iterator[Figure]:
    for name in _candidates(tree):
        with suppress(UsageError):  # a user's metric by the name of one of ours, which then decides
            yield metric(tree, name, gpu)


def _candidates(tree: Tree) -> list[str]:
    names = ["gpu_us", "self_us", "percent", "count", "avg_us", "time/ms", "avg_time/us"] if tree.total_ns[0] else []
    names += ["count"] if tree.total_count[0] else []
    plain = [key.removesuffix(EXCLUSIVE) for key in tree.metrics]
    if recorded_name(tree, CPU_TIME):
        names += ["cpu_time/ms", "avg_cpu_time/us"] if tree.total_count[0] else ["cpu_time/ms"]
    has_time, has_flops, has_bytes = bool(tree.total_ns[0]), any(name in FLOPS for name in plain), "bytes" in plain
    names += ["flops"] * has_flops + (["tflop/s"] if has_flops and has_time else [])
    for width in (name.removeprefix("flops") for name in PEAKS if name in plain):
        names += [f"flops{width}", *([f"tflop{width}/s"] if has_time else [])]
    names += ["bytes"] * has_bytes + (["gb/s", "tb/s"] if has_bytes and has_time else [])
    names += ["intensity"] * (has_flops and has_bytes)
    names += ["util", "percent_of_roofline"] * (has_time and (has_bytes or any(name in PEAKS for name in plain)))
    for name in plain:
        if name not in (*FLOPS, "bytes") and not name.startswith(f"{CPU_TIME}_"):
            is_amount = not SAMPLES.fullmatch(name) and name in tree.metrics
            names += [name, f"{name}/s"] if has_time and is_amount else [name]
    return list(dict.fromkeys(names))


def recorded_name(tree: Tree, text: str) -> str | None:
    """The metric of a tree that a person means: `tokens`, `cpu_time` for `cpu_time_ns`, `loss` for `loss (exc)`."""
    names, wanted = tree.metric_names, text.casefold()
    return names.get(wanted) or names.get(spelled_unit(wanted))


def inclusive(tree: Tree, key: str) -> Floats:
    """A metric with all that is below; one that belongs to its node alone stays there."""
    return tree.metrics[key] if key.endswith(EXCLUSIVE) else tree.total(key)


def amount_unit(name: str) -> str:
    """How a recorded metric is written.

    >>> amount_unit("dram_bytes"), amount_unit("flops16"), amount_unit("cpu_time_ns"), amount_unit("tokens")
    ('bytes', 'FLOP', 'ns', '')
    """
    plain = name.removesuffix(EXCLUSIVE).lower()
    if SAMPLES.fullmatch(plain):
        return "count"
    return (
        "bytes"
        if plain.rpartition("_")[2] == "bytes"
        else "FLOP"
        if plain in FLOPS
        else "ns"
        if plain.endswith("_ns")
        else ""
    )


def recorded(amount: Floats) -> Floats:
    """NaN for 0: nothing was recorded there."""
    return np.where(amount == 0, np.nan, amount)


def ratio(amount: Floats, base: Floats) -> Floats:
    """NaN where there is nothing to divide, or nothing to divide by."""
    return recorded(amount) / np.where(base > 0, base, np.nan)


def _without_mark(name: str) -> tuple[str, bool]:
    if name.lower().startswith("exc:"):
        return name[4:].strip(), True
    if name.lower().endswith("(exc)"):
        return name[:-5].strip(), True
    return (name[:-5].strip() if name.lower().endswith("(inc)") else name), False
