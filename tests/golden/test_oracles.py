"""Figures of other programs on the same files; skipped where the traces are not beside the checkout."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import ORACLES, SHARED
from warplens.model.kinds import CODE

pytestmark = pytest.mark.skipif(not ORACLES, reason="the shared traces and oracles are not beside this checkout")


def _trace_of(oracle: Path) -> Path:
    folders = (SHARED / "traces" / folder for folder in ("h200", "public"))
    return next(path for folder in folders if (path := folder / f"{oracle.stem}.json.gz").exists())


@pytest.fixture(params=ORACLES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> tuple[warplens.Profile, dict[str, Any]]:
    return warplens.open(_trace_of(request.param), cache=False), json.loads(request.param.read_text())


def test_oracles(case: tuple[warplens.Profile, dict[str, Any]]) -> None:
    """One open per trace (they are large), every figure of its oracle."""
    profile, oracle = case
    _timeline_equals_brute_force_to_a_microsecond(profile, oracle)
    _kernel_sums_equal_where_the_oracle_linked_the_kernel(profile, oracle)
    _op_counts_and_sums_equal(profile, oracle)
    _kernels_counted_once(profile, oracle)


def _timeline_equals_brute_force_to_a_microsecond(profile: warplens.Profile, oracle: dict[str, Any]) -> None:
    rows = profile.table("timeline").to_dicts()
    measured = {row["measure"]: row["time_ms"] for row in rows if row["device"] == "all"}
    assert measured == pytest.approx(oracle["timeline_all_gpu_events_ms"], abs=0.001)


def _kernel_sums_equal_where_the_oracle_linked_the_kernel(profile: warplens.Profile, oracle: dict[str, Any]) -> None:
    ours: dict[tuple[str, str, str], dict[str, Any]] = {
        (row["op"], row["kernel"], str(row["stream"])): row for row in profile.table("kernels").to_dicts()
    }
    linked = [row for row in oracle["kernels"] if row["op"]]
    for row in linked:
        own = ours[row["op"], row["kernel"], row["stream"]]
        assert own["count"] == row["count"], row
        for column in ("total_us", "min_us", "max_us"):
            assert own[column] == pytest.approx(row[column], abs=0.002, rel=1e-9), (row, column)


def _op_counts_and_sums_equal(profile: warplens.Profile, oracle: dict[str, Any]) -> None:
    """The oracle's op sums leave out memsets and copies, so they are compared through the kernels table."""
    sums: dict[str, float] = defaultdict(float)
    for row in oracle["kernels"]:
        sums[row["op"]] += row["total_us"]
    kernels = profile.gpu_events().filter(pl.col("kind") == CODE["kernel"])
    for name, total in kernels.group_by("op").agg(pl.col("dur_ns").sum()).iter_rows():
        if name in sums:
            assert total / 1000 == pytest.approx(sums[name], abs=0.01), name


def _kernels_counted_once(profile: warplens.Profile, oracle: dict[str, Any]) -> None:
    kinds = profile.trace.named_events()["kind"]
    raw = oracle["raw"]
    counted = {kind: int((kinds == kind).sum()) for kind in ("kernel", "memcpy", "memset")}
    assert counted == {"kernel": raw["kernels"], "memcpy": raw["memcpy"], "memset": raw["memset"]}
    assert profile.table("kernels").frame["count"].sum() == sum(counted.values())
