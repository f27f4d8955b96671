"""Regions inside kernels, as Proton's instrumentation records them: one event per region, warp and pass through it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

from warplens.model.builder import TraceBuilder
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.readers.proton.events import ProtonEvent
from warplens.readers.shared.microseconds import ns_of

CTA: Final = re.compile(r"(?P<kernel>.*) Core(?P<core>\d+) CTA(?P<cta>\d+)", re.DOTALL)
WARP: Final = re.compile(r"(?P<warp>warp \d+) \(line \d+\)")
"""The line is the row on which a viewer draws the region, so that none covers another; it is the same warp."""
ARROW: Final = "flow"
"""The category of the two ends of a transaction that one warp begins and another ends; they have no duration."""


def is_region(event: ProtonEvent) -> bool:
    return isinstance(event.pid, str) and isinstance(event.tid, str) and CTA.fullmatch(event.pid) is not None


class RegionEvents:
    """Adds regions to a builder. Those of one launch have one number in the column `correlation`, where it is known.

    The ends of an arrow have a number in `external_id`: twice that of the arrow, and one more where it arrives.
    """

    format: Final = "proton_intra"

    def __init__(self, events: list[ProtonEvent]) -> None:
        self.builder = TraceBuilder()
        self._lanes: dict[tuple[str, str], int] = {}
        inside = [event for event in events if event.ph == "X" and is_region(event)]
        regions = [event for event in inside if event.cat != ARROW]
        self._launches = _launches(regions)
        for event in regions:
            self._add(event)
        for number, arrow in enumerate(_arrows(event for event in inside if event.cat == ARROW)):
            source, target = (self._add(event, 2 * number + arrives) for arrives, event in enumerate(arrow))
            self.builder.add_arrow(source, target)
        clocks = sorted({event.args.frequency_mhz for event in regions if math.isfinite(event.args.frequency_mhz)})
        ends = sorted({event.args.finalization_ns for event in regions if math.isfinite(event.args.finalization_ns)})
        self.facts = {"kernels": ", ".join(sorted({_kernel(event) for event in regions}))}
        if clocks:
            self.facts["assumed_clock_mhz"] = ", ".join(f"{clock:g}" for clock in clocks)
        if ends:
            self.facts["finalization_ns"] = f"{ends[0]:g} to {ends[-1]:g}"
        self.notes = [Note("regions_only"), *([Note("assumed_clock")] if clocks else [])]

    def _add(self, event: ProtonEvent, external_id: int = NONE) -> int:
        return self.builder.add(
            "gpu_annotation",
            event.name,
            ns_of(event.ts),
            ns_of(event.dur),
            lane=self._lane(event),
            correlation=self._launch(event),
            external_id=external_id,
        )

    def _launch(self, event: ProtonEvent) -> int:
        """The launch that an event is of; transactions do not say when their CTA began: theirs is found by time."""
        begun = self._launches.get(str(event.pid), {})
        number = begun.get(event.args.init_ns, (0, 0.0))[0]
        return number or max(1, sum(first_us <= event.ts for _, first_us in begun.values()))

    def _lane(self, event: ProtonEvent) -> int:
        match, cta = WARP.fullmatch(str(event.tid)), CTA.fullmatch(str(event.pid))
        process, warp = str(event.pid), match["warp"] if match else str(event.tid)
        if (process, warp) not in self._lanes:
            core = f"Core{cta['core']} CTA{cta['cta']} " if cta else ""
            self._lanes[process, warp] = self.builder.add_lane(process, warp, process, f"{core}{warp}")
        return self._lanes[process, warp]


def _kernel(event: ProtonEvent) -> str:
    match = CTA.fullmatch(str(event.pid))
    return match["kernel"] if match else ""


def _launches(regions: list[ProtonEvent]) -> dict[str, dict[int, tuple[int, float]]]:
    """By CTA and moment of its beginning: the launch's number, and the first time of its regions there.

    CTAs run once per launch.
    """
    begun: dict[str, dict[int, float]] = {}
    for event in regions:
        if event.args.init_ns >= 0:
            moments = begun.setdefault(str(event.pid), {})
            moments[event.args.init_ns] = min(event.ts, moments.get(event.args.init_ns, math.inf))
    return {
        cta: {moment: (number, moments[moment]) for number, moment in enumerate(sorted(moments), 1)}
        for cta, moments in begun.items()
    }


def _arrows(ends: Iterable[ProtonEvent]) -> Iterator[tuple[ProtonEvent, ProtonEvent]]:
    """The two ends of each arrow, first where it leaves; an end without its other is dropped."""
    pairs: dict[int | str, dict[bool, ProtonEvent]] = {}
    for event in ends:
        if event.bind_id is not None and event.flow_out != event.flow_in:
            pairs.setdefault(event.bind_id, {})[event.flow_in] = event
    for pair in pairs.values():
        if len(pair) == 2 and math.isfinite(pair[False].ts) and math.isfinite(pair[True].ts):
            yield pair[False], pair[True]
