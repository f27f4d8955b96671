"""Tables on memory: who holds it, by what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from memory_snapshots import (
    BACKWARD,
    BUILD,
    FORWARD,
    KB,
    MAIN,
    MB,
    MODEL,
    OPTIMIZER,
    TORCH,
    Allocator,
    frame,
    snapshot,
    train,
    written,
)  # fmt: skip
from support import ROOT, Opened, kernel, memory, op
from support import frame as call
from warplens.outputs.summary_lists import memory_text
from warplens.profiles.reopened import ReopenedProfile

HOLDERS = ("parameters", "gradients", "optimizer_state", "activations", "kv_cache", "workspace", "temporary",
           "held_before", "unknown")  # fmt: skip


def opened(gpu: Allocator, folder: Path, **how: Any) -> Any:
    return warplens.open(written(folder / "s.pickle", snapshot(gpu, **how)))


def peak_by_category(profile: Any) -> dict[str, int]:
    frame = profile.table("memory_peak").frame
    return dict(frame.group_by("category").agg(pl.col("bytes").sum()).iter_rows())


def test_holders_add_up_to_the_allocated_at_every_moment(tmp_path: Path) -> None:
    frame = opened(train(), tmp_path).table("memory_timeline").frame
    parts = frame.select(pl.sum_horizontal(f"{name}_bytes" for name in HOLDERS)).to_series()
    assert (parts == frame["allocated_bytes"]).all()
    assert int(frame["is_peak"].sum()) == 1


def test_holders_of_the_peak_and_what_is_free_add_up_to_the_reserved(tmp_path: Path) -> None:
    gpu = train()
    profile = opened(gpu, tmp_path)
    frame = profile.table("memory_peak").frame
    assert frame["bytes"].sum() == gpu.reserved[gpu.allocated.index(gpu.peak)]
    assert frame["percent"].sum() == pytest.approx(100)
    beside = frame["category"].is_in(["cache", "fragmentation"])
    assert frame.filter(~beside)["bytes"].sum() == gpu.peak


def test_every_part_of_a_training_program_is_known_by_its_stacks_and_lifetime(tmp_path: Path) -> None:
    profile = opened(train(steps=3, layers=4), tmp_path)
    frame = profile.table("allocations").frame
    counts = dict(frame.group_by("category").agg(pl.col("count").sum()).iter_rows())
    assert counts == {
        "parameters": 4, "optimizer state": 8, "activations": 12, "gradients": 12, "temporary": 3 * 4 + 3 * 4,
    }  # fmt: skip


def test_without_frames_on_autograds_threads_a_program_that_trains_is_known_as_well(tmp_path: Path) -> None:
    gpu = train()
    document = snapshot(gpu)
    for entry in document["device_traces"][0]:
        entry["frames"] = [] if entry["frames"] == BACKWARD else entry["frames"]
    profile = warplens.open(written(tmp_path / "s.pickle", document))
    frame = profile.table("allocations").frame
    counts = dict(frame.group_by("category").agg(pl.col("count").sum()).iter_rows())
    assert counts["gradients"] == 12
    assert counts["activations"] == 12
    assert "no frames, as on autograd's threads, kept after it" in profile.table("memory_peak").frame["how"].to_list()


def test_what_nothing_says_anything_of_is_unknown(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(3 * MB, [])
    assert peak_by_category(opened(gpu, tmp_path))["unknown"] == 3 * MB


def test_what_was_there_before_and_stays_is_held_before_unless_its_stack_says_more(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.is_recording = False
    gpu.alloc(4 * MB, [])
    gpu.alloc(8 * MB, BUILD)
    gpu.is_recording = True
    gpu.free(gpu.alloc(2 * MB, FORWARD))
    profile = opened(gpu, tmp_path)
    held = peak_by_category(profile)
    assert held["held before"] == 4 * MB
    assert held["parameters"] == 8 * MB
    assert "memory_before" in profile.table("quality").frame["code"].to_list()


def test_recomputed_activations_workspaces_and_caches_are_told_apart(tmp_path: Path) -> None:
    checkpoint = frame(f"{TORCH}/utils/checkpoint.py", 1100, "recompute_fn")
    cache = frame("/usr/lib/python3/site-packages/transformers/cache_utils.py", 120, "update")
    handle = frame("??", 0, "at::cuda::getCUDABlasLtWorkspace()")
    gpu = Allocator()
    gpu.alloc(2 * MB, [handle, MAIN])
    gpu.alloc(3 * MB, [cache, *FORWARD])
    recomputed = gpu.alloc(4 * MB, [*FORWARD[:2], checkpoint, *BACKWARD])
    gpu.free(recomputed, BACKWARD)
    held = peak_by_category(opened(gpu, tmp_path))
    assert (held["workspace"], held["kv cache"], held["activations"]) == (2 * MB, 3 * MB, 4 * MB)


def test_what_stays_and_has_the_size_of_a_librarys_workspace_is_one(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(32 * MB, FORWARD)
    gpu.free(gpu.alloc(8 * MB, FORWARD))  # the product's result
    gpu.free(gpu.alloc(32 * MB, FORWARD))
    profile = opened(gpu, tmp_path)
    frame = profile.table("allocations").frame
    assert dict(frame.select("category", "count").iter_rows()) == {"workspace": 1, "temporary": 2}


def test_lines_are_the_users_own(tmp_path: Path) -> None:
    frame = opened(train(), tmp_path).table("memory_peak").frame
    assert frame.filter(pl.col("category") == "activations")["line"].to_list() == [f"{MODEL}:12 forward"]


def test_lost_bytes_are_free_parts_of_segments_in_use(tmp_path: Path) -> None:
    gpu = Allocator()
    blocks = [gpu.alloc(4 * MB, FORWARD) for _ in range(5)]
    for address in blocks[::2]:
        gpu.free(address)
    row = opened(gpu, tmp_path).table("fragmentation").frame.filter(pl.col("moment") == "end").row(0, named=True)
    assert (row["reserved_bytes"], row["used_bytes"], row["lost_bytes"]) == (20 * MB, 8 * MB, 12 * MB)
    assert (row["largest_free_bytes"], row["cache_bytes"], row["segments"]) == (4 * MB, 0, 1)


def test_a_snapshot_can_be_asked_in_sql_and_reported_in_every_form(tmp_path: Path) -> None:
    profile = opened(train(), tmp_path)
    [row] = profile.sql("select max(allocated_bytes) as peak from memory_timeline").to_dicts()
    assert row["peak"] == train().peak
    warplens.report(tmp_path / "s.pickle", [f"{tmp_path}/r.html", f"{tmp_path}/r.json", f"{tmp_path}/tables/"])
    assert (tmp_path / "tables" / "memory_peak.csv").exists()


def by_code(profile: Any) -> dict[str, Any]:
    return {finding.code: finding for finding in profile.findings()}


def test_wl501_wins_what_the_activations_of_a_line_add_to_the_peak(tmp_path: Path) -> None:
    finding = by_code(opened(train(), tmp_path))["WL501"]
    assert finding.place == f"{MODEL}:12 forward"
    assert 0 < finding.gain_bytes <= 25 * MB
    assert finding.bound


def test_wl501_is_silent_where_parameters_hold_the_peak(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(100 * MB, BUILD)
    gpu.free(gpu.alloc(5 * MB, FORWARD), BACKWARD)
    assert "WL501" not in by_code(opened(gpu, tmp_path))


def test_wl502_is_what_the_loss_holds(tmp_path: Path) -> None:
    finding = by_code(opened(train(logits_bytes=40 * MB), tmp_path))["WL502"]
    assert finding.gain_bytes == 40 * MB
    assert "cross entropy" in finding.advice
    assert "WL502" not in by_code(opened(train(logits_bytes=600 * KB), tmp_path))


def test_wl503_is_for_gradients_that_outlive_their_step(tmp_path: Path) -> None:
    for layers in (4, 8):
        gpu = train(keep_gradients=True, layers=layers)
        finding = by_code(opened(gpu, tmp_path))["WL503"]
        won = gpu.peak - train(layers=layers).peak  # by the same program with the repair
        assert won <= finding.gain_bytes <= 1.4 * won
    assert "WL503" not in by_code(opened(train(), tmp_path))


def test_wl504_halves_the_optimizers_state(tmp_path: Path) -> None:
    gpu = train()
    state = peak_by_category(opened(gpu, tmp_path))["optimizer state"]
    assert by_code(opened(gpu, tmp_path))["WL504"].gain_bytes == state // 2
    only = Allocator()
    only.alloc(100 * MB, BUILD)
    only.alloc(5 * MB, OPTIMIZER)
    assert "WL504" not in by_code(opened(only, tmp_path))


def test_no_gain_is_more_than_what_the_peak_falls_by(tmp_path: Path) -> None:
    """40 MiB of activations and 45 MiB of state: without one of them, the other makes the peak."""
    gpu = Allocator()
    gpu.alloc(50 * MB, BUILD)
    for address in [gpu.alloc(4 * MB, FORWARD) for _ in range(10)]:
        gpu.free(address, BACKWARD)
    for address in [gpu.alloc(15 * MB, OPTIMIZER) for _ in range(3)]:
        gpu.free(gpu.alloc(1 * MB, BACKWARD))
        assert address
    findings = by_code(opened(gpu, tmp_path))
    assert "WL501" not in findings
    assert findings["WL504"].gain_bytes == gpu.peak - 90 * MB


def test_wl505_is_what_is_lost_at_the_peak(tmp_path: Path) -> None:
    gpu = Allocator()
    blocks = [gpu.alloc(4 * MB, FORWARD) for _ in range(10)]
    for address in blocks[::2]:
        gpu.free(address)
    gpu.alloc(60 * MB, BUILD)
    assert by_code(opened(gpu, tmp_path))["WL505"].gain_bytes == 20 * MB
    full = Allocator()
    full.alloc(60 * MB, BUILD)
    assert "WL505" not in by_code(opened(full, tmp_path))
    single = Allocator()
    single.alloc(4 * MB, BUILD)  # of a segment of 20 MiB, as every pool has
    assert "WL505" not in by_code(opened(single, tmp_path))


def test_wl505_tells_free_parts_from_unused_segments(tmp_path: Path) -> None:
    """20 MiB are lost in pieces of 4 MiB, while the largest free piece is a segment that nothing uses."""
    gpu = Allocator()
    blocks = [gpu.alloc(4 * MB, FORWARD) for _ in range(10)]
    unused = gpu.alloc(30 * MB, FORWARD)
    for address in [*blocks[::2], unused]:
        gpu.free(address)
    gpu.alloc(60 * MB, BUILD)
    [row] = by_code(opened(gpu, tmp_path))["WL505"].rows
    expected = "20.0 MiB of 130.0 MiB free between blocks, 30.0 MiB in unused segments; largest free piece 30.0 MiB"
    assert row.detail == expected


def test_the_summarys_shares_are_of_what_is_allocated_at_the_peak(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(30 * MB, BUILD)
    gpu.free(gpu.alloc(50 * MB, FORWARD))
    gpu.alloc(10 * MB, OPTIMIZER)
    gpu.alloc(70 * MB, BUILD)
    text = memory_text(opened(gpu, tmp_path).table("memory_peak"))
    assert text.startswith("peak 110.0 MiB allocated on GPU 0 = 100% · parameters 90.9% · optimizer state 9.1% · ")
    assert text.endswith(" reserved")


def test_the_summary_is_of_the_device_with_the_highest_peak(opened: Opened) -> None:
    """As XLA's allocator records it: totals without addresses, and nothing on what is reserved."""
    totals = {(1, 0): 2 * MB, (2, 1): 3 * MB, (4, 1): 7 * MB, (6, 1): MB}
    allocations = [memory(ts, 512, total, -1, device=device) for (ts, device), total in totals.items()]
    text = memory_text(opened([op("aten::mm", 0, 30), *allocations]).table("memory_peak"))
    assert text.startswith("peak 7.0 MiB allocated on GPU 1 = 100% · ")
    assert "reserved" not in text


