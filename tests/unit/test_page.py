"""The page's data: complete, exact, compact, and nothing in it can become markup."""

from __future__ import annotations

import base64
import gzip
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import warplens
from page_reader import PageData
from support import SAMPLES, Opened, kernel, launch, op
from warplens.model.kinds import KINDS
from warplens.model.trace import empty_trace
from warplens.outputs.html import page_bytes
from warplens.outputs.html.events import (
    choose_events,
    expected_parents,
    kept_parents,
    pack_scene,
)
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import ColumnSpec, PageHeader


def page_of(profile: warplens.Profile) -> PageData:
    return PageData(page_bytes(profile.document(command="warplens report x.json -o x.html")).decode())


def header_of(packer: Packer) -> PageHeader:
    return PageHeader(title="", texts=list(packer.texts))


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.stem)
def sample(request: pytest.FixtureRequest) -> tuple[warplens.Profile, PageData]:
    profile = warplens.open(request.param, cache=False)
    return profile, page_of(profile)


@pytest.mark.parametrize(
    "values",
    [[], [0], [-1, -1, 5], [2**40, -(2**40), 3], list(range(300)), [255, 256, 65535, 65536], [-(2**52), 2**52]],
)
@pytest.mark.parametrize("delta", [False, True])
def test_integers_come_back_exactly(values: list[int], delta: bool) -> None:
    packer = Packer()
    packer.add_ints(np.array([1, 2, 3]))
    spec = packer.add_ints(np.array(values, np.int64), delta=delta)
    page = PageData(f'<script type="text/plain" id="data">{packer.packed(header_of(packer)).decode()}</script>')
    assert page.ints(msgspec.to_builtins(spec)).tolist() == values


@pytest.mark.parametrize(
    "values",
    [
        [0.001, 1.5, None, 1e-6],
        [1 / 3, 2 / 3, None],
        [3.0, 2.0, 1.0],
        [None, None],
        [1e300, float(2**60), -0.125],
        [9007199254740.993, 0.1],
    ],
)
def test_decimals_come_back_exactly(values: list[float | None]) -> None:
    packer = Packer()
    spec = packer.add_series(pl.Series(values, dtype=pl.Float64))
    page = PageData(f'<script type="text/plain" id="data">{packer.packed(header_of(packer)).decode()}</script>')
    assert page.column(msgspec.to_builtins(spec)) == values


def test_texts_and_booleans_come_back(opened: Opened) -> None:
    packer = Packer()
    texts = packer.add_series(pl.Series(["a", None, "", "a"]))
    flags = packer.add_series(pl.Series([True, None, False]))
    page = PageData(f'<script type="text/plain" id="data">{packer.packed(header_of(packer)).decode()}</script>')
    assert page.column(msgspec.to_builtins(texts)) == ["a", None, "", "a"]
    assert page.column(msgspec.to_builtins(flags)) == [True, None, False]


class FixtureHeader(PageHeader, frozen=True, kw_only=True):
    columns: dict[str, ColumnSpec]


PACKED = Path(__file__).parents[2] / "web" / "tests" / "packed.json"


def test_the_columns_that_the_scripts_own_tests_read_are_what_is_written_today(request: pytest.FixtureRequest) -> None:
    """web/tests reads packed.json, so that both halves of the format are tested against each other."""
    packer = Packer()
    numbers = [0, -1, 300, -(2**31), 2**31 - 1]
    columns = {
        "ints": packer.add_ints(np.array(numbers)),
        "rising": packer.add_ints(np.array([5, 7, 300, 299]), delta=True),
        "times": packer.add_ints(np.array([2**52, -(2**52), 3])),
        "decimals": packer.add_series(pl.Series([0.001, 1.5, None, 1e-6])),
        "thirds": packer.add_series(pl.Series([1 / 3, 1e300])),
        "texts": packer.add_series(pl.Series(["a", None, "", "a"])),
        "flags": packer.add_series(pl.Series([True, None, False])),
    }
    packed = packer.packed(FixtureHeader(title="", texts=list(packer.texts), warplens="", columns=columns))
    if request.config.getoption("--update-golden"):
        PACKED.write_bytes(msgspec.json.encode({"packed": packed.decode()}) + b"\n")
    kept = msgspec.json.decode(PACKED.read_bytes())["packed"]
    assert zlib.decompress(base64.b64decode(kept), 31) == zlib.decompress(base64.b64decode(packed), 31)


