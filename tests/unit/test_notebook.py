"""What is opened shows itself in one line, and in a notebook as HTML that no name of a trace can break out of."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import warplens
from finding_traces import step_marks, waits
from opened_kinds import KINDS
from support import ROOT, Opened, annotation, kernel, launch, op
from warplens.model.notebook import MAX_CELL, tree_html
from warplens.model.table import Column
from warplens.model.tree import Tree, build_tree
from warplens.units import format_ms

HOSTILE = '</td></summary><script>alert(1)</script>"><img src=x onerror="alert(2)">'
TAGS = {
    "div", "p", "b", "br", "ol", "li", "small", "table", "caption", "thead", "tbody", "tr", "th", "td", "details",
    "summary",
}  # fmt: skip
ATTRIBUTES = {"title", "style", "open"}


class Read(HTMLParser):
    """The tags and texts of HTML; a tag that is not closed in order is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.tags.append(tag)
        self.titles += [value or "" for name, value in attrs if name == "title"]
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_gains_are_per_step_where_steps_are_marked(opened: Opened) -> None:
    gaps = waits([100, 100, 100])
    for profile, of in ((opened([*gaps, *step_marks(0, 300, 800)]), " per step"), (opened(gaps), "")):
        (finding,) = profile.findings()
        assert finding.gain_ms > 0.01
        assert f"<small>≤ {format_ms(finding.gain_ms)}{of}</small>" in profile._repr_html_()


@pytest.fixture
def hostile(opened: Opened) -> warplens.Profile:
    events = [annotation(HOSTILE, 0, 50), op(HOSTILE, 0, 10), launch(1, 2, 1), kernel(HOSTILE, 20, 20, 1)]
    profile: warplens.Profile = opened(events)
    return profile


def test_every_kind_shows_its_verdict_and_the_names_of_its_tables(tmp_path: Path) -> None:
    for make in KINDS.values():
        thing = make(tmp_path)
        texts = Read(thing._repr_html_()).texts
        assert thing.verdict() in texts
        assert f"{len(thing.table_names)} tables" in texts


def test_every_kind_has_a_short_repr_of_one_line(tmp_path: Path) -> None:
    shown = {kind: repr(make(tmp_path)) for kind, make in KINDS.items()}
    assert shown["trace"].startswith("<Profile trace.json: 0 steps, ")
    assert shown["call paths"] == "<PathsProfile scopes.hatchet.gz: 5 call paths, 9 tables>"
    assert shown["comparison"] == "<Comparison trace.json and trace.json: two traces, 11 tables>"
    assert shown["kernel check"] == "<OpenedCheck facts.json: 1 compilation, 7 tables>"
    assert shown["kernel trace"] == "<OpenedKernelTrace trace.wkt: 1 launch, 5 tables>"
    assert shown["replay"] == "<OpenedReplay gpt2_compiled.result.json.gz: 79 units, 5 tables>"


def test_what_they_are_made_of_has_a_short_repr_too() -> None:
    profile = warplens.open(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz").with_timeline()
    parts = [profile.trace, profile.tree(), profile.table("kernels"), profile.findings()[0]]
    assert [repr(part) for part in parts] == [
        "<Trace gpt2_train_step.json.gz: 16,559 events, 1 step>",
        "<Tree of 3,588 nodes: 57.99 ms GPU time>",
        "<Table kernels: 80 rows, 14 columns>",
        "<Finding WL201: 3 GEMMs with the unaligned size 50257 run on slow kernels (12.57 ms)>",
    ]


def test_findings_stand_above_the_first_rows() -> None:
    profile = warplens.open(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz")
    read = Read(profile._repr_html_())
    assert read.tags.index("ol") < read.tags.index("table")
    assert "WL201" in read.texts and "1 more: findings()" in read.texts
    assert "GEMM" in read.texts


def test_hostile_names_stay_text(hostile: warplens.Profile) -> None:
    for part in (hostile, hostile.tree("full"), hostile.table("kernels"), hostile.table("ops")):
        html = part._repr_html_()
        assert "script" not in Read(html).tags
        assert "<script" not in html and "<img" not in html
    assert HOSTILE in "".join(Read(hostile.tree("full")._repr_html_()).texts)


def test_a_table_shows_units_and_meanings_and_says_how_many_rows_follow() -> None:
    columns = (Column("what", 'a "name"', "", pl.String), Column("total_us", "its time", "us", pl.Float64))
    table = warplens.Table.from_rows(
        "sums", "one row per name", columns, [(f"n{n}", n / 2) for n in range(12)], "a note"
    )
    read = Read(table._repr_html_())
    assert read.titles == ['a "name"', "its time"]
    assert "us" in read.texts
    assert "n9" in read.texts and "n10" not in read.texts
    assert read.texts[-2:] == ["2 more rows", "a note"]


def test_a_long_cell_is_cut_and_whole_in_its_tooltip() -> None:
    text = "k" * 500
    table = warplens.Table.from_rows("t", "", (Column("kernel", "", "", pl.String),), [(text,)])
    read = Read(table._repr_html_())
    assert text in read.titles
    assert text[:MAX_CELL] + "…" in read.texts


def test_a_value_that_is_half_a_surrogate_pair_can_be_sent() -> None:
    assert Read(a_tree(["all", "\ud800 broken"], [-1, 0])._repr_html_()).texts
    a_tree(["all", "\ud800 broken"], [-1, 0])._repr_html_().encode("utf-8")


def a_tree(names: list[str], parents: list[int]) -> Tree:
    size = len(names)
    own = np.arange(size, dtype=np.int64) * 1000
    return build_tree(np.array(parents), names, ["op"] * size, own, np.ones(size, np.int64), "GPU time")


def test_a_tree_is_a_folded_list_with_the_heaviest_first() -> None:
    tree = a_tree(["all", "light", "heavy", "leaf"], [-1, 0, 0, 2])
    read = Read(tree._repr_html_())
    assert read.tags.count("details") == 2 and read.tags.count("summary") == 2
    names = [text.strip() for text in read.texts if text.strip() in tree.name]
    assert names == ["all", "heavy", "leaf", "light"]


def test_a_large_tree_shows_its_heaviest_nodes_and_counts_the_rest() -> None:
    tree = a_tree(["all", *(f"n{n}" for n in range(1, 21))], [-1, *[0] * 20])
    read = Read(tree_html(tree, nodes=6))
    assert [text.strip() for text in read.texts if text.startswith("n")] == ["n20", "n19", "n18", "n17", "n16"]
    assert "15 smaller nodes not shown" in "".join(read.texts)


def test_a_tree_deeper_than_pythons_stack_is_shown() -> None:
    depth = 3000
    tree = a_tree([f"n{n}" for n in range(depth)], [-1, *range(depth - 1)])
    assert Read(tree_html(tree, nodes=depth)).tags.count("details") == depth - 1


def test_a_tree_without_nodes_says_so() -> None:
    none = np.zeros(0, np.int64)
    assert Read(build_tree(none, [], [], none, none, "GPU time")._repr_html_()).texts == ["no call paths"]
