"""Warps of instrumented kernels: arrows between them, launches, and what each does while the others work."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import polars as pl
import pytest

from warp_traces import CONSUMERS, PRODUCER, arrow, ping_pong, ping_pong_bytes, region
from warplens.analyses.inside_kernels.regions import regions
from warplens.analyses.inside_kernels.warp_regions import warp_regions
from warplens.analyses.workspace import Workspace
from warplens.model.trace import Meta, Trace
from warplens.passes import run_passes
from warplens.readers.proton import trace as proton_trace

CTA = "k Core3 CTA7"


def opened(*events: dict[str, Any]) -> Trace:
    return read(proton_document(*events))


def proton_document(*events: dict[str, Any]) -> bytes:
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": list(events)}).encode()


def read(text: bytes) -> Trace:
    return run_passes(proton_trace.read(text, Meta(source="x", format=""), []), check_each=True)


def rows(trace: Trace) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row["warp"], row["region"]): row for row in warp_regions(Workspace(trace)).to_dicts()}


def place(trace: Trace, row: int) -> tuple[str, int]:
    lane = trace.lanes.row(int(trace.ints("lane")[row]), named=True)
    return lane["thread"], int(trace.ints("start_ns")[row])


def test_an_arrow_leads_from_warp_to_warp_and_is_no_region() -> None:
    ends = arrow("tile", 5, CTA, (8, 40), (0, 70))
    lost = arrow("tile", 6, CTA, (8, 50), (0, 80))[:1]
    trace = opened(region("load", 0, 40, CTA, 8), region("mma", 60, 90, CTA, 0), *ends, *lost)
    assert [(place(trace, a), place(trace, b)) for a, b in trace.flows.rows()] == [(("warp 8", 40), ("warp 0", 70))]
    assert set(trace.ints("forward").tolist()) == {-1}
    assert sorted(regions(Workspace(trace)).frame["region"]) == ["load", "mma"]


def test_a_transaction_belongs_to_the_launch_that_was_running() -> None:
    first, second = region("a", 0, 10, CTA, 0, init=500), region("a", 100, 10, CTA, 0, init=900)
    plain = region("copy", 103, 5, CTA, 0)
    del plain["args"]["Init Time (ns)"]
    trace = opened(first, second, plain)
    assert sorted(trace.ints("correlation").tolist()) == [1, 2, 2]
    assert rows(trace)[0, "copy"]["percent"] == pytest.approx(100 * 5 / 20)


def test_groups_that_take_turns_are_never_in_the_same_region() -> None:
    events = [
        region(name, 100 * at, 100, CTA, warp)
        for at, turn in enumerate((("mma", "wait"), ("wait", "mma")))
        for name, warps in zip(turn, (range(4), range(4, 8)), strict=True)
        for warp in warps
    ]
    found = rows(opened(*events))
    assert found[0, "mma"]["same_percent"] == 0.0
    assert (found[0, "wait"]["meanwhile"], found[0, "wait"]["meanwhile_percent"]) == ("mma", 100.0)
    assert found[4, "mma"]["percent"] == 50.0 and found[4, "mma"]["count"] == 1


def test_of_nested_regions_the_innermost_counts_for_the_others() -> None:
    found = rows(
        opened(
            region("load", 0, 100, CTA, 0),
            region("x", 20, 30, CTA, 0, line=1),
            region("wait", 10, 80, CTA, 1),
        )
    )
    assert found[1, "wait"]["others"] == "load 62 %, x 38 %"
    assert found[0, "x"]["others"] == "wait 100 %"
    assert found[0, "load"]["others"] == "wait 80 %, (between regions) 20 %"


def by_hand(events: list[dict[str, Any]], warp: int, name: str) -> tuple[float, dict[str, float]]:
    """Share beside the same region and where the others were, tick by tick."""
    warps: dict[int, list[tuple[int, int, str]]] = {}
    for event in events:
        start = round(event["ts"] * 1000)
        number = int(event["tid"].split()[1])
        warps.setdefault(number, []).append((start, start + round(event["dur"] * 1000), event["name"]))
    others = [each for each in warps if each != warp and (len(warps) <= 4 or each // 4 != warp // 4)]
    ticks = sorted({tick for start, end, own in warps[warp] if own == name for tick in range(start, end)})
    same, spent = 0, dict[str, float]()
    for tick in ticks:
        inside = {each: [event for event in warps[each] if event[0] <= tick < event[1]] for each in others}
        same += any(event[2] == name for found in inside.values() for event in found)
        for found in inside.values():
            where = max(found, key=lambda event: (event[0], -event[1]))[2] if found else "(between regions)"
            spent[where] = spent.get(where, 0) + 100 / len(others) / len(ticks)
    return 100 * same / len(ticks), spent


@pytest.mark.parametrize("seed", range(4))
def test_the_shares_are_those_counted_tick_by_tick(seed: int) -> None:
    source = random.Random(seed)
    events = []
    for warp in source.choice([(0, 1, 2), (0, 1, 4, 5, 8)]):
        now = source.randrange(20)
        for _ in range(12):
            length = source.randrange(8, 40)
            events.append(region(source.choice("abc"), now, length, CTA, warp))
            if length > 20:
                events.append(region(source.choice("xy"), now + 3, length - 10, CTA, warp, line=1))
            now += length + source.randrange(6)
    for (warp, name), row in rows(opened(*events)).items():
        same, spent = by_hand(events, warp, name)
        assert row["same_percent"] == pytest.approx(same)
        top = max(spent.values())
        assert row["meanwhile_percent"] == pytest.approx(top)
        assert spent[row["meanwhile"]] == pytest.approx(top)


def test_a_ping_pong_kernel_shows_its_roles() -> None:
    found = rows(read(ping_pong_bytes(ctas=3)))
    consumers = [warp for warps in CONSUMERS.values() for warp in warps]
    assert {warp for warp, name in found if name == "mma"} == set(consumers)
    assert {warp for warp, name in found if name == "tma load"} == set(PRODUCER)
    assert {found[warp, "mma"]["same_percent"] for warp in consumers} == {0.0}
    assert all("mma" in found[warp, "softmax"]["others"] for warp in consumers)


def test_many_ctas_are_compared_in_part_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["warplens.analyses.inside_kernels.warp_regions"], "MOST_CTAS", 2)
    table = warp_regions(Workspace(read(ping_pong_bytes(ctas=3, turns=1))))
    assert "in the first 2 CTAs of attention" in table.notes[-1]
    assert table.frame.filter(pl.col("region") == "mma")["count"].to_list() == [3] * 8


def test_one_warp_has_no_others_and_other_traces_no_warps() -> None:
    [row] = rows(opened(region("a", 0, 10, CTA, 0))).values()
    assert (row["percent"], row["same_percent"], row["meanwhile"]) == (100.0, None, None)
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 0, "dur": 1, "args": {"call_stack": ["ROOT"]}}
    assert len(warp_regions(Workspace(opened(kernel)))) == 0


def test_damaged_ends_do_no_harm() -> None:
    events = ping_pong(ctas=1, turns=2)["traceEvents"]
    odd: list[Any] = [{"bind_id": None}, {"bind_id": [1]}, {"flow_in": True}, {"ts": None}, {"tid": 5}]
    for changes in odd:
        trace = opened(*({**event, **(changes if event["cat"] == "flow" else {})} for event in events))
        assert set(regions(Workspace(trace)).frame["region"]) == {
            event["name"] for event in events if event["cat"] != "flow"
        }


def test_a_region_inside_itself_counts_once_for_its_share() -> None:
    trace = opened(region("a", 0, 40, CTA, 0), region("a", 10, 20, CTA, 0), region("b", 60, 40, CTA, 0))
    found = rows(trace)
    assert (found[0, "a"]["total_us"], found[0, "a"]["percent"]) == (0.06, 40.0)
    assert found[0, "b"]["percent"] == 40.0
    shares = dict(regions(Workspace(trace)).frame.select("region", "percent").iter_rows())
    assert shares == {"a": 40.0, "b": 40.0}
