"""Folders of jobs that lead back to themselves, or far down."""

from __future__ import annotations

from pathlib import Path

import pytest

from damage import text_of, work
from support import ends
from warplens.errors import UsageError
from warplens.ranks.finding_files import rank_files


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
