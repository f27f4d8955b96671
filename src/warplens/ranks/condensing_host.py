"""The moments and ways of a rank whose collectives run on the host; see condensing.py for what they are.

A program waits for a collective where none of its threads works as the collective ends and one goes on right after. So
what it does between two such ends is its own time. A rank is ready for a collective so long after the last of these
ends as was recorded; where the copy of a tensor to the host decided that, what the GPU computed meanwhile is the GPU's.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.time.timeline import device_work
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import covered_until, covers
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.ranks.condensing import ARRIVAL, DONE, END, MARK_MOMENT, ORIGIN, Moment
from warplens.ranks.host_collectives import busy_threads
from warplens.ranks.records import FRAMES

AWAKE_NS: Final = 200_000
"""A program goes on at the latest so long after what it waited for, or as long as it had waited."""


def condensed_on_host(work: Workspace, calls: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The frames `moments` and `ways`; `calls` as of `host_collectives`."""
    origin, trace = work.trace.meta.origin_ns, work.trace
    computing = device_work(work, None).computation
    calls = calls.sort("start_ns").with_columns(pl.Series("is_waited", _is_waited(work, calls.sort("start_ns"))))
    moments = [Moment(ORIGIN, NONE, NONE, origin + int(trace.ints("start_ns").min(initial=0)))]
    ways: list[tuple[int, int, int, int, int]] = []
    times, chain = [moments[0].recorded_ns - origin], [0]
    """The moments that the program goes on from, by time."""

    def reach(kind: int, step: int, row: int, time: int, since: int, *, is_gpu: bool) -> None:
        """A moment that is reached from the last one that the program went on from before `since`."""
        source = chain[max(0, bisect_right(times, since) - 1)]
        begun = moments[source].recorded_ns - origin
        moments.append(Moment(kind, step, row, origin + time))
        busy = int(np.diff(covered_until(computing, np.array([begun, time])))[0]) if is_gpu else 0
        ways.append((len(moments) - 1, source, time - begun, time - begun - busy, busy))

    def go_on(moment: int, time: int) -> None:
        at = bisect_right(times, time)
        times.insert(at, time)
        chain.insert(at, moment)

    for time, kind, step, row in _events(work, calls):
        if kind == ARRIVAL:
            own = calls.row(row, named=True)
            is_copied = own["start_ns"] > own["begun_ns"]
            reach(ARRIVAL, step, own["id"], time, own["launch_ns"], is_gpu=is_copied)
            moments.append(Moment(END, step, own["id"], origin + own["end_ns"]))
            if own["is_waited"]:
                go_on(len(moments) - 1, own["end_ns"])
        elif kind == MARK_MOMENT:
            reach(MARK_MOMENT, step, NONE, time, time, is_gpu=False)
            go_on(len(moments) - 1, time)
        else:
            reach(DONE, step, row, time, _launched_ns(work, row), is_gpu=True)
    return {
        "moments": pl.DataFrame([tuple(moment) for moment in moments], schema=FRAMES["moments"], orient="row"),
        "ways": pl.DataFrame(ways, schema=FRAMES["ways"], orient="row"),
    }


def _events(work: Workspace, calls: pl.DataFrame) -> list[tuple[int, int, int, int]]:
    """Time, kind, step and row of all that happens: arrivals (their place among the calls), marks, last GPU events."""
    steps, gpu = work.trace.steps, work.gpu
    events = [(start, ARRIVAL, step, place) for place, (start, step) in
              enumerate(calls.select("start_ns", "step").iter_rows())]  # fmt: skip
    events += [(start, MARK_MOMENT, step, NONE) for start, step in steps.select("start_ns", "step").iter_rows()]
    if steps.height:
        events.append((int(steps["end_ns"][-1]), MARK_MOMENT, NONE, NONE))
    last = gpu.filter(pl.col("step") >= 0).with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    last = last.group_by("step").agg(pl.col("id", "end_ns").sort_by("end_ns").last())
    events += [(end, DONE, step, row) for end, step, row in last.select("end_ns", "step", "id").iter_rows()]
    return sorted(events)


def _launched_ns(work: Workspace, row: int) -> int:
    launch = int(work.trace.ints("launch")[row])
    return int(work.trace.ints("start_ns")[launch if launch >= 0 else row])


def _is_waited(work: Workspace, calls: pl.DataFrame) -> Bools:
    """Whether the program waited for the end of each call: none of its threads works then, and one goes on after it."""
    busy = busy_threads(work)
    end: Ints = calls["end_ns"].to_numpy()
    at = np.searchsorted(busy.starts, end, "left")
    stopped = np.where(at > 0, busy.ends[np.maximum(at - 1, 0)], 0) if len(busy.starts) else np.zeros_like(end)
    begins = np.sort(
        np.concatenate([busy.starts, calls["launch_ns"].to_numpy(), work.trace.steps["end_ns"].to_numpy()])
    )
    following = np.searchsorted(begins, end, "left")
    goes_on = np.where(following < len(begins), begins[np.minimum(following, len(begins) - 1)], end)
    waited = end - np.maximum(stopped, calls["launch_ns"].to_numpy())
    is_waited: Bools = ~covers(busy, end - 1) & (goes_on - end <= np.maximum(AWAKE_NS, waited))
    return is_waited
