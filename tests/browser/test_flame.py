"""The flame graph by mouse and by keyboard, and its numbers against the trees that Python builds."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, kernel, launch, op, write_trace
from warplens.cli import main
from warplens.model.inverted import inverted
from warplens.model.tree import Tree
from warplens.outputs.flamegraph import folded_bytes
from warplens_run.base.printable import clean

Show = Callable[..., Any]
Written = Callable[[Path], Path]
STACKS = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
BARE = ROOT / "samples" / "kineto" / "resnet50_train.json.gz"
CONTEXTS = ("module", "python", "op", "annotation")
CANVAS = "#flame canvas"
ROW = 18


@pytest.fixture(scope="module")
def profile() -> warplens.Profile:
    return opened_once(STACKS)


@pytest.fixture
def page(written: Written, show: Show) -> Any:
    return drawn(show(written(STACKS)))


@pytest.fixture
def looked_at(written: Written, look: Show) -> Any:
    """For what does not depend on the frame that has the keyboard, nor on the branches of the list that are open."""
    return drawn(look(written(STACKS)))


def drawn(page: Any) -> Any:
    page.page.locator("#flame").scroll_into_view_if_needed()
    made(page)
    return page


def made(page: Any) -> None:
    page.present("#flame .is-made:not([aria-busy])")


def zoom(page: Any) -> list[str]:
    return [name for name in page.js("() => warplens.store.text('zoom')").split("\x01") if name]


def crumbs(page: Any) -> list[str]:
    return [button.get_attribute("title") for button in page.page.locator(".flame-crumbs button[title]").all()]


def saved(page: Any, button: Any) -> str:
    with page.page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_bytes().decode()


def names(tree: Tree, node: int) -> str:
    return ";".join(clean(name).replace(";", ":") for name in tree.path(node))


def nodes(tree: Tree) -> Counter[tuple[str, int, int, int]]:
    """Path, total, self and count of every node."""
    rows = zip(tree.total_ns.tolist(), tree.self_ns.tolist(), tree.total_count.tolist(), strict=True)
    return Counter((names(tree, node), *row) for node, row in enumerate(rows))


def call_tree(page: Any) -> Counter[tuple[str, int, int, int]]:
    """The same from the table that is the chart's twin."""
    rows = csv.DictReader(io.StringIO(saved(page, page.page.get_by_role("button", name="Save CSV")), newline=""))
    ns = 1000
    return Counter(
        (row["path"], round(float(row["total_us"]) * ns), round(float(row["self_us"]) * ns), int(row["count"]))
        for row in rows
    )


@pytest.mark.parametrize("weight", ["gpu", "cpu"])
def test_the_twin_table_is_the_tree_of_python(looked_at: Any, profile: warplens.Profile, weight: str) -> None:
    looked_at.state(table="call_tree", weight=weight)
    for context in CONTEXTS:
        looked_at.state(context=context)
        expected = profile.tree(context, weight=weight)
        assert call_tree(looked_at) == nodes(expected), context
        looked_at.page.locator(".flame-text", has_text=f"{len(expected):,} frames").wait_for()
    looked_at.assert_quiet()


def test_a_trace_without_stacks_has_its_ops(written: Written, look: Show) -> None:
    page = look(written(BARE), "table=call_tree")
    profile = opened_once(BARE)
    for weight in ("gpu", "cpu"):
        for context in ("op", "annotation"):
            page.state(weight=weight, context=context)
            assert call_tree(page) == nodes(profile.tree(context, weight=weight)), (weight, context)
    page.page.locator("#flame").scroll_into_view_if_needed()
    made(page)
    for name in ("Modules", "Python"):
        button = page.page.locator("#flame").get_by_role("button", name=name, exact=True)
        assert button.is_disabled()
        assert "with_stack=True" in button.get_attribute("title")
    assert "No stacks were recorded" in page.page.locator(".flame-text").inner_text()


def test_a_selected_step_has_the_tree_of_its_events(written: Written, look: Show) -> None:
    trace = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
    events = opened_once(trace).gpu_events()
    page = look(written(trace), "table=call_tree&context=op&steps=5")
    tree = call_tree(page)
    mine = events.filter(pl.col("step") == 5)
    assert [row for row in tree if row[0] == ""] == [("", mine["dur_ns"].sum(), 0, len(mine))]
    leaves = Counter[str]()
    for path, _, own, _ in tree:
        leaves[path.split(";")[-1]] += own
    assert +leaves == dict(mine.group_by("kernel_short").agg(pl.col("dur_ns").sum()).iter_rows())


