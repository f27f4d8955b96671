"""The page in Firefox: it opens from disk, draws, takes keys, and reopens a view from its address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firefox_driver import Firefox, installed
from support import ROOT

pytestmark = pytest.mark.nightly
Written = Callable[[Path], Path]
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
READY = """async () => {
  while (!document.documentElement.dataset.ready) await new Promise(resolve => setTimeout(resolve, 20));
  await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 300)));
}"""
COLOURS = """() => {
  const canvas = document.querySelector('.tl-stage canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    program = installed()
    if program is None:
        text = "no Firefox on this machine: the page is NOT tested in it (apt-get install firefox-esr)"
        pytest.fail(text) if os.environ.get("WARPLENS_CI") else pytest.skip(text)
    browser = Firefox(program, tmp_path_factory.mktemp("profile"))
    try:
        browser.resize(1280, 900)
        yield browser
    finally:
        browser.close()


def test_the_page_opens_draws_and_answers_in_firefox(firefox: Firefox, written: Written) -> None:
    firefox.goto(f"file://{written(TRAIN)}")
    firefox.js(READY)
    assert firefox.js("() => document.querySelector('.failed')") is None
    assert firefox.js("() => document.querySelector('h1').textContent") == TRAIN.name
    assert firefox.js(COLOURS) > 20
    assert firefox.js("() => document.querySelector('.tl-stage').getBoundingClientRect().top") < 600
    assert firefox.js("() => performance.getEntriesByType('resource').filter(({ name }) => !name.startsWith('blob:')).length") == 0  # fmt: skip

    # Keys: search, then from match to match, kernels first.
    firefox.keys("/", *"gemm")
    assert firefox.js("() => warplens.store.get('q')") == "gemm"
    firefox.keys("\ue007")
    event = firefox.js("() => warplens.store.get('event')")
    assert firefox.js("row => warplens.scene.gpuEvent[row]", event["row"]) >= 0
    firefox.js(READY)
    lanes, details = (
        firefox.js(
            "selector => { const { left, right } = document.querySelector(selector).getBoundingClientRect(); return [left, right]; }",
            selector,
        )
        for selector in (".tl-main", ".tl-details")
    )
    assert lanes[1] <= details[0]

    # Keys of the timeline, a click on it, and a table.
    before = firefox.js("() => warplens.store.get('view')")
    firefox.js("() => document.querySelector('.tl-stage').focus()")
    firefox.keys("w", "d")
    assert firefox.js("() => warplens.store.get('view')") != before
    firefox.js("() => warplens.go({ to: 'table', table: 'ops' })")
    firefox.js(READY)
    assert firefox.js("() => document.querySelectorAll('#tables .tv-body .tv-row:not([hidden])').length") > 5
    firefox.js("() => document.getElementById('flame').scrollIntoView()")
    firefox.js("async () => { while (!document.querySelector('#flame .is-made')) await new Promise(r => setTimeout(r, 20)); }")  # fmt: skip
    if folder := os.environ.get("WARPLENS_SCREENSHOTS"):
        Path(folder, "firefox-1280.png").write_bytes(firefox.screenshot())


def test_the_address_reopens_the_view_in_firefox(firefox: Firefox, written: Written) -> None:
    firefox.goto(f"file://{written(TRAIN)}#steps=5&table=gpu_events&filter=dur_us%3E10&theme=dark")
    firefox.js(READY)
    assert firefox.js("() => warplens.selection.text") == "step 5"
    count = firefox.js("() => warplens.tableFor('gpu_events').rows")
    assert count == firefox.js("() => warplens.selection.events.length") > 0
    assert f" of {count:,} rows" in firefox.js("() => document.querySelector('.tv-shown').textContent")
    assert firefox.js("() => getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
