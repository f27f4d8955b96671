"""`warplens sql` as a command: a query that does not end, or ends the process, is one line."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support import HANG_SECONDS, ROOT, SAMPLES, RunInside, nightly_after, run_python

TRACE = str(next(path for path in SAMPLES if path.name == "cudagraph_infer.json.gz"))
GROWING = "select count" + " between 1 and 2" * 30 + " from kernels"
"""Polars doubles the expression with each BETWEEN, while it holds the interpreter."""
DYING = """
import os, signal, sys
import warplens.profiles.sql
from warplens.cli import entry
warplens.profiles.sql.run_query = lambda *_: os.kill(os.getpid(), signal.{})
sys.argv = ["warplens", "sql", {!r}, "select 1"]
entry()
"""


def warplens_sql(
    query: str, *more: str, trace: str = TRACE, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "warplens", "sql", trace, query, *more]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=HANG_SECONDS)


def test_a_query_that_does_not_return_ends_with_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    finished = warplens_sql(GROWING, "--timeout", "0.2", trace="-", stdin=Path(TRACE).read_bytes())
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert finished.stderr.decode().splitlines()[0] == "error: SQL: no answer after 0.2 s"
    assert "--timeout" in finished.stderr.decode()
    assert list(tmp_path.iterdir()) == []  # the copy of stdin


@pytest.mark.parametrize("number", nightly_after(2, ["SIGSEGV", "SIGKILL", "SIGABRT", "SIGBUS"]))
def test_a_query_that_ends_its_process_is_one_line(number: str) -> None:
    program = DYING.format(number, TRACE)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert (finished.returncode, finished.stdout) == (1, "")
    reason = "ended by the system" if number == "SIGKILL" else number
    assert finished.stderr.startswith("error: SQL: ")
    assert reason in finished.stderr.splitlines()[0]


@pytest.mark.parametrize(("query", "code"), [("select 1 as a", 0), ("select nothing from kernels", 2), ("drop x", 2)])
def test_the_exit_code_of_a_query_is_that_of_the_command(query: str, code: int) -> None:
    command = ["-m", "warplens", "sql", TRACE, query, "--csv", "--timeout", "0"]
    finished = run_python(command, ROOT)
    assert finished.returncode == code
    assert finished.stdout == ("" if code else "a\n1\n")


def test_a_query_that_needs_more_memory_than_there_is_is_one_line() -> None:
    query = "select * from events a cross join events b order by 1"
    limited = f"ulimit -v 2000000; exec {shlex.quote(sys.executable)} -m warplens sql {TRACE} {shlex.quote(query)}"
    finished = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert finished.returncode == 1
    first, *rest = finished.stderr.splitlines()
    assert first in ("error: SQL: not enough memory for the query", "error: not enough memory")
    assert [line for line in rest if line and not line.startswith("hint: ")] == []


@pytest.mark.parametrize("threads", ["0", "x", "-1", "9" * 5000])
@pytest.mark.parametrize("verb", ["sql", "report"])
def test_a_number_of_threads_that_is_none_is_one_line(run_inside: RunInside, verb: str, threads: str) -> None:
    finished = run_inside(verb, TRACE, *["select 1"][: verb == "sql"], POLARS_MAX_THREADS=threads)
    assert finished.returncode == 2
    assert finished.stderr == f"error: POLARS_MAX_THREADS is {threads[:80]!r}, not a whole number from 1 to 1024\n"
