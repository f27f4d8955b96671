"""What PyTorch's profiler records with the launch of an Inductor kernel: its file, and the configuration that ran.

Only a replay needs these, so they are looked for in the file's text when a plan is made, not with every reading.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from warplens.readers.shared.nearest_word import NearestWord

FACTS: Final = re.compile(rb'"kernel_backend"\s*:\s*"triton"')
WINDOW_BYTES: Final = 1 << 16
SETTING: Final = re.compile(r"\s*(\w{1,64})\s*=\s*(-?\d{1,9})\s*")


@dataclass(frozen=True)
class TritonCall:
    """`file` is the name of the source's file, without folders."""

    kernel: str
    file: str
    config: dict[str, int] = field(default_factory=dict)


def triton_calls(text: bytes) -> dict[int, TritonCall]:
    """By external id: every launch of a generated kernel that says where it comes from."""
    calls: dict[int, TritonCall] = {}
    opening, closing = NearestWord(text, b"{"), NearestWord(text, b"}")
    decoded = -1  # the start of the latest object: it may have the key many times
    for match in FACTS.finditer(text):
        start, end = opening.before(match.start()), closing.after(match.end())
        is_near = match.start() - start <= WINDOW_BYTES and end - match.end() < WINDOW_BYTES
        if start == decoded or not is_near:
            continue
        decoded = start
        try:
            args = json.loads(text[start : end + 1])
        except ValueError:
            continue
        external = args.get("External id")
        if isinstance(external, int):
            calls[external] = _call(args)
    return calls


def _call(args: dict[str, object]) -> TritonCall:
    config = {match[1]: int(match[2]) for part in str(args.get("kernel_kwargs", "")).split(",")
              if (match := SETTING.fullmatch(part))}  # fmt: skip
    for name in ("num_warps", "num_stages"):
        value = args.get(name)
        if isinstance(value, int):
            config[name] = value
    return TritonCall(str(args.get("kernel_name", "")), PurePosixPath(str(args.get("kernel_file", ""))).name, config)
