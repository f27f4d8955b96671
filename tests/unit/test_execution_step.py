"""Arguments carried over from a step that was recorded beside the measured ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from support import Opened, op
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.execution_trace.join import joined_share
from warplens.readers.execution_trace.step import carry_over


def call(name: str, ts: float, dims: str, value: str = "") -> dict[str, Any]:
    return op(name, ts, 5, **{"Input Dims": [dims], "Input type": ["float"], "Concrete Inputs": [value]})


def joined(trace: Trace) -> Trace:
    """As `join` leaves it, each op's schema being its name and place."""
    rows = trace.events.sort("start_ns").with_row_index("place")
    names = pl.Series(trace.names).gather(rows["name"])
    data = {name: [""] * rows.height for name in SIDE_FRAMES["arguments"]}
    data |= {"id": rows["id"].to_list(), "node": rows["place"].to_list(), "schema": names.to_list()}
    return replace(trace, arguments=pl.DataFrame(data, schema=SIDE_FRAMES["arguments"]))


def carried(opened: Opened, measured: list[dict[str, Any]], beside: list[dict[str, Any]]) -> Trace:
    return carry_over(opened(measured).trace, joined(opened(beside).trace))


def test_calls_get_the_arguments_of_their_twins_step_after_step(opened: Opened) -> None:
    step = [call("aten::mm", 0, "[2, 2]"), call("aten::mm", 10, "[2, 2]"), call("aten::mm", 20, "[4, 4]")]
    twice = [*step, *({**each, "ts": each["ts"] + 100} for each in step)]
    found = carried(opened, twice, step)
    assert found.arguments["node"].to_list() == [0, 1, 2, 0, 1, 2]
    assert joined_share(found) == 1.0
    assert [note.detail for note in found.quality.notes if note.code == "execution_step"] == ["100.0 %"]


def test_equal_values_come_before_equal_shapes(opened: Opened) -> None:
    beside = [call("aten::mul", 0, "[2]", "0.5"), call("aten::mul", 10, "[2]", "0.25")]
    measured = [call("aten::mul", 0, "[2]", "0.25"), call("aten::mul", 10, "[2]", "0.125")]
    assert carried(opened, measured, beside).arguments["node"].to_list() == [1, 0]


def test_what_the_other_step_did_not_call_stays_without(opened: Opened) -> None:
    found = carried(
        opened, [call("aten::mm", 0, "[2, 2]"), call("aten::mm", 10, "[3, 3]")], [call("aten::mm", 0, "[3, 3]")]
    )
    assert found.arguments["id"].to_list() == [1]
    assert joined_share(found) == 0.5
