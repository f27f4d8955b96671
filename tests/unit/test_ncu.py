"""Nsight Compute's CSV pages: counters of kernels, exact to the last byte, whatever page, units and locale."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from support import ROOT, SAMPLES
from warplens.model.call_paths import CallPaths
from warplens.model.table import Table
from warplens.model.trace import Meta
from warplens.readers import registry
from warplens.readers.ncu import reader as ncu
from warplens.readers.ncu.values import BYTES, BYTES_PER_S, HERTZ, NS, PLAIN, BadValueError, Cell, value_of
from warplens_run.base.errors import FormatError

FOLDER = ROOT / "samples" / "ncu"
RAW = gzip.decompress((FOLDER / "ncu_raw.csv.gz").read_bytes())
DETAILS = gzip.decompress((FOLDER / "ncu_details.csv.gz").read_bytes())
OPS_RAW = gzip.decompress((FOLDER / "ops_raw.csv.gz").read_bytes())
OPS_DETAILS = gzip.decompress((FOLDER / "ops_details.csv.gz").read_bytes())
UNITS = {
    "ns": Fraction(1), "us": Fraction(10**3), "ms": Fraction(10**6), "byte": Fraction(1), "Kbyte": Fraction(10**3),
    "Mbyte": Fraction(10**6), "Gbyte": Fraction(10**9),
}  # fmt: skip
LAUNCH = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
          "Grid Size", "Device", "CC")  # fmt: skip
DETAIL = ("Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
          "Estimated Speedup Type", "Estimated Speedup")  # fmt: skip
TIME, READ, WRITE = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


def read(text: bytes | str) -> CallPaths:
    found = ncu.read(text.encode() if isinstance(text, str) else text, Meta(source="x.csv", format=""), [])
    found.tree.self_check()
    return found


def tables(found: CallPaths) -> dict[str, Table]:
    return {each.name: each for each in found.extra}


def counters(text: bytes | str) -> list[dict[str, Any]]:
    return tables(read(text))["counters"].to_dicts()


def codes(found: CallPaths) -> dict[str, Any]:
    return {note.code: note for note in found.quality.notes}


def launch(number: int = 0, kernel: str = "k", process: int = 7, grid: str = "(4, 1, 1)", device: int = 0) -> list[str]:
    return [str(number), str(process), "app", "127.0.0.1", kernel, "1", "7", "(64, 1, 1)", grid, str(device), "9.0"]


def csv_text(rows: list[list[str]], delimiter: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def raw_page(metrics: dict[str, str], *launches: tuple[list[str], list[str]], delimiter: str = ",") -> str:
    """A raw page; `metrics` are names with their units."""
    units = [""] * len(LAUNCH) + list(metrics.values())
    return csv_text([[*LAUNCH, *metrics], units, *([*head, *values] for head, values in launches)], delimiter)


def details_page(*rows: tuple[list[str], list[str]], extra: tuple[str, ...] = DETAIL) -> str:
    return csv_text([[*LAUNCH, *extra], *([*head, *values] for head, values in rows)])


def one(metrics: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The counters of a raw page with one launch; `metrics` are (value, unit)."""
    page = raw_page(
        {name: unit for name, (_, unit) in metrics.items()}, (launch(), [value for value, _ in metrics.values()])
    )
    return counters(page)[0]


def summed(page: bytes, metric: str) -> Fraction:
    """The sum of a column of a raw page, through no code of ours."""
    header, units, *rows = list(csv.reader(io.StringIO(page.decode(), newline="")))
    place = header.index(metric)
    return sum((Fraction(row[place].replace(",", "")) for row in rows), Fraction()) * UNITS.get(units[place], 1)


@pytest.mark.parametrize("page", [RAW, OPS_RAW])
def test_totals_of_the_raw_page_are_the_files_own_sums(page: bytes) -> None:
    found = read(page)
    assert found.tree.total_ns[0] == summed(page, TIME)
    moved = summed(page, READ) + summed(page, WRITE)
    assert found.tree.total("dram_bytes")[0] == moved
    assert found.tree.total("instructions")[0] == summed(page, "smsp__inst_executed.sum")
    frame = tables(found)["counters"].frame
    assert frame["dram_bytes"].sum() == moved
    assert (frame["dram_read_bytes"].sum(), frame["dram_write_bytes"].sum()) == (
        summed(page, READ),
        summed(page, WRITE),
    )
    assert found.tree.total_count[0] == len(frame) == len(page.splitlines()) - 2


