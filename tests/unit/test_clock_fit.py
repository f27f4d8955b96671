"""Clocks of very many machines: found again, with memory that grows with the ends and not with the machines' square."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Ints
from warplens.ranks.clock_fit import Equations, fitted

CLOCKS = 2_000
CALLS = 4
"""Collectives of each group."""
NOISE_NS = 1_000


@pytest.fixture(scope="module")
def truth() -> tuple[Floats, Floats]:
    random = np.random.default_rng(1)
    return random.uniform(-5e7, 5e7, CLOCKS), random.uniform(-1e-4, 1e-4, CLOCKS)


def ends_of(groups: list[Ints], offset: Floats, drift: Floats) -> tuple[Ints, Ints, Floats]:
    """Of each end its clock, its collective and its time; one in twenty collectives has an end that is far too late."""
    random = np.random.default_rng(2)
    members = [group for group in groups for _ in range(CALLS)]
    own, sizes = np.concatenate(members), [len(group) for group in members]
    match = np.repeat(np.arange(len(members)), sizes)
    moment = random.uniform(-1e9, 1e9, len(members))[match]
    end = moment + offset[own] + drift[own] * moment + random.normal(0, NOISE_NS, len(own))
    late = np.cumsum(sizes)[::20] - 1
    end[late] += random.uniform(1e5, 1e7, len(late))
    return own, match, end


def crossing(clocks: int) -> list[Ints]:
    """Machines in rows of 40 that cross columns: what tensor and data parallel groups look like."""
    grid = np.arange(clocks).reshape(-1, 40)
    return [*grid, *grid.T]


def error(found: Floats, true: Floats) -> float:
    away = found - true
    return float(np.abs(away - np.median(away)).max())


def test_clocks_of_two_thousand_machines_are_found_without_writing_their_equations(
    truth: tuple[Floats, Floats],
) -> None:
    ends = ends_of(crossing(CLOCKS), *truth)
    tracemalloc.start()
    offset, drift = fitted(*ends, CLOCKS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (2 * CLOCKS) ** 2 * 8 / 10  # a tenth of the equations; it takes a hundredth
    assert error(offset, truth[0]) < 5 * NOISE_NS
    assert error(drift, truth[1]) < 5e-6


def test_clocks_that_only_a_chain_joins_are_found(truth: tuple[Floats, Floats]) -> None:
    offset, drift = (part[:64] for part in truth)
    chain = [np.array([clock, clock + 1]) for clock in range(63) for _ in range(10)]
    found, slope = fitted(*ends_of(chain, offset, drift), 64)
    assert error(found, offset) < 20_000
    assert error(slope, drift) < 5e-5


@pytest.mark.parametrize("noise_ns", [0, 1])
def test_clocks_that_agree_already_are_not_sought_for_long(monkeypatch: pytest.MonkeyPatch, noise_ns: float) -> None:
    products = []
    times = Equations._times
    monkeypatch.setattr(Equations, "_times", lambda self, solution: products.append(1) or times(self, solution))
    own, match = np.tile(np.arange(8), 64), np.repeat(np.arange(64), 8)
    noise = np.random.default_rng(3).uniform(-noise_ns, noise_ns, len(own))
    offset, _ = fitted(own, match, np.linspace(-1e9, 1e9, 64)[match] + noise, 8)
    assert np.abs(offset).max() <= 2 * noise_ns + 1e-3
    assert len(products) < 500  # rounding alone would keep it going for 120,000


def test_clocks_that_nothing_joins_stay_apart() -> None:
    offset = np.array([0.0, 1e6, 5e8, 5e8 + 2e6])
    found, _ = fitted(*ends_of([np.array([0, 1]), np.array([2, 3])] * 20, offset, np.zeros(4)), 4)
    assert found[1] - found[0] == pytest.approx(1e6, abs=2 * NOISE_NS)
    assert found[3] - found[2] == pytest.approx(2e6, abs=2 * NOISE_NS)
