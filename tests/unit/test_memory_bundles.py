"""A trace with the memory snapshot of the same run: in a bundle, or given beside it."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from memory_snapshots import BUILD, FORWARD, MB, MODEL, START_US, Allocator, failed, frame, snapshot, train, written
from support import ROOT, SHARED, kernel, launch, memory, op
from warplens.analyses.memory.traced import memory_work
from warplens.cli import main
from warplens.model.memory_snapshot import ACTION
from warplens.model.table import Column
from warplens.outputs.summary import render_summary
from warplens_run.base.errors import FormatError
from warplens_run.formats.bundle import Staging

RECORDED = sorted([*(SHARED / "traces" / "memory").glob("*.zip"), *(ROOT / "samples" / "memory").glob("*.zip")])
"""Bundles recorded with `warplens profile --memory` on a GPU."""


def trace_text(events: list[dict[str, Any]]) -> str:
    """Its times count from the moment at which the simulated allocator starts."""
    properties = [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_000_000_000}]
    header = {"deviceProperties": properties, "baseTimeNanoseconds": START_US * 1000}
    return json.dumps({**header, "traceEvents": events})


def events_beside(gpu: Allocator) -> list[dict[str, Any]]:
    """The profiler's own memory events of the same allocations, each inside an op."""
    rows: list[dict[str, Any]] = [launch(1, 1, 1), kernel("k", 5, 900, 1)]
    for entry, allocated, reserved in zip(gpu.trace, gpu.allocated, gpu.reserved, strict=True):
        ts = entry["time_us"] - START_US
        if entry["action"] == "alloc":
            rows += [op("aten::mm", ts - 2, 4), memory(ts, entry["size"], allocated, reserved, address=entry["addr"])]
    return rows


def bundle(folder: Path, gpu: Allocator, facts: dict[str, Any] | bytes | None = None, content: bytes = b"") -> Path:
    staging = Staging(folder / "run")
    staging.path("trace.json.gz").write_bytes(gzip.compress(trace_text(events_beside(gpu)).encode()))
    packed = gzip.compress(content or pickle.dumps(snapshot(gpu)))
    staging.path("memory_snapshot.pickle.gz").write_bytes(packed)
    if isinstance(facts, dict):
        staging.write_json("memory.json", facts)
    elif facts is not None:
        staging.path("memory.json").write_bytes(facts)
    return staging.finish({"status": "complete", "backend": "torch", "command": ["warplens"], "notes": [], "gpu": True})


def codes(profile: Any) -> set[str]:
    return set(profile.table("quality").frame["code"].to_list())


def test_a_bundles_snapshot_is_joined_with_the_ops_of_its_trace(tmp_path: Path) -> None:
    gpu = train(steps=2)
    profile = warplens.open(bundle(tmp_path, gpu), cache=False)
    frame = profile.table("memory_peak").frame
    assert frame.filter(pl.col("category") == "activations")["op"].to_list() == ["aten::mm"]
    assert profile.table("memory_timeline").frame["allocated_bytes"].max() == gpu.peak
    assert "fragmentation" in profile.report_names
    first_ms = profile.table("memory_timeline").frame["start_ms"][0]
    assert first_ms == pytest.approx((gpu.trace[0]["time_us"] - START_US) / 1e3, abs=0.05)


def test_names_of_the_capture_come_before_everything_else(tmp_path: Path) -> None:
    gpu = Allocator()
    address = gpu.alloc(5 * MB, [frame("/home/me/x.py", 3, "make")])
    gpu.alloc(3 * MB, BUILD)
    tensors = [
        {"kind": "parameter", "name": "head.weight", "module": "Model.head", "state": "", "device": 0,
         "address": address, "bytes": 5 * MB, "time_ns": (START_US + 500) * 1000},
        {"kind": "buffer", "name": "on the host", "module": "", "device": -1, "address": address, "bytes": 1, "time_ns": 0},
    ]  # fmt: skip
    facts = {"version": 1, "devices": {"0": {"max_memory_allocated": gpu.peak, "start": {"a": 1}}}, "tensors": tensors}
    profile = warplens.open(bundle(tmp_path, gpu, facts), cache=False)
    [row] = profile.table("memory_peak").frame.filter(pl.col("name") != "").to_dicts()
    assert (row["category"], row["name"], row["module"]) == ("parameters", "head.weight", "Model.head")
    assert row["how"] == "named parameter by the capture"
    assert "memory_peak_outside" not in codes(profile)


