"""A proof: what was measured of each experiment, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import FormatError
from warplens_run.formats.records import decode, encode, load_json, save_json

FORMAT: Final = "warplens-proof"
VERSION: Final = 1
DONE: Final = "done"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
STATUSES: Final = (DONE, FAILED, NOT_RUN)
METERED_SHARE: Final = 0.45
"""Of the time: with less of it the energy of the whole is not known."""


@dataclass(frozen=True)
class Difference:
    """Between the outputs of two calls on the same inputs."""

    is_equal: bool
    absolute: float
    """The largest."""
    relative: float
    """The largest, over the largest output."""


@dataclass(frozen=True)
class Side:
    """The calls of one side of a swap in a step: GPU time, and the energy where there is a meter."""

    ns: float
    joules: float | None = None
    ops: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    """The longest of each unit."""
    launches: float = 0.0
    """Kernels and copies in a step."""


def whole_joules(parts: Sequence[tuple[float, float | None]]) -> float | None:
    """Of parts with their times, each with its energy where that was measured: the others draw the mean power of those.

    >>> whole_joules([(80.0, 4.0), (20.0, None)]), whole_joules([(80.0, None), (20.0, 1.0)]), whole_joules([(0.0, 0.0)])
    (5.0, None, 0.0)
    """
    total_ns = sum(ns for ns, _ in parts)
    known = [(ns, joules) for ns, joules in parts if joules is not None]
    known_ns = sum(ns for ns, _ in known)
    if not known or known_ns < METERED_SHARE * total_ns:
        return None
    return sum(joules for _, joules in known) * (total_ns / known_ns if known_ns else 1.0)


@dataclass(frozen=True)
class SwapResult:
    before: Side
    after: Side
    difference: Difference | None = None
    no_difference: str = ""
    """Why outputs were not compared, where they should have been."""
    traced_ns: float = 0.0
    """What the calls before the change took in the trace."""

    @property
    def saved_ns(self) -> float:
        """Of the time in the trace: the share that was saved where both sides ran. Host, clocks and power limits differ
        between the two runs, and shares differ less than times do."""
        if self.before.ns <= 0:
            return 0.0
        return (self.traced_ns or self.before.ns) * (1 - self.after.ns / self.before.ns)


@dataclass(frozen=True)
class VariantResult:
    """`swaps` are those that ran on both sides; `failures` say why others did not."""

    name: str
    status: str
    swaps: tuple[SwapResult, ...] = ()
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    whole_step: SwapResult | None = None
    """All calls of a step without and with the change, under lasting load; None where they were not run."""

    @property
    def before_ns(self) -> float:
        return sum(swap.before.ns for swap in self.swaps)

    @property
    def after_ns(self) -> float:
        return sum(swap.after.ns for swap in self.swaps)

    @property
    def saved_ns(self) -> float:
        """Of the step where that was run as a whole, else of the calls alone."""
        return self.whole_step.saved_ns if self.whole_step is not None else self.saved_alone_ns

    @property
    def saved_alone_ns(self) -> float:
        return sum(swap.saved_ns for swap in self.swaps)

    @property
    def joules(self) -> tuple[float, float] | None:
        """Before and after; None where that of a large part of the time is not known."""
        before = whole_joules([(swap.before.ns, swap.before.joules) for swap in self.swaps])
        after = whole_joules([(swap.after.ns, swap.after.joules) for swap in self.swaps])
        return None if before is None or after is None else (before, after)

    @property
    def difference(self) -> Difference | None:
        """The largest of all; None where nothing was compared."""
        compared = [swap.difference for swap in self.swaps if swap.difference is not None]
        if not compared:
            return None
        return Difference(
            is_equal=all(difference.is_equal for difference in compared),
            absolute=max(difference.absolute for difference in compared),
            relative=max(difference.relative for difference in compared),
        )


@dataclass(frozen=True)
class ExperimentResult:
    finding: str
    place: str
    title: str
    variants: tuple[VariantResult, ...] = ()
    traced_ns: float = 0.0
    reason: str = ""
    evidence: str = ""
    advice: str = ""

    @property
    def best(self) -> VariantResult | None:
        """The variant that saves most GPU time; None where none was measured."""
        done = [variant for variant in self.variants if variant.status == DONE]
        return max(done, key=lambda variant: variant.saved_ns, default=None)


@dataclass(frozen=True)
class ProofResult:
    plan: str
    trace: str
    content_hash: str
    device: str
    experiments: tuple[ExperimentResult, ...]
    per_step: bool = True
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    format: str = FORMAT
    version: int = VERSION


def load(path: Path) -> ProofResult:
    return parse(load_json(path), str(path))


def parse(value: Any, where: str = "") -> ProofResult:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FormatError("not a proof", where=where, hint="warplens prove run proof.plan.json -o proof.json makes one")
    if value.get("version") != VERSION:
        raise FormatError(f"a proof of version {value.get('version')!r}; this Warplens reads {VERSION}", where=where)
    try:
        result = decode(ProofResult, value)
    except FormatError as error:
        raise FormatError(str(error), where=where, hint="was it edited by hand?") from error
    for experiment in result.experiments:
        for variant in experiment.variants:
            if variant.status not in STATUSES:
                raise FormatError(f"not one of {', '.join(STATUSES)}: {variant.status!r}", where=where)
    return result


def save(path: Path, result: ProofResult) -> None:
    save_json(path, to_json(result))


def to_json(result: ProofResult) -> dict[str, Any]:
    whole: dict[str, Any] = {"format": result.format, "version": result.version} | encode(result)
    return whole
