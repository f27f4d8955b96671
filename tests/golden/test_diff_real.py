"""Real pairs of traces: nothing is counted twice, and the verdict names what changed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import ORACLES, SAMPLES, SHARED, nightly_after
from warplens.profiles.comparison import Comparison

SUMS = ("diff_categories", "diff_ops", "diff_kernels", "diff_modules", "diff_layers")
H200, PUBLIC = SHARED / "traces" / "h200", SHARED / "traces" / "public"
shared_only = pytest.mark.skipif(not ORACLES, reason="the shared traces and oracles are not beside this checkout")
PAIRS = [
    (H200 / "gpt2_train_eager.json.gz", H200 / "gpt2_train_padded.json.gz"),
    (H200 / "gpt2_train_eager.json.gz", H200 / "gpt2_train_compiled.json.gz"),
    (PUBLIC / "mi300_qwen_infer.json.gz", H200 / "vicuna7b_infer.json.gz"),
    (PUBLIC / "mi300_resnet_ddp_recompute.json.gz", H200 / "resnet50_train.json.gz"),
    (H200 / "bloom560m_infer.json.gz", H200 / "bloom560m_infer_noshapes.json.gz"),
    (PUBLIC / "mi210_gpu_only.json.gz", PUBLIC / "mi300_torch_compile.json.gz"),
]


@lru_cache
def opened(path: Path) -> warplens.Profile:
    """Opened once, with the tables of one side: most traces are compared several times."""
    return warplens.open(path, cache=False)


@lru_cache
def compared(a: Path, b: Path) -> Comparison:
    return warplens.diff(opened(a), opened(b))


def conserves(comparison: Comparison, a: Path, b: Path) -> None:
    """Every table of GPU work adds up to each side's own GPU time, and the parts to the whole.

    The last of three or more steps is not compared: nothing ends it.
    """
    per_step = comparison.table("diff_ops").notes[0].startswith("times are per step")
    for side, path in (("a", a), ("b", b)):
        events = opened(path).gpu_events()
        steps = events.filter(pl.col("step") >= 0)
        if steps["step"].n_unique() > 2:
            steps = steps.filter(pl.col("step") != pl.col("step").max())
        counted, runs = (steps, max(1, steps["step"].n_unique())) if per_step else (events, 1)
        whole = counted["dur_ns"].sum() / 1e3 / runs
        for name in SUMS:
            frame = comparison.table(name).frame
            assert frame[f"{side}_us"].sum() == pytest.approx(whole, abs=0.01), (name, side)
        assert comparison.table("diff_tree").frame[f"{side}_us"][0] == pytest.approx(whole, abs=0.01)
        parts = comparison.table("diff_summary").frame[f"{side}_us"]
        assert parts[0] == pytest.approx(parts[1:].sum(), abs=0.01)


@pytest.mark.parametrize("a", SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("b", nightly_after(1, SAMPLES[:3]), ids=lambda path: path.name)
def test_samples_conserve_time_and_have_a_verdict(a: Path, b: Path) -> None:
    comparison = compared(a, b)
    conserves(comparison, a, b)
    assert comparison.verdict().endswith((".", "?"))


@shared_only
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda path: path.name.split(".")[0])
def test_real_pairs_conserve_time(a: Path, b: Path) -> None:
    conserves(compared(a, b), a, b)


@shared_only
def test_a_padded_vocabulary_is_matched_and_named() -> None:
    """46.2 → 7.2 ms of matrix products of the LM head over three steps; everything else is as it was."""
    comparison = compared(H200 / "gpt2_train_eager.json.gz", H200 / "gpt2_train_padded.json.gz")
    head: list[dict[str, Any]] = [
        row
        for row in comparison.table("diff_ops").to_dicts()
        if row["op"] == "aten::mm" and "50257" in row["input_dims"]
    ]
    assert {row["matched_by"] for row in head} == {"op, one size differs"}
    assert 3 * sum(row["a_us"] for row in head) == pytest.approx(46_164, rel=0.001)
    assert 3 * sum(row["b_us"] for row in head) < 7_500
    verdict = comparison.verdict()
    assert verdict.startswith(
        "B is 1.24× faster (1.13 to 1.34): 60.9 ms (58.2 to 63.7) → 49.2 ms (46.2 to 53.4) per unprofiled step "
        "(estimated; 66.9 → 73.3 ms recorded). "
    )
    assert "% of it from GEMM: gemm bf16 128x128 tn align1 sm75 → " in verdict
    assert "B's GPU work is 1.28× faster: 58.0 → 45.4 ms per step." in verdict
    assert "100 % of A's and 100 % of B's" in comparison.facts()["matched"]


@shared_only
def test_compiled_products_match_although_their_result_is_handed_in() -> None:
    comparison = compared(H200 / "gpt2_train_eager.json.gz", H200 / "gpt2_train_compiled.json.gz")
    gemm = comparison.table("diff_ops").frame.filter(pl.col("op").is_in(["aten::mm", "aten::addmm"]))
    matched = gemm.filter(pl.col("matched_by").is_in(["op and shapes", "op, one size differs"]))
    assert matched["b_us"].sum() > 0.95 * gemm["b_us"].sum()
    assert comparison.verdict().startswith("B is 3.74× faster (3.52 to 3.98)")


@shared_only
def test_unlike_traces_are_told_apart() -> None:
    comparison = compared(PUBLIC / "mi300_qwen_infer.json.gz", H200 / "vicuna7b_infer.json.gz")
    assert "are these the same work?" in comparison.verdict()
    assert "× the FLOPs of" in comparison.verdict()


@shared_only
def test_a_graph_compared_with_itself_is_no_difference() -> None:
    comparison = compared(H200 / "cudagraph_infer.json.gz", H200 / "cudagraph_infer.json.gz")
    assert comparison.verdict() == "No difference: 10.0 → 10.0 ms per recorded run."
    assert set(comparison.table("diff_ops").frame["matched_by"]) == {"kernel"}