def test_wl506_is_the_difference_to_the_peak_without_that_tensor(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(50 * MB, BUILD)
    gpu.free(gpu.alloc(20 * MB, FORWARD))
    gpu.free(gpu.alloc(70 * MB, [frame("/home/me/eval.py", 3, "metric"), MAIN]))
    finding = by_code(opened(gpu, tmp_path))["WL506"]
    assert finding.gain_bytes == 50 * MB
    assert finding.place == "/home/me/eval.py:3 metric"
    even = Allocator()
    even.alloc(500 * MB, BUILD)
    even.free(even.alloc(20 * MB, FORWARD))
    assert "WL506" not in by_code(opened(even, tmp_path))


def test_a_traces_own_memory_events_have_ops_and_lifetimes(opened: Opened) -> None:
    events = [
        op("aten::mm", 0, 10), memory(2, 4096, 5000, 8000, address=64), kernel("k", 20, 5),
        op("aten::add", 11, 5), memory(12, 512, 5512, 8000, address=8192), memory(14, -512, 5000, 8000, address=8192),
    ]  # fmt: skip
    profile = opened(events)
    frame = profile.table("memory_peak").frame
    held = {(row["category"], row["op"]): row["bytes"] for row in frame.to_dicts()}
    assert held == {("unknown", "aten::mm"): 4096, ("temporary", "aten::add"): 512, ("held before", ""): 904,
                    ("cache", ""): 8000 - 5512}  # fmt: skip
    assert "memory_timeline" in profile.report_names


def test_a_trace_without_memory_has_none_of_the_tables(opened: Opened) -> None:
    profile = opened([kernel("k", 0, 5)])
    assert "memory_peak" not in profile.table_names
    with pytest.raises(warplens.UsageError, match="memory_peak needs a memory snapshot"):
        profile.table("memory_peak")
    with pytest.raises(warplens.UsageError, match="memory_peak needs a memory snapshot"):
        profile.sql("select * from memory_peak")


def test_memory_events_of_the_cpu_are_named_where_the_tables_are_missing(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 10), memory(2, 4096, 5000, 0, device=-1, device_type=0, address=64)])
    with pytest.raises(warplens.UsageError, match="only memory events of the CPU: see memory_ops"):
        profile.table("memory_peak")


