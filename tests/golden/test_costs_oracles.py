"""Costs on real traces: FLOPs against another program's figures, coverage, and sums that add up."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import SHARED, real_traces
from warplens.analyses.roofline.tables import PARAMS

BARS = {
    # least percent of GPU time that has a cost
    "gpt2_train_eager": 95,
    "bloom560m_infer": 95,
    "vicuna7b_infer": 95,
    "resnet50_train": 95,
    "mi300_qwen_infer": 95,
    "gpt2_train_compiled": 90,
}
BORROWED = ("mi300_qwen_infer", "mi300_resnet_ddp_recompute")
"""They begin while kernels of the step before still run: the other program leaves those out, here they have a twin."""
SAME_WORK = ("vllm::rocm_unquantized_gemm",)
"""The other program books the product on this op and on the aten::mm inside it."""
AUTOCAST = ("gpt2_train_eager", "gpt2_train_padded")
"""Under autocast aten::addmm casts its inputs and calls itself: the other program lists both, the outer with the casts."""
GFLOP = {"rel": 0, "abs": 5.1e-7}
"""The other program's figures have 6 decimals."""


def _name(path: Path) -> str:
    return path.name.removesuffix(".json.gz")


@pytest.fixture(scope="module", params=real_traces(), ids=lambda path: f"{path.parent.name}/{_name(path)}")
def trace(request: pytest.FixtureRequest) -> Iterator[tuple[Path, warplens.Profile]]:
    """Opened once for all tests of this file: some are large."""
    yield request.param, warplens.open(request.param, cache=False)


def _oracle(path: Path, *keys: str) -> list[dict[str, Any]]:
    """The rows of another program about this very file."""
    file = SHARED / "oracles" / f"{_name(path)}.json"
    if path.parent.name not in ("h200", "public") or not file.exists():
        pytest.skip("no figures of another program for this trace")
    figures = json.loads(file.read_text())
    return [row for key in keys for row in figures.get(key, [])]


def _sizes(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["op"], *(int(row[size]) for size in "BMNK"))


def _counts_agree(path: Path, ours: int, theirs: int) -> bool:
    return ours >= theirs if _name(path) in BORROWED else ours == theirs


def _products(path: Path) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The other program's products by op and sizes; rows of one key differ in memory order or dtype."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in _oracle(path, "gemm"):
        if row["op"] not in SAME_WORK:
            found[_sizes(row)].append(row)
    if _name(path) in AUTOCAST:
        inner = {key: [min(rows, key=lambda row: row["kernel_us_sum"])] for key, rows in found.items()}
        found |= {key: rows for key, rows in inner.items() if key[0] == "aten::addmm"}
    return found


def test_products_equal_the_other_program_s(trace: tuple[Path, warplens.Profile]) -> None:
    path, profile = trace
    theirs, ours = _products(path), defaultdict(list)
    for row in profile.table("gemm").to_dicts():
        ours[_sizes(row)].append(row)
    assert set(ours) == set(theirs)
    for key, rows in theirs.items():
        gflop = {row["gflop"] for row in rows}
        assert len(gflop) == 1, key
        assert [row["flop"] / 1e9 for row in ours[key]] == pytest.approx([*gflop] * len(ours[key]), **GFLOP)
        count, expected = (sum(row["count"] for row in each) for each in (ours[key], rows))
        assert _counts_agree(path, count, expected), key


def test_the_time_of_a_product_is_that_of_its_own_kernels(trace: tuple[Path, warplens.Profile]) -> None:
    """The other program adds the copy of its bias, an op of its own, to a baddbmm."""
    path, profile = trace
    if _name(path) in BORROWED:
        pytest.skip("kernels without a launch are counted here, but not by the other program")
    ours: dict[tuple[Any, ...], float] = defaultdict(float)
    for row in profile.table("gemm").to_dicts():
        ours[_sizes(row)] += row["kernel_us_mean"] * row["count"]
    for key, rows in _products(path).items():
        expected = sum(row["kernel_us_sum"] for row in rows)
        if key[0] == "aten::baddbmm":
            assert 0 < ours[key] < expected
        else:
            assert ours[key] == pytest.approx(expected, rel=1e-4), key


