"""What a report names as stragglers against what was planted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ranks_sim.truth import FaultTruth, Truth

# A fault that costs less than this share of a step is not worth naming.
LEAST_SHARE = 0.02
GAIN_TOLERANCE = 0.10
# Longer sequences on a rank are an imbalance and a property of the data.
ACCEPTED = {"uneven_data": ("imbalance", "data")}

Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a report answers for one planted fault."""

    kind: str
    is_place_named: bool
    is_cause_named: bool
    is_step_named: bool
    gain_error: float | None  # relative; None where nothing was named

    @property
    def is_hit(self) -> bool:
        return self.is_place_named and self.is_cause_named and self.is_step_named

    @property
    def is_gain_near(self) -> bool:
        return self.gain_error is not None and abs(self.gain_error) <= GAIN_TOLERANCE


def worth_naming(truth: Truth) -> list[FaultTruth]:
    """The faults that cost time; a fault of another kind, or hidden behind a larger one, does not."""
    least_ms = LEAST_SHARE * sum(truth.healthy_step_ms) / len(truth.healthy_step_ms)
    return [fault for fault in truth.faults if fault.cause and fault.gain_ms_per_step >= least_ms]


def verdicts(truth: Truth, stragglers: Sequence[Row]) -> list[Verdict]:
    return [_verdict(fault, stragglers) for fault in worth_naming(truth)]


def unplanted(truth: Truth, stragglers: Iterable[Row]) -> list[Row]:
    """Rows with a cause that no planted fault explains."""
    return [
        row
        for row in stragglers
        if is_clear(row) and not any(_names_place(fault, row) for fault in truth.faults if fault.cause)
    ]


def is_clear(row: Row) -> bool:
    return row["cause"] not in (None, "", "unclear")


def _verdict(fault: FaultTruth, stragglers: Sequence[Row]) -> Verdict:
    rows = [row for row in stragglers if _names_place(fault, row)]
    by_cause = [row for row in rows if row["cause"] in _causes(fault)]
    row = next(iter(by_cause or rows), None)
    if row is None:
        return Verdict(fault.kind, False, False, False, None)
    since = row["since_step"]
    return Verdict(
        fault.kind,
        True,
        bool(by_cause),
        # From the first step on is also named by naming no step.
        since == fault.since_step or (since is None and not any(gain == 0 for gain in fault.gain_ms[:1])),
        None if row["gain_ms"] is None else row["gain_ms"] / fault.gain_ms_per_step - 1,
    )


def _causes(fault: FaultTruth) -> tuple[str, ...]:
    return ACCEPTED.get(fault.kind, (fault.cause,))


def _names_place(fault: FaultTruth, row: Row) -> bool:
    if row.get("rank") is not None and row["rank"] in fault.ranks:
        return True
    return row.get("group") is not None and str(row["group"]) in fault.groups


def clock_errors(truth: Truth, ranks: Sequence[Row]) -> tuple[float, float] | None:
    """The largest error of offsets in µs and of drifts in ppm, as far as they can be known: against the ranks' mean."""
    rows = [row for row in ranks if row.get("clock_offset_us") is not None]
    if not rows:
        return None
    offsets = [row["clock_offset_us"] - truth.clocks[row["rank"]].offset_us for row in rows]
    drifts = [(row.get("clock_drift_ppm") or 0.0) - truth.clocks[row["rank"]].drift_ppm for row in rows]
    return _spread(offsets), _spread(drifts)


def _spread(errors: list[float]) -> float:
    ordered = sorted(errors)
    middle = ordered[len(ordered) // 2]
    return max(abs(error - middle) for error in errors)
