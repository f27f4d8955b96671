"""Costs on two real pairs of a served model's graph: how much has one, and that the figures are what the sizes say."""

from __future__ import annotations

import pytest

import warplens
from support import SHARED

SERVING = SHARED / "traces" / "serving"
PAIRS = {"vllm_piecewise": 99.9, "sglang_decode": 99.5}
"""Least percent of the GPU time that has a cost."""
pytestmark = pytest.mark.skipif(not SERVING.is_dir(), reason="the pairs are not here")


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[str, warplens.Profile]:
    name = str(request.param)
    capture = SERVING / f"{name}.capture.json.gz"
    return name, warplens.open(SERVING / f"{name}.replay.json.gz", graph_captures=[capture], cache=False)


def test_nearly_all_of_the_gpu_time_has_a_cost(pair: tuple[str, warplens.Profile]) -> None:
    name, profile = pair
    coverage = {row["reason"]: row["percent"] for row in profile.table("cost_coverage").to_dicts()}
    assert coverage["costed"] >= PAIRS[name]
    assert set(coverage) <= {"costed", "no model", "no op"}


def test_attention_has_the_lengths_of_the_iteration(pair: tuple[str, warplens.Profile]) -> None:
    name, profile = pair
    (row,) = profile.table("attention").to_dicts()
    if name == "vllm_piecewise":
        assert (row["count"], row["requests"], row["queries"], row["keys"]) == (24, 46, 8192, 42919)
        assert row["flop"] == (7671310 - (7475785 - 8155) / 2 + 34489) * 64 * 4 * 64
        assert "sliding window" in row["approximate"]
    else:
        assert (row["count"], row["requests"], row["queries"], row["keys"]) == (36, 32, 32, 32785)
        assert (row["flop"], row["bytes"], row["approximate"]) == (537149440, 134811648, "")
    assert row["lengths"] == "mark" and 10 < row["percent_of_roofline"] < 100


def test_the_experts_of_the_prefill_have_their_packed_weights(pair: tuple[str, warplens.Profile]) -> None:
    name, profile = pair
    rows = [row for row in profile.table("roofline").to_dicts() if row["family"] == "moe"]
    if name != "vllm_piecewise":
        assert rows == []
        return
    (row,) = rows
    assert row["count"] == 24 and row["params"] == "tokens=8192 experts=32 top_k=4 H=3072 I=2944 weights=uint8"
    assert row["flop"] == 8192 * 4 * 2 * 3072 * 3 * 2944
    assert row["bytes"] == 2 * 2 * 8192 * 3072 + 32 * 3 * 2944 * 3072 / 2
    assert row["percent"] > 70 and row["percent_of_roofline"] < 100