def test_a_peak_outside_of_the_window_is_noted(tmp_path: Path) -> None:
    gpu = train(steps=1)
    facts = {"version": 1, "devices": {"0": {"max_memory_allocated": gpu.peak + MB}}}
    assert "memory_peak_outside" in codes(warplens.open(bundle(tmp_path, gpu, facts), cache=False))


def test_memory_that_ran_out_comes_first_in_the_verdict_of_a_trace(
    tmp_path: Path,
) -> None:
    plain = warplens.open(bundle(tmp_path / "plain", train(steps=1)), cache=False).verdict()
    path = bundle(tmp_path, failed(train(steps=1), 500 * MB, free=20 * MB))
    begin = f"Out of memory on GPU 0: 500.0 MiB were asked for at {MODEL}:12 forward; 20.0 MiB were free on the device"
    profile = warplens.open(path, cache=False)
    assert profile.verdict().startswith(begin)
    assert profile.verdict().endswith(f" {plain}")
    assert profile.document().answer.verdict == profile.verdict()
    assert main(["report", "-q", str(path), "-o", str(tmp_path / "x.json")]) == 0
    assert json.loads((tmp_path / "x.json").read_text())["answer"]["verdict"].startswith(begin)


@pytest.mark.parametrize("facts", [b"{", b'{"version": 7}', b'{"version": 1, "tensors": [{"kind": 1}]}'])
def test_damaged_names_cost_the_names_only(facts: bytes, tmp_path: Path) -> None:
    gpu = train(steps=1)
    profile = warplens.open(bundle(tmp_path, gpu, facts), cache=False)
    assert profile.table("memory_timeline").frame["allocated_bytes"].max() == gpu.peak
    assert "memory_unread" in codes(profile)


def test_a_damaged_snapshot_of_a_bundle_leaves_the_events_of_the_profiler(tmp_path: Path) -> None:
    profile = warplens.open(bundle(tmp_path, train(steps=1), content=b"\x80\x04cos\nsystem\n."), cache=False)
    assert "memory_unread" in codes(profile)
    assert len(profile.table("memory_peak")) > 0
    assert len(profile.table("kernels")) == 1


def test_a_snapshot_can_be_given_beside_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = train(steps=2)
    trace = tmp_path / "trace.json"
    trace.write_text(trace_text([launch(1, 1, 1), kernel("k", 5, 900, 1)]))
    file = written(tmp_path / "s.pickle", snapshot(gpu))
    assert main(["show", str(trace), "memory_peak", "--memory-snapshot", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["bytes"] for row in rows) == gpu.reserved[gpu.allocated.index(gpu.peak)]
    file.write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(FormatError, match="opcode GLOBAL"):
        warplens.open(trace, memory_snapshot=file)


def test_a_snapshot_with_another_clock_counts_from_its_own_beginning(tmp_path: Path) -> None:
    gpu = train(steps=1)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps([launch(1, 1, 1), kernel("k", 5, 900, 1)]))
    profile = warplens.open(trace, memory_snapshot=written(tmp_path / "s.pickle", snapshot(gpu)))
    assert profile.table("memory_timeline").frame["start_ms"][0] == 0
    assert {"memory_clock", "memory_untied"} <= {*codes(profile)}
    on_memory = [finding for finding in profile.findings() if finding.code.startswith("WL5")]
    assert on_memory
    assert all(finding.evidence.endswith("of the snapshot, which nothing ties to this trace") for finding in on_memory)


