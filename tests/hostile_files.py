"""Files whose texts try to take over a terminal: each string of them ends in escape sequences."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from support import ROOT

SAMPLES = ROOT / "samples"
EVIL = "\x1b]0;taken\x07\x1b[31m\x1b]8;;http://x\x1b\\\u202e\u2066\x9b31m\x9d0;c1\x9c\x85\x08\x00\r\x7f"
EVIL_NAME = "a\x1b[31m\x1b]0;taken\x07\u202e\x9b31m\r\n"
"""What a file or folder can be called."""
STRUCTURE = frozenset(
    {"ph", "cat", "s", "bp", "format", "status", "kind", "dtype", "device", "displayTimeUnit", "id", "backend", "stage"}
)
"""Keys whose values must be one of a few words: with anything else in them a file is not read at all."""


def hostile(value: Any, key: str = "") -> Any:
    """The same value with `EVIL` at the end of each string."""
    if isinstance(value, dict):
        return {name: hostile(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [hostile(item, key) for item in value]
    return value + EVIL if isinstance(value, str) and key not in STRUCTURE else value


def hostile_trace(source: Path, target: Path) -> Path:
    """Every second event is hostile; the others keep the names that rules and costs know."""
    content = json.loads(gzip.decompress(source.read_bytes()))
    events = content["traceEvents"]
    content["traceEvents"] = [hostile(event) if number % 2 else event for number, event in enumerate(events)]
    for key in ("deviceProperties", "distributedInfo", "traceName"):
        if key in content:
            content[key] = hostile(content[key])
    target.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    return target


def hostile_json(source: Path, target: Path) -> Path:
    text = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    target.write_text(json.dumps(hostile(json.loads(text))))
    return target


def hostile_bundle(source: Path, target: Path) -> Path:
    """A bundle's folder: hostile trace, manifest, environment and times."""
    with zipfile.ZipFile(source) as archive:
        archive.extractall(target)
    for path in target.glob("*.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps(hostile(content)))
    hostile_trace(target / "trace.json.gz", target / "trace.json.gz")
    return target


def hostile_job(source: Path, target: Path) -> Path:
    target.mkdir()
    for number, path in enumerate(sorted(source.glob("*.json.gz"))):
        # One rank with a hostile name and no JSON in it: its note names the file.
        hostile_trace(path, target / path.name) if number else shutil.copy(path, target / path.name)
    (target / f"rank9{EVIL_NAME}.json").write_text('{"traceEvents": [' + EVIL)
    return target
