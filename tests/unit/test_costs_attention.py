"""Costs of attention, worked out by hand: causal, grouped queries, cross, packed, forward and backward."""

from __future__ import annotations

import pytest

from cost_calls import bf16, cost, figures, fp32, tensor
from warplens.costs import Call, Tensor, cost_of
from warplens.costs.attention import BOTTOM_RIGHT, NO_FLAG, TOP_LEFT, attended_pairs


def test_a_causal_mask_leaves_half_of_a_square_and_the_whole_of_what_lies_beside_it() -> None:
    assert attended_pairs(6, 6, TOP_LEFT) == attended_pairs(6, 6, BOTTOM_RIGHT) == 18
    assert attended_pairs(6, 2, TOP_LEFT) == 2 * 2 / 2 + 4 * 2
    assert attended_pairs(2, 6, TOP_LEFT) == attended_pairs(6, 2, BOTTOM_RIGHT) == 2
    assert attended_pairs(2, 6, BOTTOM_RIGHT) == 2 * 2 / 2 + 4 * 2


Q, K = bf16(2, 8, 128, 64), bf16(2, 4, 256, 64)
PAIRS = 2 * 8 * 128 * 256
WHOLE = 4 * 64 * PAIRS
QUERY_BYTES, KEY_BYTES = 2 * 2 * 8 * 128 * 64, 2 * 2 * 4 * 256 * 64


def test_attention_is_two_products_over_all_query_heads() -> None:
    """Cross attention with grouped queries: 8 query heads on 4 key heads, 128 queries on 256 keys."""
    found = cost("aten::_scaled_dot_product_cudnn_attention", Q, K, K, None, "False", "0.", "False", "False", "0.125")
    assert (found.flop, found.bytes) == (WHOLE, 2 * QUERY_BYTES + 2 * KEY_BYTES)
    assert found.params_text == "B=2 Hq=8 Hkv=4 Nq=128 Nkv=256 D=64 Dv=64 mask=none pass=forward"


def test_attention_with_narrower_values_has_a_narrower_result() -> None:
    v = bf16(2, 4, 256, 32)
    found = figures("aten::_scaled_dot_product_flash_attention", Q, K, v, "0.", "False")
    assert found == (PAIRS * 2 * (64 + 32), QUERY_BYTES * 1.5 + KEY_BYTES * 1.5)


def test_an_attention_bias_is_read() -> None:
    bias = tensor("bf16", 2, 8, 128, 256, strides=(0, 0, 256, 1))
    found = cost("aten::_scaled_dot_product_efficient_attention", Q, K, K, bias, "False", "0.", "False")
    assert found.bytes == 2 * QUERY_BYTES + 2 * KEY_BYTES + 2 * 128 * 256


def square(heads: int, length: int) -> Tensor:
    return bf16(2, heads, length, 64)


CAUSAL = [
    ("aten::scaled_dot_product_attention", 5, 0),
    ("aten::_scaled_dot_product_attention_math", 5, 0),
    ("aten::_scaled_dot_product_flash_attention", 4, 0),
    ("aten::_scaled_dot_product_efficient_attention", 6, 0),
    ("aten::_scaled_dot_product_cudnn_attention", 6, 0),
    ("aten::_scaled_dot_product_fused_attention_overrideable", 5, 0),
    ("aten::_cudnn_attention_forward", 10, 0),
    ("aten::_scaled_dot_product_flash_attention_backward", 11, 1),
    ("aten::_scaled_dot_product_efficient_attention_backward", 11, 1),
    ("aten::_scaled_dot_product_cudnn_attention_backward", 14, 1),
    ("aten::_cudnn_attention_backward", 14, 1),
    ("aten::_flash_attention_forward", 8, 0),
    ("aten::_flash_attention_backward", 11, 1),
    ("aiter::mha_fwd", 5, 0),
    ("aiter::fmha_v3_fwd", 5, 0),
    ("flash_attn::_flash_attn_forward", 5, 0),
    ("flash_attn::_flash_attn_backward", 11, 1),
]


