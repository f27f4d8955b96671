"""The cache of parsed traces: equal to reading again, never trusted when damaged, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

import warplens
from support import (
    HANG_SECONDS,
    SAMPLES,
    annotation,
    differences,
    fwdbwd,
    kernel,
    launch,
    memcpy,
    memory,
    op,
    write_trace,
)
from warplens.cache import entries as cache_entries
from warplens.cache import place
from warplens.cli import main
from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Meta
from warplens.readers import cache, registry
from warplens.readers.shared.stored_file import StoredFile

HEADER = {"deviceProperties": [{"id": 0, "name": "H200"}], "distributedInfo": {"rank": 1, "world_size": 2}}


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    collective = {
        "Collective name": "allreduce",
        "In msg nelems": 4,
        "Out msg nelems": 4,
        "dtype": "Float",
        "Group size": 2,
    }
    events = [
        annotation("ProfilerStep#1", 0, 100),
        op("aten::µm", 0, 10, **{"Input Dims": [[2, 3]], "Sequence number": 1}),
        launch(1, 1, 1),
        kernel("gemm", 5, 10, 1, grid=[1, 2, 3]),
        kernel("ncclDevKernel_AllReduce", 20, 10, **collective),
        memcpy(40, 3, bytes=77),
        memory(3, 512, 512, 1024),
        op("MmBackward0", 50, 5, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
        *fwdbwd((0, 1), (50, 2), 3),
    ]
    return write_trace(tmp_path / "trace.json", events, **HEADER)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed, in order."""
    parsed: list[str] = []
    real = registry.read_stored

    def counting(file: StoredFile, meta: Meta, notes: Sequence[Note]) -> warplens.Trace | CallPaths:
        parsed.append(Path(meta.source).name)
        return real(file, meta, notes)

    monkeypatch.setattr(registry, "read_stored", counting)
    return parsed


