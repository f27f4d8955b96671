"""Reading: the same events give the same trace, however they are written down and packed."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import (
    Opened,
    annotation,
    differences,
    fwdbwd,
    kernel,
    launch,
    memcpy,
    memory,
    memset,
    op,
    process_name,
    write_trace,
)
from warplens.cli import main

EVENTS = [
    annotation("train", 0, 100),
    op("aten::linear", 10, 50, **{"External id": 1, "Input Dims": [[8, 16], [16, 4]]}),
    op("aten::addmm", 12, 40, **{"External id": 2, "Sequence number": 3}),
    launch(20, 5, 41),
    kernel("sm90_gemm", 30.125, 12.875, 41, grid=[4, 1, 1], block=[128, 1, 1]),
    memcpy(50, 3, bytes=4096),
    memset(54, 1),
    memory(13, 512, 512, 1024),
    *fwdbwd((12, 1), (60, 1), 7),
]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()


def read(path: Path, content: bytes) -> warplens.Trace:
    path.write_bytes(content)
    return warplens.open(path, cache=False).trace


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_bare_list_equals_the_object_form(tmp_path: Path) -> None:
    whole = read(tmp_path / "object.json", TEXT)
    bare = read(tmp_path / "list.json", json.dumps(EVENTS).encode())
    assert len(whole) == 7
    assert differences(whole, bare) == []


PACKINGS = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two gzip members": gzip.compress(TEXT[:200]) + gzip.compress(TEXT[200:]),
    "zip": zipped(trace=TEXT),
    "gzip in zip": zipped(trace=gzip.compress(TEXT)),
}


@pytest.mark.parametrize("name", ["x.txt", "x.json", "x.json.gz", "x.zip", "x"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_packing_is_told_by_content_and_never_by_name(tmp_path: Path, packing: str, name: str) -> None:
    assert differences(read(tmp_path / "plain.json", TEXT), read(tmp_path / name, PACKINGS[packing])) == []


def test_the_trace_is_picked_among_the_members_of_an_archive_and_the_choice_is_noted(tmp_path: Path) -> None:
    content = zipped(**{"readme.md": b"x" * 10_000, "run/trace.json": TEXT})
    trace = read(tmp_path / "run.zip", content)
    assert len(trace) == 7
    assert [note.detail for note in trace.quality.notes if note.code == "zip_members"] == ["run/trace.json"]


def test_reading_twice_gives_equal_traces(tmp_path: Path) -> None:
    assert differences(read(tmp_path / "a.json", TEXT), read(tmp_path / "b.json", TEXT)) == []


def test_the_order_of_events_in_the_file_does_not_matter(tmp_path: Path) -> None:
    backwards = read(tmp_path / "backwards.json", json.dumps(EVENTS[::-1]).encode()).named_events()
    forwards = read(tmp_path / "forwards.json", json.dumps(EVENTS).encode()).named_events()
    numbered_by_appearance = ("spec", "geometry", "lane")
    assert backwards.drop(numbered_by_appearance).equals(forwards.drop(numbered_by_appearance))


def test_white_space_between_events_does_not_matter(tmp_path: Path) -> None:
    indented = read(tmp_path / "indented.json", json.dumps({"traceEvents": EVENTS}, indent=2).encode())
    assert indented.events.equals(read(tmp_path / "plain.json", TEXT).events)


def test_timestamps_written_as_strings_equal_numbers(tmp_path: Path) -> None:
    texts: list[dict[str, Any]] = [{**event, "ts": str(event["ts"])} for event in EVENTS]
    texts = [{**event, "dur": str(event["dur"])} if "dur" in event else event for event in texts]
    numbers = read(tmp_path / "numbers.json", TEXT)
    assert differences(numbers, read(tmp_path / "strings.json", json.dumps(texts).encode())) == []


def starts_and_durations(path: Path, times: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """What the reader makes of times that stand in the file exactly as given, in order of start."""
    template = '{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {}, "dur": {}}}'
    events = ",".join(template.format(ts, dur) for ts, dur in times)
    trace = read(path, f'{{"traceEvents": [{events}]}}'.encode())
    return trace.events.select("start_ns", "dur_ns").rows()


@pytest.mark.parametrize("base", [0, 16_292, 3_843_680_428_209, 3_999_999_999_999])
def test_three_decimals_are_exact_to_the_nanosecond(tmp_path: Path, base: int) -> None:
    thousandths = [0, 1, 2, 17, 333, 499, 500, 501, 666, 845, 998, 999]
    times = [(f"{base}.{part:03d}", f"{part}.{999 - part:03d}") for part in thousandths]
    expected = [(part, part * 1000 + 999 - part) for part in thousandths]
    assert starts_and_durations(tmp_path / "t.json", times) == expected


def test_times_since_1970_are_exact_as_far_as_their_floats_go(tmp_path: Path) -> None:
    """At 1.7e15 µs a float64 has steps of a quarter µs; old PyTorch wrote whole µs there."""
    epoch = 1_700_000_000_000_000
    times = [
        (f"{epoch}", "3"),
        (f"{epoch + 1}.25", "0.001"),
        (f"{epoch + 2}.5", "2.999"),
        (f"{epoch + 86_400_000_000}.75", "1"),
    ]
    expected = [(0, 3000), (1250, 1), (2500, 2999), (86_400_000_000_750, 1000)]
    assert starts_and_durations(tmp_path / "t.json", times) == expected


def test_the_categories_of_old_releases_are_understood(tmp_path: Path) -> None:
    old = {
        "kernel": "Kernel",
        "cuda_runtime": "Runtime",
        "cpu_op": "Operator",
        "gpu_memcpy": "Memcpy",
        "gpu_memset": "Memset",
    }
    renamed = [{**event, "cat": old.get(event["cat"], event["cat"])} for event in EVENTS]
    assert {event["cat"] for event in renamed} >= set(old.values())
    assert (
        differences(read(tmp_path / "new.json", TEXT), read(tmp_path / "old.json", json.dumps(renamed).encode())) == []
    )


def test_the_header_names_the_devices_and_the_rank(opened: Opened) -> None:
    device = {
        "id": 0,
        "name": "NVIDIA H200",
        "totalGlobalMem": 150109880320,
        "numSms": 132,
        "computeMajor": 9,
        "computeMinor": 0,
    }
    header = {
        "deviceProperties": [device, {"id": 1, "name": "AMD Instinct MI300X"}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "with_stack": 1,
        "record_shapes": 0,
        "cuda_driver_version": 13000,
    }
    meta = opened(EVENTS, header).trace.meta
    first, second = meta.devices
    assert (first.id, first.name, first.memory_bytes, first.multiprocessors, first.compute) == (
        0,
        "NVIDIA H200",
        150109880320,
        132,
        "9.0",
    )
    assert (second.id, second.name, second.compute) == (1, "AMD Instinct MI300X", "")
    assert meta.distributed is not None
    assert (meta.distributed.backend, meta.distributed.rank, meta.distributed.world_size) == ("nccl", 3, 8)
    assert meta.facts == {"with_stack": "yes", "cuda_driver_version": "13000"}


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({"rank": 1}, "rank 1"),
        ({"rank": 3, "world_size": 1}, "rank 3"),
        ({"rank": 0, "world_size": 1}, "rank 0 of 1"),
        ({"rank": 3, "world_size": 8}, "rank 3 of 8"),
    ],
)
def test_the_size_of_a_job_is_shown_where_it_is_recorded(
    info: dict[str, int], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A size without a place for this rank is of something else, such as the group of one engine."""
    path = write_trace(tmp_path / "t.json", EVENTS, distributedInfo=info)
    assert main(["report", str(path), "--no-cache"]) == 0
    headline = capsys.readouterr().out.splitlines()[0]
    assert f" · {shown} · " in headline
    assert main(["convert", str(path), "-o", str(tmp_path / "t.perfetto.json")]) == 0
    again = warplens.open(tmp_path / "t.perfetto.json", cache=False).trace.meta.distributed
    assert again == warplens.open(path, cache=False).trace.meta.distributed