@pytest.mark.parametrize(("op", "flag", "backward"), CAUSAL)
def test_a_causal_mask_halves_a_square_forward_and_backward(op: str, flag: int, backward: int) -> None:
    args: list[Tensor | str | None] = [None] * 16
    args[0:4] = [square(8, 128)] * (3 + backward)
    args[flag] = "True"
    # In the other order, (batch, length, heads, width), the same numbers are 128 heads over 8 tokens.
    pairs = 2 * 128 * 8 * 8 if "_flash_attn" in op or "aiter" in op or "::_flash_attention" in op else 2 * 8 * 128 * 128
    assert cost(op, *args).flop == pairs / 2 * 2 * (64 + 64) * (2 if backward else 1)
    args[flag] = "False"
    assert cost(op, *args).flop == pairs * 2 * (64 + 64) * (2 if backward else 1)


def test_attention_whose_mask_is_not_recorded_is_approximate() -> None:
    assert cost("aten::_scaled_dot_product_flash_attention", Q, K, K).approximate == NO_FLAG
    assert not cost("aten::_scaled_dot_product_flash_attention", Q, K, K, "0.", "True").approximate


def test_flash_attention_masks_from_the_bottom_right_and_the_others_from_the_top_left() -> None:
    one_token = (bf16(1, 8, 1, 64), bf16(1, 8, 256, 64), bf16(1, 8, 256, 64))
    flash = cost("aten::_scaled_dot_product_flash_attention", *one_token, "0.", "True")
    assert flash.flop == 8 * 255.5 * 4 * 64
    other = cost("aten::_scaled_dot_product_cudnn_attention", *one_token, None, "False", "0.", "True")
    assert other.flop == 8 * 0.5 * 4 * 64


@pytest.mark.parametrize(("mask", "pairs"), [("0", 128 * 256), ("1", 128 * 128 / 2), ("2", 128 * 128 / 2 + 128 * 128)])
def test_efficient_attention_numbers_its_masks(mask: str, pairs: float) -> None:
    q, k = bf16(2, 128, 8, 64), bf16(2, 256, 8, 64)
    args = (q, k, k, None, None, None, "128", "256", "0.", mask)
    assert cost("aten::_efficient_attention_forward", *args).flop == 2 * 8 * pairs * 4 * 64
    args = (q, q, k, k, None, q, None, None, "128", "256", fp32(2, 8, 128), "0.", None, None, mask)
    assert cost("aten::_efficient_attention_backward", *args).flop == 2 * 8 * pairs * 8 * 64


def test_backward_attention_reads_the_result_and_its_gradient_and_writes_three_gradients() -> None:
    args = (square(8, 128), *[square(8, 128)] * 4, fp32(2, 8, 128), None, None, "128", "128", "0.", "False")
    found = cost("aten::_scaled_dot_product_flash_attention_backward", *args)
    assert found.bytes == (3 + 2 + 3) * 2 * 2 * 8 * 128 * 64


PACKED = bf16(300, 8, 64)
ENDS = tensor("int32", 4)
VARLEN = [
    ("aten::_flash_attention_forward", (*[PACKED] * 3, ENDS, ENDS, "100", "100", "0.", "True"), 1),
    ("flash_attn::_flash_attn_varlen_forward", (*[PACKED] * 3, ENDS, ENDS, "100", "100", "0.", "0.125", "True"), 1),
    (
        "flash_attn::_flash_attn_varlen_backward",
        (*[PACKED] * 5, fp32(8, 300), *[PACKED] * 3, ENDS, ENDS, "100", "100", "0.", "0.125", "True"),
        2,
    ),
    (
        "aten::_efficient_attention_forward",
        (*[bf16(1, 300, 8, 64)] * 3, None, ENDS, ENDS, "100", "100", "0.", "1"),
        1,
    ),
]


@pytest.mark.parametrize(("op", "args", "passes"), VARLEN)
def test_packed_sequences_are_attended_one_by_one(op: str, args: tuple[Tensor, ...], passes: int) -> None:
    """300 tokens in 3 sequences."""
    found = cost(op, *args)
    assert found.flop == 3 * 8 * (100 * 100 / 2) * 2 * (64 + 64) * passes
    assert "equal length" in found.approximate


def test_one_packed_sequence_is_exact_and_packed_ones_without_ends_have_no_cost() -> None:
    one = tensor("int32", 2)
    assert not cost("aten::_flash_attention_forward", *[PACKED] * 3, one, one, "300", "300", "0.", "True").approximate
    assert cost_of(Call("aten::_flash_attention_forward", (PACKED,) * 3)) is None