def test_a_kept_report_knows_what_missing_tables_need(opened: Opened) -> None:
    profile = opened([kernel("k", 0, 5)])
    again = ReopenedProfile("trace.json", profile.finished(), lambda: pytest.fail("the trace was read"))
    assert again.table_names == profile.table_names
    for name, needs in (("memory_peak", "a memory snapshot"), ("iterations", "passes of a served model")):
        with pytest.raises(warplens.UsageError, match=f"table {name} needs {needs}"):
            again.table(name)
    with pytest.raises(warplens.UsageError, match="did you mean kernels"):
        again.table("kernelz")


def layers_with_caches(count: int, *, freed_together: bool = True) -> list[dict[str, Any]]:
    """A forward pass whose layers each make a key, kept to the end or to the end of the layer, and a scratch tensor."""
    events, total, live = [call("nn.Module: Model_0", 0, 100 * count + 50), kernel("k", 20, 5)], 0, []
    for number in range(count):
        at, key, scratch = 100 * number + 1, 10_000 * (number + 1), 10_000 * (number + 1) + 5_000
        events += [call(f"nn.Module: Layer_{number}", at, 90), call(f"nn.Module: Attention_{number}", at + 1, 40)]
        events += [op("aten::add", at + 2, 8), op("aten::mul", at + 20, 8)]
        events += [memory(at + 3, 4096, total + 4096, 1 << 20, address=key)]
        events += [memory(at + 21, 512, total + 4608, 1 << 20, address=scratch)]
        events += [memory(at + 40, -512, total + 4096, 1 << 20, address=scratch)]
        total += 4096
        if freed_together:
            live.append(key)
        else:
            total -= 4096
            events.append(memory(at + 80, -4096, total, 1 << 20, address=key))
    for number, key in enumerate(reversed(live)):
        total -= 4096
        events.append(memory(100 * count + 10 + number, -4096, total, 1 << 20, address=key))
    return events


