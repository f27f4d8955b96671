"""The recorder of jobs over several ranks: two gloo ranks end to end, and failures that do not end the other jobs."""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

from support import ROOT
from warm_python import OPTIMIZER, WarmSubprocess

SCRIPT = ROOT / "benchmarks" / "gpu_ranks.py"
FAKE_WORKER = """
import json, os, pathlib, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
out = pathlib.Path(arguments["--out"])
def write(name, value):
    (out / (name + ".part")).write_text(json.dumps(value))
    (out / (name + ".part")).rename(out / (name + ".json"))
if os.environ["RANK"] == "0":
    write("ready", {"torch": "2.11"})
arrived = out / "rank 0 is at the broken job"
for job in arguments["--jobs"].split(","):
    if job == "broken" and os.environ["RANK"] == "1":
        # Ranks meet in collectives: none is ahead of another by a job.
        while not arrived.exists():
            time.sleep(0.01)
        sys.exit("no such expert")
    if job == "broken":
        arrived.touch()
        time.sleep(60)
    if os.environ["RANK"] == "0":
        write(job + ".result", {"ranks": 2, "seconds": 0.1, "status": "ok"})
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("gpu_ranks", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_ranks", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpu_ranks(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module whose worker is a program that only writes results."""
    (tmp_path / "rank_worker.py").write_text(FAKE_WORKER)
    monkeypatch.setattr(script, "__file__", str(tmp_path / "gpu_ranks.py"))
    return script


def test_jobs_after_a_failed_one_run_in_new_processes(gpu_ranks: ModuleType, tmp_path: Path) -> None:
    options = argparse.Namespace(out=tmp_path, device="cpu", tiny=False, job_s=30.0)
    truth: dict[str, Any] = {"jobs": {}}
    gpu_ranks.run_set(options, ["first", "broken", "last"], 2, truth, time.monotonic() + 60)
    statuses = {name: job["status"] for name, job in truth["jobs"].items()}
    assert statuses == {"first": "ok", "broken": "failed: rank 1 ended with 1", "last": "ok"}
    assert "rank 1: no such expert" in (tmp_path / "failures.txt").read_text()


def test_no_job_starts_after_the_budget(gpu_ranks: ModuleType, tmp_path: Path) -> None:
    options = argparse.Namespace(out=tmp_path, device="cpu", tiny=False, job_s=30.0)
    truth: dict[str, Any] = {"jobs": {}}
    gpu_ranks.run_set(options, ["first"], 2, truth, time.monotonic() - 1)
    assert truth["jobs"] == {"first": {"ranks": 2, "status": "skipped: time budget"}}


def test_tars_keep_a_jobs_ranks_together_and_below_the_limit(
    gpu_ranks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_ranks, "PART_BYTES", 30_000)
    for name in ("one", "two"):
        for rank in range(2):
            (tmp_path / f"{name}.rank{rank}.json.gz").write_bytes(b"x" * 9_000)
    parts = gpu_ranks.pack(tmp_path, ["one", "two"])
    contents = []
    for part in parts:
        with tarfile.open(part) as tar:
            contents.append(tar.getnames())
    assert contents == [[f"{name}/{name}.rank{rank}.json.gz" for rank in range(2)] for name in ("one", "two")]
    assert all(part.stat().st_size <= 30_000 for part in parts)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_job_of_two_ranks_is_recorded_with_its_truth(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_warm(command: list[str], variables: dict[str, str], out: IO[bytes]) -> Any:
        """As `start_rank`, which other tests here use, in a process that need not load PyTorch anew."""
        ranks, log = WarmSubprocess(OPTIMIZER), out.fileno()
        return ranks.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)

    monkeypatch.setattr(script, "start_rank", start_warm)
    words = [
        "--out",
        str(tmp_path),
        "--device",
        "cpu",
        "--tiny",
        "--ranks",
        "2",
        "--only",
        "ddp4_host",
        "--job-s",
        "60",
    ]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    assert script.main() == 0
    job = json.loads((tmp_path / "truth.json").read_text())["jobs"]["ddp4_host"]
    assert (job["fault"], job["rank"], job["since_step"], job["cause"]) == ("host", 1, 7, "host")
    assert job["plain"]["with_ms"] > 0 and job["plain"]["without_ms"] > 0
    traces = [json.loads(gzip.decompress((tmp_path / name).read_bytes())) for name in job["files"]]
    assert [trace["distributedInfo"]["rank"] for trace in traces] == [0, 1]
    assert [_steps(trace, "ProfilerStep#") for trace in traces] == [job["recorded_steps"]] * 2
    assert [_steps(trace, "hold_host") for trace in traces] == [[], [7, 8, 9, 10]]


def _steps(trace: dict[str, Any], name: str) -> list[int]:
    """The numbers of the steps in which an event with this name begins."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    marks = [event for event in events if event["name"].startswith("ProfilerStep#")]
    begun = [event["ts"] for event in events if name in event["name"]]
    return sorted(
        int(mark["name"].partition("#")[2])
        for mark in marks
        if any(mark["ts"] <= start < mark["ts"] + mark["dur"] for start in begun)
    )