def listed(page: Any) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Path and cells of the rows of the section's own list."""
    rows = page.js(
        "() => [...document.querySelectorAll('.tree-rows .tree-row')].map(row => [Number(row.ariaLevel), "
        "row.querySelector('.tree-name').title, ...[...row.children].slice(1).map(cell => cell.textContent)])"
    )
    path: list[str] = []
    for level, name, *cells in rows:
        path[level - 1 :] = [name]
        yield tuple(path[1:]), cells


def time_text(ns: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)):
        if ns >= size:
            value = ns / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f} {unit}"
    return "0"


@pytest.mark.parametrize("order", ["left", "inverted"])
def test_the_list_shows_the_numbers_of_the_tree(looked_at: Any, profile: warplens.Profile, order: str) -> None:
    looked_at.page.locator("#flame").get_by_role("button", name="As table").click()
    for weight, context in (("gpu", "op"), ("cpu", "module")):
        looked_at.state(weight=weight, context=context, order=order)
        made(looked_at)
        tree = profile.tree(context, weight=weight)
        tree = inverted(tree) if order == "inverted" else tree
        place = {tuple(tree.path(node)): node for node in range(len(tree))}
        rows = list(listed(looked_at))
        assert len(rows) > 10
        for path, (total, own, percent, count, _) in rows:
            node = place[path]
            assert total == time_text(tree.total_ns[node]), path
            assert own == time_text(tree.self_ns[node]), path
            assert count == f"{tree.total_count[node]:,}", path
            share = 100 * tree.total_ns[node] / tree.total_ns[0]
            assert float(percent.removesuffix(" %")) == pytest.approx(share, abs=0.51), path
        below = [path[0] for path, _ in rows if len(path) == 1]
        expected = [tree.name[node] for node in tree.children()[0]]
        assert below == expected[: len(below)]
    looked_at.assert_quiet()


def test_the_list_opens_and_closes_by_keys(page: Any) -> None:
    page.page.locator("#flame").get_by_role("button", name="As table").click()
    page.page.locator(".tree-rows .tree-row").first.focus()
    focused = "() => [document.activeElement.dataset.place, document.activeElement.ariaExpanded]"
    assert page.js(focused) == ["0", "true"]
    before = page.page.locator(".tree-rows .tree-row").count()
    page.page.keyboard.press("ArrowLeft")
    assert page.js(focused) == ["0", "false"]
    assert page.page.locator(".tree-rows .tree-row").count() == 1 < before
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowDown")
    assert page.js(focused)[0] == "1"
    assert "GPT2LMHeadModel_0" in page.page.locator(".flame-name").inner_text()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Home")
    assert page.js(focused)[0] == "0"


def heaviest(tree: Tree, levels: int) -> list[str]:
    """Names down the heaviest child of each node."""
    children, node, path = tree.children(), 0, []
    for _ in range(levels):
        node = children[node][0]
        path.append(tree.name[node])
    return path


def test_clicks_zoom_in_and_crumbs_lead_back(looked_at: Any, profile: warplens.Profile) -> None:
    path = heaviest(profile.tree("module"), 4)
    canvas = looked_at.page.locator(CANVAS)
    canvas.click(position={"x": 20, "y": 2 * ROW + 9})
    assert zoom(looked_at) == path[:2]
    # What is zoomed into stands on top: its heaviest child is one row further down.
    canvas.click(position={"x": 20, "y": 2 * ROW + 9})
    assert zoom(looked_at) == path
    assert crumbs(looked_at) == ["all", *path]
    assert looked_at.page.locator(".flame-name").inner_text() == path[-1]
    looked_at.page.locator(".flame-crumbs button[title]").nth(1).click()
    assert zoom(looked_at) == path[:1]
    looked_at.page.get_by_role("button", name="Reset zoom").click()
    assert zoom(looked_at) == []
    assert not looked_at.page.locator(".flame-crumbs").is_visible()
    looked_at.assert_quiet()


