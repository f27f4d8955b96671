"""What changes would win: the step is simulated with them."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import SHARED, Opened, kernel, launch, op
from warplens.analyses.graph.recording_cost import USUAL_SHARE
from warplens.analyses.graph.what_if import best_first
from warplens.model.edits import CaptureGraph, ScaleHost, StepChange
from warplens.profiles.what_if import fixes, scaling

WHAT_IF = SHARED / "traces" / "whatif"
GRAPH = StepChange("graph", (CaptureGraph(),))
needs_traces = pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")


def rows(profile: warplens.Profile, *changes: StepChange) -> list[dict[str, Any]]:
    return profile.what_if(changes).to_dicts()


def host_bound() -> list[dict[str, Any]]:
    """Every 100 µs one op launches a product of 20 µs; the last one a copy of 30."""
    events: list[dict[str, Any]] = []
    for at in range(3):
        name = "sm90_xmma_gemm_f32" if at < 2 else "copy_kernel"
        own = "aten::mm" if at < 2 else "aten::copy_"
        events += [op(own, 100 * at, 20), launch(100 * at + 10, 5, at + 1)]
        events += [kernel(name, 100 * at + 18, 20 if at < 2 else 30, at + 1)]
    return events


def test_rows_have_the_plain_step_each_change_and_all_together(opened: Opened) -> None:
    profile = opened(host_bound())
    products = scaling(profile.table, "kernel=*GEMM*", 0.5)
    plain, first, second, both = rows(profile, products, StepChange("fast", (ScaleHost(0.0),)))
    assert [row["fixes"] for row in (plain, first, second, both)] == [
        "", "kernel=*GEMM* × 0.5", "fast", "kernel=*GEMM* × 0.5; fast",
    ]  # fmt: skip
    assert (plain["gain_ms"], plain["low_ms"], plain["high_ms"]) == (0, 0, 0)
    assert first["gain_ms"] == pytest.approx(0, abs=1e-9), "the host is the limit"
    assert second["step_ms"] == pytest.approx(0.003 + 0.020 + 0.001 + 0.020 + 0.001 + 0.030)
    assert both["step_ms"] == pytest.approx(second["step_ms"] - 0.020)
    for row in (plain, first, second, both):
        assert row["step_ms"] + row["gain_ms"] == pytest.approx(plain["step_ms"], abs=2e-6)
        assert row["low_ms"] <= row["gain_ms"] <= row["high_ms"]
        assert row["step_low_ms"] <= row["step_ms"] <= row["step_high_ms"]
    assert profile.clock is not None
    assert (plain["step_low_ms"], plain["step_high_ms"]) == pytest.approx(
        (profile.clock.low_ms, profile.clock.high_ms), abs=1e-6
    )


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99])
def test_a_faster_host_never_loses_and_a_slower_one_never_wins(opened: Opened, factor: float) -> None:
    """Whatever the model's error: 2.5 % of the step are more than many a change wins."""
    profile = opened(host_bound())
    faster, slower = (StepChange("host", (ScaleHost(of),)) for of in (factor, 2 - factor))
    plain, fast = rows(profile, faster)
    (_, slow) = rows(profile, slower)
    assert 0 <= fast["low_ms"] <= fast["gain_ms"] <= fast["high_ms"]
    assert fast["step_high_ms"] <= plain["step_high_ms"]
    assert slow["low_ms"] <= slow["gain_ms"] <= slow["high_ms"] <= 0
    assert slow["step_low_ms"] >= plain["step_low_ms"]


def test_the_last_kernel_counts_even_where_the_host_is_the_limit(opened: Opened) -> None:
    profile = opened(host_bound())
    assert rows(profile, scaling(profile.table, "category=Memory*", 0.0))[1]["gain_ms"] == pytest.approx(
        0.030, abs=1e-4
    ), "all of it"


def test_an_op_takes_its_host_time_with_it(opened: Opened) -> None:
    profile = opened(host_bound())
    (_, row) = rows(profile, scaling(profile.table, "op=aten::copy_", 0.0))
    assert row["step_ms"] == pytest.approx(0.110 - USUAL_SHARE.share * 0.030 + 0.008 + 0.020, abs=0.005)


def test_a_graph_leaves_the_kernels_and_short_pauses(opened: Opened) -> None:
    (_, row) = rows(opened(host_bound()), GRAPH)
    before = (1 - USUAL_SHARE.share) * 0.010  # of the run, until its first call
    assert row["step_ms"] == pytest.approx(before + 0.070 + 3 * 0.00045, abs=1e-4)


