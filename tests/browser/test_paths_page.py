"""The page of a profile without a timeline, of two of them, of a tree, and of recorded callers on a timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, nightly_after
from warplens.cli import main
from warplens.model.inverted import inverted
from warplens.model.tree import Floats, Tree
from warplens.profiles.call_paths import PathsProfile
from warplens_run.base.printable import clean

Show = Callable[..., Any]
Written = Callable[[Path], Path]
SAMPLES = ROOT / "samples"
PROTON = SAMPLES / "proton"
PYTHON, SHADOW, SAMPLED = (PROTON / f"{name}.hatchet.gz" for name in ("tree_python", "tree_shadow", "pcsampling"))
SCOPES, META = PROTON / "scopes.hatchet.gz", PROTON / "launch_metadata.hatchet.gz"
COUNTERS = SAMPLES / "ncu" / "ops_raw.csv.gz"
LINES, SOURCE_PAGE = PROTON / "sampled_lines.hatchet.gz", SAMPLES / "ncu" / "kernels_lines.csv.gz"
RECORDED = SAMPLES / "jax" / "transformer_step.xplane.pb.gz"
PROFILES = [*sorted(PROTON.glob("*.hatchet*.gz")), *sorted((SAMPLES / "ncu").glob("*.csv.gz"))]
ALWAYS = (PYTHON, SHADOW, SAMPLED, COUNTERS, LINES)
"""What the others have is in these too: they are left to `make nightly`."""
LOOKS = ((1280, False), (1920, True))
"""Widths, and whether it is dark: neither depends on the profile, so that each has one of the two."""
SECTIONS = ["Where the time goes", "Call tree", "Tables", "How this was made"]
CANVAS = "#flame canvas"
ROW = 18


@cache
def opened(path: Path) -> PathsProfile:
    profile = opened_once(path)
    assert isinstance(profile, PathsProfile)
    return profile


@pytest.fixture
def flame(written: Written, look: Show) -> Callable[..., Any]:
    """A page with its call tree in sight and drawn."""

    def open_flame(profile: Path, state: str = "") -> Any:
        return in_sight(look(written(profile), state))

    return open_flame


def in_sight(page: Any) -> Any:
    page.page.locator("#flame").scroll_into_view_if_needed()
    return page.present("#flame .is-made:not([aria-busy])")


def titles(page: Any) -> list[str]:
    return page.page.locator("#contents a").all_inner_texts()


def text_of(page: Any) -> str:
    return page.page.locator(".flame-text").inner_text().strip()


def saved(page: Any, name: str) -> str:
    with page.page.expect_download() as download:
        page.page.locator("#flame").get_by_role("button", name=f"Save {name}").click()
    return Path(download.value.path()).read_text()


def stacks(page: Any) -> dict[str, int]:
    """The whole tree as it is drawn: path → what it has of its own."""
    lines = (line.rpartition(" ") for line in saved(page, "folded").splitlines())
    return {path: int(weight) for path, _, weight in lines}


def own(tree: Tree, values: Floats) -> dict[str, int]:
    sums = Counter[str]()
    for node, value in enumerate(values.tolist()):
        path = ";".join(clean(name).replace(";", ":") for name in tree.path(node)) or "all"
        sums[path] += round(value)
    return dict(+sums)


@pytest.mark.parametrize(
    "profile, width, dark",
    [
        pytest.param(profile, *LOOKS[number % 2], marks=[] if profile in ALWAYS else pytest.mark.nightly)
        for number, profile in enumerate(PROFILES)
    ],
    ids=[path.name.partition(".")[0] + path.parent.name for path in PROFILES],
)
def test_it_opens_with_what_the_profile_has(
    profile: Path, width: int, dark: bool, written: Written, look: Show
) -> None:
    page = in_sight(look(written(profile), width=width, dark=dark))
    known = opened(profile)
    has_bars = int(known.paths.tree.total_ns[0]) > 0 or known.table("stalls").frame["line"].count() > 0
    assert titles(page) == SECTIONS[0 if has_bars else 1 :]
    assert page.page.locator(".verdict").inner_text() == known.verdict()
    badges = page.page.locator(".badge").all_inner_texts()
    assert [row["message"] in badge for row, badge in zip(known.table("quality").to_dicts(), badges, strict=True)]
    assert known.meta.format in page.page.locator(".facts").inner_text()
    assert page.page.locator(CANVAS).is_visible()
    assert page.js("() => document.documentElement.scrollWidth <= innerWidth")
    page.assert_quiet()


@pytest.mark.parametrize("name", ["kernels/slow_softmax.facts.json", "replay/gpt2_compiled.result.json.gz"])
def test_what_has_no_call_paths_has_its_tables_and_no_empty_call_tree(name: str, written: Written, show: Show) -> None:
    page, known = show(written(ROOT / "samples" / name)), opened_once(ROOT / "samples" / name)
    assert titles(page) == ["Tables", "How this was made"]
    assert page.page.locator(".verdict").inner_text() == known.verdict()
    listed = page.js("() => [...document.querySelectorAll('.tv-picker button')].map(each => each.dataset.table)")
    assert sorted(listed) == sorted(known.table_names)
    page.assert_quiet()


def same(want: Any, have: Any) -> bool:
    return have == pytest.approx(want, rel=1e-12) if isinstance(want, float) else bool(have == want)


@pytest.mark.parametrize("profile", [SAMPLED, COUNTERS], ids=["proton", "ncu"])
def test_every_table_is_there_once_and_exact(profile: Path, written: Written, look: Show) -> None:
    page, known = look(written(profile)), opened(profile)
    listed = page.js("() => [...document.querySelectorAll('.tv-picker button')].map(each => each.dataset.table)")
    assert sorted(listed) == sorted(known.table_names)
    for name in known.table_names:
        expected, found = known.table(name).to_dicts(), page.table(name)
        assert len(found) == len(expected), name
        for want, have in zip(expected, found, strict=True):
            assert want.keys() == have.keys()
            assert all(same(want[column], have[column]) for column in want), (name, want, have)
        page.page.locator(f'.tv-picker [data-table="{name}"]').click()
        shown = page.page.locator(".tv-shown" if expected else ".tv-panel .empty").inner_text()
        assert shown.startswith(f"{len(expected):,} row") if expected else shown
    page.assert_quiet()


@pytest.mark.parametrize("context", ["python", "op"])
def test_the_flame_graph_is_the_tree_of_python(flame: Callable[..., Any], context: str) -> None:
    page = flame(PYTHON, f"context={context}")
    tree = opened(PYTHON).tree(context)
    assert stacks(page) == own(tree, tree.self_ns.astype(float))
    assert text_of(page).startswith(f"776 ms of GPU time in {tree.total_count[0]:,} GPU events; {len(tree)} frames.")
    page.assert_quiet()


@pytest.mark.parametrize(
    "profile", nightly_after(2, [SAMPLED, COUNTERS, SHADOW, SCOPES, META]), ids=lambda path: path.name
)
def test_widths_are_any_sum_that_was_recorded(profile: Path, flame: Callable[..., Any]) -> None:
    page, tree = flame(profile), opened(profile).tree()
    control = page.page.locator("#flame .flame-control").first
    buttons, options = control.locator("button"), control.locator("option")
    attribute = "data-value" if buttons.count() else "value"
    offered = [each.get_attribute(attribute) for each in (buttons if buttons.count() else options).all()]
    amounts = {"total_us": tree.self_ns.astype(float), "count": tree.self_count.astype(float), **tree.metrics}
    sums = {name: values for name, values in amounts.items() if not name.endswith("(exc)") and values.sum() > 0}
    assert offered == list(sums)
    for name, values in sums.items():
        page.state(weight=name)
        in_sight(page)
        assert stacks(page) == own(tree, values), name
    page.assert_quiet()


def test_what_belongs_to_single_nodes_is_no_width(flame: Callable[..., Any]) -> None:
    page = flame(SCOPES, "weight=loss")
    assert "loss" in opened(SCOPES).table("call_paths").frame.columns
    assert page.page.locator("#flame select").input_value() == "total_us"
    assert "of GPU time" in text_of(page)


NASTY = ["<img src=x onerror=\"document.title='owned'\">", "</script><script>document.title='owned'</script>", 'a:"b']


def test_names_that_look_like_markup_or_filters_stay_text(tmp_path: Path, show: Show) -> None:
    leaves = [
        {"frame": {"name": name}, "metrics": {"time (ns)": 9000 - at, "count": 1, name: 5.0}, "children": []}
        for at, name in enumerate(NASTY)
    ]
    source, target = tmp_path / "x.hatchet", tmp_path / "x.html"
    source.write_text(json.dumps([{"children": leaves, "frame": {"name": "ROOT"}, "metrics": {}}]))
    warplens.report(source, target, cache=False)
    page = in_sight(show(target))
    title = page.page.title()
    page.page.locator("#flame").get_by_role("button", name="As table").click()
    assert page.page.locator(".tree-rows .tree-row").count() == 1 + len(NASTY)
    for name, rows in zip(NASTY, (1, 2, 1), strict=True):  # the second's short name is a part of the first
        page.state(weight=name, q=name)
        in_sight(page)
        page.page.locator(".tree-rows .tree-row").nth(1).click()
        page.page.locator(".flame-detail").get_by_role("button", name="Show in tables").click()
        assert not page.page.locator(".tv-problem").is_visible()
        assert page.page.locator(".tv-shown").inner_text() == f"{rows} of 3 rows"
    assert page.page.title() == title
    assert not page.page.locator("main img").count()
    page.assert_quiet()


@pytest.mark.parametrize("profile, unit", [(PYTHON, "nanoseconds"), (SOURCE_PAGE, "none")], ids=["times", "counts"])
def test_speedscope_is_told_the_unit(profile: Path, unit: str, flame: Callable[..., Any]) -> None:
    tree = opened(profile).tree()
    (found,) = json.loads(saved(flame(profile), "speedscope"))["profiles"]
    whole = tree.total_ns[0] if tree.total_ns[0] else tree.total_count[0]
    assert (found["unit"], found["endValue"]) == (unit, whole)


def rows_of(page: Any) -> list[list[str]]:
    """Name and cells of the list's rows one level below the root."""
    return page.js(
        "() => [...document.querySelectorAll('.tree-rows .tree-row[aria-level=\"2\"]')].map(row => "
        "[row.querySelector('.tree-name').title, ...[...row.children].slice(1).map(cell => cell.textContent)])"
    )