@pytest.mark.parametrize("page", [DETAILS, OPS_DETAILS])
def test_totals_of_the_details_page_are_the_files_own_sums(page: bytes) -> None:
    rows = list(csv.DictReader(io.StringIO(page.decode(), newline="")))
    times = [
        Fraction(row["Metric Value"]) * UNITS[row["Metric Unit"]] for row in rows if row["Metric Name"] == "Duration"
    ]
    found = read(page)
    assert found.tree.total_ns[0] == sum(times)
    assert found.tree.total_count[0] == len(times) == len({row["ID"] for row in rows})
    assert "rounded_page" in codes(found)


@pytest.mark.parametrize(("raw", "details"), [(RAW, DETAILS), (OPS_RAW, OPS_DETAILS)])
def test_both_pages_of_a_report_say_the_same(raw: bytes, details: bytes) -> None:
    first, second = counters(raw), counters(details)
    assert len(first) == len(second)
    for exact, rounded in zip(first, second, strict=True):
        for name, value in rounded.items():
            if isinstance(value, float):
                assert exact[name] == pytest.approx(value, rel=6e-3, abs=6e-3), name
            elif name == "shared_memory_bytes":
                assert exact[name] == pytest.approx(value, abs=10)
            elif value is not None:
                assert exact[name] == value, name
    assert second[2]["registers"] == first[2]["registers"] is not None
    assert second[2]["occupancy_percent"] is not None
    assert second[2]["dram_tbps"] is not None
    assert second[2]["waves"] is not None


def test_a_launch_of_the_real_file() -> None:
    row = counters(RAW)[2]
    assert (row["kernel"], row["grid"], row["block"]) == (
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "[2, 66, 1]", "[384, 1, 1]",
    )  # fmt: skip
    assert (row["time_us"], row["dram_read_bytes"], row["dram_write_bytes"]) == (175.584, 148_511_488, 28_199_680)
    assert (row["dram_tbps"], row["dram_percent"], row["l2_hit_percent"]) == (1.00642, 20.916055, 73.043099)
    assert (row["sm_percent"], row["tensor_percent"], row["ipc"]) == (90.295766, 90.295766, 0.47797)
    assert (row["occupancy_percent"], row["occupancy_theoretical_percent"]) == (14.638846, 18.75)
    assert (row["occupancy_limit"], row["registers"], row["waves"]) == ("registers, shared memory", 168, 1.0)
    assert (row["shared_memory_bytes"], row["sm_ghz"]) == (213_188, 1.601763)
    assert (row["top_stall"], round(row["top_stall_percent"], 4)) == ("barrier", round(100 * 5721 / 17260, 4))


def test_the_gpu_is_described_by_the_raw_page() -> None:
    device = read(RAW).meta.devices[0]
    assert (device.name, device.memory_bytes, device.multiprocessors, device.compute) == (
        "NVIDIA H200", 150_109_880_320, 132, "9.0",
    )  # fmt: skip
    assert (device.warp_size, device.threads_per_multiprocessor) == (32, 2048)


def test_the_tree_has_a_node_per_kernel_name() -> None:
    found = read(RAW)
    assert found.tree.name[0] == "all" and set(found.tree.kind[1:]) == {"kernel"}
    twice = next(node for node, name in enumerate(found.tree.name) if "distribution_elementwise" in name)
    assert (found.tree.self_count[twice], found.tree.self_ns[twice]) == (2, 42_688 + 42_720)
    assert found.device == (-1, *[0] * 6)


