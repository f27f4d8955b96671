"""Types of eight bits against PyTorch: every code and, of every number of sixteen bits that fits, the nearest code."""

from __future__ import annotations

import numpy as np
import pytest

from warplens_lab.tracing.interpreter.eight_bits import FORMATS, codes_of, values_of

torch = pytest.importorskip("torch")

TORCH_TYPES = {
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "fp8e4b8": torch.float8_e4m3fnuz,
}
EVERY = np.arange(1 << 8, dtype=np.uint8)


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_has_pytorch_s_value(name: str) -> None:
    expected = torch.from_numpy(EVERY).view(TORCH_TYPES[name]).double().numpy()
    assert np.array_equal(values_of(EVERY, name), expected, equal_nan=True)
    finite = np.isfinite(expected)
    assert np.array_equal(codes_of(expected, name)[finite], EVERY[finite])


@pytest.mark.parametrize("name", FORMATS)
def test_the_nearest_code_is_pytorch_s(name: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float32)
    largest = np.nanmax(np.where(np.isinf(values_of(EVERY, name)), np.nan, values_of(EVERY, name)))
    values = halves[np.abs(halves) <= largest]
    expected = torch.from_numpy(values).to(TORCH_TYPES[name]).view(torch.uint8).numpy()
    assert np.array_equal(codes_of(values, name), expected)


def test_what_is_too_large_becomes_the_largest_and_nan_stays_nan() -> None:
    values = np.array([1e9, -np.inf, np.nan])
    assert values_of(codes_of(values, "fp8e4nv"), "fp8e4nv")[:2].tolist() == [448.0, -448.0]
    assert values_of(codes_of(values, "fp8e5"), "fp8e5")[:2].tolist() == [57344.0, -57344.0]
    assert all(np.isnan(values_of(codes_of(values, name), name)[2]) for name in FORMATS)


def test_rounding_toward_zero_cuts() -> None:
    assert values_of(codes_of(np.array([1.98, -1.98]), "fp8e5", toward_zero=True), "fp8e5").tolist() == [1.75, -1.75]