def test_inverted_kernels_come_first(flame: Callable[..., Any]) -> None:
    page, tree = flame(SHADOW), inverted(opened(SHADOW).tree())
    page.page.locator("#flame").get_by_role("button", name="Inverted").click()
    page.page.locator("#flame").get_by_role("button", name="As table").click()
    expected = [(tree.name[node], f"{tree.total_count[node]:,}") for node in tree.children()[0]]
    found = [(name, count) for name, _, _, _, count, _ in rows_of(page)]
    assert len(found) > 5
    assert found == expected[: len(found)]
    page.assert_quiet()


def test_a_link_reopens_the_choices_and_the_zoom(flame: Callable[..., Any], written: Written, show: Show) -> None:
    page = flame(SHADOW)
    page.page.locator("#flame").get_by_role("button", name="flops16").click()
    page.page.locator(CANVAS).click(position={"x": 20, "y": ROW + 9})
    name = page.js("() => warplens.store.text('zoom')")
    tree = opened(SHADOW).tree()
    heaviest = max(np.flatnonzero(tree.parent == 0).tolist(), key=lambda node: tree.total("flops16")[node])
    assert name == tree.name[heaviest]
    page.settled()
    again = in_sight(show(written(SHADOW), page.js("() => location.hash.slice(1)")))
    assert again.page.locator(".flame-crumbs [aria-current]").get_attribute("title") == name
    assert "FLOP of flops16" in text_of(again)
    page.page.locator(CANVAS).focus()
    page.page.keyboard.press("Backspace")
    assert page.js("() => warplens.store.text('zoom')") == ""
    page.assert_quiet()


