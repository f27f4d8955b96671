"""rocpd databases of rocprofv3: kernels, copies, calls and ranges become the same trace as any other."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from damage import scrambled
from nsys_files import opened
from rocpd_files import BOOT, ENDING, PID, TID, RocpdFile, training_step
from warplens.model.check import self_check
from warplens.model.trace import Trace
from warplens_run.base.errors import FormatError


def gpu_rows(trace: Trace) -> list[dict[str, Any]]:
    rows = trace.named_events()[trace.gpu_rows.tolist()].to_dicts()
    return sorted(rows, key=lambda row: row["start_ns"])


def test_a_kernel_knows_its_launch_its_range_and_its_blocks(tmp_path: Path) -> None:
    profile = opened(training_step().write(tmp_path / "1_results.db"))
    trace = profile.trace
    self_check(trace)
    kernel, copy = gpu_rows(trace)
    assert (kernel["name"], kernel["device"], kernel["stream"]) == ("gemm(float*)", 1, 2)
    assert (kernel["start_ns"], kernel["dur_ns"]) == (4_501, 4_003)
    assert trace.names[trace.ints("name")[kernel["launch"]]] == "hipLaunchKernel"
    assert trace.geometries.row(kernel["geometry"]) == ("[4, 4, 1]", "[256, 1, 1]", 128, 1_024, -1.0)
    assert (copy["name"], copy["device"], copy["dur_ns"]) == ("Memcpy Host -> Device", 0, 1_003)
    assert trace.names[trace.ints("name")[copy["launch"]]] == "hipMemcpyAsync"
    assert trace.copies["bytes"].to_list() == [4_096]
    tree = profile.tree("annotation")
    assert any(tree.path(node)[:1] == ["forward"] for node in range(len(tree)))


def test_totals_are_the_databases_own_sums(tmp_path: Path) -> None:
    path = training_step().write(tmp_path / "1_results.db")
    with sqlite3.connect(path) as connection:
        tables = ("rocpd_kernel_dispatch", "rocpd_memory_copy")
        sums = [connection.execute(f'SELECT sum("end" - start) FROM {table}').fetchone()[0] for table in tables]
    connection.close()
    profile = opened(path)
    assert int(profile.gpu_events()["dur_ns"].sum()) == sum(sums) == 5_006
    assert profile.table("kernel_categories").frame["total_us"].sum() == pytest.approx(5.006, abs=1e-9)


def test_hosts_side_and_gpus(tmp_path: Path) -> None:
    trace = opened(training_step().write(tmp_path / "1_results.db")).trace
    events = trace.named_events()
    on_host = events.filter(events["kind"].is_in(["annotation", "runtime", "other"]))
    assert on_host["name"].to_list() == ["forward", "hipLaunchKernel", "hipMemcpyAsync", "ncclAllReduce"]
    assert (str(PID), str(TID), "", "main") in trace.lanes.rows()
    assert trace.meta.format == "rocpd"
    assert [(gpu.id, gpu.name, gpu.compute, gpu.multiprocessors, gpu.warp_size) for gpu in trace.meta.devices] == [
        (place, "AMD Instinct MI300X", "gfx942", 304, 64) for place in range(2)
    ]


def test_calls_of_a_lost_or_new_category_are_kept(tmp_path: Path) -> None:
    file = training_step()
    file.region("ROCDECODE_API", "rocDecCreateDecoder", BOOT + 20_000, BOOT + 21_000, 60)
    file.region("GONE", "someCall", BOOT + 22_000, BOOT + 23_000, 61)
    file.rows["rocpd_string"] = [row for row in file.rows["rocpd_string"] if row["string"] != "GONE"]
    events = opened(file.write(tmp_path / "1_results.db")).trace.named_events()
    assert events.filter(events["kind"] == "other")["name"].to_list() == ["rocDecCreateDecoder", "someCall"]


def test_a_kernel_without_a_symbol_is_kept(tmp_path: Path) -> None:
    """The file's own view of kernels would lose it."""
    file = training_step()
    file.dispatch(BOOT + 20_000, BOOT + 21_000, 60, kernel_id=0)
    trace = opened(file.write(tmp_path / "1_results.db")).trace
    assert gpu_rows(trace)[-1]["name"] == "(kernel without a name)"
    assert trace.quality.has("unnamed")


def test_a_second_process_is_not_dropped_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "merged.db"
    training_step().write(path)
    training_step().write(path, ENDING.replace("_0199", "_019a"))
    trace = opened(path).trace
    assert len(gpu_rows(trace)) == 2
    assert trace.quality.has("other_processes")


def test_an_unknown_schema_and_an_empty_file_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "1_results.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE rocpd_kernel_dispatch{ENDING} (id INTEGER PRIMARY KEY, start_id, end_id)")
    connection.close()
    with pytest.raises(FormatError, match="schema"):
        opened(path)
    with pytest.raises(FormatError, match="without events"):
        opened(RocpdFile().write(tmp_path / "2_results.db"))


@pytest.mark.nightly
def test_damage_anywhere_is_never_a_traceback(tmp_path: Path) -> None:
    whole = training_step().write(tmp_path / "whole.db").read_bytes()
    path = tmp_path / "1_results.db"
    read = 0
    for text in scrambled(whole, 1_499):
        path.write_bytes(text)
        try:
            self_check(opened(path).trace)
            read += 1
        except FormatError:
            continue
    assert read > 0


def test_a_cut_file_is_refused_with_the_command_that_recovers_it(tmp_path: Path) -> None:
    file = training_step()
    for place in range(2_000):
        file.dispatch(BOOT + 30_000 + 10 * place, BOOT + 30_007 + 10 * place, 1_000 + place)
    path = file.write(tmp_path / "1_results.db")
    text = path.read_bytes()
    path.write_bytes(text[: len(text) * 9 // 10])
    with pytest.raises(FormatError, match="a damaged SQLite file") as refusal:
        opened(path)
    assert "sqlite3 1_results.db .recover" in str(refusal.value.hint)
