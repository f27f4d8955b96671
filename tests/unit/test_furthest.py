"""Where nothing was found, the op that loses most time against its limit is named."""

from __future__ import annotations

from finding_traces import inputs
from serving_traces import GEMM, Work, passes
from support import Opened
from warplens.outputs.furthest import furthest_text


def text_of(opened: Opened, *works: Work) -> str:
    profile = opened(passes(["x"], *works), gpu="H200")
    return furthest_text(profile.table("roofline"), profile.table("kernel_categories"))


def test_the_op_with_most_time_above_its_limit_is_named(opened: Opened) -> None:
    slow = Work(GEMM, 1000, "aten::mm", inputs([4096, 4096], [4096, 4096]))
    slower = Work(GEMM, 900, "aten::mm", inputs([1024, 4096], [4096, 1024]))
    text = text_of(opened, slow, slower)
    assert text.startswith("furthest from its limit: aten::mm (B=1 M=1024 N=1024 K=4096")
    assert "of 900.0 µs above it; all ops: table roofline, --sort lost_us" in text


def test_ops_near_their_limit_and_impossible_ones_are_not(opened: Opened) -> None:
    near = Work(GEMM, 180, "aten::mm", inputs([4096, 4096], [4096, 4096]))
    assert text_of(opened, near) == ""
    too_fast = Work(GEMM, 1, "aten::mm", inputs([4096, 4096], [4096, 4096]))
    assert text_of(opened, too_fast) == ""


def test_an_op_that_takes_little_of_the_gpu_time_is_not(opened: Opened) -> None:
    """Where nearly all kernels have no known cost, the only one that has is not what is left to do."""
    slow = Work(GEMM, 900, "aten::mm", inputs([1024, 4096], [4096, 1024]))
    assert text_of(opened, slow, Work("mine", 40_000, "mine::op")) == ""
    assert text_of(opened, slow, Work("mine", 4_000, "mine::op")) != ""
