"""Proton traces: the files' own sums, call stacks, scopes and their metrics, regions inside kernels, damaged files."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import ROOT, raw_events
from warplens.analyses.inside_kernels.regions import regions
from warplens.analyses.workspace import Workspace
from warplens.model.trace import Meta, Trace
from warplens.passes import run_passes
from warplens.profiles.trace import Profile
from warplens.readers.proton import trace as proton_trace
from warplens_run.base.errors import FormatError

KERNELS = ROOT / "samples" / "proton" / "trace.chrome_trace.gz"
INTRA = ROOT / "samples" / "proton" / "intra.chrome_trace.gz"


def opened(text: bytes) -> Trace:
    return run_passes(proton_trace.read(text, Meta(source="test", format=""), []), check_each=True)


def opened_file(path: Path) -> Trace:
    return opened(gzip.decompress(path.read_bytes()))


def document(*events: dict[str, Any], unit: str = "us") -> bytes:
    return json.dumps({"displayTimeUnit": unit, "traceEvents": list(events)}).encode()


def kernel(name: str, ts: float, dur: float, *callers: str, tid: int = 7, **args: Any) -> dict[str, Any]:
    args["call_stack"] = ["ROOT", *callers, name]
    return {"ph": "X", "cat": "kernel", "name": name, "tid": tid, "ts": ts, "dur": dur, "args": args}


def scope(ts: float, dur: float, *path: str, tid: int = 3, **metrics: Any) -> dict[str, Any]:
    args: dict[str, Any] = {"call_stack": ["ROOT", *path]}
    name, category = path[-1], "scope"
    if metrics:
        args["metrics"] = metrics
        name = f"{name}: " + ", ".join(f"<{metric}, {value}>" for metric, value in metrics.items())
        category = "metric"
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def thread_name(tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": name}}


def arrow(number: int, scope_at: tuple[int, float], kernel_at: tuple[int, float]) -> list[dict[str, Any]]:
    ends = (("s", *scope_at), ("f", *kernel_at))
    return [{"ph": ph, "cat": "flow", "id": number, "pid": 0, "tid": tid, "ts": ts} for ph, tid, ts in ends]


def region(
    name: str, ts: float, dur: float, cta: str = "k Core0 CTA8", warp: str = "warp 0 (line 0)", **args: Any
) -> Any:
    args["call_stack"] = ["ROOT", cta.split(" ")[0]]
    return {
        "ph": "X",
        "cat": cta.split(" ")[0],
        "name": name,
        "pid": cta,
        "tid": warp,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def path_of(trace: Trace, row: int) -> list[tuple[str, str]]:
    """Kind and name of the callers of a GPU event, outermost first."""
    events, parent, at = trace.named_events(), trace.ints("parent"), int(trace.ints("op")[row])
    found = []
    while at >= 0:
        found.append((events["kind"][at], events["name"][at]))
        at = int(parent[at])
    return found[::-1]


def codes(trace: Trace) -> set[str]:
    return {note.code for note in trace.quality.notes}


def test_the_sample_adds_up_to_what_the_file_says() -> None:
    trace, plain = opened_file(KERNELS), raw_events(KERNELS)
    work = trace.named_events()[trace.gpu_rows]
    first = min(event["ts"] for event in plain)
    expected = sorted((e["name"], round((e["ts"] - first) * 1000), round(e["dur"] * 1000)) for e in plain)
    assert sorted(zip(work["name"], work["start_ns"], work["dur_ns"], strict=True)) == expected
    assert work["stream"].unique().to_list() == [7]
    assert trace.meta.format == "proton" and trace.meta.events_in_file == len(plain) == 14804


def test_the_sample_s_tree_is_that_of_its_call_stacks() -> None:
    trace, plain = opened_file(KERNELS), raw_events(KERNELS)
    ns, count = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for event in plain:
        stack = event["args"]["call_stack"]
        path = tuple(stack[1:-1]) or ("(outside any scope)",)
        for depth in range(1, len(path) + 1):
            ns[path[:depth]] += round(event["dur"] * 1000)
            count[path[:depth]] += 1
    tree = Profile(trace).tree()
    nodes = {tuple(tree.path(node)): node for node in range(1, len(tree)) if tree.kind[node] != "kernel"}
    assert {path: (int(tree.total_ns[node]), int(tree.total_count[node])) for path, node in nodes.items()} == {
        path: (ns[path], count[path]) for path in ns
    }
    assert {tree.kind[node] for node in nodes.values()} == {"annotation"}
    assert int(tree.total_ns[0]) == sum(round(event["dur"] * 1000) for event in plain)


def test_the_sample_s_launch_shapes_come_from_the_names() -> None:
    trace = opened_file(KERNELS)
    events = trace.named_events()
    rows = events.filter(pl.col("name") == "matmul_<grid:32>_<warps:8>_<stages:3>")
    assert rows.height == 1413
    shape = trace.geometries.row(int(rows["geometry"][0]), named=True)
    assert (shape["grid"], shape["block"]) == ("[32, 1, 1]", "[256, 1, 1]")
    fills = events.filter(pl.col("name").str.contains("FillFunctor"))
    assert set(fills["geometry"]) == {-1}


def test_no_note_speaks_of_pytorch_or_missing_launches() -> None:
    trace = opened_file(KERNELS)
    assert codes(trace) == {"callers_only", "no_python_context", "no_step_marks"}


@pytest.mark.parametrize(
    ("name", "grid", "block"),
    [
        ("k_<grid:32x4x2>_<warps:4>", "[32, 4, 2]", "[128, 1, 1]"),
        ("k_<grid:(7, 1)>", "[7, 1, 1]", ""),
        ("k_<grid:>_<warps:2>", "", "[64, 1, 1]"),
    ],
)
def test_launch_shapes(name: str, grid: str, block: str) -> None:
    trace = opened(document(kernel(name, 0, 1)))
    assert trace.geometries.row(int(trace.events["geometry"][int(trace.gpu_rows[0])]))[:2] == (grid, block)


def test_python_callers_become_frames() -> None:
    trace = opened(document(kernel("k", 1, 2, "/home/me/train.py:90@main", "/home/me/train.py:18@step", "scope")))
    assert path_of(trace, int(trace.gpu_rows[0])) == [
        ("python", "/home/me/train.py(90): main"),
        ("python", "/home/me/train.py(18): step"),
        ("annotation", "scope"),
    ]
    lines = Profile(trace).table("python_lines").frame
    assert lines.select("line", "function", "kernel_us").rows() == [(18, "step", 2.0)]
    assert "no_python_context" not in codes(trace)


def test_a_document_per_stream() -> None:
    """As Triton 3.6 writes them: one line each."""
    lines = [document(kernel("a", 0, 1, "s", tid=7)), document(kernel("b", 0.5, 1, "s", tid=13))]
    trace = opened(b"\n".join(lines) + b"\n")
    assert trace.named_events()[trace.gpu_rows].select("name", "stream").rows() == [("a", 7), ("b", 13)]
    assert not codes(trace) & {"damaged", "truncated"}
    assert trace.frames.height == 1


def newer_file(*more: dict[str, Any]) -> bytes:
    """As Triton 3.9 writes it: lanes with names, scopes with times and metrics, arrows from scopes to kernels."""
    return document(
        thread_name(3, "CPU Thread 3"),
        thread_name(200013, "GPU Stream 13"),
        scope(0, 100, "step", tokens="128", flops16="1500000000.000000", hist="[1,2,3]"),
        scope(10, 30, "step", "matmul"),
        scope(100, 100, "step", tokens="64"),
        scope(110, 30, "step", "matmul"),
        *arrow(1, (3, 10), (200013, 50)),
        *arrow(2, (3, 110), (200013, 150)),
        {**kernel("mm", 50, 8, "step", "matmul", tid=200013, metrics={"bytes": "4096"}), "pid": 0},
        {**kernel("<metric>", 60, 1, "step", "matmul", tid=200013), "pid": 0},
        {**kernel("mm", 150, 9, "step", "matmul", tid=200013), "pid": 0},
        *more,
    )


def test_kernels_hang_below_the_scope_that_launched_them() -> None:
    trace = opened(newer_file())
    events = trace.named_events()
    assert events[trace.gpu_rows]["stream"].to_list() == [13, 13, 13]
    assert path_of(trace, int(trace.gpu_rows[0])) == [("annotation", "step"), ("annotation", "matmul")]
    scopes = [events["start_ns"][int(op)] for op in trace.ints("op")[trace.gpu_rows]]
    assert scopes == [10_000, 10_000, 110_000]
    assert trace.frames.is_empty()
    assert trace.steps.height == 2
    assert events[trace.gpu_rows]["step"].to_list() == [0, 0, 1]


def test_metrics_of_scopes_and_kernels() -> None:
    trace = opened(newer_file())
    names = trace.named_events()["name"]
    found = [(names[row], metric, value) for row, metric, value in trace.metrics.iter_rows()]
    assert sorted(found) == [
        ("matmul", "bytes", 4096.0),  # what is said of a kernel belongs to the scope that launched it
        ("step", "flops16", 1.5e9),
        ("step", "tokens", 64.0),
        ("step", "tokens", 128.0),
    ]
    odd = next(note for note in trace.quality.notes if note.code == "odd_metrics")
    assert (odd.count, odd.detail) == (1, "hist")


def test_scopes_that_go_by_their_line_leave_the_callers_to_the_call_stack() -> None:
    outer, inner = "train.py:6@step", "train.py:8@step"
    trace = opened(
        document(
            scope(0, 100, "train.py:1@main", outer, tokens="1"),
            scope(10, 30, "train.py:1@main", inner),
            *arrow(1, (3, 10), (7, 50)),
            {**kernel("mm", 50, 8, "train.py:1@main", inner), "pid": 0},
        )
    )
    assert path_of(trace, int(trace.gpu_rows[0])) == [("python", "train.py(1): main"), ("python", "train.py(8): step")]
    assert trace.frames.height == 3
    (row, metric, value) = trace.metrics.row(0)
    assert (metric, value) == ("tokens", 1.0)
    assert row in trace.frames["id"] and trace.named_events()["name"][row] == "train.py(6): step"


def test_scopes_on_a_graph_s_lane_are_no_host_events() -> None:
    trace = opened(newer_file(thread_name(100013, "Graph: Stream 13"), scope(50, 20, "captured", tid=100013)))
    assert trace.named_events().filter(pl.col("name") == "captured")["kind"].to_list() == ["gpu_annotation"]


def test_a_trace_of_scopes_alone() -> None:
    trace = opened(document(scope(0, 5, "a"), scope(1, 2, "a", "b")))
    assert codes(trace) >= {"no_gpu"}
    assert trace.named_events()["kind"].to_list() == ["annotation", "annotation"]


def test_odd_values_do_no_harm() -> None:
    text = document(
        kernel("a", 0, 1, "s"),
        {**kernel("b", 1, 1), "cat": "cpu_op", "tid": "thread x"},
        {**kernel("c", 2, 1), "cat": "something"},
        {**kernel("d", 3, 1), "tid": None},
        {**kernel("e", 4, 1), "args": {"call_stack": ["ROOT", 5]}},
        {**kernel("f", 5, 1), "tid": 2**70},
    )
    trace = opened(text)
    kinds = dict(trace.named_events().select("name", "kind").rows())
    assert (kinds["b"], kinds["c"], kinds["d"], kinds["e"]) == ("op", "other", "kernel", "kernel")


def test_regions_are_not_gpu_time_and_add_up_to_what_the_file_says() -> None:
    trace, plain = opened_file(INTRA), raw_events(INTRA)
    assert trace.meta.format == "proton_intra"
    assert len(trace.gpu_rows) == 0 and len(trace) == len(plain) == 1280
    assert set(trace.named_events()["kind"]) == {"gpu_annotation"}
    assert int(trace.ints("dur_ns").sum()) == sum(round(event["dur"] * 1000) for event in plain)
    frame = regions(Workspace(trace)).frame
    ticks = Counter[str]()
    spans: dict[tuple[str, str], list[int]] = {}
    for event in plain:
        start, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
        ticks[event["name"]] += duration
        spans.setdefault((event["pid"], event["tid"].split(" (")[0]), []).extend((start, start + duration))
    whole = sum(max(moments) - min(moments) for moments in spans.values())
    assert dict(frame.select("region", "total_us").rows()) == {name: ns / 1000 for name, ns in ticks.items()}
    assert frame["warps"].to_list() == [len(spans)] * 5 == [256] * 5
    for name, percent in frame.select("region", "percent").rows():
        assert percent == pytest.approx(100 * ticks[name] / whole, abs=1e-6)
    load = [event["dur"] for event in plain if event["name"] == "load"]
    row = frame.row(by_predicate=pl.col("region") == "load", named=True)
    assert (row["count"], row["min_us"], row["max_us"]) == (256, min(load), max(load))


def test_the_lanes_and_facts_of_regions() -> None:
    trace = opened_file(INTRA)
    assert trace.lanes.height == 256
    assert ("k Core0 CTA8", "warp 0", "k Core0 CTA8", "Core0 CTA8 warp 0") in trace.lanes.rows()
    assert trace.meta.facts == {"kernels": "k", "assumed_clock_mhz": "1000", "finalization_ns": "96 to 160"}
    assert codes(trace) == {"regions_only", "assumed_clock"}


def test_spans_are_taken_launch_by_launch_where_the_file_tells_them_apart() -> None:
    clock = {"Frequency (MHz)": 1000.0}
    twice = [region("load", at, 1, **clock, **{"Init Time (ns)": init}) for at, init in ((0, 5), (100, 9))]
    tail = [region("store", at, 1, **clock, **{"Init Time (ns)": init}) for at, init in ((1, 5), (101, 9))]
    frame = regions(Workspace(opened(document(*twice, *tail, unit="ns")))).frame
    assert dict(frame.select("region", "percent").rows()) == {"load": 50.0, "store": 50.0}
    assert frame["warps"].to_list() == [1, 1]


def test_true_nanoseconds_are_not_called_ticks() -> None:
    trace = opened(document(region("load", 0, 1), unit="ns"))
    assert codes(trace) == {"regions_only"}
    assert len(regions(Workspace(trace)).notes) == 1


def test_arrows_between_warps_are_no_regions() -> None:
    end = {**region("load", 5, 0), "cat": "flow", "bind_id": 1, "flow_out": True}
    frame = regions(Workspace(opened(document(region("load", 0, 1), end, unit="ns")))).frame
    assert frame["count"].to_list() == [1]


def test_other_profiles_have_no_regions() -> None:
    assert len(regions(Workspace(opened(newer_file())))) == 0


def read_or_refuse(text: bytes) -> Trace | None:
    try:
        return opened(text)
    except FormatError:
        return None


@pytest.mark.nightly
def test_every_seventh_cut_of_a_small_file() -> None:
    text = newer_file()
    most = 0
    for size in [*range(0, len(text), 7), len(text) - 1]:
        trace = read_or_refuse(text[:size])
        assert trace is None or "truncated" in codes(trace), size
        intact = trace.meta.events_in_file if trace else 0
        assert intact >= most, size
        most = intact
    assert most == len(json.loads(text)["traceEvents"])


@pytest.mark.parametrize("path", [KERNELS, INTRA], ids=["kernels", "regions"])
def test_a_cut_sample_gives_what_is_intact(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    whole = len(raw_events(path))
    trace = opened(text[: len(text) // 2])
    assert "truncated" in codes(trace) and "damaged" not in codes(trace)
    assert 0.4 * whole < trace.meta.events_in_file < 0.6 * whole


def test_damage_is_stepped_over_and_counted() -> None:
    text = newer_file().replace(b'"name": "matmul"', b'"name": "mat\xffmul"', 1).replace(b'"ts": 50,', b'"ts": 5x0,', 1)
    trace = opened(text)
    assert {"damaged", "bad_text"} <= codes(trace)
    assert trace.named_events()["name"].to_list().count("mm") == 1
    text = newer_file().replace(b'"ts": 50', b'"ts": NaN')
    assert {"out_of_range"} <= codes(opened(text))


@pytest.mark.nightly
def test_damage_never_raises_anything_else() -> None:
    source = random.Random(7)
    for text in (newer_file(), document(region("load", 0, 1), region("x", 0, 1), unit="ns")):
        for _ in range(100):
            broken = bytearray(text)
            for _ in range(source.randint(1, 5)):
                broken[source.randrange(len(broken))] = source.randrange(256)
            read_or_refuse(bytes(broken))


@pytest.mark.parametrize("text", [b"", b"{}", b'{"traceEvents": []}', b'{"traceEvents": [{"ph": "M"}]}', b"[1, 2]"])
def test_files_without_an_event_are_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        opened(text)
