"""How named stragglers are compared with planted ones, and the jobs that this is done for."""

from __future__ import annotations

from collections import Counter

import pytest

from make_ranks import Truth
from ranks_sim.compare import clock_errors, unplanted, verdicts
from ranks_sim.jobs import faulty_jobs, healthy_jobs
from ranks_sim.spec import CAUSES
from ranks_sim.truth import ClockTruth, FaultTruth


def truth(*faults: FaultTruth) -> Truth:
    clocks = [ClockTruth(100.0, 3.0), ClockTruth(-20.0, -4.0), ClockTruth(0.0, 0.0)]
    return Truth(3, 0, [2, 3, 4], [12.0] * 3, [10.0] * 3, list(faults), clocks, [])


SLOW = FaultTruth("slow_gpu", [1], [], 3, "GPU", 2.0, [0.0, 2.0, 2.0], {})
LINK = FaultTruth("slow_link", [2], ["0", "4"], 2, "network", 2.0, [2.0, 2.0, 2.0], {})


def row(rank: int | None, cause: str, since: int | None, gain: float, group: str | None = None) -> dict[str, object]:
    return {"rank": rank, "group": group, "cause": cause, "since_step": since, "gain_ms": gain}


def test_a_straggler_with_rank_cause_and_step_is_a_hit() -> None:
    (verdict,) = verdicts(truth(SLOW), [row(0, "host", 2, 1.0), row(1, "GPU", 3, 2.1)])
    assert verdict.is_hit
    assert verdict.is_gain_near
    assert verdict.gain_error == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (row(0, "GPU", 3, 2.0), (False, False, False)),
        (row(1, "host", 3, 2.0), (True, False, True)),
        (row(1, "GPU", 2, 2.0), (True, True, False)),
        (row(1, "GPU", None, 2.0), (True, True, False)),
    ],
)
def test_each_part_that_is_wrong_is_a_miss(named: dict[str, object], expected: tuple[bool, bool, bool]) -> None:
    (verdict,) = verdicts(truth(SLOW), [named])
    assert (verdict.is_place_named, verdict.is_cause_named, verdict.is_step_named) == expected
    assert not verdict.is_hit


def test_a_gain_that_is_far_off_is_not_near() -> None:
    (verdict,) = verdicts(truth(SLOW), [row(1, "GPU", 3, 2.3)])
    assert verdict.is_hit
    assert not verdict.is_gain_near


def test_a_slow_link_is_named_by_its_rank_or_by_one_of_its_groups() -> None:
    for named in (row(2, "network", None, 2.0), row(None, "network", 2, 2.0, group="4")):
        assert verdicts(truth(LINK), [named])[0].is_hit
    assert not verdicts(truth(LINK), [row(None, "network", 2, 2.0, group="5")])[0].is_hit


def test_a_fault_that_costs_next_to_nothing_is_not_expected() -> None:
    hidden = FaultTruth("gc", [0], [], 2, "host", 0.1, [0.1] * 3, {})
    clock = FaultTruth("clock", [0, 1, 2], [], 2, "", 0.0, [0.0] * 3, {})
    assert verdicts(truth(hidden, clock), []) == []


def test_ranks_without_a_fault_are_unplanted_unless_unclear() -> None:
    rows = [row(0, "host", 2, 1.0), row(0, "unclear", 2, 1.0), row(1, "host", 3, 1.0)]
    assert unplanted(truth(SLOW), rows) == rows[:1]


def test_clocks_are_compared_but_for_a_common_shift() -> None:
    ranks = [
        {"rank": 0, "clock_offset_us": 1_103.0, "clock_drift_ppm": 3.5},
        {"rank": 1, "clock_offset_us": 980.0, "clock_drift_ppm": -4.0},
        {"rank": 2, "clock_offset_us": 1_000.0, "clock_drift_ppm": 0.0},
    ]
    assert clock_errors(truth(), ranks) == pytest.approx((3.0, 0.5))
    assert clock_errors(truth(), [{"rank": 0, "clock_offset_us": None}]) is None


def test_sixty_jobs_have_every_kind_of_fault_with_and_without_clocks() -> None:
    specs = list(faulty_jobs(60))
    kinds = Counter(fault.kind for spec in specs for fault in spec.faults)
    assert kinds.keys() == set(CAUSES)
    assert min(kinds[kind] for kind, cause in CAUSES.items() if cause) >= 6
    assert any(sum(CAUSES[fault.kind] != "" for fault in spec.faults) == 2 for spec in specs)
    assert list(faulty_jobs(60)) == specs


def test_healthy_jobs_have_no_fault_but_their_clocks() -> None:
    assert {fault.kind for spec in healthy_jobs(20) for fault in spec.faults} == {"clock"}
