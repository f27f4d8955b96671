"""Traces of plain `torch.profiler` beside unprofiled steps of the same process: what is estimated from the one alone.

The programs are among those that the constants were fitted to; without each of them the fit gives the same ones.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

import warplens
from support import ROOT
from warplens.analyses.graph.plain_step import ESTIMATED, GIVEN

FOLDER = ROOT / "samples" / "plain_steps"
TRUTH: dict[str, dict[str, Any]] = json.loads((FOLDER / "truth.json").read_text())["programs"]
WIDEST = {"gpt_small": 0.5, "graph_large": 0.1, "recommender": 0.5, "regressor": 0.45}
"""Width of the interval as a share of the estimate: where the host decides, and where the GPU does."""


@pytest.fixture(params=TRUTH)
def sample(request: pytest.FixtureRequest) -> tuple[str, warplens.Profile]:
    profile = warplens.open(FOLDER / f"{request.param}.json.gz", cache=False)
    assert isinstance(profile, warplens.Profile)
    return request.param, profile


def test_an_unprofiled_step_lies_in_the_interval_of_the_estimate(sample: tuple[str, warplens.Profile]) -> None:
    name, profile = sample
    step = profile.plain_step
    assert step is not None and step.origin == ESTIMATED
    assert step.low_ms <= step.plain_ms <= step.high_ms
    assert any(step.low_ms <= TRUTH[name][which] <= step.high_ms for which in ("right_after_ms", "median_ms"))
    assert step.low_ms <= median(TRUTH[name]["before_ms"]) <= step.high_ms, "never profiled until then"
    assert (step.high_ms - step.low_ms) / step.plain_ms <= WIDEST[name]


def test_a_given_time_has_no_interval_and_bounds_that_contain_those_of_the_expected_cost(
    sample: tuple[str, warplens.Profile],
) -> None:
    name, _ = sample
    given_ms = TRUTH[name]["right_after_ms"]
    profile = warplens.open(FOLDER / f"{name}.json.gz", cache=False, step_ms=given_ms)
    assert isinstance(profile, warplens.Profile)
    step, bounds = profile.plain_step, profile.bounds
    assert step is not None and bounds is not None
    assert step.origin == GIVEN
    assert (step.low_ms, step.plain_ms, step.high_ms) == pytest.approx((given_ms, given_ms, given_ms))
    for saves, case_ms in ((bounds.fast_gpu_saves, bounds.fast_gpu_ms), (bounds.fast_host_saves, bounds.fast_host_ms)):
        assert saves.low_ms - 1e-9 <= bounds.saves_ms(case_ms) <= saves.high_ms + 1e-9
