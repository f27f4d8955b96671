"""Findings on matrix work: each against what the product could take, worked out by hand for an H200."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from finding_traces import (
    BF16,
    BF16_TFLOPS,
    ELEMENTWISE,
    GEMM,
    H200,
    LEGACY_GEMM,
    LINE,
    MEMORY_TBPS,
    PLACE,
    PLAIN_GEMM,
    REACHABLE,
    SOFTMAX,
    TF32_GEMM,
    TF32_TFLOPS,
    Call,
    back_to_back,
    by_code,
    elementwise,
    filler,
    inputs,
    product,
    rows_gain_ms,
)
from support import Opened, frame, op
from warplens.model.edits import ScaleWork

VOCABULARY, PADDED = 50257, 50304
HEAD_US = 2 * 4096 * 768 * VOCABULARY / BF16_TFLOPS / 1e6
"""The least time of a language model's head: 400 µs."""


def head(dur: float, size: int = VOCABULARY) -> Call:
    return product(dur, 4096, size, 768, kernel=LEGACY_GEMM)


def test_wl201_fires_for_an_odd_size_on_a_slow_kernel(opened: Opened) -> None:
    profile = opened(back_to_back(head(1000), filler(500)), H200)
    found = by_code(profile)
    finding = found["WL201"]
    assert finding.title == f"1 GEMM with the unaligned size {VOCABULARY} runs on slow kernels"
    assert finding.gain_ms == pytest.approx((1000 - HEAD_US / REACHABLE * PADDED / VOCABULARY) / 1e3)
    assert finding.gain_percent == pytest.approx(100 * finding.gain_ms / 1.5)
    assert (finding.bound, finding.place) == (False, PLACE)
    assert finding.advice.startswith("pad 50257 to 50264, a multiple of 8, or 50304, a multiple of 64")
    assert "1.00 ms at 316 TFLOP/s where 671 can be reached" in finding.evidence
    (row,) = finding.rows
    assert (row.count, row.time_ms, row.gain_ms) == (1, pytest.approx(1.0), pytest.approx(finding.gain_ms))
    assert "WL203" not in found


def test_wl201_fires_once_for_all_products_with_the_same_odd_size(opened: Opened) -> None:
    """The odd size is N, K and M; of a product of row-major matrices M is no contiguous one."""
    calls = [head(1000), product(1100, 4096, 768, VOCABULARY), product(1200, VOCABULARY, 768, 4096), filler(500)]
    finding = by_code(opened(back_to_back(*calls), H200))["WL201"]
    assert len(finding.rows) == 2
    assert "2 GEMMs" in finding.title
    assert finding.gain_ms == pytest.approx(rows_gain_ms(finding))
    assert finding.gain_ms <= sum(row.time_ms for row in finding.rows) == pytest.approx(2.1)


def test_wl201_fires_for_the_channels_of_a_convolution(opened: Opened) -> None:
    """2 · 32 · 67 · 67 · 9 · 56² FLOPs; both 67 are padded to 72, for a multiple of 64 would nearly double them."""
    images, weights = [32, 67, 56, 56], [67, 67, 3, 3]
    call = Call("aten::cudnn_convolution", GEMM, 100, inputs(images, weights))
    concrete = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]
    call.args["Input Dims"] += [[]] * 7
    call.args["Input type"] += ["ScalarList"] * 3 + ["Scalar"] * 4
    call.args["Concrete Inputs"] = concrete
    finding = by_code(opened(back_to_back(call), H200))["WL201"]
    flop = 2 * 32 * 67 * 67 * 9 * 56 * 56
    assert finding.title == "1 convolution with the unaligned size 67 runs on slow kernels"
    assert finding.gain_ms == pytest.approx(0.1 - flop / BF16_TFLOPS / REACHABLE / 1e9 * (72 / 67) ** 2)
    assert finding.advice.startswith("pad 67 to 72, a multiple of 8: ")


