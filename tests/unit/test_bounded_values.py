"""Values that no program means, in fields that are no event's: what is read of the file and its totals stay right."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import nsys_files
import rocpd_files
import warplens
from damage import WHOLE, figures, text_of, warnings_of, work
from warplens.cli import main
from warplens.readers.bundle import counters, launches, timing
from warplens.readers.bundle.counters import COUNTERS_VERSION
from warplens.readers.bundle.timing import TIMING_VERSION
from warplens_run.base import bounded

DIGITS = "7" * 5000
LONG = "x" * 1_000_000
ODD: list[Any] = [DIGITS, 2**70, -(2**70), "1e999", 1e308, [], {}, True, None, "\ud800", "a\x00b", LONG, -0.0, 1.5]
GPU = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 1, "computeMajor": 9, "computeMinor": 0, "numSms": 132,
       "warpSize": 32, "maxThreadsPerMultiprocessor": 2048}  # fmt: skip
GROUP = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
JOB = {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [GROUP]}
HEADER = {"deviceProperties": [GPU], "distributedInfo": JOB, "cuda_driver_version": 12080, "traceName": "a",
          "baseTimeNanoseconds": 1, "record_shapes": 1}  # fmt: skip
REPORTS = ("x.html", "x.xlsx", "x.json", "x.md", "tables/")
EXPORTS = ("x.perfetto.json", "x.speedscope.json", "x.hatchet", "x.parquet")


def headers(value: Any) -> list[dict[str, Any]]:
    """The header with one value after another in the place of what belongs there; nested parts in one header."""
    whole = [{**HEADER, name: value} for name in HEADER]
    nested = {"deviceProperties": [dict.fromkeys(GPU, value)], "distributedInfo": dict.fromkeys(JOB, value)}
    groups = {"distributedInfo": {**JOB, "pg_config": [dict.fromkeys(GROUP, value), {**GROUP, "ranks": [value]}]}}
    return [*whole, {**HEADER, **nested}, {**HEADER, **groups}]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_no_value_in_a_header_changes_a_total(tmp_path: Path, value: Any) -> None:
    for number, header in enumerate(headers(value)):
        path = tmp_path / f"{number}.json"
        path.write_bytes(text_of(work(), **header))
        profile = warplens.open(path, cache=False)
        assert isinstance(profile, warplens.Profile)
        assert figures(profile) == WHOLE
        assert warnings_of(profile) == {}


@pytest.mark.parametrize("written", [b'"a\\ud800"', DIGITS.encode(), b"1e999", b"NaN", b'"' + DIGITS.encode() + b'"'])
def test_a_report_a_comparison_and_every_output_take_any_header(
    tmp_path: Path, written: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    content = text_of(work(), **headers("@")[-2], hip_driver_version="@").replace(b'"@"', written)
    path = tmp_path / "x.trace.json"
    path.write_bytes(content)
    for verb, names in (("report", REPORTS), ("convert", EXPORTS)):
        assert main([verb, str(path), *(word for name in names for word in ("-o", f"{tmp_path}/{name}"))]) == 0
    assert main(["diff", str(path), str(path)]) == 0
    assert "Traceback" not in capsys.readouterr().err
    json.loads((tmp_path / "x.json").read_bytes())


def test_a_name_of_a_megabyte_is_cut_and_keeps_its_time(tmp_path: Path) -> None:
    events = [event | {"name": LONG + event["name"]} if event["cat"] == "kernel" else event for event in work()]
    path = tmp_path / "x.json"
    path.write_bytes(text_of(events))
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"long_names": 2}
    names = [profile.trace.names[code] for code in profile.trace.ints("name")[profile.trace.gpu_rows]]
    assert len({*names}) == 2, "names that begin alike stay apart"
    assert max(map(len, names)) < bounded.MOST_CHARACTERS + 100


def changed(path: Path, table: str, column: str, value: object) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
    return path


ROCPD = [("rocpd_info_agent", "id"), ("rocpd_info_agent", "type_index"), ("rocpd_info_agent", "extdata"),
         ("rocpd_info_thread", "id"), ("rocpd_info_thread", "tid")]  # fmt: skip


@pytest.mark.parametrize(
    "value", [DIGITS, "٣", "²", "--5", "1e999", "", None, LONG, "a\x00b"], ids=lambda v: repr(v)[:9]
)
def test_ids_of_agents_threads_and_processes_may_be_anything(tmp_path: Path, value: str | None) -> None:
    for number, (table, column) in enumerate(ROCPD):
        path = rocpd_files.training_step().write(tmp_path / f"{number}.db")
        with closing(sqlite3.connect(path)) as connection:
            table = next(
                name for (name,) in connection.execute("SELECT name FROM sqlite_master") if name.startswith(table)
            )
        try:
            changed(path, table, column, value)
        except sqlite3.IntegrityError:  # an id that only takes whole numbers
            continue
        assert gpu_ns_of(path) == 5_006
    path = nsys_files.training_step().write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS PROCESSES (pid TEXT, name TEXT)")
        connection.execute("INSERT INTO PROCESSES (pid, name) VALUES (?, 'python')", (value,))
    assert gpu_ns_of(path) == 33_002 + 6_012 + 1_106


def gpu_ns_of(path: Path) -> int:
    return int(nsys_files.opened(path).gpu_events()["dur_ns"].sum())


TIMING = {"version": TIMING_VERSION, "windows": [{"position": "before", "steps": 2**63, "seconds": 1.0}]}
COUNTERS = {"version": COUNTERS_VERSION, "gpus": [{"device": 0, "clock_reasons": [-(2**63) - 1], "times_ns": [1]}]}
LAUNCHES = {"launches": [{"kernel": 0, "grid": [2**64]}], "kernels": [{"name": "k", "function": "k"}]}


@pytest.mark.parametrize(
    "parse, document", [(timing.parse, TIMING), (counters.parse, COUNTERS), (launches.parse, LAUNCHES)]
)
def test_whole_numbers_beyond_64_bits_are_refused_where_types_are_checked(
    parse: Callable[[bytes], object], document: dict[str, Any]
) -> None:
    with pytest.raises(msgspec.DecodeError, match="64 bits"):
        parse(json.dumps(document).encode())


def test_wait_that_names_a_record_beyond_64_bits_is_kept_without_it(tmp_path: Path) -> None:
    sync = {"ph": "X", "cat": "cuda_sync", "name": "Event Sync", "pid": 1, "tid": 1, "ts": 95, "dur": 1,
            "args": {"correlation": 3, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": -(2**63) - 1}}  # fmt: skip
    path = tmp_path / "x.json"
    path.write_bytes(text_of([*work(), sync]))
    trace = warplens.open(path, cache=False).trace
    assert trace.waits.rows() == [(trace.waits["id"][0], 7, -1)]
