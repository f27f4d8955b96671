"""The page of layouts: tiles side by side, numbered by bank or thread, one wavefront at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warplens_lab.layouts.exploring import explore
from warplens_lab.layouts.reading import read_tile
from warplens_lab.layouts.scene import layout_scene
from warplens_lab.pages.layout_page import layout_page_bytes

Show = Callable[..., Any]
SHADES = """at => {
  const canvas = document.querySelectorAll('.card')[at].querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def written(folder: Path, *texts: str, name: str = "layout.html") -> Path:
    path = folder / name
    path.write_bytes(layout_page_bytes(layout_scene(explore([read_tile(text) for text in texts]))))
    return path


@pytest.fixture(scope="module")
def transpose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("layout"), "float[32][32]")


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("threads"), "blocked([1,8],[4,8],[4,1],[1,0])", "blocked([4],[32],[4],[0])")


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.js("s => [...document.querySelectorAll(s)].map(e => e.textContent)", selector)
    return found


def numbers(page: Any, card: int) -> list[int]:
    found: list[int] = page.js("at => [...warplens.numbers(warplens.page.panels[at])]", card)
    return found


def test_it_opens_from_disk_without_a_request_or_a_complaint(transpose: Path, show: Show) -> None:
    page = show(transpose)
    for state in (
        {"show": "conflicts"},
        {"access": "1"},
        {"wave": "31"},
        {"pick": "3"},
        {"show": "lane"},
        {"theme": "dark"},
    ):
        page.state(**state)
        page.settled()
    page.assert_quiet()


def test_variants_are_side_by_side_with_the_cost_of_the_chosen_access(transpose: Path, look: Show) -> None:
    page = look(transpose, "access=1")
    assert texts(page, ".card h2") == ["Given", "Padded", "Swizzled"]
    assert texts(page, ".expression") == ["float[32][32]", "float[32][33]", "Swizzle<5,0,5> o (32,32):(32,1)"]
    assert [text.partition(",")[0] for text in texts(page, ".figures")] == [
        "column: 32-way bank conflicts",
        "column: no bank conflicts",
        "column: no bank conflicts",
    ]
    page.state(access="0")
    page.settled()
    assert all("no bank conflicts" in text for text in texts(page, ".figures"))


def test_elements_are_numbered_by_what_is_picked(transpose: Path, look: Show) -> None:
    page = look(transpose)
    assert numbers(page, 0)[:34] == [*range(32), 0, 1]
    assert numbers(page, 1)[32:34] == [1, 2]
    assert numbers(page, 2)[32:34] == [1, 0]
    page.page.get_by_role("button", name="offset").click()
    page.settled()
    assert numbers(page, 1)[32] == 33
    page.page.get_by_role("button", name="lane").click()
    page.page.locator("#access").select_option("1")
    page.settled()
    assert numbers(page, 0)[32:34] == [1, 1]


def test_a_wavefront_shows_which_banks_have_several_words(transpose: Path, look: Show) -> None:
    page = look(transpose, "show=conflicts&access=1")
    waves = texts(page, ".card .small.quiet:not(:nth-child(3))")
    assert "Wavefront 1 of 32: 32 lanes in 1 bank of 32, 32 passes" in waves[0]
    assert "32 lanes in 32 banks of 32, 1 pass" in waves[1]
    page.page.keyboard.press("]")
    page.settled()
    assert "Wavefront 2 of 32" in texts(page, ".card .small.quiet:not(:nth-child(3))")[0]


def test_a_click_frames_all_elements_with_the_same_number(transpose: Path, show: Show) -> None:
    page = show(transpose)
    before = page.js(SHADES, 0)
    page.page.locator(".card .picture").first.click(position={"x": 60, "y": 20})
    page.settled()
    picked = page.js("() => warplens.store.get('pick')")
    assert picked == numbers(page, 0)[3]
    assert page.page.locator("#pick").input_value() == str(picked)
    assert page.js(SHADES, 0) > before
    page.page.keyboard.press("Escape")
    page.settled()
    assert page.js("() => warplens.store.get('pick')") is None


def test_layouts_over_threads_have_threads_and_registers_but_no_banks(threads: Path, show: Show) -> None:
    page = show(threads)
    assert texts(page, ".choice button") == ["thread", "warp", "lane", "register"]
    assert numbers(page, 0)[:9] == [0] * 8 + [1]
    page.page.get_by_role("button", name="register").click()
    page.settled()
    assert numbers(page, 0)[:9] == [*range(8), 0]
    assert numbers(page, 1)[:5] == [0, 1, 2, 3, 0]
    assert not page.page.locator("#wave").is_visible()


def test_text_of_a_user_is_text(tmp_path: Path, show: Show) -> None:
    from dataclasses import replace

    exploration = explore([read_tile("float[4][4]")], with_variants=False)
    panel = exploration.panels[0]
    hostile = "<img src=x onerror=alert(1)></script>"
    changed = replace(exploration, title=hostile, panels=(replace(panel, tile=replace(panel.tile, text=hostile)),))
    path = tmp_path / "hostile.html"
    path.write_bytes(layout_page_bytes(layout_scene(changed)))
    page = show(path)
    assert texts(page, ".expression") == [hostile]
    assert page.page.locator("img").count() == 0
    page.assert_quiet()


def test_each_tile_shows_its_bases_or_why_it_has_none(transpose: Path, threads: Path, show: Show) -> None:
    page = show(transpose)
    assert [cell.split("   ")[5:7] for cell in texts(page, ".card .bases td")] == [
        ["32 → (1, 0)", "64 → (2, 0)"],
        ["32 → (1, 1)", "64 → (2, 2)"],
    ]
    assert "Not linear: (1, 1) is at 34, its bits add up to 32." in texts(page, ".card p")
    held = texts(show(threads), ".card:first-child .bases tr")
    assert held == [
        "InputElement",
        "register1 → (0, 1)   2 → (0, 2)   4 → (0, 4)",
        "lane1 → (0, 8)   2 → (0, 16)   4 → (0, 32)   8 → (1, 0)   16 → (2, 0)",
        "warp1 → (4, 0)   2 → (8, 0)",
        "blockone only",
    ]