def test_wl201_names_odd_sizes_that_meet_in_one_product_together(opened: Opened) -> None:
    """Two products share 4099, and 1021 is odd as well: padding one alone would leave slow kernels."""
    calls = [product(2000, 16384, 4099, 1021), product(2000, 16384, 1024, 4099), filler(500)]
    finding = by_code(opened(back_to_back(*calls), H200))["WL201"]
    assert finding.title == "2 GEMMs with the unaligned sizes 4099, 1021 run on slow kernels"
    assert finding.advice.startswith("pad 4099 to 4104 or 4160 and 1021 to 1024 (multiples of 8 or 64): ")
    assert len(finding.rows) == 2


def test_wl201_is_silent_for_padded_sizes_and_for_kernels_that_are_fast_all_the_same(opened: Opened) -> None:
    assert "WL201" not in by_code(opened(back_to_back(head(1000, PADDED)), H200))
    assert "WL201" in by_code(opened(back_to_back(head(2.01 * HEAD_US)), H200))
    assert "WL201" not in by_code(opened(back_to_back(head(1.99 * HEAD_US)), H200))


def test_wl201_is_silent_for_products_that_are_over_in_five_microseconds(opened: Opened) -> None:
    """2 · 1253³ FLOPs take 4.98 µs at the limit, 2 · 1257³ take 5.03."""
    assert "WL201" in by_code(opened(back_to_back(product(50, 1257, 1257, 1257)), H200))
    assert "WL201" not in by_code(opened(back_to_back(product(50, 1253, 1253, 1253)), H200))


def test_less_is_expected_of_a_data_sheet_than_of_a_measured_ceiling(opened: Opened) -> None:
    """H100: 989.4 TFLOP/s, of which 0.7 are taken to be reachable."""
    finding = by_code(opened(back_to_back(head(1000)), gpu="H100 SXM"))["WL201"]
    expected = HEAD_US * BF16_TFLOPS / 989.4 / 0.7 * PADDED / VOCABULARY
    assert finding.gain_ms == pytest.approx((1000 - expected) / 1e3)


CUBE = 4096
CUBE_FLOP = 2 * CUBE**3


def test_wl202_fires_for_fp32_products_on_the_vector_units(opened: Opened) -> None:
    call = product(3000, CUBE, CUBE, CUBE, kernel=PLAIN_GEMM, dtype="float")
    found = by_code(opened(back_to_back(call, filler(1000)), H200))
    finding = found["WL202"]
    least = CUBE_FLOP / (REACHABLE * TF32_TFLOPS) / 1e6
    assert least > 3 * 4 * CUBE**2 / MEMORY_TBPS / 1e6
    assert finding.gain_ms == pytest.approx((3000 - least) / 1e3)
    assert finding.title == "fp32 matrix products run without TF32"
    assert (finding.bound, finding.place) == (False, PLACE)
    assert finding.evidence == "3.00 ms; TF32 would reach about 348 TFLOP/s here"
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)
    assert "WL203" not in found


@pytest.mark.parametrize(("gpu", "reachable_tbps"), [("H200", MEMORY_TBPS), ("H100 SXM", 0.8 * 3.35)])
def test_wl202_never_promises_more_than_the_bytes_allow(opened: Opened, gpu: str, reachable_tbps: float) -> None:
    """A narrow product: TF32 would do its FLOPs in 0.1 ms, but its matrix of 1 GiB takes longer to read."""
    call = product(1500, 16384, 64, 16384, kernel=PLAIN_GEMM, dtype="float")
    moved = 4 * (16384 * 16384 + 2 * 16384 * 64)
    finding = by_code(opened(back_to_back(call), gpu=gpu))["WL202"]
    assert finding.gain_ms == pytest.approx((1500 - moved / reachable_tbps / 1e6) / 1e3)


def test_wl202_is_silent_for_tf32_and_for_bf16(opened: Opened) -> None:
    tf32 = product(3000, CUBE, CUBE, CUBE, kernel=TF32_GEMM, dtype="float")
    assert "WL202" not in by_code(opened(back_to_back(tf32), H200))
    assert "WL202" not in by_code(opened(back_to_back(product(3000, CUBE, CUBE, CUBE)), H200))


