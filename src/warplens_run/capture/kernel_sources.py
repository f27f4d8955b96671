"""The sources of what a profile names: kernels that Inductor generated, and lines that instruction samples are on."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging

KERNEL_FILE: Final = re.compile(rb'"kernel_file":\s*("(?:[^"\\]|\\.)*")')
LARGEST_BYTES: Final = 4 << 20
SAMPLED_LINE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)@.+", re.DOTALL)


def copy_inductor_sources(staging: Staging) -> int:
    """Copy every source file that the recorded trace names; how many there were."""
    trace = staging.folder / bundle_files.TRACE
    if not trace.exists():
        return 0
    copied = 0
    for name in sorted(_named(trace)):
        source = Path(name)
        try:
            if source.suffix != ".py" or source.stat().st_size > LARGEST_BYTES:
                continue
            text = source.read_bytes()
        except (OSError, ValueError):
            continue
        staging.path(f"{bundle_files.KERNELS}/inductor/{source.name}").write_bytes(text)
        copied += 1
    return copied


def _named(trace: Path) -> set[str]:
    quoted_names: set[bytes] = set()
    with gzip.open(trace, "rb") as stream:
        tail = b""
        while block := stream.read(1 << 22):
            text = tail + block
            quoted_names.update(KERNEL_FILE.findall(text))
            tail = text[-4096:]
    return {json.loads(quoted) for quoted in quoted_names}


def sampled_lines(tree: object) -> tuple[dict[str, dict[str, str]], set[str]]:
    """By file and number the texts of the lines that a tree of Proton's has samples on, where the file is here.

    And the names of the kernels that have samples without a line.
    """
    numbers: dict[str, set[int]] = {}
    whole: set[str] = set()
    for node in _nodes(tree):
        name = str(node["frame"]["name"])
        if not node["metrics"].get("num_samples"):
            continue
        if match := SAMPLED_LINE.fullmatch(name):
            numbers.setdefault(match["file"], set()).add(int(match["line"]))
        else:
            whole.add(name)
    return {file: lines for file, wanted in numbers.items() if (lines := _lines_of(Path(file), wanted))}, whole


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    waiting = [node for node in tree if "frame" in node] if isinstance(tree, list) else []
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node["children"]


def _lines_of(file: Path, wanted: set[int]) -> dict[str, str]:
    try:
        if not file.is_file() or file.stat().st_size > LARGEST_BYTES:
            return {}
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")  # as compilers count lines
    except (OSError, ValueError):
        return {}
    return {str(number): lines[number - 1] for number in sorted(wanted) if 0 < number <= len(lines)}
