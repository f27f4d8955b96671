"""The steps strip and the breakdown below it, by mouse and by keyboard, against the tables."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT

Show = Callable[..., Any]
Written = Callable[[Path], Path]
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"


@pytest.fixture(scope="module")
def profile() -> warplens.Profile:
    return opened_once(TRAIN)


@pytest.fixture
def page(written: Written, look: Show) -> Any:
    return look(written(TRAIN))


def step(page: Any, number: int) -> Any:
    return page.page.locator(f'.step[data-step="{number}"]')


def pressed(page: Any) -> list[str]:
    return page.js(
        "() => [...document.querySelectorAll('.step[aria-pressed=true]')].map(button => button.dataset.step)"
    )


def chosen(page: Any) -> str:
    return page.js("() => warplens.store.text('steps')")


def shown_percent(value: float) -> str:
    """As the page writes a share: one decimal below 10 %."""
    digits = "0.1" if value != 0 and abs(value) < 9.95 else "1"
    return f"{Decimal(value).quantize(Decimal(digits), ROUND_HALF_UP)} %"


def bars(page: Any, title: str) -> list[tuple[str, str]]:
    """(name, share) of every row of one of the two lists, as written on the page."""
    rows = page.js(
        """title => {
          const list = [...document.querySelectorAll('.breakdown > div')]
            .find(each => each.querySelector('h3').textContent === title);
          return [...list.querySelectorAll('tr')]
            .map(row => [row.querySelector('button').textContent, row.querySelector('.num').textContent]);
        }""",
        title,
    )
    return [(name, share) for name, share in rows]


def causes(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Share of the time by cause; there is one GPU here."""
    return {row["cause"]: row["percent"] for row in sorted(rows, key=lambda row: -row["total_us"])}


def test_a_click_describes_a_step_and_another_lets_it_go(page: Any, profile: warplens.Profile) -> None:
    numbers = profile.table("steps").frame["step"].to_list()
    assert page.page.locator(".step").count() == len(numbers)
    scope = page.page.locator("#scope")
    assert not scope.is_visible()
    step(page, 5).click()
    assert chosen(page) == "5"
    assert pressed(page) == ["5"]
    assert "step 5." in scope.inner_text()
    step(page, 6).click()
    assert pressed(page) == ["6"]
    step(page, 6).click()
    assert chosen(page) == ""
    assert not scope.is_visible()
    step(page, 3).click()
    scope.get_by_role("button", name="Show everything").click()
    assert chosen(page) == ""
    assert pressed(page) == []
    page.assert_quiet()


def test_ctrl_and_shift_choose_several(page: Any, profile: warplens.Profile) -> None:
    step(page, 7).click()
    step(page, 4).click(modifiers=["Control"])
    assert chosen(page) == "4,7"
    assert "steps 4, 7." in page.page.locator("#scope").inner_text()
    step(page, 5).click(modifiers=["Shift"])
    assert pressed(page) == ["4", "5", "7"]
    expected = profile.gpu_events().filter(pl.col("step").is_in([4, 5, 7]))["dur_ns"].sum() / 1000
    assert sum(row["total_us"] for row in page.table("kernels")) == pytest.approx(expected)
    step(page, 7).click(modifiers=["Control"])
    assert pressed(page) == ["4", "5"]
    for number in (3, 6, 7, 8):
        step(page, number).click(modifiers=["Control"])
    assert chosen(page) == "", "all steps together are the whole trace"


def test_the_keyboard_chooses_and_releases_a_step(page: Any) -> None:
    page.page.locator("#findings button, #findings summary").last.focus()
    page.page.keyboard.press("Tab")
    focused = "() => document.activeElement.dataset.step ?? ''"
    assert page.js(focused) == "3"
    page.page.keyboard.press("Enter")
    assert chosen(page) == "3"
    assert page.js(focused) == "3", "the button that was pressed keeps the focus"
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Shift+Enter")
    assert chosen(page) == "3,4"
    page.page.keyboard.press("Shift+Tab")
    page.page.keyboard.press("Control+Space")
    assert chosen(page) == "4"
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    assert chosen(page) == ""
    step(page, 5).focus()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Escape")
    assert chosen(page) == ""