@pytest.fixture(autouse=True)
def _large_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of these small traces are a file of their own, as those of large ones are."""
    monkeypatch.setattr(cache_entries, "LARGE_BYTES", 100)


def entries() -> list[Path]:
    folder = place.cache_directory()
    return sorted(folder.iterdir()) if folder.exists() else []


def entry() -> Path:
    (only,) = entries()
    return only


def test_the_second_open_comes_from_the_cache_and_equals_the_first(trace_file: Path, reads: list[str]) -> None:
    first = warplens.open(trace_file).trace
    second = warplens.open(trace_file).trace
    assert reads == ["trace.json"]
    assert differences(first, second) == []
    assert second.meta == first.meta
    assert [table.frame.rows() for table in warplens.Profile(second).tables()] == [
        table.frame.rows() for table in warplens.Profile(first).tables()
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_cached_sample_equals_the_parsed_one(sample: Path, reads: list[str]) -> None:
    first = warplens.open(sample).trace
    assert differences(first, warplens.open(sample).trace) == []
    assert len(reads) == 1


def test_content_and_not_the_name_finds_the_entry(trace_file: Path, tmp_path: Path, reads: list[str]) -> None:
    warplens.open(trace_file)
    copy = tmp_path / "copy.json"
    shutil.copy(trace_file, copy)
    assert warplens.open(copy).trace.meta.source == str(copy)
    assert reads == ["trace.json"]


def test_a_changed_file_is_read_again(trace_file: Path, reads: list[str]) -> None:
    warplens.open(trace_file)
    write_trace(trace_file, [kernel("other", 0, 1)])
    assert warplens.open(trace_file).trace.names == ["other"]
    assert len(reads) == 2


def test_without_the_cache_nothing_is_read_or_written(trace_file: Path, reads: list[str]) -> None:
    warplens.open(trace_file, cache=False)
    assert entries() == []
    warplens.open(trace_file)
    warplens.open(trace_file, cache=False)
    assert len(reads) == 3


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "zeroed": lambda content: bytes(len(content)),
    "overwritten": lambda content: b"not at all what it was",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["head.json", "small.arrows", "events.arrow", "checksums.json"])
def test_a_damaged_entry_is_ignored(trace_file: Path, reads: list[str], part: str, damage: str) -> None:
    first = warplens.open(trace_file).trace
    file = entry() / part
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert differences(first, warplens.open(trace_file).trace) == []
    assert len(reads) == 2


@pytest.mark.parametrize("part", ["head.json", "small.arrows", "events.arrow", "checksums.json"])
def test_an_entry_with_a_missing_part_is_ignored(trace_file: Path, reads: list[str], part: str) -> None:
    first = warplens.open(trace_file).trace
    (entry() / part).unlink()
    assert differences(first, warplens.open(trace_file).trace) == []
    assert len(reads) == 2


def test_a_damaged_entry_is_replaced_by_a_whole_one(trace_file: Path, reads: list[str]) -> None:
    warplens.open(trace_file)
    (entry() / "events.arrow").write_bytes(b"")
    warplens.open(trace_file)
    warplens.open(trace_file)
    assert len(reads) == 2


def test_an_entry_of_another_version_is_not_used(
    trace_file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warplens.open(trace_file)
    monkeypatch.setattr(place, "__version__", "0.0.1-other")
    warplens.open(trace_file)
    assert len(reads) == 2
    assert len(entries()) == 2


def test_an_entry_with_other_columns_is_not_used(
    trace_file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warplens.open(trace_file)
    monkeypatch.setattr(cache, "EVENT_COLUMNS", {**cache.EVENT_COLUMNS, "colour": None})
    warplens.open(trace_file)
    assert len(reads) == 2


def three_traces(folder: Path) -> list[Path]:
    return [write_trace(folder / f"{name}.json", [kernel(name, 0, 1)]) for name in ("first", "second", "third")]


def test_over_its_size_the_cache_drops_the_entries_used_longest_ago(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = three_traces(tmp_path)
    warplens.open(first)
    one = sum(file.stat().st_size for file in entry().iterdir())
    monkeypatch.setenv("WARPLENS_CACHE_BYTES", str(int(2.5 * one)))
    warplens.open(second)
    for age, path in enumerate(sorted(entries(), key=lambda each: each.stat().st_mtime_ns, reverse=True)):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    warplens.open(first)  # from the cache, and now the one used last
    warplens.open(third)
    assert reads == ["first.json", "second.json", "third.json"]
    assert len(entries()) == 2
    warplens.open(first)
    warplens.open(third)
    assert len(reads) == 3
    warplens.open(second)
    assert reads[3:] == ["second.json"]


def test_an_entry_larger_than_the_whole_cache_is_kept_until_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_BYTES", "1")
    for path in three_traces(tmp_path):
        warplens.open(path)
        assert len(entries()) == 1


def test_a_place_that_cannot_be_written_is_no_failure(
    trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    read_only = tmp_path / "read-only"
    read_only.mkdir(mode=0o500)
    for folder in (blocked, blocked / "below", Path("/proc/warplens"), read_only / "cache"):
        monkeypatch.setenv("WARPLENS_CACHE", str(folder))
        assert len(warplens.open(trace_file).trace) == 7
    assert blocked.read_text() == "in the way"


def test_a_full_disk_is_no_failure_and_leaves_nothing_behind(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_entries, "_checksum", full)
    assert len(warplens.open(trace_file).trace) == 7
    assert entries() == []


def test_the_cache_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARPLENS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert place.cache_directory() == tmp_path / "warplens"
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "own"))
    assert place.cache_directory() == tmp_path / "own"


def test_a_trace_that_cannot_be_read_is_not_cached(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(warplens.FormatError):
        warplens.open(path)
    assert entries() == []


def test_a_flipped_bit_in_an_entry_is_noticed(trace_file: Path, reads: list[str]) -> None:
    warplens.open(trace_file)
    (entry,) = place.cache_directory().iterdir()
    frame = entry / "events.arrow"
    content = bytearray(frame.read_bytes())
    content[len(content) // 2] ^= 0x10
    frame.write_bytes(content)
    warplens.open(trace_file)
    assert len(reads) == 2


def test_only_entries_of_our_own_are_evicted(trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path))
    monkeypatch.setenv("WARPLENS_CACHE_BYTES", "1")
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter.txt").write_text("irreplaceable")
    old = tmp_path / f"{'0' * 32}-{'0' * 8}"
    old.mkdir()
    (old / "head.json").write_text("{}")
    warplens.open(trace_file)
    assert (foreign / "chapter.txt").exists()
    assert not old.exists()


@pytest.mark.parametrize("limit", ["2GB", "nonsense", "-1", ""])
def test_a_size_limit_may_have_a_unit_and_a_bad_one_is_no_failure(
    trace_file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_BYTES", limit)
    warplens.open(trace_file)
    warplens.open(trace_file)
    assert len(reads) == 1


def changed_entry(change: Callable[[dict[str, pl.DataFrame]], None]) -> None:
    """Writes the only entry anew with other frames: what no damage, but a fault of ours could leave."""
    kept = cache_entries.load(entry().name)
    assert kept is not None
    change(kept.frames)
    cache_entries.save(entry().name, kept.head, kept.frames)


@pytest.mark.parametrize(
    ("frame", "column"),
    [("events", "kind"), ("events", "name"), ("events", "parent"), ("memory", "lane"), ("flows", "target")],
)
def test_an_entry_with_a_code_out_of_range_is_ignored(
    trace_file: Path, reads: list[str], frame: str, column: str
) -> None:
    first = warplens.open(trace_file).trace

    def change(frames: dict[str, pl.DataFrame]) -> None:
        far = pl.lit(120).cast(frames[frame].schema[column]).alias(column)
        frames[frame] = frames[frame].with_columns(far)

    changed_entry(change)
    assert differences(first, warplens.open(trace_file).trace) == []
    assert len(reads) == 2


def test_a_missing_folder_is_made_for_its_user_alone(
    trace_file: Path, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "parent" / "own"))
    warplens.open(trace_file)
    warplens.open(trace_file)
    assert len(reads) == 1
    assert stat.S_IMODE(place.cache_directory().stat().st_mode) == 0o700


def test_a_link_to_a_folder_of_the_users_own_is_used(
    trace_file: Path, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large disk").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "large disk")
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "link"))
    warplens.open(trace_file)
    warplens.open(trace_file)
    assert len(reads) == 1


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used_and_noted_once(
    trace_file: Path,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    mode: int,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setenv("WARPLENS_CACHE", str(shared))
    for _ in range(2):
        assert main(["report", str(trace_file), "-q"]) == 0
        assert capsys.readouterr().err == f"note: no cache is used: others may write to {shared}\n"
    assert len(reads) == 2
    assert list(shared.iterdir()) == []
    assert main(["report", str(trace_file), "-q", "--no-cache"]) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_of_another_user_is_not_used(
    trace_file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warplens.open(trace_file)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    warplens.open(trace_file)
    assert len(reads) == 2
    assert place.refusal().endswith("belongs to another user")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are not in the mode")
@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("kind", ["another user's", "open to all", "a link to another user's"])
def test_nothing_is_written_below_a_folder_of_others(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, made: bool
) -> None:
    above = tmp_path / "theirs"
    cache_folder = above / "sub" / "cache"
    (cache_folder if made else above).mkdir(parents=True, mode=0o700)
    if kind == "open to all":
        above.chmod(0o777)
    else:
        status = os.stat_result
        lstat = Path.lstat

        def of_another(path: Path) -> os.stat_result:
            found = list(lstat(path))
            return status([*found[:4], 4242 if path == above else found[4], *found[5:]])

        monkeypatch.setattr(Path, "lstat", of_another)
    if kind == "a link to another user's":
        (tmp_path / "mine").symlink_to(above)
        cache_folder = tmp_path / "mine" / "sub" / "cache"
    monkeypatch.setenv("WARPLENS_CACHE", str(cache_folder))
    before = sorted(above.rglob("*"))
    warplens.open(trace_file)
    assert sorted(above.rglob("*")) == before
    assert f"is below {above}, " in place.refusal()
    above.chmod(0o1777)
    if kind == "open to all":  # as /tmp is: what we make there is ours alone
        assert place.refusal() == ""


WRITER = """
import sys, warplens
from warplens.readers import cache
trace = warplens.open(sys.argv[1], cache=False).trace
for _ in range(30):
    cache.save(trace)
    kept = cache.load(trace.meta.content_hash, trace.meta.source)
    assert kept is None or all(kept.events[name].equals(trace.events[name]) for name in trace.events.columns)
"""


def test_an_entry_that_is_written_by_several_processes_is_whole_or_absent(trace_file: Path, reads: list[str]) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(trace_file)]) for _ in range(3)]
    assert [writer.wait(HANG_SECONDS) for writer in writers] == [0, 0, 0]
    warplens.open(trace_file)
    assert reads == []
    assert len(entries()) == 1


def test_long_texts_are_packed_and_come_back_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_entries, "LARGE_TEXT_BYTES", 10_000)
    names = pl.DataFrame({"kernel": [f"void user_{number}::kernel<float, 64>(float*, int)" for number in range(2_000)]})
    frames = {"texts": names, "numbers": pl.DataFrame({"id": range(10_000)}), "short": names.head(100)}
    name = f"{'0' * 32}-{'0' * 8}"
    cache_entries.save(name, b"{}", frames)
    sizes = {file.stem: file.stat().st_size for file in entry().iterdir()}
    assert sizes["texts"] < names.estimated_size() / 3
    assert sizes["numbers"] >= 8 * 10_000
    assert sizes["short"] >= names.head(100).estimated_size()
    loaded = cache_entries.load(name)
    assert loaded is not None
    assert all(loaded.frames[each].equals(frame) for each, frame in frames.items())