def test_search_marks_frames_and_leads_to_them(written: Written, look: Show) -> None:
    page = look(written(PYTHON))
    page.page.keyboard.press("/")
    page.page.keyboard.type("do_bench")
    assert page.page.locator("#found").inner_text() == "Enter: to the call tree"
    page.page.keyboard.press("Enter")
    in_sight(page)
    tree = opened(PYTHON).tree()
    count = sum("do_bench" in name for name in tree.name)
    assert f"“do_bench” is in {count} frames: 100 % of GPU time." in text_of(page)
    assert page.js("() => warplens.store.text('at')") == "flame"
    page.assert_quiet()


@pytest.mark.parametrize(
    "profile, table, column",
    [(META, "kernels", "kernel_short"), (SHADOW, "scopes", "scope")],
    ids=["kernel", "scope"],
)
def test_a_frame_leads_to_its_rows(profile: Path, table: str, column: str, flame: Callable[..., Any]) -> None:
    page = flame(profile)
    name = opened(profile).table(table).frame[column][0]
    page.state(zoom="")
    page.page.locator("#flame").get_by_role("button", name="As table").click()
    page.page.locator(".tree-row", has=page.page.locator(f'[title="{name}"]')).first.click()
    page.page.locator(".flame-detail").get_by_role("button", name="Show in tables").click()
    assert page.js("() => warplens.store.text('table')") == table
    shown = [row for row in opened(profile).table(table).frame[column].to_list() if name in row]
    assert page.page.locator(".tv-shown").inner_text().startswith(f"{len(shown)} of ")
    assert not page.page.get_by_role("button", name="Longest on timeline").count()
    page.assert_quiet()


