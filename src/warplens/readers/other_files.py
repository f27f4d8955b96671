"""Files that are not profiles, or not readable ones, by their first bytes: an error calls them by their name."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Final, NamedTuple

from warplens.readers.shared.stored_file import ZIP_MAGIC, text_start
from warplens.readers.shared.zip_archive import DAMAGED_ZIP

TEXT: Final = "text, but not JSON"
NAMED_MEMBERS: Final = 3
PRINTABLE_SHARE: Final = 0.9
SAMPLE_BYTES: Final = 256
DOWNLOADED: Final = "if it was downloaded, download the raw file"
PERFETTO: Final = "if it is a Perfetto trace, make JSON of it: traceconv json FILE trace.json"


class OtherFile(NamedTuple):
    """What a file is, and what to do; no hint where nothing can be made of it."""

    what: str
    hint: str = ""


PACKED: Final = (
    (rb"BZh[1-9]", OtherFile("packed with bzip2", "unpack it first: bzip2 -d FILE")),
    (rb"\xfd7zXZ\0", OtherFile("packed with xz", "unpack it first: xz -d FILE")),
    (rb"\x28\xb5\x2f\xfd", OtherFile("packed with zstd", "unpack it first: zstd -d FILE")),
    (rb"\x04\x22\x4d\x18", OtherFile("packed with LZ4", "unpack it first: lz4 -d FILE")),
    (rb"\x5d\0\0", OtherFile("packed with LZMA", "unpack it first: unlzma FILE")),
    (rb"7z\xbc\xaf\x27\x1c", OtherFile("a 7z archive", "unpack it first: 7z x FILE")),
    (rb"Rar!\x1a\x07", OtherFile("a RAR archive", "unpack it first: unrar x FILE")),
)
"""Patterns of the first bytes of what is packed in a way that is not read."""
UNPACKED: Final = (
    (rb"\x1f\x8b", OtherFile("packed with gzip")),
    (rb"PK\x03\x04", OtherFile("a zip archive")),
    (rb".{257}ustar", OtherFile("a tar archive")),
)
"""Likewise of what is read, but not inside another."""
KNOWN: Final = (
    *PACKED,
    (rb"PK\x05\x06", OtherFile("an empty zip archive")),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP", OtherFile("a picture")),
    (rb"%PDF-", OtherFile("a PDF document")),
    (rb"\x7fELF|MZ", OtherFile("a program or a library")),
    (rb"\x93NUMPY|\x89HDF\r\n|GGUF|.{8}\{\"__metadata__\"", OtherFile("a file of tensors")),
    (rb"version https://git-lfs", OtherFile("a pointer of Git LFS, not the file itself", "fetch it: git lfs pull")),
    (rb"<!doctype html>[\s\S]{0,2000}<title>Warplens", OtherFile("a page of Warplens", "open it in a browser")),
    (rb"(?i)<!doctype html|<html", OtherFile("an HTML page", DOWNLOADED)),
    (rb"<\?xml|<svg", OtherFile("an XML file")),
    (rb"\{\s*\"warplens\"", OtherFile("a report of Warplens", "open the trace that it was made from")),
    (rb"\{[\s\S]{0,300}speedscope\.app/file-format", OtherFile("a speedscope profile", "open it on speedscope.app")),
    (rb"\{\s*\"cells\"\s*:\s*\[", OtherFile("a Jupyter notebook")),
    (
        rb"[\s\S]{0,4000}\"?Time ?\(%\)\"?,\"?Total Time",
        OtherFile("a summary of nsys stats, without a timeline", "export the report: nsys export --type sqlite FILE"),
    ),
    (
        rb"\"?Kind\"?,\"?Agent_Id\"?,|\"?Index\"?,\"?KernelName\"?,|\"?Name\"?,\"?Calls\"?,\"?TotalDuration",
        OtherFile("a CSV file of rocprof", "record with: rocprofv3 --sys-trace --output-format json -- PROGRAM"),
    ),
    (rb"[\s\S]{0,4000}==\d+== (?:NVPROF|Profiling)", OtherFile("output of nvprof", "record with: nsys profile")),
)
"""Patterns of first bytes, of a text behind white space."""
ZIPPED: Final = (
    # what the names of members match, what the archive is
    (r"xl/workbook\.(?:xml|bin)\Z", "an Excel workbook"),
    (r"(?:word|ppt)/.+\.xml\Z", "an Office document"),
    (r"(?:.+/)?data\.pkl\Z", "a PyTorch checkpoint"),
    (r".+\.npy\Z", "a NumPy archive"),
    (r"META-INF/MANIFEST\.MF\Z|.+\.dist-info/WHEEL\Z", "a package"),
)


def describe(stored: bytes, first_bytes: bytes) -> OtherFile:
    """What a file is whose content begins with these bytes; `stored` is how it is stored."""
    if not first_bytes.startswith(stored[:SAMPLE_BYTES]):
        for pattern, other in (*PACKED, *UNPACKED):
            if re.match(pattern, first_bytes, re.DOTALL):
                return OtherFile(f"packed twice: what it contains is {other.what}", "unpack it, and open that")
    if stored.startswith(ZIP_MAGIC):
        return _archive(stored)
    head = first_bytes[text_start(first_bytes) :]
    for pattern, other in KNOWN:
        if re.match(pattern, head, re.DOTALL):
            return other
    if not head:
        return OtherFile("only white space" if first_bytes else "empty")
    sample = head[:SAMPLE_BYTES]
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in sample)
    if printable > PRINTABLE_SHARE * len(sample):
        return OtherFile(TEXT)
    return OtherFile("binary data", PERFETTO if first_bytes.startswith(b"\x0a") else "")


def _archive(stored: bytes) -> OtherFile:
    try:
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
    except DAMAGED_ZIP:
        names = []
    for pattern, what in ZIPPED:
        if any(re.match(pattern, name) for name in names):
            return OtherFile(what)
    listed = ", ".join(" ".join(name.split()) for name in names[:NAMED_MEMBERS])
    more = ", …" if len(names) > NAMED_MEMBERS else ""
    return OtherFile(f"a zip archive without a profile: {listed}{more}")
