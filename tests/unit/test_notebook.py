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
from support import ROOT, Opened, annotation, kernel, launch, op, write_trace
from warplens.model.notebook import MOST_CHARACTERS, MOST_ROWS, shown
from warplens.model.table import Column
from warplens.model.tree import Tree, build_tree

HOSTILE = '</td><script>alert(1)</script>"><img src=x onerror="alert(2)">'
TAGS = {"p", "br", "div", "style", "small", "table", "thead", "tbody", "tr", "th", "td"}


class Read(HTMLParser):
    """The texts of HTML; a tag that is not Polars' own or not closed in order is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert not attrs or attrs == [("border", "1"), ("class", "dataframe")]
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_gains_are_per_step_where_steps_are_marked(opened: Opened) -> None:
    gaps = [event for event in waits([100, 100, 100]) if event["cat"] != "python_function"]
    for profile, of in ((opened([*gaps, *step_marks(0, 300, 800)]), ", gains per step"), (opened(gaps), "")):
        (finding,) = profile.findings()
        assert finding.gain_ms > 0.01
        texts = Read(profile._repr_html_()).texts
        assert f"1 finding{of}" in texts
        assert {format(gain_ms, ".6g") for gain_ms in (finding.gain_ms, finding.gain_high_ms)} <= set(texts)


@pytest.fixture
def hostile(opened: Opened) -> warplens.Profile:
    events = [annotation(HOSTILE, 0, 50), op(HOSTILE, 0, 10), launch(1, 2, 1), kernel(HOSTILE, 20, 20, 1)]
    profile: warplens.Profile = opened(events)
    return profile


def test_every_kind_shows_its_verdict_and_the_names_of_its_tables(tmp_path: Path) -> None:
    for make in KINDS.values():
        thing = make(tmp_path)
        texts = Read(thing._repr_html_()).texts
        assert any(text.endswith(f": {thing.verdict()}") for text in texts)
        assert f"tables: {', '.join(thing.table_names)}" in texts


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
        "<Finding WL201: 3 GEMMs with the unaligned size 50257 run on slow kernels · 12.6 ms (8.7 to 16.3)>",
    ]


def test_findings_stand_above_the_first_rows() -> None:
    profile = warplens.open(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz")
    texts = Read(profile._repr_html_()).texts
    finding = texts.index('"WL201"')
    assert texts[finding + 1] == '"3 GEMMs with the unaligned size 50257 run on slow kernels"'
    assert finding < texts.index("kernel_categories: one row per kernel category") < texts.index('"GEMM"')


def test_hostile_names_stay_text(hostile: warplens.Profile) -> None:
    assert "<script" not in hostile._repr_html_()
    for part in (hostile.tree("full"), hostile.table("kernels"), hostile.table("ops")):
        html = part._repr_html_()
        assert f'"{HOSTILE}"' in Read(html).texts
        assert "<script" not in html and "<img" not in html


def test_a_hostile_file_name_stays_text(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "<script>alert(1)<script>.json", [kernel("<script>", 20, 20, 1)])
    html = warplens.open(path, cache=False)._repr_html_()
    assert Read(html).texts[0].startswith("<script>alert(1)<script>.json: ")
    assert "<script" not in html


def test_a_heading_of_hostile_text_stays_text() -> None:
    table = warplens.Table.from_rows(HOSTILE, HOSTILE, (Column(HOSTILE, "", "", pl.String),), [(HOSTILE,)], HOSTILE)
    texts = Read(table._repr_html_()).texts
    assert texts[0] == f"{HOSTILE}: {HOSTILE}" and HOSTILE in texts[1:]


def test_a_table_without_rows_says_why() -> None:
    table = warplens.Table.from_rows("sums", "one row per name", (Column("name", "", "", pl.String),), [], "no names")
    assert Read(table._repr_html_()).texts[:2] == ["sums: one row per name", "no names"]


def test_a_long_name_is_cut_late() -> None:
    table = warplens.Table.from_rows("t", "", (Column("kernel", "", "", pl.String),), [("k" * 500,)])
    assert [text.count("k") for text in Read(table._repr_html_()).texts if "kk" in text] == [MOST_CHARACTERS]


def test_a_value_that_is_half_a_surrogate_pair_can_be_sent() -> None:
    a_tree(["all", "\ud800 broken"], [-1, 0])._repr_html_().encode("utf-8")
    shown("run\udcff.json").encode("utf-8")


def a_tree(names: list[str], parents: list[int]) -> Tree:
    size = len(names)
    own = np.arange(size, dtype=np.int64) * 1000
    return build_tree(np.array(parents), names, ["op"] * size, own, np.ones(size, np.int64), "GPU time")


def test_a_tree_shows_its_heaviest_nodes_below_their_callers() -> None:
    tree = a_tree(["all", "light", "heavy", "leaf"], [-1, 0, 0, 2])
    texts = Read(tree._repr_html_()).texts
    assert [text for text in texts if text.strip('"') in tree.name] == ['"all"', '"heavy"', '"leaf"', '"light"']
    large = a_tree(["all", *(f"n{n}" for n in range(1, 100))], [-1, *[0] * 99])
    names = [text for text in Read(large._repr_html_()).texts if text.startswith('"n')]
    assert names == [f'"n{n}"' for n in range(99, 100 - MOST_ROWS, -1)]


def test_a_tree_deeper_than_pythons_stack_is_shown() -> None:
    depth = 3000
    tree = a_tree([f"n{n}" for n in range(depth)], [-1, *range(depth - 1)])
    assert Read(tree._repr_html_()).texts[0] == repr(tree)


def test_a_tree_without_nodes_is_shown() -> None:
    none = np.zeros(0, np.int64)
    assert (
        Read(build_tree(none, [], [], none, none, "GPU time")._repr_html_()).texts[0]
        == "<Tree of 0 nodes: none GPU time>"
    )