def test_shares_on_the_page_are_those_of_the_tables(page: Any, profile: warplens.Profile) -> None:
    categories = profile.table("kernel_categories").to_dicts()
    assert bars(page, "GPU time by kernel category") == [
        (row["kernel_category"], shown_percent(row["percent"])) for row in categories
    ]
    idle = causes(profile.table("idle").to_dicts())
    assert bars(page, "Why the GPU was idle") == [(cause, shown_percent(share)) for cause, share in idle.items()]
    measures = {
        row["measure"]: row["percent"] for row in profile.table("timeline").to_dicts() if row["device"] == "all"
    }
    note = page.page.locator(".breakdown").inner_text()
    assert f"busy {shown_percent(measures['busy'])}, idle {shown_percent(measures['idle'])}" in note


def test_shares_of_a_step_are_those_of_its_events(page: Any, profile: warplens.Profile) -> None:
    steps = {row["step"]: row for row in profile.table("steps").to_dicts()}
    for number in (5, 8):
        page.state(steps=str(number))
        events = profile.gpu_events().filter(pl.col("step") == number)
        whole = events["dur_ns"].sum()
        sums = dict(events.group_by("kernel_category").agg(pl.col("dur_ns").sum()).iter_rows())
        expected = {name: shown_percent(100 * ns / whole) for name, ns in sums.items()}
        assert dict(bars(page, "GPU time by kernel category")) == expected
        idle = causes(page.table("idle"))
        assert bars(page, "Why the GPU was idle") == [(cause, shown_percent(share)) for cause, share in idle.items()]
        assert sum(idle.values()) == pytest.approx(100 - steps[number]["busy_percent"], abs=1e-3)
        busy = shown_percent(steps[number]["busy_percent"])
        assert f"busy {busy}" in page.page.locator(".breakdown").inner_text()
        assert f"GPU busy {busy}" in (step(page, number).get_attribute("aria-label") or "")


def test_the_bar_is_all_of_the_time(page: Any, profile: warplens.Profile) -> None:
    measures = {
        row["measure"]: row["percent"] for row in profile.table("timeline").to_dicts() if row["device"] == "all"
    }
    rows = {row["step"]: row for row in profile.table("steps").to_dicts()}
    for number, busy in ((None, measures["busy"]), (5, rows[5]["busy_percent"])):
        page.state(steps="" if number is None else str(number))
        parts = page.js(
            "() => [...document.querySelectorAll('.whole-bar > span')]"
            ".map(part => [part.title.split(':')[0], parseFloat(part.style.width)])"
        )
        assert sum(width for _, width in parts) == pytest.approx(100, abs=0.3)
        assert sum(width for name, width in parts if name != "idle") == pytest.approx(busy, abs=0.3)
        label = page.page.locator(".whole-bar").get_attribute("aria-label")
        assert label.count("%") == len(parts) > 3


def test_each_list_leads_to_its_rows(page: Any, profile: warplens.Profile) -> None:
    kernels = profile.table("kernels").frame
    gaps = profile.table("gaps").frame
    routes = [
        ("Elementwise", "kernels", kernels.filter(pl.col("kernel_category") == "Elementwise")),
        ("Memory Ops", "kernels", kernels.filter(pl.col("kernel_category") == "Memory Ops")),
        ("host sync", "gaps", gaps.filter(pl.col("cause") == "host sync")),
        ("short gaps", "idle", profile.table("idle").frame),
    ]
    for name, table, expected in routes:
        page.page.locator(".breakdown").get_by_role("button", name=name, exact=True).click()
        assert page.js("() => warplens.store.text('table')") == table
        assert len(expected) > 0
        assert page.page.locator(".tv-shown").inner_text().startswith(f"{len(expected)} ")
        column = "cause" if table != "kernels" else "kernel_short"
        cells = page.js(
            """column => {
              const at = [...document.querySelectorAll('.tv-heads > *')].findIndex(head => head.dataset.column === column);
              const rows = [...document.querySelectorAll('.tv-body .tv-row:not([hidden])')];
              return rows.map(row => row.children[at].title || row.children[at].textContent);
            }""",
            column,
        )
        assert sorted(cells) == sorted(expected[column].to_list())
    for place, table in ((0, "kernel_categories"), (1, "idle")):
        page.page.locator(".breakdown").get_by_role("button", name="as a table").nth(place).click()
        assert page.js("() => warplens.store.text('table')") == table
    page.assert_quiet()
