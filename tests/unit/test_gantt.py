"""Gantt charts: what they show is what the trace has, and the pictures show that."""

from __future__ import annotations

import io
import re
import sys
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import warplens
from support import SAMPLES, Opened, annotation, kernel, launch, memcpy, nightly_after, op
from warplens.outputs.gantt import plan_gantt, write_gantt
from warplens.outputs.gantt_chart import Chart, TimeWindow, make_chart, pack, step_window, whole_window
from warplens.outputs.gantt_columns import is_crowded, merge_bars
from warplens.outputs.gantt_plot import GanttLook, plot_bytes
from warplens.outputs.palette import CATEGORY_COLOURS, RANK_COLOURS, REST

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
RELU = "relu_elementwise_kernel"
EVENTS = [
    kernel(GEMM, 0, 400),
    kernel(RELU, 600, 400),
    kernel(GEMM, 500, 200, stream=9),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 100, device=1, stream=3),
]


def chart_of(profile: warplens.Profile, window: TimeWindow | None = None, **options: Any) -> Chart:
    events = profile.gpu_events()
    return make_chart(events, window or whole_window(events), **options)


def test_rows_are_streams_and_bars_are_gpu_events(opened: Opened) -> None:
    chart = chart_of(opened(EVENTS))
    assert [(row.device, row.stream, row.lanes) for row in chart.rows] == [(0, 7, 1), (0, 9, 1), (1, 3, 1)]
    assert chart.window == (0, 1_000_000)
    bars = chart.bars
    assert list(zip(bars.row.tolist(), bars.begin_ns.tolist(), bars.end_ns.tolist(), strict=True)) == [
        (0, 0, 400_000),
        (0, 600_000, 1_000_000),
        (1, 500_000, 700_000),
        (2, 0, 100_000),
    ]
    assert [(group.name, group.total_ns) for group in chart.groups] == [
        ("GEMM", 600_000),
        ("Elementwise", 400_000),
        ("Communication", 100_000),
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_times_by_category_are_those_of_the_table(sample: Any) -> None:
    profile = warplens.open(sample, cache=False)
    if not len(profile.gpu_events()):
        with pytest.raises(warplens.WarplensError, match="no GPU work in this trace"):
            chart_of(profile)
        return
    chart = chart_of(profile)
    table = profile.table("kernel_categories").frame
    assert {group.name: group.total_ns / 1e3 for group in chart.groups} == pytest.approx(
        dict(table.select("kernel_category", "total_us").iter_rows())
    )
    assert len(chart.bars) == len(profile.gpu_events())
    assert chart.total_ns == profile.gpu_events()["dur_ns"].sum()


def test_a_window_cuts_what_reaches_into_it(opened: Opened) -> None:
    chart = chart_of(opened(EVENTS), TimeWindow(300_000, 650_000))
    assert list(zip(chart.bars.begin_ns.tolist(), chart.bars.end_ns.tolist(), strict=True)) == [
        (300_000, 400_000),
        (600_000, 650_000),
        (500_000, 650_000),
    ]
    assert chart.total_ns == 300_000


def test_a_window_without_work_says_where_there_is_some(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 10), kernel("k", 100, 50)])
    with pytest.raises(warplens.WarplensError, match=r"no GPU work from 0 ns to 50\.00 µs") as error:
        chart_of(profile, TimeWindow(0, 50_000))
    assert error.value.hint == "the GPU works from 100.0 µs to 150.0 µs"


STEPS = [
    *(annotation(f"ProfilerStep#{step}", 100 * step, 100) for step in (3, 4, 5)),
    *(launch(100 * step + 10, 1, step) for step in (3, 4, 5)),
    *(kernel(f"k{step}", 100 * step + 50, 80, step) for step in (3, 4, 5)),
]


def test_steps_reach_from_their_first_kernel_to_their_last_end(opened: Opened) -> None:
    events = opened(STEPS).gpu_events()
    assert step_window(events, {4}) == (150_000, 230_000)
    assert step_window(events, {3, 5}) == (50_000, 330_000)
    with pytest.raises(warplens.UsageError, match="no step 9 with GPU work") as error:
        step_window(events, {4, 9})
    assert error.value.hint == "steps with GPU work: 3-5"
    with pytest.raises(warplens.UsageError, match="no step 0 with GPU work") as error:
        step_window(opened(EVENTS).gpu_events(), {0})
    assert error.value.hint == "no steps are marked"


