"""The counters of a trace: readings of a GPU over time, by the names that tables and pages show."""

from __future__ import annotations

from typing import Final

import msgspec

POWER: Final = "power"
SM_CLOCK: Final = "SM clock"
TEMPERATURE: Final = "temperature"
ENERGY: Final = "energy counter"
"""Joules since some moment: only differences mean anything."""

SPARE_NS: Final = 200_000_000
"""Before the trace: a reading that is not older holds at its beginning."""


class Reading(msgspec.Struct, frozen=True):
    """A column of a capture's samples, and how it is shown; `limit` is the field with what it cannot exceed."""

    column: str
    counter: str
    unit: str
    limit: str = ""
    fixed_limit: float | None = None


READINGS: Final = (
    Reading("power_w", POWER, "W", "power_limit_w"),
    Reading("sm_clock_mhz", SM_CLOCK, "MHz", "max_sm_clock_mhz"),
    Reading("memory_clock_mhz", "memory clock", "MHz", "max_memory_clock_mhz"),
    Reading("gpu_busy_percent", "GPU busy", "%", fixed_limit=100.0),
    Reading("memory_busy_percent", "memory busy", "%", fixed_limit=100.0),
    Reading("temperature_c", TEMPERATURE, "°C"),
    Reading("memory_used_bytes", "memory used", "bytes", "memory_bytes"),
)
CLOCK_REASONS: Final = {
    # bit of NVML's clock event reasons: the counter that it becomes
    0x001: "clock: idle",
    0x002: "clock: application setting",
    0x004: "clock: power limit",
    0x008: "clock: hardware slowdown",
    0x010: "clock: sync boost",
    0x020: "clock: temperature",
    0x040: "clock: hardware, temperature",
    0x080: "clock: external power brake",
    0x100: "clock: display setting",
}
LOWERING: Final = {
    # counter: what it says of a GPU that works
    "clock: power limit": "the power limit lowers the clock",
    "clock: temperature": "the temperature lowers the clock",
    "clock: hardware, temperature": "the temperature lowers the clock",
    "clock: hardware slowdown": "the hardware lowers the clock",
    "clock: external power brake": "the power supply lowers the clock",
}
