"""Files that are cut, damaged, wrongly packed or no traces: what is intact is reported, or one line says why not."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest

import warplens
from damage import WHOLE, figures, read, text_of, warnings_of, work
from support import kernel, op
from warplens_run.base.errors import FormatError, UsageError

SOUND = text_of(work())
WITHOUT_LAST_KERNEL = {"events": 4, "gpu": 1, "gpu_us": 20.0, "busy_us": 20.0, "idle_us": 0.0, "in_op_us": 20.0}


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def encrypted_zip() -> bytes:
    """An archive whose member says that it is encrypted, in both of its headers."""
    archive = bytearray(zipped({"trace.json": SOUND}))
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        archive[archive.index(header) + offset] |= 1
    return bytes(archive)


def label() -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}


def flow(phase: str) -> dict[str, Any]:
    return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "ts": 5, "pid": 1, "tid": 1}


REFUSED = {
    "empty": (b"", "is empty"),
    "white space": (b" \r\n\t", "only white space"),
    "text": (b"hello, this is a log file", "text, but not JSON"),
    "binary": (bytes(range(128, 256)), "binary data"),
    "another JSON object": (b'{"name": "x", "nodes": []}', "not a trace: no traceEvents"),
    "a JSON list of numbers": (b"[1, 2, 3]", "no trace events in the file"),
    "a JSON number": (b"17", "text, but not JSON"),
    "null": (b"null", "text, but not JSON"),
    "traceEvents is empty": (text_of([]), "no trace events in the file"),
    "traceEvents is an object": (text_of({}), "no traceEvents"),
    "traceEvents is null": (text_of(None), "no traceEvents"),
    "traceEvents is text": (text_of("x"), "no traceEvents"),
    "metadata only": (text_of([label()]), "no timed events in the file"),
    "flows only": (text_of([flow("s"), flow("f")]), "no timed events in the file"),
    "begins only": (text_of([{"ph": "B", "name": "a", "ts": 1, "pid": 1, "tid": 1}]), "no timed events in the file"),
    "no usable time": (text_of([{**op("a", 0, 1), "ts": "later"}]), "no event has a usable time"),
    "cut within the first event": (SOUND[:40], "damaged before the first complete event"),
    "gzip of nothing": (gzip.compress(b""), "gzip file without readable content"),
    "gzip cut within its header": (gzip.compress(SOUND)[:8], "gzip file without readable content"),
    "gzip in gzip": (gzip.compress(gzip.compress(SOUND)), "packed twice"),
    "zip with nothing but folders": (zipped({"folder/": b""}), "zip archive without files"),
    "zip cut": (zipped({"trace.json": SOUND})[:-30], "damaged zip archive"),
    "zip damaged": (zipped({"trace.json": SOUND}).replace(SOUND[:4], b"....").replace(b"PK\x01\x02", b"PK\0\0"), "zip"),
    "zip encrypted": (encrypted_zip(), "the zip archive is encrypted"),
    "zip packed with LZMA": (zipped({"trace.json": SOUND}, zipfile.ZIP_LZMA), "packed with LZMA"),
}


@pytest.mark.parametrize("content, reason", REFUSED.values(), ids=REFUSED)
def test_a_file_without_a_readable_event_is_refused_with_a_line_that_names_it(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(warplens.FormatError) as refused:
        read(tmp_path, content)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'trace.json'}: ")
    assert reason in message
    assert "\n" not in message
    assert refused.value.exit_code == 1


def test_a_directory_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path} is empty"):
        warplens.open(tmp_path)
    (tmp_path / "notes.txt").write_text("none here")
    with pytest.raises(UsageError, match=f"{tmp_path} has no profiles"):
        warplens.open(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(warplens.FormatError, match=r"nowhere\.json: no such file"):
        warplens.open(tmp_path / "nowhere.json")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(warplens.FormatError, match=r"trace\.json: no permission to read it"):
        warplens.open(tmp_path / "trace.json")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(warplens.FormatError, match="cannot be read"):
        warplens.open("tr\0ace.json")


@pytest.mark.parametrize("left_over", [1, 40, 120], ids=lambda size: f"{size} bytes of the last event")
def test_a_file_cut_within_an_event_reports_the_events_before_it(tmp_path: Path, left_over: int) -> None:
    last_event = SOUND.rindex(b'{"ph"')
    profile = read(tmp_path, SOUND[: last_event + left_over])
    assert figures(profile) == WITHOUT_LAST_KERNEL
    assert warnings_of(profile) == {"truncated": 0}


@pytest.mark.parametrize("ending", ["", ",", ",\n"], ids=repr)
def test_a_file_cut_between_two_events_says_that_it_ends_early(tmp_path: Path, ending: str) -> None:
    profile = read(tmp_path, SOUND[: SOUND.rindex(b', {"ph"')] + ending.encode())
    assert figures(profile) == WITHOUT_LAST_KERNEL
    assert warnings_of(profile) == {"truncated": 0}


@pytest.mark.parametrize("ending", ["]", "", ",", "\n", ",\r\n", "]\n", "]\0\0\0"], ids=repr)
def test_a_bare_list_may_end_without_its_bracket(tmp_path: Path, ending: str) -> None:
    profile = read(tmp_path, (json.dumps(work())[:-1] + ending).encode())
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


@pytest.mark.parametrize(
    "ending", ["", ', "traceName', ', "traceName": "a', ', "deviceProperties": [{"id": 0'], ids=repr
)
def test_a_file_cut_behind_its_events_has_all_of_them_and_a_note(tmp_path: Path, ending: str) -> None:
    profile = read(tmp_path, SOUND[:-1] + ending.encode())
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"truncated": 0}


@pytest.mark.parametrize("ending", [b"garbage", SOUND], ids=["garbage", "a second trace"])
def test_text_behind_the_end_is_noted(tmp_path: Path, ending: bytes) -> None:
    profile = read(tmp_path, SOUND + ending)
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"header": 0}


def test_text_behind_a_bare_list_is_noted(tmp_path: Path) -> None:
    profile = read(tmp_path, json.dumps(work()).encode() + b"garbage")
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"damaged": 1}


@pytest.mark.parametrize(
    "between",
    [b"}] {", b"}], {", b"}, garbage {", b"}, \x80\xff {", b"}, [[ {"],
    ids=["]", "],", "text", "bytes", "[["],
)
def test_garbage_between_two_events_costs_neither(tmp_path: Path, between: bytes) -> None:
    profile = read(tmp_path, SOUND.replace(b"}, {", between, 1))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"damaged": 1}


@pytest.mark.parametrize("between", [b"}{", b"},\r\n{", b"},\0\0\0\0{", b"},,{"], ids=repr)
def test_odd_separators_between_events_do_no_harm(tmp_path: Path, between: bytes) -> None:
    profile = read(tmp_path, SOUND.replace(b"}, {", between))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


@pytest.mark.parametrize("damage", [b'"name" "relu"', b'"name: "relu"', b'"name": relu', b'"name": "relu'])
def test_a_damaged_event_is_skipped_and_the_next_one_is_read(tmp_path: Path, damage: bytes) -> None:
    events = [*work(), kernel("gemm", 200, 5, 1)]
    profile = read(tmp_path, text_of(events).replace(b'"name": "relu"', damage))
    assert figures(profile)["gpu_us"] == 25.0
    assert warnings_of(profile) == {"damaged": 1}


def test_damage_of_the_last_event_costs_neither_the_others_nor_the_header(tmp_path: Path) -> None:
    text = text_of(work()).replace(b'"name": "relu"', b'"name" "relu"')
    profile = read(tmp_path, text[:-1] + b', "deviceProperties": [{"id": 0, "name": "H100"}]}')
    assert figures(profile) == WITHOUT_LAST_KERNEL
    assert warnings_of(profile) == {"damaged": 1}
    assert [device.name for device in profile.trace.meta.devices] == ["H100"]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": work()}, indent=2).replace("\n", "\r\n")
    profile = read(tmp_path, b"\xef\xbb\xbf" + text.encode())
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


def test_zeros_at_the_end_of_a_file_that_was_being_written_do_no_harm(tmp_path: Path) -> None:
    whole, cut = read(tmp_path, SOUND + bytes(5000)), read(tmp_path, SOUND[:-50] + bytes(5000))
    assert (figures(whole), warnings_of(whole)) == (WHOLE, {})
    assert (figures(cut), warnings_of(cut)) == (WITHOUT_LAST_KERNEL, {"truncated": 0})


def test_one_damaged_event_does_not_keep_a_long_file_from_being_read(tmp_path: Path) -> None:
    kernels = [kernel("gemm", 100 + 10 * number, 1, 1) for number in range(20_000)]
    profile = read(tmp_path, text_of(kernels).replace(b'"ts": 5100,', b'"ts" 5100,'))
    assert figures(profile)["gpu"] == 19_999
    assert warnings_of(profile)["damaged"] == 1


def many_kernels() -> bytes:
    rng = Random(1)
    return text_of([kernel(f"kernel_{rng.random()}", 10 * number, rng.random(), 1) for number in range(2000)])


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_cut_gzip_file_reports_what_comes_out_of_it(tmp_path: Path, part: float) -> None:
    stored = gzip.compress(many_kernels())
    profile = read(tmp_path, stored[: int(part * len(stored))])
    assert figures(profile)["gpu"] == pytest.approx(2000 * part, rel=0.15)
    assert warnings_of(profile)["truncated"] == 0


def test_a_damaged_byte_in_a_gzip_file_costs_what_follows_it(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(many_kernels()))
    stored[len(stored) // 2] ^= 0xFF
    profile = read(tmp_path, bytes(stored))
    assert 900 <= figures(profile)["gpu"] < 2000
    assert "truncated" in warnings_of(profile)


def test_a_wrong_checksum_costs_nothing_but_is_noted(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(SOUND))
    stored[-6] ^= 0xFF
    profile = read(tmp_path, bytes(stored))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"truncated": 0}


def test_garbage_behind_a_gzip_stream_is_noted_and_zeros_are_not(tmp_path: Path) -> None:
    garbage, zeros = read(tmp_path, gzip.compress(SOUND) + b"garbage"), read(tmp_path, gzip.compress(SOUND) + bytes(99))
    assert (figures(garbage), warnings_of(garbage)) == (WHOLE, {"damaged": 1})
    assert (figures(zeros), warnings_of(zeros)) == (WHOLE, {})


def test_a_gzip_file_of_many_members_is_one_text(tmp_path: Path) -> None:
    text = many_kernels()
    members = [gzip.compress(text[at : at + 100]) for at in range(0, len(text), 100)]
    profile = read(tmp_path, b"".join(members))
    assert figures(profile)["gpu"] == 2000
    assert "truncated" not in warnings_of(profile)


def test_the_last_of_two_gzip_members_may_be_cut(tmp_path: Path) -> None:
    last_event = SOUND.rindex(b'{"ph"')
    second = gzip.compress(SOUND[last_event:])
    profile = read(tmp_path, gzip.compress(SOUND[:last_event]) + second[: len(second) // 2])
    assert figures(profile) == WITHOUT_LAST_KERNEL
    assert warnings_of(profile) == {"truncated": 0}


@pytest.mark.parametrize("offset", [(1 << 64) - 8, 1 << 60])
def test_a_zip64_archive_with_a_false_offset_is_one_line(tmp_path: Path, offset: int) -> None:
    """Its record of the member has all three numbers in the extra field, as those of large archives do."""
    content, name, large = b"nothing", b"x.json", 0xFFFFFFFF
    crc = zlib.crc32(content)
    head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, crc, 7, 7, len(name), 0) + name
    extra = struct.pack("<HHQQQ", 1, 24, len(content), len(content), offset)
    facts = (45, 45, 0, 0, 0, 33, crc, large, large, len(name), len(extra), 0, 0, 0, 0, large)
    record = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, *facts) + name + extra
    body = head + content
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(record), len(body), 0)
    path = tmp_path / "x.zip"
    path.write_bytes(body + record + end)
    with pytest.raises(FormatError, match=r"damaged zip archive \(.") as refusal:
        warplens.open(path, cache=False)
    assert "\n" not in str(refusal.value)


def test_a_zip_may_hold_a_gzip_file_and_other_members(tmp_path: Path) -> None:
    members = {"notes.txt": b"x" * 50_000, "a/trace.json.gz": gzip.compress(SOUND)}
    profile = read(tmp_path, zipped(members, zipfile.ZIP_BZIP2))
    assert figures(profile) == WHOLE
    assert [note.detail for note in profile.trace.quality.notes if note.code == "zip_members"] == ["a/trace.json.gz"]


def test_damage_of_the_header_is_noted_and_costs_no_event(tmp_path: Path) -> None:
    profile = read(tmp_path, SOUND[:-1] + b', "deviceProperties": [{"id": 0, "name" "H100"}]}')
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"header": 0}


def test_a_header_with_nan_and_text_that_is_not_utf8_still_names_the_device(tmp_path: Path) -> None:
    header = b'"deviceProperties": [{"id": 0, "name": "H100 \xff", "numSms": 132.0, "clock": NaN}], '
    profile = read(tmp_path, b"{" + header + SOUND[1:])
    (device,) = profile.trace.meta.devices
    assert (device.name, device.multiprocessors) == ("H100 \ufffd", 132)
    assert figures(profile) == WHOLE


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [7], [None], {"a": 1}, [[[]]]], ids=repr)
def test_header_fields_of_wrong_types_are_left_out(tmp_path: Path, value: Any) -> None:
    fields = ("schemaVersion", "deviceProperties", "distributedInfo", "cuda_runtime_version", "with_stack", "traceName")
    profile = read(tmp_path, text_of(work(), **dict.fromkeys(fields, value)))
    nested = read(tmp_path, text_of(work(), deviceProperties=[{"id": value, "name": value, "computeMajor": value}]))
    assert figures(profile) == figures(nested) == WHOLE
    assert len(nested.trace.meta.devices) == 1
