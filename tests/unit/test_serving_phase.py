"""The trace of one phase of a served model."""

from __future__ import annotations

import polars as pl
import pytest

import warplens
from serving_traces import asynchronous, decode_loop
from support import ROOT, SHARED, Opened, frame, op
from warplens.model.check import self_check
from warplens_run.base.errors import UsageError

SAMPLE = ROOT / "samples" / "serving" / "bloom_tokens.json.gz"
SERVING = SHARED / "traces" / "serving"


def measures(profile: warplens.Profile) -> dict[str, float]:
    whole = profile.table("timeline").to_polars().filter(device="all")
    return dict(whole.select("measure", "time_ms").iter_rows())


def test_idle_time_of_a_phase_is_its_own(opened: Opened) -> None:
    profile = opened(decode_loop(40, prompts_at=(0, 10, 20, 30)))
    phases = profile.table("serving_phases").to_polars()
    parts = {name: profile.of_phase(name) for name in ("prefill", "decode")}
    for name, part in parts.items():
        self_check(part.trace)
        row = phases.row(by_predicate=pl.col("phase") == name, named=True)
        assert measures(part)["busy"] == pytest.approx(row["time_ms"] * row["busy_percent"] / 100)
        # The gap before the first kept event is before the trace begins.
        assert measures(part)["total"] == pytest.approx(row["time_ms"], abs=0.06)
    kernel_us = sum(part.table("kernel_categories").to_polars()["total_us"].sum() for part in parts.values())
    assert kernel_us == pytest.approx(profile.table("kernel_categories").to_polars()["total_us"].sum())


def test_no_kept_gpu_event_loses_time_where_passes_overlap(opened: Opened) -> None:
    profile = opened(asynchronous())
    for name, kernel_us in (("prefill", 1000), ("decode", 200)):
        part = profile.of_phase(name)
        self_check(part.trace)
        assert part.table("kernel_categories").to_polars()["total_us"].sum() == pytest.approx(kernel_us)


def test_what_was_left_out_is_said(opened: Opened) -> None:
    quality = opened(decode_loop(10, prompts_at=(0,))).of_phase("decode").table("quality").to_polars()
    [message] = quality.filter(code="one_phase")["message"].to_list()
    expected = "only iterations that are decode, 9 of 10; omitted: 2 GPU events (43.8 % of GPU time)"
    assert message.startswith(expected)


def test_callers_around_several_passes_are_kept(opened: Opened) -> None:
    events = [frame("serve.py(3): loop", 0, 10_000), *decode_loop(6, prompts_at=(0,))]
    part = opened(events).of_phase("decode")
    self_check(part.trace)
    assert part.table("python_lines").to_polars()["function"].to_list() == ["loop"]


def test_a_sample_has_the_same_rows_in_its_phase_as_in_the_whole() -> None:
    profile = warplens.open(SAMPLE, cache=False)
    assert isinstance(profile, warplens.Profile)
    decode = profile.of_phase("decode")
    self_check(decode.trace)
    whole = profile.sql(
        "select sum(kernel_ms) as ms, sum(count) as n from iterations where phase = 'decode'"
    ).to_dicts()
    [part] = decode.sql("select sum(total_us) / 1000 as ms, sum(count) as n from kernels").to_dicts()
    assert (part["ms"], part["n"]) == (pytest.approx(whole[0]["ms"]), whole[0]["n"])
    prompts = profile.of_phase("prefill").table("iterations").to_dicts()
    assert [(row["phase"], row["prefill_tokens"]) for row in prompts] == [("prefill", 32)]
    assert set(decode.table("op_shapes").to_polars()["op"]) <= set(profile.table("op_shapes").to_polars()["op"])


def test_errors_say_what_a_phase_needs(opened: Opened) -> None:
    with pytest.raises(UsageError, match="no iterations of a served model"):
        opened([op("aten::mm", 0, 5)]).of_phase("decode")
    with pytest.raises(UsageError, match="no iteration of this trace is mixed"):
        opened(decode_loop(4, prompts_at=(0,))).of_phase("mixed")
    with pytest.raises(UsageError, match="about the whole trace"):
        warplens.open(SAMPLE, phase="decode", replay="x.json")


@pytest.mark.skipif(not SERVING.is_dir(), reason="the serving traces are not here")
def test_the_only_phase_of_a_real_trace_is_all_of_it() -> None:
    whole = warplens.open(SERVING / "vllm_piecewise.replay.json.gz", cache=False)
    part = warplens.open(SERVING / "vllm_piecewise.replay.json.gz", cache=False, phase="mixed")
    assert isinstance(part, warplens.Profile)
    self_check(part.trace)
    assert part.table("kernels").to_polars().equals(whole.table("kernels").to_polars())


@pytest.mark.skipif(not SERVING.is_dir(), reason="the serving traces are not here")
def test_ops_of_captured_graphs_keep_their_costs_in_a_phase() -> None:
    captures = [SERVING / "vllm_piecewise.capture.json.gz"]
    whole = warplens.open(SERVING / "vllm_piecewise.replay.json.gz", cache=False, graph_captures=captures)
    assert isinstance(whole, warplens.Profile)
    part = whole.of_phase("mixed")
    self_check(part.trace)
    for table in ("cost_coverage", "iterations", "op_shapes"):
        assert part.table(table).to_polars().equals(whole.table(table).to_polars()), table
    # 32,785 tokens of 8 heads of 128 for keys and values in bf16, in 36 layers.
    decode = warplens.open(SERVING / "sglang_decode.replay.json.gz", cache=False,
                           graph_captures=[SERVING / "sglang_decode.capture.json.gz"])  # fmt: skip
    assert decode.table("iterations").to_dicts()[0]["kv_cache_bytes"] == 32785 * 8 * 256 * 2 * 36
