"""Warps on the timeline: CTAs that fold, regions in their colours, who waits for whom, zoom to nanoseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from warp_traces import ping_pong_bytes

Show = Callable[..., Any]
Written = Callable[[Path], Path]
STAGE = "#timeline [role=application]"
PIXEL = """([label, time]) => {
  const canvas = document.querySelector(".tl-stage canvas");
  const box = canvas.getBoundingClientRect();
  const row = [...document.querySelectorAll(".tl-label")].find(each => each.textContent.includes(label));
  const [from, to] = warplens.store.get("view") ?? warplens.extent();
  const scale = canvas.width / box.width;
  const x = (time - from) / (to - from) * box.width, y = row.getBoundingClientRect().top - box.top + 6;
  const [r, g, b] = canvas.getContext("2d").getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1).data;
  return "#" + [r, g, b].map(value => value.toString(16).padStart(2, "0")).join("");
}"""


@pytest.fixture
def page(written: Written, show: Show, tmp_path: Path) -> Any:
    trace = tmp_path / "ping_pong.chrome_trace"
    trace.write_bytes(ping_pong_bytes(ctas=2))
    opened = show(written(trace))
    opened.page.locator(STAGE).scroll_into_view_if_needed()
    return opened


def texts(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.page.locator(selector).all_inner_texts()]


def colour(page: Any, region: str) -> str:
    return page.js("name => warplens.palette.region(name).toLowerCase()", region)


def test_ctas_hold_their_warps_and_fold(page: Any) -> None:
    headings = [text.replace("\n", " ") for text in texts(page, ".tl-heading")]
    assert headings == ["attention · 2 CTAs", "▾ CTA 0 · core 0", "▸ CTA 1 · core 2"]
    names = texts(page, ".tl-label .tl-name")
    assert names == [f"warp {number}" for number in range(12)]
    page.page.locator(".tl-heading button").nth(1).click()
    assert len(texts(page, ".tl-label .tl-name")) == 24
    page.page.locator(".tl-heading button").nth(0).click()
    assert len(texts(page, ".tl-label .tl-name")) == 12
    assert page.js("() => warplens.store.text('lanes')") == "+c1,-c0"
    page.assert_quiet()


def test_regions_have_the_colours_of_the_legend(page: Any) -> None:
    regions = page.js("() => [...document.querySelectorAll('.tl-chip')].map(chip => chip.dataset.category)")
    assert sorted(regions) == ["mma", "softmax", "tma load", "wait buffer", "wait mma", "wgmma issue"]
    assert len({colour(page, region) for region in regions}) == len(regions)
    # At 250 ns the first group multiplies while the second still waits and the third loads.
    assert page.js(PIXEL, ["warp 1", 250]) == colour(page, "mma")
    assert page.js(PIXEL, ["warp 5", 250]) == colour(page, "wait mma")
    assert page.js(PIXEL, ["warp 9", 250]) == colour(page, "tma load")
    page.page.locator("[data-category='mma']").click()
    page.settled()
    assert page.js(PIXEL, ["warp 1", 250]) != colour(page, "mma")


def test_a_wait_tells_who_works_meanwhile_and_what_it_waited_for(page: Any) -> None:
    row = page.js("""() => {
      const scene = warplens.scenes[0];
      const lane = scene.lanes.findIndex(each => each.process.endsWith("CTA0") && each.thread === "warp 0");
      return [...scene.data.label.keys()].find(row => scene.data.lane[row] === lane && scene.name(row) === "wait mma"
        && scene.start(row) > 0);
    }""")
    page.state(event=f"0:{row}")
    details = page.page.locator(".tl-details").inner_text()
    assert "warp 0 of CTA 0 on core 0" in details
    assert "warps 4–7" in details and "mma 81 %" in details
    assert "warps 8–11" in details and "tma load 100 %" in details
    assert "tile from warp 8, 105 ns before" in details


def test_the_view_zooms_to_nanoseconds(page: Any) -> None:
    page.page.locator(STAGE).focus()
    for _ in range(20):
        page.page.keyboard.press("w")
    first, last = page.js("() => warplens.store.get('view')")
    assert 8 <= last - first <= 20
    # The chart draws at the next frame.
    page.page.wait_for_function("() => document.querySelector('.tl-corner').textContent.endsWith('ns')")
    page.assert_quiet()


def test_the_real_sample_s_warps(written: Written, show: Show) -> None:
    opened = show(written(ROOT / "samples" / "proton" / "intra.chrome_trace.gz"))
    assert texts(opened, ".tl-heading")[0] == "k · 64 CTAs"
    assert len(texts(opened, ".tl-heading")) == 65
    rows = opened.table("warp_regions")
    assert {(row["warp"], row["region"]) for row in rows} == {
        (warp, name) for warp in range(4) for name in ("load", "x", "y", "compute", "store")
    }
    opened.assert_quiet()
