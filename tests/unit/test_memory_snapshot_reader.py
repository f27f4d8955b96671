"""Reading memory snapshots: pickles as data, never as programs."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import pickletools
import random
from pathlib import Path
from typing import Any

import pytest

import warplens
from memory_snapshots import FORWARD, MB, Allocator, snapshot, train, written
from support import ends
from warplens.readers.memory_snapshot.reader import read
from warplens.readers.memory_snapshot.unpickling import REFUSED, loads
from warplens_run.base.errors import FormatError

PLAIN: dict[str, Any] = {
    "numbers": [0, 1, -1, 255, 256, 65_536, -(2**31), 2**40, 2**63, -(2**70), 0.5, True, False, None],
    "texts": ["", "a", "é" * 300, "x" * 70_000, "line\nof\ttext"],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "nested": {"a": {"b": [[], {}]}, 7: "seven"},
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol_is_what_pickle_reads(protocol: int) -> None:
    assert loads(pickle.dumps(PLAIN, protocol)) == PLAIN


def test_pickles_of_the_python_implementation_are_read_too() -> None:
    stream = io.BytesIO()
    pickle._Pickler(stream, 2).dump(PLAIN)  # type: ignore[attr-defined]
    assert loads(stream.getvalue()) == PLAIN


def test_shared_and_circular_objects_stay_one() -> None:
    inner: list[Any] = [1]
    document = {"a": inner, "b": inner}
    inner.append(document)
    decoded = loads(pickle.dumps(document))
    assert decoded["a"] is decoded["b"]
    assert decoded["a"][1] is decoded


def test_equal_stacks_are_one_object_and_lists_of_more_than_a_batch_are_whole() -> None:
    frames = [{"line": number} for number in range(300)]
    document = {"frames": frames, "short": [frames[:50], frames[:50]], "long": frames * 7}
    decoded = loads(pickle.dumps(document))
    assert decoded["short"][0] is decoded["short"][1]
    assert [list(stack) for stack in decoded["short"]] == document["short"]
    assert list(decoded["long"]) == document["long"]


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/warplens_was_here",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_refused_by_its_opcode(protocol: int, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps({"segments": [Runs()], "device_traces": []}, protocol))
    with pytest.raises(FormatError, match=r"opcode (STACK_)?GLOBAL, which does more than hold data"):
        warplens.open(file)
    assert not Path("/tmp/warplens_was_here").exists()


@pytest.mark.parametrize("code", sorted(REFUSED))
def test_every_opcode_that_does_more_is_refused_by_name(code: int) -> None:
    with pytest.raises(FormatError, match=f"opcode {REFUSED[code]},"):
        loads(b"\x80\x04K\x01K\x02" + bytes([code]) + b"\x00" * 9 + b"\n.")


def test_every_opcode_of_pickle_is_either_data_or_refused() -> None:
    unknown = []
    for opcode in pickletools.opcodes:
        try:
            loads(opcode.code.encode("latin-1") + b"\x00" * 16)
        except FormatError as error:
            if "unknown opcode" in error.message:
                unknown.append(opcode.name)
    assert unknown == []


@pytest.mark.parametrize(
    ("bomb", "message"),
    [
        (b"\x80\x04" + b"}" * 2_000_000 + b".", "more containers"),
        (b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.", "ends early"),
        (b"\x80\x04\x8b\xff\xff\xff\x7f.", "number that is too long"),
        (b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".", "number that is too long"),
        (b"L" + b"9" * 100_000 + b"L\n.", "number that is too long"),
        (b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f.", "ends early"),
        (b"\x80\x04h\x05.", "is damaged"),
        (b"\x80\x04u.", "ends early"),
        (b"\x80\x09.", "protocol 9"),
        (b"\x80\x04](.", "ends early"),
    ],
)
def test_bombs_and_damage_end_in_one_clear_error(bomb: bytes, message: str) -> None:
    with ends("an unpickler"), pytest.raises(FormatError, match=message):
        loads(bomb)


def test_a_pickle_that_is_cut_says_how_much_of_it_is_there() -> None:
    whole = pickle.dumps([{"frames": list(range(300))}] * 9)
    with pytest.raises(FormatError, match=r"the pickle ends early, after 100 bytes$") as caught:
        loads(whole[:100])
    assert caught.value.hint.endswith("copy or write it again")


def test_a_memo_number_of_four_billion_takes_no_memory() -> None:
    assert loads(b"\x80\x02K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff.") == 7


def test_keys_chosen_to_collide_are_refused() -> None:
    prime = (1 << 61) - 1
    with ends("a dict"), pytest.raises(FormatError, match="is damaged"):
        loads(pickle.dumps({number * prime: 0 for number in range(1, 2000)}))


def test_doubled_lists_cost_what_they_say(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested, nested]
    file = tmp_path / "x.pickle"
    file.write_bytes(pickle.dumps({"segments": nested, "device_traces": nested}))
    with ends("nested lists"):
        assert len(read(file).events) == 0


def test_a_cut_or_damaged_snapshot_ends_in_an_error_or_a_snapshot(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot(train(steps=1)))
    file = tmp_path / "x.pickle"
    chance = random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(2, len(damaged))] = chance.randrange(256)
        file.write_bytes(bytes(damaged[: chance.randrange(10, len(damaged) + 1)]))
        try:
            profile = warplens.open(file)
            for name in profile.report_names:
                profile.table(name)
        except FormatError:
            pass


def test_packed_and_json_snapshots_are_the_same(tmp_path: Path) -> None:
    document = snapshot(train())
    plain = written(tmp_path / "s.pickle", document)
    packed = tmp_path / "s.pickle.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    text = written(tmp_path / "s.json", document)
    peaks = [warplens.open(path).table("memory_peak").to_dicts() for path in (plain, packed, text)]
    assert peaks[0] == peaks[1] == peaks[2]
    assert peaks[0]


def test_snapshots_of_old_versions_have_no_times_and_stacks_in_a_history(tmp_path: Path) -> None:
    gpu = Allocator()
    gpu.alloc(3 * MB, FORWARD)
    gpu.free(gpu.alloc(2 * MB, FORWARD))
    document = snapshot(gpu)
    for entry in document["device_traces"][0]:
        del entry["time_us"]
    for block in document["segments"][0]["blocks"]:
        size = block.pop("requested_size")
        del block["address"]
        frames = block.pop("frames")
        block["history"] = [{"addr": 0, "real_size": size, "frames": frames}] if frames else []
    profile = warplens.open(written(tmp_path / "old.pickle", document))
    assert profile.table("memory_timeline").frame["allocated_bytes"].to_list() == gpu.allocated
    assert "no_memory_times" in profile.table("quality").frame["code"].to_list()


def test_a_history_of_one_event_and_blocks_with_a_history_are_of_old_versions_too(tmp_path: Path) -> None:
    """PyTorch 1.13 and 2.0 keep one event unless more are asked for."""
    gpu = train(steps=1)
    document = snapshot(gpu, most_events=1)
    for segment in document["segments"]:
        for block in segment["blocks"]:
            block["history"] = [{"addr": block.pop("address"), "real_size": block["requested_size"],
                                 "frames": block.pop("frames")}]  # fmt: skip
    profile = warplens.open(written(tmp_path / "old.pickle", document))
    frame = profile.table("memory_peak").frame
    beside = frame["category"].is_in(["cache", "fragmentation"])
    assert frame.filter(~beside)["bytes"].sum() == gpu.in_use
    assert frame.filter(category="parameters")["bytes"].sum() == 16 * MB + 3 * 512 * 2
    assert "memory_before" in profile.table("quality").frame["code"].to_list()


def test_what_later_versions_add_changes_nothing(tmp_path: Path) -> None:
    """Events of other kinds, marks of the program, private pools and more devices than are used."""
    gpu = train(steps=1)
    document = snapshot(gpu)
    entries = document["device_traces"][0]
    entries.insert(3, {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "time_us": entries[3]["time_us"],
                       "user_metadata": "epoch 1", "pool_id": (0, 1), "frames": []})  # fmt: skip
    entries.insert(9, {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": entries[9]["time_us"]})
    document["device_traces"] += [[], []]
    document["external_annotations"] = [{"stage": "START", "name": "Optimizer.step", "device": 0, "time_us": 1}]
    document["segments"][0]["segment_pool_id"] = (0, 3)
    profile = warplens.open(written(tmp_path / "new.pickle", document))
    allocated = profile.table("memory_timeline").frame["allocated_bytes"].to_list()
    assert [size for place, size in enumerate(allocated) if place not in (3, 9)] == gpu.allocated
    assert profile.table("quality").to_dicts() == []
    assert "large of pool 0.3" in profile.table("fragmentation").frame["pool"].to_list()


@pytest.mark.parametrize("size", [-(1 << 20), 1 << 43, (1 << 63) - 1, 1 << 70])
def test_sizes_that_no_memory_has_are_counted_and_omitted(size: int, tmp_path: Path) -> None:
    gpu = train(steps=1)
    document = snapshot(gpu)
    for block in document["segments"][0]["blocks"]:
        block["size"] = size
    document["segments"][1]["total_size"] = size
    document["device_traces"][0][5]["size"] = size
    profile = warplens.open(written(tmp_path / "x.pickle", document))
    for name in profile.report_names:
        profile.table(name)
    messages = {row["code"]: row["message"] for row in profile.table("quality").to_dicts()}
    assert "size: " in messages["snapshot_values"]
    assert "segment: 0" not in messages["snapshot_values"]


def test_segments_alone_are_a_snapshot_without_a_history(tmp_path: Path) -> None:
    gpu = train(steps=1)
    file = tmp_path / "segments.pickle"
    file.write_bytes(pickle.dumps(snapshot(gpu)["segments"]))
    profile = warplens.open(file)
    assert profile.table("memory_timeline").frame["allocated_bytes"].to_list() == [gpu.in_use]
    assert "no_memory_history" in profile.table("quality").frame["code"].to_list()


@pytest.mark.parametrize(("content", "why"), [(b"\0\1no", "neither a pickle nor JSON"), (b"{3", "damaged JSON: ")])
def test_what_is_no_pickle_is_refused_with_how_to_make_a_snapshot(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "no.pickle"
    file.write_bytes(content)
    with pytest.raises(FormatError, match="not a memory snapshot of PyTorch") as error:
        read(file)
    assert why in str(error.value)
    assert "_record_memory_history" in (error.value.hint or "")


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, "text", None])
def test_other_pickles_are_no_snapshots(content: object, tmp_path: Path) -> None:
    file = tmp_path / "x.pickle"
    file.write_bytes(pickle.dumps(content))
    with pytest.raises(FormatError, match="not a memory snapshot of PyTorch"):
        warplens.open(file)
