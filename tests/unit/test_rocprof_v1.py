"""JSON of rocprof before version 3: its own times, numbers and flows, and files that are not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import warplens
from rocprof_v1_files import EVENTS, content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content(EVENTS)))
    return path


def test_work_has_its_nanoseconds_its_device_and_the_call_that_started_it(path: Path) -> None:
    profile = warplens.open(path, cache=False)
    trace = profile.trace
    assert trace.meta.format == "rocprof"
    work = [(trace.names[event["name"]], event["dur_ns"], event["device"], event["stream"],
             trace.names[trace.ints("name")[event["launch"]]])
            for event in trace.events.to_dicts() if event["device"] >= 0]  # fmt: skip
    assert work == [
        ("Memcpy Host -> Device", 21_001, 2, 0, "hipMemcpy"),
        ("vector_add(float*, float*, int)", 29_623, 2, 1, "hipLaunchKernel"),
    ]
    measures = {row["measure"]: row["time_ms"] for row in profile.table("timeline").to_dicts() if row["device"] == "2"}
    assert (measures["busy"], measures["memcpy"]) == (pytest.approx(0.050624), pytest.approx(0.021001))
    assert profile.table("kernels").to_dicts()[1]["kernel_short"] == "memcpy HtoD"


def test_hsa_calls_and_barriers_are_ignored_and_ranges_are_annotations(path: Path) -> None:
    events = warplens.open(path, cache=False).trace.named_events()
    host = events.filter(events["device"] < 0)
    assert dict(host.select("name", "kind").iter_rows()) == {
        "forward": "annotation", "hipMemcpy": "runtime", "hipLaunchKernel": "runtime",
    }  # fmt: skip
    callers = {events["name"][parent] for parent in host["parent"].to_list() if parent >= 0}
    assert callers == {"forward"}


def test_processes_whose_numbers_are_texts_are_the_same(path: Path) -> None:
    numbers = warplens.open(path, cache=False)
    events = [{**event, "pid": str(event["pid"]), "tid": str(event["tid"])} for event in EVENTS]
    path.write_text(json.dumps(content(events)))
    texts = warplens.open(path, cache=False)
    for table in ("timeline", "kernels", "gaps"):
        assert numbers.table(table).to_dicts() == texts.table(table).to_dicts()


def test_a_cut_file_is_read_as_far_as_it_goes(path: Path) -> None:
    whole = path.read_text()
    path.write_text(whole[: whole.index('"Name": "vector_add')])
    trace = warplens.open(path, cache=False).trace
    assert trace.quality.has("truncated")
    assert trace.meta.format == "chrome"