def test_samples_of_stalls_add_up_to_the_files_own_count() -> None:
    stalls = tables(read(RAW))["counter_stalls"]
    header, _, *rows = list(csv.reader(io.StringIO(RAW.decode(), newline="")))
    place = header.index("smsp__pcsamp_sample_count")
    expected = {int(row[0]): int(row[place].replace(",", "")) for row in rows}
    sums = dict(stalls.frame.group_by("id").agg(pl.col("samples").sum()).iter_rows())
    assert sums == expected
    assert "pcsamp" in stalls.notes[0]
    shares = stalls.frame.group_by("id").agg(pl.col("percent").sum())["percent"]
    assert shares.to_list() == pytest.approx([100] * 7)
    assert stalls.frame.filter(pl.col("meaning") == "").is_empty()


def test_counters_of_stalls_come_before_samples() -> None:
    found = tables(read(OPS_RAW))["counter_stalls"]
    assert "per_issue_active" in found.notes[0]
    row = found.frame.filter((pl.col("id") == 0) & (pl.col("stall") == "gmma")).row(0, named=True)
    assert row["warps_per_issue"] == 3.688101
    assert row["samples"] > 0  # which the samples call warpgroup_arrive


def test_rules_of_the_details_page() -> None:
    rules = tables(read(DETAILS))["counter_rules"].frame
    expected = [row for row in csv.DictReader(io.StringIO(DETAILS.decode(), newline="")) if row["Rule Name"]]
    assert rules["text"].to_list() == [row["Rule Description"] for row in expected]
    assert set(rules["kind"]) == {"OPT", "INF"}
    best = rules.filter((pl.col("id") == 2) & (pl.col("rule") == "TheoreticalOccupancy")).row(0, named=True)
    assert (best["estimated_speedup_percent"], best["speedup_type"], best["section"]) == (81.25, "local", "Occupancy")
    assert rules.filter(pl.col("rule") == "SOLBottleneck")["estimated_speedup_percent"].null_count() == 7


@pytest.mark.parametrize(
    ("text", "unit", "base", "expected"),
    [
        ("1.5", "us", NS, "1500"), ("1,234.5", "ms", NS, "1234500000"), ("7", "nsecond", NS, "7"),
        ("7", "usecond", NS, "7000"), ("0.25", "second", NS, "250000000"), ("2", "s", NS, "2000000000"),
        ("33.554432", "Mbyte", BYTES, "33554432"), ("1.000001", "Gbyte", BYTES, "1000001000"), ("5", "byte", BYTES, "5"),
        ("0.192078", "Tbyte/s", BYTES_PER_S, "192078000000"), ("3", "byte/second", BYTES_PER_S, "3"),
        ("2", "Kbyte/ms", BYTES_PER_S, "2000000"), ("1.2", "Ghz", HERTZ, "1200000000"),
        ("1.2", "cycle/nsecond", HERTZ, "1200000000"), ("1.2", "cycle/second", HERTZ, "1.2"),
        ("213.188", "Kbyte/block", "byte/block", "213188"), ("99.9", "%", PLAIN, "99.9"), ("(!) 3", "", PLAIN, "3"),
        ("12 (3; 4; 5)", "", PLAIN, "12"), ("-1", "", PLAIN, "-1"), ("1e3", "", PLAIN, "1000"),
        ("1'234.5", "", PLAIN, "1234.5"), ("1 234", "", PLAIN, "1234"),
    ],
)  # fmt: skip
def test_values_in_base_units_are_exact(text: str, unit: str, base: str, expected: str) -> None:
    assert value_of(Cell(text, unit), base) == Decimal(expected)


@pytest.mark.parametrize("text", ["", "n/a", "(!) n/a", "nan", "-nan", "inf", "no data", " N/A "])
def test_values_that_were_not_measured(text: str) -> None:
    assert value_of(Cell(text, ""), NS) is None
    assert (
        one({TIME: ("1", "us"), "sm__throughput.avg.pct_of_peak_sustained_elapsed": (text, "%")})["sm_percent"] is None
    )


@pytest.mark.parametrize(
    ("text", "unit", "base"),
    [("5", "", NS), ("5", "cycle", NS), ("5", "Mbyte", NS), ("five", "us", NS), ("5", "Xbyte", BYTES),
     ("9" * 30, "byte", BYTES), ("1e40", "", PLAIN), ("1e99999999", "", PLAIN), ("9007200", "Gbyte", BYTES), ("0x10", "", PLAIN)],
)  # fmt: skip
def test_values_that_cannot_be_read(text: str, unit: str, base: str) -> None:
    with pytest.raises(BadValueError):
        value_of(Cell(text, unit), base)


