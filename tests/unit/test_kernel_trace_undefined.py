"""Undefined lanes and memory are reported where they are used, at both lines, and not where they are discarded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels import undefined_lanes  # noqa: E402
from warplens_lab.tracing import TABLES, KernelFault, trace  # noqa: E402

SOURCE = Path(undefined_lanes.__file__).read_text().splitlines()
LOAD = next(number for number, line in enumerate(SOURCE, 1) if "# planted: the load" in line)


def rows_of(use: str, **options: Any) -> list[dict[str, Any]]:
    with trace("count", **options) as tracing:
        undefined_lanes.launch(use)
    return TABLES["kernel_faults"](tracing.trace).to_dicts()


def line_of(use: str, last: str) -> int:
    """The line of the statement that uses the lanes."""
    at = next(number for number, line in enumerate(SOURCE) if f'USE == "{use}"' in line)
    return next(number + 1 for number in range(at, len(SOURCE)) if last in SOURCE[number])


@pytest.mark.parametrize(
    "use", ["masked store", "selected", "shifted and masked", "own other", "scan ahead", "rows of a product"]
)
def test_lanes_that_are_discarded_are_not_reported(use: str) -> None:
    assert [row for row in rows_of(use) if not row["may_be_intended"]] == []


@pytest.mark.parametrize(
    ("use", "statement", "text"),
    [
        ("stored", "tl.store(", "reach out_ptr[13]"),
        ("times zero", "tl.store(", "reach out_ptr[0]"),
        ("reshaped", "tl.store(", "reach out_ptr["),
        ("cast", "tl.store(", "reach out_ptr[13]"),
        ("scan", "tl.store(", "reach out_ptr[0]"),
        ("product", "tl.store(", "reach out_ptr[0]"),
        ("address", "tl.store(", "decide the address of a store"),
        ("mask", "tl.store(", "decide the mask of a store"),
        ("branch", "if tl.sum(", "decide a branch"),
        ("atomic", "tl.atomic_add(", "reach out_ptr[13]"),
    ],
)
def test_lanes_that_are_used_are_reported_at_both_lines(use: str, statement: str, text: str) -> None:
    (row,) = [row for row in rows_of(use) if not row["may_be_intended"]]
    assert (row["fault"], row["tensor"], row["elements"]) == ("masked_lane_used", "x_ptr", 3)
    assert (row["line"], row["other_line"]) == (LOAD, line_of(use, statement))
    assert (row["place"], row["index"]) == ("[13]", 13)
    assert text in row["message"]
    assert f"give the load at line {LOAD} other=" in row["remedy"]


def test_every_load_that_a_value_came_from_is_reported() -> None:
    with trace("count") as tracing:
        undefined_lanes.launch_two()
    faults = [(fault.kind, fault.tensor) for _, fault in tracing.faults]
    assert faults == [("masked_lane_used", "x_ptr"), ("masked_lane_used", "y_ptr")]


def test_a_use_can_stop_the_launch() -> None:
    with pytest.raises(KernelFault, match="no other="):
        rows_of("stored", stop_at_fault=True)


def test_nothing_is_followed_without_checks() -> None:
    assert rows_of("stored", checks=False) == []


def test_memory_that_nothing_wrote_may_be_loaded_and_discarded() -> None:
    with trace("count") as tracing:
        assert undefined_lanes.launch_discarding().item() == 10
    assert tracing.faults == ()


def test_memory_that_nothing_wrote_is_reported_where_it_is_used() -> None:
    with trace("count") as tracing:
        undefined_lanes.launch_using()
    ((launch, fault),) = tracing.faults
    assert (fault.kind, fault.tensor, fault.index, fault.elements) == ("uninitialised_read", "x_ptr", 10, 6)
    assert fault.other_site is not None
    assert launch.sites[fault.other_site].line == launch.sites[fault.site].line + 1
    assert "which nothing has written: it reaches out_ptr[0]" in fault.message


def test_the_interpreter_is_left_as_it_was() -> None:
    from triton.runtime import interpreter

    before = dict(vars(interpreter.interpreter_builder)), interpreter.tl.tensor.__dict__.copy()
    rows_of("stored")
    assert (dict(vars(interpreter.interpreter_builder)).keys(), dict(interpreter.tl.tensor.__dict__)) == (
        before[0].keys(),
        dict(before[1]),
    )
