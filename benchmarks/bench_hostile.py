"""What Warplens, TraceLens and HTA do with the same hostile traces: `bench_hostile.py [--peers-python P] [--only X]`.

Each file is a small real trace with one thing wrong. A tool's figure is its GPU time; on a file whose events are all
intact it must be the one that the tool gives for the sound file. Each run has 6 GiB of address space and 60 s.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "kineto" / "resnet50_train.json.gz"
MEMORY = 6 << 30
SECONDS = 60
WARPLENS = """
import sys, warplens
profile = warplens.open(sys.argv[1], cache=False)
for note in profile.trace.quality.notes:
    print("NOTE" if note.severity == "warning" else "note", note.code)
print("FIGURE", profile.gpu_events()["dur_ns"].sum() / 1e3)
"""
TRACELENS = """
import sys, tempfile
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
tables = generate_perf_report_pytorch(sys.argv[1], output_csvs_dir=tempfile.mkdtemp())
timeline = tables["gpu_timeline"]
print("FIGURE", float(timeline[timeline["type"] == "busy_time"]["time ms"].iloc[0]) * 1e3)
"""
HTA = """
import shutil, sys, tempfile
from hta.trace_analysis import TraceAnalysis
folder = tempfile.mkdtemp()
analysis = TraceAnalysis(trace_files={0: shutil.copy(sys.argv[1], folder)}, trace_dir=folder)
print("FIGURE", float(analysis.get_gpu_kernel_breakdown(visualize=False)[0]["sum"].sum()))
"""
Made = dict[str, tuple[str, bytes, bool]]


def hostile(document: dict[str, Any]) -> Made:
    """By name: the file's name, its bytes, and whether every GPU event in it is still intact."""
    text = json.dumps(document)
    events = document["traceEvents"]
    kernels = [place for place, event in enumerate(events) if event.get("cat") == "kernel"]
    longest = max(kernels, key=lambda place: float(events[place]["dur"]))

    def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
        own = copy.deepcopy(document)
        change(own["traceEvents"][longest])
        return json.dumps(own).encode()

    def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
        return lambda event: event.__setitem__(key, value)

    plain = text.encode()
    late = text.rindex('"cat": "kernel"')  # with what comes before it, most GPU events
    packed = gzip.compress(plain)
    nested = text.replace('"args": {', '"args": {"deep": ' + "[" * 100_000 + "]" * 100_000 + ", ", 1).encode()
    return {
        "sound": ("t.json", plain, True),
        "byte order mark": ("t.json", b"\xef\xbb\xbf" + plain, True),
        "60,000 leading spaces": ("t.json", b" " * 60_000 + plain, True),
        "gzip under the name .json": ("t.json", gzip.compress(plain), True),
        "invalid UTF-8 in a name": ("t.json", changed(put("name", "BYTES")).replace(b"BYTES", b"\xff\xfe"), True),
        "half of a surrogate pair in a name": ("t.json", changed(put("name", "\ud800")), True),
        "escape sequences in a name": ("t.json", changed(put("name", "\x1b]0;x\x07\x1b[2J")), True),
        "arguments nested 100,000 deep": ("t.json", nested, True),
        "integer beyond 64 bits in arguments": ("t.json", changed(lambda e: e["args"].update(stream=2**70)), True),
        "duplicate key dur": ("t.json", plain.replace(b'"dur": ', b'"dur": 1, "dur": ', 1), True),
        "duplicate traceEvents, the first empty": ("t.json", b'{"traceEvents": [], ' + plain[1:], True),
        "null among the events": ("t.json", plain.replace(b'"traceEvents": [', b'"traceEvents": [null, 7, ', 1), True),
        "a duration of NaN": ("t.json", changed(put("dur", float("nan"))), False),
        "a duration of 1e308": ("t.json", changed(put("dur", 1e308)), False),
        "a negative duration": ("t.json", changed(put("dur", -5.0)), False),
        "a duration that is text": ("t.json", changed(put("dur", "12 us")), False),
        "a time that is a list": ("t.json", changed(put("ts", [1])), False),
        "arguments that are a list": ("t.json", changed(put("args", [1, 2])), False),
        "cut near the end": ("t.json", plain[:late], False),
        "gzip cut near the end": ("t.json.gz", packed[: len(packed) * 97 // 100], False),
        "damaged near the end": ("t.json", plain[:late] + b"\0\xff}{" + plain[late:], False),
        "empty file": ("t.json", b"", False),
        "no events": ("t.json", b'{"traceEvents": []}', False),
        "not JSON": ("t.json", b"hello\n", False),
        "bomb: 7 GiB of spaces in 7 MB": ("t.json.gz", b"", False),
    }  # fmt: skip


def write_bomb(path: Path) -> None:
    """A gzip file that unpacks to 7 GiB, made without holding it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 24)
    with path.open("wb") as file:
        for _ in range(7 << 6):
            file.write(packer.compress(block))
        file.write(packer.flush())


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ran(python: str, program: str, path: Path, environment: dict[str, str]) -> tuple[str, float | None, int]:
    """What became of it in words, the figure, and how often it warned."""
    process = subprocess.Popen(
        [python, "-c", program, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        preexec_fn=limit, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return f"no end within {SECONDS} s", None, 0
    if process.returncode:
        last = next((line for line in reversed(out.splitlines()) if line.strip()), "")
        if "MemoryError" in out or "memory allocation" in out or process.returncode in (-9, -6):
            return "out of memory", None, 0
        if "warplens_run.base.errors." in last:
            return "refused: " + last.partition(": ")[2].rpartition("/")[2][:90], None, 0
        return (f"signal {-process.returncode}" if process.returncode < 0 else "traceback: " + last[:70]), None, 0
    figure = next((float(line.split()[1]) for line in out.splitlines() if line.startswith("FIGURE")), None)
    return "", figure, out.count("NOTE") + out.lower().count("warn")


def verdict(words: str, figure: float | None, warned: bool, sound: float | None, intact: bool) -> str:
    if words:
        return words
    if figure is None or sound is None:
        return "no figure"
    is_same = abs(figure - sound) <= 1e-6 * abs(sound)
    if is_same:
        return "right" if intact or not warned else "right, with a note"
    share = f"{100 * figure / sound:.4g} % of the GPU time"
    return f"{share}, with a note" if warned else f"{share}, silently"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers-python", default="", help="interpreter that has HTA and TraceLens")
    parser.add_argument("--only", default="", help="the one file of this name (and the sound one)")
    arguments = parser.parse_args()
    tools = {"Warplens": (sys.executable, WARPLENS)}
    if arguments.peers_python:
        tools |= {"TraceLens": (arguments.peers_python, TRACELENS), "HTA": (arguments.peers_python, HTA)}
    sound: dict[str, float | None] = {}
    usual: dict[str, int] = {}
    """Warnings over the sound file."""
    print("| file | " + " | ".join(tools) + " |\n|---" * 1 + "|---" * len(tools) + "|")
    for name, (file, content, intact) in hostile(json.loads(gzip.decompress(SAMPLE.read_bytes()))).items():
        if arguments.only and name not in ("sound", arguments.only):
            continue
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            path = Path(folder, file)
            write_bomb(path) if name.startswith("bomb") else path.write_bytes(content)
            cells = []
            for tool, (python, program) in tools.items():
                words, figure, warned = ran(python, program, path, {**os.environ, "TMPDIR": folder})
                if name == "sound":
                    sound[tool], usual[tool] = figure, warned
                cells.append(verdict(words, figure, warned > usual[tool], sound[tool], intact))
        print(f"| {name} | " + " | ".join(cell.replace("|", "/") for cell in cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
