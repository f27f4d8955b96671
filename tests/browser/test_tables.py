"""The tables on the page: rows, cells, order, filters, files and the way from a row to the timeline."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, kernel, launch, op, write_trace
from warplens.model.critical_path import COLUMNS
from warplens.model.table import Table

Show = Callable[..., Any]
Written = Callable[[Path], Path]
Row = dict[str, Any]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
LONG = ROOT / "samples" / "kineto" / "bloom_prefill.json.gz"
MADE_HERE = {"gpu_events", "host_events", "call_tree"}
GRID = ".tv-grid"


@pytest.fixture(scope="module")
def profile() -> warplens.Profile:
    return opened_once(EAGER)


@pytest.fixture
def page(written: Written, look: Show) -> Any:
    return look(written(EAGER))


def visible(page: Any) -> list[Row]:
    """The rows in the document by column: the full text where a cell is cut."""
    return page.js(
        """() => {
          const names = [...document.querySelectorAll('.tv-heads > *')].map(head => head.dataset.column);
          const rows = [...document.querySelectorAll('.tv-body .tv-row:not([hidden])')];
          rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex);
          return rows.map(row => Object.fromEntries([['#', Number(row.ariaRowIndex) - 2],
            ...names.map((name, at) => [name, row.children[at].title || row.children[at].textContent])]));
        }"""
    )


NAMES = {"line", "step", "stream", "device", "gpu", "node", "parent", "a_step", "b_step"}
MOMENTS = {"start_ms", "end_ms", "peak_ms"}


def cell(column: warplens.model.table.Column, value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        return value
    if column.name in MOMENTS:
        return rounded(value, 3)
    if float(value).is_integer():
        return str(int(value)) if column.name in NAMES else f"{int(value):,}"
    size = abs(value)
    return rounded(
        value, 2 if column.unit == "%" else 1 if size >= 100 else 2 if size >= 1 else 4 if size >= 0.001 else 6
    )


def rounded(value: float, digits: int) -> str:
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,}"


def saved(page: Any) -> tuple[str, list[list[str]]]:
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Save CSV").click()
    text = Path(download.value.path()).read_bytes().decode()
    return download.value.suggested_filename, list(csv.reader(io.StringIO(text, newline="")))


def csv_rows(page: Any) -> list[list[str]]:
    """What the button would save, without the time that a download takes."""
    text = page.js(
        """async () => {
          const [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
          const blobs = [];
          URL.createObjectURL = blob => (blobs.push(blob), 'blob:kept');
          HTMLAnchorElement.prototype.click = () => undefined;
          [...document.querySelectorAll('#tables button')].find(each => each.textContent === 'Save CSV').click();
          [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [make, click];
          return blobs[0].text();
        }"""
    )
    return list(csv.reader(io.StringIO(text, newline="")))


def exact(text: str, value: Any) -> bool:
    """Whether a CSV cell holds exactly this value."""
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == str(value).lower()
    return text == value if isinstance(value, str) else float(text) == value


def assert_same(found: list[list[str]], columns: list[str], expected: list[Row]) -> None:
    assert found[0] == columns
    assert len(found) == len(expected) + 1
    for row, want in zip(found[1:], expected, strict=True):
        for text, name in zip(row, columns, strict=True):
            assert exact(text, want[name]), (name, text, want[name])


def on_page(profile: warplens.Profile) -> list[warplens.Table]:
    """The report's tables, and what others make on demand; the page makes `critical_path` itself, of what it draws: the
    callers of an event are shown with the event."""
    path = profile.table("critical_path")
    drawn = Table.from_frame(path.name, path.meaning, COLUMNS, path.frame, *path.notes)
    return [*profile.tables(), profile.table("bounds"), drawn]


OPENED = """name => {
  document.querySelector(`.tv-picker [data-table="${name}"]`).click();
  const [panel, grid] = ['.tv-panel', '.tv-grid'].map(each => document.querySelector(each));
  const empty = panel.querySelector('.empty');
  return {
    about: panel.querySelector('.tv-about').innerText,
    empty: empty.checkVisibility() ? empty.innerText : '',
    grid: grid.checkVisibility(),
    count: panel.querySelector('.tv-shown').innerText,
    rows: grid.getAttribute('aria-rowcount'),
    heads: Object.fromEntries([...panel.querySelectorAll('.tv-heads > *')].map(head => [head.dataset.column, head.title])),
    fit: Math.floor((grid.clientHeight - 28) / 24),
  };
}"""


def test_every_table_opens_with_the_right_rows_and_cells(page: Any, profile: warplens.Profile) -> None:
    names = page.js("() => [...document.querySelectorAll('.tv-picker button')].map(each => each.dataset.table)")
    assert set(names) == {table.name for table in on_page(profile)} | MADE_HERE
    assert len(names) == len(set(names))
    for table in on_page(profile):
        seen = page.js(OPENED, table.name)
        assert seen["about"].startswith(f"{table.name}: {table.meaning}")
        assert all(note in seen["about"] for note in table.notes)
        rows = table.to_dicts()
        assert bool(seen["empty"]) == (not rows) == (not seen["grid"]), table.name
        if not rows:
            continue
        assert seen["count"] == f"{len(rows):,} row{'s' if len(rows) > 1 else ''}"
        assert seen["rows"] == str(len(rows) + 1)
        assert seen["heads"] == {
            each.name: f"{each.name}{f' [{each.unit}]' if each.unit else ''}: {each.meaning}" for each in table.columns
        }
        shown = visible(page)
        assert min(seen["fit"], len(rows)) <= len(shown) <= len(rows)
        assert [each["#"] for each in shown] == list(range(len(shown)))
        for each in shown:
            expected = rows[each["#"]]
            for column in table.columns:
                assert each[column.name] == cell(column, expected[column.name]), (table.name, column.name)
    page.assert_quiet()


def test_every_table_is_saved_exactly(page: Any, profile: warplens.Profile) -> None:
    for table in filter(len, on_page(profile)):
        page.state(table=table.name)
        assert_same(csv_rows(page), table.frame.columns, table.to_dicts())
    name, rows = saved(page)
    assert name == f"gpt2_train_step.{table.name}.csv"
    assert rows == csv_rows(page)


def test_texts_with_commas_quotes_and_lines_survive(tmp_path: Path, show: Show) -> None:
    odd = ['a,"b",c', 'two\nlines "quoted"', "carriage\r\nreturn", "plain", ' "', "=SUM(A1)", "ünïcödé 🙂"]
    events = [
        event
        for number, name in enumerate(odd)
        for event in (
            op(name, 100.0 * number, 50, **{"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"]}),
            launch(100.0 * number + 1, 5, number + 1),
            kernel(name, 100.0 * number + 10, 30 + number, number + 1, grid=[1, 1, 1], block=[32, 1, 1]),
        )
    ]
    profile = warplens.report(write_trace(tmp_path / "odd.json", events), tmp_path / "odd.html", cache=False)
    page = show(tmp_path / "odd.html", "table=kernels")
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name in ("kernels", "ops", "gaps"):
        page.state(table=name)
        table = profile.table(name)
        assert len(table) > 3
        rows = saved(page)[1]
        assert_same(rows, table.frame.columns, table.to_dicts())
        page.page.get_by_role("button", name="Copy CSV").click()
        page.page.get_by_text(f"{len(table)} rows are on the clipboard as CSV.").wait_for()
        copied = page.js("() => navigator.clipboard.readText()")
        assert list(csv.reader(io.StringIO(copied, newline=""))) == rows
    page.state(table="ops")
    assert {row[0] for row in csv_rows(page)[1:]} == set(odd)


def in_order(rows: list[Row], column: str, *, descending: bool) -> list[Row]:
    """By a column of numbers, empty cells last, equal ones in the table's own order."""
    known = [row for row in rows if row[column] is not None]
    known.sort(key=lambda row: -row[column] if descending else row[column])
    return [*known, *(row for row in rows if row[column] is None)]


def test_headers_sort_by_click_and_by_keys(page: Any, profile: warplens.Profile) -> None:
    for table, column in (("kernels", "total_us"), ("roofline", "percent_of_roofline"), ("kernel_durations", "to_us")):
        rows, columns = profile.table(table).to_dicts(), profile.table(table).frame.columns
        page.state(table=table, sort="", filter="")
        head = page.page.locator(f'.tv-heads [data-column="{column}"]')
        for state, expected in (
            ("descending", in_order(rows, column, descending=True)),
            ("ascending", in_order(rows, column, descending=False)),
            ("none", rows),
        ):
            head.locator("button").click()
            assert head.get_attribute("aria-sort") == state
            assert_same(csv_rows(page), columns, expected)
    page.state(table="modules")
    first = page.page.locator('.tv-heads [data-column="module"]')
    page.page.locator(".tv-heads button").first.focus()
    page.page.keyboard.press("Enter")
    assert first.get_attribute("aria-sort") == "ascending", "texts begin with A"
    modules = [row[0] for row in csv_rows(page)[1:]]
    assert sorted(modules) == sorted(profile.table("modules").frame["module"].to_list())
    blocks = [int(name.rsplit("_", 1)[1]) for name in modules if re.fullmatch(r".*GPT2Block_\d+", name)]
    assert blocks == list(range(12)), "2 comes before 10"
    page.page.locator(".tv-heads button").first.focus()
    page.page.keyboard.press("ArrowRight")
    name = page.js("() => document.activeElement.parentElement.dataset.column")
    column = next(each for each in profile.table("modules").columns if each.name == name)
    assert column.meaning in page.page.locator(".tv-help").inner_text()
    page.page.keyboard.press("Enter")
    assert page.js("() => warplens.store.text('sort')") == f"-{name}"
    shown = [row[name] for row in visible(page)]
    expected = in_order(profile.table("modules").to_dicts(), name, descending=True)
    assert shown == [cell(column, row[name]) for row in expected[: len(shown)]]
    page.assert_quiet()


def test_filters_keep_the_rows_that_they_name(page: Any, profile: warplens.Profile) -> None:
    kernels = profile.table("kernels").frame
    texts = [name for name, kind in kernels.schema.items() if kind == pl.String]
    anywhere = pl.any_horizontal(pl.col(name).str.to_lowercase().str.contains("gemm", literal=True) for name in texts)
    exprs = {
        "gemm": anywhere,
        "GEMM total_us>500": anywhere & (pl.col("total_us") > 500),
        "op:aten::mul": pl.col("op").str.contains("aten::mul", literal=True),
        "op=aten::mul": pl.col("op") == "aten::mul",
        'kernel_category:"flash attention"': pl.col("kernel_category").str.contains("Flash Attention", literal=True),
        "total_us>=100 total_us<1,000": (pl.col("total_us") >= 100) & (pl.col("total_us") < 1000),
        "count!=1": pl.col("count") != 1,
    }
    page.state(table="kernels")
    box = page.page.get_by_label("Filter rows")
    for text, wanted in exprs.items():
        expected = kernels.filter(wanted)
        assert 0 < len(expected) < len(kernels), text
        page.state(filter=text)
        assert box.input_value() == text
        assert page.page.locator(".tv-shown").inner_text() == f"{len(expected)} of {len(kernels)} rows", text
        assert_same(csv_rows(page), kernels.columns, expected.to_dicts())
    for text, problem in (
        ("total_us>many", "holds numbers"),
        ("nonsense:1", "no column nonsense"),
        ('"open', "Unmatched quotation mark"),
        ("op>3", "holds text"),
        ("total_us>", "No value after"),
    ):
        page.state(filter=text)
        assert problem in page.page.locator(".tv-problem").inner_text()
        assert box.get_attribute("aria-invalid") == "true"
        assert page.page.locator(".tv-shown").inner_text() == f"{len(kernels)} rows"
    box.fill("gemm")
    found = len(kernels.filter(anywhere))
    page.page.locator(".tv-shown", has_text=f"{found} of {len(kernels)} rows").wait_for()
    box.fill("no such words")
    page.page.get_by_text("No row passes the filter.").wait_for()
    assert box.get_attribute("aria-invalid") == "false"
    box.press("Escape")
    page.page.wait_for_function("() => !warplens.store.text('filter')")


def test_a_row_is_chosen_told_in_full_and_led_on_from(page: Any, profile: warplens.Profile) -> None:
    page.state(table="kernels")
    table = profile.table("kernels")
    rows = table.to_dicts()
    page.page.locator(".tv-body .tv-row").nth(2).click()
    assert page.js("() => warplens.store.text('row')") == "2"
    page.page.keyboard.press("ArrowDown")
    assert page.js("() => warplens.store.text('row')") == "3"
    detail = page.page.locator(".tv-detail").inner_text()
    for column in table.columns:
        assert column.meaning in detail
        assert cell(column, rows[3][column.name]) in detail
    page.page.keyboard.press("Enter")
    event = int(page.js("() => warplens.store.text('event')").split(":")[1])
    events = profile.gpu_events()
    shown = events.filter(pl.col("id") == event).row(0, named=True)
    assert (shown["kernel_short"], shown["op"]) == (rows[3]["kernel_short"], rows[3]["op"])
    assert shown["dur_ns"] == rows[3]["max_us"] * 1000
    assert page.page.locator(".tl-details").inner_text().startswith(rows[3]["kernel_short"])
    for name in ("gaps", "activity"):
        page.state(table=name, row="", range="", event="")
        page.settled()  # until then the rows are those of the table before
        page.page.locator(".tv-body .tv-row").first.dblclick()
        first = profile.table(name).to_dicts()[0]
        start = page.js("() => warplens.store.get('range')")[0]
        assert start == pytest.approx(first["start_ms"] * 1e6, abs=1)
    page.assert_quiet()


def test_the_address_reopens_a_row(written: Written, show: Show, profile: warplens.Profile) -> None:
    place, row = [each for each in enumerate(profile.table("roofline").to_dicts()) if each[1]["family"] == "pointwise"][
        -1
    ]
    page = show(written(EAGER), f"table=roofline&sort=-lost_us&filter=family%3Apointwise&row={place}")
    chosen = page.page.locator('.tv-row[aria-selected="true"]')
    assert chosen.count() == 1
    grid, box = page.page.locator(GRID).bounding_box(), chosen.bounding_box()
    assert grid["y"] < box["y"] < grid["y"] + grid["height"] - box["height"] / 2, "it is scrolled into sight"
    assert f"params\n{row['params']}" in page.page.locator(".tv-detail").inner_text()
    assert page.page.get_by_label("Filter rows").input_value() == "family:pointwise"
    wrong = show(written(EAGER), "table=nothing&row=x")
    assert "There is no table nothing" in wrong.page.locator(".tv-about").inner_text()
    wrong.assert_quiet()


def test_event_tables_hold_every_event_and_few_are_in_the_document(written: Written, show: Show) -> None:
    page = show(written(LONG))
    profile = opened_once(LONG)
    gpu = len(profile.gpu_events())
    timed = len(profile.trace.events)
    counts = {
        name: page.page.locator(f'.tv-picker [data-table="{name}"] .tv-count').inner_text()
        for name in ("gpu_events", "host_events")
    }
    assert counts == {"gpu_events": f"{gpu:,}", "host_events": f"{timed - gpu:,}"}
    page.state(table="gpu_events")
    header, *rows = csv_rows(page)
    at = {name: place for place, name in enumerate(header)}
    events = profile.gpu_events()
    expected = events.select("start_ns", "dur_ns", "kernel_short", "kernel_category", "stream")
    found = [
        (round(float(row[at["start_ms"]]) * 1e6), round(float(row[at["dur_us"]]) * 1e3), row[at["kernel"]],
         row[at["kernel_category"]], int(row[at["stream"]]))
        for row in rows
    ]  # fmt: skip
    assert sorted(found) == sorted(expected.rows())
    page.state(table="host_events")
    grid = page.page.locator(GRID)
    assert grid.get_attribute("aria-rowcount") == str(timed - gpu + 1)
    assert timed > 10_000
    in_document = page.page.locator(".tv-body .tv-row").count()
    assert in_document < 60
    grid.evaluate("grid => grid.scrollTop = grid.scrollHeight")
    page.page.wait_for_function(
        "last => [...document.querySelectorAll('.tv-body .tv-row:not([hidden])')].some(row => row.ariaRowIndex == last)",
        arg=timed - gpu + 1,
    )
    last = visible(page)[-1]
    assert last["#"] == timed - gpu - 1
    bottom = page.page.locator(f'.tv-body .tv-row[aria-rowindex="{timed - gpu + 1}"]').bounding_box()
    frame = grid.bounding_box()
    assert bottom["y"] + bottom["height"] <= frame["y"] + frame["height"] + 1
    grid.focus()
    page.page.keyboard.press("Home")
    assert visible(page)[0]["#"] == 0
    page.page.keyboard.press("End")
    assert visible(page)[-1] == last
    assert page.page.locator(".tv-body .tv-row").count() == in_document
    page.page.keyboard.press("Enter")
    assert page.js("() => warplens.store.text('event')").startswith("0:")
    assert last["name"] in page.page.locator(".tl-details").inner_text()
    page.assert_quiet()


def test_the_list_of_tables_is_walked_by_keys(page: Any) -> None:
    page.page.locator(".tv-picker button[aria-current]").focus()
    assert page.js("() => document.activeElement.dataset.table") == "kernels"
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    assert page.js("() => warplens.store.text('table')") == "ops"
    page.page.keyboard.press("End")
    page.page.keyboard.press("Enter")
    assert page.js("() => warplens.store.text('table')") == "quality"