@pytest.mark.parametrize(("key", "direction"), [("sdpa_fwd", "forward"), ("sdpa_bwd", "backward")])
def test_attention_equals_the_other_program_s(trace: tuple[Path, warplens.Profile], key: str, direction: str) -> None:
    """It names the op from which the whole attention hangs, here it is the one that launches: rows match by FLOPs."""
    path, profile = trace
    ours = profile.table("attention").frame
    for row in _oracle(path, key):
        same = ours.filter(pl.col("pass") == direction, (pl.col("flop") / 1e9 - row["gflop"]).abs() <= GFLOP["abs"])
        assert _counts_agree(path, same["count"].sum(), row["count"]), row
        if _name(path) not in BORROWED:
            spent = (same["kernel_us_mean"] * same["count"]).sum()
            assert spent == pytest.approx(row["kernel_us_sum"], rel=1e-4), row


def test_almost_all_gpu_time_has_a_cost(trace: tuple[Path, warplens.Profile]) -> None:
    path, profile = trace
    if _name(path) not in BARS:
        pytest.skip("no bar is set for this trace")
    share = dict(profile.table("cost_coverage").frame.select("reason", "percent").iter_rows())
    assert share["costed"] >= BARS[_name(path)]


def test_coverage_shares_out_all_gpu_time(trace: tuple[Path, warplens.Profile]) -> None:
    _, profile = trace
    coverage, total_us = profile.table("cost_coverage").frame, profile.gpu_events()["dur_ns"].sum() / 1e3
    assert coverage["total_us"].sum() == pytest.approx(total_us, rel=1e-9)
    assert coverage["percent"].sum() == pytest.approx(100 if total_us else 0, abs=1e-6)
    assert not coverage["meaning"].is_in([""]).any()
    costed = coverage.filter(pl.col("reason") == "costed")
    rows = profile.table("roofline").frame
    assert rows["total_us"].sum() == pytest.approx(costed["total_us"].sum(), rel=1e-9)
    assert rows["count"].sum() == costed["count"].sum()


def test_no_share_of_the_roofline_is_over_100_without_a_reason(trace: tuple[Path, warplens.Profile]) -> None:
    _, profile = trace
    rows = profile.table("roofline").frame
    over = rows.filter(pl.col("percent_of_roofline") > 100)
    assert over["flag"].str.starts_with("over 100 %: ").all()
    within = rows.filter(pl.col("percent_of_roofline") <= 100)
    assert not within["flag"].str.starts_with("over").any()


def test_every_figure_is_finite_and_none_is_negative(trace: tuple[Path, warplens.Profile]) -> None:
    _, profile = trace
    rows = profile.table("roofline").frame
    for column in rows.select(pl.selectors.numeric()).iter_columns():
        values = column.drop_nulls().cast(pl.Float64)
        assert values.is_finite().all() and (values >= 0).all(), column.name
    assert (rows["kernel_us_mean"] <= rows["total_us"] / rows["count"] + 1e-6).all()
    assert (rows["lost_us"] <= rows["total_us"] + 1e-6).all()


def test_family_tables_are_the_roofline_s_rows(trace: tuple[Path, warplens.Profile]) -> None:
    _, profile = trace
    rows = profile.table("roofline").frame
    for family, (name, params) in PARAMS.items():
        frame = profile.table(name).frame
        # Copies of ops with a cost of their own are in the roofline with their op.
        assert len(frame) >= rows.filter(pl.col("family") == family).height
        assert len(frame) == rows.filter(pl.col("family") == family).height or family == "transfer"
        assert set(params) <= set(frame.columns)
