"""Linking in files without correlation ids: by the arrows from launches to GPU work, and by external ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

import warplens
from finding_traces import by_code
from support import Opened, kernel, launch, op
from warplens.model.quality import Note
from warplens.model.trace import Meta
from warplens.readers.kineto import events as kineto_events
from warplens.readers.kineto.reader import read

Event = dict[str, Any]


def without_correlation(event: Event, **args: Any) -> Event:
    kept = {name: value for name, value in event["args"].items() if name != "correlation"}
    return {**event, "args": {**kept, **args}}


def call(ts: float, *, name: str = "cudaLaunchKernel", tid: int = 1, external: int = 0) -> Event:
    return without_correlation(launch(ts, 1, 0, name=name, tid=tid), **({"External id": external} if external else {}))


def work(name: str, ts: float, *, external: int = 0, stream: int = 7) -> Event:
    ids = {"External id": external} if external else {}
    return without_correlation(kernel(name, ts, 5, stream=stream), **ids)


def arrow(number: int | str, source: tuple[float, int], target: tuple[float, int]) -> list[Event]:
    """From (ts, thread) of the process 1 to (ts, stream) of GPU 0."""
    shared = {"cat": "ac2g", "name": "ac2g", "id": number}
    return [
        {**shared, "ph": "s", "pid": 1, "tid": source[1], "ts": source[0]},
        {**shared, "ph": "f", "bp": "e", "pid": 0, "tid": target[1], "ts": target[0]},
    ]


def links(profile: warplens.Profile) -> dict[str, tuple[int | None, str | None]]:
    """By GPU event, the start in µs of its launch and the name of its op."""
    trace = profile.trace
    names, starts = trace.named_events()["name"], trace.events["start_ns"]
    return {
        row["name"]: (
            starts[row["launch"]] // 1000 if row["launch"] >= 0 else None,
            names[row["op"]] if row["op"] >= 0 else None,
        )
        for row in trace.named_events().to_dicts()
        if row["kind"] == "kernel"
    }


TWO_OPS = [op("aten::mm", 0, 10), op("aten::add", 10, 10)]


def test_arrows_tie_kernels_to_launches_where_nothing_has_an_id(opened: Opened) -> None:
    """Neither in the order of running nor by the same number: the arrows alone say it."""
    events = [*TWO_OPS, call(2), call(12), work("add", 30), work("mm", 40)]
    profile = opened([*events, *arrow(5, (2, 1), (40, 7)), *arrow("six", (12, 1), (30, 7))])
    assert links(profile) == {"mm": (2, "aten::mm"), "add": (12, "aten::add")}
    assert not profile.trace.quality.has("unlinked_kernels")
    assert "WL901" not in by_code(profile)


def test_an_arrow_may_begin_anywhere_inside_its_launch(opened: Opened) -> None:
    profile = opened([*TWO_OPS, call(12), work("add", 30), *arrow(5, (12.5, 1), (31, 7))])
    assert links(profile) == {"add": (12, "aten::add")}


def test_an_arrow_whose_ends_meet_no_event_ties_nothing(opened: Opened) -> None:
    events = [*TWO_OPS, call(12), work("add", 30)]
    profile = opened([*events, *arrow(5, (14, 1), (30, 7)), *arrow(6, (12, 1), (99, 7)), *arrow(7, (12, 2), (30, 7))])
    assert links(profile) == {"add": (None, None)}


def test_one_launch_may_have_arrows_to_many_kernels(opened: Opened) -> None:
    events = [call(2, name="cudaGraphLaunch"), work("a", 30), work("b", 40), op("aten::mm", 0, 10)]
    profile = opened([*events, *arrow(5, (2, 1), (30, 7)), *arrow(6, (2, 1), (40, 7))])
    assert [launched for launched, _ in links(profile).values()] == [2, 2]


def test_arrows_from_ops_tie_kernels_to_them_where_launches_are_not_recorded(opened: Opened) -> None:
    events = [*TWO_OPS, work("add", 30), work("mm", 40)]
    profile = opened([*events, *arrow(5, (0, 1), (40, 7)), *arrow(6, (10, 1), (30, 7))])
    assert links(profile) == {"mm": (None, "aten::mm"), "add": (None, "aten::add")}
    assert [row["op"] for row in profile.table("ops").to_dicts()] == ["aten::add", "aten::mm"]


def test_arrows_say_nothing_where_one_event_has_a_correlation(opened: Opened) -> None:
    """The arrow to the second kernel begins at the launch of the first, as in a file that was put together wrongly."""
    events = [*TWO_OPS, launch(2, 1, 9), kernel("mm", 30, 5, 9), kernel("add", 40, 5, 0)]
    assert links(opened([*events, *arrow(5, (2, 1), (40, 7))])) == {"mm": (2, "aten::mm"), "add": (None, None)}


@pytest.mark.parametrize("flows_first", [False, True], ids=["at the end", "at the beginning"])
def test_arrows_count_wherever_they_are_in_the_file(flows_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read piece by piece."""
    monkeypatch.setattr(kineto_events, "PIECE_BYTES", 64)
    timed = [*TWO_OPS, call(2), call(12), work("add", 30), work("mm", 40)]
    flows = [*arrow(5, (2, 1), (40, 7)), *arrow(6, (12, 1), (30, 7))]
    for events, linked in ((timed, 2), ([*timed, launch(14, 1, 3), kernel("k", 50, 5, 3)], 1)):
        listed = [*flows, *events] if flows_first else [*events, *flows]
        trace = read(json.dumps({"traceEvents": listed}).encode(), Meta("t", ""), list[Note]())
        assert int((trace.ints("correlation")[trace.gpu_rows] > 0).sum()) == linked


