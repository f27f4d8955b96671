"""Elements that no program touches are noted, over all launches; what is left out on purpose is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels import partly_touched  # noqa: E402
from warplens_lab.tracing import TABLES, trace  # noqa: E402
from warplens_lab.tracing.records import is_failure  # noqa: E402


def rows_of(run: Callable[[], Any], **options: Any) -> list[dict[str, Any]]:
    with trace("count", **options) as tracing:
        run()
    return TABLES["kernel_faults"](tracing.trace).to_dicts()


def copied(*parts: tuple[int, int]) -> None:
    x, out = torch.randn(4, 20), torch.empty(4, 20)
    for start, end in parts:
        partly_touched.copy(x, out, start, end)


def test_rows_that_no_launch_touches_are_noted_with_the_first_of_them() -> None:
    unread, unwritten = rows_of(lambda: copied((0, 40)))
    assert (unread["fault"], unread["tensor"], unread["place"]) == ("unread_input", "x_ptr", "[2, 0]")
    assert (unread["elements"], unread["may_be_intended"]) == (40, True)
    assert unread["message"] == "no program reads x_ptr[2, 0], the first of 40 elements: rows 2 to 3"
    assert (unwritten["fault"], unwritten["tensor"]) == ("unwritten_output", "out_ptr")


def test_launches_share_the_work() -> None:
    assert rows_of(lambda: copied((0, 40), (40, 80))) == []


def test_a_sample_decides_nothing() -> None:
    assert rows_of(lambda: copied((0, 40)), sample=1) == []


def test_what_pytorch_writes_is_written() -> None:
    def run() -> None:
        x, out = torch.randn(80), torch.empty(80)
        partly_touched.copy(x, out, 0, 48)
        out[48:] = x[48:]

    assert [row["fault"] for row in rows_of(run)] == []


def test_memory_that_was_defined_may_be_updated_in_part() -> None:
    x, cache = torch.randn(16), torch.zeros(5, 16)
    assert rows_of(lambda: partly_touched.copy(x, cache, 0, 16)) == []


@pytest.mark.parametrize("name", ["embed", "embed_by_call", "ragged", "triangle"])
def test_what_is_left_out_on_purpose_is_not_noted(name: str) -> None:
    assert rows_of(getattr(partly_touched, name)) == []


def test_the_first_part_of_a_table_may_be_read() -> None:
    def run() -> None:
        table, out = torch.randn(100), torch.empty(32)
        partly_touched.copy(table, out, 0, 32)

    assert rows_of(run) == []


def test_a_race_of_equal_values_is_a_note() -> None:
    flag = torch.zeros(1)
    (row,) = rows_of(lambda: partly_touched.same_flag_kernel[(3,)](flag, VALUE=1.0))
    assert (row["fault"], row["may_be_intended"], row["programs"]) == ("same_value_race", True, 2)


def test_lanes_of_a_store_that_collide_are_a_fault() -> None:
    x, out = torch.arange(64.0).view(8, 8), torch.zeros(64)
    (row,) = [
        row
        for row in rows_of(lambda: partly_touched.narrow_rows_kernel[(1,)](x, out, 4, N=8))
        if not row["may_be_intended"]
    ]
    assert (row["fault"], row["tensor"], row["index"], row["elements"]) == ("lanes_collide", "out_ptr", 4, 28)
    assert "strides" in row["remedy"]


def test_lanes_with_equal_values_do_not_collide() -> None:
    x, out = torch.ones(8, 8), torch.zeros(36)
    assert rows_of(lambda: partly_touched.narrow_rows_kernel[(1,)](x, out, 4, N=8)) == []


def test_a_block_wholly_outside_is_a_note_that_strictness_makes_a_fault() -> None:
    x, out = torch.randn(32), torch.empty(32)
    with trace("count") as tracing:
        partly_touched.copy(x, out, 0, 32, programs=3)
    faults = [fault for _, fault in tracing.faults]
    assert [(fault.kind, fault.tensor, fault.program) for fault in faults] == [
        ("tile_outside", "x_ptr", (2, 0, 0)),
        ("tile_outside", "out_ptr", (2, 0, 0)),
    ]
    assert not any(is_failure(fault) for fault in faults)
    assert all(is_failure(fault, strict=True) for fault in faults)