def test_what_the_attention_of_every_layer_keeps_is_a_cache(opened: Opened) -> None:
    frame = opened(layers_with_caches(6)).table("memory_peak").frame
    held = {(row["category"], row["module"], row["op"]): row["bytes"] for row in frame.to_dicts() if row["op"]}
    assert held == {
        ("kv cache", "Model/Layer_*/Attention_*", "aten::add"): 6 * 4096,
        ("temporary", "Model/Layer_*/Attention_*", "aten::mul"): 512,
    }


def test_what_attention_gives_back_in_its_layer_is_no_cache(opened: Opened) -> None:
    frame = opened(layers_with_caches(6, freed_together=False)).table("memory_peak").frame
    assert "kv cache" not in set(frame["category"])


def test_keys_of_a_model_that_trains_are_activations(opened: Opened) -> None:
    events = [*layers_with_caches(6), op("autograd::engine::evaluate_function: MulBackward0", 605, 40)]
    assert "kv cache" not in set(opened(events).table("memory_peak").frame["category"])


def test_modules_have_what_they_and_those_inside_hold_at_the_peak(opened: Opened) -> None:
    table = opened(layers_with_caches(6)).table("memory_modules")
    rows = {row["module"]: row for row in table.to_dicts()}
    attention = rows["Model/Layer_*/Attention_*"]
    assert (attention["bytes"], attention["kv_cache_bytes"], attention["temporary_bytes"]) == (25_088, 24_576, 512)
    assert [rows[path]["subtree_bytes"] for path in ("Model", "Model/Layer_*")] == [25_088, 25_088]
    assert (rows["Model"]["bytes"], rows["Model"]["depth"], attention["depth"]) == (0, 0, 2)
    assert table.notes == ()


def test_modules_of_a_recorded_training_account_for_its_whole_peak() -> None:
    profile = warplens.open(ROOT / "samples" / "memory" / "conv_sgd.zip", cache=False)
    frame = profile.table("memory_modules").frame
    peak = profile.table("memory_timeline").frame.filter("is_peak")["allocated_bytes"].item()
    assert frame["bytes"].sum() == peak == frame.filter(pl.col("depth") == 0)["subtree_bytes"].sum()
    activations = profile.table("memory_peak").frame.filter(pl.col("category") == "activations")["bytes"].sum()
    assert frame["activations_bytes"].sum() == activations
    assert any("named by attributes" in note for note in profile.table("memory_peak").notes)
    lines = profile.table("memory_peak").frame["line"].to_list()
    assert not any(line.startswith("gpu_models.py") for line in lines)  # benchmarks/gpu_models.py, as elsewhere
