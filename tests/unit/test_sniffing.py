"""Formats are recognized by their text, however much white space is before it, in time that grows with its length."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import warplens
from damage import WHOLE, figures, read, text_of, warnings_of, work
from support import ROOT, ends
from warplens.model.trace import Meta
from warplens.profiles.file_kinds import REPLAY_RESULT, file_kind
from warplens.ranks.file_heads import is_execution_trace, own_rank
from warplens.readers import registry
from warplens.readers.shared import file_head

SOUND = text_of(work())
MARK = b"\xef\xbb\xbf"
SPACE = b" \r\n\t" * 15_000
SAMPLES = ROOT / "samples"
TEXTS = (
    "proton/scopes.hatchet.gz",
    "proton/intra.chrome_trace.gz",
    "ncu/ops_raw.csv.gz",
)


@pytest.fixture(params=["native", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr("warplens.native_library.library", lambda: None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "before", [SPACE, 10 * SPACE, MARK + 10 * SPACE, b"\n"], ids=["60 kB", "600 kB", "BOM", "line"]
)
def test_white_space_of_any_length_is_skipped(tmp_path: Path, before: bytes, pack: Callable[[bytes], bytes]) -> None:
    profile = read(tmp_path, pack(before + SOUND))
    assert (figures(profile), warnings_of(profile)) == (WHOLE, {})


@pytest.mark.parametrize(
    "head", [b" " * 65_536, b"[" + b" " * 65_536, b'{"schema":' + b" " * 65_536], ids=["", "[", "{"]
)
def test_no_pattern_reads_white_space_twice(head: bytes) -> None:
    """60,000 spaces took 11 s: patterns that can divide them in many ways try them all."""
    with ends("sniffing", cpu_seconds=5):
        registry._format_of(head, head)


def test_an_empty_line_does_not_make_json_an_xla_profile(tmp_path: Path) -> None:
    text = text_of([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}}, *work()])
    assert text.index(b"/device:") > 80
    text = b'\n{"host": "/host:CPU", ' + text[1:]
    assert figures(read(tmp_path, text)) == WHOLE


def test_only_white_space_is_said_whatever_its_length(tmp_path: Path) -> None:
    with pytest.raises(warplens.FormatError, match="only white space"):
        read(tmp_path, 20 * SPACE)


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_format_may_begin_with_white_space(name: str) -> None:
    text = gzip.decompress((SAMPLES / name).read_bytes())
    plain, spaced = (registry.read(content, Meta("x", ""), []) for content in (text, MARK + 3 * SPACE + text))
    assert spaced.meta == plain.meta
    assert spaced.quality == plain.quality


def test_white_space_does_not_hide_what_a_first_look_finds(tmp_path: Path) -> None:
    calls, trace, own = (tmp_path / name for name in ("calls.json", "trace.json.gz", "result.json"))
    calls.write_bytes(3 * SPACE + b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [')
    trace.write_bytes(
        gzip.compress(3 * SPACE + b'{"distributedInfo": {"backend": "nccl", "rank": 5}, "traceEvents": []}')
    )
    own.write_bytes(SPACE + json.dumps({"format": REPLAY_RESULT}).encode())
    assert is_execution_trace(calls)
    assert own_rank(trace) == 5
    assert file_kind(own) == REPLAY_RESULT


def test_a_first_look_takes_little_of_a_file_that_unpacks_to_white_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_head, "MOST_PACKED_SPACE", 1 << 17)
    path = tmp_path / "spaces.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 18) + b"{"))
    assert file_head.head_of(path, 100) == b""
    path.write_bytes(gzip.compress(b" " * (1 << 16) + b"{"))
    assert file_head.head_of(path, 100) == b"{"


def test_a_first_look_at_a_damaged_file_has_what_comes_before_the_damage(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(re.sub(rb"1", b"17", json.dumps(list(range(90_000))).encode()), 1))
    stored[len(stored) // 2] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(stored)
    assert file_head.head_of(path, 4096).startswith(b"[0, 17, 2")
