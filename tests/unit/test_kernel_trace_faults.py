"""Planted faults are found with the right line, program and element; what only looks like a fault is not reported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels import (  # noqa: E402
    planted_missing_mask,
    planted_out_of_bounds,
    planted_race,
    planted_uninitialised,
    reduction,
    trace_cases,
    vector_add,
)
from warplens_lab.tracing import TABLES, KernelFault, trace  # noqa: E402


def planted_line(module: Any, text: str) -> int:
    lines = Path(module.__file__).read_text().splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if f"# planted: {text}" in line and line.endswith(text)]
    return line


def faults_of(launch: Callable[[], Any], mode: str = "record", **options: Any) -> list[dict[str, Any]]:
    with trace(mode, **options) as tracing:
        launch()
    return TABLES["kernel_faults"](tracing.trace).to_dicts()


PLANTED = [
    # module, launch, text of the comment, kind, tensor, program, index, elements, programs
    (planted_out_of_bounds, "launch", "out of bounds", "out_of_bounds", "x_ptr", (3, 0, 0), 256, 64, 1),
    (planted_missing_mask, "launch", "missing mask", "out_of_bounds", "out_ptr", (3, 0, 0), 100, 28, 1),
    (planted_race, "launch_sum", "write-write race", "write_write_race", "out_ptr", (1, 0, 0), 0, 2, 2),
    (planted_race, "launch_shift", "read-write race", "read_write_race", "x_ptr", (1, 0, 0), 32, 2, 2),
    (planted_uninitialised, "launch", "uninitialised", "uninitialised_read", "total_ptr", (1, 0, 0), 40, 40, 2),
    (
        planted_uninitialised,
        "launch_atomic",
        "uninitialised atomic",
        "uninitialised_read",
        "total_ptr",
        (0, 0, 0),
        0,
        1,
        1,
    ),
]


@pytest.mark.parametrize("mode", ["count", "record"])
@pytest.mark.parametrize(
    ("module", "name", "text", "kind", "tensor", "program", "index", "elements", "programs"), PLANTED
)
def test_a_planted_fault_is_found(
    module: Any,
    name: str,
    text: str,
    kind: str,
    tensor: str,
    program: tuple[int, int, int],
    index: int,
    elements: int,
    programs: int,
    mode: str,
) -> None:
    (row,) = faults_of(getattr(module, name), mode)
    assert row["fault"] == kind
    assert row["line"] == planted_line(module, text)
    assert (row["tensor"], row["program"], row["index"]) == (tensor, str(program), index)
    assert (row["elements"], row["programs"]) == (elements, programs)
    assert f"{tensor}[{index}]" in row["message"]
    assert text in row["statement"]


def test_lanes_out_of_bounds_are_dropped_and_the_rest_is_done() -> None:
    with trace() as tracing:
        result = planted_missing_mask.launch()
    assert torch.equal(result, 2 * torch.arange(100.0))
    assert tracing.launches[0].stored_bytes == 400


def test_an_access_that_lands_in_another_tensor_is_still_out_of_bounds() -> None:
    memory = torch.zeros(64)
    first, second = memory[:32].clone(), memory[32:].clone()
    with trace() as tracing:
        trace_cases.strided_copy(first, 2, 32)
        trace_cases.strided_copy(second, 1, 32)
    (row,) = TABLES["kernel_faults"](tracing.trace).to_dicts()
    assert (row["launch"], row["tensor"], row["index"], row["elements"]) == (0, "x_ptr", 32, 16)


def test_out_of_bounds_can_stop_at_the_statement() -> None:
    with pytest.raises(KernelFault) as caught, trace(out_of_bounds="raise") as tracing:
        planted_missing_mask.launch()
    assert caught.value.fault.index == 100
    assert caught.value.site.line == planted_line(planted_missing_mask, "missing mask")
    assert "tl.store(out_ptr + offsets, x * factor)" in str(caught.value)
    assert len(tracing.launches) == 1


def test_any_fault_can_stop() -> None:
    with pytest.raises(KernelFault, match="which nothing has written"), trace(stop_at_fault=True):
        planted_uninitialised.launch()


def test_a_race_names_the_other_program_and_its_line() -> None:
    (row,) = faults_of(planted_race.launch_shift)
    assert row["other_program"] == "(0, 0, 0)"
    assert row["other_line"] == row["line"] - 1


def test_nothing_is_looked_for_without_checks() -> None:
    assert faults_of(planted_race.launch_sum, checks=False) == []


def test_a_lock_orders_programs() -> None:
    x = torch.ones(64)
    with trace() as tracing:
        total = trace_cases.locked_sum(x)
    assert total.item() == 64
    assert tracing.faults == ()
    assert tracing.launches[0].ordered_by_atomics > 0


@pytest.mark.parametrize(("sem", "faults"), [("acq_rel", []), ("relaxed", ["read_write_race"])])
def test_a_counter_of_arrivals_orders_programs_unless_it_is_relaxed(sem: str, faults: list[str]) -> None:
    assert [row["fault"] for row in faults_of(lambda: trace_cases.last_sums(torch.ones(64), sem))] == faults


def test_an_atomic_does_not_order_itself_behind_another_program_s_store() -> None:
    (row,) = faults_of(lambda: trace_cases.cleared_sum(torch.ones(64)))
    assert (row["fault"], row["other_program"]) == ("write_write_race", "(0, 0, 0)")
    assert row["line"] == row["other_line"] + 1


def test_atomics_on_one_element_are_no_race() -> None:
    out = torch.zeros(1)
    assert faults_of(lambda: trace_cases.block_sum(torch.ones(64), out)) == []
    assert out.item() == 64


def test_a_choice_between_two_tensors_is_in_bounds() -> None:
    x, y = torch.zeros(32), torch.ones(32)
    with trace() as tracing:
        result = trace_cases.chosen_pointer(x, y)
    assert result.tolist() == [0.0] * 16 + [1.0] * 16
    assert tracing.faults == ()


def test_what_one_launch_writes_the_next_may_read() -> None:
    assert faults_of(lambda: reduction.launch(*reduction.inputs())) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(1),
        lambda x: x.copy_(torch.ones(1000)),
        lambda x: torch.add(torch.ones(1000), 1, out=x),
        lambda x: x.normal_(),
        lambda x: x.numpy().fill(1),
        lambda x: x[:500].zero_() + x[500:].zero_(),
    ],
)
def test_a_tensor_written_by_pytorch_is_initialised(write: Callable[[Any], Any]) -> None:
    def run() -> None:
        x = torch.empty(1000)
        write(x)
        vector_add.launch(x, torch.ones(1000))

    assert faults_of(run) == []


def test_a_tensor_written_in_part_is_initialised_in_part() -> None:
    def run() -> None:
        x = torch.empty(10, 100)
        x[:, ::2] = 0
        vector_add.launch(x.view(-1), torch.ones(1000))

    (row,) = faults_of(run)
    assert (row["index"], row["elements"], row["programs"]) == (1, 500, 4)


def test_a_view_is_described_by_its_own_elements() -> None:
    x = torch.arange(40.0)
    with trace() as tracing:
        trace_cases.strided_copy(x[8:], 2, 32)
    (_, fault) = tracing.faults[0]
    assert (fault.index, fault.elements) == (32, 16)


def test_a_failed_assertion_shows_statement_program_and_lane() -> None:
    x = torch.ones(32)
    x[13] = -1
    with pytest.raises(KernelFault, match=r"program \(1, 0, 0\), lane 5: negative input") as caught, trace():
        trace_cases.asserting(x)
    assert "tl.device_assert(x >= 0" in str(caught.value)


def test_an_integer_overflow_is_reported_and_the_launch_goes_on() -> None:
    with trace() as tracing:
        result = trace_cases.overflowing(1 << 30)
    assert result.tolist() == [0, 1 << 30, -(1 << 31), -(1 << 30)] * 2
    (row,) = TABLES["kernel_faults"](tracing.trace).to_dicts()
    assert (row["fault"], row["elements"]) == ("integer_overflow", 6)
    assert "lane 2: int32 overflow detected for operation mul" in row["message"]
    assert "at * factor" in row["statement"]


def test_an_error_of_the_kernel_is_reported_with_its_statement() -> None:
    from triton.runtime.errors import InterpreterError

    with pytest.raises(InterpreterError) as caught, trace():
        trace_cases.mistyped(torch.ones(16))
    assert "program (0, 0, 0)" in str(caught.value)
    assert "tl.store(x_ptr + at, tl.dot(x, x))" in str(caught.value)


def test_a_sampled_launch_leaves_no_false_alarms() -> None:
    assert faults_of(lambda: reduction.launch(*reduction.inputs()), sample=2) == []


def test_clean_kernels_are_silent_when_run_twice() -> None:
    modules = [importlib.import_module(f"kernels.{name}") for name in ("softmax", "histogram", "flash_attention")]

    def run() -> None:
        for module in modules:
            for _ in range(2):
                module.launch(*module.inputs())

    assert faults_of(run, "count") == []
