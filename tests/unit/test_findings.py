"""What holds for all findings: each code has tests and a page, the largest gain comes first, small ones stay out."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import warplens
from finding_traces import (
    ALL_REDUCE,
    BF16,
    ELEMENTWISE,
    GEMM,
    H200,
    LEGACY_GEMM,
    PLAIN_GEMM,
    SOFTMAX,
    Call,
    back_to_back,
    by_code,
    cast,
    elementwise,
    filler,
    geometry,
    inputs,
    product,
    rule_findings,
    waits,
)
from support import Opened, frame, kernel, launch, op
from warplens.advice import NEEDED_TABLES, RULES, THRESHOLDS
from warplens.advice.figures import TraceFigures
from warplens.advice.rank_rules import JOB_RULES
from warplens.advice.thresholds import JOB_THRESHOLDS
from warplens.model.trace import empty_trace

SHAPE_CODES = {"WL201", "WL202", "WL203", "WL204", "WL205", "WL206", "WL211"}
"""They need the sizes of the inputs."""
GPU_CODES = {"WL201", "WL202", "WL203", "WL209", "WL210", "WL211"}
"""They need to know the GPU."""


@pytest.mark.parametrize("code", RULES.codes)
def test_every_code_has_a_test_that_it_fires_and_one_that_it_is_silent(code: str) -> None:
    texts = [path.read_text() for path in sorted(Path(__file__).parent.glob("test_findings_*.py"))]
    names = re.findall(r"^def (test_\w+)\(", "\n".join(texts), re.MULTILINE)
    for behaviour in ("fires", "is_silent"):
        assert any(name.startswith(f"test_{code.lower()}_{behaviour}_") for name in names), (code, behaviour)


def test_every_threshold_has_a_reason_and_decides_something() -> None:
    folder = Path(warplens.__file__).parent / "advice"
    code = "\n".join(path.read_text() for path in sorted(folder.glob("*.py")))
    assert [name for name in THRESHOLDS.values() if f"THRESHOLDS.{name}" not in code] == []
    assert all(THRESHOLDS.reasons().values())
    assert [name for name in JOB_THRESHOLDS.values() if f"JOB_THRESHOLDS.{name}" not in code] == []
    assert all(JOB_THRESHOLDS.reasons().values())


def test_every_code_of_a_rule_has_an_explanation_and_the_other_way_round() -> None:
    folder = Path(warplens.__file__).parent / "advice"
    rules = "\n".join(path.read_text() for path in sorted(folder.glob("*_rules.py")))
    assert set(re.findall(r'"(WL\d{3})"', rules)) == {*RULES.codes, *JOB_RULES.codes}


def test_a_rule_finds_what_its_code_stands_for(opened: Opened) -> None:
    profile = opened(everything(), H200)
    figures = TraceFigures({name: profile.table(name) for name in NEEDED_TABLES})
    fired = {rule.code: {finding.code for finding in rule.check(figures)} for rule in RULES}
    assert {code for code, codes in fired.items() if codes} == SHAPE_CODES | GPU_CODES
    assert all(codes <= {code} for code, codes in fired.items())


def everything() -> list[dict[str, Any]]:
    """Work with which every rule on shapes and launches finds fault."""
    many, scores = [1 << 26], [64, 1024, 1024]
    calls = [
        product(1000, 4096, 50257, 768),
        product(3000, 4096, 4096, 4096, kernel=PLAIN_GEMM, dtype="float"),
        product(500, 4096, 4096, 4096, kernel=LEGACY_GEMM),
        Call("aten::bmm", GEMM, 200, inputs([64, 1024, 64], [64, 64, 1024])),
        Call("aten::_softmax", SOFTMAX, 200, inputs(scores, [], [])),
        Call("aten::bmm", GEMM, 200, inputs(scores, [64, 1024, 64])),
        *(elementwise("tanh", 150, [1 << 25]) for _ in range(3)),
        filler(10),
        cast(200, 1 << 24, BF16, "float"),
        filler(10),
        cast(200, 1 << 24, "float", BF16),
        Call("aten::sum", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)", 900, inputs(many)),
        Call("mine::tail", GEMM, 500, kernel_args=geometry(133)),
        Call("mine::few", GEMM, 500, kernel_args=geometry(16)),
    ]  # fmt: skip
    return back_to_back(*calls)


def test_findings_come_with_the_largest_gain_first_and_their_evidence_in_the_same_order(opened: Opened) -> None:
    profile = opened(everything(), H200)
    found = profile.findings()
    assert {finding.code for finding in found} == SHAPE_CODES | GPU_CODES
    gains = [finding.gain_ms if finding.expected_ms is None else finding.expected_ms for finding in found]
    assert gains == sorted(gains, reverse=True)
    table = profile.table("findings")
    assert [(row["code"], row["gain_ms"]) for row in table.to_dicts()] == [
        (finding.code, round(finding.gain_ms, 6)) for finding in found
    ]
    rows = profile.table("evidence").to_dicts()
    assert [(row["finding"], row["code"], row["what"]) for row in rows] == [
        (number, finding.code, row.what) for number, finding in enumerate(found, start=1) for row in finding.rows
    ]


def test_no_finding_wins_more_than_the_time_of_its_own_rows(opened: Opened) -> None:
    total_ms = sum(call["dur"] for call in everything() if call["cat"] == "kernel") / 1e3
    for finding in rule_findings(opened(everything(), H200)):
        assert finding.rows
        assert 0 < finding.gain_ms <= sum(row.time_ms for row in finding.rows) + 1e-9, finding
        assert finding.gain_percent == pytest.approx(100 * finding.gain_ms / total_ms)
        assert all(row.gain_ms <= row.time_ms + 1e-9 for row in finding.rows)


def test_without_shapes_the_rules_that_need_them_are_silent_and_the_quality_says_so(opened: Opened) -> None:
    bare = [
        {**event, "args": {key: value for key, value in event["args"].items() if not key.startswith(("Input", "Conc"))}}
        for event in everything()
    ]
    profile = opened(bare, H200)
    assert set(by_code(profile)) == {"WL209", "WL210"}
    assert "no_shapes" in profile.table("quality").frame["code"].to_list()


def test_without_a_known_gpu_no_rule_speaks_of_its_limits_and_the_quality_says_so(opened: Opened) -> None:
    profile = opened(everything())
    assert set(by_code(profile)) == SHAPE_CODES - GPU_CODES
    assert "unknown_gpu" in profile.table("quality").frame["code"].to_list()
    assert "WL201" in by_code(opened(everything(), gpu="H200"))


def test_without_gpu_work_there_is_nothing_to_find(opened: Opened) -> None:
    assert warplens.Profile(empty_trace()).findings() == []
    assert opened([op("aten::mm", 0, 5), frame("train.py(4): step", 0, 9)]).findings() == []
    assert opened([kernel(GEMM, 0, 0)]).findings() == []


def test_findings_below_one_percent_are_left_out_unless_asked_for(opened: Opened) -> None:
    """Twelve µs lost of 1,400 are 0.86 %, of 1,200 they are 1 %."""
    lost = Call("mine::few", GEMM, 24, kernel_args=geometry(66))
    assert "WL210" not in by_code(opened(back_to_back(lost, filler(1376)), H200))
    assert "WL210" in by_code(opened(back_to_back(lost, filler(1176)), H200))
    assert by_code(opened(back_to_back(lost, filler(1376)), H200, min_gain_percent=0))["WL210"].gain_ms == 0.012
    assert "WL210" not in by_code(opened(back_to_back(lost, filler(1176)), H200, min_gain_percent=1.1))


def test_every_gain_is_a_number(opened: Opened) -> None:
    for finding in [*opened(everything(), H200).findings(), *opened(waits([0.1, 5000])).findings()]:
        assert math.isfinite(finding.gain_ms)
        assert 0 <= finding.gain_percent <= 100


def on_stream(stream: int, event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "tid": stream, "args": {**event["args"], "stream": stream}}


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([kernel(GEMM, 0, 30), kernel(GEMM, 90, 10)], "Cannot tell what limits it: no GPU works in 60.0 of 100.0 µs of the run (measured). No launches are recorded, so what recording cost cannot be told."),
        ([kernel(GEMM, 0, 0)], "Cannot tell: every GPU event of this trace lasts 0 ns."),
        ([op("aten::mm", 0, 5)], "CPU only: this trace has no GPU work (measured)."),
        ([op("aten::mm", 0, 5), launch(1, 1, 7)], "Cannot tell: this trace has only the host side of a program that uses a GPU."),
        ([op("aten::mm", 0, 5), {**op("fc", 6, 2), "cat": "mtia_ccp_events"}], "No GPU work (measured): this is of another accelerator; only its host side is reported."),
        ([kernel(GEMM, 0, 60), kernel(ALL_REDUCE, 60, 40)], "Communication-bound. GEMM takes 60.0 of 100.0 µs of the run (measured) and exposed communication 40.0 µs."),
        ([kernel("mine", 0, 90), kernel(ELEMENTWISE, 100, 10)], "GPU-bound. Kernels of no known category take 90.0 of 110.0 µs of the run (measured)."),
        ([kernel(GEMM, 0, 60), kernel(ELEMENTWISE, 60, 40), on_stream(20, kernel(ALL_REDUCE, 0, 95))], "GPU-bound. GEMM takes 60.0 of 100.0 µs of the run (measured)."),
        ([kernel(GEMM, 0, 90), kernel(ELEMENTWISE, 100, 10)], "GPU-bound. GEMM takes 90.0 of 110.0 µs of the run (measured)."),
    ],
    ids=["idle", "no durations", "no gpu", "not recorded", "accelerator", "communication", "unknown", "hidden", "gpu"],
)  # fmt: skip
def test_without_launches_the_verdict_goes_by_the_busy_time(
    opened: Opened, events: list[dict[str, Any]], sentence: str
) -> None:
    assert opened(events).verdict() == sentence
