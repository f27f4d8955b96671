"""The family of an operator comes from its name, and only then from its kernels."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from support import each_case
from warplens.categories import op_category

TABLE = Path(__file__).parent / "data" / "op_categories.txt"


def expected_families() -> list[tuple[str, str]]:
    family, rows = "", []
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("["):
            family = line.strip("[]")
        elif line and not line.startswith("# "):
            rows.append((line, family))
    return rows


@each_case(expected_families())
def test_op_has_its_family(op: str, family: str) -> None:
    assert op_category(op) == family


def test_overload_and_in_place_do_not_matter() -> None:
    spellings = ("aten::add", "aten::add.Tensor", "aten::add_", "aten::add_.Tensor")
    assert {op_category(op) for op in spellings} == {"Elementwise"}


def test_the_kernels_decide_where_the_name_says_nothing() -> None:
    assert op_category("my::op", {"GEMM": 3.0, "Elementwise": 1.0}) == "GEMM"
    assert op_category("my::op", {"Flash Attention Forward": 3.0, "Memory Ops": 1.0}) == "Attention"
    assert op_category("my::op", {"Other": 9.0, "Memory Ops": 1.0}) == "Memory"
    assert op_category("my::op", {"Other": 9.0}) == "other"
    assert op_category("", {}) == "other"
    assert op_category("MyFunctionBackward", {"Softmax": 1.0}) == "Softmax"
    assert op_category("aten::mm", {"Softmax": 1.0}) == "GEMM"
    assert op_category("(no launch recorded)", {"Communication": 1.0}) == "other"


@given(st.text())
def test_any_op_name_has_a_family(op: str) -> None:
    assert op_category(op)