def test_unreadable_values_are_left_out_and_counted() -> None:
    page = raw_page({TIME: "us", READ: "pints"}, (launch(0), ["1.5", "4"]), (launch(1), ["quick", "5"]))
    found = read(page)
    assert found.tree.total_ns[0] == 1500
    note = codes(found)["bad_args"]
    assert note.count == 2 and READ in note.detail
    assert codes(found)["missing_duration"].count == 1
    assert tables(found)["counters"].frame["dram_read_bytes"].to_list() == [None, None]


def test_a_negative_duration_counts_as_nothing() -> None:
    found = read(raw_page({TIME: "ns"}, (launch(), ["-5"])))
    assert found.tree.total_ns[0] == 0 and codes(found)["negative_duration"].count == 1


def test_times_are_rounded_once_per_launch() -> None:
    found = read(raw_page({TIME: "us"}, *((launch(number), ["0.0014"]) for number in range(3))))
    assert found.tree.total_ns[0] == 3  # three times 1.4 ns


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({READ: ("1", "Kbyte"), WRITE: ("2", "byte")}, (1000, 2, 1002)),
        ({"dram__read_bytes.sum": ("3", "byte"), "dram__write_bytes.sum": ("4", "byte")}, (3, 4, 7)),
        ({"dram__bytes.sum": ("9", "byte")}, (None, None, 9)),
        ({READ: ("3", "byte"), "dram__bytes.sum": ("9", "byte")}, (3, None, 9)),
        ({READ: ("3", "byte"), WRITE: ("4", "byte"), "dram__bytes.sum": ("9", "byte")}, (3, 4, 7)),
        ({READ: ("3", "byte")}, (3, None, None)),
        ({}, (None, None, None)),
    ],
)  # fmt: skip
def test_bytes_of_memory_under_older_and_newer_names(
    metrics: dict[str, tuple[str, str]], expected: tuple[int | None, ...]
) -> None:
    row = one({TIME: ("1", "us"), **metrics})
    assert (row["dram_read_bytes"], row["dram_write_bytes"], row["dram_bytes"]) == expected
    assert row["dram_tbps"] == (None if expected[2] is None else expected[2] / 1e6)


def test_a_set_without_memory_counters_says_so() -> None:
    found = read(raw_page({"gpu__time_duration.avg": "us"}, (launch(), ["2"])))
    assert found.tree.total_ns[0] == 2000
    assert "no_dram_bytes" in codes(found) and not found.tree.metrics
    assert "no_dram_bytes" not in codes(read(RAW))


@pytest.mark.parametrize(
    ("name", "share"),
    [("sm__pipe_tensor_type_x_y_cycles_active.avg.pct_of_peak_sustained_elapsed", 11.0),
     ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 12.0),
     ("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", 13.0),
     ("sm__pipe_tensor_cycles_active.avg.peak_sustained", None),
     ("sm__ops_path_tensor_src_fp16.sum.peak_sustained", None)],
)  # fmt: skip
def test_the_tensor_pipe_is_a_share_and_never_a_peak(name: str, share: float | None) -> None:
    assert one({TIME: ("1", "us"), name: (str(share or 512), "%")})["tensor_percent"] == share


def test_no_column_counts_operations() -> None:
    assert not [name for name in tables(read(OPS_RAW))["counters"].frame.columns if "flop" in name or "ops" in name]


@pytest.mark.parametrize(
    ("limits", "theoretical", "expected"),
    [({"registers": 3, "shared_mem": 5, "blocks": 32, "warps": 8}, "37.5", "registers"),
     ({"registers": 5, "shared_mem": 5, "blocks": 32, "warps": 8}, "62.5", "registers, shared memory"),
     ({"registers": 8, "shared_mem": 5, "blocks": 32, "warps": 2, "barriers": 4}, "66.7", "warps"),
     ({"registers": 32, "shared_mem": 32, "blocks": 32, "warps": 32}, "100", None), ({}, "50", None)],
)  # fmt: skip
def test_what_limits_occupancy(limits: dict[str, int], theoretical: str, expected: str | None) -> None:
    metrics = {f"launch__occupancy_limit_{name}": (str(count), "block") for name, count in limits.items()}
    row = one({TIME: ("1", "us"), "sm__maximum_warps_per_active_cycle_pct": (theoretical, "%"), **metrics})
    assert row["occupancy_limit"] == expected


