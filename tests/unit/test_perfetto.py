"""Chrome traces for Perfetto: viewers show all of them, Warplens opens them again, and what was found is on tracks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nsys_files
import rocpd_files
import rocprofv3_files
import warplens
from support import (
    ROOT,
    SAMPLES,
    Opened,
    annotation,
    frame,
    fwdbwd,
    kernel,
    launch,
    memcpy,
    memory,
    nightly_after,
    op,
    sync,
    write_trace,
)
from viewer_rules import Imported, chrome_trace, imported, ns_of
from warplens.model.kinds import OWN_CATEGORIES
from warplens.model.rank_timeline import RankFlow
from warplens.outputs.json_texts import microseconds
from warplens.outputs.nested_tracks import nests, track_levels
from warplens.outputs.perfetto import write_perfetto
from warplens.profiles.timelines import rank_timeline

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
EVENTS = [
    annotation("ProfilerStep#4", 0, 900),
    frame("nn.Module: Linear_0", 5, 300),
    op("aten::linear", 10, 100, **{"External id": 3, "Sequence number": 8, "Input Dims": [[4, 8], []]}),
    launch(20, 10, 1),
    kernel(GEMM, 100, 400, 1, grid=[8, 1, 1], block=[128, 1, 1], **{"registers per thread": 90, "shared memory": 64}),
    launch(40, 10, 2),
    kernel("relu_elementwise_kernel", 450, 100, 2),
    launch(60, 10, 3),
    memcpy(600, 50, 3, bytes=4096, stream=9),
    op("AddBackward0", 500, 50, tid=2, **{"Sequence number": 8, "Fwd thread id": 1}),
    *fwdbwd((10, 1), (500, 2), 1),
    memory(12, 512, 2048, 4096),
]


def sample(name: str) -> Callable[[Path], warplens.Profile]:
    return lambda folder: warplens.open(ROOT / "samples" / name, cache=False).with_timeline()


def nsys(folder: Path) -> warplens.Profile:
    return nsys_files.opened(nsys_files.training_step().write(folder / "x.sqlite"))


def rocpd(folder: Path) -> warplens.Profile:
    return nsys_files.opened(rocpd_files.training_step().write(folder / "x.db"))


def rocprofv3(folder: Path) -> warplens.Profile:
    path = folder / "x_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [rocprofv3_files.training_step()]}))
    return warplens.open(path, cache=False).with_timeline()


KINDS: dict[str, Callable[[Path], warplens.Profile]] = {
    **{path.name: sample(f"kineto/{path.name}") for path in SAMPLES},
    "xplane": sample("jax/transformer_step.xplane.pb.gz"),
    "proton": sample("proton/trace.chrome_trace.gz"),
    "regions inside kernels": sample("proton/intra.chrome_trace.gz"),
    "nsys": nsys,
    "rocpd": rocpd,
    "rocprofv3": rocprofv3,
}


HEAVY = (
    "bloom_prefill.json.gz",
    "gpt2_train_compiled.json.gz",
    "gpt2_train_step.json.gz",
    "resnet50_train.json.gz",
    "proton",
)
"""The other kinds have all that these have."""


def written(profile: warplens.Profile, folder: Path, name: str = "x.perfetto.json.gz") -> Path:
    path = folder / name
    write_perfetto(path, [rank_timeline(profile)])
    return path


def events_of(profile: warplens.Profile, folder: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = chrome_trace(written(profile, folder))["traceEvents"]
    return events


def titles(events: list[dict[str, Any]], label: str = "thread_name") -> dict[tuple[int, int], str]:
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == label}


def launched(trace: warplens.Trace) -> int:
    return int((trace.ints("launch")[trace.gpu_rows] >= 0).sum())


@pytest.mark.parametrize("kind", nightly_after(8, sorted(KINDS, key=HEAVY.__contains__)))
def test_viewers_show_every_event_and_warplens_opens_the_file_again(kind: str, tmp_path: Path) -> None:
    profile = KINDS[kind](tmp_path)
    path = written(profile, tmp_path)
    events = chrome_trace(path)["traceEvents"]
    assert all({"ph", "pid", "tid", "ts", "name"} <= event.keys() for event in events)
    assert all(event["ts"] >= 0 and event.get("dur", 0) >= 0 for event in events)
    assert all(0 <= event[key] < 2**31 for event in events for key in ("pid", "tid"))
    shown = imported(events)
    assert not shown.dropped
    assert not shown.unbound
    again = warplens.open(path, cache=False).with_timeline()
    assert again.table("kernel_categories").frame.equals(profile.table("kernel_categories").frame)
    assert launched(again.trace) == launched(profile.trace) == sum(cat == "ac2g" for cat, _, _ in shown.flows)
    assert again.trace.steps.drop("start_ns", "end_ns").equals(profile.trace.steps.drop("start_ns", "end_ns"))
    assert (again.trace.flows.height, again.trace.memory.height) == (
        profile.trace.flows.height,
        profile.trace.memory.height,
    )
    callers = len(profile.trace.frames)
    assert len(again.trace) == len(profile.trace) - callers


@pytest.mark.parametrize("name", nightly_after(1, ["resnet50_train.json.gz", "gpt2_train_step.json.gz"]))
def test_a_trace_of_pytorch_keeps_its_advice(name: str, tmp_path: Path) -> None:
    profile = sample(f"kineto/{name}")(tmp_path)
    again = warplens.open(written(profile, tmp_path), cache=False)
    assert [(finding.code, finding.gain_ms) for finding in again.findings()] == [
        (finding.code, pytest.approx(finding.gain_ms, rel=1e-6)) for finding in profile.findings()
    ]
    assert again.table("ops").frame.equals(profile.table("ops").frame)
    assert again.table("modules").frame.equals(profile.table("modules").frame)


def test_events_have_the_fields_of_pytorch_and_what_is_known_of_them(opened: Opened, tmp_path: Path) -> None:
    events = events_of(opened(EVENTS), tmp_path)
    (gemm,) = [event for event in events if event["name"] == GEMM and event["cat"] == "kernel"]
    assert (gemm["pid"], gemm["tid"], gemm["ts"], gemm["dur"]) == (0, 7, 100.0, 400.0)
    assert gemm["args"] == {
        "device": 0, "stream": 7, "correlation": 1, "grid": [8, 1, 1], "block": [128, 1, 1],
        "registers per thread": 90, "shared memory": 64, "short_name": gemm["args"]["short_name"],
        "category": "GEMM", "op": "aten::linear", "module": "Linear_0", "step": 4,
    }  # fmt: skip
    assert "gemm" in gemm["args"]["short_name"]
    (linear,) = [event for event in events if event["name"] == "aten::linear"]
    assert linear["args"] == {"External id": 3, "Sequence number": 8, "Input Dims": [[4, 8], []], "step": 4}
    (copy,) = [event for event in events if event.get("cat") == "gpu_memcpy"]
    assert (copy["tid"], copy["args"]["bytes"]) == (9, 4096)
    (counter,) = [event for event in events if event["ph"] == "C"]
    assert (counter["name"], counter["args"]) == ("GPU 0 memory", {"allocated": 2048, "reserved": 4096})


def test_arrows_lead_from_launches_to_gpu_events_and_from_forward_to_backward(opened: Opened, tmp_path: Path) -> None:
    flows = imported(events_of(opened(EVENTS), tmp_path)).flows
    arrows = [(cat, source["name"], source["ts"], target["name"]) for cat, source, target in flows]
    assert sorted(arrows) == [
        ("ac2g", "cudaLaunchKernel", 20.0, GEMM),
        ("ac2g", "cudaLaunchKernel", 40.0, "relu_elementwise_kernel"),
        ("ac2g", "cudaLaunchKernel", 60.0, "Memcpy HtoD (Pinned -> Device)"),
        ("fwdbwd", "aten::linear", 10.0, "AddBackward0"),
    ]


def test_what_overlaps_on_a_stream_is_on_a_track_beside_it(opened: Opened, tmp_path: Path) -> None:
    events = events_of(opened(EVENTS), tmp_path)
    (relu,) = [event for event in events if event["name"] == "relu_elementwise_kernel" and event["cat"] == "kernel"]
    names = titles(events)
    assert names[0, 7] == "stream 7"
    assert names[relu["pid"], relu["tid"]] == "stream 7 (2)"
    assert relu["tid"] not in (7, 9)
    assert relu["args"]["stream"] == 7


def test_lanes_keep_their_numbers_names_and_order(tmp_path: Path) -> None:
    events = events_of(sample("kineto/gpt2_train_step.json.gz")(tmp_path), tmp_path)
    threads, processes = titles(events), titles(events, "process_name")
    assert processes[390, 0] == "python3"
    assert processes[0, 0] == "GPU 0 (NVIDIA H200)"
    assert threads[390, 472] == "thread 472 (pt_autograd_0)"
    assert (threads[0, 7], threads[0, 8]) == ("stream 7", "stream 7: annotations")
    index = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    shown = sorted(processes, key=lambda key: index[key[0]])
    assert [processes[key] for key in shown][:2] == ["Warplens", "python3"]


def test_a_thread_keeps_its_number_where_another_needs_a_second_track(opened: Opened, tmp_path: Path) -> None:
    crossing = [op("a", 0, 10, tid=5), op("b", 5, 10, tid=5), op("c", 0, 3, tid=6), op("d", 0, 3, tid=2**40)]
    events = events_of(opened(crossing), tmp_path)
    tids = {event["name"]: event["tid"] for event in events if event["ph"] == "X"}
    assert (tids["a"], tids["c"]) == (5, 6)
    assert len(set(tids.values())) == 4
    assert max(tids.values()) < 2**31


def own(events: list[dict[str, Any]], shows: str) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") == f"{OWN_CATEGORIES}{shows}"]


def test_tracks_show_what_the_tables_have(tmp_path: Path) -> None:
    profile = sample("kineto/gpt2_train_step.json.gz")(tmp_path)
    events = events_of(profile, tmp_path)
    assert [event["args"]["step"] for event in own(events, "step")] == profile.trace.steps["step"].to_list()
    path = profile.table("critical_path").frame
    segments = own(events, "critical_path")
    assert len(segments) == path.height
    assert sum(segment["args"]["time_us"] for segment in segments) == pytest.approx(path["time_us"].sum(), abs=0.01)
    idle = profile.table("timeline").frame.filter(pl.col("measure") == "idle")["time_ms"][0]
    assert sum(event["dur"] for event in own(events, "idle")) / 1e3 == pytest.approx(idle, abs=1e-3)
    names = titles(events)
    by_category: dict[str, float] = {}
    for event in own(events, "category"):
        title = names[event["pid"], event["tid"]].partition(" (2)")[0]
        by_category[title] = by_category.get(title, 0.0) + event["dur"]
    table = dict(profile.table("kernel_categories").frame.select("kernel_category", "total_us").iter_rows())
    assert by_category == pytest.approx(table)


def test_a_finding_is_a_track_over_what_it_is_about(tmp_path: Path) -> None:
    profile = sample("faults/odd_vocab.before.json.gz")(tmp_path)
    events = events_of(profile, tmp_path)
    slices = own(events, "finding")
    assert {event["args"]["code"] for event in slices} == {finding.code for finding in profile.findings()}
    first = next(finding for finding in profile.findings() if finding.code == "WL201")
    of_first = [event for event in slices if event["args"]["code"] == "WL201"]
    assert of_first[0]["args"]["gain_ms"] == pytest.approx(first.gain_ms, abs=1e-5)
    on_gpu = {(event["ts"], event["dur"]): event["args"] for event in events if "short_name" in event.get("args", {})}
    about = [on_gpu[event["ts"], event["dur"]] for event in of_first]
    assert {args["op"] for args in about} == {row.what.partition(" ")[0] for row in first.rows}
    assert "GEMM" in {args["category"] for args in about}


def test_a_finding_without_a_place_spans_the_trace(opened: Opened, tmp_path: Path) -> None:
    profile = opened(EVENTS)
    finding = warplens.Finding(code="WL999", title="all of it", evidence="", advice="", gain_ms=1.5)
    profile.__dict__["_findings"] = [finding]
    (event,) = own(events_of(profile, tmp_path), "finding")
    assert (event["name"], event["ts"], event["dur"], event["args"]["gain_ms"]) == ("all of it", 0.0, 900.0, 1.5)


def test_waits_of_streams_survive(opened: Opened, tmp_path: Path) -> None:
    events = [launch(0, 2, 1), kernel("k", 10, 5, 1), sync("Stream Wait Event", 20, 2, stream=9, awaited=7, record=1)]
    profile = opened(events)
    again = warplens.open(written(profile, tmp_path), cache=False).with_timeline()
    assert again.trace.waits.drop("id").to_dicts() == profile.trace.waits.drop("id").to_dicts() != []


def test_what_is_known_of_the_job_survives(tmp_path: Path) -> None:
    about = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 4,
             "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 5}  # fmt: skip
    arrives = {"Collective name": "recv", "Src Rank": 2, "In msg nelems": 4, "In split size": "[1, 3]"}
    events = [kernel("ncclDevKernel_AllReduce", 5, 10, **about), kernel("ncclDevKernel_SendRecv", 20, 10, **arrives)]
    job = {
        "backend": "nccl",
        "rank": 3,
        "world_size": 4,
        "pg_config": [{"pg_name": "3", "pg_desc": "dp", "ranks": [0, 3]}],
    }
    path = write_trace(tmp_path / "x.json", events, distributedInfo=job, baseTimeNanoseconds=1_700_000_000_000_000_000)
    trace = warplens.open(path, cache=False).with_timeline().trace
    again = warplens.open(written(warplens.open(path).with_timeline(), tmp_path), cache=False).with_timeline().trace
    assert again.collectives.equals(trace.collectives)
    assert (again.meta.distributed, again.meta.origin_ns) == (trace.meta.distributed, trace.meta.origin_ns)


@pytest.mark.parametrize("header", [1, {"moved": 3}, {"moved": [[1, 2]]}, {"moved": [[1, 5, 9], [7, 7, 7]]}, {}, []])
def test_a_header_that_convert_did_not_write_changes_nothing(header: Any, tmp_path: Path) -> None:
    events = [op("a", 0, 10, tid=5), op("b", 2, 3, tid=6)]
    path = write_trace(tmp_path / "x.json", events, warplens_converted=header)
    trace = warplens.open(path, cache=False).with_timeline().trace
    assert trace.lanes["thread"].to_list() == ["5", "6"]


def test_odd_names_and_arguments_stay_valid(opened: Opened, tmp_path: Path) -> None:
    names = ['quote " and \\ back', "brace {} {0}", "line\nbreak\x00\x1b", "ünïcödé → ✓", ""]
    profile = opened([op(name, 10 * index, 5) for index, name in enumerate(names)])
    shown = [event["name"] for event in events_of(profile, tmp_path) if event["ph"] == "X"]
    assert shown == [*names[:4], "(unnamed)"] or shown == names


def test_equal_traces_give_equal_files(opened: Opened, tmp_path: Path) -> None:
    first, second = (written(opened(EVENTS), tmp_path, f"{name}.json.gz").read_bytes() for name in "ab")
    assert first == second
    plain = written(opened(EVENTS), tmp_path, "c.json")
    assert chrome_trace(plain) == chrome_trace(tmp_path / "a.json.gz")


def several(profile: warplens.Profile, folder: Path, *offsets_ns: int, **options: Any) -> list[dict[str, Any]]:
    timelines = [
        rank_timeline(profile, prefix=f"rank {rank} · ", offset_ns=offset) for rank, offset in enumerate(offsets_ns)
    ]
    write_perfetto(folder / "job.json", timelines, **options)
    events: list[dict[str, Any]] = chrome_trace(folder / "job.json")["traceEvents"]
    return events


def test_ranks_in_one_file_have_their_own_processes_and_one_clock(opened: Opened, tmp_path: Path) -> None:
    events = several(opened(EVENTS), tmp_path, 0, -2000, 7000)
    processes = titles(events, "process_name")
    assert sorted(name for name in processes.values() if "categories" not in name) == sorted(
        f"rank {rank} · {name}" for rank in range(3) for name in ("Warplens", "process 1", "GPU 0")
    )
    starts = {
        processes[event["pid"], 0]: event["ts"]
        for event in events
        if event["name"] == GEMM and event["cat"] == "kernel"
    }
    # The clock of the second begins 2 µs before: that is the file's moment 0.
    assert starts == {"rank 0 · GPU 0": 102.0, "rank 1 · GPU 0": 100.0, "rank 2 · GPU 0": 109.0}
    shown = imported(events)
    assert not shown.dropped
    launches = [(source["pid"], target["pid"]) for cat, source, target in shown.flows if cat == "ac2g"]
    assert len(launches) == 9
    assert all(source // 1000 == target // 1000 for source, target in launches)
    correlations = {event["args"]["correlation"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy")}
    assert len(correlations) == 9


def test_arrows_between_ranks_connect_the_matched_events(opened: Opened, tmp_path: Path) -> None:
    profile = opened(EVENTS)
    gemm, relu = (int(row) for row in profile.trace.gpu_rows[:2])
    flows = [RankFlow(1, gemm, 0, gemm, "all_reduce"), RankFlow(0, relu, 1, relu, "all_reduce")]
    shown: Imported = imported(several(profile, tmp_path, 0, 5000, flows=flows))
    arrows = [(source["name"], source["pid"], target["name"], target["pid"]) for cat, source, target in shown.flows
              if cat == f"{OWN_CATEGORIES}ranks.all_reduce"]  # fmt: skip
    # Also the arrow from the rank that started later: viewers draw no arrow back in time.
    relu_name = "relu_elementwise_kernel"
    assert sorted(arrows) == [(name, 1002, name, 2002) for name in sorted([GEMM, relu_name])]


def test_without_tracks_only_the_recorded_events_are_written(opened: Opened, tmp_path: Path) -> None:
    timeline = replace(rank_timeline(opened(EVENTS)), tracks=())
    write_perfetto(tmp_path / "x.json", [timeline])
    assert not any(OWN_CATEGORIES in event.get("cat", "") for event in chrome_trace(tmp_path / "x.json")["traceEvents"])


def test_what_precedes_the_first_event_is_in_the_file_too(opened: Opened, tmp_path: Path) -> None:
    profile = opened([op("a", 100, 10), launch(102, 2, 1), kernel("k", 105, 3, 1), memory(40, 512, 512, 2048)])
    events = events_of(profile, tmp_path)
    assert {event["ts"] for event in events if event["ph"] in "iC"} == {0.0}
    assert [event["ts"] for event in events if event["name"] == "a"] == [60.0]


def test_clocks_since_1970_keep_their_nanoseconds(opened: Opened, tmp_path: Path) -> None:
    since_1970 = 1_700_000_000_123_456_789
    events = several(opened(EVENTS), tmp_path, since_1970, since_1970 + 1)
    starts = sorted(event["ts"] for event in events if event["name"] == GEMM and event["cat"] == "kernel")
    assert [round(start * 1000) for start in starts] == [100_000, 100_001]


def test_processes_and_threads_of_any_name_get_numbers(opened: Opened, tmp_path: Path) -> None:
    events = [
        op("a", 0, 5, pid="9" * 5000, tid="main"),
        op("b", 0, 5, pid="host", tid="٣"),
        op("c", 0, 5, pid=-4, tid=0),
    ]  # type: ignore[arg-type]
    shown = [event for event in events_of(opened(events), tmp_path) if event["ph"] == "X"]
    assert len({(event["pid"], event["tid"]) for event in shown}) == 3
    assert all(0 < event[key] < 2**31 for event in shown for key in ("pid", "tid"))


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=50))
def test_times_keep_every_nanosecond_in_viewers_that_drop_fractions(times: list[int]) -> None:
    texts = microseconds(np.array(times, np.int64)).to_list()
    assert [ns_of(float(text)) for text in texts] == times
    assert [round(float(text) * 1000) for text in texts] == times


intervals = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=8)


def sorted_intervals(pairs: list[tuple[int, int]]) -> tuple[Any, Any]:
    ordered = sorted((start, -(start + length)) for start, length in pairs)
    return np.array([start for start, _ in ordered], np.int64), np.array([-end for _, end in ordered], np.int64)


@given(intervals)
def test_intervals_nest_exactly_where_none_crosses_the_end_of_another(pairs: list[tuple[int, int]]) -> None:
    start, end = sorted_intervals(pairs)
    several = list(zip(start.tolist(), end.tolist(), strict=True))
    crossing = any(a < c < b < d for a, b in several for c, d in several)
    assert nests(start, end) is not crossing


@given(intervals)
def test_intervals_on_one_track_nest_and_one_track_is_enough_where_all_do(pairs: list[tuple[int, int]]) -> None:
    start, end = sorted_intervals(pairs)
    levels = track_levels(start, end)
    assert all(nests(start[levels == level], end[levels == level]) for level in range(levels.max(initial=-1) + 1))
    assert levels.max(initial=0) == 0 or not nests(start, end)
