"""Runs `kernel trace` and `kernel check` on other projects' kernels and writes a table of how it went.

    python tests/run_kernels_of_the_world.py --checkouts DIR -o world.json -o world.md [--only Liger-Kernel/rms_norm]

DIR holds a checkout of each project under its name, at the commit of tests/kernels_of_the_world.toml; projects that are
absent are skipped, and nothing is fetched. What their packages need is found on PYTHONPATH. Every command runs in a
process of its own with a time limit; an existing world.json is continued.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warm_python import WarmSubprocess
from world_list import WorldKernel, world_kernels

LOADED = ("torch", "triton", "polars")
TARGETS = ("sm90", "sm100", "gfx942")
WORKS = "works"
REFUSALS = ("do not run in Triton's interpreter", "not run by Triton's interpreter", "No module named", "needs a GPU")
INTENDED = ("integer_overflow",)
"""Faults that are only notes."""


@dataclass(frozen=True)
class Row:
    """How one kernel went. `result` says whether the traced result equals the reference."""

    project: str
    kernel: str
    case: str
    trace: str
    result: str
    faults: int
    check: dict[str, str]
    seconds: float

    @property
    def checks(self) -> bool:
        return all(self.check.get(target) == WORKS for target in TARGETS)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    outputs = [Path(path) for path in options.output]
    kept = [path for path in outputs if path.suffix == ".json"]
    rows = [Row(**row) for path in kept if path.exists() for row in json.loads(path.read_text())]
    by_run: dict[tuple[str, str], list[WorldKernel]] = {}
    for kernel in world_kernels():
        by_run.setdefault(kernel.run, []).append(kernel)
    for run, kernels in by_run.items():
        name = "/".join(run)
        if not (Path(options.checkouts) / run[0]).is_dir():
            print(f"{name}: skipped, no checkout")
            continue
        if options.only and not any(name.startswith(only) for only in options.only):
            continue
        if not options.only and any((row.project, row.case) == run for row in rows):
            continue
        new = _run(kernels, Path(options.checkouts).resolve(), options.seconds, checks=not options.trace_only)
        for row in new:
            print(f"{name} {row.kernel}: trace {row.trace}, {row.faults} faults; check {row.check}; {row.seconds} s")
        rows = [row for row in rows if (row.project, row.case) != run] + new
        for path in outputs:
            path.write_text(_json(rows) if path.suffix == ".json" else markdown(rows))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", required=True, metavar="DIR")
    parser.add_argument("-o", dest="output", action="append", default=[], metavar="FILE", help="x.json or x.md")
    parser.add_argument("--only", action="append", default=[], metavar="PROJECT[/CASE]")
    parser.add_argument("--trace-only", action="store_true", help="omit kernel check")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of a command (default 300)")
    return parser.parse_args(arguments)


def _run(kernels: list[WorldKernel], checkouts: Path, seconds: float, *, checks: bool) -> list[Row]:
    first = kernels[0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warplens-world-") as folder:
        trace, launched, faults = traced(first, checkouts, Path(folder) / "tables", seconds)
        compiled = checked(first, checkouts, seconds) if checks else "not run"
    spent = round(time.monotonic() - started, 1)
    result = "equal" if trace == WORKS else "differs" if "not close" in trace else "not reached"
    rows = []
    for kernel in kernels:
        status = WORKS if kernel.kernel in launched and trace == WORKS else trace
        if status == WORKS and kernel.kernel not in launched:
            status = f"failed: not launched; launched: {', '.join(sorted(launched))}"
        of_targets = compiled if isinstance(compiled, str) else compiled.get(kernel.kernel, "failed: not compiled")
        check = dict.fromkeys(TARGETS, of_targets) if isinstance(of_targets, str) else of_targets
        of_kernel = faults.get(kernel.kernel, 0)
        rows.append(Row(kernel.project, kernel.kernel, kernel.case, status, result, of_kernel, check, spent))
    return rows


def command(kernel: WorldKernel, verb: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "warplens", "kernel", verb, *options, str(kernel.driver), kernel.case]


def environment(kernel: WorldKernel, checkouts: Path) -> dict[str, str]:
    paths = [str(checkouts / kernel.project / part) for part in kernel.python_path]
    path = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **kernel.environment, "PYTHONPATH": path, "WARPLENS_WORLD": str(checkouts)}


def traced(kernel: WorldKernel, checkouts: Path, tables: Path, seconds: float) -> tuple[str, set[str], dict[str, int]]:
    """How the trace went, the kernels that were launched, and their faults."""
    options = ["--json", "--target", kernel.target, "-o", f"{tables}/"]
    done = _done(command(kernel, "trace", *options), environment(kernel, checkouts), seconds)
    launched = {str(row["kernel"]) for row in _rows(done.stdout)}
    faults: dict[str, int] = {}
    for row in _table(tables / "kernel_faults.csv"):
        if row.get("kind", row.get("fault")) not in INTENDED:
            faults[row["kernel"]] = faults.get(row["kernel"], 0) + 1
    failure = _failure(done)
    # Status 1 without a failure of the script says that there are faults.
    return (_reason(failure) if failure else WORKS), launched, faults


def checked(kernel: WorldKernel, checkouts: Path, seconds: float) -> str | dict[str, dict[str, str]]:
    """By kernel and target how compiling went; a text where the script did not run to its end."""
    targets = sorted(TARGETS, key=lambda target: target != kernel.target)
    options = ["--json", "--target", ",".join(targets)]
    done = _done(command(kernel, "check", *options), environment(kernel, checkouts), seconds)
    found: dict[str, dict[str, str]] = {}
    for row in _rows(done.stdout):
        failure = row["facts"]["failure"]
        status = f"failed: {' '.join(str(failure).split())[:160]}" if failure else WORKS
        of_kernel = found.setdefault(str(row["kernel"]), {})
        if of_kernel.get(row["target"], WORKS) == WORKS:
            of_kernel[row["target"]] = status
    failure = _failure(done)
    return _reason(failure) if failure else found


def _done(words: list[str], variables: dict[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = WarmSubprocess(LOADED).Popen(
            words, env=variables, stdout=output.fileno(), stderr=errors, start_new_session=True
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return subprocess.CompletedProcess(words, 124, "", f"error: more than {seconds:.0f} s")
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, status, output.read(), errors.read())


def _rows(text: str) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(text)
    except ValueError:
        return []
    return rows


def _table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    """What the command says of a script that failed, or of itself; empty where neither did."""
    lines = done.stderr.splitlines()
    for at, line in enumerate(lines):
        if "the script failed" in line or "error: " in line.partition(" ")[2] or line.startswith("error"):
            return " ".join(part.strip() for part in lines[at:])
    return "" if done.returncode in (0, 1) else f"status {done.returncode}: {' '.join(lines[-2:])}"


def _reason(failure: str) -> str:
    kind = "refused" if any(text in failure for text in REFUSALS) else "failed"
    return f"{kind}: {failure[:300]}"


def _json(rows: list[Row]) -> str:
    return json.dumps([asdict(row) for row in rows], indent=1) + "\n"


def markdown(rows: list[Row]) -> str:
    """Counts per project, then what does not work."""
    lines = ["| project | kernels | trace | check | results equal | faults |", "|---|---:|---:|---:|---:|---:|"]
    for project in (*dict.fromkeys(row.project for row in rows), ""):
        own = [row for row in rows if project in ("", row.project)]
        counts = [
            len(own),
            sum(row.trace == WORKS for row in own),
            sum(row.checks for row in own),
            sum(row.result == "equal" for row in own),
            sum(row.faults for row in own),
        ]
        lines.append(f"| {' | '.join([project or 'all', *map(str, counts)])} |")
    for row in rows:
        checks = {target: status for target, status in row.check.items() if status != WORKS}
        if row.trace != WORKS or checks or row.faults:
            lines.append(f"\n- {row.project}, `{row.kernel}` ({row.case}): trace {row.trace}; {row.faults} faults")
            lines += [f"  - {target}: {status}" for target, status in checks.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
