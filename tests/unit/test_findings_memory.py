"""Findings on work that moves bytes: chains, casts, layouts, optimizers and slow ops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from finding_traces import (
    BF16,
    ELEMENTWISE,
    GEMM,
    H200,
    MEMORY_TBPS,
    PLACE,
    TRANSPOSE,
    Call,
    back_to_back,
    by_code,
    cast,
    elementwise,
    filler,
    geometry,
    inputs,
    product,
    rows_gain_ms,
)
from support import Opened, annotation

HALF = "c10::Half"
SIZE = 1 << 26
SHAPE = [SIZE]


def chain(length: int) -> list[Call]:
    """x · 2, tanh, + y, …, 100 µs each."""
    links = [elementwise("mul", 100, SHAPE, []), elementwise("tanh", 100, SHAPE), elementwise("add", 100, SHAPE, SHAPE)]
    return links[:length]


def test_wl205_fires_for_three_elementwise_ops_in_a_row(opened: Opened) -> None:
    """Two, two and three tensors are moved; fused, the two between would be neither written nor read: 4 of 7."""
    profile = opened(back_to_back(*chain(3), filler(700)), H200)
    (row,) = profile.table("chains").to_dicts()
    assert (row["length"], row["bytes"], row["saved_bytes"]) == (3, 7 * 2 * SIZE, 4 * 2 * SIZE)
    finding = by_code(profile)["WL205"]
    assert finding.gain_ms == pytest.approx(0.3 * 4 / 7)
    assert finding.gain_percent == pytest.approx(30 * 4 / 7)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert finding.rows[0].what == "mul → tanh → add"
    assert "fusing saves up to 57 % of the bytes" in finding.rows[0].detail
    assert finding.evidence == (
        "0.30 ms of GPU time in 1 chain, and 2 launches that one kernel each would not need; e.g. mul → tanh → add"
    )
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)
    assert finding.gain_ms <= finding.rows[0].time_ms


def test_wl205_is_silent_for_two_ops_other_sizes_and_work_between(opened: Opened) -> None:
    first, second, third = chain(3)
    larger = elementwise("tanh", 100, [2 * SIZE])
    cases: list[list[Call]] = [chain(2), [first, larger, third], [first, second, filler(50), third]]
    for calls in cases:
        assert "WL205" not in by_code(opened(back_to_back(*calls), H200))


def test_wl205_fires_once_for_each_line(opened: Opened) -> None:
    longer = [*chain(3), elementwise("tanh", 100, SHAPE)]
    one = back_to_back(*chain(3), filler(10))
    two = back_to_back(*longer, line="model.py(9): act", ts=310, first=10)
    found = opened([*one, *two], H200).findings()
    assert [(finding.code, finding.place) for finding in found] == [("WL205", "model.py:9 act"), ("WL205", PLACE)]


def test_wl205_fires_with_the_ops_as_its_place_where_lines_are_unknown(opened: Opened) -> None:
    assert by_code(opened(back_to_back(*chain(3), line=""), H200))["WL205"].place == "mul → tanh → add"


def test_wl206_fires_for_casts_forth_and_back(opened: Opened) -> None:
    calls = [cast(60, SIZE, BF16, "float"), product(500, 4096, 4096, 4096), cast(70, SIZE, "float", BF16)]
    finding = by_code(opened(back_to_back(*calls), H200))["WL206"]
    assert finding.gain_ms == pytest.approx(0.13)
    assert finding.gain_percent == pytest.approx(100 * 130 / 630)
    assert (finding.bound, finding.place) == (False, PLACE)
    assert finding.evidence == "2 kinds of casts, fp32→bf16 54 %, bf16→fp32 46 %"
    assert [row.gain_ms for row in finding.rows] == pytest.approx([0.07, 0.06])


def test_wl206_counts_half_of_the_elementwise_ops_between_the_casts(opened: Opened) -> None:
    def gain_ms(tanh: Call) -> float:
        calls = [cast(60, SIZE, BF16, "float"), filler(50), tanh, filler(50), cast(70, SIZE, "float", BF16)]
        return by_code(opened(back_to_back(*calls), H200))["WL206"].gain_ms

    assert gain_ms(Call("aten::tanh", ELEMENTWISE, 100, inputs([SIZE], types=["float"]))) == pytest.approx(0.18)
    assert gain_ms(Call("aten::tanh", ELEMENTWISE, 100, inputs([SIZE], types=[BF16]))) == pytest.approx(0.13)
    assert gain_ms(Call("aten::tanh", ELEMENTWISE, 100, inputs([2 * SIZE], types=["float"]))) == pytest.approx(0.13)


def test_wl206_is_silent_for_casts_one_way_and_of_different_sizes(opened: Opened) -> None:
    one_way = [cast(60, SIZE, BF16, "float"), filler(50), cast(60, SIZE, BF16, "float")]
    two_sizes = [cast(60, SIZE, BF16, "float"), filler(50), cast(70, SIZE // 2, "float", BF16)]
    for calls in (one_way, two_sizes):
        assert "WL206" not in by_code(opened(back_to_back(*calls), H200))


def convolution(layout_us: float, work_us: float = 980) -> list[Call]:
    return [Call("aten::cudnn_convolution", TRANSPOSE, layout_us), Call("aten::cudnn_convolution", GEMM, work_us)]


def test_wl207_fires_from_two_percent_of_transposing_inside_convolutions_on(opened: Opened) -> None:
    finding = by_code(opened(back_to_back(*convolution(20)), H200))["WL207"]
    assert (finding.gain_ms, finding.gain_percent) == (pytest.approx(0.020), pytest.approx(2.0))
    assert finding.bound is False
    assert finding.evidence.startswith("0.02 ms in 1 layout kernel,")
    assert "channels_last" in finding.advice


def test_wl207_is_silent_below_two_percent_and_outside_convolutions(opened: Opened) -> None:
    assert "WL207" not in by_code(opened(back_to_back(*convolution(19.9)), H200))
    transposed = [Call("aten::permute", TRANSPOSE, 200), filler(800)]
    assert "WL207" not in by_code(opened(back_to_back(*transposed), H200))


def batch_norm(dur: float) -> Call:
    """Reads its input twice and writes it once: 3 · 2 B for each of 2²⁶ elements."""
    channels = [256]
    shapes = inputs([64, 256, 64, 64], channels, channels, channels, channels, [], [], [])
    return Call("aten::cudnn_batch_norm", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half2, float>(int)", dur, shapes)


def test_wl207_counts_the_slow_batch_norms_too_and_wl211_then_does_not(opened: Opened) -> None:
    norm = back_to_back(batch_norm(600), filler(500))
    alone = opened(norm, H200)
    (limit,) = (row for row in alone.table("roofline").to_dicts() if row["family"] == "norm")
    assert by_code(alone)["WL211"].gain_ms == pytest.approx((600 - limit["roofline_us"]) / 1e3)
    found = by_code(opened(back_to_back(batch_norm(600), *convolution(100, 400)), H200))
    assert found["WL207"].gain_ms == pytest.approx((100 + 600 - 2 * limit["roofline_us"]) / 1e3)
    assert "WL211" not in found


def network(dtype: str, norm: str | None) -> list[Call]:
    """A convolution that converts layouts, and a norm beside it."""
    types = [dtype, dtype, "ScalarList", "ScalarList", "ScalarList", "Scalar", "Scalar", "Scalar", "Scalar"]
    given = inputs([8, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], [], types=types)
    given["Concrete Inputs"] = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]
    calls = [replace(call, args=given) for call in convolution(100, 400)]
    normed = inputs([8, 64, 56, 56], [64], [64], [], [], [], [], [], dtype=dtype)
    return [*calls, Call(f"aten::{norm}", "void norm_kernel<float>(int)", 50, normed)] if norm else calls


@pytest.mark.parametrize(("dtype", "norm", "is_advised"), [
    (HALF, None, True), (HALF, "native_group_norm", False), (HALF, "native_batch_norm", True),
    ("float", None, False), ("float", "native_group_norm", False), ("float", "native_batch_norm", True),
])  # fmt: skip
def test_wl207_is_silent_where_channels_last_wins_nothing(
    opened: Opened, dtype: str, norm: str | None, is_advised: bool
) -> None:
    """Group norms copy their input to NCHW; in fp32 only networks with batch norms were measured to win."""
    profile = opened(back_to_back(*network(dtype, norm)), H200)
    (types,) = {row["dtype"] for row in profile.table("roofline").to_dicts() if row["family"] == "convolution"}
    assert types == ("fp32" if dtype == "float" else "fp16")
    assert ("WL207" in by_code(profile)) is is_advised


def test_wl207_counts_the_time_in_which_the_gpu_works(opened: Opened) -> None:
    """30 µs of 1 ms of work, after which it waits for 2 ms."""
    late = back_to_back(filler(10), ts=3000, first=9)
    assert "WL207" in by_code(opened([*back_to_back(*convolution(30)), *late], H200, min_gain_percent=0.5))


def optimizer(launches: int, name: str = "aten::addcdiv_", dur: float = 3) -> list[dict[str, Any]]:
    """Kernels 10 µs apart in one step of an optimizer, and as much work before it."""
    calls = [Call(name, ELEMENTWISE, dur, inputs([1024], [1024], [1024], [])) for _ in range(launches)]
    before = back_to_back(filler(1000), line="")
    events = back_to_back(*calls, line="", ts=1020, first=2)
    spread = [
        {**event, "ts": 1020 + 10 * event["args"]["correlation"]} if event["cat"] == "kernel" else event
        for event in events
    ]
    return [*before, annotation("Optimizer.step#AdamW.step", 1019, 10 * launches + 2), *spread]


def test_wl208_fires_from_fifty_launches_of_an_optimizer_on(opened: Opened) -> None:
    """From the first of 50 kernels to the last: 49 · 10 + 3 µs, of which a third of 150 µs would remain."""
    finding = by_code(opened(optimizer(50), H200))["WL208"]
    assert finding.title == "the optimizer launches 50 kernels"
    assert finding.gain_ms == pytest.approx((493 - 150 / 3) / 1e3)
    assert (finding.bound, finding.place) == (True, "Optimizer.step")
    assert finding.evidence.startswith(
        "0.49 ms from its first to its last kernel, 0.15 ms of them busy: aten::addcdiv_"
    )
    assert "fused=True to the optimizer (or foreach=True)" in finding.advice


def test_wl208_advises_fused_alone_where_foreach_is_there_already(opened: Opened) -> None:
    assert "foreach=True" not in by_code(opened(optimizer(50, "aten::_foreach_add_"), H200))["WL208"].advice


def test_wl208_is_silent_for_few_launches_and_fused_optimizers(opened: Opened) -> None:
    assert "WL208" not in by_code(opened(optimizer(49), H200))
    assert "WL208" not in by_code(opened(optimizer(50, "aten::_fused_adamw_"), H200))


def test_wl208_has_the_gaps_inside_the_optimizer_for_itself(opened: Opened) -> None:
    """60 kernels of 3 µs, 10 µs apart, are short and late: with WL208 that is neither WL104 nor WL101."""
    found = by_code(opened(optimizer(60), H200))
    assert "WL208" in found
    assert found["WL208"].gain_ms > sum(finding.gain_ms for code, finding in found.items() if code != "WL208")


LEAST_US = 3 * 2 * SIZE / MEMORY_TBPS / 1e6
"""An addition of two bf16 tensors: 94 µs."""


def addition(dur: float, **kernel_args: Any) -> Call:
    return Call("aten::add", ELEMENTWISE, dur, inputs(SHAPE, SHAPE, []), kernel_args)


def test_wl211_fires_for_memory_bound_ops_below_two_fifths_of_the_bandwidth(opened: Opened) -> None:
    finding = by_code(opened(back_to_back(addition(LEAST_US / 0.399), filler(100)), H200))["WL211"]
    assert finding.title == "1 memory-bound op runs far below the memory bandwidth"
    assert finding.gain_ms == pytest.approx(LEAST_US * (1 / 0.399 - 1) / 1e3, rel=1e-4)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)
    assert finding.gain_ms <= finding.rows[0].time_ms


def test_wl211_is_silent_above_two_fifths_and_for_tiny_ops(opened: Opened) -> None:
    assert "WL211" not in by_code(opened(back_to_back(addition(LEAST_US / 0.401)), H200))
    # 10 µs are 7,166,667 additions; what takes 100 µs is not in its start-up, however little it moves.
    for elements, time_us, found in ((7_180_000, 90, True), (7_150_000, 90, False), (70_000, 100, True)):
        tiny = Call("aten::add", ELEMENTWISE, time_us, inputs([elements], [elements], []))
        assert ("WL211" in by_code(opened(back_to_back(tiny), H200))) is found


def test_wl211_is_silent_where_too_few_blocks_explain_it(opened: Opened) -> None:
    found = by_code(opened(back_to_back(addition(500, **geometry(16))), H200))
    assert "WL210" in found
    assert "WL211" not in found
