"""The first screen, details beside the timeline, tracks, notes, memory and step against step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT
from warplens.model.table import Column, Table
from warplens.outputs.html import page_bytes

Show = Callable[..., Any]
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
GIB = 2**30
BOX = "selector => { const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect(); return [x, y, x + width, y + height]; }"


@pytest.fixture(scope="module")
def written_page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, warplens.Profile]:
    """A report with memory over time: it rises to 3 GiB in the third of four moments."""
    profile = opened_once(TRAIN)
    document = profile.document()
    start_ms = profile.gpu_events()["start_ns"].min() / 1e6  # type: ignore[operator]
    timeline = pl.DataFrame(
        {
            "device": ["GPU 0"] * 4,
            "start_ms": [start_ms + 10 * place for place in range(4)],
            "allocated_bytes": [GIB, 2 * GIB, 3 * GIB, GIB],
            "reserved_bytes": [4 * GIB] * 4,
            "parameters_bytes": [GIB] * 4,
            "activations_bytes": [0, GIB, 2 * GIB, 0],
        }
    )
    peak = pl.DataFrame(
        {
            "device": ["GPU 0", "GPU 0", "GPU 0", "GPU 1"],
            "category": ["cache", "activations", "parameters", "activations"],
            "module": ["", "Net/block.1", "Net", "Elsewhere"],
            "bytes": [GIB, 2 * GIB, GIB, GIB],
        }
    )
    own = [table_of("memory_timeline", timeline), table_of("memory_peak", peak)]
    others = [table for table in document.tables if table.name not in ("memory_timeline", "memory_peak")]
    path = tmp_path_factory.mktemp("second") / "page.html"
    path.write_bytes(page_bytes(replace(document, tables=[*others, *own])))
    return path, profile


def table_of(name: str, frame: pl.DataFrame) -> Table:
    columns = [
        Column(column, column, "bytes" if column.endswith("bytes") else "", frame[column].dtype)
        for column in frame.columns
    ]
    return Table.from_frame(name, "for a test", tuple(columns), frame)


def test_the_first_screen_and_details_that_cover_nothing(written_page: Any, show: Show) -> None:
    page = show(written_page[0], width=1280, height=900)
    for selector in (".tile", ".verdict", ".top-finding", "#search"):
        assert page.js(BOX, selector)[3] <= 900, selector
    assert page.page.locator(".top-finding").count() == min(3, len(written_page[1].findings()))
    assert page.js(BOX, ".tl-stage")[1] < 600
    row = page.js("() => warplens.scene.data.gpuRow[40]")
    page.page.locator(".top-finding .title").first.click()
    page.state(event=f"0:{row}")
    page.settled()
    lanes, details = page.js(BOX, ".tl-main"), page.js(BOX, ".tl-details")
    assert lanes[2] <= details[0]
    bar = page.page.locator(".tl-splitter")
    bar.focus()
    for _ in range(3):
        page.page.keyboard.press("ArrowLeft")
    width = page.js("() => document.querySelector('.tl-details').offsetWidth")
    assert width > details[2] - details[0] + 60
    page.goto(f"event=0:{row}")
    assert page.js("() => document.querySelector('.tl-details').offsetWidth") == width
    page.js("() => localStorage.clear()")
    page.assert_quiet()


def test_search_stays_in_sight_and_finds_kernels_first(written_page: Any, look: Show) -> None:
    page = look(written_page[0])
    page.js("() => document.getElementById('tables').scrollIntoView()")
    before = page.settled().js(BOX, "#tables-title")[1]
    page.page.keyboard.press("/")
    page.page.keyboard.type("gelu")
    page.page.wait_for_selector("#found-names:not([hidden])")
    assert page.settled().js(BOX, "#tables-title")[1] == pytest.approx(before, abs=2)
    assert 0 <= page.js(BOX, "#search")[1] < 60
    assert page.page.locator("#found-names h3").all_inner_texts()[0].startswith("GPU work")
    page.page.keyboard.press("Enter")
    row = int(page.js("() => warplens.store.text('event')").split(":")[1])
    assert page.js("row => warplens.scene.gpuEvent[row]", row) >= 0
    page.assert_quiet()


def test_memory_lies_under_the_lanes_and_its_peak_lists_the_holders(written_page: Any, look: Show) -> None:
    page = look(written_page[0])
    assert "Memory · GPU 0" in page.page.locator(".tl-stage .tl-name").all_inner_texts()
    x = page.js("() => { const peak = warplens.wholeTable('memory_timeline').number('start_ms', 2) * 1e6; "
                "const [from, to] = warplens.home(); return (peak - from) / (to - from); }")  # fmt: skip
    canvas, label = page.js(BOX, ".tl-stage canvas"), page.js(BOX, '[data-lane="memory_timeline.0"]')
    page.page.mouse.click(canvas[0] + x * (canvas[2] - canvas[0]) + 3, label[1] + 40)
    text = page.page.locator(".tl-details").inner_text()
    assert "Memory · GPU 0: 3.00 GiB" in text
    assert "Who holds it" in text
    assert "Net/block.1" in text
    assert "Elsewhere" not in text
    held = [" ".join(item.split()) for item in page.page.locator(".tl-details li").all_inner_texts()]
    assert held[-3:] == [
        "activations 2.00 GiB · 67 % Net/block.1",
        "parameters 1.00 GiB · 33 % Net",
        "cache 1.00 GiB · 25 %",
    ]
    assert "Not allocated, of 4.00 GiB reserved" in text
    page.page.keyboard.press("/")
    page.page.keyboard.type("gelu")
    page.page.keyboard.press("Enter")
    assert "gelu" in page.settled().page.locator(".tl-details h3").inner_text().lower(), "an event replaces the moment"
    page.assert_quiet()


def test_tracks_are_hidden_moved_and_pinned_and_notes_are_kept_by_the_address(
    written_page: Any, show: Show, look: Show
) -> None:
    page = look(written_page[0])
    names = page.page.locator(".tl-stage .tl-name").all_inner_texts()
    memory = page.page.locator('[data-lane="memory_timeline.0"]')
    memory.focus()
    page.page.keyboard.press("Alt+ArrowUp")
    moved = page.js("() => warplens.store.get('laneorder')")
    assert moved.index("memory_timeline.0") == names.index("Memory · GPU 0") - 1
    page.page.locator(".tl-stage [data-lane]").last.click(button="right")
    page.page.get_by_role("menuitem", name="Hide").click()
    assert page.page.locator(".tl-stage [data-lane]").count() == len(names) - 1
    thread = page.page.locator(".tl-scroller [data-lane]").first
    key = thread.get_attribute("data-lane")
    thread.click(button="right")
    page.page.get_by_role("menuitem", name="Pin on top").click()
    assert page.page.locator(f'.tl-pinned [data-lane="{key}"]').count() == 1
    page.page.locator("#timeline [role=application]").focus()
    page.page.keyboard.press("b")
    page.page.keyboard.type("why | so ~ slow?")
    again = show(written_page[0], page.settled().js("() => location.hash.slice(1)"))
    assert again.page.locator(".tl-note input").input_value() == "why | so ~ slow?"
    assert again.page.locator(f'.tl-pinned [data-lane="{key}"]').count() == 1
    again.page.get_by_role("button", name="hidden track").click()
    assert again.page.locator(".tl-stage [data-lane]").count() == len(names)
    again.assert_quiet()


def test_step_against_step_agrees_with_the_events(written_page: Any, look: Show) -> None:
    page = look(written_page[0], "stepa=4&stepb=5&stepby=category")
    events = written_page[1].gpu_events()
    rows = page.js(
        "() => { const table = warplens.tableFor('step_diff'); return Array.from({ length: table.rows }, (_, row) => "
        "[table.text('category', row), table.number('a_us', row), table.number('b_us', row)]); }"
    )
    busy = [row for row in rows if not row[0].startswith("idle: ")]
    for side, step in ((1, 4), (2, 5)):
        spent = events.filter(pl.col("step") == step)["dur_ns"].sum() / 1e3
        assert sum(row[side] for row in busy) == pytest.approx(spent)
    # The slow step waits for the host, and that comes first.
    assert rows[0][0] == "idle: host busy"
    assert "idle: host busy" in page.page.locator(".step-compare tbody tr").first.inner_text()
    page.assert_quiet()


def test_a_served_model_shows_its_phases_and_what_is_between_two_tokens_within_two_clicks(
    tmp_path: Path, show: Show
) -> None:
    path = tmp_path / "served.html"
    profile = warplens.report(ROOT / "samples" / "serving" / "served.json.gz", path, cache=False)
    page = show(path, width=1280, height=900)
    assert "Passes" in page.page.locator(".tl-stage .tl-name").all_inner_texts()
    phases = {row["phase"]: row for row in profile.table("serving_phases").to_dicts()}
    tile = page.page.locator(".tile", has_text="Decode")
    assert f"{phases['decode']['tokens_per_s']:,.0f} tokens/s" in tile.inner_text()
    tile.click()
    assert 0 <= page.settled().js(BOX, "#serving-title")[1] < 200
    rows = page.page.locator("table.serving tbody tr:has(th)").all_inner_texts()
    assert [row.split()[0] for row in rows] == list(phases)
    latency = {row["part"] for row in profile.table("token_latency").to_dicts()} - {"interval"}
    assert set(page.page.locator("#serving table.bars th").all_inner_texts()) == latency
    slowest = profile.table("slow_iterations").to_dicts()[0]
    page.page.get_by_role("button", name=f"pass {slowest['iteration']}:").click()
    chosen = page.settled().js("() => warplens.store.get('range')")
    assert (chosen[1] - chosen[0]) / 1e6 == pytest.approx(slowest["interval_ms"], abs=1e-3)
    passes = profile.table("iterations").frame.filter(pl.col("iteration") < slowest["iteration"])
    generated = passes.filter(pl.col("decode_tokens") > 0)
    ends = (generated["gpu_start_ms"] + generated["time_ms"] - generated["gap_ms"]).max()
    assert chosen[0] / 1e6 == pytest.approx(ends, abs=1e-3)
    page.assert_quiet()
