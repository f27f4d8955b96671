"""Metrics that `nsys profile --gpu-metrics-devices` samples: activity of the SMs, bandwidths, clocks, as counters.

A file has thousands of samples a second of each of forty metrics; those of `SHOWN` are read, from a moment before the
first event to the last one's end. The low byte of a metric's type is the GPU's number in the file.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.model.counters import SPARE_NS
from warplens.model.kinds import NONE
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.nsys.schema import METRIC, METRIC_NAMES, METRICS, SAMPLE
from warplens.readers.shared.sqlite_tables import Database

SHOWN: Final = re.compile(
    r"(?:SMs? Active|SM Issue|Tensor Active|DRAM (?:Read |Write )?Bandwidth|GR Active|Compute Warps in Flight"
    r"|(?:PCIe|NVLink) [RT]X\b.*|GPC Clock Frequency)\Z",
    re.IGNORECASE,
)
NAME_AND_UNIT: Final = re.compile(r"(?P<name>.{0,199}?\S)\s*\[(?P<unit>[^\]]{0,40})\]", re.DOTALL)
LONGEST_NAME: Final = 200
DEVICE_MASK: Final = 0xFF
PERCENT: Final = "%"


def counters_of(database: Database, trace: Trace) -> pl.DataFrame:
    """The samples of the shown metrics on the trace's clock, those of a counter in the order of time."""
    empty = pl.DataFrame(schema=SIDE_FRAMES["counters"])
    names = metric_names(database)
    if not names or not {"metricId", "timestamp"} <= database.columns(METRICS):
        return empty
    origin = trace.meta.origin_ns
    end = int((trace.ints("start_ns") + trace.ints("dur_ns")).max())
    numbers = ", ".join(str(metric) for metric in sorted({metric for _, metric in names}))
    where = f"metricId IN ({numbers}) AND timestamp BETWEEN {origin - SPARE_NS} AND {origin + end}"
    samples = database.ints(METRICS, SAMPLE, where)
    frames = [empty]
    for (kind, metric), (name, unit) in names.items():
        chosen = (samples["type"] == kind) & (samples["metric"] == metric)
        chosen &= (samples["time"] != NONE) & (samples["value"] >= 0)
        if chosen.any():
            times, values = samples["time"][chosen] - origin, samples["value"][chosen]
            order = np.argsort(times, kind="stable")
            frames.append(_frame(name, unit, kind & DEVICE_MASK, times[order], values[order]))
    return pl.concat(frames)


def metric_names(database: Database) -> dict[tuple[int, int], tuple[str, str]]:
    """Name and unit of each shown metric, by its type and number."""
    columns, texts = database.ints_and_text(METRIC_NAMES, METRIC, "metricName")
    keys = zip(columns["type"].tolist(), columns["metric"].tolist(), strict=True)
    parsed = {key: named(text or "") for key, text in zip(keys, texts, strict=True)}
    return {key: (name, unit) for key, (name, unit) in parsed.items() if min(key) >= 0 and SHOWN.match(name)}


def named(text: str) -> tuple[str, str]:
    """A metric's name without its unit, and that.

    >>> named("SMs Active [Throughput %]"), named("GPC Clock Frequency [MHz]"), named("Warps")
    (('SMs Active', '%'), ('GPC Clock Frequency', 'MHz'), ('Warps', ''))
    """
    text = text.strip()
    match = NAME_AND_UNIT.fullmatch(text)
    if match is None:
        return (text, "") if len(text) <= LONGEST_NAME else ("", "")
    words = match["unit"].split()
    return match["name"], words[-1] if words else ""


def _frame(name: str, unit: str, device: int, times: np.ndarray, values: np.ndarray) -> pl.DataFrame:
    limit = 100.0 if unit == PERCENT else None
    return pl.DataFrame({"start_ns": times, "value": values}).select(
        pl.lit(name).alias("counter"),
        pl.lit(unit).alias("unit"),
        pl.lit(device, pl.Int32).alias("device"),
        pl.col("start_ns").cast(pl.Int64),
        pl.col("value").cast(pl.Float64),
        pl.lit(limit, pl.Float64).alias("limit"),
    )
