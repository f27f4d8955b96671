"""Verdict and findings do not contradict each other, nor the step they are of, on every real trace at hand."""

from __future__ import annotations

import math
import re

import pytest

import warplens
from support import ROOT, real_traces
from warplens.advice.limits import GPU, HOST, limits, savings_ms
from warplens.model.finding import Finding

LAUNCHES = ("WL101", "WL104", "WL107")
SETUP = ("WL108",)
BETWEEN = ("WL304", "WL601")
"""Gaps between graphs and between passes, whatever the host does in them."""
OF_THE_HOST = (*LAUNCHES, *SETUP, "WL301", "WL303", "WL306", *BETWEEN)
IDLE = (*OF_THE_HOST, "WL109")
ALWAYS_SHOWN = ("WL103", "WL901")
"""Findings without a gain of their own."""
WINS_PAUSES_TOO = 1.5
"""A step as a graph also wins the pauses between kernels, which a faster host does not."""


def leading(findings: list[Finding]) -> Finding | None:
    """The finding on idle time that wins most."""
    return max((finding for finding in findings if finding.code in IDLE), key=lambda each: each.gain_ms, default=None)


def limit_of(profile: warplens.Profile) -> str:
    """The verdict without the sentence on what is served, which it begins with where a model is served."""
    verdict = profile.verdict()
    if "serving_phases" not in profile.table_names:
        assert not verdict.startswith(SERVED)
        return verdict
    served, _, limit = verdict.partition(". ")
    assert served.startswith(SERVED), verdict
    assert len(verdict) <= FOUR_LINES
    return limit


THREE_LINES = 3 * 85
"""What the summary shows of it on a wide screen."""
FOUR_LINES = 4 * 85
"""With the sentence on what is served."""
SERVED = tuple(f"{phase}{what}" for phase in ("Decode", "Prefill", "Mixed") for what in (" of", ":"))
OTHER_CLOCK = re.compile(r"% of the (?:idle )?time")
"""Shares of what was recorded on the GPU."""
FAULTS = sorted((ROOT / "samples" / "faults").glob("*.json.gz"))


@pytest.fixture(scope="module", params=[*real_traces(), *FAULTS], ids=lambda path: f"{path.parent.name}/{path.name}")
def profile(request: pytest.FixtureRequest) -> warplens.Profile:
    profile = warplens.open(request.param, cache=False)
    if not isinstance(profile, warplens.Profile):
        pytest.skip("no timeline")
    return profile


def test_the_verdict_and_the_first_finding_on_idle_time_agree(profile: warplens.Profile) -> None:
    verdict, findings = limit_of(profile), profile.findings()
    assert len(verdict) <= THREE_LINES
    if verdict.startswith("A capture of "):
        return
    name, first = verdict.partition(".")[0].partition(":")[0], leading(findings)
    is_host_bound = name.startswith(("Host-bound", "Mixed, host-"))
    assert all(is_host_bound for finding in findings if finding.title.startswith("host-bound: ")), verdict
    if first is None:
        return
    said = (verdict, first.code, first.title)
    if is_host_bound:
        assert first.code in OF_THE_HOST, said
    if profile.bounds is not None and HOST not in limits(profile.bounds) and first.code in OF_THE_HOST:
        savings, model = savings_ms(profile.bounds), profile.step_model
        is_simulated = first.bound and first.edits and model is not None
        gain_ms = model.gain(first.edits).gain_ms if is_simulated else first.gain_ms
        assert gain_ms <= WINS_PAUSES_TOO * max(savings[HOST], 0.1 * profile.bounds.plain_ms), said
        assert gain_ms < max(savings[GPU], 0.1 * profile.bounds.plain_ms), said


def test_findings_are_finite_ranked_and_within_the_step(profile: warplens.Profile) -> None:
    found = profile.findings()
    gains = [finding.gain_ms if finding.expected_ms is None else finding.expected_ms for finding in found]
    assert gains == sorted(gains, reverse=True)
    assert all(gain_ms <= finding.gain_ms for gain_ms, finding in zip(gains, found, strict=True))
    for finding in found:
        assert math.isfinite(finding.gain_ms)
        assert OTHER_CLOCK.search(finding.title) is None, "the recorded span is not the step that the screen is of"
        if finding.code in ALWAYS_SHOWN:
            assert finding.gain_ms == finding.gain_percent == 0
            continue
        assert finding.place, finding
        assert finding.rows, finding
        if finding.saves_only_gpu_time:
            assert finding.gpu_gain_ms >= 0.009 * longest_ms(profile), finding
            continue
        assert 1 <= finding.gain_percent <= 100, finding
        assert 0 < finding.gain_ms <= longest_ms(profile), finding


def longest_ms(profile: warplens.Profile) -> float:
    """The longest step, on the GPU or from its first launch on; else all the time."""
    steps = profile.table("steps").frame["gpu_ms"].to_list()
    total = next(row["time_ms"] for row in profile.table("timeline").to_dicts() if row["measure"] == "total")
    simulated = 0.0 if profile.step_model is None else profile.step_model.step_high_ms
    return max(float(max(steps, default=0.0) or total), simulated) + 1e-6
