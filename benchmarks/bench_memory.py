"""Reads a memory snapshot of about 100 MB: CPU time and memory of `pickle.load`, of the reader, and of a whole report.

    python benchmarks/bench_memory.py [--megabytes 100]

The snapshot is made up: as many allocations and frees as that takes, each with a stack of 20 to 90 frames out of 2,000
different stacks, as a training program of some hundred steps leaves them. Each figure is of a process of its own.
"""

from __future__ import annotations

import argparse
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BYTES_AN_EVENT = 325
SEGMENT = 0x7F0000000000
MEASURED = """
import re, sys, time
path = sys.argv[1]
begin = time.process_time()
{work}
seconds = time.process_time() - begin
print(seconds, int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""
WORK = {
    "pickle.load": "import pickle\nwith open(path, 'rb') as stream: pickle.load(stream)",
    "the reader": (
        "from pathlib import Path\nfrom warplens.readers.memory_snapshot.reader import read\nread(Path(path))"
    ),
    "a report": "import warplens\n[warplens.open(path).document()]",
}


def made_up(events: int) -> dict[str, Any]:
    chance = random.Random(1)
    frames = [
        {"name": f"function_{n}", "filename": f"/opt/lib/python3/site-packages/torch/nn/part_{n % 300}.py", "line": n}
        for n in range(5000)
    ]
    stacks = [chance.choices(frames, k=chance.randint(20, 90)) for _ in range(2000)]
    live: list[tuple[int, int]] = []
    trace: list[dict[str, Any]] = []
    address = SEGMENT
    for number in range(events):
        if not live or (len(live) < 400 and chance.random() < 0.5):
            size = 512 * chance.randint(1, 4000)
            live.append((address, size))
            action, at = "alloc", address
            address += size
        else:
            at, size = live.pop()
            address = at
            action = "free_requested"
        trace.append({
            "action": action, "addr": at, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + 7 * number,
            "compile_context": "N/A", "user_metadata": "", "frames": list(chance.choice(stacks)),
        })  # fmt: skip
    blocks = [{"address": at, "size": size, "requested_size": size, "state": "active_allocated", "frames": stacks[0]}
              for at, size in live]  # fmt: skip
    whole = sum(size for _, size in live) + (1 << 30)
    blocks.append({"address": address, "size": 1 << 30, "requested_size": 0, "state": "inactive", "frames": []})
    segment = {"device": 0, "address": SEGMENT, "total_size": whole, "stream": 0, "segment_type": "large",
               "segment_pool_id": (0, 0), "is_expandable": True, "frames": [], "blocks": blocks}  # fmt: skip
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(pickle.dumps(made_up(megabytes * 1_000_000 // BYTES_AN_EVENT)))
        print(f"{path.stat().st_size / 1e6:.0f} MB")
        for name, work in WORK.items():
            command = [sys.executable, "-c", MEASURED.format(work=work), str(path)]
            seconds, memory = map(
                float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            )
            print(f"{name:<12} {seconds:6.2f} s of CPU {memory:8.0f} MiB")


if __name__ == "__main__":
    main()
