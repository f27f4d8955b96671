"""Bad input on the command line: one `error:` line, the right exit code, and nothing half-written."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from damage import text_of, work
from mutations import zip_of
from support import HANG_SECONDS, ROOT, RunInside
from warplens.cli import main
from warplens.profiles.trace import TABLE_NAMES
from warplens_run.cli.printing import command_line

SOUND = text_of(work())
NOT_ROOT = 65534


def run(*args: str | bytes | Path, **options: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warplens", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, cwd=ROOT, errors="replace", **options
    )


def assert_one_error_line(finished: subprocess.CompletedProcess[str], exit_code: int, *words: str) -> None:
    """`error: …`, perhaps a blank line and a hint; nothing on stdout, and nothing a terminal would obey."""
    error, *rest = finished.stderr.splitlines()
    assert finished.returncode == exit_code, finished.stderr
    assert error.startswith("error: ")
    for word in words:
        assert word in error
    assert rest == [] or (len(rest) == 2 and rest[0] == "" and rest[1].startswith("hint: ")), finished.stderr
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr
    assert "\x1b" not in finished.stderr


BAD_FILES = {
    "empty": (b"", "is empty"),
    "text": (b"step 1: loss 0.3\n", "text, but not JSON"),
    "binary": (bytes(range(255, 0, -1)), "binary data"),
    "JSON of another kind": (b'{"schemaVersion": 1}', "no traceEvents"),
    "no events": (text_of([]), "no trace events in the file"),
    "cut within the first event": (SOUND[:40], "damaged before the first complete event"),
    "gzip cut early": (gzip.compress(SOUND)[:12], "gzip file without readable content"),
    "zip cut": (zip_of(SOUND)[:-30], "damaged zip archive"),
    "only times that are no numbers": (SOUND.replace(b'"ts": ', b'"ts": NaN, "was": '), "no event has a usable time"),
}


@pytest.mark.parametrize("content, reason", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_gives_one_line_and_leaves_no_output_behind(
    run_inside: RunInside, tmp_path: Path, content: bytes, reason: str
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(content)
    outputs = [f"{tmp_path}/out/", f"{tmp_path}/deep/er/report.xlsx", f"{tmp_path}/report.json"]
    finished = run_inside("report", trace, *(part for path in outputs for part in ("-o", path)))
    assert_one_error_line(finished, 1, str(trace), reason)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize(
    "verb", [("show", "kernels"), ("tree",), ("sql", "select 1"), ("report", "--json")], ids=lambda verb: verb[0]
)
def test_every_verb_refuses_a_bad_file_alike(run_inside: RunInside, tmp_path: Path, verb: tuple[str, ...]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(SOUND[:40])
    assert_one_error_line(
        run_inside(verb[0], trace, *verb[1:]), 1, str(trace), "damaged before the first complete event"
    )


def test_an_output_that_was_there_survives_a_bad_file(run_inside: RunInside, tmp_path: Path) -> None:
    trace, before = tmp_path / "trace.json", tmp_path / "report.md"
    trace.write_bytes(b"[")
    before.write_text("last week's report")
    assert_one_error_line(run_inside("report", trace, "-o", before, "--force"), 1, "no trace events in the file")
    assert before.read_text() == "last week's report"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "trace.json"]


def test_an_empty_directory_is_refused(run_inside: RunInside, tmp_path: Path) -> None:
    assert_one_error_line(run_inside("report", tmp_path), 2, str(tmp_path), "is empty")


@pytest.mark.parametrize("name", ["missing.json", "mis\nsing\x1b[31m.json", "a" * 5000], ids=["plain", "odd", "long"])
def test_a_file_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    assert_one_error_line(run("report", tmp_path / name), 1)


TOO_LONG = "a" * 5000
NO_NAMES = [
    ("diff", TOO_LONG, TOO_LONG),
    ("report", TOO_LONG, TOO_LONG),
    ("replay", "run", TOO_LONG),
    ("kernel", "check", TOO_LONG),
    ("kernel", "trace", TOO_LONG),
    ("kernel", "puzzles", "check", TOO_LONG),
]


@pytest.mark.parametrize("words", NO_NAMES, ids=lambda words: " ".join(word[:8] for word in words))
def test_a_name_that_no_file_can_have_is_one_line(words: tuple[str, ...], run_inside: RunInside) -> None:
    assert_one_error_line(run_inside(*words), 1, "File name too long")


NO_NUMBERS = [
    ("kernel", "layout", "float[²]"),
    ("kernel", "layout", f"float[{'9' * 5000}]"),
    ("kernel", "layout", "9" * 5000),
    ("kernel", "layout", "float[32][32]", "--access", "tile[k][0]", "--set", "k=²"),
    ("kernel", "layout", "float[32][32]", "--access", "tile[0][0]", "--block", "²"),
    ("kernel", "trace", "x.py", "--pdb", "²"),
]


@pytest.mark.parametrize("words", NO_NUMBERS, ids=lambda words: " ".join(word[:8] for word in words))
def test_a_number_that_is_none_is_one_line(words: tuple[str, ...], run_inside: RunInside) -> None:
    assert_one_error_line(run_inside(*words), 2)


def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(SOUND)
    trace.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    try:  # nothing is forbidden to root, who has to be someone else here
        finished = run("report", trace, **({} if os.geteuid() else {"user": NOT_ROOT, "group": NOT_ROOT}))
    except PermissionError:
        pytest.skip("run by root, with a Python that is for root alone")
    assert_one_error_line(finished, 1, str(trace), "no permission to read it")


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "no_such_table"),
        ("report", "-o", "report.pdf"),
        ("report", "--gap", "soon"),
        ("show", "kernels", "--where", "1+"),
        ("report", "--gpu", "\udcff"),
        ("show", "kernels", "--where", "\udcff"),
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_a_request_that_makes_no_sense_is_a_usage_error(
    run_inside: RunInside, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(SOUND)
    assert_one_error_line(run_inside(arguments[0], trace, *arguments[1:]), 2)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


DAMAGED_FILES = {
    "cut": (SOUND[:-50], "the file ends early"),
    "gzip cut": (gzip.compress(SOUND + b" " * 5000)[:-12], "the file ends early"),
    "not UTF-8": (SOUND.replace(b"relu", b"re\xff\x9blu"), "invalid UTF-8 was replaced"),
    "not finite": (SOUND.replace(b'"dur": 10,', b'"dur": Infinity,'), "1 event with impossible times"),
    "escape codes": (SOUND.replace(b"relu", b"re\\u001b[31m\x1b]0;title\x07lu"), "verdict"),
}


@pytest.mark.parametrize("content, note", DAMAGED_FILES.values(), ids=DAMAGED_FILES)
def test_a_damaged_file_is_reported_with_its_note_first_and_written_whole(
    tmp_path: Path, content: bytes, note: str
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(content)
    finished = run(
        "report", trace, "-o", f"{tmp_path}/out/", "-o", tmp_path / "report.xlsx", "-o", tmp_path / "report.md"
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert note in "\n".join(finished.stdout.splitlines()[:4])
    assert "\x1b" not in finished.stdout
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(TABLE_NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "report.md", "report.xlsx", "trace.json"]


def test_a_file_name_that_is_not_text_is_no_obstacle(tmp_path: Path) -> None:
    trace = os.fsencode(tmp_path) + b"/tra\xffce.json"
    Path(os.fsdecode(trace)).write_bytes(SOUND)
    for _ in ("read", "from the cache"):
        finished = run("report", trace, "-o", tmp_path / "report.json", "--force")
        assert (finished.returncode, finished.stderr) == (0, "")


PANIC, NO_MEMORY = pl.exceptions.PanicException("boom"), MemoryError()


@pytest.mark.parametrize(
    "place, failure, words",
    [
        ("warplens.readers.registry.read_stored", PANIC, "internal error of Polars"),
        ("warplens.profiles.trace.Profile.table", PANIC, "internal error of Polars: boom"),
        ("warplens.readers.registry.read_stored", NO_MEMORY, "not enough memory"),
    ],
    ids=["panic while reading", "panic in a table", "memory"],
)
def test_what_is_no_ordinary_exception_still_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    failure: BaseException,
    words: str,
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise failure

    monkeypatch.setattr(place, fail)
    trace = tmp_path / "trace.json"
    trace.write_bytes(SOUND)
    assert main(["report", str(trace), "--no-cache"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert captured.out == ""


def test_a_command_with_bytes_that_are_not_text_can_be_written_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["warplens", "gantt", "\udcff.json"])
    assert command_line().encode() == b"warplens gantt '?.json'"