def test_keys_move_zoom_in_and_back(page: Any, profile: warplens.Profile) -> None:
    tree = profile.tree("module")
    path = heaviest(tree, 4)
    page.page.locator(CANVAS).focus()
    for _ in range(3):
        page.page.keyboard.press("ArrowDown")
    assert page.page.locator(".flame-name").inner_text() == path[2]
    place = next(node for node in range(len(tree)) if tree.path(node) == path[:2])
    siblings = [tree.name[node] for node in tree.children()[place]]
    page.page.keyboard.press("ArrowRight")
    assert page.page.locator(".flame-name").inner_text() == siblings[1]
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("Enter")
    assert zoom(page) == path[:3]
    page.page.keyboard.press("Backspace")
    assert zoom(page) == path[:2]
    page.page.keyboard.press("Home")
    assert page.page.locator(".flame-name").inner_text() == path[1]
    page.page.keyboard.press("+")
    assert "% of its width" in page.page.locator(".flame-crumbs").inner_text()
    page.page.keyboard.press("-")
    assert "% of its width" not in page.page.locator(".flame-crumbs").inner_text()
    for _ in range(3):
        page.page.keyboard.press("Backspace")
    assert zoom(page) == []


def test_the_pointer_tells_of_a_frame_and_a_drag_widens(looked_at: Any, profile: warplens.Profile) -> None:
    tree = profile.tree("module")
    box = looked_at.page.locator(CANVAS).bounding_box()
    looked_at.page.mouse.move(box["x"] + 30, box["y"] + ROW + 9)
    tip = looked_at.page.locator("[role=tooltip]:visible").inner_text()
    node = tree.children()[0][0]
    assert tree.name[node] in tip
    assert time_text(tree.total_ns[node]) in tip
    looked_at.page.mouse.down()
    looked_at.page.mouse.move(box["x"] + 200, box["y"] + ROW + 9)
    looked_at.page.mouse.move(box["x"] + 330, box["y"] + ROW + 9)
    looked_at.page.mouse.up()
    shown = looked_at.page.locator(".flame-crumbs .quiet").inner_text()
    assert float(shown.split()[0]) == pytest.approx(100 * 300 / box["width"], abs=0.5)


def test_a_search_states_its_share(page: Any, profile: warplens.Profile) -> None:
    tree = profile.tree("module")
    matched = [False] * len(tree)
    found = ns = 0
    for node in range(1, len(tree)):
        hit = "layernorm" in tree.name[node].lower()
        found += hit
        ns += int(tree.total_ns[node]) if hit and not matched[tree.parent[node]] else 0
        matched[node] = hit or matched[tree.parent[node]]
    before = page.js(PIXELS)
    page.page.keyboard.press("/")
    page.page.keyboard.type("LayerNorm")
    text = page.page.locator(".flame-text").inner_text()
    assert f"“LayerNorm” is in {found:,} frames: {100 * ns / tree.total_ns[0]:.1f} % of GPU time." in text
    page.settled()
    assert page.js(PIXELS) != before, "what does not match is dimmed"
    page.page.keyboard.press("Escape")
    assert "LayerNorm" not in page.page.locator(".flame-text").inner_text()


PIXELS = """() => {
  const canvas = document.querySelector('#flame canvas');
  return [...canvas.getContext('2d').getImageData(10, 10, 200, 200).data].join();
}"""


def test_time_order_is_that_of_the_kernels(looked_at: Any, profile: warplens.Profile) -> None:
    flame = looked_at.page.locator("#flame")
    flame.get_by_role("button", name="Ops", exact=True).click()
    flame.get_by_role("button", name="Time order").click()
    assert looked_at.js("() => warplens.store.text('order')") == "time"
    lines = [
        line.rsplit(" ", 1) for line in saved(looked_at, flame.get_by_role("button", name="Save folded")).splitlines()
    ]
    events = profile.gpu_events().sort("start_ns", "id")
    expected = [clean(name).replace(";", ":") for name, _ in groupby(events["kernel_short"].to_list())]
    assert [name for name, _ in groupby(path.split(";")[-1] for path, _ in lines)] == expected
    sums = Counter[str]()
    for path, ns in lines:
        sums[path] += int(ns)
    tree = profile.tree("op")
    assert sums == {names(tree, node): ns for node, ns in enumerate(tree.self_ns.tolist()) if ns}
    assert len(lines) > len(sums)


