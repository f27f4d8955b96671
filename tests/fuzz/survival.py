"""Runs that end badly, in numbers: `python tests/fuzz/survival.py [--rounds 20] [--seed 1]`.

20 reports of one trace at once on a cold cache; a disk that is full in each output (needs the right to mount a tmpfs);
Ctrl-C at 20 random moments of a report; SIGINT, SIGTERM and SIGKILL at as many of every verb. Nothing may be lost,
half-written or end in a traceback.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import ROOT
from survival import OUTPUTS, TRACE, command, error_lines, finished, half_written, interrupted, left

JOB = ROOT / "samples" / "ranks" / "gloo4"
OTHER = TRACE.with_name("gpt2_train_compiled.json.gz")
START_SECONDS = 0.1
"""In which Python itself starts; an interrupt of that is Python's own."""
DISK_BYTES = (0, 16 << 10, 200 << 10)
"""Free bytes of the full disks."""
VERBS: dict[str, list[str]] = {
    # output: the words that write it
    **{output: ["report", str(TRACE), "-q", "-o", output] for output in OUTPUTS},
    "x.perfetto.json.gz": ["convert", str(TRACE), "-o", "x.perfetto.json.gz"],
    "x.speedscope.json": ["convert", str(TRACE), "-o", "x.speedscope.json"],
    "plan.json": ["replay", "plan", str(TRACE), "-o", "plan.json"],
    "cpp/": ["replay", "export-cpp", "PLAN", "-o", "cpp/"],
    "run.zip": ["profile", "-o", "run.zip", "PROGRAM"],
}


def together(count: int, folder: Path) -> list[str]:
    """So many reports of one trace at the same time, on a cache that none of them has filled."""
    words = ["report", str(TRACE), "-q", "-o"]
    began = time.monotonic()
    running = [command([*words, str(folder / f"{number}.json")], folder / "cache") for number in range(count)]
    ends = [(process.communicate(timeout=900), process.returncode) for process in running]
    faults = [f"status {status}: {err[-300:]}" for (_, err), status in ends if status or error_lines(err)]
    files = [folder / f"{number}.json" for number in range(count)]
    contents = {path.read_bytes() for path in files if path.exists()}
    if not all(path.exists() for path in files) or len(contents) != 1:
        faults.append(f"{sum(path.exists() for path in files)} files with {len(contents)} contents")
    again = finished([*words, str(folder / "again.json")], folder / "cache")
    if again[0] or (folder / "again.json").read_bytes() not in contents:
        faults.append("the cache that they leave gives another report")
    print(f"{count} reports at once: {time.monotonic() - began:.0f} s, {len(faults)} faults")
    return faults


