"""The page of a job: timelines of its ranks, heat maps, the scatter of collectives and the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from make_ranks import Grid, JobSpec, make_job
from support import ROOT
from warplens.outputs.html import page_bytes
from warplens.profiles.job import JobProfile

Show = Callable[..., Any]
NCCL4 = ROOT / "samples" / "ranks" / "nccl4"
SECTIONS = ["Timeline of the ranks", "Ranks and steps", "Who waited for whom", "Collectives by size and speed"]
PIXELS = """selector => {
  const canvas = document.querySelector(selector);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return colours.size;
}"""


@pytest.fixture(scope="module")
def job() -> JobProfile:
    return warplens.open_ranks([NCCL4])


@pytest.fixture(scope="module")
def file(job: JobProfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "job.html"
    path.write_bytes(page_bytes(job.document()))
    return path


@pytest.fixture(scope="module")
def pipeline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline")
    make_job(folder / "ranks", JobSpec(grid=Grid(pp=2), steps=3))
    path = folder / "job.html"
    path.write_bytes(page_bytes(warplens.open_ranks([folder / "ranks"]).document()))
    return path


def labels(page: Any) -> list[str]:
    return [text.split("\n")[0] for text in page.page.locator(".job-tl .tl-name").all_inner_texts()]


def test_every_chart_is_drawn_in_both_themes(file: Path, show: Show) -> None:
    for dark in (False, True):
        page = show(file, dark=dark).settled()
        titles = page.page.locator("main h2").all_inner_texts()
        assert [title for title in titles if title in SECTIONS] == SECTIONS
        for chart in ("#timeline .tl-stage", "#heatmap", "#waits", "#scatter .job-scatter"):
            assert page.js(PIXELS, f"{chart} canvas") > 4, chart
        page.assert_quiet()


def test_findings_of_the_job_have_cards_that_lead_to_their_rows(file: Path, look: Show, job: JobProfile) -> None:
    page = look(file).settled()
    cards = page.page.locator("#findings .card")
    assert [card.get_attribute("data-code") for card in cards.all()] == [each.code for each in job.findings()]
    cards.first.locator("h3 button").click()
    assert page.js("() => warplens.store.get('at')") == "tables"
    page.assert_quiet()


def test_the_tables_of_a_job_are_grouped_and_stragglers_come_first(file: Path, look: Show) -> None:
    page = look(file).settled()
    page.page.locator("#tables").scroll_into_view_if_needed()
    chosen = page.page.locator("#tables button[aria-current]")
    assert chosen.get_attribute("data-table") == "stragglers"
    assert page.page.locator("#tables h3").all_inner_texts() == ["Ranks", "Collectives", "Report"]
    page.assert_quiet()


def test_ranks_are_filtered_folded_and_sorted_by_their_waits(file: Path, look: Show, job: JobProfile) -> None:
    page = look(file).settled()
    assert labels(page) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    page.page.locator(".job-tl input").fill("1-2")
    assert labels(page) == ["rank 1", "rank 2"]
    assert page.page.locator(".job-tl .tl-status").inner_text() == "2 of 4 ranks."
    page.state(ranks="", rankorder="wait")
    waits = (
        job.job.matched.group_by("rank").agg(pl.col("wait_ns").sum().alias("waited")).sort("waited", descending=True)
    )
    assert labels(page) == [f"rank {rank}" for rank in waits["rank"].to_list()]
    tall = page.page.locator(".tl-stage").bounding_box()["height"]
    page.page.get_by_text("Fold all").click()
    assert page.page.locator(".tl-stage").bounding_box()["height"] < tall
    page.state(ranks="17")
    assert "matches “17”" in page.page.locator(".job-tl .tl-status").inner_text()
    page.assert_quiet()


def test_a_collective_shows_the_wait_of_each_rank_and_its_row(file: Path, look: Show, job: JobProfile) -> None:
    page = look(file).settled()
    stage = page.page.locator(".tl-stage")
    stage.focus()
    page.state(call=str(first_matched(page)))
    details = page.page.locator(".tl-details")
    match = page.js("() => warplens.job.data.match[warplens.store.get('call')]")
    members = job.job.matched.filter(job.job.matched["match"] == match)
    assert details.locator(".job-waits li").count() == len(members)
    (row,) = [row for row in job.table("collectives").to_dicts() if row["collective"] == match]
    last = details.locator(".job-waits li", has_text="last")
    assert last.locator("span").first.inner_text() == f"rank {row['last_rank']}"
    before = page.js("() => warplens.store.get('call')")
    stage.press("}")
    assert page.js("() => warplens.store.get('call')") in page.js(f"() => warplens.job.matched({before})")
    stage.press("]")
    assert page.js("() => warplens.job.matched(warplens.store.get('call'))") != page.js(
        f"() => warplens.job.matched({before})"
    )
    page.page.get_by_text("Its row in the table collectives").click()
    assert page.js("() => warplens.store.get('table')") == "collectives"
    page.assert_quiet()


def first_matched(page: Any) -> int:
    return int(page.js("() => warplens.job.data.match.findIndex(match => match >= 0)"))


def test_hovering_names_a_collective(file: Path, look: Show) -> None:
    page = look(file).settled()
    call = first_matched(page)
    page.js(
        """call => { const { data } = warplens.job;
        warplens.store.set({ view: [data.start[call] - 1e6, data.start[call] + data.length[call] + 1e6] }) }""",
        call,
    )
    page.settled()
    box = page.page.locator(".tl-stage canvas").bounding_box()
    lane = page.page.locator(".tl-label").first.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, lane["y"] + lane["height"] * 0.75)
    tip = page.page.locator(".tip:visible")
    assert tip.locator("b").inner_text().startswith("rank 0: ")
    assert "4 ranks on this timeline" in tip.inner_text()
    page.assert_quiet()


def test_a_cell_of_the_heat_map_leads_to_the_step_of_its_rank(file: Path, look: Show, job: JobProfile) -> None:
    page = look(file).settled()
    heat = page.page.locator("#heatmap .job-heat")
    heat.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        heat.press(key)
    row = job.table("rank_steps").to_dicts()[job.table("rank_steps").frame["step"].n_unique() + 1]
    assert page.js("() => warplens.store.get('rank')") == row["rank"] == 1
    begin, end = page.js("() => warplens.store.get('view')")
    assert begin <= row["start_ms"] * 1e6 < (row["start_ms"] + row["step_ms"]) * 1e6 <= end
    page.page.locator("#heatmap").get_by_text("Computation", exact=True).click()
    assert page.js("() => warplens.store.get('heat')") == "compute"
    page.assert_quiet()


def test_a_dot_leads_to_its_collective(file: Path, look: Show) -> None:
    page = look(file).settled()
    chart = page.page.locator(".job-scatter")
    chart.focus()
    chart.press("ArrowRight")
    assert "bus bandwidth" in page.page.locator(".tip:visible").inner_text()
    chart.press("Enter")
    assert page.js("() => warplens.store.get('call')") is not None
    page.assert_quiet()


def test_a_pipeline_is_drawn_step_by_step(pipeline_file: Path, look: Show) -> None:
    page = look(pipeline_file).settled()
    assert page.js(PIXELS, "#pipeline canvas") > 4
    title = page.page.locator("#pipeline b")
    before = title.inner_text()
    page.page.get_by_label("Next step").click()
    assert title.inner_text() != before
    keys = page.page.locator("#pipeline .tl-key").all_inner_texts()
    assert {"F: forward", "B: backward", "send or receive: waiting", "transfer"} <= set(keys)
    assert "stage 1 computes" in page.page.locator(".job-pipeline").get_attribute("aria-label")
    page.assert_quiet()
