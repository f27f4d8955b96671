"""Tables in a terminal: golden text at pinned widths, and nothing in a trace can drive the terminal."""

from __future__ import annotations

import io
import math

import polars as pl
import pytest
from rich.console import Console

from warplens.model.table import Column, Table
from warplens.outputs import render_table
from warplens_run.base.errors import UsageError
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width

KERNEL = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_128x128_32x5_tn_align8>(Params)"


def table_of(frame: pl.DataFrame, *notes: str, **units: str) -> Table:
    columns = tuple(Column(name, f"the {name}", units.get(name, ""), frame.schema[name]) for name in frame.columns)
    return Table("kernels", "one row per op and kernel", columns, frame, notes)


def kernels(*notes: str) -> Table:
    frame = pl.DataFrame(
        {
            "op": ["aten::mm", "aten::add", "nccl:all_reduce"],
            "kernel_category": ["GEMM", "Elementwise", "Communication"],
            "kernel": [KERNEL, "vectorized_elementwise_kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"],
            "stream": [7, 7, 20],
            "count": [1234, 8, None],
            "total_us": [1234567.89, 12.04, math.nan],
            "min_us": [900.0, 1.0, 2.0],
            "bytes": [2048, 3 * 1024**3, 0],
            "percent": [98.76, 1.2, 0.04],
        }
    )
    return table_of(frame, *notes)


