"""Findings on work that a program need not ask for: whole gradients of tables, cells in loops, equal passes."""

from __future__ import annotations

from typing import Any

import pytest

from finding_traces import (
    ELEMENTWISE,
    GEMM,
    H200,
    LINE,
    PLACE,
    SOFTMAX,
    Call,
    back_to_back,
    by_code,
    elementwise,
    filler,
    inputs,
    product,
)
from support import Opened, annotation, frame, kernel, launch, op
from warplens.model.edits import ReplaceWork, ScaleWork

ROWS, WIDTH, INDICES = 200_000, 64, 8_192


def table_gradient(indices: int = INDICES) -> Call:
    given = inputs([indices, WIDTH], [indices], [], types=["float", "long int", "Scalar"])
    given["Concrete Inputs"] = ["", "", str(ROWS)]
    return Call("aten::embedding_dense_backward", ELEMENTWISE, 90, given)


def foreach(name: str, dur: float, *shapes: list[int]) -> Call:
    given = {"Input Dims": [list(shapes), []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "0.9"]}
    return Call(f"aten::_foreach_{name}", ELEMENTWISE, dur, given)


def test_wl214_fires_for_a_table_of_which_few_rows_are_touched(opened: Opened) -> None:
    """Three quarters of what the optimizer goes over is the table; of that and of the filling, 4 % is needed."""
    other = [ROWS // 3, WIDTH]
    calls = [elementwise("fill_", 20, [ROWS, WIDTH], []), table_gradient(), foreach("mul_", 400, [ROWS, WIDTH], other)]
    finding = by_code(opened(back_to_back(*calls, filler(500)), H200))["WL214"]
    untouched = 1 - INDICES / ROWS
    share = ROWS / (ROWS + ROWS // 3)
    assert finding.gain_ms == pytest.approx((20 + 400 * share) * untouched / 1e3)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert "touches at most 4.1 % of their rows" in finding.title and "of 200,000 rows" in finding.evidence
    assert all(isinstance(edit, ScaleWork) for edit in finding.edits)


def test_wl214_is_silent_where_many_rows_are_touched_and_for_tied_weights(opened: Opened) -> None:
    update = foreach("mul_", 400, [ROWS, WIDTH])
    many = [table_gradient(ROWS // 3), update]
    tied = [product(100, ROWS, WIDTH, 4096, dtype="float"), table_gradient(), update]
    for calls in (many, tied):
        assert "WL214" not in by_code(opened(back_to_back(*calls), H200))


def cells(number: int, *between: Call) -> list[Call]:
    return [call for _ in range(number) for call in (Call("aten::lstm_cell", GEMM, 5), *between)]


def test_wl215_fires_for_cells_called_one_after_the_other(opened: Opened) -> None:
    profile = opened(back_to_back(*cells(8, elementwise("copy_", 1, [64], [64])), filler(20)), H200)
    finding = by_code(profile)["WL215"]
    assert finding.title == "8 calls of aten::lstm_cell, one after the other"
    assert finding.gain_ms == pytest.approx(0.15 * 8 * 5 / 1e3)
    assert (finding.bound, finding.place) == (False, PLACE)
    (edit,) = finding.edits
    assert isinstance(edit, ReplaceWork) and edit.factor == pytest.approx(0.85)
    (row,) = profile.table("repeated_calls").to_dicts()
    assert (row["kind"], row["calls"], row["count"], row["total_us"]) == ("cell", 8, 8, 40)


def test_wl215_wins_the_launches_of_a_loop(opened: Opened) -> None:
    """Twelve cells, launched every 20 µs, become four launches a step."""
    events = []
    for step in range(4):
        begin = 240 * step
        events.append(annotation(f"ProfilerStep#{step}", begin, 240))
        for place in range(12):
            at, number = begin + 20 * place, 12 * step + place + 1
            events += [op("aten::gru_cell", at, 19), launch(at + 8, 2, number), kernel(GEMM, at + 14, 3, number)]
    profile = opened(events, H200)
    (finding,) = (finding for finding in profile.findings() if finding.code == "WL215")
    assert profile.step_model is not None
    assert finding.gain_ms == pytest.approx(8 / 12 * profile.step_model.step_ms, rel=0.15)


def test_wl215_is_silent_for_few_cells_and_where_a_choice_is_fed_back(opened: Opened) -> None:
    assert "WL215" not in by_code(opened(back_to_back(*cells(7), filler(20)), H200))
    choice = Call("aten::_softmax", SOFTMAX, 3, inputs([64, 64], [], []))
    assert "WL215" not in by_code(opened(back_to_back(*cells(8, choice)), H200))


def passes(*calls_of_each: list[Call], joined: bool = True, between: bool = False, name: str = "Net_0") -> list[Any]:
    """One call of a module after the other, then an op on two tensors of one shape, or of different ones."""
    calls: list[Call] = []
    spans = []
    for own in calls_of_each:
        spans.append(frame(f"nn.Module: {name}", 10 * len(calls) + 0.25, 10 * len(own) - 0.5))
        calls += own
        calls += [filler(3)] if between else []
    calls.append(elementwise("sub", 5, [64, 8], [64, 8] if joined else [8]))
    return [*back_to_back(*calls, line=LINE), *spans]


LAYERS = [product(50, 512, 512, 64), elementwise("mul", 20, [512, 512], [])]


def test_wl216_fires_for_equal_passes_whose_results_meet(opened: Opened) -> None:
    profile = opened(passes(LAYERS, LAYERS), H200)
    (row,) = profile.table("repeated_calls").to_dicts()
    assert (row["kind"], row["what"], row["calls"], row["count"], row["total_us"]) == ("pass", "Net_0", 1, 2, 70)
    shares = {each["op"]: each["percent_of_roofline"] / 100 for each in profile.table("roofline").to_dicts()}
    assert row["kept_us"] == pytest.approx(50 * shares["aten::mm"] + 20 * shares["aten::mul"])
    finding = by_code(profile)["WL216"]
    assert finding.title == "Net_0 runs more than once on inputs of equal shapes: one batch would do"
    assert finding.gain_ms == pytest.approx((70 - row["kept_us"]) / 1e3) and finding.bound
    (edit,) = finding.edits
    assert isinstance(edit, ReplaceWork) and edit.launches == 1


def test_wl216_is_silent_for_passes_that_may_need_each_other(opened: Opened) -> None:
    """Other kernels, work between them, results that do not meet, or too many to be a batch."""
    cases = {
        "other kernels": passes(LAYERS, [*LAYERS, product(50, 512, 512, 64)]),
        "work between": passes(LAYERS, LAYERS, between=True),
        "apart afterwards": passes(LAYERS, LAYERS, joined=False),
        "a sequence": passes(*[LAYERS] * 5),
        "one": passes(LAYERS),
    }
    for case, events in cases.items():
        assert "WL216" not in by_code(opened(events, H200)), case