def test_the_page_holds_every_table_cell_for_cell(sample: tuple[warplens.Profile, PageData]) -> None:
    profile, page = sample
    for table in profile.tables():
        stored = page.table(table.name)
        frame = table.frame.sort("device", "start_ms") if table.name == "gaps" else table.frame
        assert list(stored) == frame.columns
        for name in frame.columns:
            expected = frame[name].to_list()
            if frame.schema[name].is_float():
                expected = [None if each is None or not np.isfinite(each) else each for each in expected]
            assert stored[name] == expected, (table.name, name)


def test_the_page_holds_every_event(sample: tuple[warplens.Profile, PageData]) -> None:
    profile, page = sample
    trace, scene = profile.trace, page.scene()
    assert scene["events"] == len(trace)
    assert scene["leftOut"] == {"events": 0, "shorterThanNs": 0}
    assert page.events("start").tolist() == trace.ints("start_ns").tolist()
    assert page.events("duration").tolist() == trace.ints("dur_ns").tolist()
    texts, labels, label = page.header["texts"], scene["labels"], page.events("label")
    names = [texts[labels["name"][each]] for each in label]
    assert names == [trace.names[code] for code in trace.ints("name")]
    assert [labels["kind"][each] for each in label] == trace.ints("kind").tolist()
    gpu = trace.gpu_rows
    assert page.events("gpuRow").tolist() == gpu.tolist()
    assert page.events("launch").tolist() == trace.ints("launch")[gpu].tolist()
    assert (page.events("owner") + page.events("launch")).tolist() == profile.gpu_events()["owner"].to_list()


def test_depths_and_odd_ones_give_every_parent_back(sample: tuple[warplens.Profile, PageData]) -> None:
    profile, page = sample
    trace = profile.trace
    parents = expected_parents(trace, np.arange(len(trace)), page.events("depth"))
    parents[page.events("oddRow")] = page.events("oddParent")
    assert parents.tolist() == trace.ints("parent").tolist()


def test_every_gpu_event_is_in_one_row_of_each_table_it_belongs_to(
    sample: tuple[warplens.Profile, PageData],
) -> None:
    profile, page = sample
    group = page.ints(page.scene()["members"]["group"])
    duration = profile.gpu_events()["dur_ns"].to_numpy()
    for name in ("kernels", "kernel_categories", "ops", "modules", "python_lines", "phases", "launch_categories"):
        rows = page.ints(page.scene()["members"]["rows"][name])[group] if len(group) else np.empty(0, np.int64)
        frame = profile.table(name).frame
        assert (rows >= 0).all()
        summed = np.bincount(rows, weights=duration, minlength=len(frame)) / 1000
        column = "total_us" if "total_us" in frame.columns else "kernel_us"
        assert summed == pytest.approx(frame[column].to_numpy(), abs=1e-6), name


def test_roofline_and_shapes_know_their_events(sample: tuple[warplens.Profile, PageData]) -> None:
    profile, page = sample
    group = page.ints(page.scene()["members"]["group"])
    duration = profile.gpu_events()["dur_ns"].to_numpy()
    for name, column in (("roofline", "total_us"), ("op_shapes", "kernel_us"), ("launches", "total_us")):
        rows = page.ints(page.scene()["members"]["rows"][name])
        rows = rows[group] if len(group) else np.empty(0, np.int64)
        frame = profile.table(name).frame
        summed = np.bincount(rows[rows >= 0], weights=duration[rows >= 0], minlength=len(frame)) / 1000
        assert summed == pytest.approx(frame[column].to_numpy(), abs=1e-6), name


NASTY = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--", "]]>", "\u2028", "𝔘\x00\ud800"]


def nasty_events() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for number, name in enumerate(NASTY):
        at = 100.0 * number
        events += [op(name, at, 50), launch(at + 5, 5, number + 1), kernel(name, at + 20, 40, number + 1)]
    return events


