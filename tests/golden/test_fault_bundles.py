"""Capture bundles of programs with a planted fault, recorded on a GPU: what their findings say, and what repairs won."""

from __future__ import annotations

import json
from typing import Any

import pytest

import warplens
from support import ROOT

BUNDLES = ROOT / "samples" / "faults" / "bundles"
TRUTH: dict[str, dict[str, Any]] = json.loads((BUNDLES / "truth.json").read_text())["pairs"]
CODES = {
    "launch_bound": "WL104", "dataloader_stall": "WL303", "graph_gaps": "WL304", "pageable_copy": "WL302",
}  # fmt: skip


@pytest.fixture(params=CODES)
def bundle(request: pytest.FixtureRequest) -> tuple[str, warplens.Profile]:
    profile = warplens.open(BUNDLES / f"{request.param}.zip", cache=False)
    assert isinstance(profile, warplens.Profile)
    return request.param, profile


def plain_ms(profile: warplens.Profile) -> float:
    assert profile.meta.plain_step_ns is not None
    return profile.meta.plain_step_ns / 1e6


def test_the_gain_is_what_the_repair_wins_of_the_plain_step(bundle: tuple[str, warplens.Profile]) -> None:
    name, profile = bundle
    finding = next(finding for finding in profile.findings() if finding.code == CODES[name])
    won_ms = plain_ms(profile) - TRUTH[name]["after_ms"]
    assert profile.step_model is not None
    assert profile.step_model.gain(finding.edits).gain_ms == pytest.approx(won_ms, rel=0.2)
    assert finding.gain_low_ms <= won_ms <= finding.gain_high_ms
    assert profile.findings()[0] is finding


def test_the_corrected_step_takes_the_time_of_the_plain_one(bundle: tuple[str, warplens.Profile]) -> None:
    _, profile = bundle
    recorded_ms, corrected_ms = profile.table("bounds").frame["step_ms"].to_list()[:2]
    assert corrected_ms == pytest.approx(plain_ms(profile), rel=0.05)
    again = profile.corrected().table("bounds").frame["step_ms"].to_list()
    assert again[0] == pytest.approx(corrected_ms, rel=0.05)
    assert again[1] == pytest.approx(again[0], rel=0.05), "nothing is taken off twice"
    assert recorded_ms != corrected_ms


def test_every_recorded_step_takes_its_host_times_from_the_light_ones(bundle: tuple[str, warplens.Profile]) -> None:
    _, profile = bundle
    assert profile.step_model is not None
    note = "the host's times of 3 of 3 steps are those of 3 steps recorded without ops"
    assert profile.step_model.graph.light_note == note
    assert note in profile.table("bounds").notes


def test_the_light_steps_of_a_host_bound_program_are_faster_than_the_recorded_ones() -> None:
    profile = warplens.open(BUNDLES / "launch_bound.zip", cache=False)
    assert isinstance(profile, warplens.Profile)
    light = profile.workspace.light
    assert light is not None
    recorded, lightly = (
        trace.steps.select(length="end_ns").to_series() - trace.steps["start_ns"] for trace in (profile.trace, light)
    )
    assert 1.2 * lightly.median() < recorded.median()  # type: ignore[operator]
