"""Findings of served models."""

from __future__ import annotations

import pytest

import warplens
from finding_traces import BF16, GEMM, H200, by_code, inputs
from serving_traces import ALL_REDUCE, Work, asynchronous, decode_loop, passes, vllm
from support import ROOT, Opened
from warplens.model.targets import RowTarget

DECODE = [vllm(decode=32)] * 10
PRODUCT = Work(GEMM, 100)


def atom(requests: int, graph: int) -> str:
    return f"decode[bs={requests}/{graph} tok={requests} d={requests}]"


def test_wl601_fires_with_the_gaps_before_passes_as_its_gain(opened: Opened) -> None:
    finding = by_code(opened(decode_loop(20, prompts_at=())))["WL601"]
    # 50 µs before every pass but the first, 150 µs of work in each.
    assert finding.gain_ms == pytest.approx(19 * 0.05 / 20)
    assert finding.title == "the GPU waits between passes"
    assert "--async-scheduling" in finding.advice
    assert finding.rows[0].targets == (RowTarget("iterations", 1),)
    assert finding.edits


def test_wl601_counts_what_no_finding_on_launches_counts_again(opened: Opened) -> None:
    assert {"WL101", "WL104", "WL304"}.isdisjoint(by_code(opened(decode_loop(20, prompts_at=()))))


def test_wl601_is_silent_where_the_next_pass_is_ready_and_where_there_are_no_requests(opened: Opened) -> None:
    assert "WL601" not in by_code(opened(passes(DECODE, PRODUCT)))
    assert "WL601" not in by_code(opened(passes(DECODE, PRODUCT, gap=20_000)))
    assert "WL601" not in by_code(opened(asynchronous()[:-3]))


def test_wl602_fires_with_the_unused_part_of_a_graph_s_time(opened: Opened) -> None:
    finding = by_code(opened(passes([atom(40, 64)] * 10, PRODUCT)))["WL602"]
    assert finding.gain_ms == pytest.approx(0.1 * 24 / 64)
    assert "size 64 with 38 % of it unused" in finding.evidence


def test_wl602_is_silent_for_a_few_unused_places(opened: Opened) -> None:
    assert "WL602" not in by_code(opened(passes([atom(62, 64)] * 10, PRODUCT)))
    assert "WL602" not in by_code(opened(passes(DECODE, PRODUCT)))


def test_wl603_fires_where_tokens_wait_for_prompts(opened: Opened) -> None:
    finding = by_code(opened(decode_loop(40, prompts_at=(5, 15, 25, 35))))["WL603"]
    assert finding.title == "tokens wait for prompts of other requests"
    assert "p99 1.300 ms" in finding.evidence
    assert 0 < finding.gain_ms <= 4 * 1.1 / 40
    assert "--max-num-batched-tokens" in finding.advice


def test_wl603_is_silent_where_prompts_come_first_or_are_small(opened: Opened) -> None:
    assert "WL603" not in by_code(opened(decode_loop(40, prompts_at=(0,))))
    assert "WL603" not in by_code(opened(decode_loop(400, prompts_at=(200,))))


def test_wl603_is_silent_where_one_answer_follows_another(opened: Opened) -> None:
    answer = [vllm(32, 32000), *DECODE[:4]]
    assert "WL603" not in by_code(opened(passes(answer * 4, PRODUCT)))


def attention(keys: int, time: float) -> Work:
    shapes = inputs([32, 32, 1, 128], [32, 32, keys, 128], [32, 32, keys, 128], dtype=BF16)
    return Work("flash_fwd_splitkv_kernel", time, "aten::_scaled_dot_product_flash_attention", shapes)


def test_wl604_fires_where_the_cache_is_read_below_the_bandwidth(opened: Opened) -> None:
    cache_bytes = 2 * 32 * 32 * 1024 * 128 * 2
    finding = by_code(opened(passes(DECODE, PRODUCT, attention(1024, 1000)), H200))["WL604"]
    tbps = cache_bytes / 1e-3 / 1e12
    assert finding.title == f"attention of decode reads its cache at {tbps:.2f} TB/s"
    assert finding.gain_ms == pytest.approx(1.0 * (1 - tbps / (4.3 * 0.8)), rel=0.1)


