"""Units: what people read and what they may type."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest

from warplens_run.base import units
from warplens_run.base.errors import UsageError


def test_every_documented_example_holds() -> None:
    results = doctest.testmod(units)
    assert results.attempted > 10
    assert results.failed == 0


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1, "1 ns"),
        (1_000, "1.000 µs"),
        (9_999_499, "9.999 ms"),
        (9_999_999, "10.00 ms"),
        (99_999_999, "100.0 ms"),
        (999_949_999, "999.9 ms"),
        (999_999_999, "1.000 s"),
        (3_600 * 10**9, "3,600 s"),
        (0.25, "0.250 ns"),
        (-2_500, "-2.500 µs"),
    ],
)
def test_durations_keep_four_digits_and_never_reach_a_thousand_of_a_unit(ns: float, text: str) -> None:
    assert units.format_ns(ns) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_shown_as_missing(value: float) -> None:
    formats: list[Callable[[float], str]] = [
        units.format_ns,
        units.format_us,
        units.format_ms,
        units.format_s,
        units.format_bytes,
        units.format_byte_rate,
        units.format_flop,
        units.format_flop_rate,
        units.format_joule,
        units.format_percent,
        units.format_count,
        units.format_number,
    ]
    assert {show(value) for show in formats} == {units.MISSING}


def test_zero_is_shown_in_the_base_unit() -> None:
    assert units.format_joule(0) == "0 J"
    assert units.format_bytes(0) == "0 B"
    assert units.format_flop(0) == "0 FLOP"


def test_memory_is_binary_and_rates_are_decimal() -> None:
    assert units.format_bytes(10**9) == "953.7 MiB"
    assert units.format_bytes(-2048) == "-2.0 KiB"
    assert units.format_byte_rate(10**9) == "1.000 GB/s"


@pytest.mark.parametrize(
    ("text", "ns"),
    [("5NS", 5), (" 7 us ", 7_000), ("7\u03bcs", 7_000), (".5ms", 500_000), ("2min", 120 * 10**9)],
)
def test_durations_are_parsed(text: str, ns: int) -> None:
    assert units.parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "10", "ms", "-1ms", "1e3ms", "1.2.3s", "3 parsecs", "9" * 40 + "s", "1 0 s"])
def test_what_is_no_duration_is_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as caught:
        units.parse_duration(text)
    assert "10us" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "size"), [("1kB", 1000), ("1KIB", 1024), ("0.5 MiB", 524_288), ("2TB", 2 * 10**12), ("12b", 12)]
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "10M", "1.5 gigs", "-1MB"])
def test_what_is_no_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        units.parse_bytes(text)
