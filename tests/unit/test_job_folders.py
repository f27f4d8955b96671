"""Folders of jobs that lead back to themselves, or far down."""

from __future__ import annotations

from pathlib import Path

import pytest

import warplens
from damage import text_of, work
from support import ends
from warplens.ranks.finding_files import rank_files
from warplens_run.base.errors import UsageError


def test_links_back_lead_to_each_folder_once(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).symlink_to(tmp_path)
    with ends("finding nothing", cpu_seconds=5), pytest.raises(UsageError, match="has no profiles"):
        rank_files([tmp_path])
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "rank0.json").write_bytes(text_of(work()))
    with ends("finding a rank", cpu_seconds=5):
        assert len(rank_files([tmp_path])) == 1


def test_a_file_many_folders_down_is_found(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(600):
        folder = folder / "d"
        folder.mkdir()
    (folder / "rank0.json").write_bytes(text_of(work()))
    assert [file.rank for file in rank_files([tmp_path])] == [0]


def test_json_beside_ranks_hides_neither_their_numbers_nor_is_it_one(tmp_path: Path) -> None:
    """Names as of a recorder that numbers its files: the number tells the ranks apart, and the others have none."""
    for rank in range(2):
        (tmp_path / f"decode_{rank}.json").write_bytes(text_of(work()))
    for name in ("execution_details.json", "settings_7_of_9.json"):
        (tmp_path / name).write_text('[{"file": "decode_0.json", "batch_size": 32}]')
    assert {file.path.name: file.rank for file in rank_files([tmp_path]) if file.rank >= 0} == {
        "decode_0.json": 0,
        "decode_1.json": 1,
    }


def test_json_with_the_number_of_a_rank_that_is_there_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(text_of(work()))
    (tmp_path / "config_rank0.json").write_text('{"model": "x"}')
    notes = [row["message"] for row in warplens.open(tmp_path).table("quality").to_dicts()]
    assert not any("could not be read" in note for note in notes)
    assert any("config_rank0.json was left out: JSON, but not a trace" in note for note in notes)