def test_the_longest_kernels_have_colours_and_the_rest_is_grey(opened: Opened) -> None:
    profile = opened([kernel(name, 100 * at, dur) for at, (name, dur) in enumerate([("a", 5), ("b", 50), ("c", 20)])])
    groups = chart_of(profile, by="kernel", top=2).groups
    assert [(group.name, group.colour, group.total_ns) for group in groups] == [
        ("b", RANK_COLOURS[0], 50_000),
        ("c", RANK_COLOURS[1], 20_000),
        ("1 other kernel", REST, 5_000),
    ]
    assert len(chart_of(profile, by="kernel", top=3).groups) == 3
    with pytest.raises(warplens.UsageError, match="no colours by 'shape'"):
        chart_of(profile, by="shape")


def test_overlapping_kernels_lie_in_the_lowest_free_lanes() -> None:
    begin, end = np.array([0, 2, 4, 10, 11]), np.array([5, 3, 8, 12, 13])
    assert pack(begin, end).tolist() == [0, 1, 1, 0, 1]
    assert pack(np.array([0, 5, 9]), np.array([5, 9, 12])).tolist() == [0, 0, 0]


def test_an_overlap_too_short_to_be_seen_needs_no_lane() -> None:
    begin, end = np.array([0, 98, 150]), np.array([100, 200, 160])
    assert pack(begin, end).tolist() == [0, 1, 0]
    assert pack(begin, end, unseen_ns=3).tolist() == [0, 0, 1]
    assert pack(np.array([0, 1]), np.array([100, 2]), unseen_ns=1000).tolist() == [0, 1], "side by side, though short"


def test_no_bar_covers_another_in_its_lane() -> None:
    random = np.random.default_rng(3)
    begin = np.sort(random.integers(0, 10_000, 500))
    end = begin + random.integers(1, 200, 500)
    lane = pack(begin, end)
    for number in range(int(lane.max()) + 1):
        own = lane == number
        assert (begin[own][1:] >= end[own][:-1]).all()
    open_at_once = max(int(((begin <= moment) & (end > moment)).sum()) for moment in begin)
    assert lane.max() + 1 == open_at_once


def test_merged_bars_keep_all_time_where_it_was() -> None:
    sample = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
    chart = chart_of(warplens.open(sample, cache=False))
    edges, share = merge_bars(chart, 50)
    lasts = np.diff(edges)
    for number, group in enumerate(chart.groups):
        merged = sum(float((shares[number] * lasts).sum()) for shares in share.values())
        assert merged == pytest.approx(group.total_ns, rel=1e-6)
    assert all((shares.sum(axis=0) <= 1 + 1e-9).all() for shares in share.values())
    half = chart_of(warplens.open(sample, cache=False), TimeWindow(chart.window.start_ns, int(edges[25])))
    first = sum(float((shares[:, :25] * lasts[:25]).sum()) for shares in share.values())
    assert first == pytest.approx(half.total_ns, rel=1e-6)


def test_bars_are_merged_only_where_there_are_too_many_or_too_narrow_ones(opened: Opened) -> None:
    chart = chart_of(opened(EVENTS))
    assert not is_crowded(chart, 1000)
    assert is_crowded(chart, 2)
    many = opened([kernel("k", at * 10, 10) for at in range(20_001)])
    assert is_crowded(chart_of(many), 10**6)


matplotlib = pytest.importorskip("matplotlib")


def pixels(content: bytes) -> Any:
    from matplotlib import image

    return (np.asarray(image.imread(io.BytesIO(content), format="png"))[:, :, :3] * 255).round().astype(int)


def rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def bar_area(picture: Any) -> Any:
    """The part inside the axes: right of the dark vertical line, above the dark horizontal one."""
    dark = (picture < 60).all(axis=2)
    left = int(np.argmax(dark.sum(axis=0)))
    below = int(np.argmax(dark.sum(axis=1)))
    right = int(np.flatnonzero(dark[below])[-1])
    return picture[:below, left + 2 : right]


def columns_of(picture: Any, colour: str) -> Any:
    return (picture == rgb(colour)).all(axis=2).any(axis=0)


def test_the_png_shows_each_bar_in_its_colour_at_its_time(opened: Opened) -> None:
    chart = chart_of(opened([kernel(GEMM, 0, 250), kernel(RELU, 500, 500)]))
    area = bar_area(pixels(plot_bytes(chart, GanttLook(width_in=8, dpi=100), "png")))
    width = area.shape[1]
    gemm, relu = (columns_of(area, CATEGORY_COLOURS[name]) for name in ("GEMM", "Elementwise"))
    assert gemm[: int(0.25 * width) - 4].all()
    assert not gemm[int(0.25 * width) + 4 :].any()
    assert relu[int(0.5 * width) + 4 : -4].all()
    assert not relu[: int(0.5 * width) - 4].any()
    idle = area[:, int(0.25 * width) + 4 : int(0.5 * width) - 4]
    assert (idle.max(axis=2) - idle.min(axis=2)).max() < 12, "between the bars is nothing but the grid"


