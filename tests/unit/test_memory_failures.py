"""Snapshots of programs that ran out of memory: what was asked for, what was free, why that did not suffice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warplens
from memory_snapshots import FORWARD, MB, MODEL, Allocator, ExpandableAllocator, failed, snapshot, train, written
from support import ROOT, RunInside
from warplens.analyses.memory.block_sizes import segment_bytes


def full() -> Allocator:
    gpu = Allocator()
    for _ in range(9):
        gpu.alloc(60 * MB, FORWARD)
    return gpu


def in_pieces() -> Allocator:
    gpu = full()
    for address in list(gpu.blocks)[::2]:
        gpu.free(address)
    return gpu


def rows(gpu: Allocator, folder: Path) -> list[dict[str, Any]]:
    return list(warplens.open(written(folder / "s.pickle", snapshot(gpu))).table("memory_failures").to_dicts())


@pytest.mark.parametrize(
    ("gpu", "requested", "free", "cause"),
    [
        (full(), 400 * MB, 14 * MB, "full"),
        (full(), 400 * MB, None, "full"),
        (in_pieces(), 200 * MB, 14 * MB, "fragmented"),
        (in_pieces(), 400 * MB, 14 * MB, "full"),
        (full(), 400 * MB, 900 * MB, "limited"),
        (full(), 5 * MB, 14 * MB, "fragmented"),  # new memory for it comes in 20 MiB
    ],
)
def test_a_failure_has_its_cause(gpu: Allocator, requested: int, free: int | None, cause: str, tmp_path: Path) -> None:
    (row,) = rows(failed(gpu, requested, free), tmp_path)
    assert (row["requested_bytes"], row["device_free_bytes"], row["cause"]) == (requested, free, cause)
    assert row["allocated_bytes"] == gpu.in_use
    assert row["reserved_bytes"] == 540 * MB
    assert row["reserved_free_bytes"] == 540 * MB - gpu.in_use
    assert row["largest_free_bytes"] == (60 * MB if gpu.in_use < 540 * MB else 0)
    assert row["line"] == f"{MODEL}:12 forward"


def test_the_verdict_begins_with_why_memory_ran_out(tmp_path: Path) -> None:
    path = written(tmp_path / "s.pickle", snapshot(failed(in_pieces(), 200 * MB, 14 * MB)))
    verdict = warplens.open(path).verdict()
    assert verdict.startswith(
        f"Out of memory on GPU 0: 200.0 MiB were asked for at {MODEL}:12 forward; 14.0 MiB were free on the device and "
        "300.0 MiB in segments, at most 60.0 MiB in one piece (fragmented). The peak is "
    )
    assert {finding.code for finding in warplens.open(path).findings()} >= {"WL505"}


def test_a_failure_changes_no_sum(tmp_path: Path) -> None:
    gpu = failed(train(steps=1), 90 * MB, 1 * MB)
    frame = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu))).table("memory_timeline").frame
    assert frame["allocated_bytes"].to_list() == gpu.allocated
    assert not rows(train(steps=1), tmp_path)


def test_the_report_has_the_categories_of_the_peak_before_its_places(tmp_path: Path, run_inside: RunInside) -> None:
    path = written(tmp_path / "s.pickle", snapshot(train()))
    text = run_inside("report", path, COLUMNS="80").stdout
    lines = text[text.index("memory at the peak") :].splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["optimizer state", "activations", "fragmentation"]
    assert max(len(line) for line in text.splitlines() if "warplens show" not in line) <= 80


def sparse(gpu: Allocator) -> Allocator:
    """Of every eight blocks one stays."""
    for number, address in enumerate([gpu.alloc(5 * MB, FORWARD) for _ in range(160)]):
        if number % 8:
            gpu.free(address)
    for _ in range(15):
        gpu.alloc(70 * MB, FORWARD)
    return gpu


def test_a_failure_with_expandable_segments_has_the_pages_that_are_left(tmp_path: Path) -> None:
    gpu = sparse(ExpandableAllocator())
    gpu.empty_cache()  # as PyTorch does before it gives up
    (row,) = rows(failed(gpu, 400 * MB, 900 * MB), tmp_path)
    assert row["cause"] == "limited"
    assert row["allocated_bytes"] == gpu.in_use
    assert row["reserved_bytes"] == sum(gpu.segments.values())
    free = [block["size"] for block in gpu.blocks.values() if block["state"] == "inactive"]
    assert row["reserved_free_bytes"] == sum(free)
    assert row["largest_free_bytes"] == max(free)


def test_expandable_segments_are_not_proposed_where_they_are_in_use(tmp_path: Path) -> None:
    for gpu, codes in ((sparse(Allocator()), ["WL505"]), (sparse(ExpandableAllocator()), [])):
        profile = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu)), cache=False)
        assert [finding.code for finding in profile.findings() if finding.code == "WL505"] == codes


def test_a_real_failure_with_expandable_segments_equals_pytorchs_own_figures() -> None:
    """Truth: `torch.cuda.memory_stats()` in the observer of the failure, on an H200 with a memory fraction of 0.05."""
    profile = warplens.open(ROOT / "samples" / "memory" / "gpt_expandable_oom.pickle.gz", cache=False)
    timeline = profile.table("memory_timeline").frame
    assert timeline["allocated_bytes"].max() == 7_242_355_200
    assert timeline["reserved_bytes"].max() == 7_304_380_416
    (row,) = profile.table("memory_failures").to_dicts()
    assert (row["requested_bytes"], row["device_free_bytes"]) == (1_478_937_600, 143_232_466_944)
    assert segment_bytes(row["requested_bytes"]) == 1_480_589_312, "what the observer was told"
    assert (row["allocated_bytes"], row["reserved_bytes"]) == (6_007_649_792, 6_067_060_736)
    assert row["reserved_free_bytes"] == 6_067_060_736 - 6_007_649_792
    assert row["cause"] == "limited"
    assert profile.verdict() == (
        "Out of memory on GPU 0: 1.4 GiB were asked for, beyond a limit of the process; 133.4 GiB were free on the device. "
        "The peak is 6.7 GiB on GPU 0: temporary 2.6 GiB, activations 2.6 GiB, optimizer state 938.0 MiB."
    )
    assert "WL505" not in {finding.code for finding in profile.findings()}, "its segments are expandable"