@pytest.mark.parametrize(("pattern", "factor", "message"), [
    ("gemm", 1.0, "not a valid selection: 'gemm'"),
    ("line=x", 1.0, "not a valid selection: 'line=x'"),
    ("op=", 1.0, "not a valid selection: 'op='"),
    ("op=aten::conv*", 1.0, "no op matches 'aten::conv*'"),
    ("op=aten::mm", -1.0, "not a valid factor: -1"),
    ("op=aten::mm", float("nan"), "not a valid factor: nan"),
])  # fmt: skip
def test_what_cannot_be_scaled_is_one_line(opened: Opened, pattern: str, factor: float, message: str) -> None:
    with pytest.raises(warplens.UsageError) as error:
        scaling(opened(host_bound()).table, pattern, factor)
    assert str(error.value).startswith(message)


def test_without_launches_nothing_is_simulated(opened: Opened) -> None:
    table = opened([kernel("gemm", 0, 10)]).what_if([GRAPH])
    assert (len(table), len(table.notes)) == (0, 1)


def test_the_best_change_comes_first_and_then_the_one_that_wins_most_beside_it(opened: Opened) -> None:
    """Without the host's time the products win; with it they win nothing."""
    profile = opened(host_bound())
    changes = [scaling(profile.table, "kernel=*GEMM*", 0.5), StepChange("fast", (ScaleHost(0.0),))]
    names = [row["fixes"] for row in best_first(profile.step_model, changes).to_dicts()]
    assert names == ["", "fast", "fast; kernel=*GEMM* × 0.5"]
    assert best_first(profile.step_model, []).to_dicts() == rows(profile)
    assert len(best_first(None, changes)) == 0


@needs_traces
def test_findings_are_fixed_by_their_codes_one_by_one_and_all_together() -> None:
    profile = warplens.open(WHAT_IF / "L_all.json.gz", step_ms=164.958)
    assert isinstance(profile, warplens.Profile)
    single = {finding.code: finding.gain_ms for finding in profile.findings()}
    table = rows(profile, *fixes(profile.findings(), ["WL201", "WL204"]))
    assert [row["fixes"] for row in table] == ["", "WL204", "WL201", "WL204; WL201"]
    assert [row["gain_ms"] for row in table[1:3]] == [pytest.approx(single[code]) for code in ("WL204", "WL201")]
    together = profile.table("what_if").to_dicts()
    gains = [row["gain_ms"] for row in together]
    assert gains == sorted(gains)
    assert gains[1] == pytest.approx(max(single.values()))
    assert together[-1]["step_ms"] < together[0]["step_ms"] / 2
    assert gains[-1] < sum(single.values()), "gains do not add up"
    with pytest.raises(warplens.UsageError, match="no finding WL999") as error:
        fixes(profile.findings(), ["WL999"])
    assert "WL204" in str(error.value.hint)


@needs_traces
@pytest.mark.parametrize(("name", "plain_ms", "graph_ms", "within"), [
    ("S_good", 21.425, 5.793, 0.08),
    ("L_good", 49.345, 48.316, 0.02),
])  # fmt: skip
def test_a_step_as_a_graph_takes_what_the_real_graph_takes(
    name: str, plain_ms: float, graph_ms: float, within: float
) -> None:
    """The same program was captured and timed without a profiler."""
    profile = warplens.open(WHAT_IF / f"{name}.json.gz", step_ms=plain_ms)
    assert rows(profile, GRAPH)[1]["step_ms"] == pytest.approx(graph_ms, rel=within)


@needs_traces
def test_products_on_aligned_sizes_win_nothing_where_the_host_is_the_limit_and_much_where_the_gpu_is() -> None:
    """A vocabulary of 50304 instead of 50257 wins −0.3 of 21.1 ms in S, and 26.2 of 75.6 ms in L."""
    small = warplens.open(WHAT_IF / "S_vocab.json.gz", step_ms=21.13)
    assert abs(rows(small, scaling(small.table, "kernel=*align1*", 0.19))[1]["gain_ms"]) < 0.3
    large = warplens.open(WHAT_IF / "L_vocab.json.gz", step_ms=75.567)
    assert rows(large, scaling(large.table, "kernel=*align1*", 0.19))[1]["gain_ms"] == pytest.approx(26.2, rel=0.12)