def test_an_external_id_that_launch_and_kernel_share_ties_them(opened: Opened) -> None:
    """Ids of the calls, as ROCm's older profiler wrote them: ops have numbers of their own, which may be the same."""
    ops = [{**event, "args": {"External id": number}} for event, number in zip(TWO_OPS, (31, 30), strict=True)]
    events = [*ops, call(2, external=30), call(12, external=31)]
    profile = opened([*events, work("mm", 40, external=30), work("add", 50, external=31), work("lost", 60)])
    assert links(profile) == {"mm": (2, "aten::mm"), "add": (12, "aten::add"), "lost": (None, None)}


def test_the_id_of_a_call_outside_any_op_names_no_op(opened: Opened) -> None:
    ops = [{**event, "args": {"External id": number}} for event, number in zip(TWO_OPS, (31, 30), strict=True)]
    profile = opened([*ops, call(25, external=30), work("k", 40, external=30)])
    assert links(profile) == {"k": (25, None)}


def test_calls_and_kernels_that_share_the_id_of_an_op_belong_together_in_their_order(opened: Opened) -> None:
    """What else the op calls has the same id, and no kernel."""
    ops = [{**event, "args": {"External id": number}} for event, number in zip(TWO_OPS, (4, 5), strict=True)]
    calls = [call(1, external=4), call(2, name="cudaStreamIsCapturing", external=4), call(5, external=4)]
    profile = opened([*ops, *calls, work("second", 40, external=4, stream=8), work("first", 30, external=4)])
    assert links(profile) == {"first": (1, "aten::mm"), "second": (5, "aten::mm")}


def test_an_id_with_more_kernels_than_launches_names_the_op_alone(opened: Opened) -> None:
    ops = [{**event, "args": {"External id": number}} for event, number in zip(TWO_OPS, (4, 5), strict=True)]
    profile = opened([*ops, call(2, external=4), work("a", 30, external=4), work("b", 40, external=4)])
    assert links(profile) == {"a": (None, "aten::mm"), "b": (None, "aten::mm")}


def test_external_ids_tie_kernels_to_ops_where_no_call_is_recorded(opened: Opened) -> None:
    """A complete file: nothing says that it is damaged, and every kernel has its op."""
    shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
    ops = [op("aten::mm", 10 * number, 9, **{"External id": number, **shapes}) for number in (1, 2)]
    profile = opened([*ops, work("sgemm_64x64", 40, external=1), work("sgemm_64x64", 50, external=2)])
    assert [(row["op"], row["count"]) for row in profile.table("gemm").to_dicts()] == [("aten::mm", 2)]
    assert not profile.trace.quality.has("unlinked_kernels")
    assert "WL901" not in by_code(profile)


def test_wl901_does_not_call_a_file_damaged_that_ties_no_kernel_to_anything(opened: Opened) -> None:
    profile = opened([*TWO_OPS, call(2), work("mm", 40)])
    assert profile.trace.quality.has("unlinked_kernels")
    assert "WL901" not in by_code(profile)


def test_ids_at_the_end_of_their_range_are_no_trouble(opened: Opened) -> None:
    most = 2**63 - 1
    events = [op("aten::mm", 0, 10, **{"External id": most}), op("aten::add", 10, 10), work("add", 30)]
    assert links(opened([*events, *arrow(5, (10, 1), (30, 7))])) == {"add": (None, "aten::add")}
