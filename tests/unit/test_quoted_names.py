"""Names with a quote, which PyTorch's profiler writes as they are: read as meant, and ordinary files never misread."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warplens
from support import ends
from warplens.native_library import SWITCH
from warplens_run.base.quoted_names import escape_names
from warplens_run.capture.trace_to_tree import fold_file
from warplens_run.formats.bundle import compress_trace

HEAD = '{\n  "schemaVersion": 1,\n  "baseTimeNanoseconds": 1790857026000000000,\n  "traceEvents": [\n'
TAIL = '\n  ],\n  "traceName": "trace.json"\n}\n'
MEMBER_LINES = """
  {{
    "ph": "X",
    "cat": "{cat}",
    "name": "{name}",
    "pid": 17,
    "tid": 18,
    "ts": {ts}.500,
    "dur": 10.000
    ,
    "args": {{
      "External id": {ts}, "Concrete Inputs": ["\\"sum\\"", "a, b"], "Ev Idx": 0
    }}
  }}"""
"""As PyTorch 2.13 writes an event."""
SHORT_LINES = """
  {{
    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": 17, "tid": 18,
    "ts": {ts}, "dur": 10,
    "args": {{
      "External id": {ts}
    }}
  }}"""
"""As older versions do."""
LABEL = """
  {{
    "ph": "M",
    "name": "thread_name",
    "ts": 1.000,
    "pid": 17,
    "tid": 18,
    "args": {{
      "name": "{name}"
    }}
  }}"""
ODD = (
    'a.py(1): f"g', 'a.py(1): "', '"', '""', 'my"file.py(3): run', 'nn.Module: We"ird_0', 'a.py(1): end",',
    'a", "b', 'a.py(1): "},{"ph": "X"', '"}, {"name": "x"', 'x": "y', 'tail"\\', '\\"ha"lf', "<b>\"größe 空",
)  # fmt: skip
PLAIN = ("aten::mm", "a.py(1): <lambda>", "c:/dir/x.py(2): f", "{", "}, {", "[1, 2]", "a, b", 'said \\"so\\"')


def written(layout: str, names: tuple[str, ...], *, label: str = "python") -> str:
    events = [LABEL.format(name=label)]
    events += [layout.format(cat="cpu_op", name=name, ts=100 * turn) for turn, name in enumerate(names, 1)]
    return HEAD + ",".join(events) + TAIL


def meant(name: str) -> str:
    """What is escaped already stays so."""
    return {'\\"ha"lf': '"ha"lf', 'said \\"so\\"': 'said "so"'}.get(name, name)


@pytest.mark.parametrize("has_library", [True, False])
@pytest.mark.parametrize("layout", [MEMBER_LINES, SHORT_LINES])
def test_every_event_is_read_by_the_name_that_was_meant(
    layout: str, has_library: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_library:
        monkeypatch.setenv(SWITCH, "0")
    names = (*PLAIN, *ODD) if layout == MEMBER_LINES else (*PLAIN, *(name for name in ODD if name != 'a", "b'))
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(written(layout, names, label='thread 18 (wor"ker)').encode()))
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    trace = profile.trace
    assert [trace.names[name] for name in trace.events["name"].to_list()] == [meant(name) for name in names]
    assert trace.events["dur_ns"].to_list() == [10_000] * len(names)
    notes = {row["code"]: row["count"] for row in profile.table("quality").to_dicts()}
    assert notes["escaped_names"] == len(names) - len(PLAIN) + 1, "the label of the thread is one more"
    assert not {"damaged", "truncated", "bad_args", "header"} & set(notes)


def test_of_a_file_that_ends_in_such_a_name_the_rest_is_read(tmp_path: Path) -> None:
    text = written(MEMBER_LINES, ('f"g', "aten::mm", 'h"i'))
    path = tmp_path / "cut.json"
    path.write_text(text[: text.index('h"i') + 3])
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert sorted(profile.trace.names) == ["aten::mm", 'f"g']
    codes = {row["code"] for row in profile.table("quality").to_dicts()}
    assert {"escaped_names", "truncated"} <= codes


def test_recorded_files_are_json_when_they_are_packed(tmp_path: Path) -> None:
    text = written(MEMBER_LINES, (*PLAIN, *ODD) * 500)
    assert len(text) > 2 << 20, "several blocks"
    for end in ("", "\n"):
        (tmp_path / "plain.json").write_text(text + end)
        count = compress_trace(tmp_path / "plain.json", tmp_path / "packed.json.gz", [(b"trace.json", b"named.json")])
        assert count == 500 * len(ODD)
        document = json.loads(gzip.decompress((tmp_path / "packed.json.gz").read_bytes()))
        assert document["traceName"] == "named.json"
        names = [event["name"] for event in document["traceEvents"] if event["ph"] == "X"]
        assert names == [meant(name) for name in (*PLAIN, *ODD)] * 500
    assert not (tmp_path / "plain.json").exists()


def test_a_piece_of_a_tree_is_folded_with_such_names(tmp_path: Path) -> None:
    (tmp_path / "piece.json").write_text(written(MEMBER_LINES, ('f"g', "aten::mm")))
    fold_file(tmp_path / "piece.json", tmp_path / "tree.hatchet.gz")
    stored = json.loads(gzip.decompress((tmp_path / "tree.hatchet.gz").read_bytes()))
    assert {child["frame"]["name"] for child in stored[0]["children"]} == {'f"g', "aten::mm"}


EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "M"]), "cat": st.text(), "name": st.text(), "pid": st.integers(0, 9) | st.text()},
    optional={"tid": st.text(), "args": st.dictionaries(st.text() | st.just("name"), st.text() | st.lists(st.text()))},
)


@pytest.mark.nightly
@given(
    st.lists(EVENT), st.sampled_from([None, 0, 1, 4]), st.sampled_from([(", ", ": "), (",", ":"), (", \n", ": ")]),
    st.booleans(),
)  # fmt: skip
def test_json_stays_as_it_is(
    events: list[dict[str, object]], indent: int | None, separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps({"traceEvents": events}, indent=indent, separators=separators, ensure_ascii=ascii_only).encode()
    assert escape_names(text) == (text, 0)


@pytest.mark.parametrize("line", [
    '"name": "a"}, {"name": "b",\n"cat": "k"',
    '"name": "a", "cat": "b", "args": {"x": "y"},\n"pid": 1',
    '"name": "a", "pid": 1, "tid": "t", "cat": "b",\n"ts": 1',
])  # fmt: skip
def test_json_in_lines_of_other_writers_stays_as_it_is(line: str) -> None:
    text = ("[\n{\n" + line + "\n}\n]").encode()
    json.loads(text)
    assert escape_names(text) == (text, 0)


@pytest.mark.nightly
def test_a_text_in_one_line_takes_no_longer_than_its_length() -> None:
    text = b"\n" + b'{"name": "a"x, ' * 400_000
    with ends("looking for the line of each name"):
        assert escape_names(text) == (text, 0)
