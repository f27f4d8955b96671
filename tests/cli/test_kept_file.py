"""The files of collected patterns and texts: what is no such file is none, and they do not grow without end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warplens.collected import kept_file
from warplens.collected.kept_file import MOST_MISSING, KeptFile

USED = {("eval", f"{number}"): [number, None, "größe"] for number in range(20)}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    KeptFile(tmp_path / "kept", most=30).keep(USED)
    return tmp_path / "kept"


def read(path: Path, most: int = 30) -> KeptFile:
    file = KeptFile(path, most)
    file.read()
    return file


def test_what_is_kept_is_found_again(path: Path) -> None:
    file = read(path)
    assert {key: file.entry(key) for key in USED} == USED
    assert file.entry(("exec", "1")) is None


@pytest.mark.parametrize("size", [0, 3, 10, 100, -20])
def test_a_cut_file_is_none(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert read(path).entries == {}


def test_a_file_of_another_python_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "VERSION", b"another")
    assert read(path).entries == {}


@pytest.mark.parametrize("damaged", [b"", b"(", b"\xff\xff"])
def test_a_damaged_entry_is_none(path: Path, damaged: bytes) -> None:
    file = read(path)
    file.entries["eval", "1"] = damaged
    assert file.entry(("eval", "1")) is None


def test_it_is_written_again_for_many_that_are_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read(path)
    assert not file.is_to_be_written(MOST_MISSING)
    assert file.is_to_be_written(MOST_MISSING + 1)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert not file.is_to_be_written(MOST_MISSING + 1)


def test_entries_of_earlier_processes_stay_up_to_a_limit(path: Path) -> None:
    more = {("eval", f"more {number}"): number for number in range(20)}
    read(path).keep(more)
    assert set(read(path).entries) == {*USED, *more}
    last = {("eval", "last"): 0}
    read(path).keep(last)
    assert set(read(path).entries) == set(last)


def test_a_folder_that_is_not_there_is_left_alone(tmp_path: Path) -> None:
    assert not KeptFile(tmp_path / "not there" / "kept", most=30).is_to_be_written(MOST_MISSING + 1)
