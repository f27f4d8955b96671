"""Regions inside kernels, as Proton's instrumentation records them: one event per region, warp and pass through it."""

from __future__ import annotations

import math
import re
from typing import Final

from warplens.model.quality import Note
from warplens.readers.proton_events import Event
from warplens.readers.xplane_rows import Rows

CTA: Final = re.compile(r"(?P<kernel>.*) Core(?P<core>\d+) CTA(?P<cta>\d+)", re.DOTALL)
WARP: Final = re.compile(r"(?P<warp>warp \d+) \(line \d+\)")
"""The line is the row on which a viewer draws the region, so that none covers another; it is the same warp."""
ARROW: Final = "flow"


def is_region(event: Event) -> bool:
    return isinstance(event.pid, str) and isinstance(event.tid, str) and CTA.fullmatch(event.pid) is not None


class RegionRows:
    """The regions as rows. Those of one launch have one number in the column `correlation`, where the file tells."""

    format: Final = "proton_intra"

    def __init__(self, events: list[Event]) -> None:
        self.rows = Rows()
        self._lanes: dict[tuple[str, str], int] = {}
        regions = [event for event in events if event.ph == "X" and is_region(event) and event.cat != ARROW]
        launches = _launches(regions)
        for event in regions:
            row = self.rows.add("gpu_annotation", event.name, self._lane(event), event.ts, event.dur)
            self.rows.ints["correlation"][row] = launches[str(event.pid), event.args.init_ns]
        clocks = sorted({event.args.frequency_mhz for event in regions if math.isfinite(event.args.frequency_mhz)})
        ends = sorted({event.args.finalization_ns for event in regions if math.isfinite(event.args.finalization_ns)})
        self.facts = {"kernels": ", ".join(sorted({_kernel(event) for event in regions}))}
        if clocks:
            self.facts["assumed_clock_mhz"] = ", ".join(f"{clock:g}" for clock in clocks)
        if ends:
            self.facts["finalization_ns"] = f"{ends[0]:g} to {ends[-1]:g}"
        self.notes = [Note("regions_only"), *([Note("assumed_clock")] if clocks else [])]

    def _lane(self, event: Event) -> int:
        match, cta = WARP.fullmatch(str(event.tid)), CTA.fullmatch(str(event.pid))
        place = str(event.pid), match["warp"] if match else str(event.tid)
        if place not in self._lanes:
            core = f"Core{cta['core']} CTA{cta['cta']} " if cta else ""
            self._lanes[place] = self.rows.add_lane(*place, place[0], f"{core}{place[1]}")
        return self._lanes[place]


def _kernel(event: Event) -> str:
    match = CTA.fullmatch(str(event.pid))
    return match["kernel"] if match else ""


def _launches(regions: list[Event]) -> dict[tuple[str, int], int]:
    """The number of the launch that each CTA and moment of its beginning belongs to: CTAs run once per launch."""
    begun: dict[str, set[int]] = {}
    for event in regions:
        begun.setdefault(str(event.pid), set()).add(event.args.init_ns)
    return {(cta, moment): number for cta, moments in begun.items() for number, moment in enumerate(sorted(moments), 1)}