def test_wl203_fires_for_slow_kernels_of_an_older_architecture(opened: Opened) -> None:
    least = CUBE_FLOP / BF16_TFLOPS / 1e6
    finding = by_code(opened(back_to_back(product(500, CUBE, CUBE, CUBE, kernel=LEGACY_GEMM)), H200))["WL203"]
    assert finding.title == "kernels built for sm80 run on sm_90"
    assert finding.gain_ms == pytest.approx((500 - least / REACHABLE) / 1e3)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl203_is_silent_for_kernels_of_this_gpu_and_for_fast_ones(opened: Opened) -> None:
    least = CUBE_FLOP / BF16_TFLOPS / 1e6
    assert "WL203" not in by_code(opened(back_to_back(product(500, CUBE, CUBE, CUBE)), H200))
    fast = product(1.99 * least, CUBE, CUBE, CUBE, kernel=LEGACY_GEMM)
    assert "WL203" not in by_code(opened(back_to_back(fast), H200))


HEADS, LENGTH, WIDTH = 64, 1024, 64
SCORES = [HEADS, LENGTH, LENGTH]


def attention(scores: list[int], *, odd: int = 0) -> list[Call]:
    heads, length, keys = scores
    width = WIDTH + odd
    return [
        Call("aten::bmm", GEMM, 100, inputs([heads, length, width], [heads, width, keys])),
        elementwise("mul", 110, scores, []),
        Call("aten::_softmax", SOFTMAX, 120, inputs(scores, [], [])),
        Call("aten::bmm", GEMM, 90, inputs([heads, length, keys], [heads, keys, width])),
    ]


FUSED_FORWARD, FUSED_BACKWARD = 436 * LENGTH / (LENGTH + 256), 290 * LENGTH / (LENGTH + 256)
"""What cuDNN was measured to reach on an H200 in bf16 for heads of width 64, of which 256 tokens reach half."""


def test_wl204_fires_for_products_and_a_softmax_on_stored_scores(opened: Opened) -> None:
    """420 µs in parts; fused, the products' FLOPs at what the fastest back-end was measured to reach."""
    finding = by_code(opened(back_to_back(*attention(SCORES), filler(80)), H200))["WL204"]
    flop = 2 * (2 * HEADS * LENGTH * LENGTH * WIDTH)
    assert finding.gain_ms == pytest.approx((420 - flop / FUSED_FORWARD / 1e6) / 1e3)
    assert finding.gain_percent == pytest.approx(100 * finding.gain_ms / 0.5)
    assert (finding.bound, finding.place) == (False, PLACE)
    assert finding.evidence == "0.42 ms over 2 products and 2 ops on 67,108,864 scores"
    assert sum(row.time_ms for row in finding.rows) == pytest.approx(0.42)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl204_counts_four_products_backward_at_the_rate_of_the_backward_pass(opened: Opened) -> None:
    calls = [*attention(SCORES), filler(50), *attention_backward()]
    finding = by_code(opened(back_to_back(*calls), H200))["WL204"]
    flop = 2 * HEADS * LENGTH * LENGTH * WIDTH
    fused_us = (2 * flop / FUSED_FORWARD + 4 * flop / FUSED_BACKWARD) / 1e6
    assert finding.gain_ms == pytest.approx((420 + 530 - fused_us) / 1e3)


@pytest.mark.parametrize(("gpu", "dtype", "tflops"), [
    ("H100 SXM", BF16, 0.5 * 989.4), ("H100 SXM", "float", 0.4 * 66.9), ("H200", "float", 33.9 * 1024 / 1064),
])  # fmt: skip
def test_wl204_takes_the_ceiling_of_the_type(opened: Opened, gpu: str, dtype: str, tflops: float) -> None:
    """Where nobody measured fused attention, a share of the units that compute it: matrix units, in fp32 vector units."""
    calls = [replace(call, args=retyped(call.args, dtype), dur=10 * call.dur) for call in attention(SCORES)]
    finding = by_code(opened(back_to_back(*calls), gpu=gpu))["WL204"]
    flop = 2 * (2 * HEADS * LENGTH * LENGTH * WIDTH)
    assert finding.gain_ms == pytest.approx((4200 - flop / tflops / 1e6) / 1e3)


