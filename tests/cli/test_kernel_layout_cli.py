"""`warplens kernel layout`, and docs/guides/layouts.md: what the guide shows is what is printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from support import ROOT
from warplens.cli import main
from warplens_lab.facts.records import Conversion, KernelFacts, SharedAccess, SourcePlace
from warplens_lab.facts.saving import save_facts

GUIDE = ROOT / "docs" / "guides" / "layouts.md"
COMMAND = re.compile(r"^\$ warplens (kernel layout [^\n]+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
SHOWN = [(shlex.split(command), output.splitlines()) for command, output in COMMAND.findall(GUIDE.read_text("utf-8"))]
BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
TURNED = "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
PLAIN = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"


def words(line: str) -> str:
    return " ".join(line.split())


@pytest.mark.parametrize("command", range(len(SHOWN)))
def test_the_guide_shows_what_is_printed(
    command: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "220")
    arguments, lines = SHOWN[command]
    assert lines
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    # A sentence is wrapped where it is long, and a table's last column, which repeats the layout in words, is omitted.
    flowing = words(printed)
    assert [line for line in lines if words(line) not in flowing] == []


def test_the_guide_works_the_classic_examples() -> None:
    assert len(SHOWN) == 14
    text = GUIDE.read_text("utf-8")
    for heading in ("A transpose of 32 × 32", "Padding by one", "Swizzle<5,0,5>", "The 128-byte swizzle of TMA"):
        assert f"\n## {heading}\n" in text


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["kernel", "layout", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_rows_come_as_json_and_csv_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "float[32][32]", "--json", "--where", "ways > 1")
    assert [(row["variant"], row["access"], row["ways"]) for row in json.loads(out)] == [("given", "column", 32)]
    _, out, _ = run(capsys, "float[32][33]", "--access", "tile[lane][0]", "--only", "--csv", "--table", "layout_banks")
    assert len(out.splitlines()) == 33
    status, _, err = run(capsys, "float[32][32]", "-o", str(tmp_path / "x.html"), "-o", f"{tmp_path}/tables/")
    assert (status, "wrote" in err) == (0, True)
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "layout_banks.csv",
        "layout_conflicts.csv",
        "layout_elements.csv",
    ]


def test_a_grid_fits_the_width_and_is_coloured_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    _, plain, _ = run(capsys, "float[32][32]", "--only")
    assert max(map(len, plain.splitlines())) <= 60
    assert "more columns" in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, coloured, _ = run(capsys, "float[32][32]", "--only")
    assert "\x1b[" in coloured
    assert words(re.sub(r"\x1b\[[\d;]*m", "", coloured)) == words(plain)


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (["Swizzle<3,4> o (8,64):(64,1)"], "Swizzle<B,M,S>, at character 1", "such as Swizzle<3,4,3>"),
        (["swizzled_shared(8, 1, 8, [1, 0])"], "does not say how large the tile is", "--shape"),
        (["float[32][32]", "--access", "tile[lane][k]"], "'k' of tile[lane][k] is not known", "--set"),
        (["float[32][32]", "--block", "32by8"], "--block '32by8' is not a size", "such as 64x128"),
        (["float[32][32]", "--set", "k"], "--set 'k' is not NAME=N", "--set k=3"),
        (["blocked([1],[32],[4],[0])", "--access", "row"], "an access needs a layout in memory", "over threads"),
        (["float[32][32]", "--table", "banks"], "banks", "layout_banks"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert problem in err.partition("hint")[0]
    assert hint in err


def compiled() -> KernelFacts:
    place = SourcePlace("/w/k.py", 7)
    common = {"layout": PLAIN, "shape": (64, 64), "element_bits": 16, "vector_bits": 0, "padding": 0, "in_loop": True}
    unknown = dict.fromkeys(("conflicts_unswizzled", "conflicts_padded", "conflicts_swizzled"))
    stores = SharedAccess(place=place, kind="store", conflicts=7, registers=BLOCKED, **common, **unknown)
    loads = SharedAccess(place=SourcePlace("/w/k.py", 9), kind="load matrix", conflicts=7, **common, **unknown)
    moved = Conversion(SourcePlace("/w/k.py", 11), BLOCKED, TURNED, (64, 64), 16, False, "warps")
    head = {
        "kernel": "k",
        "file": "/w/k.py",
        "target": "sm90",
        "triton_version": "3.9.0",
        "signature": "",
        "config": "",
    }
    return KernelFacts(**head, num_warps=4, num_stages=3, num_ctas=1, shared=(stores, loads), conversions=(moved,))


def test_the_tiles_of_a_compiled_kernel_are_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.json"
    save_facts(facts, [compiled()])
    status, out, err = run(capsys, str(facts), "--json")
    assert status == 0
    assert "2 access patterns; shown is 1" in err
    assert "2  k on sm90: conversion between warps of 64×64 (k.py:11)" in err
    given = {row["access"]: row["ways"] for row in json.loads(out) if row["variant"] == "given"}
    assert given == {"store k.py:7": 1, "load matrix k.py:9": 8}
    status, out, _ = run(capsys, str(facts), "--pick", "2")
    assert (status, out.count("thread of each element")) == (0, 2)
    status, _, err = run(capsys, str(facts), "--pick", "3")
    assert (status, "has 2 access patterns, not 3" in err) == (2, True)


def test_the_blocks_of_a_trace_are_opened(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, str(ROOT / "samples" / "kernels" / "slow_softmax.wkt"), "--pick", "4", "--json")
    assert (status, err) == (0, "")
    assert [(row["access"], row["passes"], row["size_bytes"]) for row in json.loads(out)] == [("row", 8, 512)]
    _, out, _ = run(capsys, str(ROOT / "samples" / "kernels" / "slow_softmax.wkt"), "--pick", "4")
    assert "the block of y_ptr at slow_softmax.py:24 as it would lie in shared memory" in out
