"""An output against what it should hold: the first wrong element, where the wrong ones are, what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
WHOLE = "all of"
LOOKS_LIKE = "this is what comes out if"
FEW = 3
"""A wrong value that so many elements should hold says nothing about where it came from."""


@dataclass(frozen=True)
class WrongOutput:
    """`wrong` has the shape of the output; `first` is the first wrong element in the order of the indices."""

    name: str
    actual: Floats
    expected: Floats
    wrong: Bools
    first: tuple[int, ...]


def difference(name: str, tensor: Any, expected: Any, tolerance: float) -> WrongOutput | None:
    """None where the output is right."""
    actual, expected_values = _numbers(tensor), _numbers(expected)
    wrong = ~_close(actual, expected_values, tolerance)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    return WrongOutput(name, actual, expected_values, wrong, first)


def described(output: WrongOutput, mistakes: Mapping[str, Any], tolerance: float) -> Iterator[str]:
    """What is known about the wrong elements: where they are, and what mistake they look like."""
    count = int(output.wrong.sum())
    if count == output.wrong.size:
        yield f"all {count:,} elements are wrong" if count > 1 else "it is the only element"
    elif count == 1:
        yield f"it is the only wrong one of {output.wrong.size:,} elements"
    else:
        box = box_text(output.name, output.wrong)
        where = "" if box.startswith(WHOLE) else f", all of them in {box}"
        yield f"{count:,} of {output.wrong.size:,} elements are wrong{where}"
    looks = _looks_like(output, mistakes, tolerance)
    if looks:
        yield looks


def _looks_like(output: WrongOutput, mistakes: Mapping[str, Any], tolerance: float) -> str:
    actual, expected, name = output.actual, output.expected, output.name
    for description, values in mistakes.items():
        if tuple(values.shape) != actual.shape:  # of another output
            continue
        # Known mistakes are float64; the learner's kernel rounds, so be a little more lenient than for right answers.
        same = _close(actual, _numbers(values), 4 * max(tolerance, 1e-6))
        if (same | (np.isnan(actual) & np.isnan(_numbers(values)))).all():
            return f"{LOOKS_LIKE} {description}"
    first_got, first_expected = float(actual[output.first]), float(expected[output.first])
    if not np.isfinite(first_got):
        return ""
    if actual.ndim == 2 and actual.shape[0] == actual.shape[1] and _close(actual, expected.T, tolerance).all():
        return f"{name} is transposed as a whole"
    home = _home(output, tolerance)
    if home is not None:
        return f"{first_got:.6g} is what {name}[{_text(home)}] should hold"
    wrong_got, wrong_expected = actual[output.wrong], expected[output.wrong]
    if len(wrong_got) >= FEW and np.isfinite(wrong_got).all():
        if not wrong_got.any():
            return "all wrong elements are 0"
        ratio, gap = first_got / first_expected if first_expected else 0.0, first_got - first_expected
        if ratio and np.allclose(wrong_got, ratio * wrong_expected, rtol=1e-3, atol=1e-6):
            return f"every wrong element is {ratio:.4g} times what it should be"
        if np.allclose(wrong_got, wrong_expected + gap, rtol=1e-3, atol=1e-6):
            return f"every wrong element is {abs(gap):.4g} too {'large' if gap > 0 else 'small'}"
    return ""


def mean_error(output: WrongOutput) -> float:
    """Of the wrong elements, relative to the usual size of all; infinite where one is not a number."""
    usual = float(np.abs(output.expected[np.isfinite(output.expected)]).mean())
    errors = np.abs(output.actual - output.expected)[output.wrong]
    return float(errors.mean()) / usual if usual and np.isfinite(errors).all() else float("inf")


def _home(output: WrongOutput, tolerance: float) -> tuple[int, ...] | None:
    """The element that should hold what the first wrong one holds, where there is only one."""
    value = output.actual[output.first]
    homes = np.argwhere(np.isclose(output.expected, value, rtol=max(tolerance, 1e-6), atol=1e-12))
    if not value or len(homes) != 1 or len(np.unique(output.expected)) < output.expected.size // FEW:
        return None
    return tuple(int(index) for index in homes[0])


def _close(actual: Floats, expected: Floats, tolerance: float) -> Bools:
    """Within the tolerance of each value and of the usual size of all; NaN is close to nothing."""
    finite = np.abs(expected[np.isfinite(expected)])
    size = float(finite.mean()) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        near: Bools = np.abs(actual - expected) <= tolerance * (np.abs(expected) + size)
    near &= np.isfinite(expected)  # else anything would be near to infinity
    near |= actual == expected
    return near


def box_text(name: str, flags: Bools) -> str:
    """The smallest box that holds all flagged elements, as a slice.

    >>> flags = np.zeros((4, 50), bool)
    >>> flags[1, 3:7] = True
    >>> box_text("x", flags), box_text("x", ~flags)
    ('x[1, 3:7]', 'all of x')
    """
    indexes = np.argwhere(flags)
    spans = list(zip(indexes.min(0).tolist(), indexes.max(0).tolist(), strict=True))
    if all((low, high + 1) == (0, size) for (low, high), size in zip(spans, flags.shape, strict=True)):
        return f"{WHOLE} {name}"
    parts = [f"{low}" if low == high else f"{low}:{high + 1}" for low, high in spans]
    return f"{name}[{', '.join(parts)}]"


def _numbers(tensor: Any) -> Floats:
    numbers: Floats = np.array(tensor.detach().double().contiguous().tolist(), np.float64).reshape(tuple(tensor.shape))
    return numbers


def _text(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))
