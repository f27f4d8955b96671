"""The native reader beside the Python reader: what it takes, what it hands over, and doing without it."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

import warplens
from native_reading import SAME, needs_library, verdict, with_pieces_of
from support import SAMPLES, differences, ends, fwdbwd, kernel, launch, memcpy, memory, op, write_trace
from warplens import native_library
from warplens.readers.kineto import native
from warplens.readers.kineto.records import KinetoArgs, KinetoEvent
from warplens.readers.shared import stored_file
from warplens.readers.shared.microseconds import to_ns
from warplens.readers.shared.stored_file import NotWholeError, StoredFile

ROOT = Path(__file__).parents[2]
EVENT = '"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.5,"dur":2'
ARROW = '{"ph":"s","cat":"ac2g","name":"ac2g","id":1,"pid":1,"tid":1,"ts":1}'
TYPES = {
    # how the library's table writes a type: the annotation of the field
    "s": "str",
    "u": "int | str | None",
    "f": "float",
    "o": "KinetoArgs | None",
    "i": "int",
    "r": "Raw",
    "t": "str | None",
    "l": "str | list[object] | None",
    "a": "str | int | float | None",
}


def text_of(*events: str, tail: str = "") -> bytes:
    return f'{{"traceEvents":[{",".join(events)}]{tail}}}'.encode()


def why(text: bytes) -> str:
    """Why the library hands a text over; empty where it takes it."""
    library = native_library.library()
    assert library is not None
    try:
        native.read_natively(library, (text,))
    except native.HandedOverError as error:
        return str(error)
    return ""


def members(annotation: str) -> set[str]:
    return set(annotation.split(" | "))


@needs_library
def test_the_library_knows_the_fields_of_the_records() -> None:
    library = native_library.library()
    assert library is not None
    lines = library.wl_fields().decode().splitlines()
    for place, struct in (("event", KinetoEvent), ("args", KinetoArgs)):
        names = [field.encode_name for field in msgspec.structs.fields(struct)]
        fields = dict(zip(names, map(members, struct.__annotations__.values()), strict=True))
        known = {line.split(" ", 2)[2]: members(TYPES[line.split()[1]]) for line in lines if line.startswith(place)}
        assert known == fields


HANDED_OVER = {
    # what is odd: (text, words of the reason)
    "launches that only arrows show": (text_of(f"{{{EVENT}}}", ARROW), "flows"),
    "a byte order mark": (b"\xef\xbb\xbf" + text_of(f"{{{EVENT}}}"), "byte order mark"),
    "not a number": (text_of(f'{{{EVENT},"x":NaN}}'), "JSON"),
    "an infinite time": (text_of('{"ph":"X","name":"k","ts":Infinity,"dur":1}'), "JSON"),
    "a key twice": (text_of(f'{{{EVENT},"ts":2}}'), "twice"),
    "a key of the arguments twice": (text_of(f'{{{EVENT},"args":{{"stream":1,"stream":2}}}}'), "twice"),
    "a key with escapes": (text_of(f'{{{EVENT},"na\\u006de":"x"}}'), "escapes"),
    "bytes that are not UTF-8": (text_of(f'{{{EVENT},"x":"?"}}').replace(b"?", b"\xff"), "JSON"),
    "UTF-8 of a surrogate": (text_of(f'{{{EVENT},"x":"?"}}').replace(b"?", b"\xed\xa0\x80"), "JSON"),
    "UTF-8 that is too long": (text_of(f'{{{EVENT},"x":"?"}}').replace(b"?", b"\xc0\x80"), "JSON"),
    "half a surrogate pair": (text_of(f'{{{EVENT},"x":"\\ud800"}}'), "surrogate|JSON"),
    "a control character": (text_of(f'{{{EVENT},"x":"a\tb"}}'), "JSON"),
    "a cut text": (text_of(f"{{{EVENT}}}")[:-4], "ends before"),
    "a cut tail": (text_of(f"{{{EVENT}}}", tail=',"x":{'), "around the array"),
    "a tail that is not JSON": (text_of(f"{{{EVENT}}}") + b"x", "around the array"),
    "a trailing comma": (text_of(f"{{{EVENT}}}", ""), "JSON"),
    "an entry that is not an event": (text_of(f"{{{EVENT}}}", "7"), "JSON"),
    "leading zeros": (text_of(f'{{{EVENT},"x":01}}'), "JSON"),
    "an integer beyond 64 bits": (text_of(f'{{{EVENT},"args":{{"stream":9223372036854775808}}}}'), "64 bits"),
    "a fraction for an integer": (text_of(f'{{{EVENT},"args":{{"stream":7.5}}}}'), "64 bits"),
    "a handle without digits": (text_of(f'{{{EVENT},"args":{{"stream":"0x"}}}}'), "64 bits"),
    "a handle beyond 64 bits": (text_of(f'{{{EVENT},"args":{{"stream":"0x{17 * "f"}"}}}}'), "64 bits"),
    "a handle with a letter that is no digit": (text_of(f'{{{EVENT},"args":{{"stream":"0x5g"}}}}'), "JSON"),
    "a handle in another place": (text_of(f'{{{EVENT},"args":{{"device":"0x0"}}}}'), "JSON"),
    "an integer that is null": (text_of(f'{{{EVENT},"args":{{"stream":null}}}}'), "JSON"),
    "a truth value for a label": (text_of(f'{{{EVENT},"args":{{"name":true}}}}'), "type"),
    "arguments that are a list": (text_of(f'{{{EVENT},"args":[]}}'), "JSON"),
    "a time out of range": (text_of('{"ph":"X","name":"k","ts":4e15,"dur":1}'), "range"),
    "a time of too many digits": (text_of('{"ph":"X","name":"k","ts":1.00000000000000000001,"dur":1}'), "digits"),
    "an event without a time": (text_of('{"ph":"X","name":"k","dur":1}'), "without a time"),
    "a flow without a time": (text_of(f"{{{EVENT}}}", '{"ph":"s","cat":"fwdbwd","id":1}'), "flow"),
    "an allocation without a time": (text_of(f"{{{EVENT}}}", '{"ph":"i","name":"[memory]"}'), "allocation"),
    "an allocation beyond 64 bits": (
        text_of('{"ph":"i","name":"[memory]","ts":1,"args":{"Bytes":9223372036854775808}}'),
        "64 bits",
    ),
    "a category beyond ASCII": (text_of('{"ph":"X","cat":"\u212aernel","name":"k","ts":1,"dur":1}'), "ASCII"),
    "a negative zero": (text_of(f'{{{EVENT},"args":{{"est. achieved occupancy %":-0.0}}}}'), "negative zero"),
    "nesting without end": (text_of(f'{{{EVENT},"x":{"[" * 100}{"]" * 100}}}'), "JSON"),
    "no array": (b'{"traceEvents": 7}', "no events"),
    "two arrays": (b'{"traceEvents": [], "traceEvents": []}', "twice"),
}


@needs_library
@pytest.mark.parametrize("case", HANDED_OVER)
def test_what_is_odd_is_handed_over(case: str) -> None:
    text, words = HANDED_OVER[case]
    assert any(word in why(text) for word in words.split("|"))


TAKEN = {
    "white space everywhere": (b' \n{ "traceEvents" : [ ' + f"{{{EVENT}}}".encode() + b" \t,\r\n{ } ] } \n"),
    "a bare list": f"[{{{EVENT}}}]".encode(),
    "escapes in a name": text_of('{"ph":"X","name":"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fc\\ud83d\\ude00","ts":1,"dur":1}'),
    "text beyond ASCII": text_of('{"ph":"X","name":"ü€😀","pid":"µ","ts":1,"dur":1}'),
    "numbers as strings": text_of(f'{{{EVENT},"args":{{"bytes":"128","stream":"7"}}}}'),
    "handles of streams": text_of(*(f'{{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","ts":1,"dur":1,"args":{{"stream":"0x{handle}","correlation":7}}}}' for handle in ("0", "55d8564ba340", "FFFFFFFFFFFFFFFF"))),
    "a kernel on a stream without a number": text_of('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":"0x0"}}'),
    "ids of every type": text_of(*(f'{{"ph":"X","name":"k","pid":{p},"tid":{p},"ts":1,"dur":1}}' for p in ('1', '"1"', 'null', '-5'))),
    "unknown keys twice": text_of(f'{{{EVENT},"x":1,"x":2}}'),
    "exponents": text_of('{"ph":"X","name":"k","ts":1.5e3,"dur":25E-2}'),
    "digits beyond a double": text_of('{"ph":"X","name":"k","ts":1700000000123456.789,"dur":13904.236000000001}'),
    "a negative duration": text_of('{"ph":"X","name":"k","ts":1,"dur":-1}'),
    "categories of Warplens itself": text_of(f"{{{EVENT}}}", '{"ph":"X","cat":"warplens.x","name":"k","ts":1,"dur":1}'),
    "capitals": text_of('{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}'),
    "an empty name": text_of('{"ph":"X","name":"","ts":1,"dur":1}', '{"ph":"X","ts":1,"dur":1}'),
    "only begins and ends": text_of('{"ph":"B","name":"a","pid":1,"tid":1,"ts":1}', '{"ph":"E","pid":1,"tid":1,"ts":3}'),
    "an end without its begin": text_of(f"{{{EVENT}}}", '{"ph":"E","pid":1,"tid":1,"ts":3}'),
    "no timed event": text_of('{"ph":"M","name":"process_name","pid":1,"args":{"name":"x"}}'),
    "no event": text_of(),
    "what looks like a cut inside a name": text_of(f"{{{EVENT}}}", '{"ph":"X","name":"a}, {b","ts":1,"dur":1}'),
    "what looks like the array's end": text_of(f'{{{EVENT},"args":{{"x":[{{}}],"y":1}}}}', f"{{{EVENT}}}", tail=',"y":[{}]'),
    "more digits than Python converts": text_of(f'{{{EVENT},"x":"}}, {{","y":{"9" * 5000}}}', f"{{{EVENT}}}"),
    "a handle inside a value kept as written": text_of(f'{{{EVENT},"args":{{"stream":"0x1","grid":{{"stream":"0x2"}}}}}}'),
    "more bytes than characters before what looks like a cut": text_of(f'{{{EVENT},"x":"{"ü" * 200}","y":"}}, {{"}}', *(f'{{"ph":"X","cat":"{c}","name":"{c}","ts":1,"dur":1}}' for c in ("cpu_op", "kernel"))),
    "allocations in any phase but those of labels and flows": text_of(*(f'{{"ph":"{phase}","name":"[memory]","pid":1,"tid":1,"ts":{ts},"dur":1,"args":{{"Bytes":{ts}}}}}' for ts, phase in enumerate("iBECXMstfI"))),
    "allocations with less than all": text_of(f"{{{EVENT}}}", *(f'{{"ph":"i","name":"[memory]","ts":{ts}{more}}}' for ts, more in enumerate(("", ',"args":null', ',"args":{}', ',"args":{"Device Type":6}', ',"args":{"Device Id":-3,"Addr":0}', ',"args":{"Total Reserved":"7"}')))),
    "allocations by threads of every type": text_of(f"{{{EVENT}}}", *(f'{{"ph":"i","name":"[memory]","pid":{p},"tid":{t},"ts":5,"args":{{"Bytes":1,"Device Type":{t or 0}}}}}' for p in ('1', '"1"', '"ü"') for t in (0, 1, -900000000000000000, 9223372036854775807))),
    "an allocation whose name has escapes": text_of(f"{{{EVENT}}}", '{"ph":"i","name":"[\\u006demory]","ts":1,"args":{"Bytes":3}}', '{"ph":"i","name":"[memory]","ts":1,"args":{"Bytes":4}}', '{"ph":"i","name":"[\\u006d]","ts":1}'),
    "an allocation years before the rest": text_of(f"{{{EVENT}}}", '{"ph":"i","name":"[memory]","ts":-3.9e15,"args":{"Bytes":3}}', '{"ph":"i","name":"[memory]","ts":3.9e15}'),
    "arrows beside correlations": text_of(f'{{{EVENT},"args":{{"correlation":3}}}}', ARROW),
    "arrows without GPU work": text_of('{"ph":"X","cat":"cpu_op","name":"k","ts":1,"dur":1}', ARROW),
    "an array's name inside the header": b'{"x":"\\"traceEvents\\":[",' + text_of(f"{{{EVENT}}}")[1:],
}  # fmt: skip


@needs_library
@pytest.mark.parametrize("case", TAKEN)
@pytest.mark.parametrize("piece_bytes", [1, 1 << 17], ids=["pieces of an event", "one piece"])
def test_what_is_well_formed_reads_the_same(case: str, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pieces_of(piece_bytes, monkeypatch)
    for seed in range(6):  # chunks of other sizes
        assert verdict(TAKEN[case], Random(seed)) == SAME


@needs_library
def test_all_that_a_trace_can_hold_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collective: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 4, "Process Group Ranks": [0, 1]}
    wait = {"correlation": 5, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": 12}},
        op("aten::mm", 0, 20, **{"External id": 3, "Sequence number": 1, "Input Dims": [[1, 2], []]}),
        launch(2, 1, 1),
        kernel("gemm", 10, 5, 1),
        kernel("nccl", 20, 5, 2, **collective),
        memcpy(30, 5, bytes=128),
        memory(3, 512, 512, 1024),
        op("MmBackward0", 50, 5, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
        *fwdbwd((0, 1), (50, 2), 3),
        {
            "ph": "X",
            "cat": "cuda_sync",
            "name": "Stream Wait Event",
            "pid": 0,
            "tid": 7,
            "ts": 60,
            "dur": 1,
            "args": wait,
        },
        {"ph": "X", "cat": "python_function", "name": "nn.Module: A_0", "pid": 1, "tid": 1, "ts": 0, "dur": 60},
    ]
    text = write_trace(tmp_path / "t.json", events, deviceProperties=[{"id": 0, "name": "H200"}]).read_bytes()
    for piece_bytes in (1, 300, 1 << 17):
        with_pieces_of(piece_bytes, monkeypatch)
        assert verdict(text, Random(piece_bytes)) == SAME
    library = native_library.library()
    assert library is not None
    assert b'"cuda_sync"' in native.read_natively(library, (text,)).sync_text


@needs_library
def test_a_long_header_is_searched_in_linear_time() -> None:
    library = native_library.library()
    assert library is not None
    text = b" " * (4 << 20) + b'{"x":"' + b"y" * (4 << 20) + b'",' + text_of(f"{{{EVENT}}}")[1:]
    with ends("reading a long header", cpu_seconds=5):
        file = native.read_natively(library, (text[at : at + 4096] for at in range(0, len(text), 4096)))
    assert sum(file.events.phases.values()) == 1


SPACES = ("", " ", "\n      ")
RAW_VALUES = ("[]", "[[4, 512], [512, 1]]", "[[4, 512], [512, 2]]", '"x"', '"xy"', "12", "123", '[1, "cuda_sync"]')


def event_in_any_order(rng: Random) -> str:
    """Members and their white space as no profiler mixes them; each value begins another one."""
    space = rng.choice(SPACES)
    args = {
        "External id": str(rng.randrange(10 ** rng.randrange(1, 10))),
        "Ev Idx": str(rng.randrange(100)),
        "Input Dims": rng.choice(RAW_VALUES),
        "Input type": rng.choice(RAW_VALUES),
        rng.choice(("cuda_sync", "k" * 60, "note")): "0",
    }
    fields = {"ph": '"X"', "cat": '"cpu_op"', "name": rng.choice(('"a"', '"aten::mm"')), "ts": "1.5", "dur": "2"}
    fields["args"] = object_of(rng.sample(sorted(args.items()), rng.randrange(6)), space)
    return object_of(rng.sample(sorted(fields.items()), len(fields)), space)


def object_of(members: list[tuple[str, str]], space: str) -> str:
    return "{" + f",{space}".join(f'{space}"{key}"{space}:{space}{value}{space}' for key, value in members) + "}"


@needs_library
def test_what_came_before_does_not_change_what_is_read() -> None:
    rng = Random(3)
    for _ in range(30):
        assert verdict(text_of(*(event_in_any_order(rng) for _ in range(40))), rng) == SAME


@needs_library
def test_an_expected_key_is_still_refused_where_it_comes_twice() -> None:
    once = '{"ph":"X","name":"k","ts":1,"dur":2,"args":{"stream":7,"device":0}}'
    twice = once.replace('"device":0', '"device":0,"stream":7')
    assert why(text_of(once, once)) == ""
    for text in (text_of(once, once, twice), text_of(twice)):
        second = text.rindex(b'"stream"') - len(b'{"traceEvents":[')
        assert why(text) == f"a key twice, {second} bytes into the events"


@needs_library
def test_times_are_the_nanoseconds_that_numpy_makes_of_the_same_text() -> None:
    rng = Random(1)
    texts = [f"{rng.uniform(0, 10 ** rng.randrange(1, 16)):.{rng.randrange(0, 5)}f}" for _ in range(2000)]
    texts += [repr(rng.uniform(-1e6, 1e13)) for _ in range(2000)]
    texts += [f"{rng.randrange(10**15)}.{rng.randrange(1000):03}" for _ in range(2000)]
    library = native_library.library()
    assert library is not None
    text = text_of(*(f'{{"ph":"X","name":"k","ts":{number},"dur":0}}' for number in texts))
    starts = native.read_natively(library, (text,)).events.builder.gathered().start_ns
    assert starts.tolist() == to_ns(np.array([float(number) for number in texts])).ns.tolist()


@needs_library
def test_a_sample_is_read_without_the_python_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {path: warplens.open(path, cache=False).trace for path in SAMPLES}
    monkeypatch.setattr("warplens.readers.kineto.reader.read", lambda *_, **__: pytest.fail("read by Python"))
    for path, trace in expected.items():
        assert differences(warplens.open(path, cache=False).trace, trace) == []
    split = tmp_path / "empty_member_first.json.gz"
    split.write_bytes(gzip.compress(b"") + SAMPLES[0].read_bytes())
    assert differences(warplens.open(split, cache=False).trace, expected[SAMPLES[0]]) == []


def test_switched_off_or_absent_python_reads_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = warplens.open(SAMPLES[0], cache=False).trace
    monkeypatch.setenv("WARPLENS_NATIVE", "0")
    assert native_library.reader_name() == "Python reader"
    assert differences(first, warplens.open(SAMPLES[0], cache=False).trace) == []
    monkeypatch.delenv("WARPLENS_NATIVE")
    broken = tmp_path / "libwarplens_native.so"
    for path in (tmp_path / "absent.so", broken):
        broken.write_bytes(b"not a library")
        monkeypatch.setattr(native_library, "LIBRARY", path)
        assert native_library.library() is None
        assert differences(first, warplens.open(SAMPLES[0], cache=False).trace) == []


def chunks_of(path: Path, content: bytes) -> Iterator[bytes]:
    path.write_bytes(content)
    return stored_file.load(path).chunks()


def test_chunks_are_the_unpacked_content(tmp_path: Path) -> None:
    text = os.urandom(100_000) + bytes(3_000_000)
    packed = gzip.compress(text[:50]) + gzip.compress(text[50:]) + bytes(20)
    empty_first = gzip.compress(b"") + gzip.compress(text)
    for content in (text, gzip.compress(text), packed, empty_first):
        assert b"".join(chunks_of(tmp_path / "file", content)) == text


def test_chunks_of_a_damaged_archive_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(200_000))
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 255
    for content in (packed[:-1], packed[: len(packed) // 2], packed + b"x", bytes(flipped), gzip.compress(b"")):
        with pytest.raises(NotWholeError):
            b"".join(chunks_of(tmp_path / "file", content))


@needs_library
def test_a_damaged_archive_reads_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(SAMPLES[0].read_bytes()[:-3000])
    assert warplens.open(path, cache=False).trace.quality.has("truncated")


@needs_library
def test_an_event_of_many_chunks_takes_time_by_its_size(tmp_path: Path) -> None:
    """An event is tried again only when twice as much of it is there: else 4,000 chunks would be 16 million tries."""
    text = text_of(f'{{{EVENT},"x":"{"y" * 4_000_000}"}}')
    library = native_library.library()
    assert library is not None
    chunks = (text[at : at + 1000] for at in range(0, len(text), 1000))
    assert len(native.read_natively(library, chunks).events.builder) == 1


@needs_library
def test_white_space_between_events_is_not_kept() -> None:
    library = native_library.library()
    assert library is not None
    before = peak_kilobytes()
    head, tail = text_of(f"{{{EVENT}}},{{{EVENT}}}").split(b",{", 1)
    chunks = (head + b",", *[b" " * (1 << 20)] * 200, b"{" + tail)
    assert len(native.read_natively(library, chunks).events.builder) == 2
    assert peak_kilobytes() - before < 100_000


def peak_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@needs_library
def test_memory_of_the_columns_outlives_the_reader() -> None:
    library = native_library.library()
    assert library is not None
    builder = native.read_natively(library, (text_of(*[f"{{{EVENT}}}"] * 1000),)).events.builder
    names = [native.read_natively(library, (text_of(*[f"{{{EVENT}}}"] * 1000),)) for _ in range(20)]
    assert len(names) == 20
    assert builder.gathered().start_ns.tolist() == [1500] * 1000


def test_a_zip_archive_is_taken_too(tmp_path: Path) -> None:
    from mutations import zip_of

    path = tmp_path / "trace.zip"
    path.write_bytes(zip_of(text_of(f"{{{EVENT}}}")))
    assert b"".join(StoredFile(path, path.read_bytes()).chunks()) == text_of(f"{{{EVENT}}}")
    assert len(warplens.open(path, cache=False).trace) == 1


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_install_goes_on_without_a_compiler(tmp_path: Path) -> None:
    """And with one, the library is there: the same command, with and without a compiler on the path."""
    if find_spec("setuptools") is None:  # importing it fails where a test before has imported Python's distutils
        pytest.skip("no setuptools")
    for place in ("native", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / place
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / place)
    setup = (tmp_path / "setup.py").read_text()
    assert '"-O2"' in setup
    (tmp_path / "setup.py").write_text(setup.replace('"-O2"', '"-O0"'))  # nothing is read with it
    package = tmp_path / "src" / "warplens"
    package.mkdir(parents=True)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    without = {**os.environ, "PATH": "", "CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}
    assert subprocess.run(command, cwd=tmp_path, env=without, capture_output=True).returncode == 0
    assert not list(package.glob("*.so"))
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    assert [path.name for path in package.glob("*.so")] == [native_library.LIBRARY.name]
    assert json.loads('"built"')
