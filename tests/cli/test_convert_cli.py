"""`convert` as a user runs it: every form, the same content, and what it refuses."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import ROOT, SAMPLES, RunInside
from viewer_rules import chrome_trace
from warplens.cli import main
from warplens.outputs.conversions import CONVERSIONS, PATHS

TRACE = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
GUIDE = ROOT / "docs" / "guides" / "convert.md"
FORMS = ("x.perfetto.json.gz", "x.perfetto.json", "x.speedscope.json", "x.parquet")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    words = [word for name in FORMS for word in ("-o", f"{folder}/{name}")]
    assert main(["convert", str(TRACE), "--no-cache", *words]) == 0
    return folder


def test_every_form_is_written_and_reported(run_inside: RunInside, tmp_path: Path) -> None:
    outputs = [str(tmp_path / name) for name in FORMS]
    finished = run_inside("convert", SAMPLES[1], *(word for path in outputs for word in ("-o", path)))
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", f"wrote {', '.join(outputs)}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMS)


def test_a_packed_chrome_trace_has_the_content_of_the_plain_one(converted: Path) -> None:
    plain = (converted / "x.perfetto.json").read_bytes()
    assert gzip.decompress((converted / "x.perfetto.json.gz").read_bytes()) == plain


def test_the_events_of_speedscope_open_and_close_in_turn(converted: Path) -> None:
    document = json.loads((converted / "x.speedscope.json").read_bytes())
    frames, total = document["shared"]["frames"], Counter[str]()
    for profile in document["profiles"]:
        running: list[dict[str, Any]] = []
        last = profile["startValue"]
        for event in profile["events"]:
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                running.append(event)
            else:
                assert running[-1]["frame"] == event["frame"]
                total[frames[event["frame"]]["name"]] += event["at"] - running.pop()["at"]
        assert not running
    events = pl.read_parquet(converted / "x.parquet")
    kernels = events.filter(pl.col("kind") == "kernel").group_by("name").agg(pl.col("dur_ns").sum())
    assert {name: total[name] for name in kernels["name"]} == dict(kernels.iter_rows())
    assert "GPU 0 (NVIDIA H200) · stream 7" in [profile["name"] for profile in document["profiles"]]


def test_parquet_has_one_row_per_event_with_names_written_out(converted: Path) -> None:
    events, profile = pl.read_parquet(converted / "x.parquet"), warplens.open(TRACE, cache=False).with_timeline()
    assert events.height == len(profile.trace)
    gpu = events.filter(pl.col("category").is_not_null())
    by_category = gpu.group_by("category").agg(pl.col("dur_ns").sum() / 1000)
    table = profile.table("kernel_categories").frame.select("kernel_category", "total_us")
    assert dict(by_category.iter_rows()) == pytest.approx(dict(table.iter_rows()))
    assert set(gpu["lane_title"]) == {"GPU 0 · stream 7"}
    assert {"aten::addmm", "aten::native_layer_norm"} <= set(gpu["op_name"])


def test_call_paths_are_written_by_every_verb_that_has_them(run_inside: RunInside, tmp_path: Path) -> None:
    total = warplens.open(TRACE, cache=False).tree().total_ns[0]
    for verb, options in (("convert", ()), ("report", ("-q",)), ("tree", ("--context", "module"))):
        path = tmp_path / f"{verb}.hatchet"
        finished = run_inside(verb, TRACE, *options, "-o", path)
        assert (finished.returncode, finished.stdout) == (0, ""), finished.stderr
        assert warplens.open(path, cache=False).tree().total_ns[0] == total
    again = tmp_path / "again.hatchet"
    assert run_inside("convert", tmp_path / "tree.hatchet", "-o", again).returncode == 0
    assert json.loads(again.read_bytes()) == json.loads((tmp_path / "tree.hatchet").read_bytes())
    kept = run_inside("tree", TRACE, "-i", "aten::addmm", "-o", tmp_path / "part.hatchet")
    assert kept.returncode == 0
    part = warplens.open(tmp_path / "part.hatchet", cache=False).tree()
    assert 0 < part.total_ns[0] < total
    assert any(name.startswith("nvjet_sm90") or "gemm" in name for name in part.name)  # names as recorded


REFUSED = {
    "the ranks of a job as call paths": (
        2,
        ["convert", "{ranks}", "-o", "{folder}/x.hatchet"],
        "--rank N converts one",
    ),
    "a job's report as call paths": (
        2,
        ["report", "{ranks}", "-q", "-o", "{folder}/x.hatchet"],
        "choose one rank: --rank",
    ),
    "a difference as call paths": (
        2,
        ["tree", "{trace}", "--diff", "{trace}", "-o", "{folder}/x.hatchet"],
        "not the difference of two",
    ),
    "a comparison as call paths": (
        2,
        ["diff", "{trace}", "{trace}", "-o", "{folder}/x.hatchet"],
        "there are none here",
    ),
    # name: status, words, a part of the answer
    "no output": (2, ["convert", "{trace}"], "no output is given"),
    "an unknown form": (2, ["convert", "{trace}", "-o", "x.json"], "end it in .perfetto.json.gz or"),
    "what exists already": (2, ["convert", "{trace}", "-o", "{there}"], "already exists"),
    "a profile without a timeline": (1, ["convert", "{paths}", "-o", "{folder}/x.parquet"], "without a timeline"),
    "no such file": (1, ["convert", "{folder}/none.json", "-o", "{folder}/x.parquet"], "none.json"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_one_line(name: str, run_inside: RunInside, tmp_path: Path) -> None:
    status, words, answer = REFUSED[name]
    there = tmp_path / "there.perfetto.json"
    there.write_text("{}")
    paths = ROOT / "samples" / "proton" / "scopes.hatchet.gz"
    ranks = ROOT / "samples" / "ranks" / "nccl4"
    names = {"trace": TRACE, "there": there, "paths": paths, "folder": tmp_path, "ranks": ranks}
    finished = run_inside(*(word.format_map(names) for word in words))
    assert finished.returncode == status
    assert answer in finished.stderr
    assert [path.name for path in tmp_path.iterdir()] == [there.name]


def test_force_overwrites_and_corrected_times_are_written_where_asked_for(
    run_inside: RunInside, tmp_path: Path
) -> None:
    path = tmp_path / "x.perfetto.json"
    path.write_text("{}")
    assert run_inside("convert", TRACE, "-o", path, "--force", "--timeline", "corrected").returncode == 0
    (step,) = [event for event in chrome_trace(path)["traceEvents"] if event.get("cat") == "warplens.step"]
    corrected = warplens.open(TRACE, cache=False).with_timeline().corrected().trace.steps
    assert round(step["dur"] * 1000) == corrected["end_ns"][0] - corrected["start_ns"][0]


def test_the_guide_names_every_form_and_every_kind_of_track() -> None:
    text = GUIDE.read_text()
    assert all(f"t{suffix}" in text for suffix in (*CONVERSIONS, PATHS))
    assert all(word in text for word in ("`steps`", "`critical path`", "`idle time of GPU 0`", "kernel categories"))