def test_older_stall_metrics_and_a_launch_without_stalls() -> None:
    stall = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
    metrics = {TIME: "us", stall.format("wait"): "%", stall.format("selected"): "%"}
    found = tables(read(raw_page(metrics, (launch(0), ["1", "30", "90"]), (launch(1), ["1", "0", "0"]))))
    assert found["counters"].frame["top_stall"].to_list() == ["wait", None]
    assert found["counters"].frame["top_stall_percent"].to_list() == [25.0, None]
    assert found["counter_stalls"].frame["id"].to_list() == [0, 0]


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.removesuffix("\n").encode(),
        lambda text: ("==PROF== Connected to process 7 (/bin/app)\nloss 0.5, step 3\n" + text).encode(),
        lambda text: (text + '==PROF== Disconnected from process 7\n==WARNING== "x", "y\n').encode(),
        lambda text: text.replace('"1","7","app"', '==WARNING== clocks, not fixed\nhello\n\n"1","7","app"').encode(),
        lambda text: text.replace('"', "").replace("(4, 1, 1)", '"(4, 1, 1)"').replace("(64, 1, 1)", '"(64, 1, 1)"').encode(),
        lambda text: ("\n".join("\t".join(row) for row in csv.reader(io.StringIO(text))) + "\n").encode(),
    ],
)  # fmt: skip
def test_wrappings_of_the_table_change_nothing(encode: Any) -> None:
    page = raw_page({TIME: "us", READ: "byte"}, (launch(0), ["1.5", "8"]), (launch(1), ["2.5", "9"]))
    assert ncu.matches(encode(page))
    found = read(encode(page))
    assert found.tree.total_ns[0] == 4000 and found.tree.total_count[0] == 2
    assert set(codes(found)) == {"kernel_by_kernel", "no_dram_bytes"}


def test_decimal_commas_and_semicolons() -> None:
    metrics = {TIME: "us", READ: "byte", WRITE: "byte", "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%"}
    page = raw_page(metrics, (launch(), ["1.234,567", "1.500", "12.000", "72,907501"]), delimiter=";")
    assert ncu.matches(page.encode())
    row = counters(page)[0]
    assert (row["time_us"], row["dram_bytes"], row["sm_percent"]) == (1234.567, 13_500, 72.907501)


def test_numbers_without_any_separator_are_read_with_a_point() -> None:
    assert one({TIME: ("1,234", "ns"), READ: ("1,500", "byte")})["time_us"] == 1.234


def test_the_first_versions_named_other_columns() -> None:
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"]
    row = ["0", "20798", "app", "127.0.0.1", "gemm", "2024-Nov-13 18:14:36", "1", "7"]
    rows = [[*head, "Section Name", "Metric Name", "Metric Unit", "Metric Value"],
            [*row, "Command line profiler metrics", TIME, "nsecond", "152192"],
            [*row, "GPU Speed Of Light", "SM [%]", "%", "80.5"],
            [*row, "GPU Speed Of Light", "Memory [%]", "%", "70.5"]]  # fmt: skip
    found = read(csv_text(rows))
    line = tables(found)["counters"].to_dicts()[0]
    assert (line["time_us"], line["sm_percent"], line["memory_percent"]) == (152.192, 80.5, 70.5)
    assert (line["grid"], line["device"], found.device) == (None, None, (-1, -1))
    assert "rounded_page" not in codes(found)


