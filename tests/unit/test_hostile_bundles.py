"""Bundles from strangers: wrong types, deep nesting, links that lead out, damaged parts. The trace opens, with notes."""

from __future__ import annotations

import gzip
import json
import shutil
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT
from warplens.planning.context import context_of
from warplens.ranks.file_heads import own_rank
from warplens_run.formats.bundle import Staging, is_bundle
from warplens_run.formats.bundle_files import ENVIRONMENT, EXECUTION_STEP, EXECUTION_TRACE, MANIFEST, TRACE

REAL = ROOT / "samples" / "execution_trace" / "mlp_train.json.gz"
CALLS = REAL.with_name("mlp_train.et.json.gz")
SOUND: dict[str, Any] = {"status": "complete", "backend": "torch", "command": ["warplens", "x.py"], "notes": []}
DEEP = "[" * 100_000 + "]" * 100_000


def made(target: Path, environment: str = "{}", **facts: Any) -> Path:
    staging = Staging(target)
    shutil.copy(REAL, staging.path(TRACE))
    shutil.copy(CALLS, staging.path(EXECUTION_TRACE))
    staging.path(ENVIRONMENT).write_text(environment)
    return staging.finish({**SOUND, **facts})


def notes_of(path: Path) -> dict[str, str]:
    profile = warplens.open(path, cache=False).with_timeline()
    assert len(profile.trace) == len(warplens.open(REAL, cache=False).with_timeline().trace)
    return {note.code: note.detail for note in profile.trace.quality.notes}


FIELDS = {
    "status": 7, "error": [1], "exit_code": "one", "command": "x.py", "backend": {}, "gpu": "yes", "rank": "3",
    "world_size": -1, "notes": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_the_manifest_with_a_wrong_type_is_a_note(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "run", **{name: FIELDS[name]})
    assert notes_of(path)["bundle_values"] == f"{MANIFEST}: {name}"


@pytest.mark.parametrize("files", [7, [], {"trace.json.gz": 7}, {"trace.json.gz": {"sha256": []}}], ids=repr)
def test_a_list_of_files_with_wrong_types_does_not_cost_the_trace(tmp_path: Path, files: Any) -> None:
    path = made(tmp_path / "run")
    (path / MANIFEST).write_text(json.dumps({"format": "warplens-bundle", **SOUND, "files": files}))
    assert notes_of(path).keys() & {"bundle_values", "bundle_damaged"}


@pytest.mark.parametrize(
    "rank",
    [{"rank": 4, "world_size": 4}, {"rank": -1, "world_size": 4}, {"rank": 2**70, "world_size": 2**71}],
    ids=repr,
)
def test_an_impossible_rank_is_omitted(tmp_path: Path, rank: dict[str, int]) -> None:
    path = made(tmp_path / "run", **rank)
    assert "rank" in notes_of(path)["bundle_values"]
    assert own_rank(path) in (-1, 4)


@pytest.mark.parametrize("text", [DEEP, f'{{"format": "warplens-bundle", "notes": {DEEP}}}', "{", "[]", "7", "\ud800"])
def test_a_manifest_that_cannot_be_read_does_not_cost_the_trace(tmp_path: Path, text: str) -> None:
    path = made(tmp_path / "run")
    (path / MANIFEST).write_text(text, errors="surrogatepass")
    assert notes_of(path)["bundle_values"].startswith(f"{MANIFEST}: ")
    assert own_rank(path) == -1
    assert not is_bundle(path)


ENVIRONMENTS = {
    "a list": ("[]", "not an object"),
    "a number": ("7", "not an object"),
    "deep": (DEEP, "nested too deeply"),
    "deep inside": (f'{{"packages": {DEEP}}}', "nested too deeply"),
    "packages is a list": ('{"packages": ["torch"]}', "packages"),
    "packages is a text": ('{"packages": "torch"}', "packages"),
    "a version is a list": ('{"packages": {"torch": [2]}}', "torch"),
    "clocks is a list": ('{"clocks": []}', "clocks"),
    "clocks start with a number": ('{"clocks": {"start": 7}}', "start"),
    "a GPU is a number": ('{"clocks": {"start": [7]}}', "gpu"),
    "a driver is an object": ('{"clocks": {"start": [{"driver_version": {}}]}}', "driver_version"),
}


@pytest.mark.parametrize("text, why", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("name", ["run", "run.zip"])
def test_an_environment_with_wrong_types_is_a_note(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = made(tmp_path / name, text)
    assert notes_of(path)["bundle_values"] == f"{ENVIRONMENT}: {why}"
    assert context_of(path).versions == {}


DAMAGED = {
    "cut": CALLS.read_bytes()[:200],
    "another file": b"hello",
    "nothing": b"",
    "deep": gzip.compress(b'{"schema": "1.1.1-chakra.0.0.4", "nodes": ' + b"[" * 100_000),
    "no nodes": b'{"schema": "1.1.1-chakra.0.0.4", "nodes": 7}',
    "a bomb": gzip.compress(b" " * (40 << 20)),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("file", [EXECUTION_TRACE, EXECUTION_STEP])
def test_a_damaged_execution_trace_loses_the_join_and_not_the_trace(tmp_path: Path, file: str, content: bytes) -> None:
    path = made(tmp_path / "run")
    assert "execution_trace" in notes_of(path)
    (path / file).write_bytes(content)
    notes = notes_of(path)
    assert "execution_trace_unused" in notes or "execution_trace_unmatched" in notes or "truncated" in notes
    assert "execution_trace" not in notes


def test_an_execution_trace_that_the_user_names_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "calls.json").write_bytes(b"hello")
    with pytest.raises(warplens.FormatError, match=r"calls\.json"):
        warplens.open(REAL, execution_trace=tmp_path / "calls.json", cache=False)


def test_links_that_lead_out_of_a_bundle_are_not_followed(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    (tmp_path / "secret.json").write_text('{"packages": {"torch": "secret"}}')
    (path / ENVIRONMENT).unlink()
    (path / ENVIRONMENT).symlink_to("../secret.json")
    (path / "kernels").symlink_to(tmp_path)
    (path / "loop").symlink_to("loop")
    notes = notes_of(path)
    assert notes["bundle_links"] == f"{ENVIRONMENT}, kernels"
    assert "secret" not in str(warplens.open(path, cache=False).document().facts)


def test_links_inside_a_bundle_are_followed(tmp_path: Path) -> None:
    path = made(tmp_path / "run", '{"packages": {"torch": "2.11"}}')
    (path / "kept").mkdir()
    (path / ENVIRONMENT).rename(path / "kept" / "e.json")
    (path / ENVIRONMENT).symlink_to(Path("kept") / "e.json")
    (tmp_path / "alias").symlink_to(path)
    assert "bundle_links" not in notes_of(tmp_path / "alias")
    assert warplens.open(path, cache=False).with_timeline().trace.meta.facts["torch"] == "2.11"


@pytest.mark.parametrize("name", [TRACE, MANIFEST])
def test_a_bundle_whose_trace_or_manifest_leads_out_is_one_line(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "run")
    (path / name).rename(tmp_path / "outside")
    (path / name).symlink_to(tmp_path / "outside")
    with pytest.raises(warplens.FormatError, match="a link that leads out of it"):
        warplens.open(path)


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    path = made(tmp_path / "run.zip")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            if name != ENVIRONMENT:
                archive.writestr(name, content)
        link = zipfile.ZipInfo(ENVIRONMENT)
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert notes_of(path)["bundle_links"] == ENVIRONMENT
