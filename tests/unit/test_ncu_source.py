"""Nsight Compute's source page: instructions and lines add up to the counters, in whichever view."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import ROOT
from warplens.model.call_paths import CallPaths
from warplens.model.trace import Meta
from warplens.readers import registry
from warplens.readers.ncu.counters import LaunchValues
from warplens.readers.ncu.rows import MachineInstruction, ProfiledLaunch
from warplens.readers.ncu.source_page import launches_of, read_source_page
from warplens.readers.ncu.tables import instructions_table
from warplens.readers.ncu.values import Cell
from warplens_run.base.errors import FormatError

FOLDER = ROOT / "samples" / "ncu"
SASS = gzip.decompress((FOLDER / "kernels_sass.csv.gz").read_bytes()).decode()
LINES = gzip.decompress((FOLDER / "kernels_lines.csv.gz").read_bytes()).decode()
SAMPLES = {"matmul_kernel": 428, "softmax_kernel": 2788, "attention_kernel": 1687}
LIBRARY = {"nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_NNT": 546}
"""smsp__pcsamp_sample_count of the raw page."""


def read(text: str) -> CallPaths:
    paths = registry.read(text.encode(), Meta(source="x.csv", format=""), [])
    assert isinstance(paths, CallPaths)
    paths.tree.self_check()
    return paths


def notes(paths: CallPaths) -> dict[str, int]:
    return {note.code: note.count for note in paths.quality.notes}


def by_kernel(path: Path, table: str) -> dict[str, int]:
    frame = warplens.open(path, cache=False).table(table).frame
    return dict(frame.group_by("kernel").agg(pl.col("samples").sum()).iter_rows())


@pytest.mark.parametrize(("name", "counts"), [("kernels_sass", SAMPLES | LIBRARY), ("kernels_lines", SAMPLES)])
def test_samples_of_instructions_and_lines_are_those_of_the_raw_page(name: str, counts: dict[str, int]) -> None:
    path = FOLDER / f"{name}.csv.gz"
    assert by_kernel(path, "counter_instructions") == counts
    assert by_kernel(path, "stalls") == counts
    assert by_kernel(path, "counter_stalls") == counts


def test_the_raw_page_counts_the_same_stalls() -> None:
    """Waits for warp-group products have no column on the source page: they are among the other reasons."""
    raw, source = (
        warplens.open(FOLDER / f"kernels_{page}.csv.gz", cache=False).table("counter_stalls").frame
        for page in ("raw", "sass")
    )
    counted = {
        name: frame.with_columns(pl.col("stall").replace({"gmma": "misc"}))
        .group_by("kernel", "stall")
        .agg(pl.col("samples").sum())
        .filter(pl.col("samples") > 0)
        .sort("kernel", "stall")
        .rows()
        for name, frame in (("raw", raw), ("source", source))
    }
    assert counted["raw"] == counted["source"]
    gmma = raw.filter(stall="gmma").sort("id")
    assert gmma["samples"].to_list() == [12, 0, 9, 4]


def test_a_line_has_its_text_and_an_instruction_its_line_and_access() -> None:
    profile = warplens.open(FOLDER / "kernels_lines.csv.gz", cache=False)
    stalls = profile.table("stalls").frame.filter(pl.col("file") == "samples/proton/kernels.py", pl.col("line") == 40)
    assert stalls.select("source", "samples", "kernel").rows() == [
        ('values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))', 98, "softmax_kernel")
    ]
    loads = profile.table("counter_instructions").frame.filter(line=40, access="global load 128")
    assert loads["instruction"].str.contains("LDG.E.128").all() and len(loads) == 4
    assert loads.select("executed", "threads").rows() == [(32768, 32.0)] * 4


def test_both_views_of_one_report_join_by_address() -> None:
    sections = launches_of([read_source_page(SASS), read_source_page(LINES)])
    assert [section.kernel for section in sections] == [*SAMPLES, *LIBRARY]
    located = [sum(instruction.line > 0 for instruction in section.instructions) for section in sections]
    assert located == [464, 296, 840, 0]
    assert [len(section.instructions) for section in sections] == [464, 296, 840, 1048]


def test_the_worst_line_and_its_reason_are_in_the_verdict() -> None:
    verdict = warplens.open(FOLDER / "kernels_lines.csv.gz", cache=False).verdict()
    assert "32 % of the waits are on standard.py:170, mostly long_scoreboard" in verdict


def test_lines_of_a_source_page_are_the_samples_of_a_measured_kernel() -> None:
    measured = warplens.open(FOLDER / "kernels_lines.csv.gz", cache=False).measured()
    (softmax,) = (kernel for kernel in measured.kernels if kernel.name == "softmax_kernel")
    assert sum(line.samples for line in softmax.samples) == 2788
    worst = softmax.samples[0]
    assert (Path(worst.file).name, worst.line, worst.samples, worst.reasons[0]) == (
        "standard.py", 170, 1376, ("long_scoreboard", 1147),
    )  # fmt: skip


HEADER = ["Address", "Source", "# Samples", "Instructions Executed", "stall_long_sb", "stall_selected"]


def row(*cells: object) -> str:
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


def lines_page(function: str, *rows: str, file: str = "k.py") -> str:
    return row("File Path", file) + row("Function Name", function) + row("Line No", "Source", *HEADER) + "".join(rows)


def line(number: int, text: str) -> str:
    return row(number, text, "-", "-", 0, 0, 0, 0)


def instruction(address: int, samples: int, long_sb: int = 0, selected: int = 0, text: str = "NOP") -> str:
    return row("", "", hex(address), text, samples, 1, long_sb, selected)


def stalls(text: str) -> list[tuple[Any, ...]]:
    profile = warplens.PathsProfile(read(text))
    return profile.table("stalls").frame.select("kernel", "line", "samples", "stalled_samples", "top_stall").rows()


def test_the_same_file_again_is_the_next_launch() -> None:
    launch = lines_page("k", line(3, "x = 1"), instruction(0x10, 9, long_sb=6, selected=3))
    paths = read(launch * 2)
    counters = next(table for table in paths.extra if table.name == "counters")
    assert counters.frame["id"].to_list() == [0, 1]
    assert stalls(launch * 2) == [("k", 3, 18, 12, "long_scoreboard")]


def test_another_file_of_the_same_launch_is_not() -> None:
    text = lines_page("k", line(3, "x"), instruction(0x10, 9)) + lines_page(
        "k", line(8, "y"), instruction(0x20, 1), file="l.py"
    )
    assert len(launches_of([read_source_page(text)])) == 1


def test_an_inlined_instruction_counts_once_at_its_own_line() -> None:
    """As nvcc's kernels are listed: below the function's line and below the one that calls it, all of them twice."""
    own, called = instruction(0x20, 9, long_sb=9), instruction(0x10, 4, long_sb=4)
    text = lines_page("k", line(3, "return x * 2;"), own * 2, line(6, "y = twice(x);"), (called + own) * 2)
    assert stalls(text) == [("k", 3, 9, 9, "long_scoreboard"), ("k", 6, 4, 4, "long_scoreboard")]
    (counters,) = (table for table in read(text).extra if table.name == "counters")
    assert counters.frame["instructions"].to_list() == [2]
    joined = launches_of([read_source_page(plain("k", sass(0x10, 4), sass(0x20, 9))), read_source_page(text)])
    assert [instruction.line for instruction in joined[0].instructions] == [6, 3]


def plain(kernel: str, *rows: str) -> str:
    return row("Kernel Name", kernel) + row(*HEADER) + "".join(rows)


def sass(address: int, samples: int) -> str:
    return row(hex(address), "NOP", samples, 8, samples, 0)


def test_launches_that_are_printed_twice_count_once() -> None:
    first, second = plain("k", sass(0x10, 5), sass(0x20, 2)), plain("k", sass(0x10, 6), sass(0x20, 2))
    assert stalls(first * 2 + second * 2) == [("k", None, 15, 15, "long_scoreboard")]
    assert stalls(first + second) == [("k", None, 15, 15, "long_scoreboard")]
    assert stalls(first * 2 + second) == [("k", None, 22, 22, "long_scoreboard")], "one launch after the other"


def test_equal_launches_are_not_one_where_the_counters_say_how_many_there_are() -> None:
    page = read_source_page(plain("k", sass(0x10, 5)) * 2)
    assert len(launches_of([page])) == 1 and len(launches_of([page], launches=2)) == 2


@pytest.mark.parametrize("source", ["x = 1  # \x0c\u2028", 'f("a", "b")', 'x, "y"', 'print("","")', "", "#"])
def test_the_text_of_a_line_may_hold_quotes_and_commas(source: str) -> None:
    text = lines_page("k", line(5, source), instruction(0x10, 4, long_sb=4))
    assert stalls(text) == [("k", 5, 4, 4, "long_scoreboard")]
    assert read(text).source_lines == {("k.py", 5): source}


def test_gaps_between_instructions_are_passed_over() -> None:
    gap = row("", "", "...", "...", "-", "-", "-", "-")
    paths = read(lines_page("k", line(5, "x"), instruction(0x10, 4), gap, instruction(0x90, 2)))
    assert not {"damaged", "truncated"} & notes(paths).keys()


def test_damaged_rows_are_counted_and_a_cut_page_is_said() -> None:
    text = lines_page(
        "k", line(5, "x"), row("", "", "0x1", "NOP", "many", 1, 0, 0), row("", "", "0x2"), instruction(0x10, 4)
    )
    assert notes(read(text))["damaged"] == 2
    cut = notes(read(LINES[: len(LINES) // 2]))
    assert "truncated" in cut and "damaged" not in cut


@pytest.mark.parametrize(
    "text", ['"Line No","Source"\n"1","import x"\n', '"File Name","k.py"\n"Line No","Source"\n"1","x"\n']
)
def test_a_view_without_figures_is_refused_with_the_one_that_has_them(text: str) -> None:
    with pytest.raises(FormatError, match="source page without figures") as raised:
        read(text)
    assert "--print-source cuda,sass" in str(raised.value.hint)


@pytest.mark.parametrize("name", ["Sampling Data (All)", "Warp Stall Sampling (All Cycles)"])
def test_old_versions_number_instructions_and_name_samples_otherwise(name: str) -> None:
    header = row("#", "Source", name, "Instructions Executed", "stall_wait")
    text = row("Kernel Name", "k") + header + row(0, "MOV R1, R2", 5, 64, 5) + row(1, "EXIT", 2, 64, 0)
    assert stalls(text) == [("k", None, 7, 7, "wait")]


def test_without_a_column_of_samples_the_reasons_are_added_up() -> None:
    text = row("Kernel Name", "k") + row("Address", "Source", "stall_wait", "stall_selected") + row("0x10", "NOP", 5, 2)
    assert stalls(text) == [("k", None, 7, 5, "wait")]


def test_the_source_page_in_the_file_of_another_page_is_read_too() -> None:
    raw = gzip.decompress((FOLDER / "kernels_raw.csv.gz").read_bytes()).decode()
    for text in (raw + LINES, LINES + raw):
        paths = read(text)
        assert {"counters", "counter_instructions"} <= {table.name for table in paths.extra}
        assert not {"damaged", "truncated"} & notes(paths).keys()
        assert sum(samples for _, line, samples, *_ in stalls(text) if line) == sum(SAMPLES.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ncu/kernels_sass", "--print-source cuda,sass"),
        ("proton/pcsampling.hatchet", "TRITON_DISABLE_LINE_INFO=0"),
        ("ncu/kernels_lines", ""),
        ("proton/sampled_lines.hatchet", ""),
        ("proton/tree_shadow.hatchet", ""),
    ],
)
def test_samples_without_lines_are_a_note_that_says_what_lines_need(name: str, words: str) -> None:
    suffix = ".csv.gz" if name.startswith("ncu") else ".gz"
    quality = warplens.open(ROOT / "samples" / f"{name}{suffix}", cache=False).table("quality").frame
    texts = quality.filter(code="no_source_lines")["message"].to_list()
    assert bool(texts) == bool(words) and all(words in text for text in texts)


def test_samples_by_reason_beyond_all_samples_have_no_share() -> None:
    instructions = tuple(
        MachineInstruction(address, "LDG", samples=4, stalls=(("wait", waits),)) for address, waits in ((0, 3), (16, 5))
    )
    launch = ProfiledLaunch(0, 1, "k", "1", "1", 0, 7, "9.0", instructions=instructions)
    assert instructions_table([launch]).frame["stalled_percent"].to_list() == [75.0, None]


def test_a_share_beyond_all_is_no_value_and_a_little_over_is_all() -> None:
    names = ("gpu__dram_throughput", "sm__throughput", "gpu__compute_memory_throughput")
    cells = (Cell("5242880", "%"), Cell("100.4", "%"), Cell("-3", "%"))
    metrics = {f"{name}.avg.pct_of_peak_sustained_elapsed": cell for name, cell in zip(names, cells, strict=True)}
    values = LaunchValues(decimal_comma=False)
    assert values.of(ProfiledLaunch(0, 1, "k", "1", "1", 0, 7, "9.0", metrics=metrics)) == {"sm_percent": 100}
    assert values.bad.total() == 2
