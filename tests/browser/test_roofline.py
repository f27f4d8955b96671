"""The roofline: every op of its table is somewhere, the ceilings carry their values, and dots lead to rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, nightly_after

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
CONVOLUTIONS = ROOT / "samples" / "kineto" / "resnet50_train.json.gz"
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
DOTS = ".rl-svg .rl-dot"


@pytest.fixture(scope="module")
def profile() -> warplens.Profile:
    return opened_once(EAGER)


@pytest.fixture
def page(written: Written, look: Show) -> Any:
    return in_sight(look(written(EAGER)))


def in_sight(page: Any) -> Any:
    page.page.locator("#roofline").scroll_into_view_if_needed()
    return page


def time_text(us: float) -> str:
    ns = us * 1000
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)):
        if ns >= size:
            value = ns / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f} {unit}"
    return "0 ns"


def has_flops(row: dict[str, Any]) -> bool:
    return bool(row["flop"] and row["intensity"])


def sizes(row: dict[str, Any]) -> str:
    return " · ".join(filter(None, (row["family"], row["params"], row["dtype"])))


def spoken(row: dict[str, Any]) -> str:
    """How the label of a row's dot begins."""
    calls = f"{row['count']:,} × {time_text(row['kernel_us_mean'])}"
    return f"{row['op']}, {sizes(row)}, time {time_text(row['total_us'])}: {calls}"


@pytest.mark.parametrize("trace", nightly_after(1, [EAGER, CONVOLUTIONS]), ids=lambda path: path.stem)
def test_every_op_of_the_table_is_shown(trace: Path, written: Written, look: Show) -> None:
    page = look(written(trace))
    rows = opened_once(trace).table("roofline").to_dicts()
    labels = page.js(f"() => [...document.querySelectorAll('{DOTS}')].map(dot => dot.ariaLabel)")
    text = page.page.locator("#roofline").inner_text()
    named = re.search(r"([\d,]+) ops? with neither FLOPs nor bytes: only in the table", text)
    nowhere = int(named[1].replace(",", "")) if named else 0
    assert nowhere == sum(not row["flop"] and not row["bytes"] for row in rows)
    assert len(labels) + nowhere == len(rows) > 50
    strip = re.search(r"([\d,]+) ops? \(.*?\) without FLOPs: in the strip", text)
    assert strip
    assert int(strip[1]) == sum(not has_flops(row) and bool(row["bytes"]) for row in rows)
    heaviest = sorted((row for row in rows if row["flop"] or row["bytes"]), key=lambda row: -row["total_us"])
    assert all(label.startswith(spoken(row)) for label, row in zip(labels, heaviest, strict=True))
    page.assert_quiet()


def test_dots_stand_where_their_numbers_say(page: Any, profile: warplens.Profile) -> None:
    """Places on a log scale are a line of the logarithm: any two dots give it, all others must lie on it."""
    rows = sorted(filter(has_flops, profile.table("roofline").to_dicts()), key=lambda row: -row["total_us"])
    places = page.js(
        f"() => [...document.querySelectorAll('{DOTS}')].map(dot => [dot.ariaLabel, "
        "...dot.getAttribute('transform').match(/[\\d.-]+/g).map(Number)])"
    )
    found = [(row, x, y) for row in rows for label, x, y in places if label.startswith(spoken(row))]
    assert len(found) >= len(rows) > 20
    points = pl.DataFrame(
        [(row["intensity"], row["flop"] / row["kernel_us_mean"] / 1e6, x, y) for row, x, y in found],
        schema=["intensity", "tflops", "x", "y"],
        orient="row",
    ).with_columns(pl.col("intensity", "tflops").log(10))
    floor = points["y"].max()
    inside = points.filter(pl.col("y") < floor - 1)  # the slowest may lie on the chart's edge
    for value, place in (("intensity", "x"), ("tflops", "y")):
        low, high = inside.sort(value).row(0, named=True), inside.sort(value).row(-1, named=True)
        slope = (high[place] - low[place]) / (high[value] - low[value])
        error = (pl.col(place) - low[place] - slope * (pl.col(value) - low[value])).abs()
        assert inside.select(error.max()).item() < 1.5, value
        assert slope > 0 if place == "x" else slope < 0


