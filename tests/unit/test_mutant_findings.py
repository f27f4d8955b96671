"""Files that a run of `tests/fuzz/mutants.py` found a defect with, each in the fewest bytes that show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nsys_files
import warplens
from support import ROOT
from warplens.readers.proton.events import read_events
from warplens_run.base.errors import FormatError


def test_kernel_facts_that_are_not_utf_8_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(b'{"\xe8":1,"format": "warplens kernel facts", "version": 1, "facts": []}')
    with pytest.raises(FormatError):
        warplens.open(path, cache=False)


def test_half_of_a_character_as_a_time_of_a_proton_trace_costs_its_event() -> None:
    events = [
        '{"ph": "X", "name": "lost", "cat": "kernel", "ts": "\\ud800", "dur": 2, "pid": 1, "tid": "Core0 CTA0"}',
        '{"ph": "X", "name": "kept", "cat": "kernel", "ts": 4, "dur": 2, "pid": 1, "tid": "Core0 CTA0", "args": {}}',
    ]
    kept, damage = read_events(f'{{"traceEvents": [{", ".join(events)}]}}'.encode())
    assert [event.name for event in kept] == ["kept"]
    assert damage["not_events"] == 1


def test_half_of_a_character_in_the_name_of_a_track_is_replaced(tmp_path: Path) -> None:
    args = '{"Finalization Time (ns)": 128, "Frequency (MHz)": 1000.0, "call_stack": ["ROOT", "k"]}'
    event = '{"ph": "X", "name": "x", "cat": "k", "ts": 4, "dur": 2, "pid": "k Core0 CTA8", "tid": "%s", "args": %s}'
    path = tmp_path / "x.chrome_trace"
    path.write_text(f'{{"traceEvents": [{event % ("warp 0", args)}, {event % (chr(92) + "ud800", args)}]}}')
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert "?" in {name for lane in profile.trace.lanes.rows() for name in lane}


def test_kernel_facts_with_a_number_beyond_64_bits_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    text = (ROOT / "samples" / "kernels" / "slow_softmax.facts.json").read_text()
    path.write_text(re.sub(r'("shared_bytes": ?)\d+', rf"\g<1>{2**64}", text))
    with pytest.raises(FormatError, match="a number beyond 64 bits"):
        warplens.open(path, cache=False)


def test_a_database_whose_schema_is_damaged_and_not_utf_8_is_one_line(tmp_path: Path) -> None:
    """Python cannot decode the error, which quotes the schema."""
    path = nsys_files.training_step().write(tmp_path / "x.sqlite")
    content = path.read_bytes()
    path.write_bytes(re.sub(rb"CREATE TABLE \w+", lambda name: b"CREATE\xa8" + name[0][7:], content))
    with pytest.raises(FormatError, match="a damaged SQLite file"):
        warplens.open(path, cache=False)
