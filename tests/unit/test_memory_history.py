"""Sums of a memory history are the allocator's own at every event, and its peak is the allocator's."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import warplens
from memory_snapshots import FORWARD, MB, Allocator, ExpandableAllocator, frame, snapshot, train, written
from support import SHARED
from warplens.analyses.memory.block_sizes import AllocatorRules, rules_of
from warplens.analyses.memory.history import DeviceHistory
from warplens.analyses.memory.memory_work import MemoryWork
from warplens.analyses.memory.replaying import snapshot_history
from warplens.analyses.memory.timeline import MOST_ROWS, chosen_moments
from warplens.model.memory_facts import DeviceFacts, MemoryFacts
from warplens.readers.memory_snapshot.reader import read

BLOOM = SHARED / "traces" / "h200" / "bloom560m_infer.json.gz"


def history_of(gpu: Allocator, folder: Path, most_events: int = 0, facts: MemoryFacts | None = None) -> DeviceHistory:
    file = written(folder / "s.pickle", snapshot(gpu, most_events=most_events))
    return snapshot_history(read(file), facts=facts).devices[0]


def random_program(seed: int) -> Allocator:
    chance = random.Random(seed)
    gpu, live, waiting = Allocator(), [], []
    for _ in range(250):
        choice = chance.random()
        if choice < 0.5 or not live:
            live.append(gpu.alloc(int(2 ** chance.uniform(4, 25)), FORWARD, chance.choice([0, 0, 7])))
        elif choice < 0.9:
            address, completes = live.pop(chance.randrange(len(live))), chance.random() < 0.8
            gpu.free(address, completes=completes)
            if not completes:
                waiting.append(address)
        elif waiting and choice < 0.95:
            gpu.complete(waiting.pop())
        elif choice > 0.98:
            gpu.empty_cache()
    return gpu


@pytest.mark.parametrize("seed", range(12))
def test_a_whole_history_has_the_allocators_sums_at_every_event(seed: int, tmp_path: Path) -> None:
    gpu = random_program(seed)
    history = history_of(gpu, tmp_path)
    assert history.allocated.tolist() == gpu.allocated
    assert history.reserved is not None
    assert history.reserved.tolist() == gpu.reserved
    assert history.peak_bytes == gpu.peak
    assert history.notes == ()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most_events", [1, 40, 150])
def test_with_the_blocks_at_its_beginning_a_cut_history_is_exact_too(
    seed: int, most_events: int, tmp_path: Path
) -> None:
    gpu = random_program(seed)
    blocks = gpu.used[len(gpu.trace) - most_events - 1]
    facts = MemoryFacts(devices={"0": DeviceFacts(blocks=tuple(blocks.items()))})
    history = history_of(gpu, tmp_path, most_events, facts)
    assert history.allocated.tolist() == gpu.allocated[-most_events:]
    assert history.reserved is not None
    assert history.reserved.tolist() == gpu.reserved[-most_events:]


@pytest.mark.parametrize("seed", range(8))
def test_a_ring_buffer_that_lost_its_beginning_is_off_by_roundings_at_most(seed: int, tmp_path: Path) -> None:
    gpu = random_program(seed)
    history = history_of(gpu, tmp_path, 100)
    assumed = next((note.count for note in history.notes if note.code == "memory_assumed"), 0)
    off = max(abs(a - b) for a, b in zip(history.allocated.tolist(), gpu.allocated[-100:], strict=True))
    assert off <= assumed * MB
    assert history.allocated[-1] == gpu.in_use
    assert any(note.code == "memory_before" for note in history.notes)


def test_frees_without_a_request_on_record_count_when_they_complete(tmp_path: Path) -> None:
    gpu = train(steps=1)
    document = snapshot(gpu)
    kept = [number for number, entry in enumerate(gpu.trace) if entry["action"] != "free_requested"]
    document["device_traces"] = [[gpu.trace[number] for number in kept]]
    history = snapshot_history(read(written(tmp_path / "s.pickle", document))).devices[0]
    assert history.allocated.tolist() == [gpu.allocated[number] for number in kept]


def test_expandable_segments_are_mapped_and_unmapped_in_other_pieces(tmp_path: Path) -> None:
    base, piece = 0x7F0000000000, 20 * MB
    stack = [frame("/home/me/x.py", 1, "f")]
    actions = [
        ("segment_map", base, piece), ("alloc", base, 15 * MB), ("segment_map", base + piece, piece),
        ("alloc", base + 15 * MB, 25 * MB - 700), ("free_requested", base, 15 * MB), ("free_completed", base, 15 * MB),
        ("free_requested", base + 15 * MB, 25 * MB - 700), ("free_completed", base + 15 * MB, 25 * MB - 700),
        ("segment_unmap", base + 10 * MB, 30 * MB),
    ]  # fmt: skip
    events = [
        {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 5 + number, "frames": stack}
        for number, (action, address, size) in enumerate(actions)
    ]
    segment = {"device": 0, "address": base, "total_size": 10 * MB, "stream": 0, "segment_type": "large",
               "is_expandable": True, "blocks": [{"address": base, "size": 10 * MB, "state": "inactive"}]}  # fmt: skip
    history = snapshot_history(
        read(written(tmp_path / "s.pickle", {"segments": [segment], "device_traces": [events]}))
    ).devices[0]
    rounded = 25 * MB - 512
    assert history.allocated.tolist() == [0, 15 * MB, 15 * MB, 15 * MB + rounded, rounded, rounded, 0, 0, 0]
    assert history.reserved is not None
    assert history.reserved.tolist() == [piece, piece, *[2 * piece] * 6, 10 * MB]


def expandable_program(gpu: ExpandableAllocator, seed: int, turns: int = 250) -> ExpandableAllocator:
    chance = random.Random(seed)
    held: list[int] = []
    for _ in range(turns):
        kind = chance.random()
        if held and kind < 0.45:
            gpu.free(held.pop(chance.randrange(len(held))))
        elif kind < 0.49:
            gpu.empty_cache()
        else:
            held.append(gpu.alloc(chance.choice([700, 300_000, 3 * MB + 17, 19 * MB, 55 * MB, 130 * MB]), FORWARD))
    return gpu


@pytest.mark.parametrize("seed", range(6))
def test_expandable_segments_have_the_allocators_sums_at_every_event(seed: int, tmp_path: Path) -> None:
    gpu = expandable_program(ExpandableAllocator(), seed)
    assert any(event["action"] == "segment_unmap" for event in gpu.trace)
    profile = warplens.open(written(tmp_path / "s.pickle", snapshot(gpu)), cache=False)
    history = snapshot_history(read(tmp_path / "s.pickle")).devices[0]
    assert history.allocated.tolist() == gpu.allocated
    assert history.reserved is not None
    assert history.reserved.tolist() == gpu.reserved
    ends = [row for row in profile.table("fragmentation").to_dicts() if row["moment"] == "end"]
    assert all(row["is_expandable"] for row in ends)
    assert all(row["used_bytes"] + row["cache_bytes"] + row["lost_bytes"] == row["reserved_bytes"] for row in ends)
    assert sum(row["used_bytes"] for row in ends) == gpu.in_use
    assert sum(row["cache_bytes"] for row in ends) == gpu.unused_pages()
    largest = dict.fromkeys((True, False), 0)
    for block in gpu.blocks.values():
        if block["state"] == "inactive":
            largest[block["small"]] = max(largest[block["small"]], block["size"])
    assert {row["pool"] == "small": row["largest_free_bytes"] for row in ends} == largest


@pytest.mark.parametrize("seed", range(3))
def test_expandable_segments_of_a_history_that_lost_its_beginning(seed: int, tmp_path: Path) -> None:
    gpu = expandable_program(ExpandableAllocator(), seed)
    document = snapshot(gpu, most_events=120)
    history = snapshot_history(read(written(tmp_path / "s.pickle", document))).devices[0]
    assert history.allocated.tolist() == gpu.allocated[-120:]
    assert history.reserved is not None
    assert history.reserved.tolist() == gpu.reserved[-120:]


def test_two_devices_have_histories_of_their_own(tmp_path: Path) -> None:
    first, second = train(steps=1), Allocator(1)
    second.alloc(5 * MB, FORWARD)
    history = snapshot_history(read(written(tmp_path / "s.pickle", snapshot(first, second))))
    assert [(device.device, device.peak_bytes) for device in history.devices] == [
        ("GPU 0", first.peak), ("GPU 1", second.peak)
    ]  # fmt: skip


def test_rounding_follows_the_allocators_settings() -> None:
    rules = rules_of({"roundup_power2_divisions.1": "4", "max_split_size": str(200 * MB), "x": "1"})
    assert rules.rounded(1300 << 10) == 1536 << 10
    assert rules.rounded(700) == 1024
    assert not rules.splits(200 * MB, 50 * MB)
    assert AllocatorRules().splits(2 * MB, MB + 512)
    assert not AllocatorRules().splits(2 * MB, MB)


def test_a_long_history_is_thinned_without_its_peak_and_its_ends_getting_lost() -> None:
    import numpy as np

    allocated = np.random.default_rng(1).integers(0, 1 << 40, 100_000)
    chosen = chosen_moments(allocated, int(allocated.argmax()))
    assert len(chosen) <= MOST_ROWS + 3
    assert allocated[chosen].max() == allocated.max()
    assert {0, len(allocated) - 1} <= set(chosen.tolist())


@pytest.mark.skipif(not BLOOM.exists(), reason="the traces beside the checkout are absent")
def test_sums_of_a_profilers_events_are_the_totals_that_it_recorded() -> None:
    import warplens

    profile = warplens.open(BLOOM).with_timeline()
    from warplens.analyses.memory.traced import memory_work

    work = memory_work(profile.workspace)
    assert isinstance(work, MemoryWork)
    [device] = work.devices
    # What no event accounts for was allocated before: the same amount at every event.
    assert set(device.unrecorded.tolist()) == {int(device.unrecorded[0])}
    recorded = profile.trace.memory.filter(pl.col("device") == "GPU 0")["allocated_bytes"]
    assert device.history.peak_bytes == recorded.max()
    frame = profile.table("memory_timeline").frame
    parts = [
        name for name in frame.columns if name.endswith("_bytes") and name not in ("allocated_bytes", "reserved_bytes")
    ]
    assert (frame.select(pl.sum_horizontal(parts)).to_series() == frame["allocated_bytes"]).all()