def test_the_grid_of_a_file_without_that_column_comes_from_the_metrics() -> None:
    sizes = {f"launch__{what}_dim_{axis}": "" for what in ("grid", "block") for axis in "xyz"}
    head = [name for name in LAUNCH if name not in ("Grid Size", "Block Size")]
    cells = [cell for name, cell in zip(LAUNCH, launch(), strict=True) if name in head]
    rows = [[*head, TIME, *sizes], [""] * 9 + ["us"] + [""] * 6, [*cells, "1", "1,056", "2", "1", "256", "1", "1"]]
    row = counters(csv_text(rows))[0]
    assert (row["grid"], row["block"]) == ("[1056, 2, 1]", "[256, 1, 1]")


def test_equal_numbers_of_several_processes_stay_apart() -> None:
    duration = ["S", "Duration", "us", "1", "", "", "", "", ""]
    busy = ["S", "Compute (SM) Throughput", "%", "50", "", "", "", "", ""]
    rows = [(launch(0, process=number), values) for values in (duration, busy) for number in (7, 8)]
    found = read(details_page(*rows))
    assert found.tree.total_count[0] == 2 and found.meta.facts["processes"] == "2"
    assert tables(found)["counters"].frame.select("process", "sm_percent").rows() == [(7, 50.0), (8, 50.0)]


def test_a_kernel_on_two_gpus_has_no_one_gpu() -> None:
    found = read(raw_page({TIME: "us"}, (launch(0, device=0), ["1"]), (launch(1, device=1), ["1"])))
    assert found.device == (-1, -1) and [device.id for device in found.meta.devices] == [0, 1]


def test_tables_one_after_another_are_all_read() -> None:
    first = raw_page({TIME: "us"}, (launch(0), ["1"]))
    second = raw_page({WRITE: "byte", READ: "byte", TIME: "ms"}, (launch(0), ["5", "6", "2"]))
    found = read(first + "==PROF== again\n" + second)
    assert found.tree.total_ns[0] == 2_001_000 and found.tree.total_count[0] == 2
    assert tables(found)["counters"].frame["dram_bytes"].to_list() == [None, 11]


@pytest.mark.parametrize("form", ["{label}", "{metric}", "{label} ({metric})"])
def test_details_with_labels_names_or_both(form: str) -> None:
    pairs = {"Duration": (TIME, "us", "2.5"), "Waves Per SM": ("launch__waves_per_multiprocessor", "", "3.50"),
             "Memory Throughput": ("dram__bytes.sum.per_second", "Gbyte/s", "634.57"),
             "Stall Long Scoreboard": ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "3.0"),
             "Selected": ("smsp__average_warps_issue_stalled_selected_per_issue_active.ratio", "inst", "1.0")}  # fmt: skip
    rows = [(launch(), ["S", form.format(label=label, metric=metric), unit, value])
            for label, (metric, unit, value) in pairs.items()]  # fmt: skip
    share = (launch(), ["S", "Memory Throughput", "%", "69.87"])
    row = counters(details_page(*rows, *([share] if form == "{label}" else [])))[0]
    assert (row["time_us"], row["waves"], row["dram_tbps"]) == (2.5, 3.5, 0.63457)
    assert (row["top_stall"], row["top_stall_percent"]) == ("long_scoreboard", 75.0)
    assert row["memory_percent"] == (69.87 if form == "{label}" else None)


def test_details_with_body_items_and_small_tables_between_the_rows() -> None:
    columns = ("Section Name", "Body Item Label", "Metric Name", "Metric Unit", "Metric Value", *DETAIL[4:])
    page = details_page(
        (launch(), ["S", "", "Duration", "us", "2", ""]),
        (launch(), ["S", "Chart", "Duration", "us", "9", ""]),
        (launch(), ["S", "Table", READ, "Mbyte", "85.26", ""]),
        (launch(), ["Occupancy", "", "", "", "", "Rule", "WRN", 'a "text", with commas', "local", "12.5"]),
        extra=columns,
    )
    between = '    The system has no links.\n\n"GPU ID","GPU Name","NUMA ID"\n"0","NVIDIA H200","0"\n'
    head, rest = page.split("\n", 1)
    found = read(f"{head}\n{between}{rest}")
    assert found.tree.total_ns[0] == 2000  # the section's own value, not a chart's
    assert tables(found)["counters"].frame["dram_read_bytes"].to_list() == [85_260_000]
    rule = tables(found)["counter_rules"].to_dicts()[0]
    assert (rule["kind"], rule["text"], rule["estimated_speedup_percent"]) == ("WRN", 'a "text", with commas', 12.5)
    assert not {"damaged", "truncated"} & set(codes(found))