def test_a_png_has_the_size_that_was_asked_for(opened: Opened) -> None:
    chart = chart_of(opened(EVENTS))
    picture = pixels(plot_bytes(chart, GanttLook(width_in=6, height_in=4, dpi=50), "png"))
    assert picture.shape[:2] == (200, 300)


def test_merged_bars_are_as_high_as_their_share(opened: Opened) -> None:
    """Kernels of 1 µs every 4 µs: a quarter of every column, and a note that says so."""
    chart = chart_of(opened([kernel(GEMM, 4 * at, 1) for at in range(20_001)]))
    content = plot_bytes(chart, GanttLook(width_in=8, height_in=4, dpi=100), "png")
    area = bar_area(pixels(content))
    column = (area[:, area.shape[1] // 2] == rgb(CATEGORY_COLOURS["GEMM"])).all(axis=1)
    shown = column.sum() / (2.3 * 100 * 0.8)
    assert 0.15 < shown < 0.35
    assert "bars merged to one per" in plot_bytes(chart, GanttLook(), "svg").decode()


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_chart_gives_the_same_bytes(opened: Opened, kind: str) -> None:
    chart = chart_of(opened(EVENTS))
    first, second = (plot_bytes(chart, GanttLook(title="t"), kind) for _ in range(2))
    assert first == second
    assert not re.search(rb"CreationDate|<dc:date>|20[2-9]\d-\d\d-\d\d", first)


def test_the_legend_names_the_groups_with_their_shares(opened: Opened) -> None:
    text = plot_bytes(chart_of(opened(EVENTS)), GanttLook(title="my run"), "svg").decode()
    for entry in ("GEMM  54.5 %", "Elementwise  36.4 %", "Communication  9.1 %", "my run", "GPU 1 stream 3"):
        assert re.sub(" +", " ", entry) in re.sub(" +", " ", text), entry
    assert "(ms)" in text
    short = plot_bytes(chart_of(opened(EVENTS), TimeWindow(0, 200_000)), GanttLook(), "svg").decode()
    assert "(µs)" in short


@pytest.mark.parametrize(
    "name",
    nightly_after(2, ["</svg><script>1</script>", "a$b$c_{x}^", "<img src=x onerror=1>", "x\x1b[31m\x00y", "核"]),
)
def test_names_are_text_in_every_format(opened: Opened, name: str) -> None:
    chart = chart_of(opened([kernel(name, 0, 10), memcpy(20, 5)]), by="kernel")
    look = GanttLook(title=name)
    content = plot_bytes(chart, look, "svg")
    root = ElementTree.fromstring(content)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags.isdisjoint({"script", "img", "image", "foreignObject"})
    assert b"<script" not in content
    assert b"onerror=1>" not in content
    if name.isprintable():
        assert name in {(element.text or "").strip() for element in root.iter()}
    assert plot_bytes(chart, look, "pdf").startswith(b"%PDF")
    assert plot_bytes(chart, look, "png").startswith(b"\x89PNG")


def test_the_users_own_settings_of_matplotlib_change_nothing(opened: Opened) -> None:
    chart = chart_of(opened(EVENTS))
    plain = plot_bytes(chart, GanttLook(), "png")
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 20}):
        assert plot_bytes(chart, GanttLook(), "png") == plain
        assert matplotlib.rcParams["font.size"] == 20


def test_the_path_chooses_the_format_and_nothing_is_overwritten(opened: Opened, tmp_path: Any) -> None:
    chart = chart_of(opened(EVENTS))
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for suffix, start in starts.items():
        path = tmp_path / f"x.{suffix}"
        write_gantt(plan_gantt(str(path), force=False), chart, GanttLook())
        assert path.read_bytes().startswith(start)
        with pytest.raises(warplens.UsageError, match="already exists"):
            plan_gantt(str(path), force=False)
    with pytest.raises(warplens.UsageError, match="unknown output format"):
        plan_gantt(str(tmp_path / "x.jpeg"), force=False)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(warplens.MissingExtra, match="needs matplotlib") as error:
        plan_gantt(str(tmp_path / "x.png"), force=False)
    assert error.value.hint == "pip install 'warplens[plot]'"
