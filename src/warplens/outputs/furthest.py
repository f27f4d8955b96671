"""Which op loses most time against the limit of the hardware: what is left to say where nothing was found."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.model.table import Table
from warplens_run.base.units import format_ms

LEAST_SHARE: Final = 0.05
"""Of the GPU time; less is not worth a sentence."""


def furthest_text(roofline: Table, categories: Table) -> str:
    """`furthest from its limit: aten::mm (M=8 …) at 26 %, 5.70 ms over it; …`; empty where no op loses much."""
    frame = roofline.frame
    known = frame.filter(pl.col("percent_of_roofline").is_between(0, 100) & (pl.col("lost_us") > 0))
    if not len(known):
        return ""
    row = known.sort("lost_us", descending=True).row(0, named=True)
    if row["lost_us"] < LEAST_SHARE * float(categories.frame["total_us"].sum()):
        return ""
    params = f" ({row['params']})" if row["params"] else ""
    return (
        f"furthest from its limit: {row['op']}{params} at {row['percent_of_roofline']:.0f} %, "
        f"{format_ms(row['lost_us'] / 1e3)} of {format_ms(row['total_us'] / 1e3)} above it; "
        "all ops: table roofline, --sort lost_us"
    )
