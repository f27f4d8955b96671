"""Files that are not profiles are called by their name, and other packings than gzip are read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import warplens
from support import differences, kernel, launch, op
from warplens.errors import FormatError
from warplens.readers.shared import unpack_limit

EVENTS = [op("aten::mm", 0, 30), launch(5, 2, 1), kernel("sm90_gemm", 20, 9, 1)]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()
SUPPORTED = "supported: profiles of PyTorch"


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, f"text of {name}")
    return buffer.getvalue()


def tar(members: dict[str, bytes], mode: str = "w:") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


OTHERS = {
    "an Excel workbook": (zipped("[Content_Types].xml", "xl/workbook.xml"), SUPPORTED),
    "a PyTorch checkpoint": (zipped("model/data.pkl", "model/version"), SUPPORTED),
    "a zip archive without a profile: a.md, b/c.csv": (zipped("a.md", "b/c.csv"), SUPPORTED),
    "a zip archive without a profile: 1, 2, 3, …": (zipped("1", "2", "3", "4"), SUPPORTED),
    "an empty zip archive": (zipped(), SUPPORTED),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(64)), SUPPORTED),
    "a PDF document": (b"%PDF-1.7\n1 0 obj", SUPPORTED),
    "packed with zstd": (b"\x28\xb5\x2f\xfd\x20\x05" + TEXT, "zstd -d"),
    "a pointer of Git LFS, not the file itself": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "an HTML page": (b"\n<!DOCTYPE html>\n<html>", "download the raw file"),
    "a page of Warplens": (b"<!doctype html>\n<head><title>Warplens report: x</title>", "in a browser"),
    "a summary of nsys stats, without a timeline": (b'Time (%),Total Time (ns),Instances,Name\n', "nsys export"),
    "a CSV file of rocprof": (b'"Kind","Agent_Id","Queue_Id"\n"KERNEL_DISPATCH",1,1\n', "rocprofv3"),
    "text, but not JSON": (b"step 1 loss 3.2\n", SUPPORTED),
    "binary data": (b"\x0a\x40\x12\x04\x08\x01\x10\x02\x82\x83", "traceconv json"),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_a_file_that_is_no_profile_is_called_by_its_name(tmp_path: Path, what: str) -> None:
    content, hint = OTHERS[what]
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(FormatError) as error:
        warplens.open(path, cache=False)
    assert error.value.message == f"{path}: not a known profile format ({what})"
    assert hint in str(error.value.hint)


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ({"cells": [], "nbformat": 4}, "a Jupyter notebook, not a trace", "torch.profiler"),
        ({"warplens": {"version": "1"}, "title": "x"}, "a report of Warplens, not a trace", "made from"),
        ({"model_type": "llama"}, "JSON, but not a trace: no traceEvents", "torch.profiler"),
    ],
    ids=["notebook", "report", "config"],
)
def test_json_of_another_kind_is_called_by_its_name(
    tmp_path: Path, content: dict[str, object], message: str, hint: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError) as error:
        warplens.open(path, cache=False)
    assert error.value.message == f"{path}: {message}"
    assert hint in str(error.value.hint)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "bz2 in two streams": lambda text: bz2.compress(text[:40]) + bz2.compress(text[40:]),
    "xz in two streams": lambda text: lzma.compress(text[:40]) + b"\0\0\0\0" + lzma.compress(text[40:]),
    "tar": lambda text: tar({"x.json": text}),
    "tar.gz": lambda text: tar({"x.json": text}, "w:gz"),
    "tar.xz": lambda text: tar({"x.json": text}, "w:xz"),
    "gzip in tar": lambda text: tar({"x.json.gz": gzip.compress(text)}),
}


@pytest.mark.parametrize("packing", PACKED)
def test_other_packings_give_the_same_trace(tmp_path: Path, packing: str) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(TEXT)
    packed.write_bytes(PACKED[packing](TEXT))
    traces = [warplens.open(path, cache=False).trace for path in (plain, packed)]
    assert not differences(*traces)
    assert traces[0].quality == traces[1].quality


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress], ids=["bz2", "xz"])
def test_a_cut_stream_gives_what_is_there_and_a_note(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)
    path = tmp_path / "x"
    path.write_bytes(packed + packed[: len(packed) // 2])
    assert warplens.open(path, cache=False).trace.quality.has("truncated")
    path.write_bytes(packed[:20])
    with pytest.raises(FormatError, match="file without readable content"):
        warplens.open(path, cache=False)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress], ids=["bz2", "xz"])
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]) -> None:
    monkeypatch.setattr(unpack_limit, "REPETITION_BYTES", 1 << 20)
    path = tmp_path / "x"
    path.write_bytes(pack(b" " * (16 << 20)))
    with pytest.raises(FormatError, match="unpacks to more than 512 times its size"):
        warplens.open(path, cache=False)


def test_of_several_traces_in_an_archive_the_note_names_the_one_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tar.gz"
    path.write_bytes(tar({"run/0.json": TEXT, "run/1.json": TEXT + b" ", "run/log.txt": b"log" * 999}, "w:gz"))
    (note,) = [note for note in warplens.open(path, cache=False).trace.quality.notes if note.code == "archive_traces"]
    assert (note.count, note.detail) == (2, "run/1.json")


@pytest.mark.parametrize(("ending", "pack"), [("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_traces_of_a_folder_are_ranks_of_a_job(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    for rank in range(2):
        facts = {"traceEvents": EVENTS, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
        (tmp_path / f"rank{rank}.json.{ending}").write_bytes(pack(json.dumps(facts).encode()))
    calls = b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [' + b" " * 70_000 + b"]}"
    (tmp_path / f"calls.json.{ending}").write_bytes(pack(calls))  # not a rank
    assert warplens.open(tmp_path, cache=False).table("ranks").to_polars()["rank"].to_list() == [0, 1]


def test_a_damaged_tar_archive_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    whole = tar({"x.json": TEXT})
    path.write_bytes(b"?" * 100 + whole[100:])
    with pytest.raises(FormatError, match="damaged tar archive"):
        warplens.open(path, cache=False)
    path.write_bytes(tar({"empty": b""}))
    with pytest.raises(FormatError, match="tar archive without files"):
        warplens.open(path, cache=False)
