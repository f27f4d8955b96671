"""Units, parsed and formatted in one place.

Durations are integer nanoseconds inside and read as ns, µs, ms or s. Sizes of memory are binary (KiB, MiB),
as allocators and drivers count; rates are decimal (GB/s, TFLOP/s), as data sheets quote them. Readable values
keep four significant digits: enough to compare two runs, short enough for a table.

>>> format_ns(1234567), format_bytes(1536), format_flop(2e9), format_count(1234567)
('1.235 ms', '1.5 KiB', '2.000 GFLOP', '1,234,567')
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from warplens_run.base.errors import UsageError

MISSING = "–"
"""Shown in place of a number that is absent, infinite or not a number."""

_DURATION_STEPS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_SHORT_UNITS = (("s", 1e3, 2), ("ms", 1.0, 1), ("µs", 1e-3, 1))
"""Each with its milliseconds and the decimals that are shown."""
LEAST_SHOWN_MS = 0.5e-6
"""Nothing lasts half a nanosecond."""
_BINARY_STEPS = tuple((unit, 1024.0**power) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB")))
_SI_STEPS = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))
_SMALL_SI_STEPS = (("n", 1e-9), ("µ", 1e-6), ("m", 1e-3))

_NS_PER = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_BYTES_PER = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}
# Eighteen digits are enough; an endless run of them is refused before it is multiplied.
_QUANTITY = re.compile(r"\s*(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})\s*([a-zµ]*)(?<!\s)\s*")


def format_ns(ns: float) -> str:
    """A duration given in nanoseconds, in the unit that reads best.

    >>> format_ns(0), format_ns(999), format_ns(12_345), format_ns(999_999), format_ns(-1_500_000_000)
    ('0 ns', '999 ns', '12.35 µs', '1.000 ms', '-1.500 s')
    """
    return _scaled(ns, _DURATION_STEPS)


def format_us(us: float) -> str:
    """A duration given in microseconds.

    >>> format_us(0.5), format_us(1234.567)
    ('500 ns', '1.235 ms')
    """
    return format_ns(us * 1e3)


def format_ms(ms: float) -> str:
    """A duration given in milliseconds.

    >>> format_ms(1500)
    '1.500 s'
    """
    return format_ns(ms * 1e6)


def format_short_ms(ms: float, like_ms: float) -> str:
    """A duration given in milliseconds for a sentence: few digits, in the unit that reads best for `like_ms`.

    What is not zero is not shown as zero: it has the decimals that its first digit needs.

    >>> format_short_ms(21.43, 21.43), format_short_ms(0.213, 21.43), format_short_ms(1136.3, 1136.3)
    ('21.4 ms', '0.2 ms', '1.14 s')
    >>> format_short_ms(0.0213, 21.43), format_short_ms(0.0, 21.43), format_short_ms(1e-9, 21.43)
    ('0.02 ms', '0.0 ms', '0.0 ms')
    """
    unit, factor, decimals = next((unit for unit in _SHORT_UNITS if like_ms >= unit[1]), _SHORT_UNITS[-1])
    value = ms / factor
    if LEAST_SHOWN_MS <= abs(ms) < 0.5 * 10**-decimals * factor:
        decimals = math.ceil(-math.log10(abs(value)))
    return f"{value:,.{decimals}f} {unit}"


def format_s(s: float) -> str:
    """A duration given in seconds.

    >>> format_s(0.0123), format_s(12345)
    ('12.30 ms', '12,345 s')
    """
    return format_ns(s * 1e9)


def format_bytes(size: float) -> str:
    """A size of memory, binary.

    >>> format_bytes(512), format_bytes(1536), format_bytes(1024**2 - 1), format_bytes(80 * 1024**3)
    ('512 B', '1.5 KiB', '1.0 MiB', '80.0 GiB')
    """
    return _scaled(size, _BINARY_STEPS, decimals=1)


def format_byte_rate(bytes_per_s: float) -> str:
    """A bandwidth, decimal.

    >>> format_byte_rate(3.35e12)
    '3.350 TB/s'
    """
    return _si(bytes_per_s, "B/s")


def format_flop(flop: float) -> str:
    """An amount of arithmetic.

    >>> format_flop(17), format_flop(1.5e12)
    ('17 FLOP', '1.500 TFLOP')
    """
    return _si(flop, "FLOP")


def format_flop_rate(flop_per_s: float) -> str:
    """A rate of arithmetic.

    >>> format_flop_rate(989.4e12)
    '989.4 TFLOP/s'
    """
    return _si(flop_per_s, "FLOP/s")


def format_joule(joule: float) -> str:
    """An energy.

    >>> format_joule(0.00125), format_joule(3), format_joule(4200)
    ('1.250 mJ', '3 J', '4.200 kJ')
    """
    return _scaled(joule, [(f"{prefix}J", factor) for prefix, factor in (*_SMALL_SI_STEPS, *_SI_STEPS)])


def format_percent(percent: float) -> str:
    """A share given as 0 to 100.

    >>> format_percent(12.345), format_percent(100), format_percent(float("nan"))
    ('12.3%', '100.0%', '–')
    """
    return f"{percent:,.1f}%" if math.isfinite(percent) else MISSING


def format_count(count: float) -> str:
    """A whole number with thousands separators.

    >>> format_count(1234567)
    '1,234,567'
    """
    return f"{count:,.0f}" if math.isfinite(count) else MISSING


def format_number(value: float) -> str:
    """A number without a unit: whole ones whole, others with four significant digits.

    >>> format_number(12), format_number(0.123456), format_number(1234.56), format_number(1e-7)
    ('12', '0.1235', '1,235', '1e-07')
    """
    if not math.isfinite(value):
        return MISSING
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def parse_duration(text: str) -> int:
    """A duration as nanoseconds; the unit is required, because a bare number could be any of them.

    >>> parse_duration("10us"), parse_duration("1.5ms"), parse_duration("3 s"), parse_duration("2 µs")
    (10000, 1500000, 3000000000, 2000)
    """
    return _parse(text, _NS_PER, "a duration", "write a number and ns, us, ms, s or min: 10us, 1.5ms, 3s")


def parse_bytes(text: str) -> int:
    """A size as bytes: kB, MB, GB and TB are decimal; KiB, MiB, GiB and TiB binary; a bare number is bytes.

    >>> parse_bytes("64MiB"), parse_bytes("1.5 GB"), parse_bytes("4096")
    (67108864, 1500000000, 4096)
    """
    return _parse(text, _BYTES_PER, "a size", "write a number and B, kB, MB, GB, KiB, MiB or GiB: 64MiB")


def _parse(text: str, factors: Mapping[str, int], what: str, hint: str) -> int:
    from decimal import Decimal  # 3 ms that only a command with a duration or a size should pay

    # Both micro signs exist in the wild: U+00B5 on keyboards, U+03BC from Unicode normalisation.
    match = _QUANTITY.fullmatch(text.lower().replace("\u03bc", "\u00b5"))
    factor = factors.get(match[2]) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not {what}", hint=hint)
    return int((Decimal(match[1]) * factor).to_integral_value())


def _si(value: float, unit: str) -> str:
    return _scaled(value, [(f"{prefix}{unit}", factor) for prefix, factor in _SI_STEPS])


def _scaled(value: float, steps: Sequence[tuple[str, float]], decimals: int | None = None) -> str:
    """`value` in the largest unit it reaches once rounded; a whole number of base units stays whole."""
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return f"0 {next(unit for unit, factor in steps if factor == 1)}"
    # Rounding comes first, so that 999,999 ns reads 1.000 ms and never 1000 µs.
    rounds_up = 0.99995 if decimals is None else 1 - 0.05 / 1024
    reached = [step for step in steps if abs(value) / step[1] >= rounds_up]
    unit, factor = reached[-1] if reached else steps[0]
    scaled = value / factor
    if factor == 1 and scaled == int(scaled):
        return f"{scaled:,.0f} {unit}"
    places = _places(scaled) if decimals is None else decimals
    return f"{scaled:,.{places}f} {unit}"


def _places(value: float) -> int:
    """Decimals that leave four significant digits, counted after rounding: 99.999 is 100.0, with one."""
    rounded = float(f"{abs(value):.4g}")
    return 3 - min(3, max(0, math.floor(math.log10(rounded))))


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun, in the singular or plural.

    >>> plural(1, "kernel"), plural(2_000, "kernel"), plural(2, "copy", "copies")
    ('1 kernel', '2,000 kernels', '2 copies')
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def listed(items: Sequence[str], conjunction: str = "and") -> str:
    """Names as a list in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "or")
    ('a', 'a and b', 'a, b or c')
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {conjunction} {items[-1]}"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as short text.

    >>> ranges([0, 1, 2, 3, 8]), ranges([5])
    ('0–3, 8', '5')
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)