def test_a_snapshot_of_another_run_is_not_joined(tmp_path: Path) -> None:
    """Recorded a day after the trace: no op or module of the trace, and a warning that names both dates."""
    gpu = train(steps=1)
    document = snapshot(gpu)
    for entry in document["device_traces"][0]:
        entry["time_us"] += 86_400_000_000
    trace = tmp_path / "trace.json"
    trace.write_text(trace_text([launch(1, 1, 1), kernel("k", 5, 900, 1), op("aten::mm", 0, 5000)]))
    profile = warplens.open(trace, memory_snapshot=written(tmp_path / "s.pickle", document))
    [note] = [row for row in profile.table("quality").to_dicts() if row["code"] == "memory_other_run"]
    assert note["severity"] == "warning"
    assert "it was recorded on 2023-11-15 22:13:20 UTC, the trace on 2023-11-14 22:13:20 UTC" in note["message"]
    assert profile.table("memory_timeline").frame["start_ms"][0] == 0
    assert profile.table("memory_peak").frame["module"].unique().to_list() == [""]
    assert not [finding.code for finding in profile.findings() if finding.code.startswith("WL5")]
    assert warplens.open(tmp_path / "s.pickle").findings()
    assert "  of the snapshot: peak " in str(render_summary(profile.document(), width=100))


def test_sizes_in_the_same_order_tie_a_snapshot_with_another_clock(tmp_path: Path) -> None:
    gpu = Allocator()
    blocks = [gpu.alloc(size * MB, FORWARD) for size in (2, 3, 5, 4, 6, 2, 7, 3, 9, 4)]
    assert blocks
    document = snapshot(gpu)
    trace = tmp_path / "trace.json"
    sizes = [entry["size"] for entry in document["device_traces"][0] if entry["action"] == "alloc"]
    for order, code in ((sizes, "memory_clock"), (sizes[::-1], "memory_other_run")):
        events = [memory(10 * at, size, size, size, address=at) for at, size in enumerate(order)]
        trace.write_text(json.dumps([kernel("k", 5, 900, 1), *events]))
        profile = warplens.open(trace, memory_snapshot=written(tmp_path / "s.pickle", document), cache=False)
        assert {"memory_clock", "memory_other_run", "memory_untied"} & {*codes(profile)} == {code}


def test_a_recomputed_module_has_its_cost_from_the_trace(tmp_path: Path) -> None:
    from warplens.advice.held_memory import MemoryFigures, activations

    profile = warplens.open(written(tmp_path / "s.pickle", snapshot(train())))
    tables = {name: profile.table(name) for name in profile.table_names}
    peak = tables["memory_peak"]
    module = pl.when(pl.col("category") == "activations").then(pl.lit("GPT/Block_*/MLP_*")).otherwise(pl.lit(""))
    tables["memory_peak"] = warplens.Table(
        peak.name, peak.meaning, peak.columns, peak.frame.with_columns(module=module)
    )
    sums = [(f"GPT_0/Block_{number}", 500.0) for number in range(4)]
    columns = [Column("module", "", "", pl.String), Column("subtree_forward_us", "", "us", pl.Float64)]
    tables["modules"] = warplens.Table.from_rows("modules", "", columns, sums)
    tables["steps"] = warplens.Table.from_rows("steps", "", [Column("step", "", "", pl.Int64)], [(0,), (1,)])
    [finding] = activations(MemoryFigures(tables))
    assert finding.place == "GPT/Block_*"
    assert "4 instances; recomputing costs 1.000 ms of GPU time a step" in finding.evidence


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_sums_of_a_recorded_program_are_the_allocators_and_the_profilers(path: Path) -> None:
    profile = warplens.open(path, cache=False).with_timeline()
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read("memory.json"))
    [history] = memory_work(profile.workspace).history.devices
    stats = facts["devices"]["0"]
    assert history.peak_bytes == stats["max_memory_allocated"]
    assert history.reserved is not None
    assert int(history.reserved.max()) == stats["max_memory_reserved"]
    # Every call of the allocator is in the trace too, with the total after it.
    recorded = profile.workspace.read_memory
    assert recorded is not None
    actions = recorded().snapshot.events["action"].is_in([ACTION["alloc"], ACTION["free_requested"]])
    totals = profile.trace.memory.filter(pl.col("device") == "GPU 0")["allocated_bytes"]
    assert history.allocated[actions.to_numpy()].tolist() == totals.to_list()
    frame = profile.table("memory_peak").frame
    beside = pl.col("category").is_in(["cache", "fragmentation"])
    assert frame.filter(~beside)["bytes"].sum() == history.peak_bytes