def printed(table: Table, width: int, **options: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(
        render_table(table, **{"top": None, "width": width, **options}),  # type: ignore[arg-type]
        soft_wrap=True,
    )
    return stream.getvalue()


def test_a_wide_terminal_shows_every_column() -> None:
    expected = """\
kernels: one row per op and kernel
op         kernel_category  kernel                                  stream  count     total_us  min_us    bytes  percent
aten::mm   GEMM             void cutlass::Kernel2<c…lign8>(Params)       7  1,234  1,234,567.9   900.0  2.0 KiB    98.8%
aten::add  Elementwise      vectorized_elementwise_kernel                7      8         12.0     1.0  3.0 GiB     1.2%
… 1 more row
note: graph kernels count once
"""
    assert printed(kernels("graph kernels count once"), 120, top=2) == expected


def test_a_narrow_terminal_hides_the_least_telling_columns_and_says_so() -> None:
    expected = """\
kernels: one row per op and kernel
op               kernel                              count     total_us  percent
aten::mm         void cutlass::Kernel…ign8>(Params)  1,234  1,234,567.9    98.8%
aten::add        vectorized_elementwise_kernel           8         12.0     1.2%
nccl:all_reduce  ncclDevKernel_AllRed…_bf16_RING_LL      –            –     0.0%
hidden to fit: min_us, stream, kernel_category, bytes
"""
    assert printed(kernels(), 80) == expected


def test_spread_goes_before_totals_and_the_share_stays_to_the_last() -> None:
    frame = pl.DataFrame({"op": ["aten::mm"], "kernel_us": [1.0], "kernel_us_max": [2.0], "subtree_percent": [3.0]})
    assert "hidden to fit: kernel_us_max" in printed(table_of(frame), 40).splitlines()
    assert "hidden to fit: kernel_us_max, kernel_us" in " ".join(printed(table_of(frame), 26).split())


def test_asked_for_columns_are_never_hidden_and_numbers_never_cut() -> None:
    expected = """\
kernel         total_us  min_us  percent
void c…ms)  1,234,567.9   900.0    98.8%
vector…nel         12.0     1.0     1.2%
ncclDe…_LL            –     2.0     0.0%
"""
    columns = ["kernel", "total_us", "min_us", "percent"]
    assert printed(kernels(), 40, columns=columns, title=False) == expected


@pytest.mark.parametrize("width", [30, 60, 80, 100, 120, 160, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    wide = table_of(
        pl.DataFrame({"kernel": ["核" * 300, "é" * 300, KERNEL * 9], "total_us": [1.0, 2e9, 3.0]}), "n " * 99
    )
    for table in (kernels("note " * 50), wide):
        assert max(cell_width(line) for line in printed(table, width).splitlines()) <= width


def test_the_short_kernel_name_stands_for_the_long_one_unless_asked() -> None:
    table = table_of(pl.DataFrame({"kernel": ["long"], "kernel_short": ["short"]}))
    assert "long" not in printed(table, 80)
    assert "long" in printed(table, 80, columns=["kernel"])


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no column 'nope'") as caught:
        render_table(kernels(), top=1, width=80, columns=["nope"])
    assert "total_us" in str(caught.value.hint)


def test_units_decide_how_numbers_read() -> None:
    frame = pl.DataFrame(
        {
            "a": [1234.56],
            "b": [0.5],
            "flop": [2e12],
            "id": [123456],
            "ratio": [0.123456],
            "ok": [True],
            "l": [[1, 2]],
        }
    )
    text = printed(table_of(frame, a="ms", b="%"), 120, title=False)
    assert text.split()[7:] == ["1,234.560", "0.5%", "2.000", "TFLOP", "123456", "0.1235", "yes", "[1,2]"]


def test_markup_and_escape_sequences_of_a_trace_stay_harmless() -> None:
    evil = [
        "[red]x[/red]",
        "[/]",
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07t",
        "a\r\nb\tc",
        "\u202eabc",
        ":smile:",
        "\x9b2Jz",
    ]
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="truecolor")
    console.print(render_table(table_of(pl.DataFrame({"op": evil}), "\x1b[2Jnote"), top=None, width=80))
    lines = stream.getvalue().splitlines()
    assert lines[2:10] == ["[red]x[/red]", "[/]", "red", "t", "a  b c", "abc", ":smile:", "z"]
    assert "\x1b[2Jnote" not in lines[-1]
    assert "note: note" in lines[-1]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("\x1b[38;2;1;2;3mx\x1b[m", "x"),
        ("\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1;2q\x1b\\x", "x"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x1b", ""),
        ("\x1b(Bx\x1bcx", "xx"),
        ("a\u200bb\ud800", "ab"),
    ],
)
def test_clean_leaves_one_printable_line(text: str, safe: str) -> None:
    assert clean(text) == safe
    assert clean(text).isprintable()


def test_no_colour_and_no_markup_where_the_console_has_none() -> None:
    assert "\x1b" not in printed(kernels("a note"), 100)
    assert str(render_table(kernels("a note"), top=None, width=100)) + "\n" == printed(kernels("a note"), 100)


def test_a_terminal_gets_a_bold_header() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="standard")
    console.print(render_table(kernels(), top=1, width=80, title=False))
    assert stream.getvalue().startswith("\x1b[1mop")


@pytest.mark.parametrize(
    ("frame", "body"),
    [
        (pl.DataFrame(schema={"op": pl.String, "count": pl.Int64}), "op  count\n(no rows)\n"),
        (pl.DataFrame(), "(no columns)\n(no rows)\n"),
    ],
)
def test_tables_without_rows_or_columns(frame: pl.DataFrame, body: str) -> None:
    assert printed(table_of(frame), 60) == "kernels: one row per op and kernel\n" + body


def test_rows_without_columns_are_still_a_table() -> None:
    assert "(no columns)" in printed(table_of(pl.DataFrame({"gone": [1, 2, 3]}).drop("gone")), 60)


@pytest.mark.parametrize(("top", "footer"), [(0, "… 3 more rows"), (2, "… 1 more row"), (-5, "… 3 more rows")])
def test_rows_left_out_are_counted(top: int, footer: str) -> None:
    assert footer in printed(kernels(), 150, top=top).splitlines()


def test_all_rows_at_once_leave_no_footer() -> None:
    assert "more row" not in printed(kernels(), 150, top=3)
