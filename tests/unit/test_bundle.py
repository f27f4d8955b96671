"""Bundles: written whole or not at all, opened by every verb, and honest about what is missing."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import SAMPLES
from warplens.cli import main
from warplens.readers.bundle import find
from warplens.readers.bundle.contents import FolderContents, ZipContents
from warplens_run.base.errors import FormatError, UsageError, WarplensError
from warplens_run.formats.bundle import Staging, compress_trace, is_bundle

SAMPLE = next(path for path in SAMPLES if path.name == "cudagraph_infer.json.gz")
FACTS: dict[str, Any] = {
    "status": "complete",
    "backend": "torch",
    "command": ["warplens", "profile", "train.py"],
    "notes": [],
}


def made(target: Path, **facts: Any) -> Path:
    """A bundle around a real trace."""
    staging = Staging(target)
    shutil.copy(SAMPLE, staging.path("trace.json.gz"))
    clocks = {"start": [{"index": "0", "driver_version": "580.95"}, {"index": "1", "driver_version": "580.95"}]}
    staging.write_json("environment.json", {"packages": {"torch": "2.13.0"}, "clocks": clocks})
    return staging.finish({**FACTS, **facts})


def codes(path: Path) -> dict[str, str]:
    rows = warplens.open(path, cache=False).table("quality").to_dicts()
    return {row["code"]: row["message"] for row in rows}


@pytest.mark.parametrize("name", ["run", "run.zip"])
def test_a_bundle_opens_like_the_trace_in_it(tmp_path: Path, name: str) -> None:
    bundle = warplens.open(made(tmp_path / name), cache=False)
    plain = warplens.open(SAMPLE, cache=False)
    assert bundle.table("kernels").frame.equals(plain.table("kernels").frame)
    assert (bundle.meta.facts["torch"], bundle.meta.facts["driver"]) == ("2.13.0", "580.95")
    assert bundle.meta.facts["program"] == "profile train.py"


def test_every_verb_takes_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(made(tmp_path / "run"))
    for words in (["report", path], ["advise", path], ["show", path, "kernels"], ["tree", path], ["sql", path, "select 1"],
                  ["diff", path, path], ["gantt", path, "-o", str(tmp_path / "g.html")], ["report", path, "-q", "-o", str(tmp_path / "r.html")],
                  ["flamegraph", path, "-o", str(tmp_path / "f.folded")]):  # fmt: skip
        assert main(words) == 0, words
    capsys.readouterr()


def test_the_manifest_names_every_file_with_its_hash(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    files = json.loads((path / "manifest.json").read_text())["files"]
    assert set(files) == {"trace.json.gz", "environment.json"}
    for name, facts in files.items():
        content = (path / name).read_bytes()
        assert facts == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_run_killed_before_the_end_leaves_nothing_that_opens(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    shutil.copy(SAMPLE, staging.path("trace.json.gz"))
    assert not (tmp_path / "run").exists()
    (left,) = tmp_path.iterdir()
    with pytest.raises(FormatError, match="incomplete capture"):
        warplens.open(left)


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    (path / "environment.json").write_text("{}")
    assert "environment.json" in codes(path)["bundle_damaged"]
    (path / "environment.json").unlink()
    assert "environment.json" in codes(path)["bundle_damaged"]


def test_a_crash_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "run", status="crashed", exit_code=1, error="ValueError: boom", notes=["no GPU visible"])
    assert "crashed: ValueError: boom" in codes(path)["capture_ended"]
    assert "no GPU visible" in codes(path)["capture_note"]


def test_a_long_error_is_told_by_its_first_sentences(tmp_path: Path) -> None:
    error = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of "
        "which 133.14 GiB is free. Including non-PyTorch memory, this process has 6.65 GiB memory in use."
    )
    message = codes(made(tmp_path / "run", status="crashed", exit_code=1, error=error))["capture_ended"]
    assert message == (
        "the program failed (crashed: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 139.80 GiB of which 133.14 GiB is free. …); what was recorded before is shown"
    )


def test_memory_that_ran_out_unrecorded_comes_first_in_the_verdict(tmp_path: Path) -> None:
    error = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has …"
    crashed = warplens.open(made(tmp_path / "run", status="crashed", exit_code=1, error=error)).verdict()
    plain = warplens.open(made(tmp_path / "plain")).verdict()
    assert crashed == f"Out of memory: 2.00 GiB were asked for while allocations were not recorded. {plain}"


def test_several_ranks_are_one_job_without_those_that_were_killed(tmp_path: Path) -> None:
    for rank in (1, 0, 2):
        path = made(tmp_path / "job" / f"rank{rank}", rank=rank, world_size=3)
        with gzip.open(path / "trace.json.gz", "ab") as stream:
            stream.write(b"\n" * rank)  # files with the same contents are copies of one rank
    (tmp_path / "job" / "rank2").rename(tmp_path / "job" / "rank2.partial-12")
    job = warplens.open_ranks([tmp_path / "job"], cache=False)
    assert job.table("ranks").frame["rank"].to_list() == [0, 1]
    assert "1 rank of 3 missing: 2" in job.table("quality").frame["message"].to_list()


def test_nothing_recorded_is_one_line(tmp_path: Path) -> None:
    path = Staging(tmp_path / "run").finish({**FACTS, "notes": ["3 steps were marked"]})
    with pytest.raises(FormatError, match="without a profile \\(3 steps were marked\\)"):
        warplens.open(path)


def test_what_is_no_bundle_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is empty"):
        warplens.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FormatError, match="manifest of the bundle is damaged"):
        warplens.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(FormatError, match="not a capture bundle"):
        warplens.open(tmp_path)


def test_an_archive_with_a_trace_alone_still_opens(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(SAMPLE, "trace.json.gz")
    assert len(warplens.open(tmp_path / "t.zip", cache=False).table("kernels"))


def test_a_bundle_is_not_overwritten_unasked(tmp_path: Path) -> None:
    made(tmp_path / "run")
    with pytest.raises(UsageError, match="exists"):
        Staging(tmp_path / "run")
    staging = Staging(tmp_path / "run", force=True)
    staging.finish(FACTS)
    assert not (tmp_path / "run" / "trace.json.gz").exists()


@pytest.mark.parametrize("name", ["run", "run.zip"])
def test_a_bundle_that_appeared_in_the_meantime_is_kept(tmp_path: Path, name: str) -> None:
    """Two runs with the same -o at once: neither is lost."""
    first, second = Staging(tmp_path / name), Staging(tmp_path / name)
    assert first.folder != second.folder, "also in one process, and where processes of two containers share a number"
    assert first.finish({**FACTS, "notes": ["first"]}) == tmp_path / name
    other = second.finish({**FACTS, "notes": ["second"]})
    assert other == tmp_path / name.replace("run", "run-2")
    assert is_bundle(tmp_path / name) and is_bundle(other)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, other.name]), "nothing is left over"


def test_only_a_bundle_is_overwritten_when_asked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious.txt").write_text("kept")
    (tmp_path / "train.py").write_text("kept")
    for name in ("data", "train.py", "."):
        with pytest.raises(UsageError, match="is not a capture bundle: it is not overwritten"):
            Staging(tmp_path / name, force=True)
    assert (tmp_path / "data" / "precious.txt").exists()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.zip").touch()
    for name in ("empty", "empty.zip"):
        assert Staging(tmp_path / name, force=True).finish(FACTS) == tmp_path / name
        assert Staging(tmp_path / name, force=True).finish(FACTS) == tmp_path / name, "and again: a bundle now"


def test_a_relative_path_means_what_it_meant_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    staging = Staging(Path("run"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    staging.finish(FACTS)
    assert is_bundle(tmp_path / "run")


def test_what_cannot_get_its_name_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = Staging(tmp_path / "run")
    shutil.copy(SAMPLE, staging.path("trace.json.gz"))

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(WarplensError, match=r"cannot write .*run: Permission denied") as told:
        staging.finish(FACTS)
    assert str(staging.folder) in str(told.value.hint)
    assert len(warplens.open(staging.folder, cache=False).table("kernels"))


@pytest.mark.parametrize("path", ["/dev/null/run", "bad\0name"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        Staging(tmp_path / path)


def test_a_text_is_renamed_wherever_the_blocks_of_a_file_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens_run.formats.bundle.BLOCK", 5)
    for before in range(12):
        plain, packed = tmp_path / "plain", tmp_path / "packed.gz"
        plain.write_bytes(b"x" * before + b"Step#12 Step#1")
        compress_trace(plain, packed, [(b"Step#12", b"(after)")])
        assert gzip.decompress(packed.read_bytes()) == b"x" * before + b"(after) Step#1"
        assert not plain.exists()


def test_the_cache_knows_bundles_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    path = made(tmp_path / "run")
    first = warplens.open(path).table("kernels").frame
    assert warplens.open(path).table("kernels").frame.equals(first)
    (path / "environment.json").write_text("{}")
    assert "bundle_damaged" in {row["code"] for row in warplens.open(path).table("quality").to_dicts()}


def test_files_of_a_bundle_that_nothing_uses_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for kind in (FolderContents, ZipContents):
        taken = kind.read
        monkeypatch.setattr(kind, "read", lambda self, name, taken=taken: (read.append(name), taken(self, name))[1])
    for name in ("run", "run.zip"):
        staging = Staging(tmp_path / name)
        shutil.copy(SAMPLE, staging.path("trace.json.gz"))
        staging.path("tree.hatchet.gz").write_bytes(b"another profile")
        staging.path("core").write_bytes(b" " * (40 << 20))
        staging.path("kernels").mkdir()
        (staging.path("kernels") / "k.py").write_text("pass")
        warplens.open(staging.finish(FACTS), cache=False)
    assert read == 2 * ["manifest.json", "trace.json.gz"]


def test_the_same_files_have_the_same_hash_in_a_folder_and_in_an_archive(tmp_path: Path) -> None:
    hashes = set()
    for name in ("run", "run.zip"):
        staging = Staging(tmp_path / name)
        shutil.copy(SAMPLE, staging.path("trace.json.gz"))
        staging.path("more.txt").write_text("not used")
        bundle = find(staging.finish(FACTS))
        assert bundle is not None
        hashes.add(bundle.content_hash)
    assert len(hashes) == 1


def test_the_hash_of_a_bundle_is_that_of_all_its_files(tmp_path: Path) -> None:
    """Proofs and results of replays keep it: they stay those of the bundle."""
    staging = Staging(tmp_path / "run")
    shutil.copy(SAMPLE, staging.path("trace.json.gz"))
    staging.path("more.txt").write_text("not used")
    path = staging.finish(FACTS)
    bundle = find(path)
    assert bundle is not None
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(path.iterdir()):
        digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    assert bundle.content_hash == digest.hexdigest()


def test_a_file_that_nothing_uses_is_compared_by_its_size(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    shutil.copy(SAMPLE, staging.path("trace.json.gz"))
    staging.path("more.txt").write_text("not used")
    path = staging.finish(FACTS)
    (path / "more.txt").write_text("longer than it was")
    assert "more.txt" in codes(path)["bundle_damaged"]


def test_a_file_of_a_bundle_that_unpacks_to_too_much_loses_that_file_only(tmp_path: Path) -> None:
    path = made(tmp_path / "run.zip")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["environment.json"] = b" " * (40 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    assert codes(path)["bundle_damaged"] == "1 file not as in the manifest of the bundle (environment.json)"
