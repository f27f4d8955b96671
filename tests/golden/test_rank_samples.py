"""Real jobs of four ranks with a planted fault: who is named, why, since when, and what a repair wins."""

from __future__ import annotations

import json
from typing import Any

import pytest

import warplens
from support import ROOT

RANKS = ROOT / "samples" / "ranks"
TRUTH: dict[str, dict[str, Any]] = json.loads((RANKS / "truth.json").read_text())["jobs"]
CODES = {"fsdp4_gpu": "WL402", "gloo4": "WL403", "nccl4": "WL403", "pp4_uneven_stage": "WL407"}


@pytest.fixture(scope="module", params=CODES)
def job(request: pytest.FixtureRequest) -> tuple[str, warplens.JobProfile]:
    return request.param, warplens.open_ranks([RANKS / request.param])


def test_every_sample_has_its_truth() -> None:
    assert set(TRUTH) == {path.name for path in RANKS.iterdir() if path.is_dir()} == set(CODES)


def test_the_planted_fault_alone_is_named(job: tuple[str, warplens.JobProfile]) -> None:
    truth = TRUTH[job[0]]
    (row,) = job[1].table("stragglers").to_dicts()
    assert (row["rank"], row["cause"].lower(), row["since_step"]) == (
        truth["rank"],
        truth["cause"],
        truth["since_step"],
    )
    if truth["plain"]:
        assert row["gain_ms"] == pytest.approx(truth["plain"]["gain_ms"], rel=0.15)


def test_its_finding_has_the_gain_of_the_repair(job: tuple[str, warplens.JobProfile]) -> None:
    name, profile = job
    truth = TRUTH[name]["plain"]
    found = {finding.code: finding for finding in profile.findings()}
    if TRUTH[name].get("is_overlapped"):
        assert CODES[name] not in found  # transfers hide the pause: there is nothing to win
        return
    assert CODES[name] in found
    if truth:
        assert profile.findings()[0].code == CODES[name]
        assert found[CODES[name]].gain_ms == pytest.approx(truth["gain_ms"], rel=0.15)


def test_the_joined_graphs_reproduce_every_time(job: tuple[str, warplens.JobProfile]) -> None:
    graph = job[1].model.graph
    assert len(graph.order) == len(graph) > 0
    assert (job[1].model.recorded.times == graph.recorded_ns).all()
