"""Nsight Systems exports: kernels, copies, calls and ranges become the same trace as any other."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from damage import scrambled
from nsys_files import BOOT, GEMM, PID, TID, NsysFile, global_id, opened, summed, training_step
from warplens.model.check import self_check
from warplens.model.trace import Meta, Trace
from warplens.passes import run_passes
from warplens.readers import sqlite_file
from warplens.readers.shared import sqlite_tables
from warplens_run.base.errors import FormatError

GPU_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")


def gpu_rows(trace: Trace) -> list[dict[str, Any]]:
    rows = trace.named_events()[trace.gpu_rows.tolist()].to_dicts()
    return sorted(rows, key=lambda row: (row["start_ns"], row["name"]))


def name_of(trace: Trace, row: int) -> str:
    return trace.names[trace.ints("name")[row]] if row >= 0 else ""


def names_on_host(trace: Trace, kind: str) -> list[str]:
    return [name_of(trace, row) for row in trace.rows_of(kind).tolist()]


def codes(trace: Trace) -> set[str]:
    return {note.code for note in trace.quality.notes}


def test_totals_are_the_databases_own_sums(tmp_path: Path) -> None:
    path = training_step().write(tmp_path / "r.sqlite")
    profile = opened(path)
    self_check(profile.trace)
    expected = summed(path, *GPU_TABLES)
    assert int(profile.gpu_events()["dur_ns"].sum()) == expected == 33_002 + 6_012 + 1_106
    categories = profile.table("kernel_categories").frame
    assert categories["total_us"].sum() == pytest.approx(expected / 1_000, abs=1e-9)
    assert "GEMM" in categories["kernel_category"].to_list()
    first = gpu_rows(profile.trace)[0]
    assert (first["start_ns"], first["dur_ns"]) == (12_007, 6_012)


def test_work_knows_its_launch_and_the_ranges_around_it(tmp_path: Path) -> None:
    profile = opened(training_step().write(tmp_path / "r.sqlite"))
    trace = profile.trace
    launches = {row["name"]: name_of(trace, row["launch"]) for row in gpu_rows(trace)}
    assert launches == {
        GEMM: "cudaLaunchKernel",
        "Memcpy HtoD (Pageable -> Device)": "cudaMemcpyAsync",
        "Memset (Device)": "cuMemsetD8Async",
    }
    tree = profile.tree("annotation", short_names=False)
    paths = [tree.path(node) for node in range(len(tree))]
    assert any(path[:2] == ["step 0", "forward"] and path[-1] == GEMM for path in paths)
    assert not {"damaged", "truncated", "unlinked_kernels", "unnamed", "duplicate_correlation"} & codes(trace)


def test_a_kernel_has_its_geometry_and_a_copy_its_bytes(tmp_path: Path) -> None:
    trace = opened(training_step().write(tmp_path / "r.sqlite")).trace
    kernel = next(row for row in gpu_rows(trace) if row["name"] == GEMM)
    assert trace.geometries.row(kernel["geometry"]) == ("[12, 3, 1]", "[128, 1, 1]", 64, 5_120, -1.0)
    sizes = {name_of(trace, row): size for row, size in trace.copies.rows()}
    assert sizes == {"Memcpy HtoD (Pageable -> Device)": 4_096, "Memset (Device)": 512}


def test_gpus_versions_and_names_are_told_and_the_environment_is_not(tmp_path: Path) -> None:
    file = training_step()
    for name, value in (("NvDriverVersion", "580.95.05"), ("DeviceEnvironment", "TOKEN=hidden"), ("Hostname", "box")):
        file.add("TARGET_INFO_SYSTEM_ENV", name=name, value=value)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert trace.meta.format == "nsys"
    assert trace.meta.facts == {
        "Nsight Systems version": "2024.6.2.225",
        "export schema version": "3.16.1",
        "driver version": "580.95.05",
    }
    (gpu,) = trace.meta.devices
    assert (gpu.id, gpu.name, gpu.multiprocessors, gpu.compute) == (0, "NVIDIA H100 80GB HBM3", 132, "9.0")
    assert (gpu.memory_bytes, gpu.threads_per_multiprocessor, gpu.warp_size) == (85_017_493_504, 2_048, 32)
    assert (str(PID), str(TID), "python3", "main thread") in trace.lanes.rows()


def test_every_table_and_tree_of_a_report_can_be_made(tmp_path: Path) -> None:
    profile = opened(training_step().write(tmp_path / "r.sqlite"))
    made = {table.name: table.frame for table in profile.tables()}
    busy = made["timeline"].filter(measure="busy")["time_ms"].to_list()
    assert busy == pytest.approx([(33_002 + 6_012 + 1_106) / 1e6] * len(busy), abs=1e-9)
    assert set(made["kernels"]["count"]) == {1}
    for context in ("python", "module", "op", "annotation"):
        tree = profile.tree(context, short_names=False)
        assert GEMM in {tree.path(node)[-1] for node in range(1, len(tree))}


def test_kernels_of_a_graph_belong_to_its_launch(tmp_path: Path) -> None:
    file = NsysFile()
    file.call("cudaGraphLaunch_v10000", 100, 200, 5)
    for place in range(3):
        file.kernel(f"node_{place}", 1_000 + 100 * place, 1_080 + 100 * place, 5, graphNodeId=(9 << 32) + place)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert [name_of(trace, row["launch"]) for row in gpu_rows(trace)] == ["cudaGraphLaunch"] * 3
    assert "graph_mode" in codes(trace)
    assert "graph_level" not in codes(trace)


def test_a_graph_recorded_as_a_whole_is_gpu_time_and_is_told(tmp_path: Path) -> None:
    file = NsysFile()
    for place in range(2):
        file.call("cudaGraphLaunch_v10000", 100 + 5_000 * place, 200 + 5_000 * place, 5 + place)
        file.graph(3, 1_000 + 5_000 * place, 4_500 + 5_000 * place, 5 + place)
    path = file.write(tmp_path / "r.sqlite")
    trace = opened(path).trace
    assert [row["name"] for row in gpu_rows(trace)] == ["CUDA graph 3 (whole graph)"] * 2
    assert sum(row["dur_ns"] for row in gpu_rows(trace)) == summed(path, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE") == 7_000
    assert [name_of(trace, row["launch"]) for row in gpu_rows(trace)] == ["cudaGraphLaunch"] * 2
    (note,) = [note for note in trace.quality.notes if note.code == "graph_level"]
    assert note.count == 2
    assert "--cuda-graph-trace=node" in note.message


def test_a_graph_whose_kernels_are_there_is_not_counted_twice(tmp_path: Path) -> None:
    file = NsysFile()
    file.call("cudaGraphLaunch_v10000", 100, 200, 5)
    file.kernel("node", 1_000, 1_080, 5, graphNodeId=1)
    file.graph(3, 1_000, 1_080, 5)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert [row["name"] for row in gpu_rows(trace)] == ["node"]
    assert "graph_level" not in codes(trace)


def test_ranges_by_text_by_id_and_by_domain(tmp_path: Path) -> None:
    file = NsysFile()
    file.domain(7, "NCCL")
    file.domain(7, "other library", pid=PID + 1)
    file.range("plain", 1_000, 2_000)
    file.range(None, 2_000, 3_000, textId=file.string("registered"))
    file.range(None, 3_000, 4_000, textId=file.string("ncclAllReduce"), domainId=7)
    file.range("started", 4_000, 5_000, eventType=60, rangeId=1)
    file.range("mark", 4_500, None, eventType=34)
    file.range("never closed", 4_600, None)
    file.range(None, 5_000, 6_000)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert names_on_host(trace, "annotation") == ["plain", "registered", "NCCL:ncclAllReduce", "started", "(unnamed)"]
    assert trace.ints("dur_ns").tolist() == [1_000] * 5
    (note,) = [note for note in trace.quality.notes if note.code == "unclosed"]
    assert note.count == 1


def test_processes_are_all_read_and_their_correlations_kept_apart(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu(0)
    file.gpu(1)
    for place, pid in enumerate((200, 300)):
        # Both see one GPU, which each of them calls 0.
        file.add("TARGET_INFO_CUDA_DEVICE", gpuId=place, cudaId=0, pid=pid)
        file.call(f"cudaLaunchKernel{place}", 100 + place, 200, 9, pid=pid, tid=pid)
        file.kernel(f"k{place}", 1_000, 2_000 + place, 9, globalPid=global_id(pid))
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    found = [(row["name"], name_of(trace, row["launch"]), row["device"]) for row in gpu_rows(trace)]
    assert found == [("k0", "cudaLaunchKernel0", 0), ("k1", "cudaLaunchKernel1", 1)]
    assert {"200", "300"} <= set(trace.lanes["process"])
    assert not {"duplicate_correlation", "other_processes", "overlap"} & codes(trace)


def test_steps_are_guessed_from_ranges(tmp_path: Path) -> None:
    file = NsysFile()
    for step in range(3):
        start = 10_000 * step
        file.range(f"iteration {step}", start, start + 9_000)
        file.call("cudaLaunchKernel_v7000", start + 100, start + 200, step + 1)
        file.kernel("k", start + 300, start + 5_000, step + 1)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert trace.steps["name"].to_list() == ["iteration 0", "iteration 1", "iteration 2"]
    assert [row["step"] for row in gpu_rows(trace)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"copyKind": 2, "srcKind": 2, "dstKind": 1}, "Memcpy DtoH (Device -> Pinned)"),
        ({"copyKind": 8, "srcKind": 2, "dstKind": 2}, "Memcpy DtoD (Device -> Device)"),
        ({"copyKind": 10, "srcKind": 2, "dstKind": 2}, "Memcpy PtoP (Device -> Device)"),
        ({"copyKind": 11}, "Memcpy HtoD (unified memory)"),
        ({"copyKind": 8}, "Memcpy DtoD"),
        ({"copyKind": 99, "srcKind": 0, "dstKind": 77}, "Memcpy of kind 99"),
    ],
)
def test_copies_are_named_as_pytorch_names_them(tmp_path: Path, row: dict[str, int], name: str) -> None:
    file = NsysFile()
    file.copy(1, 100, 200, 64, **row)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert [found["name"] for found in gpu_rows(trace)] == [name]


def test_an_old_export_lacks_columns_and_says_gpus_otherwise(tmp_path: Path) -> None:
    """As of early 2021: no mangled names, graphs or green contexts, and another table of GPUs."""
    file = NsysFile()
    file.call("cudaLaunchKernel_v7000", 100, 200, 9)
    file.kernel("k", 1_000, 2_000, 9)
    file.memset(3_000, 3_100, 64)
    newer = ("greenContextId", "graphNodeId", "mangledName", "sharedMemoryLimitConfig", "globalPid", "memKind")
    path = file.write(tmp_path / "r.sqlite", without=dict.fromkeys(GPU_TABLES, newer))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE TARGET_INFO_CUDA_GPU (name TEXT, deviceId INT, numMultiprocessors INT, numThreadsPerWarp INT,"
            " maxWarpsPerMultiprocessor INT, computeCapabilityMajor INT, computeCapabilityMinor INT)"
        )
        connection.execute("INSERT INTO TARGET_INFO_CUDA_GPU VALUES ('Tesla V100-SXM2-16GB', 0, 80, 32, 64, 7, 0)")
    connection.close()
    trace = opened(path).trace
    assert [(row["name"], name_of(trace, row["launch"])) for row in gpu_rows(trace)] == [
        ("k", "cudaLaunchKernel"),
        ("Memset (Unknown)", ""),
    ]
    (gpu,) = trace.meta.devices
    assert (gpu.name, gpu.multiprocessors, gpu.compute, gpu.threads_per_multiprocessor) == (
        "Tesla V100-SXM2-16GB",
        80,
        "7.0",
        2_048,
    )


def test_names_fall_back_to_what_is_there(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel("templated<int>", 100, 200, demangledName=None)
    file.kernel("lost", 300, 400, demangledName=999)
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert [row["name"] for row in gpu_rows(trace)] == ["templated", "(kernel without a name)"]
    (note,) = [note for note in trace.quality.notes if note.code == "unnamed"]
    assert note.count == 1


def test_only_ranges_or_only_kernels_are_enough(tmp_path: Path) -> None:
    ranges, kernels = NsysFile(), NsysFile()
    ranges.range("alone", 1, 5)
    kernels.kernel("k", 100, 200)
    only_ranges = opened(ranges.write(tmp_path / "a.sqlite"))
    assert {"no_gpu", "no_cuda"} <= set(codes(only_ranges.trace))
    assert only_ranges.verdict() == "Cannot tell: this trace has only ranges of the host."
    assert "no_host" in codes(opened(kernels.write(tmp_path / "b.sqlite")).trace)


def test_launches_without_their_kernels_are_not_a_program_without_a_gpu(tmp_path: Path) -> None:
    file = NsysFile()
    for number in range(3):
        file.call("cudaLaunchKernel_v7000", 100 * number, 100 * number + 10, number)
    file.call("cudaDeviceSynchronize_v3020", 400, 900)
    profile = opened(file.write(tmp_path / "r.sqlite"))
    assert "no_cuda" not in codes(profile.trace)
    (note,) = [note for note in profile.trace.quality.notes if note.code == "launches_only"]
    assert note.message.startswith("3 launches recorded, but none of the GPU work:")
    assert profile.verdict() == ("Cannot tell: this trace has only the host side of a program that uses a GPU.")


def test_a_call_that_is_recorded_twice_is_one_call(tmp_path: Path) -> None:
    """As versions of 2023 do: by its name, and inside that by the name of its version."""
    file = NsysFile()
    for number in (1, 2):
        file.call("cudaLaunchKernel", 1_000 * number, 1_000 * number + 300, number)
        file.call("cudaLaunchKernel_v7000", 1_000 * number + 10, 1_000 * number + 290, number)
        file.kernel(f"k{number}", 1_000 * number + 200, 1_000 * number + 900, number)
    file.call("cudaFree_v3020", 5_000, 5_100, 2)  # later, with a number used before: not the same call
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    calls = trace.named_events()[trace.rows_of("runtime").tolist()]
    assert calls["name"].to_list() == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaFree"]
    assert [row["launch"] for row in gpu_rows(trace)] == trace.rows_of("runtime")[:2].tolist()


def test_an_export_of_which_nothing_is_used_is_still_one_of_nsight_systems(tmp_path: Path) -> None:
    path = NsysFile().write(tmp_path / "r.sqlite")
    with pytest.raises(FormatError, match="an Nsight Systems export without CUDA work, calls or NVTX ranges"):
        opened(path)


@pytest.mark.parametrize(
    ("tables", "what", "hint"),
    [
        (("StringTable", "CUPTI_ACTIVITY_KIND_RUNTIME"), r"a profile of nvprof \(\.nvvp\)", "nsys profile"),
        (("rocpd_string", "rocpd_api", "rocpd_op"), r"a database of rocmProfileData \(\.rpd\)", "rpd2tracing"),
        (("HIP", "OPS", "COPY", "KERN"), "a database of rocprof before version 3", "rocprofv3"),
        (("users", "posts"), r"an SQLite file of another program \(tables: users, posts\)", "nsys export"),
    ],
    ids=["nvprof", "rpd", "rocprof", "another"],
)
def test_databases_of_older_profilers_are_called_by_their_name(
    tmp_path: Path, tables: tuple[str, ...], what: str, hint: str
) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path)) as database:
        for table in tables:
            database.execute(f"create table {table} (id integer, value text)")
        database.commit()
    with pytest.raises(FormatError, match=what) as error:
        opened(path)
    assert hint in str(error.value.hint)


def test_a_packed_file_gives_the_same_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    path = training_step().write(tmp_path / "name with ?, # and %.sqlite")
    packed = tmp_path / "r.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    unpacked = run_passes(sqlite_file.read(path.read_bytes(), Meta(source=str(packed), format=""), []))
    assert unpacked.events.equals(opened(path).trace.events)
    assert list(scratch.iterdir()) == []


def big_file(path: Path, kernels: int) -> Path:
    file = NsysFile()
    for place in range(kernels):
        file.kernel("k", 1_000 + 10 * place, 1_007 + 10 * place, place + 1)
    return file.write(path)


def assert_refused(path: Path, why: str) -> None:
    with pytest.raises(FormatError, match=rf"{path.name}: a damaged SQLite file \({why}\)") as refusal:
        opened(path)
    assert str(refusal.value.hint).endswith(f"sqlite3 {path.name} .recover | sqlite3 recovered.db")


def test_a_cut_file_is_refused_with_the_command_that_recovers_it(tmp_path: Path) -> None:
    path = big_file(tmp_path / "r.sqlite", 3_000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert_refused(path, "the last [0-9,]+ bytes are missing")


@pytest.mark.parametrize("lost", [1, 4_095])
def test_part_of_a_page_missing_is_noticed_where_the_header_does_not_know_the_size(tmp_path: Path, lost: int) -> None:
    """SQLite would take it for zeros, and those for rows."""
    path = big_file(tmp_path / "r.sqlite", 3_000)
    text = bytearray(path.read_bytes())
    text[92:96] = bytes(4)
    path.write_bytes(text)
    assert len(gpu_rows(opened(path).trace)) == 3_000
    path.write_bytes(text[:-lost])
    assert_refused(path, f"the last {lost:,} bytes are missing")


def test_a_file_with_a_damaged_page_is_refused_with_the_command_that_recovers_it(tmp_path: Path) -> None:
    path = big_file(tmp_path / "r.sqlite", 3_000)
    text = bytearray(path.read_bytes())
    page = len(text) // 2 // 4_096 * 4_096
    text[page : page + 4_096] = b"\xff" * 4_096
    path.write_bytes(text)
    assert_refused(path, "database disk image is malformed")


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_tables_read_in_pieces_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    path = training_step().write(tmp_path / "r.sqlite")
    whole = opened(path).trace
    monkeypatch.setattr(sqlite_tables, "CHUNK_ROWS", chunk)
    assert opened(path).trace.events.equals(whole.events)


def test_row_numbers_may_have_gaps_and_reach_the_last(tmp_path: Path) -> None:
    path = big_file(tmp_path / "r.sqlite", 5)
    with sqlite3.connect(path) as connection:
        for old, new in ((1, -(2**63)), (3, 10**12), (5, 2**63 - 1)):
            connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = ? WHERE rowid = ?", (new, old))
    connection.close()
    assert len(gpu_rows(opened(path).trace)) == 5


@pytest.mark.parametrize("kept", [16, 100, 600, 4_096, 9_000])
def test_a_file_cut_before_its_events_is_one_clear_error(tmp_path: Path, kept: int) -> None:
    path = big_file(tmp_path / "r.sqlite", 3_000)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FormatError, match=r"r\.sqlite: a damaged SQLite file"):
        opened(path)


@pytest.mark.nightly
def test_damage_anywhere_is_never_a_traceback(tmp_path: Path) -> None:
    whole = training_step().write(tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "r.sqlite"
    read = 0
    for text in scrambled(whole, 997):
        path.write_bytes(text)
        try:
            self_check(opened(path).trace)
            read += 1
        except FormatError:
            continue
    assert read > 0


def test_absurd_times_are_left_out(tmp_path: Path) -> None:
    file = NsysFile()
    for place in range(5):
        file.kernel("k", BOOT + 10 * place, BOOT + 10 * place + 5)
    file.kernel("k", -(2**63), 2**63 - 1)
    file.kernel("k", 2**63 - 1, -(2**63))
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    assert [row["dur_ns"] for row in gpu_rows(trace)] == [5] * 5
    assert "out_of_range" in codes(trace)


@pytest.mark.parametrize("column", ["deviceId", "streamId", "correlationId", "globalPid", "gridX", "demangledName"])
def test_absurd_numbers_are_no_traceback(tmp_path: Path, column: str) -> None:
    file = training_step()
    for place, value in enumerate((2**63 - 1, -(2**63), 2**40, "text", 1.5, b"\xff\xfe")):
        file.kernel("odd", BOOT + 100 * place, BOOT + 100 * place + 50, **{column: value})
    trace = opened(file.write(tmp_path / "r.sqlite")).trace
    self_check(trace)
    assert len(gpu_rows(trace)) == 3 + 6


def test_an_export_without_events_says_how_to_record(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu()
    with pytest.raises(FormatError, match="without CUDA work") as caught:
        opened(file.write(tmp_path / "r.sqlite"))
    assert "nsys profile" in str(caught.value.hint)


def test_another_programs_database_is_named_by_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with sqlite3.connect(path) as connection:
        for table in ("users", "orders", "a", "b", "c"):
            connection.execute(f"CREATE TABLE {table} (x)")
    connection.close()
    with pytest.raises(FormatError, match=r"users, orders, a, b, …") as caught:
        opened(path)
    assert "nsys export --type sqlite report.nsys-rep" in str(caught.value.hint)


def test_a_view_in_the_file_is_never_run(tmp_path: Path) -> None:
    """Its SQL is the file's: this one would never end."""
    file = NsysFile()
    file.range("alone", 1, 5)
    path = file.write(tmp_path / "r.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE endless(start) AS"
            ' (SELECT 1 UNION ALL SELECT start FROM endless) SELECT start, start AS "end" FROM endless'
        )
    connection.close()
    assert names_on_host(opened(path).trace, "annotation") == ["alone"]


def test_every_kind_of_copy_has_its_bandwidth(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu()
    for correlation, way in enumerate((1, 2, 8, 10), start=1):
        file.call("cudaMemcpyAsync", 10 * correlation, 10 * correlation + 5, correlation)
        file.copy(way, 1000 * correlation, 1000 * correlation + 500, 1_000_000, correlation)
    file.copy(99, 5500, 5600, 1_000_000)  # a kind of later exports
    file.call("cudaMemsetAsync", 60, 65, 5)
    file.memset(6000, 6250, 1_000_000, 5)
    rows = {row["way"]: row for row in opened(file.write(tmp_path / "r.sqlite")).table("transfer").to_dicts()}
    assert {way: (row["bytes"], row["tbps"]) for way, row in rows.items()} == {
        "to GPU": (1e6, 2.0), "to host": (1e6, 2.0), "on the GPU": (2e6, 4.0), "between GPUs": (1e6, 2.0),
        "memset": (1e6, 4.0),
    }  # fmt: skip
