"""The timeline by mouse and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from page_profiles import opened_once
from support import ROOT

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
STAGE = "#timeline [role=application]"


@pytest.fixture
def page(written: Written, look: Show) -> Any:
    opened = look(written(EAGER))
    opened.page.locator(STAGE).scroll_into_view_if_needed()
    return opened


def view(page: Any) -> tuple[float, float]:
    pair = page.js("() => warplens.store.get('view') ?? warplens.home()")
    return pair[0], pair[1]


def test_keys_zoom_and_move(page: Any) -> None:
    page.page.locator(STAGE).focus()
    first = view(page)
    page.page.keyboard.press("w")
    zoomed = view(page)
    assert zoomed[1] - zoomed[0] < first[1] - first[0]
    page.page.keyboard.press("d")
    moved = view(page)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], rel=1e-6)
    page.page.keyboard.press("ArrowLeft")
    assert view(page)[0] == pytest.approx(zoomed[0], abs=(zoomed[1] - zoomed[0]) / 100)
    page.page.keyboard.press("s")
    assert view(page)[1] - view(page)[0] > moved[1] - moved[0]
    # First to everything, which here is more than the GPU's work, then to what was shown at first.
    page.page.keyboard.press("f")
    assert list(view(page)) == page.js("() => warplens.extent()")
    page.page.keyboard.press("f")
    assert view(page) == first
    page.assert_quiet()


def test_the_wheel_zooms_where_the_pointer_is(page: Any) -> None:
    box = page.page.locator(STAGE).bounding_box()
    x = box["x"] + box["width"] * 0.75
    page.page.mouse.move(x, box["y"] + 40)
    before = view(page)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -400)
    page.page.keyboard.up("Control")
    page.until("() => warplens.store.get('view')")
    after = view(page)
    assert after[1] - after[0] < before[1] - before[0]
    assert after[0] > before[0]
    assert after[1] <= before[1] + 1


def test_a_drag_moves_and_a_shift_drag_selects(page: Any) -> None:
    page.page.locator(STAGE).focus()
    for _ in range(4):
        page.page.keyboard.press("w")
    box = page.page.locator(STAGE).bounding_box()
    y = box["y"] + 30

    def drag(start: float, end: float) -> None:
        page.page.mouse.move(box["x"] + start * box["width"], y)
        page.page.mouse.down()
        page.page.mouse.move(box["x"] + (start + end) / 2 * box["width"], y)
        page.page.mouse.move(box["x"] + end * box["width"], y)
        page.page.mouse.up()
        page.settled()

    before = view(page)
    drag(0.4, 0.6)
    assert view(page)[0] < before[0]
    page.page.keyboard.down("Shift")
    drag(0.3, 0.6)
    page.page.keyboard.up("Shift")
    chosen = page.js("() => warplens.store.get('range')")
    assert chosen
    assert chosen[1] > chosen[0]
    assert page.page.locator("#scope").is_visible()
    share = page.js("() => warplens.selection.events.length / warplens.scene.data.gpuRow.length")
    assert 0 < share < 1
    page.page.keyboard.press("Escape")
    assert page.js("() => warplens.store.text('range')") == ""
    page.assert_quiet()


def test_details_tell_everything_about_a_kernel(page: Any) -> None:
    profile = opened_once(EAGER)
    events = profile.gpu_events()
    place = int(events["dur_ns"].arg_max() or 0)
    row = events.row(place, named=True)
    page.state(event=f"0:{row['id']}")
    text = page.page.locator(".tl-details").inner_text()
    assert row["kernel"] in text
    assert row["kernel_category"] in text
    assert row["op"] in text
    grid, block, registers, _, _ = profile.trace.geometries.row(row["geometry"])
    assert grid in text
    assert block in text
    assert str(registers) in text
    spec = profile.trace.specs.row(profile.trace.events["spec"][row["op_row"]])
    assert spec[0] in text
    assert "Of the roofline" in text
    launched = profile.trace.names[profile.trace.ints("name")[row["launch"]]]
    assert launched in text


def test_from_a_kernel_to_its_launch_and_back(page: Any) -> None:
    kernel = page.js("() => warplens.scene.data.gpuRow[10]")
    page.state(event=f"0:{kernel}")
    page.page.locator(STAGE).focus()
    page.page.keyboard.press("}")
    launched = page.js("() => warplens.scene.data.launch[10]")
    assert page.js("() => warplens.store.text('event')") == f"0:{launched}"
    page.page.keyboard.press("{")
    assert page.js("() => warplens.store.text('event')") == f"0:{kernel}"


def test_a_click_selects_what_is_under_it(page: Any) -> None:
    longest = page.js(
        "() => warplens.scene.data.gpuRow.reduce((a, b) => "
        "warplens.scene.data.duration[b] > warplens.scene.data.duration[a] ? b : a)"
    )
    start, end = page.js("row => [warplens.scene.start(row), warplens.scene.end(row)]", longest)
    page.state(view=f"{start - (end - start)}-{end + (end - start)}")
    page.settled()
    box = page.page.locator(STAGE).bounding_box()
    found = set()
    for y in range(4, 160, 6):
        page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + y)
        found.add(page.js("() => warplens.store.text('event')"))
    assert f"0:{longest}" in found


def test_the_legend_hides_a_category(page: Any) -> None:
    chip = page.page.locator("#timeline .tl-legend button", has_text="GEMM").first
    chip.click()
    page.settled()
    assert page.js("() => warplens.store.get('hide')") == ["GEMM"]
    assert (
        page.page.locator("#timeline .tl-legend button", has_text="GEMM").first.get_attribute("aria-pressed") == "false"
    )
    chip.click()
    page.settled()
    assert page.js("() => warplens.store.get('hide')") == []


def test_search_goes_from_match_to_match(page: Any) -> None:
    page.page.keyboard.press("/")
    page.page.keyboard.type("softmax")
    page.settled()
    page.page.locator(STAGE).focus()
    seen = []
    for _ in range(3):
        page.page.keyboard.press("n")
        page.settled()
        row = int(page.js("() => warplens.store.text('event')").split(":")[1])
        assert "softmax" in page.js("row => warplens.scene.name(row) + warplens.scene.short(row)", row).lower()
        seen.append(row)
    assert len(set(seen)) == 3


def test_the_address_reopens_the_view(page: Any, written: Written, show: Show) -> None:
    row = page.js("() => warplens.scene.data.gpuRow[5]")
    page.state(event=f"0:{row}", view="1000000-9000000", hide="GEMM", colour="kernel", theme="dark")
    page.settled()
    address = page.js("() => location.hash.slice(1)")
    again = show(written(EAGER), address)
    for key in ("event", "view", "hide", "colour", "theme"):
        assert again.js("key => warplens.store.get(key)", key) == page.js("key => warplens.store.get(key)", key)
    assert again.page.locator(".tl-details").is_visible()
    assert again.js("() => document.documentElement.dataset.theme") == "dark"


def test_idle_threads_start_folded_and_gpu_streams_come_first(written: Written, look: Show) -> None:
    page = look(written(ROOT / "samples" / "faults" / "odd_vocab.before.json.gz"))
    lanes = page.page.locator("#timeline button[data-lane]")
    titles = lanes.all_inner_texts()
    is_gpu = ["GPU" in title or "Annotations" in title for title in titles]
    assert is_gpu[0]
    assert is_gpu == sorted(is_gpu, reverse=True)
    opened = {title: lanes.nth(place).get_attribute("aria-expanded") for place, title in enumerate(titles)}
    # One thread works, one only waits, and the profiler's own record says nothing about the program.
    assert [state for title, state in opened.items() if "(python3)" in title] == ["true"]
    assert [state for title, state in opened.items() if "Recording" in title or title.endswith("thread 0")] == [
        "false"
    ] * 2


PATH_PIXELS = """() => {
  const canvas = document.querySelector('#timeline .tl-stage canvas');
  const wanted = getComputedStyle(document.documentElement).getPropertyValue('--path').trim();
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(wanted.slice(at, at + 2), 16));
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) count += data[at] === red && data[at + 1] === green && data[at + 2] === blue;
  return count;
}"""


def test_the_critical_path_is_switched_by_a_key_and_by_the_legend_and_leads_to_its_table(page: Any) -> None:
    chip = page.page.locator(".tl-pathchip")
    assert page.settled().js(PATH_PIXELS) == 0
    page.page.locator(STAGE).focus()
    page.page.keyboard.press("p")
    assert page.settled().js(PATH_PIXELS) > 500
    assert chip.get_attribute("aria-pressed") == "true"
    assert re.search(r"work \d+ %", chip.inner_text())
    assert page.js("() => location.hash").find("path=1") > 0
    page.page.get_by_role("button", name="table", exact=True).click()
    assert page.js("() => warplens.store.get('table')") == "critical_path"
    chip.click()
    assert page.settled().js(PATH_PIXELS) == 0
    assert page.js("() => document.activeElement.classList.contains('tl-pathchip')")
    page.assert_quiet()


STEP_NS = """() => {
  const { steps } = warplens.scenes[0].data.header;
  return (steps.at(-1).start - steps[0].start) / (steps.length - 1);
}"""


def test_times_of_a_bundle_are_shown_as_recorded_or_corrected(
    show: Callable[..., Any], written: Callable[[Path], Path]
) -> None:
    """Its plain steps take 9.0 ms and its recorded ones 19.6; the page is loaded anew, and the link keeps the choice."""
    page = show(written(ROOT / "samples" / "faults" / "bundles" / "launch_bound.zip"))
    recorded = page.js(STEP_NS)
    page.js("() => { window.isOld = true; }")
    page.page.get_by_role("button", name="Corrected", exact=True).click()
    page.until("() => !window.isOld && document.documentElement.dataset.ready")
    assert page.js("() => location.hash").find("times=corrected") > 0
    assert recorded == pytest.approx(19.6e6, rel=0.05)
    assert page.js(STEP_NS) == pytest.approx(9.04e6, rel=0.05)
    assert page.page.get_by_role("button", name="Corrected", exact=True).get_attribute("aria-pressed") == "true"
    assert page.complaints == []