def test_categories_and_kernels_as_bars(written: Written, look: Show) -> None:
    page, known = look(written(COUNTERS)), opened(COUNTERS)
    categories = known.table("kernel_categories").to_dicts()
    lists = page.page.locator("#categories .breakdown > div")
    assert [lists.nth(0).locator("th").nth(at).inner_text() for at in range(len(categories))] == [
        row["kernel_category"] for row in categories
    ]
    times = Counter[str]()
    for row in known.table("kernels").to_dicts():
        times[row["kernel_short"]] += row["total_us"]
    shown = [lists.nth(1).locator("th").nth(at).inner_text() for at in range(12)]
    assert shown == [name for name, _ in times.most_common(12)]
    lists.nth(0).get_by_role("button", name=categories[1]["kernel_category"]).click()
    rows = known.table("kernels").to_dicts()
    alike = sum(row["kernel_category"] == categories[1]["kernel_category"] for row in rows)
    assert page.page.locator(".tv-shown").inner_text() == f"{alike} of {len(rows)} rows"
    page.assert_quiet()


@pytest.mark.parametrize("profile", [LINES, SOURCE_PAGE], ids=["proton", "ncu"])
def test_sampled_lines_as_bars_lead_to_their_rows(profile: Path, written: Written, look: Show) -> None:
    page, known = look(written(profile)), opened(profile)
    rows = [row for row in known.table("stalls").to_dicts() if row["line"] is not None]
    lines = page.page.locator("#categories .breakdown > div").filter(has_text="Samples by source line")
    shown = [lines.locator("th").nth(at).inner_text() for at in range(12)]
    assert shown == [f"{row['file'].rpartition('/')[2]}:{row['line']}" for row in rows[:12]]
    second = lines.locator("tr").nth(1)
    assert rows[1]["top_stall"].replace("_", " ") in second.inner_text()
    assert (rows[1]["source"] or "").strip() in (second.get_attribute("title") or "")
    second.get_by_role("button").click()
    assert page.page.locator(".tv-about strong").inner_text() == "stalls"
    heads = page.js("() => [...document.querySelectorAll('.tv-heads > *')].map(head => head.dataset.column)")
    assert heads[:4] == ["line", "file", "kernel_short", "percent"] and heads[-1] == "kernel"
    page.assert_quiet()


def test_keys_and_help_speak_of_what_is_there(written: Written, look: Show) -> None:
    page = look(written(PYTHON))
    page.page.keyboard.press("2")
    assert page.js("() => warplens.store.text('at')") == "flame"
    page.page.keyboard.press("5")
    assert page.js("() => warplens.store.text('at')") == "flame"
    page.page.keyboard.press("?")
    text = page.page.locator("#help").inner_text()
    assert "1 … 4" in text
    assert "timeline" not in text
    page.page.keyboard.press("Escape")
    page.assert_quiet()


def diff_page(a: Path, b: Path, folder: Path, show: Show, state: str = "") -> Any:
    target = folder / "d.html"
    assert main(["diff", str(a), str(b), "-o", str(target), "--no-cache"]) == 0
    return in_sight(show(target, state))