def test_the_header_names_the_groups_of_a_rank_and_when_the_trace_began(opened: Opened) -> None:
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]}, {"pg_name": "7", "ranks": [0, 2]}]
    header = {"distributedInfo": {"rank": 2, "world_size": 4, "pg_config": groups}, "baseTimeNanoseconds": 5_000_000}
    meta = opened(EVENTS, header).trace.meta
    assert meta.distributed is not None
    assert [(group.name, group.description, group.ranks) for group in meta.distributed.groups] == [
        ("0", "default_pg", (0, 1, 2, 3)),
        ("7", "", (0, 2)),
    ]
    assert meta.origin_ns - opened(EVENTS).trace.meta.origin_ns == 5_000_000
    for damaged in ("text", [3], [{"pg_name": "0", "ranks": "0, 1"}], {"0": 1}):
        header["distributedInfo"]["pg_config"] = damaged  # type: ignore[index]
        distributed = opened(EVENTS, header).trace.meta.distributed
        assert distributed is not None and distributed.groups == ()


def test_a_collective_keeps_its_number_its_peer_and_its_splits(opened: Opened) -> None:
    send = {"Collective name": "send", "Process Group Name": "0", "Dst Rank": 3, "Seq": 12, "Group size": 4}
    split = {"Collective name": "all_to_allv", "In split size": "[2, 6]", "Out split size": [4, 4]}
    events = [*EVENTS, op("record_param_comms", 300, 5, **send), op("record_param_comms", 310, 5, **split)]
    frame = opened(events).trace.collectives.sort("id")
    assert frame.select("collective", "seq", "peer", "in_splits", "out_splits").rows() == [
        ("send", 12, 3, "", ""),
        ("all_to_allv", -1, -1, "[2, 6]", "[4, 4]"),
    ]