def test_wl604_is_silent_near_the_bandwidth_and_where_attention_is_small(opened: Opened) -> None:
    assert "WL604" not in by_code(opened(passes(DECODE, PRODUCT, attention(1024, 180)), H200))
    assert "WL604" not in by_code(opened(passes(DECODE, Work(GEMM, 9000), attention(1024, 500)), H200))
    assert "WL604" not in by_code(opened(passes(DECODE, PRODUCT, attention(1024, 1000))))


def test_wl605_fires_with_the_time_of_choosing_tokens(opened: Opened) -> None:
    finding = by_code(opened(passes(DECODE, PRODUCT, Work("argmax_kernel", 30, "aten::argmax"))))["WL605"]
    assert finding.gain_ms == pytest.approx(0.03)
    assert "VLLM_USE_FLASHINFER_SAMPLER" in finding.advice


def test_wl605_is_silent_for_a_short_choice(opened: Opened) -> None:
    assert "WL605" not in by_code(opened(passes(DECODE, PRODUCT, Work("argmax_kernel", 5, "aten::argmax"))))


def test_wl606_fires_for_exposed_collectives_and_wl105_leaves_them_to_it(opened: Opened) -> None:
    found = by_code(opened(passes(DECODE, PRODUCT, Work(ALL_REDUCE, 30))))
    assert found["WL606"].gain_ms == pytest.approx(0.03)
    assert "WL105" not in found


def test_wl606_is_silent_for_short_collectives(opened: Opened) -> None:
    assert "WL606" not in by_code(opened(passes(DECODE, PRODUCT, Work(ALL_REDUCE, 5))))


def test_wl607_fires_with_the_time_of_quantising(opened: Opened) -> None:
    work = Work("void vllm::dynamic_scaled_fp8_quant_kernel<c10::BFloat16>(int)", 20)
    finding = by_code(opened(passes(DECODE, PRODUCT, work)))["WL607"]
    assert finding.gain_ms == pytest.approx(0.02)
    assert "fuse_norm_quant" in finding.advice


def test_wl607_is_silent_for_a_little_quantising(opened: Opened) -> None:
    work = Work("void vllm::dynamic_scaled_fp8_quant_kernel<c10::BFloat16>(int)", 2)
    assert "WL607" not in by_code(opened(passes(DECODE, PRODUCT, work)))


def test_passes_that_differ_are_not_straggling_steps(opened: Opened) -> None:
    assert "WL305" not in by_code(opened(decode_loop(40, prompts_at=(5, 15))))


def test_advice_names_the_engine_s_own_options(opened: Opened) -> None:
    names = ["step[DECODE bs=32]"] * 10
    advice = by_code(opened(passes(names, PRODUCT, gap=50)))["WL601"].advice
    assert "--disable-overlap-schedule" in advice and "--async-scheduling" not in advice


def test_the_verdict_begins_with_what_is_served(opened: Opened) -> None:
    assert opened(decode_loop(20, prompts_at=(0,)), H200).verdict() == (
        "Decode of 32 requests: 160,000 tokens/s; prefill of 1 request: 975,238 tokens/s (measured, as recorded). "
        "GPU-bound. GEMM takes 100.0 of 200.0 µs an iteration (measured)."
    )


def test_the_verdict_of_a_served_model_has_the_iteration_as_its_only_base() -> None:
    profile = warplens.open(ROOT / "samples" / "serving" / "served.json.gz", cache=False)
    assert profile.verdict().partition("(measured, as recorded). ")[2] == (
        "GPU-bound. GEMM takes 4.2 of 8.1 ms an iteration (7.8 to 8.1, estimated); removing all host time would save up to 0.7 ms."
    )