def retyped(args: dict[str, Any], dtype: str) -> dict[str, Any]:
    return args | {"Input type": [dtype if given == BF16 else given for given in args["Input type"]]}


def test_wl204_promises_nothing_where_the_fused_kernel_takes_longer(opened: Opened) -> None:
    """In fp32 it would take 527 µs, the parts take 420."""
    calls = [replace(call, args=retyped(call.args, "float")) for call in attention(SCORES)]
    assert "WL204" not in by_code(opened(back_to_back(*calls), H200))


def test_wl204_says_that_it_loses_beside_tf32_products(opened: Opened) -> None:
    first, scale, softmax, second = (replace(call, args=retyped(call.args, "float")) for call in attention(SCORES))
    calls = [replace(first, kernel=PLAIN_GEMM, dur=300), scale, softmax, replace(second, kernel=PLAIN_GEMM, dur=300)]
    found = by_code(opened(back_to_back(*calls), H200))
    assert (
        "WL202" in found
        and "not beside WL202: the fused kernel computes in fp32, 0.16 ms slower" in found["WL204"].evidence
    )


def test_wl204_takes_copies_for_its_products_along(opened: Opened) -> None:
    """Both factors are copied inside aten::matmul, the result right after it; what is copied before is needed anyway."""
    turned = {"Input Strides": [[65536, 64, 1], [65536, 1, 1024], []]}
    values = inputs([HEADS, LENGTH, WIDTH], [HEADS, LENGTH, WIDTH], []) | turned
    copy = Call("aten::copy_", ELEMENTWISE, 15, values)
    first, scale, softmax, second = attention(SCORES)
    calls = [copy, filler(10), copy, copy, first, scale, softmax, copy, second, copy, filler(10), copy]
    outer = [op("aten::matmul", 20.5, 29.4), op("aten::matmul", 70.5, 19.4)]
    finding = by_code(opened([*back_to_back(*calls), *outer], H200))["WL204"]
    copies = next(row for row in finding.rows if "copy_" in row.what)
    assert (copies.count, copies.time_ms) == (4, pytest.approx(0.060))
    flop = 2 * (2 * HEADS * LENGTH * LENGTH * WIDTH)
    assert finding.gain_ms == pytest.approx((420 + 60 - flop / FUSED_FORWARD / 1e6) / 1e3)


