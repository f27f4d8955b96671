"""What findings point at, on real traces: the row that the evidence names, the gap, the step; whatever the words are."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import warplens
from support import ROOT
from warplens.advice.rules import WITHOUT_GAIN
from warplens.analyses.work.places import place_text
from warplens.model.finding import Evidence, Finding
from warplens.model.targets import RangeTarget, RowsTarget, RowTarget, StepTarget, Target
from warplens.outputs.html.page import packed_document
from warplens_run.base.units import format_ms

Row = dict[str, Any]
TRACES = [
    *sorted((ROOT / "samples" / "kineto").glob("*.json.gz")),
    *sorted((ROOT / "samples" / "faults").glob("*.before.json.gz")),
    ROOT / "samples" / "ncu" / "ops_trace.json.gz",
]
NAMED: dict[str, Callable[[Evidence, Row], bool]] = {
    # table: whether its row is what the evidence names
    "roofline": lambda evidence, row: (
        evidence.what in (f"{row['op']} {row['params']}", row["kernel_short"]) and evidence.count == row["count"]
    ),
    "kernels": lambda evidence, row: (
        (evidence.what, evidence.detail, evidence.count) == (row["kernel_short"], row["op"], row["count"])
    ),
    "short_kernels": lambda evidence, row: (
        (evidence.what, evidence.detail, evidence.count) == (row["kernel_short"], row["op"], row["count"])
    ),
    "chains": lambda evidence, row: (
        (evidence.what, evidence.count) == (row["ops"], row["count"]) and f"{row['elements']:,}" in evidence.detail
    ),
    "launches": lambda evidence, row: (
        (evidence.what, evidence.count) == (row["kernel_short"], row["count"])
        and evidence.detail.startswith(f"{row['blocks']} blocks")
    ),
    "phases": lambda evidence, row: row["ops"] in (evidence.what, evidence.detail) and evidence.count == row["count"],
    "steps": lambda evidence, row: evidence.what == row["name"],
    "quality": lambda evidence, row: evidence.what == row["message"],
}


@cache
def opened(path: Path) -> warplens.Profile:
    profile = warplens.open(path, min_gain_percent=0)
    assert isinstance(profile, warplens.Profile)
    return profile


def findings() -> Iterator[tuple[warplens.Profile, Finding]]:
    for path in TRACES:
        yield from ((opened(path), finding) for finding in opened(path).findings())


def targets_of_evidence() -> Iterator[tuple[warplens.Profile, Evidence, Target]]:
    for profile, finding in findings():
        yield from ((profile, row, target) for row in finding.rows for target in row.targets)


def test_every_finding_and_every_row_of_evidence_points_at_something() -> None:
    for _, finding in findings():
        assert finding.targets, finding
        assert all(row.targets for row in finding.rows), finding


def test_a_row_target_is_the_row_that_the_evidence_names() -> None:
    seen = set()
    for profile, evidence, target in targets_of_evidence():
        if isinstance(target, RowTarget):
            row = profile.table(target.table).to_dicts()[target.row]
            assert NAMED[target.table](evidence, row), (evidence, row)
            seen.add(target.table)
    assert seen == {*NAMED} - {"quality"}


def test_a_range_target_is_the_longest_of_the_gaps_that_the_evidence_names() -> None:
    ranges = 0
    for profile, evidence, target in targets_of_evidence():
        if isinstance(target, RangeTarget):
            length_us = (target.end_ns - target.start_ns) / 1e3
            if not evidence.what.startswith("gap "):  # host code, of which the GPU may see nothing
                assert evidence.detail == f"up to {format_ms(length_us / 1e3)} without a launch, as recorded"
                continue
            gaps = [row for row in profile.table("gaps").to_dicts() if round(row["start_ms"] * 1e6) == target.start_ns]
            gap = next(row for row in gaps if row["gap_us"] == pytest.approx(length_us))
            assert evidence.what.removesuffix(", as recorded") == f"gap of up to {length_us / 1e3:.2f} ms"
            assert evidence.detail == f"{gap['cause']}: {place_text(gap['host_activity'])}, before {gap['after']}"
            assert evidence.targets[1] == RowsTarget("gaps", "cause", gap["cause"])
            ranges += 1
    assert ranges > 20


def test_a_finding_on_gaps_points_at_the_longest_of_them_all() -> None:
    for _, finding in findings():
        ranges = [row.targets[0] for row in finding.rows if isinstance(row.targets[0], RangeTarget)]
        if ranges and len(finding.rows) < 5:
            assert finding.targets[0] == max(ranges, key=lambda gap: (gap.end_ns - gap.start_ns, -gap.start_ns))


def test_the_rows_and_steps_that_are_pointed_at_exist() -> None:
    steps = 0
    for profile, finding in findings():
        for target in (*finding.targets, *(target for row in finding.rows for target in row.targets)):
            if isinstance(target, RowsTarget):
                assert target.value in profile.table(target.table).frame[target.column].to_list()
            if isinstance(target, StepTarget):
                assert target.step in profile.table("steps").frame["step"].to_list()
                steps += 1
    assert steps


def test_a_finding_without_rows_of_its_own_points_at_what_its_place_names() -> None:
    profile = opened(ROOT / "samples" / "kineto" / "cudagraph_infer.json.gz")
    (finding,) = [finding for finding in profile.findings() if finding.code == "WL102"]
    (target,) = finding.targets
    assert isinstance(target, RowTarget) and target.table == "launch_categories"
    row = profile.table("launch_categories").to_dicts()[target.row]
    assert row["is_graph"] and row["op"] in finding.place and row["kernel_category"] in finding.title


def test_faults_of_a_trace_point_at_their_quality_notes(tmp_path: Path) -> None:
    whole = (ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz").read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(whole)[:-2000])
    profile = warplens.open(path, cache=False)
    finding = next(finding for finding in profile.findings() if finding.code == "WL901")
    assert finding.code in WITHOUT_GAIN
    for evidence in finding.rows:
        (target,) = evidence.targets
        assert isinstance(target, RowTarget) and target.table == "quality"
        assert NAMED["quality"](evidence, profile.table("quality").to_dicts()[target.row])


def reworded(finding: Finding) -> Finding:
    rows = tuple(replace(row, what=f"{at}", detail="other words") for at, row in enumerate(finding.rows))
    return replace(finding, title="another title", evidence="other words", advice="other words", rows=rows)


def header_of(profile: warplens.Profile) -> dict[str, Any]:
    whole = gzip.decompress(base64.b64decode(packed_document(profile.document())))
    header: dict[str, Any] = msgspec.json.decode(whole[8 : 8 + int(whole[:8])])
    return header


@pytest.mark.parametrize("name", ["odd_vocab", "item_sync", "straggler_step", "nchw_conv"])
def test_the_page_gets_the_same_targets_whatever_the_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = warplens.open(ROOT / "samples" / "faults" / f"{name}.before.json.gz")
    assert isinstance(profile, warplens.Profile)
    found = profile.findings()
    expected = {
        "findingTargets": msgspec.to_builtins([list(finding.targets) for finding in found]),
        "targets": msgspec.to_builtins([list(row.targets) for finding in found for row in finding.rows]),
    }
    other = warplens.open(ROOT / "samples" / "faults" / f"{name}.before.json.gz")
    assert isinstance(other, warplens.Profile)
    monkeypatch.setattr(other, "findings", lambda: [reworded(finding) for finding in found])
    assert "another title" in other.table("findings").frame["title"].to_list()
    for header in (header_of(profile), header_of(other)):
        assert {key: header[key] for key in expected} == expected
        tables = {table["name"]: table["rows"] for table in header["tables"]}
        assert (len(header["findingTargets"]), len(header["targets"])) == (tables["findings"], tables["evidence"])