@contextmanager
def small_disk(folder: Path, free: int) -> Iterator[Path]:
    """A file system with so much space left."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], check=True)
    try:
        (disk / "filler").write_bytes(b"x" * ((512 << 10) - free))
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()


def full_disks(folder: Path) -> list[str]:
    program = folder / "program.py"
    program.write_text("import torch\nprint(torch.ones(64, 64).mm(torch.ones(64, 64)).sum())\n")
    plan = folder / "plan.json"
    finished(["replay", "plan", str(TRACE), "-o", str(plan)], folder / "cache")
    faults = []
    for output, words in VERBS.items():
        found = [_on_full_disk(folder, output, words, free, plan, program) for free in DISK_BYTES]
        faults += [f"{output}: {fault}" for each in found for fault in each]
        print(f"full disk, {output}: {sum(map(len, found))} faults")
    faults += _full_cache(folder)
    return faults


def _on_full_disk(
    folder: Path, output: str, words: list[str], free: int, plan: Path, program: Path
) -> list[str]:  # fmt: skip
    with small_disk(folder, free) as disk:
        places = {output: str(disk / output) + "/" * output.endswith("/"), "PLAN": str(plan), "PROGRAM": str(program)}
        status, _, err = finished([places.get(word, word) for word in words], folder / "cache")
        files = [name for name in left(disk) if name != "filler"]
        if status == 0:
            return [f"{name} is not whole" for name in half_written(disk) if name != "filler" and "cpp" not in name]
        wrong = [] if len(error_lines(err)) == 1 and "Traceback" not in err else [f"{free} free: {err[-300:]}"]
        return [*wrong, *(f"{free} free: leaves {name}" for name in files)]


def _full_cache(folder: Path) -> list[str]:
    """A cache that cannot be written costs time, not the report."""
    faults = []
    for free in DISK_BYTES:
        with small_disk(folder, free) as disk:
            target = folder / f"cache-{free}.json"
            status, _, err = finished(["report", str(TRACE), "-q", "-o", str(target)], disk / "cache")
            if status or not target.exists() or "Traceback" in err:
                faults.append(f"cache, {free} free: status {status}, {err[-300:]}")
            temporary = [name for name in left(disk) if name.endswith(".tmp")]
            faults += [f"cache, {free} free: leaves {name}" for name in temporary]
    print(f"full disk, cache: {len(faults)} faults")
    return faults


def interrupts(rounds: int, seed: int, folder: Path) -> list[str]:
    """Ctrl-C at random moments; what was there before the report stays, or the new report is whole."""
    rng, faults, ended = Random(seed), [], 0
    began = time.monotonic()
    finished(["report", str(TRACE), "-q", "-o", str(folder / "x.xlsx")], folder / "cache")
    whole = time.monotonic() - began
    for number in range(rounds):
        output = rng.choice(("x.xlsx", "x.html", "out/"))
        # Cold, or with what interrupted ones have left.
        cache = folder / ("cache" if number % 4 == 0 else f"cache-{number}")
        place = folder / "target"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        words = ["report", str(TRACE), "-q", "-o", f"{place}/{output}"]
        status, err = interrupted(words, cache, rng.uniform(START_SECONDS, whole))
        ended += status == 130
        if status not in (0, 130) or "Traceback" in err:
            faults.append(f"round {number}, {output}: status {status}: {err[-300:]}")
        faults += [f"round {number}: {name} is not whole" for name in half_written(place)]
        if status == 130 and left(place):
            faults.append(f"round {number}: leaves {left(place)}")
    reports = set()
    for cache in sorted(folder.glob("cache*")):
        status, _, err = finished(["report", str(TRACE), "-q", "--force", "-o", str(folder / "x.json")], cache)
        reports.add((folder / "x.json").read_bytes())
        if status or len(reports) != 1:
            faults.append(f"{cache.name} gives another report after interrupts: {status} {err[-300:]}")
    print(f"Ctrl-C at {rounds} moments: {ended} ended with 130, {len(faults)} faults")
    return faults


SIGNALLED: dict[str, list[str]] = {
    # verb: its words; PLAN, PROOF, SCRIPT and OUT are paths
    "report": ["report", str(TRACE), "-q", "-o", "OUT/out/", "-o", "OUT/x.html"],
    "report of stdin": ["report", "-"],
    "report of a job": ["report", str(JOB), "-q", "-o", "OUT/x.xlsx"],
    "advise": ["advise", str(TRACE)],
    "show": ["show", str(TRACE), "kernels"],
    "tree": ["tree", str(TRACE), "-o", "OUT/x.html"],
    "flamegraph": ["flamegraph", str(TRACE), "-o", "OUT/x.speedscope.json"],
    "gantt": ["gantt", str(TRACE), "-o", "OUT/x.html"],
    "convert": ["convert", str(TRACE), "-o", "OUT/x.perfetto.json.gz", "-o", "OUT/x.parquet"],
    "diff": ["diff", str(TRACE), str(OTHER), "-o", "OUT/x.html"],
    "sql": ["sql", str(TRACE), "select count(*) as n from events a join events b on a.kind = b.kind"],
    "unique": ["unique", str(TRACE), "-o", "OUT/x.json"],
    "what-if": ["what-if", str(TRACE)],
    "replay plan": ["replay", "plan", str(TRACE), "-o", "OUT/plan.json"],
    "replay script": ["replay", "script", "PLAN", "--unit", "u1", "-o", "OUT/u1.py"],
    "replay export-cpp": ["replay", "export-cpp", "PLAN", "-o", "OUT/cpp/"],
    "prove plan": ["prove", "plan", str(TRACE), "-o", "OUT/plan.json"],
    "kernel layout": ["kernel", "layout", "(4,8):(8,1)"],
    "explain": ["explain", "kernels"],
    "energy": ["energy", "--", "sleep", "1"],
    "profile": ["profile", "-o", "OUT/run", "SCRIPT"],
}
ENDED = {signal.SIGINT: (0, 130, -2), signal.SIGTERM: (0, 143, -15), signal.SIGKILL: (0, -9)}


def signals(rounds: int, seed: int, folder: Path) -> list[str]:
    """Every verb, ended at random moments; the same verb afterwards leaves nothing but its output."""
    rng = Random(seed)
    (folder / "script.py").write_text("import time\nfor _ in range(10):\n    time.sleep(0.05)\n")
    finished(["replay", "plan", str(TRACE), "-o", str(folder / "plan.json")], folder / "cache")
    faults: list[str] = []
    for verb, words in SIGNALLED.items():
        found = _of_verb(words, rounds, rng, folder)
        faults += [f"{verb}: {fault}" for fault in found]
        print(f"signals, {verb}: {len(found)} faults", flush=True)
    return faults


def _of_verb(words: list[str], rounds: int, rng: Random, folder: Path) -> list[str]:
    place, own_temporary = folder / "signalled", folder / "temporary"
    places = {"OUT": str(place), "PLAN": str(folder / "plan.json"), "SCRIPT": str(folder / "script.py")}
    words = [places.get(word, word.replace("OUT/", f"{place}/")) for word in words]
    faults: list[str] = []
    for folder_made in (place, own_temporary):
        shutil.rmtree(folder_made, ignore_errors=True)
        folder_made.mkdir()
    options = {"temporary": own_temporary, "piped": TRACE if "-" in words else None}
    began = time.monotonic()
    finished(words, folder / "cache", **options)
    whole = time.monotonic() - began
    for number in ENDED:
        for _ in range(rounds):
            for entry in place.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            cache = folder / "cache" if rng.random() < 0.5 else folder / "cold"
            status, err = interrupted(words, cache, rng.uniform(0, whole), number, **options)
            if cache.name == "cold" and number != signal.SIGKILL:
                shutil.rmtree(cache, ignore_errors=True)
            if status not in ENDED[number] or "Traceback" in err or "panicked" in err:
                faults.append(f"{number.name}: status {status}: {err[-300:]}")
            if number == signal.SIGKILL:
                continue
            faults += [f"{number.name}: {name} is not whole" for name in half_written(place)]
            faults += [f"{number.name}: leaves {name} among the temporary files" for name in left(own_temporary)]
    shutil.rmtree(place / "out", ignore_errors=True)
    _, _, err = finished(
        [*words, *["--force"][: any(str(place) in word for word in words)]], folder / "cold", **options
    )
    faults += [f"SIGKILL: {name} stays" for name in half_written(place) if "cpp" not in name]
    faults += [f"SIGKILL: {name} stays" for name in left(own_temporary)]
    faults += [f"SIGKILL: {path} stays" for path in (folder / "cold").glob("writing-*")]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    faults = []
    for run in (
        lambda folder: together(arguments.rounds, folder),
        full_disks,
        lambda folder: interrupts(arguments.rounds, arguments.seed, folder),
        lambda folder: signals(arguments.rounds, arguments.seed, folder),
    ):
        with tempfile.TemporaryDirectory(prefix="survival-") as name:
            faults += run(Path(name))
    print("\n".join(faults) or "nothing was lost")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
