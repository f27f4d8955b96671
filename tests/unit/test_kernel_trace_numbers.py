"""With an fp64 shadow a trace reports errors of outputs in ulps, and the statement at which they grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels import trace_cases, vector_add  # noqa: E402
from kernels.mistakes import products  # noqa: E402
from warplens_lab.tracing import TABLES, load, save, trace  # noqa: E402
from warplens_lab.tracing.watching.wide_memory import MOST_ULPS, errors_in_ulps  # noqa: E402
from warplens_run.base.errors import UsageError  # noqa: E402


@pytest.fixture(scope="module")
def product():
    with trace("count", shadow="fp64") as tracing:
        result, _ = products.run_matmul()
    return tracing.trace, result


def test_the_shadow_is_the_product_of_the_inputs_in_fp64(product) -> None:
    trace_, result = product
    ((number,), exact) = (trace_.launches[0].numbers, products_in_fp64())
    row, column = number.place
    assert number.tensor == "c_ptr"
    assert (number.elements, number.dtype) == (40 * 24, "float32")
    assert number.shadow == pytest.approx(exact[row, column].item(), rel=1e-12)
    assert number.value == result[row, column].item()
    worst = errors_in_ulps(result.double().numpy(), exact.numpy(), "float32")
    assert number.largest_ulps == pytest.approx(worst.max(), rel=1e-6)
    assert number.median_ulps == pytest.approx(np.median(worst), rel=1e-6)


def products_in_fp64():
    torch.manual_seed(0)
    a, b = torch.randn(40, 100), torch.randn(100, 24)
    return a.double() @ b.double()


def test_the_table_and_the_file_hold_the_errors(product, tmp_path: Path) -> None:
    trace_, _ = product
    (row,) = TABLES["kernel_numbers"](trace_).to_dicts()
    assert (row["tensor"], row["dtype"], row["judged_dtype"]) == ("c_ptr", "float32", "float32")
    assert "tl.dot(" in row["statement"]
    save(trace_, tmp_path / "x.wkt")
    assert load(tmp_path / "x.wkt").launches[0].numbers == trace_.launches[0].numbers


def test_a_sum_that_is_rounded_once_is_right_to_half_an_ulp() -> None:
    with trace("count", shadow="fp64") as tracing:
        vector_add.launch(torch.randn(100), torch.randn(100))
    (number,) = tracing.launches[0].numbers
    assert 0 < number.largest_ulps <= 0.5
    assert tracing.faults == ()


def test_atomics_have_a_shadow_in_memory() -> None:
    out = torch.zeros(1)
    x = torch.rand(64)
    with trace("count", shadow="fp64") as tracing:
        trace_cases.block_sum(x, out)
    (number,) = tracing.launches[0].numbers
    assert number.shadow == pytest.approx(x.double().sum().item(), rel=1e-12)


def test_without_a_shadow_nothing_is_compared() -> None:
    with trace("count") as tracing:
        vector_add.launch(torch.randn(100), torch.randn(100))
    assert tracing.launches[0].numbers == ()


def test_there_is_one_shadow() -> None:
    with pytest.raises(UsageError, match="there is fp64"), trace(shadow="fp128"):
        pass


@pytest.mark.parametrize(
    ("value", "shadow", "dtype", "ulps"),
    [
        (1.0, 1.0, "float32", 0.0),
        (2.0, 2.0 + 2.0**-21, "float32", 2.0),
        (1.0, 1.0 + 2.0**-10, "float16", 1.0),
        (1.0, 1.0 - 2.0**-8, "bfloat16", 1.0),
        (2.0**-149, 0.0, "float32", 1.0),
        (float("inf"), 1.0, "float32", MOST_ULPS),
        (float("inf"), float("inf"), "float32", 0.0),
        (65504.0, 70000.0, "float16", 0.0),
    ],
)
def test_errors_are_counted_in_units_of_the_last_place(value: float, shadow: float, dtype: str, ulps: float) -> None:
    assert errors_in_ulps(np.array([value]), np.array([shadow]), dtype).tolist() == [ulps]