def test_a_cut_file_gives_what_is_whole_and_says_so() -> None:
    page = raw_page({TIME: "us", READ: "byte"}, *((launch(number), ["1.25", "8"]) for number in range(3)))
    for lost in (2, 3, 6, 9, 60):
        found = read(page[:-lost])
        assert found.tree.total_ns[0] == 2500 and "truncated" in codes(found), lost
    assert "truncated" not in codes(read(page[:-1]))  # only the last line's end


def test_a_row_that_lost_its_end_in_the_middle_is_counted() -> None:
    page = raw_page({TIME: "us", READ: "byte"}, *((launch(number), ["1", "8"]) for number in range(3)))
    lines = page.splitlines()
    lines[3] = lines[3][: lines[3].rindex(",")]
    found = read("\n".join(lines) + "\n")
    assert found.tree.total_count[0] == 2 and codes(found)["damaged"].count == 1
    assert "truncated" not in codes(found)


@pytest.mark.nightly
@pytest.mark.parametrize("page", [RAW, DETAILS], ids=["raw", "details"])
def test_damage_is_never_a_traceback(page: bytes) -> None:
    for place in range(0, len(page), len(page) // 41):
        for damaged in (
            page[:place],
            page[:place] + b'"' + page[place:],
            page[:place] + b"\0\xff\n" + page[place + 9 :],
        ):
            try:
                read(damaged)
            except FormatError as error:
                assert error.hint


def test_invalid_text_is_replaced_and_said() -> None:
    page = raw_page({TIME: "us"}, (launch(kernel="k?k"), ["1"])).encode().replace(b"k?k", b"k\xffk")
    found = read(page)
    assert found.tree.name[1] == "k\ufffdk" and "bad_text" in codes(found)


def test_a_kernel_without_a_name_keeps_its_time() -> None:
    found = read(raw_page({TIME: "us"}, (launch(kernel=""), ["1"])))
    assert found.tree.name[1] == ncu.UNNAMED and found.tree.total_ns[0] == 1000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
         '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n"7","a","h","k","","","0","9.0","1"\n',
         "summary"),
        ('"Kernel Name","k",\n"Address","Source","Warp Stall Sampling (All Samples)"\n', "source page"),
        ('Launch Settings\n"Launch Attribute","Value"\n', "session page"),
        ("==PROF== Connected\n[7] app@127.0.0.1\n  k (1, 1, 1)x(1, 1, 1)\n    Section: Occupancy\n", "not CSV"),
        ("==PROF== Connected\n==ERROR== No kernels were profiled\n", "No kernels were profiled"),
        ("==ERROR== Unsupported source view combination.\n", "Unsupported source view combination"),
        ("==WARNING== No lineinfo available to show CUDA-C source related to 'k'.\n", "without source lines"),
        ("==PROF== Connected\n", "without a table"),
        (raw_page({TIME: "us"}), "without kernels"),
    ],
)  # fmt: skip
def test_what_is_not_a_page_of_launches_is_named(text: str, what: str) -> None:
    assert ncu.matches(text.encode())
    with pytest.raises(FormatError, match=what) as raised:
        read(text)
    assert raised.value.hint


def test_the_binary_report_is_refused_with_the_command_that_exports_it() -> None:
    head = b"NVR\0\x02\0\0\0\x08\x07"
    with pytest.raises(FormatError, match="ncu-rep") as raised:
        registry.read(head, Meta(source="x.ncu-rep", format=""), [])
    assert "ncu --page raw --csv --import" in str(raised.value.hint)


def test_only_these_files_match() -> None:
    assert all(ncu.matches(page[:65536]) for page in (RAW, DETAILS, OPS_RAW, OPS_DETAILS))
    for sample in SAMPLES:
        with gzip.open(sample) as stream:
            assert not ncu.matches(stream.read(65536))
    assert not ncu.matches(b"") and not ncu.matches(b"id,process\n1,2\n") and not ncu.matches(b"SQLite format 3\0")