@pytest.mark.parametrize("weight", ["gpu", "cpu"])
def test_saved_files_hold_the_tree(looked_at: Any, tmp_path: Path, weight: str) -> None:
    looked_at.state(weight=weight, context="python")
    made(looked_at)
    flame = looked_at.page.locator("#flame")
    here = set(saved(looked_at, flame.get_by_role("button", name="Save folded")).splitlines())
    there = tmp_path / "x.folded"
    assert (
        main(["flamegraph", str(STACKS), "--context", "python", "--weight", weight, "--no-cache", "-o", str(there)])
        == 0
    )
    assert here == set(there.read_text().splitlines())
    document = json.loads(saved(looked_at, flame.get_by_role("button", name="Save speedscope")))
    total = sum(int(line.rsplit(" ", 1)[1]) for line in here)
    assert document["profiles"][0]["endValue"] == sum(document["profiles"][0]["weights"]) == total
    assert len(document["profiles"][0]["samples"]) == len(here)
    root = ElementTree.fromstring(saved(looked_at, flame.get_by_role("button", name="Save SVG")))
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0].startswith("all\n")
    assert any(title.startswith("collect.py(62): <module>\n") for title in titles)
    assert {element.tag.split("}")[1] for element in root.iter()} == {"svg", "rect", "text", "g", "title"}
    looked_at.assert_quiet()


def test_odd_names_are_written_as_python_writes_them(tmp_path: Path, show: Show) -> None:
    odd = ["two  spaces", "semi;colon", "tab\tnew\nline\x1b[31mred", "\u202eright\u00a0to\u2028left\x1c", "<b>&"]
    events = [
        event
        for number, name in enumerate(odd)
        for event in (op(name, 100.0 * number, 50), launch(100.0 * number + 1, 5, number + 1), kernel(name, 100.0 * number + 10, 30, number + 1))
    ]  # fmt: skip
    trace = write_trace(tmp_path / "odd.json", events)
    profile = warplens.report(trace, tmp_path / "odd.html", cache=False)
    page = show(tmp_path / "odd.html", "table=call_tree")
    page.page.locator("#flame").scroll_into_view_if_needed()
    made(page)
    assert call_tree(page) == nodes(profile.tree("op"))
    lines = saved(page, page.page.get_by_role("button", name="Save folded")).split("\n")
    assert sorted(lines) == sorted(folded_bytes(profile.tree("op"), "").decode().split("\n"))
    ElementTree.fromstring(saved(page, page.page.locator("#flame").get_by_role("button", name="Save SVG")))


def test_the_address_reopens_the_zoom(page: Any, written: Written, show: Show) -> None:
    page.state(context="python", order="inverted")
    made(page)
    page.page.locator(CANVAS).focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter"):
        page.page.keyboard.press(key)
    path = zoom(page)
    assert len(path) == 2
    page.until("() => location.hash.includes('zoom=')")
    again = show(written(STACKS), page.js("() => location.hash.slice(1)"))
    again.page.locator("#flame").scroll_into_view_if_needed()
    made(again)
    assert crumbs(again) == ["all", *path]
    pressed = again.page.locator("#flame button[aria-pressed=true]").all_inner_texts()
    assert pressed == ["GPU time", "Inverted", "Python"]


def test_a_frame_leads_to_its_rows_and_its_longest_event(page: Any, profile: warplens.Profile) -> None:
    page.state(context="op")
    page.page.locator(CANVAS).focus()
    page.page.keyboard.press("ArrowDown")
    name = page.page.locator(".flame-name").inner_text()
    page.page.get_by_role("button", name="Longest on timeline").click()
    scene, row = page.js("() => warplens.store.text('event')").split(":")
    under = page.js("row => warplens.scene.context(row).map(each => warplens.scene.short(each))", int(row))
    assert scene == "0"
    assert name in under
    assert int(row) in profile.gpu_events()["id"].to_list()
    page.page.get_by_role("button", name="Show in tables").click()
    table, filtered = page.js("() => [warplens.store.text('table'), warplens.store.text('filter')]")
    assert (table, filtered) == ("ops", name)
    expected = profile.table(table).frame.filter(pl.col("op").str.contains(name, literal=True))
    assert page.page.locator(".tv-shown").inner_text().startswith(f"{len(expected)} of ")