def test_a_header_after_the_events_counts_too(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": EVENTS, "deviceProperties": [{"id": 0, "name": "H100"}]}).encode()
    assert [device.name for device in read(tmp_path / "t.json", text).meta.devices] == ["H100"]


def test_a_listed_device_without_work_is_noted(opened: Opened) -> None:
    profile = opened(EVENTS, {"deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]})
    assert [note.detail for note in profile.trace.quality.notes if note.code == "missing_devices"] == ["GPU 1"]


def test_memory_events_keep_their_sizes_device_time_and_address(opened: Opened) -> None:
    events = [
        op("aten::empty", 100, 10),
        memory(103.5, 512, 2048, 4096, device=2, address=0x7F00),
        memory(107, -512, 1536, 4096, device=2, address=0x7F00),
    ]
    events.append(memory(101, 64, 64, 0, device=-1, device_type=0))
    rows = opened(events).trace.memory.drop("lane").rows()
    assert rows == [
        (1_000, "CPU", 64, 64, 0, -1),
        (3_500, "GPU 2", 512, 2048, 4096, 0x7F00),
        (7_000, "GPU 2", -512, 1536, 4096, 0x7F00),
    ]


def test_every_event_of_the_file_is_counted_by_phase(opened: Opened) -> None:
    meta = opened(EVENTS).trace.meta
    assert meta.phases == {"X": 7, "i": 1, "s": 1, "f": 1}
    assert meta.events_in_file == 10


def timed(name: str, ph: str, ts: float, pid: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "ph": ph, "ts": ts, "pid": pid, "tid": 4, **fields}


def test_a_plain_chrome_trace_has_kernels_on_processes_named_after_a_gpu(opened: Opened) -> None:
    events = [
        process_name(1, "/device:GPU:0 (pid 1)"),
        process_name(2, "/host:CPU"),
        timed("fusion.3", "X", 100, 1, dur=20),
        timed("MemcpyD2H", "X", 130, 1, dur=5),
        timed("CopyDeviceToDevice", "X", 135, 1, dur=2),
        timed("Memset", "X", 140, 1, dur=1),
        timed("execute", "B", 90, 2),
        timed("inner", "B", 92, 2),
        timed("inner", "E", 95, 2),
        timed("execute", "E", 150, 2),
    ]
    trace = opened(events).trace
    found = {row["name"]: (row["kind"], row["start_ns"], row["dur_ns"]) for row in trace.named_events().to_dicts()}
    assert found == {
        "fusion.3": ("kernel", 10_000, 20_000),
        "MemcpyD2H": ("memcpy", 40_000, 5_000),
        "CopyDeviceToDevice": ("memcpy", 45_000, 2_000),
        "Memset": ("memset", 50_000, 1_000),
        "execute": ("op", 0, 60_000),
        "inner": ("op", 2_000, 3_000),
    }
    assert trace.meta.format == "chrome"
    assert trace.quality.has("chrome")
    assert not trace.quality.has("unclosed")


def test_processes_that_are_their_own_names_show_the_gpu(opened: Opened) -> None:
    """As `export_chrome_trace` of PyTorch up to 1.7 writes them."""
    host = {"ph": "X", "name": "aten::mm", "ts": 0.0, "dur": 30.0, "tid": 1, "pid": "CPU functions", "args": {}}
    work = {
        "ph": "X",
        "name": "volta_sgemm_128x64_nn",
        "ts": 10,
        "dur": 15,
        "tid": 0,
        "pid": "CUDA functions",
        "args": {},
    }
    events = opened([host, work]).trace.named_events()
    assert dict(events.select("name", "kind").iter_rows()) == {"aten::mm": "op", "volta_sgemm_128x64_nn": "kernel"}


def test_begin_without_end_and_end_without_begin_are_counted(opened: Opened) -> None:
    events = [timed("a", "X", 0, 1, dur=1), timed("lost", "E", 1, 1), timed("open", "B", 2, 1)]
    notes = opened(events).trace.quality.notes
    assert [note.count for note in notes if note.code == "unclosed"] == [2]


def test_a_pytorch_trace_is_not_called_a_chrome_trace(opened: Opened) -> None:
    trace = opened(EVENTS).trace
    assert trace.meta.format == "kineto"
    assert not trace.quality.has("chrome")


OTHER_FORMATS = {
    "ExecutionTrace": b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}',
    "rocprofv3": b'{\n  "rocprofiler-sdk-tool": [{"metadata": {}, "buffer_records": {"kernel_dispatch": []}}]}',
    "Proton": b'[{"children": [], "frame": {"name": "ROOT", "type": "function"}, "metrics": {}',
    "SQLite": b"SQLite format 3\0\x10\0\x01\x01\0@  ",
    "Nsight Compute": b'==PROF== Connected to process 7\n"ID","Process ID","Process Name"\n"","",""\n',
    "xplane": b"\x0a\xf2\x0e\x08\x01\x12\x09/host:CPU\x1a\x20\x08\x01",
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("format_name", OTHER_FORMATS)
def test_other_formats_are_named_in_the_error(tmp_path: Path, format_name: str, packed: bool) -> None:
    content = OTHER_FORMATS[format_name]
    path = tmp_path / "profile.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(warplens.FormatError, match=format_name) as error:
        warplens.open(path)
    assert str(path) in str(error.value)
    assert error.value.hint


def test_a_trace_on_disk_is_never_written_to(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", EVENTS)
    before = path.read_bytes(), path.stat().st_mtime_ns
    warplens.open(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_the_headline_names_the_gpu_that_worked(opened: Opened) -> None:
    listed = [{"id": number, "name": "MI300X"} for number in range(8)]
    profile = opened([kernel("a", 0, 1, device=2)], {"deviceProperties": listed})
    assert profile.document(()).facts["device"] == "MI300X (GPU 2 of 8 listed)"


def test_a_jax_process_name_gives_the_device_number(opened: Opened) -> None:
    events = [process_name(5, "/device:GPU:0"), {"ph": "X", "name": "fusion_1", "pid": 5, "tid": 14, "ts": 1, "dur": 2}]
    assert opened(events).gpu_events()["device"].to_list() == [0]


def test_a_cut_file_is_not_told_to_record_what_its_header_says_it_had(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 1)], {"with_stack": 1, "record_shapes": 1})
    assert not profile.trace.quality.has("no_stacks")
    assert not profile.trace.quality.has("no_shapes")
