"""Files that are not profiles are called by their name, also those that are packed in a way that is not read."""

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
from warplens_run.base.errors import FormatError

EVENTS = [op("aten::mm", 0, 30), launch(5, 2, 1), kernel("sm90_gemm", 20, 9, 1)]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()
SUPPORTED = "supported: profiles of PyTorch"


def zipped(*names: str, content: bytes = b"text") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, content)
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
    "tar": lambda text: tar({"x.json": text}),
    "tar.gz": lambda text: tar({"x.json": text}, "w:gz"),
    "gzip in tar": lambda text: tar({"x.json.gz": gzip.compress(text)}),
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_tar_archive_gives_the_same_trace(tmp_path: Path, packing: str) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(TEXT)
    packed.write_bytes(PACKED[packing](TEXT))
    traces = [warplens.open(path, cache=False).trace for path in (plain, packed)]
    assert not differences(*traces)
    assert traces[0].quality == traces[1].quality


TWICE = "packed twice: what it contains is"
NOT_UNPACKED: dict[str, tuple[bytes, str, str]] = {
    "bzip2": (bz2.compress(TEXT), "packed with bzip2", "bzip2 -d FILE"),
    "xz": (lzma.compress(TEXT), "packed with xz", "xz -d FILE"),
    "tar.xz": (tar({"x.json": TEXT}, "w:xz"), "packed with xz", "xz -d FILE"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive", "7z x FILE"),
    "xz in tar": (tar({"x.json": lzma.compress(TEXT)}), f"{TWICE} packed with xz", "unpack it"),
    "xz in zip": (zipped("x.json", content=lzma.compress(TEXT)), f"{TWICE} packed with xz", "unpack it"),
    "tar in zip": (zipped("x.tar", content=tar({"x.json": TEXT})), f"{TWICE} a tar archive", "unpack it"),
    "zip in tar": (tar({"x.zip": zipped("x.json", content=TEXT)}), f"{TWICE} a zip archive", "unpack it"),
    "tar in tar": (tar({"x.tar": tar({"x.json": TEXT})}), f"{TWICE} a tar archive", "unpack it"),
    "gzip in gzip": (gzip.compress(gzip.compress(TEXT)), f"{TWICE} packed with gzip", "unpack it"),
}


@pytest.mark.parametrize(("content", "what", "hint"), NOT_UNPACKED.values(), ids=NOT_UNPACKED)
def test_other_packings_are_called_by_their_name(tmp_path: Path, content: bytes, what: str, hint: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(FormatError) as refusal:
        warplens.open(path, cache=False)
    assert f"not a known profile format ({what})" in refusal.value.message
    assert hint in str(refusal.value.hint)


def test_of_several_traces_in_an_archive_the_note_names_the_one_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tar.gz"
    path.write_bytes(tar({"run/0.json": TEXT, "run/1.json": TEXT + b" ", "run/log.txt": b"log" * 999}, "w:gz"))
    (note,) = [note for note in warplens.open(path, cache=False).trace.quality.notes if note.code == "archive_traces"]
    assert (note.count, note.detail) == (2, "run/1.json")


def test_a_rank_that_is_packed_otherwise_is_not_left_out_in_silence(tmp_path: Path) -> None:
    for rank, (ending, pack) in enumerate((("gz", gzip.compress), ("xz", lzma.compress))):
        facts = {"traceEvents": EVENTS, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
        (tmp_path / f"rank{rank}.json.{ending}").write_bytes(pack(json.dumps(facts).encode()))
    notes = warplens.open_ranks([tmp_path], cache=False).table("quality").to_polars()["message"].to_list()
    assert any("packed with xz" in note for note in notes)


def test_a_damaged_tar_archive_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    whole = tar({"x.json": TEXT})
    path.write_bytes(b"?" * 100 + whole[100:])
    with pytest.raises(FormatError, match="damaged tar archive"):
        warplens.open(path, cache=False)
    path.write_bytes(tar({"empty": b""}))
    with pytest.raises(FormatError, match="tar archive without files"):
        warplens.open(path, cache=False)
