"""Runs `kernel trace` and `kernel check` on other projects' kernels and writes a table of how it went.

    python tests/run_kernels_of_the_world.py --checkouts DIR -o world.json -o world.md [--only Liger-Kernel/rms_norm]

DIR holds a checkout of each project under its name, at the commit of tests/kernels_of_the_world.toml; projects that are
absent are skipped, and nothing is fetched. What their packages need is found on PYTHONPATH. Every command runs in a
process of its own with a time limit; an existing world.json is continued.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import warplens
from warm_python import WarmSubprocess
from world_list import WorldKernel, world_kernels

LOADED = ("torch", "triton", "polars")
TARGETS = ("sm90", "sm100", "gfx942")
WORKS = "works"
NOT_RUN = "not run"
REFUSALS = (
    "do not run in Triton's interpreter",
    "not run by Triton's interpreter",
    "No module named",
    "needs a GPU",
    "Block pointers have been removed",
    "unexpected keyword argument 'trans_b'",
)


@dataclass(frozen=True)
class Row:
    """How one kernel went. `result` says whether the traced result equals the reference."""

    project: str
    kernel: str
    case: str
    trace: str
    result: str
    faults: list[str]
    """Kind and line of each; notes, which may be intended, are counted apart."""
    notes: int
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
        name, before = "/".join(run), [row for row in rows if (row.project, row.case) == run]
        if not (Path(options.checkouts) / run[0]).is_dir():
            print(f"{name}: skipped, no checkout")
            continue
        if options.only and not any(name.startswith(only) for only in options.only):
            continue
        if not options.only and before and (not options.check_only or NOT_RUN not in before[0].check.values()):
            continue
        new = _run(kernels, before, options)
        for row in new:
            print(f"{name} {row.kernel}: trace {row.trace}, {row.faults or 'no'} faults; check {row.check}", flush=True)
        rows = [row for row in rows if row not in before] + new
        for path in outputs:
            path.write_text(_json(rows) if path.suffix == ".json" else markdown(rows))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", required=True, metavar="DIR")
    parser.add_argument("-o", dest="output", action="append", default=[], metavar="FILE", help="x.json or x.md")
    parser.add_argument("--only", action="append", default=[], metavar="PROJECT[/CASE]")
    parser.add_argument("--trace-only", action="store_true", help="omit kernel check")
    parser.add_argument("--check-only", action="store_true", help="keep what the JSON file has of kernel trace")
    parser.add_argument("--quick", action="store_true",
                        help="kernel check without compiling its suggestions, in processes with PyTorch loaded")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of a command (default 300)")
    return parser.parse_args(arguments)


def _run(kernels: list[WorldKernel], before: list[Row], options: argparse.Namespace) -> list[Row]:
    first, checkouts = kernels[0], Path(options.checkouts).resolve()
    started = time.monotonic()
    rows = before
    if not options.check_only or not before:
        with tempfile.TemporaryDirectory(prefix="warplens-world-") as folder:
            rows = _traced_rows(kernels, *traced(first, checkouts, Path(folder) / "tables", options.seconds))
    if options.trace_only:
        return rows
    check = checked_quickly if options.quick else checked
    compiled = check(first, checkouts, options.seconds)
    spent = round(time.monotonic() - started, 1)
    done = []
    for row in rows:
        of_targets = compiled if isinstance(compiled, str) else compiled.get(row.kernel, "failed: not compiled")
        by_target = dict.fromkeys(TARGETS, of_targets) if isinstance(of_targets, str) else of_targets
        done.append(replace(row, check=by_target, seconds=spent))
    return done


def _traced_rows(kernels: list[WorldKernel], trace: str, launched: set[str], found: list[dict[str, str]]) -> list[Row]:
    result = "equal" if trace == WORKS else "differs" if "not close" in trace else "not reached"
    rows = []
    for kernel in kernels:
        is_absent = trace == WORKS and kernel.kernel not in launched
        status = f"failed: not launched; launched: {', '.join(sorted(launched))}" if is_absent else trace
        own = [row for row in found if row["kernel"] == kernel.kernel]
        faults = [f"{row['fault']} {row['line']}" for row in own if not _is_note(row)]
        check = dict.fromkeys(TARGETS, NOT_RUN)
        rows.append(
            Row(kernel.project, kernel.kernel, kernel.case, status, result, faults, len(own) - len(faults), check, 0.0)
        )
    return rows


def command(kernel: WorldKernel, verb: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "warplens", "kernel", verb, *options, str(kernel.driver), kernel.case]


def environment(kernel: WorldKernel, checkouts: Path) -> dict[str, str]:
    own = str(Path(warplens.__file__).parents[1])
    paths = [own, *(str(checkouts / kernel.project / part) for part in kernel.python_path)]
    path = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **kernel.environment, "PYTHONPATH": path, "WARPLENS_WORLD": str(checkouts)}


def traced(
    kernel: WorldKernel, checkouts: Path, tables: Path, seconds: float
) -> tuple[str, set[str], list[dict[str, str]]]:
    """How the trace went, the kernels that were launched, and the rows of their faults."""
    options = ["--json", "--target", kernel.target, "-o", f"{tables}/"]
    done = _done(command(kernel, "trace", *options), environment(kernel, checkouts), seconds)
    launched = {str(row["kernel"]) for row in _rows(done.stdout)}
    failure = _failure(done)
    # Status 1 without a failure of the script says that there are faults.
    return (_reason(failure) if failure else WORKS), launched, _table(tables / "kernel_faults.csv")


def _is_note(row: dict[str, str]) -> bool:
    return row["may_be_intended"].lower() == "true"


def checked(kernel: WorldKernel, checkouts: Path, seconds: float) -> str | dict[str, dict[str, str]]:
    """By kernel and target how compiling went; a text where the script did not run to its end."""
    targets = sorted(TARGETS, key=lambda target: target != kernel.target)
    options = ["--json", "--target", ",".join(targets)]
    done = _done(command(kernel, "check", *options), environment(kernel, checkouts), seconds)
    failure = _failure(done)
    if failure:
        return _reason(failure)
    return _by_kernel((row["kernel"], row["target"], row["facts"]["failure"]) for row in _rows(done.stdout))


def checked_quickly(kernel: WorldKernel, checkouts: Path, seconds: float) -> str | dict[str, dict[str, str]]:
    """As `checked`, from here: the script and the compiler run in processes that have loaded PyTorch already."""
    from warplens_lab.checking.checks import checks as checking
    from warplens_lab.compiling.request import CompileRequest
    from warplens_run.base.errors import WarplensError
    from warplens_run.processes import child

    checking.SLOW_SECONDS = 0.0  # type: ignore[misc]  # no suggestion is compiled
    child.subprocess = WarmSubprocess(LOADED, ("warplens_lab.compiling.",))  # type: ignore[assignment]
    targets = sorted(TARGETS, key=lambda target: target != kernel.target)
    before = dict(os.environ)
    os.environ.update(environment(kernel, checkouts))
    try:
        request = CompileRequest(str(kernel.driver), script_arguments=(kernel.case,), targets=",".join(targets))
        with tempfile.TemporaryDirectory(prefix="warplens-world-") as folder, contextlib.chdir(folder):
            result = checking.check_kernels(request)
    except WarplensError as error:
        return _reason(str(error))
    finally:
        os.environ.clear()
        os.environ.update(before)
    facts = [check.facts for check in result.checks]
    return _reason(result.failure) if result.failure else _by_kernel((f.kernel, f.target, f.failure) for f in facts)


def _by_kernel(compiled: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """For each kernel and target the worst of its compilations."""
    found: dict[str, dict[str, str]] = {}
    for kernel, target, failure in compiled:
        of_kernel = found.setdefault(kernel, {})
        if of_kernel.get(target, WORKS) == WORKS:
            of_kernel[target] = f"failed: {' '.join(failure.split())[:160]}" if failure else WORKS
    return found


def _done(words: list[str], variables: dict[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """In a folder of its own: some packages write caches where they are started."""
    with (
        tempfile.TemporaryDirectory(prefix="warplens-world-") as folder,
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
    ):
        process = WarmSubprocess(LOADED, ("warplens",)).Popen(
            words,
            env=variables,
            cwd=Path(folder),
            stdout=output.fileno(),
            stderr=errors,
            start_new_session=True,
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
            sum(len(row.faults) for row in own),
        ]
        lines.append(f"| {' | '.join([project or 'all', *map(str, counts)])} |")
    for row in rows:
        checks = {target: status for target, status in row.check.items() if status != WORKS}
        if row.trace != WORKS or checks or row.faults:
            lines.append(
                f"\n- {row.project}, `{row.kernel}` ({row.case}): trace {row.trace}; faults: {', '.join(row.faults) or 'none'}"
            )
            lines += [f"  - {target}: {status}" for target, status in checks.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
