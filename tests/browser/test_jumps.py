"""From one part of the page to another: links, keys, the browser's Back, and what a link to the page reopens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, kernel, launch, nightly_after, op, write_trace
from warplens.outputs.document import Document
from warplens.outputs.html import page_bytes

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
SYNC = ROOT / "samples" / "faults" / "item_sync.before.json.gz"
IN_SIGHT = "id => { const box = document.getElementById(id).getBoundingClientRect(); return box.top >= -2 && box.top < innerHeight / 2; }"


def focused(page: Any) -> str:
    return page.js("() => document.activeElement.closest('section')?.id ?? ''")


def test_a_link_leads_there_takes_the_keyboard_along_and_back_returns(written: Written, show: Show) -> None:
    page = show(written(EAGER))
    page.page.locator(".card .link", has_text="longest on the timeline").first.click()
    assert page.js(IN_SIGHT, "timeline")
    assert focused(page) == "timeline"
    event = page.js("() => warplens.store.text('event')")
    page.page.keyboard.press("]")
    assert page.js("() => warplens.store.text('event')") not in ("", event)
    page.page.go_back()
    page.until("() => warplens.store.text('event') === ''")
    assert page.page.locator("h1").is_visible()
    page.assert_quiet()


def test_ticked_findings_show_the_step_with_them_and_stay_in_the_link(written: Written, show: Show, look: Show) -> None:
    page = look(written(EAGER))
    profile = opened_once(EAGER)
    subsets, result = profile.fix_subsets(), page.page.locator(".wi-result")
    assert subsets is not None
    boxes = page.page.locator(".wi input[type=checkbox]")
    assert boxes.count() == len(subsets.rows)
    assert "tick what you would change" in result.inner_text()
    findings = profile.findings()
    first, second = [row for row in subsets.rows if not findings[row].bound][:2]
    boxes.nth(subsets.rows.index(first)).focus()
    page.page.keyboard.press("Space")
    assert shown_ms(result.inner_text()) == pytest.approx([subsets.step_ms[0], subsets.with_rows({first})], rel=0.006)
    boxes.nth(subsets.rows.index(second)).check()
    both = [subsets.step_ms[0], subsets.with_rows({first, second})]
    assert shown_ms(result.inner_text()) == pytest.approx(both, rel=0.006)
    again = show(written(EAGER), page.settled().js("() => location.hash.slice(1)"))
    assert shown_ms(again.page.locator(".wi-result").inner_text()) == pytest.approx(both, rel=0.006)
    bound = next(row for row in subsets.rows if findings[row].bound)
    again.page.locator(".wi input[type=checkbox]").nth(subsets.rows.index(bound)).check()
    assert "→ ≥ " in again.page.locator(".wi-result").inner_text(), "of a bound only the most is known"
    again.page.get_by_role("button", name="None").click()
    assert again.page.locator(".wi input:checked").count() == 0
    again.assert_quiet()


def shown_ms(text: str) -> list[float]:
    """The expected times of the step before and after, each with its interval."""
    numbers = [float(number) for number in re.findall(r"([\d.]+) ms", text)]
    for expected, least, most in (numbers[:3], numbers[3:]):
        assert least <= expected <= most
    return numbers[::3]


def test_the_head_has_the_step_in_numbers_which_lead_to_their_tables(written: Written, look: Show) -> None:
    page = look(written(EAGER))
    labels = page.page.locator(".tile span:first-child").all_inner_texts()
    assert labels == [
        "Step", "Bound", "GPU busy", "MFU",
    ]  # fmt: skip
    assert "Gains are of one step: " in page.page.locator("#findings .body > p.quiet").inner_text()
    page.page.locator(".tile", has_text="Bound").click()
    assert page.js("() => warplens.store.get('table')") == "bounds"
    assert page.js(IN_SIGHT, "tables")
    page.assert_quiet()


def test_numbers_lead_to_sections(written: Written, look: Show) -> None:
    page = look(written(EAGER))
    names = page.page.locator("#contents a").all_inner_texts()
    for key, name in enumerate(names[:-1], start=1):
        page.page.keyboard.press(str(key))
        assert page.js(IN_SIGHT, page.js("name => [...document.querySelectorAll('section')].find("
                                         "each => each.querySelector('h2').textContent === name).id", name)), name  # fmt: skip


def test_a_link_reopens_at_the_same_place(written: Written, show: Show, look: Show) -> None:
    page = look(written(EAGER))
    page.js("() => warplens.go({to: 'table', table: 'ops', row: 3})")
    page.settled()
    again = show(written(EAGER), page.js("() => location.hash.slice(1)"))
    assert again.js(IN_SIGHT, "tables")
    assert again.js("() => warplens.store.text('row')") == "3"


def test_a_chain_of_ops_leads_to_its_longest_kernel_on_the_timeline(written: Written, look: Show) -> None:
    page = look(written(EAGER))
    page.page.locator('.card[data-code="WL205"] .links .link', has_text="longest on the timeline").first.click()
    assert focused(page) == "timeline"
    row = int(page.js("() => warplens.store.text('event')").split(":")[1])
    profile = opened_once(EAGER)
    (target, *_) = next(finding for finding in profile.findings() if finding.code == "WL205").targets
    ops = profile.table("chains").to_dicts()[target.row]["ops"].split(" → ")
    event = profile.gpu_events().row(by_predicate=pl.col("id") == row, named=True)
    assert event["op"].removeprefix("aten::") in ops
    # A kernel of microseconds is shown among the others of its step, not alone.
    view = page.js("() => warplens.store.get('view')")
    assert view[0] < event["start_ns"] and view[1] > event["start_ns"] + event["dur_ns"]
    step_ns = profile.table("steps").to_dicts()[0]["gpu_ms"] * 1e6
    assert event["dur_ns"] < step_ns / 100 < view[1] - view[0]


@pytest.mark.parametrize("trace", [EAGER, SYNC], ids=lambda path: path.stem)
def test_the_longest_gap_is_the_one_the_card_tells_of(trace: Path, written: Written, look: Show) -> None:
    page = look(written(trace))
    cards = page.page.locator(".card", has=page.page.locator(".links .link", has_text="longest gap"))
    assert cards.count() > 0
    for place in range(cards.count()):
        told = re.search(r"longest ([\d.,]+) ms", cards.nth(place).inner_text())
        cards.nth(place).locator(".links .link", has_text="longest gap").click()
        start, end = page.js("() => warplens.store.get('range')")
        if told:
            assert (end - start) / 1e6 == pytest.approx(float(told[1].replace(",", "")), abs=0.006)


LINKS = """() => [...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('.title, .link')].map(link => {
  link.click();
  return [link.classList.contains('title') ? '' : link.textContent, warplens.store.hash()];
}))"""
SENTENCES = {
    "findings": ("title", "place", "evidence", "advice", "proof"),
    "evidence": ("what", "detail", "place"),
    "quality": ("message",),
}


def reworded(document: Document) -> Document:
    """The same document with every sentence replaced."""
    tables = []
    for table in document.tables:
        columns = [pl.lit("Lorem ipsum dolor").alias(name) for name in SENTENCES.get(table.name, ())]
        frame = table.frame.with_columns(columns)
        notes = tuple("sit amet" for _ in table.notes)
        tables.append(replace(table, meaning="consectetur", notes=notes, frame=frame))
    return replace(document, title="adipiscing", facts=dict.fromkeys(document.facts, "elit"), tables=tables)


@pytest.mark.parametrize("trace", nightly_after(1, [SYNC, EAGER]), ids=lambda path: path.stem)
def test_rewording_titles_and_evidence_breaks_no_link(trace: Path, tmp_path: Path, show: Show) -> None:
    document = warplens.open(trace, min_gain_percent=0, cache=False).document()
    paths = [tmp_path / "plain.html", tmp_path / "reworded.html"]
    for path, each in zip(paths, [document, reworded(document)], strict=True):
        path.write_bytes(page_bytes(each))
    plain, other = (show(path).js(LINKS) for path in paths)
    assert other == plain
    linked = [hash for card in plain for _, hash in card]
    assert len(linked) > 10 and len(set(linked)) > 5
    assert all("table=evidence" not in hash for hash in linked), "each link leads to data, not back to the sentence"


def test_search_says_how_much_it_found_and_enter_goes_on(written: Written, look: Show) -> None:
    page = look(written(EAGER))
    page.page.keyboard.press("/")
    page.page.keyboard.type("softmax")
    events = opened_once(EAGER)
    names = events.trace.named_events()["name"].str.to_lowercase()
    short = dict(events.gpu_events().select("id", "kernel_short").iter_rows())
    count = sum("softmax" in name or "softmax" in short.get(row, "").lower() for row, name in enumerate(names))
    assert page.page.locator("#found").inner_text() == f"{count:,} events, Enter: next"
    page.page.keyboard.press("Enter")
    row = int(page.js("() => warplens.store.text('event')").split(":")[1])
    assert "softmax" in page.js("row => warplens.scene.name(row) + warplens.scene.short(row)", row).lower()
    page.page.keyboard.press("/")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.type("no such kernel")
    assert page.page.locator("#found").inner_text() == "no event matches"


def test_shares_of_two_gpus_add_up(tmp_path: Path, show: Show) -> None:
    events: list[dict[str, Any]] = []
    for number in range(40):
        at = 100.0 * number
        events += [op("aten::mm", at, 20), launch(at + 2, 5, number + 1)]
        events += [kernel("gemm_kernel", at + 30, 40 + 20 * (number % 2), number + 1, device=number % 2)]
    path = tmp_path / "two.html"
    warplens.report(write_trace(tmp_path / "two.json", events), path, cache=False)
    page = show(path)
    widths = page.js(
        "() => [...document.querySelectorAll('.whole-bar span')].map(each => parseFloat(each.style.width))"
    )
    assert sum(widths) == pytest.approx(100, abs=0.5)
    assert "on 2 GPUs" in page.page.locator(".breakdown").inner_text()


def test_one_empty_kernel_makes_no_nonsense(tmp_path: Path, show: Show) -> None:
    path = tmp_path / "one.html"
    warplens.report(write_trace(tmp_path / "one.json", [kernel("k", 5, 0)]), path, cache=False)
    page = show(path)
    assert re.findall(r"NaN|undefined|Infinity|null", page.page.locator("body").inner_text()) == []
    page.assert_quiet()


def test_the_wheel_scrolls_the_page_also_after_a_click(written: Written, look: Show) -> None:
    page = look(written(EAGER))
    stage = page.page.locator("#timeline [role=application]")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    view = page.js("() => warplens.store.text('view')")
    before = page.js("() => scrollY")
    page.page.mouse.wheel(0, 300)
    page.until("before => scrollY > before", before)
    page.settled()
    assert page.js("() => warplens.store.text('view')") == view


def test_a_click_on_a_small_window_shows_the_details(written: Written, look: Show) -> None:
    page = look(written(EAGER), width=1280, height=720)
    row = page.js("() => warplens.scene.data.gpuRow[0]")
    page.js("row => warplens.go({to: 'event', scene: 0, row})", row)
    title = page.page.locator(".tl-details h3").bounding_box()
    assert 0 < title["y"] < 700


def test_idle_time_on_a_gpu_says_why(written: Written, look: Show) -> None:
    page = look(written(SYNC))
    gap = page.js("() => { const gaps = warplens.wholeTable('gaps'); "
                  "return [gaps.number('start_ms', 0) * 1e6, gaps.number('gap_us', 0) * 1e3, gaps.text('cause', 0)]; }")  # fmt: skip
    page.state(view=f"{gap[0] - gap[1]}-{gap[0] + 2 * gap[1]}")
    stage = page.page.locator("#timeline [role=application]")
    stage.scroll_into_view_if_needed()
    page.settled()
    box = page.page.locator("#timeline canvas").last.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, stage.bounding_box()["y"] + 12)
    assert gap[2] in page.page.locator(".tip:visible").inner_text()
