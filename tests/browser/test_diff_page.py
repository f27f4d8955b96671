"""The page of a comparison: its tables, its ± flame graph, and two timelines that begin together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warplens
from page_profiles import opened_once
from support import ROOT
from warplens.outputs import plan_outputs, write

Show = Callable[..., Any]
A, B = (ROOT / "samples" / "faults" / f"{name}.json.gz" for name in ("odd_vocab.before", "healthy_eager.after"))
CANVAS = "#flame canvas"
ROW = 18


@pytest.fixture(scope="module")
def comparison() -> warplens.Comparison:
    return warplens.diff(A, B, cache=False)


@pytest.fixture(scope="module")
def path(comparison: warplens.Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("diff") / "d.html"
    write(plan_outputs([str(target)], tables="csv", force=False)[0], comparison.document())
    return target


@pytest.fixture
def page(path: Path, look: Show) -> Any:
    opened = look(path)
    opened.page.locator("#flame").scroll_into_view_if_needed()
    opened.present("#flame .is-made")
    return opened


def same(want: Any, have: Any) -> bool:
    return have == pytest.approx(want, rel=1e-12) if isinstance(want, float) else bool(have == want)


def test_delta_tables_are_those_of_the_comparison(page: Any, comparison: warplens.Comparison) -> None:
    names = page.js("() => [...document.querySelectorAll('.tv-picker button')].map(each => each.dataset.table)")
    assert set(comparison.table_names) <= set(names)
    for name in comparison.table_names:
        expected, found = comparison.table(name).to_dicts(), page.table(name)
        assert len(found) == len(expected), name
        for want, have in zip(expected, found, strict=True):
            assert want.keys() == have.keys(), name
            assert all(same(want[column], have[column]) for column in want), (name, want, have)
        page.page.locator(f'.tv-picker [data-table="{name}"]').click()
        if expected:
            rows = f"{len(expected):,} row{'s' if len(expected) != 1 else ''}"
            assert page.page.locator(".tv-shown").inner_text() == rows
        else:
            assert page.page.locator(".tv-panel .empty").inner_text()
    page.assert_quiet()


def children(rows: list[dict[str, Any]], parent: int, width: str) -> list[dict[str, Any]]:
    """The nodes below one, widest first."""
    below = [row for row in rows[1:] if row["parent"] == parent]
    return sorted(below, key=lambda row: -row[width])


def test_the_flame_graph_of_changes_by_mouse_and_keys(page: Any, comparison: warplens.Comparison) -> None:
    rows = comparison.table("diff_tree").to_dicts()
    flame = page.page.locator("#flame")
    for width, letter in (("b_us", "B"), ("a_us", "A")):
        flame.get_by_role("button", name=letter, exact=True).click()
        assert flame.get_by_role("button", name=letter, exact=True).get_attribute("aria-pressed") == "true"
        widest = children(rows, 0, width)[0]
        flame.locator("canvas").click(position={"x": 20, "y": ROW + 9})
        detail = page.page.locator(".flame-detail").inner_text()
        assert widest["name"] in detail
        assert f"in {widest['status']}" in detail
        flame.get_by_role("button", name="Reset zoom").click()
    sign = "+" if rows[0]["delta_us"] > 0 else "−"
    assert f"Δ {sign}" in page.page.locator(".flame-text").inner_text()
    page.page.locator(CANVAS).focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    name = children(rows, 0, "a_us")[0]["name"]
    assert page.js("() => warplens.store.text('zoom')") == name
    page.page.keyboard.press("Backspace")
    assert page.js("() => warplens.store.text('zoom')") == ""
    flame.get_by_role("button", name="|Δ|").click()
    assert "Widths are changes" in page.page.locator(".flame-text").inner_text()
    flame.get_by_role("button", name="As table").click()
    heads = page.page.locator(".tree-head span").all_inner_texts()
    assert heads == ["name", "A", "B", "Δ", "B / A", "kind"]
    first = page.page.locator(".tree-rows .tree-row").first.inner_text()
    ratio = rows[0]["ratio"]
    assert f"{ratio:.3f}×" in first
    page.assert_quiet()


def test_saved_stacks_hold_both_traces(page: Any, comparison: warplens.Comparison) -> None:
    with page.page.expect_download() as download:
        page.page.locator("#flame").get_by_role("button", name="Save folded").click()
    lines = Path(download.value.path()).read_text().splitlines()
    root = comparison.table("diff_tree").to_dicts()[0]
    for column, place in (("a_us", -2), ("b_us", -1)):
        total = sum(int(line.split(" ")[place]) for line in lines)
        assert total == pytest.approx(root[column] * 1000, rel=1e-6, abs=len(lines))


def test_both_timelines_are_drawn_from_their_first_step(page: Any, comparison: warplens.Comparison) -> None:
    profiles = [opened_once(trace) for trace in (A, B)]
    for number, profile in enumerate(profiles):
        events = profile.gpu_events()
        first = events.filter(events["step"] == events["step"].min())["start_ns"].min()
        assert page.js("number => warplens.origin(number)", number) == first
    page.page.locator("#timeline").scroll_into_view_if_needed()
    text = page.page.locator("#timeline").inner_text()
    assert A.name in text
    assert B.name in text
    # Right after the common beginning both traces run their first kernels: both GPU lanes have colour there.
    page.state(view="-2000-300000")
    page.settled()
    drawn = page.js(
        """() => {
          const canvas = document.querySelector('.tl-stage > canvas');
          const { width, height } = canvas;
          const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
          const stage = document.querySelector('.tl-stage').getBoundingClientRect();
          const lanes = [...document.querySelectorAll('.tl-label')].filter(each => each.textContent.includes('GPU'));
          return lanes.map(lane => {
            const box = lane.getBoundingClientRect();
            const scale = height / stage.height;
            const [from, to] = [(box.top - stage.top) * scale, (box.bottom - stage.top) * scale].map(Math.round);
            const colours = new Set();
            for (let y = from + 1; y < to - 1; y++)
              for (let x = 0; x < width; x++) colours.add(data.slice(4 * (y * width + x), 4 * (y * width + x) + 3).join());
            return colours.size;
          });
        }"""
    )
    assert len(drawn) == 2
    assert min(drawn) > 3
    # An event of B opens with its own details.
    row = profiles[1].gpu_events().row(0, named=True)
    page.state(event=f"1:{row['id']}")
    assert row["kernel_short"] in page.page.locator(".tl-details").inner_text()
    page.assert_quiet()


def test_a_trace_against_itself_says_that_nothing_changed(tmp_path: Path, show: Show) -> None:
    same_twice = warplens.diff(A, A, cache=False)
    target = tmp_path / "same.html"
    write(plan_outputs([str(target)], tables="csv", force=False)[0], same_twice.document())
    page = show(target, "weight=delta")
    page.page.locator("#flame").scroll_into_view_if_needed()
    page.present("#flame .is-made")
    assert page.page.locator(".flame-text").inner_text().strip() == "Nothing changed between A and B."
    assert not page.page.locator(CANVAS).is_visible()
    page.assert_quiet()
