"""Small files that would become large: the budget refuses them with one line before memory and time are spent."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import warplens
from protobuf_bytes import encode
from support import Opened, kernel, launch, memcpy
from warplens.analyses.memory.segments import ReservedRanges
from warplens.analyses.trees.rates import offered
from warplens.model.budget import FREE_VALUES, VALUES_PER_BYTE, Budget, budget_of, spend
from warplens.model.tree import Tree
from warplens.readers.bundle.launches import Launch, LaunchedKernel, Launches, join
from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.hlo import read_module
from warplens_run.base.errors import FormatError

EVENT = {"action": "alloc", "addr": 1, "size": 512, "stream": 0, "frames": []}
BLOCK = {"address": 1, "size": 512, "state": "active_allocated", "frames": []}
SEGMENT = {"device": 0, "address": 1, "total_size": 512, "stream": 0, "blocks": [BLOCK] * 40_000}


def shared_events() -> bytes:
    return gzip.compress(pickle.dumps({"segments": [], "device_traces": [[EVENT] * 40_000] * 1000}))


def shared_blocks() -> bytes:
    return gzip.compress(pickle.dumps({"segments": [SEGMENT] * 1000, "device_traces": []}))


def many_metrics() -> bytes:
    """As many names of metrics as nodes: a column for each of them would have a cell for each node."""
    nodes = [
        {"frame": {"name": f"k{number}"}, "metrics": {"time (ns)": 10, f"m{number}": 1}, "children": []}
        for number in range(5000)
    ]
    return gzip.compress(json.dumps([{"frame": {"name": "ROOT"}, "metrics": {}, "children": nodes}, {}]).encode())


@pytest.mark.parametrize("made", [shared_events, shared_blocks, many_metrics], ids=lambda made: made.__name__)
def test_a_small_file_that_would_become_large_is_refused(made: Callable[[], bytes], tmp_path: Path) -> None:
    path, begun = tmp_path / "file", time.process_time()
    path.write_bytes(made())
    with pytest.raises(FormatError, match=r"would become more than [\d,]+ values") as refused:
        warplens.open(path, cache=False)
    assert refused.value.options == ("max_size",)
    assert time.process_time() - begun < 15


def test_the_user_may_allow_a_file_more(tmp_path: Path) -> None:
    assert Budget(1000, "x", chosen_bytes=1 << 40).most > 1000 * Budget(1000, "x").most
    path = tmp_path / "wide.hatchet"
    path.write_bytes(many_metrics())
    assert len(warplens.open(path, cache=False, max_size="8GiB").table("kernels")) == 5000


def test_a_budget_grows_with_the_file_and_ends_with_it() -> None:
    with budget_of(1 << 20, "file"):
        spend(FREE_VALUES + VALUES_PER_BYTE * (1 << 20), "rows")
        with budget_of(10, "inside"):
            spend(FREE_VALUES, "rows")
        with pytest.raises(FormatError, match=r"file: its 1.0 MiB would become more than 3,097,152 values \(rows\)"):
            spend(1, "rows")
    spend(1 << 40, "rows of no file")


def test_what_fusions_call_is_read_once() -> None:
    """3,000 fusions call one computation of 3,000 instructions."""
    inside = [(2, encode((1, f"add.{n}"), (2, "add"), (35, n))) for n in range(3000)]
    fusions = [(2, encode((1, f"fusion.{n}"), (2, "fusion"), (35, n), (38, 7))) for n in range(3000)]
    fused, main = encode(*inside, (5, 7), (7, 1)), encode(*fusions, (5, 1))
    begun = time.process_time()
    assert len(read_module(encode((1, encode((3, fused), (3, main)))), Damage()).instructions) == 3000
    assert time.process_time() - begun < 2


def test_launches_of_many_kernels_are_matched_in_one_pass(opened: Opened) -> None:
    """5,000 kernels of 5,000 names, launched once each, in an order of 5,000."""
    kernels = [LaunchedKernel(f"k{number}", f"k{number}") for number in range(5000)]
    launches = Launches(kernels, [Launch(number, [1, 1, 1]) for number in range(5000)], list(range(5000)))
    events = []
    for number in range(5000):
        events.append(launch(20 * number, 5, number + 1))
        events.append(kernel(f"k{number}", 20 * number + 9, 5, number + 1, grid=[1, 1, 1], block=[32, 1, 1]))
    trace = opened(events).trace
    begun = time.process_time()
    joined = join(trace, launches)
    assert len(joined.launched) == 5000
    assert time.process_time() - begun < 2


def test_impossible_ranges_of_memory_are_not_divided_into_pages() -> None:
    ranges = ReservedRanges()
    ranges.reserve(0, 1 << 42, 0, 0, is_expandable=True)
    assert len(ranges.frame()) == 1
    small = ReservedRanges()
    small.reserve(0, 8 << 20, 0, 0, is_expandable=True)
    assert len(small.frame()) == 4


def test_ranges_of_memory_that_overlap_are_given_back_once() -> None:
    ranges = ReservedRanges()
    ranges.reserve(0, 100, 0, 0, is_expandable=False)
    ranges.reserve(50, 100, 1, 0, is_expandable=False)
    ranges.give_back(0, 150, 2, 0, is_expandable=False)
    assert set(ranges.frame()["end"].to_list()) == {1, 2}


def test_a_job_of_more_ranks_than_there_can_be_is_of_unknown_size(opened: Opened) -> None:
    events = [launch(0, 5, 1), kernel("k", 10, 5, 1)]
    whole = opened(events, {"distributedInfo": {"rank": 3, "world_size": 16}}).trace.meta.distributed
    damaged = opened(events, {"distributedInfo": {"rank": 3, "world_size": 10**12}}).trace.meta.distributed
    assert whole is not None and damaged is not None
    assert (whole.world_size, damaged.world_size, damaged.rank) == (16, 0, 3)


def test_sums_of_impossible_sizes_stay_numbers(opened: Opened) -> None:
    events = []
    for number in range(30):
        events += [launch(20 * number, 5, number + 1), memcpy(20 * number + 9, 5, number + 1, bytes=1 << 61)]
        events += [launch(20 * number + 6, 2, 100 + number)]
        events.append(kernel("gemm", 20 * number + 15, 2, 100 + number, grid=[1 << 40] * 3, block=[128, 1, 1]))
    profile = opened(events)
    for name in profile.table_names:
        profile.table(name)


def test_a_tree_of_many_metrics_offers_them_in_one_pass() -> None:
    metrics = {f"m{number}": np.ones(1) for number in range(20_000)}
    tree = Tree(["all"], ["root"], *(np.zeros(1, np.int64) for _ in range(6)), metrics=metrics)
    begun = time.process_time()
    assert len(offered(tree)) >= 20_000
    assert time.process_time() - begun < 10