def test_two_profiles_compared(tmp_path: Path, show: Show) -> None:
    page = diff_page(SHADOW, SAMPLED, tmp_path, show)
    comparison = warplens.diff(SHADOW, SAMPLED, cache=False)
    assert titles(page) == ["What changed", "Call tree", "Tables", "How this was made"]
    rows = sorted(comparison.table("kernel_categories").to_dicts(), key=lambda row: -abs(row["delta_total_us"]))
    names = page.page.locator("#changes tbody th").all_inner_texts()
    assert names == ["all GPU work", *(row["kernel_category"] for row in rows)]
    cells = page.page.locator("#changes tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells == ["489 ms", "20.5 ms", "−468 ms", "", "8,209 → 212 GPU events"]
    assert page.page.locator("#changes tbody tr").first.locator("td").all_inner_texts()[:2] == ["869 ms", "30.1 ms"]
    listed = page.js("() => [...document.querySelectorAll('.tv-picker button')].map(each => each.dataset.table)")
    assert sorted(listed) == sorted(comparison.table_names)
    root = comparison.table("diff_tree").to_dicts()[0]
    lines = saved(page, "folded").splitlines()
    assert sum(int(line.split(" ")[-1]) for line in lines) == pytest.approx(root["b_us"] * 1000, abs=len(lines))
    assert "Widths are times in B" in text_of(page)
    page.page.locator("#changes").get_by_role("button", name="GEMM").click()
    assert page.js("() => [warplens.store.text('table'), warplens.store.text('filter')]") == [
        "kernels",
        'kernel_category="GEMM"',
    ]
    page.assert_quiet()


def test_calls_are_compared_where_there_are_no_times(tmp_path: Path, show: Show) -> None:
    page = diff_page(SOURCE_PAGE, SOURCE_PAGE, tmp_path, show)
    assert "Neither profile has times" in page.page.locator("#changes").inner_text()
    assert text_of(page).startswith("Calls: A 3, B 3, Δ ±0; 44 call paths. Widths are counts in B")
    lines = saved(page, "folded").splitlines()
    assert [sum(int(line.split(" ")[at]) for line in lines) for at in (-2, -1)] == [3, 3]
    page.assert_quiet()


def test_two_jobs_compared_have_no_timeline(tmp_path: Path, show: Show) -> None:
    job = SAMPLES / "ranks" / "nccl4"
    page = diff_page(job, job, tmp_path, show)
    assert titles(page) == ["What changed", "Call tree", "Tables", "How this was made"]
    assert "No call trees to compare" in text_of(page)
    assert "Two jobs are compared here" in page.page.locator("#changes").inner_text()
    page.assert_quiet()


@pytest.mark.parametrize("options", [[], ["-m", "tflop16/s,util"], ["-d", "4", "-t", "5"]], ids=["all", "rates", "cut"])
def test_a_tree_as_a_page(options: list[str], tmp_path: Path, show: Show) -> None:
    target = tmp_path / "t.html"
    assert main(["tree", str(PYTHON), "-o", str(target), "--no-cache", *options]) == 0
    page = in_sight(show(target))
    assert titles(page) == SECTIONS[1:]
    weights = page.page.locator("#flame .flame-control").first.locator("button").all_inner_texts()
    assert weights == ["GPU time", "GPU events"]
    tree = opened(PYTHON).tree()
    assert sum(stacks(page).values()) == tree.total_ns[0]
    assert ("GEMM" in page.page.locator(".flame-legend").inner_text()) == (options[:1] != ["-d"])
    page.assert_quiet()


def test_recorded_callers_are_in_the_tree_and_not_on_the_timeline(written: Written, show: Show) -> None:
    page = in_sight(show(written(RECORDED)))
    profile = opened_once(RECORDED)
    assert isinstance(profile, warplens.Profile)
    callers = profile.trace.frames["id"].to_list()
    assert len(callers) > 500
    for context in ("python", "op", "annotation"):
        page.state(context=context)
        in_sight(page)
        tree = profile.tree(context)
        assert stacks(page) == own(tree, tree.self_ns.astype(float)), context
    labels = page.page.locator(".tl-label").all_inner_texts()
    assert any("python3" in label for label in labels)
    assert not any("recorded" in label for label in labels)
    timed = len(profile.trace) - len(callers)
    assert len(page.table("kernels")) == len(profile.table("kernels").frame)
    page.state(table="host_events")
    rows = timed - len(profile.trace.gpu_rows)
    assert page.page.locator(".tv-shown").inner_text() == f"{rows} rows"
    gpu = profile.gpu_events().row(0, named=True)
    page.state(event=f"0:{gpu['id']}")
    path = page.page.locator(".tl-details .tl-path")
    innermost = profile.trace.contexts.row(0, named=True)["frame"]
    name = profile.trace.names[profile.trace.events["name"][innermost]]
    assert path.locator("li").last.inner_text().strip() == name
    assert path.locator("li").last.locator("button").count() == 0
    page.assert_quiet()


def test_a_trace_with_callers_alone_has_the_lanes_of_its_gpu(written: Written, show: Show) -> None:
    trace = PROTON / "trace.chrome_trace.gz"
    page = in_sight(show(written(trace), "context=annotation"))
    profile = opened_once(trace)
    tree = profile.tree("annotation")
    assert "triton" in tree.name
    assert stacks(page) == own(tree, tree.self_ns.astype(float))
    labels = page.page.locator(".tl-label").all_inner_texts()
    assert len(labels) == 1
    assert "stream 7" in labels[0]
    assert page.page.locator(".tl-kinds").inner_text() == ""
    assert "with_stack" not in text_of(page)
    page.assert_quiet()