def test_a_dot_tells_of_itself_and_leads_to_its_row(page: Any, profile: warplens.Profile) -> None:
    rows = profile.table("roofline").to_dicts()
    place = max(range(len(rows)), key=lambda row: rows[row]["total_us"])
    first = page.page.locator(DOTS).first
    assert [first.get_attribute("tabindex"), first.get_attribute("role")] == ["0", "button"]
    first.focus()
    tip = page.page.locator("[role=tooltip]:visible").inner_text()
    assert rows[place]["op"] in tip
    assert rows[place]["params"] in tip
    assert time_text(rows[place]["total_us"]) in tip
    page.page.keyboard.press("ArrowRight")
    second = page.js("() => document.activeElement.ariaLabel")
    (other,) = [number for number, row in enumerate(rows) if second.startswith(spoken(row))]
    page.page.keyboard.press("Enter")
    assert page.js("() => [warplens.store.text('table'), warplens.store.text('row')]") == ["roofline", str(other)]
    page.page.locator(DOTS).first.dispatch_event("click")
    assert page.js("() => warplens.store.text('row')") == str(place)
    assert rows[place]["params"] in page.page.locator(".tv-detail").inner_text()
    assert page.page.locator(f"{DOTS}.chosen").count() == 1
    page.page.locator(DOTS).nth(3).hover(force=True)
    assert page.page.locator("[role=tooltip]:visible").count() == 1
    page.assert_quiet()


def significant(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f}"


def test_ceilings_carry_the_values_of_their_table(page: Any, profile: warplens.Profile) -> None:
    rows = profile.table("ceilings").to_dicts()
    page.page.get_by_label("all ceilings").check()
    texts = page.page.locator(".rl-svg text").all_text_contents()
    lines = page.page.locator(".rl-svg line.rl-ceiling")
    compute = [row for row in rows if row["per"] == "TFLOP/s"]
    assert lines.count() >= len({row["value"] for row in compute})
    named = " | ".join(texts)
    for row in compute:
        kind = "measured" if row["measured"] else "data sheet"
        assert f"{significant(row['value'])} TFLOP/s · {kind}" in texts, row
        assert row["unit"] in named
        assert row["dtype"] in named
    (memory,) = (row for row in rows if row["unit"] == "memory")
    label = (
        f"memory {significant(memory['value'])} {memory['per']} · {'measured' if memory['measured'] else 'data sheet'}"
    )
    assert texts.count(label) == 2, "along the diagonal, and on the strip of what only moves data"
    dashed = page.page.locator(".rl-svg line.rl-ceiling.promised").count()
    assert (dashed > 0) == any(not row["measured"] for row in rows)
    page.page.get_by_label("all ceilings").uncheck()
    used = set(profile.table("roofline").frame["unit"].to_list())
    shown = page.page.locator(".rl-svg text").all_text_contents()
    expected = {significant(row["value"]) for row in compute if f"{row['unit']} {row['dtype']}" in used}
    assert {text.split(" ")[0] for text in shown if " TFLOP/s · " in text} == expected


def test_the_list_of_losses_is_that_of_the_table(page: Any, profile: warplens.Profile) -> None:
    rows = profile.table("roofline").to_dicts()
    lossy = sorted((row for row in rows if (row["lost_us"] or 0) > 0), key=lambda row: -row["lost_us"])
    items = page.page.locator(".rl-losses li")
    assert items.count() == min(10, len(lossy))
    for place, row in enumerate(lossy[:10]):
        item = items.nth(place)
        assert item.locator(".rl-op").inner_text().removesuffix(" ⚑") == row["op"]
        assert item.locator(".rl-lost").inner_text() == time_text(row["lost_us"])
        assert item.locator(".rl-sizes").inner_text() == sizes(row)
    lost, whole = sum(row["lost_us"] for row in lossy), sum(row["total_us"] for row in rows)
    assert f"{time_text(lost)} of {time_text(whole)} is" in page.page.locator(".rl-losses").inner_text()
    items.nth(1).get_by_role("button").click()
    assert rows[int(page.js("() => warplens.store.text('row')"))] == lossy[1]


def test_families_are_hidden_and_found(page: Any, profile: warplens.Profile) -> None:
    frame = profile.table("roofline").frame
    shown = frame.filter((pl.col("flop") > 0) | (pl.col("bytes") > 0))
    gemms = shown.filter(pl.col("family") == "gemm")
    chip = page.page.locator(".rl-legend button", has_text="gemm")
    chip.focus()
    page.page.keyboard.press("Space")
    assert page.page.locator(DOTS).count() == len(shown) - len(gemms)
    assert page.js("() => document.activeElement.textContent") == "gemm"
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    assert page.page.locator(DOTS).count() == len(shown)
    page.state(q="gemm")
    assert page.page.locator(f"{DOTS}:not(.faded)").count() == len(gemms)


def test_it_follows_a_selected_step(written: Written, look: Show) -> None:
    page = look(written(TRAIN))
    page.state(steps="5")
    rows = page.table("roofline")
    assert "step 5" in page.page.locator("#roofline").inner_text()
    labels = page.js(f"() => [...document.querySelectorAll('{DOTS}')].map(dot => dot.ariaLabel)")
    assert len(labels) == len(rows) > 5
    for row in rows:
        assert any(label.startswith(spoken(row)) for label in labels), row
    whole = opened_once(TRAIN).table("roofline").to_dicts()
    assert {row["count"] for row in rows} != {row["count"] for row in whole}
    page.state(range="0-10", steps="")
    assert "No op with a known cost is in" in page.page.locator("#roofline .empty").inner_text()
    page.assert_quiet()