def test_wl204_removes_what_makes_a_triangular_mask_for_each_call(opened: Opened) -> None:
    def removed(mask: list[int]) -> list[str]:
        calls = [
            Call("aten::fill_", ELEMENTWISE, 10, inputs(mask, [])),
            Call("aten::triu", ELEMENTWISE, 10, inputs(mask)),
        ]
        profile = opened(back_to_back(*calls, *attention(SCORES)), H200)
        ops = profile.table("roofline").frame["op"].to_list()
        edits = by_code(profile)["WL204"].edits
        return [ops[row] for edit in edits if isinstance(edit, ScaleWork) for row in edit.work.rows]

    assert sorted(removed([LENGTH, LENGTH])) == ["aten::fill_", "aten::triu"]
    assert removed([LENGTH, LENGTH // 2]) == [], "of another size"


def test_wl204_fires_without_a_known_gpu_for_what_works_on_the_scores(opened: Opened) -> None:
    assert by_code(opened(back_to_back(*attention(SCORES))))["WL204"].gain_ms == pytest.approx(0.110 + 0.120)


def test_wl204_is_silent_without_a_softmax_on_the_scores(opened: Opened) -> None:
    first, scale, _, second = attention(SCORES)
    other = Call("aten::_softmax", SOFTMAX, 120, inputs([4096, 50304], [], []))
    assert "WL204" not in by_code(opened(back_to_back(first, scale, other, second), H200))


def test_wl204_is_silent_for_products_that_are_no_batch(opened: Opened) -> None:
    """The loss of a language model: head, softmax, and the head's backward."""
    calls = [
        product(300, 4096, PADDED, 768),
        Call("aten::_log_softmax", SOFTMAX, 200, inputs([4096, PADDED], [], [])),
        product(300, 4096, 768, PADDED),
    ]
    assert "WL204" not in by_code(opened(back_to_back(*calls), H200))


ELSEWHERE = Call("aten::_softmax", SOFTMAX, 120, inputs([HEADS * LENGTH, LENGTH], [], []))
"""A softmax of as many elements as the scores: a router's or a loss's."""


def fused_layer() -> list[Call]:
    """Batched products that write and read as many elements as the scores have, without a softmax between them."""
    first, scale, _, second = attention(SCORES)
    return [first, scale, second]


def test_wl204_is_silent_for_a_softmax_of_as_many_elements_elsewhere(opened: Opened) -> None:
    router = [product(50, HEADS * LENGTH, LENGTH, 64), ELSEWHERE, product(50, HEADS * LENGTH, 64, LENGTH)]
    first, scale, second = fused_layer()
    layers = {
        "after the products": [*fused_layer(), ELSEWHERE],
        "before the products": [ELSEWHERE, *fused_layer()],
        "between two layers": [*fused_layer(), ELSEWHERE, *fused_layer()],
        "of a router after each layer": [*fused_layer(), *router, *fused_layer(), *router],
        "of a router between the products": [first, scale, *router, second],
    }
    for where, calls in layers.items():
        for line in (LINE, ""):
            assert "WL204" not in by_code(opened(back_to_back(*calls, line=line), H200)), where


def test_wl204_counts_only_the_softmax_between_the_products(opened: Opened) -> None:
    """The same op with the same sizes also runs elsewhere, for as long."""
    calls = [
        *attention(SCORES),
        product(50, 4096, 4096, 4096),
        Call("aten::_softmax", SOFTMAX, 120, inputs(SCORES, [], [])),
    ]
    profile = opened(back_to_back(*calls), H200)
    finding = by_code(profile)["WL204"]
    assert finding.evidence == "0.42 ms over 2 products and 2 ops on 67,108,864 scores"
    softmax = next(row for row in finding.rows if "softmax" in row.what)
    assert (softmax.count, softmax.time_ms) == (1, pytest.approx(0.12))
    roofline = profile.table("roofline").frame.filter(pl.col("family") == "softmax")
    assert roofline.select("count", "total_us", "scores", "scores_us").row(0) == (2, 240, math.prod(SCORES), 120)


def test_wl204_fires_for_attention_without_stacks(opened: Opened) -> None:
    finding = by_code(opened(back_to_back(*attention(SCORES), line=""), H200))["WL204"]
    assert finding.evidence == "0.42 ms over 2 products and 2 ops on 67,108,864 scores"


def attention_backward() -> list[Call]:
    scores, values = SCORES, [HEADS, LENGTH, WIDTH]
    turned = [HEADS, WIDTH, LENGTH]
    return [
        Call("aten::bmm", GEMM, 60, inputs(scores, values)),
        Call("aten::bmm", GEMM, 70, inputs(values, turned)),
        Call("aten::_softmax_backward_data", SOFTMAX, 120, inputs(scores, scores, [], [])),
        elementwise("mul", 110, scores, []),
        Call("aten::bmm", GEMM, 80, inputs(turned, scores)),
        Call("aten::bmm", GEMM, 90, inputs(scores, values)),
    ]


def test_wl204_fires_for_a_backward_pass_in_either_order_of_its_first_products(opened: Opened) -> None:
    values, scores, *rest = attention_backward()
    for calls in ([values, scores, *rest], [scores, values, *rest]):
        finding = by_code(opened(back_to_back(*calls), H200))["WL204"]
        assert finding.evidence == "0.53 ms over 3 products and 2 ops on 67,108,864 scores"


def in_modules(calls: list[Call], modules: list[str]) -> list[dict[str, Any]]:
    """Each call in a module; neighbours in one of the same name are in one call of it."""
    events, edges = back_to_back(*calls), [0, *(at for at, (one, two) in enumerate(pairwise(modules), 1) if one != two)]
    ends = [*edges[1:], len(modules)]
    spans = [
        frame(f"nn.Module: {modules[start]}", 10 * start + 0.25, 10 * (end - start) - 0.5)
        for start, end in zip(edges, ends, strict=True)
    ]
    return [*events, *spans]


def test_wl204_needs_the_products_in_one_call_of_a_module(opened: Opened) -> None:
    one = in_modules(attention(SCORES), ["Attention_0"] * 4)
    assert "WL204" in by_code(opened(one, H200))
    several = in_modules(attention(SCORES), ["Scores_0", "Router_0", "Router_0", "Values_0"])
    assert "WL204" not in by_code(opened(several, H200))


def test_wl204_fires_with_the_products_of_a_position_bias_before_the_softmax(opened: Opened) -> None:
    """Its result is added to the scores; without that, or without a call path, nothing says what the softmax reads."""
    first, scale, softmax, second = attention(SCORES)
    bias = [product(30, 4096, 512, 64), elementwise("add", 100, SCORES, SCORES)]
    biased = [first, scale, *bias, softmax, second]
    assert "WL204" in by_code(opened(back_to_back(*biased), H200))
    assert "WL204" not in by_code(opened(back_to_back(*biased, line=""), H200))
    assert "WL204" not in by_code(opened(back_to_back(first, scale, bias[0], softmax, second), H200))


def test_products_on_scores_are_counted_once(opened: Opened) -> None:
    """With a head of 65 both products have an odd size and run slowly; the fused kernel mends that as well."""
    found = by_code(opened(back_to_back(*attention(SCORES, odd=1)), H200))
    assert "WL204" in found
    assert not {"WL201", "WL203", "WL205", "WL211"} & set(found)


FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(flash::Flash_fwd_params)"


def masked(mask: list[int], *, causal: str = "False", queries: int = 1024) -> Call:
    """`_cudnn_attention_forward` of 12 heads of 64."""
    q, k = [8, 12, queries, 64], [8, 12, 1024, 64]
    types = [BF16] * 3 + ([BF16] if mask else [""]) + ["", ""] + ["Scalar"] * 7
    args = inputs(q, k, k, mask, *[[]] * 9, types=types)
    args["Concrete Inputs"] = [""] * 6 + ["1024", "1024", "False", "0.", causal, "False", "0.125"]
    return Call("aten::_cudnn_attention_forward", FLASH, 500, args)


def test_wl213_fires_for_attention_with_a_square_mask_tensor(opened: Opened) -> None:
    profile = opened(back_to_back(masked([8, 1, 1024, 1024]), filler(500)), H200)
    finding = by_code(profile)["WL213"]
    assert (finding.gain_ms, finding.bound, finding.place) == (pytest.approx(0.25), True, PLACE)
    assert "is_causal=True" in finding.advice
    assert profile.table("attention").frame["mask"].to_list() == ["tensor"]


def test_wl213_is_silent_without_a_mask_with_a_flag_and_for_single_queries(opened: Opened) -> None:
    for call in (masked([]), masked([], causal="True"), masked([8, 1, 1, 1024], queries=1)):
        assert "WL213" not in by_code(opened(back_to_back(call, filler(500)), H200))


def test_wl204_is_one_finding_where_a_cache_makes_the_scores_grow(opened: Opened) -> None:
    """Three steps of decoding: 64 heads, one query, 1024 to 1026 keys, all on one line."""
    steps = [attention([HEADS, 1, keys]) for keys in (1024, 1025, 1026)]
    profile = opened(back_to_back(*(each for step in steps for each in step)), H200)
    (finding,) = [each for each in profile.findings() if each.code == "WL204"]
    assert finding.evidence == "1.26 ms over 6 products and 6 ops on score matrices of 3 sizes"
    # With one query it is the keys and values that take time: what the products move besides the scores.
    moved = sum(2 * 2 * HEADS * (WIDTH + WIDTH * keys) for keys in (1024, 1025, 1026))
    assert finding.gain_ms == pytest.approx(1.26 - moved / MEMORY_TBPS / 1e9)