def test_names_never_become_markup(opened: Opened) -> None:
    html = page_bytes(opened(nasty_events()).document()).decode()
    assert "onerror=alert" not in html
    assert "alert(" not in html
    # One element for the data, one for the script and one that unpacks it, whatever the names say.
    assert html.count("<script") == 3
    assert html.count("</script>") == 3
    assert PageData(html).table("ops")["op"]


def test_the_title_is_escaped(tmp_path: Path, opened: Opened) -> None:
    document = opened([kernel("k", 0, 1)]).document()
    evil = type(document)("<b>x</b>", document.source, document.facts, document.tables, document.extras)
    assert "<title>&lt;b&gt;x&lt;/b&gt;</title>" in page_bytes(evil).decode()


NAMES_NOT_ADDRESSES = (
    "http://www.w3.org/2000/svg",
    "http://www.apache.org/licenses/LICENSE-2.0",
    "https://www.speedscope.app/file-format-schema.json",
    "url(#",
)


def test_the_page_names_no_address_to_fetch_from() -> None:
    html = page_bytes(warplens.open(SAMPLES[0], cache=False).document()).decode()
    head, _, rest = html.partition('<script type="text/plain" id="data">')
    assert "default-src 'none'" in head
    after, _, rest = rest.partition("</script>")[2].partition('<script type="text/plain" id="code">')
    script, _, loader = rest.partition("</script>")
    unpacked = gzip.decompress(base64.b64decode(script)).decode()
    assert unpacked.startswith('"use strict"')
    code = head + after + unpacked + loader
    for name in NAMES_NOT_ADDRESSES:
        code = code.replace(name, "")
    assert [mark for mark in ("http:", "https:", "url(", "@import", " src=", "fetch(", "import(") if mark in code] == []


def test_above_the_limit_the_shortest_host_events_go_and_the_page_says_so() -> None:
    profile = warplens.open(next(path for path in SAMPLES if "gpt2_train_step" in path.name), cache=False)
    scene, trace = profile.scene(), profile.trace
    limit = len(trace) // 2
    kept = choose_events(scene, limit)
    assert len(kept.rows) <= limit
    assert set(trace.gpu_rows) <= set(kept.rows.tolist()), "all GPU work stays"
    launches = trace.ints("launch")[trace.gpu_rows]
    assert (kept.row_of_event[launches[launches >= 0]] >= 0).all(), "and so does what launched it"
    gone = np.setdiff1d(np.arange(len(trace)), kept.rows)
    assert trace.ints("dur_ns")[gone].max() < kept.shortest_ns
    packer = Packer()
    packed = msgspec.to_builtins(pack_scene(scene, packer, choose_events(scene, limit)))
    assert packed["events"] == len(kept.rows)
    assert packed["leftOut"] == {"events": len(gone), "shorterThanNs": kept.shortest_ns}


def test_what_is_left_out_leaves_the_others_under_their_nearest_caller() -> None:
    profile = warplens.open(next(path for path in SAMPLES if "gpt2_train_step" in path.name), cache=False)
    trace = profile.trace
    kept = choose_events(profile.scene(), len(trace) // 2)
    parent = kept_parents(trace, kept)
    old = trace.ints("parent")
    for place in range(0, len(kept.rows), 97):
        at = int(old[kept.rows[place]])
        while at >= 0 and kept.row_of_event[at] < 0:
            at = int(old[at])
        assert parent[place] == (kept.row_of_event[at] if at >= 0 else -1)


def test_a_trace_without_events_gives_a_page() -> None:
    page = page_of(warplens.Profile(empty_trace()))
    assert page.scene()["events"] == 0
    assert page.header["kinds"] == list(KINDS)


def test_the_page_says_how_it_was_made() -> None:
    page = page_of(warplens.open(SAMPLES[0], cache=False))
    assert page.header["command"] == "warplens report x.json -o x.html"
    assert page.header["warplens"] == warplens.__version__
    assert page.header["facts"]["content hash"]
    assert "idle" in page.header["definitions"]["measures"]


def test_a_comparison_holds_both_traces() -> None:
    a, b = SAMPLES[0], SAMPLES[1]
    page = PageData(page_bytes(warplens.diff(a, b).document()).decode())
    assert page.header["mode"] == "diff"
    assert [scene["label"] for scene in page.header["scenes"]] == [a.name, b.name]
    assert page.table("diff_tree")["name"]
