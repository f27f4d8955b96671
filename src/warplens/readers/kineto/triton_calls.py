"""What PyTorch's profiler records with the launch of an Inductor kernel: its file, and the configuration that ran.

Only a replay needs these, so they are looked for in the file's text when a plan is made, not with every reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from warplens.readers.shared.nearest_word import NearestWord
from warplens_run.base import bounded

FACTS: Final = re.compile(rb'"kernel_backend"\s*:\s*"triton"')
WINDOW_BYTES: Final = 1 << 16
SETTING: Final = re.compile(r"\s*(\w{1,64})\s*=\s*(-?\d{1,9})\s*")


@dataclass(frozen=True)
class TritonCall:
    """`file` is the name of the source's file, without folders."""

    kernel: str
    file: str
    config: dict[str, int] = field(default_factory=dict)


def triton_calls(content: bytes) -> dict[int, TritonCall]:
    """By external id: every launch of a generated kernel that says where it comes from."""
    calls: dict[int, TritonCall] = {}
    opening, closing = NearestWord(content, b"{"), NearestWord(content, b"}")
    latest = -1  # the start of the latest object: it may have the key many times
    for match in FACTS.finditer(content):
        start, end = opening.before(match.start()), closing.after(match.end())
        is_near = match.start() - start <= WINDOW_BYTES and end - match.end() < WINDOW_BYTES
        if start == latest or not is_near:
            continue
        latest = start
        try:
            args = bounded.decoded(content[start : end + 1])
        except ValueError:
            continue
        external = args.get("External id")
        if bounded.is_whole(external):
            calls[bounded.whole(external)] = _call(args)
    return calls


def _call(args: dict[str, object]) -> TritonCall:
    config = {match[1]: bounded.whole(match[2]) for part in bounded.text(args.get("kernel_kwargs")).split(",")
              if (match := SETTING.fullmatch(part))}  # fmt: skip
    for name in ("num_warps", "num_stages"):
        value = args.get(name)
        if bounded.is_whole(value):
            config[name] = bounded.whole(value)
    return TritonCall(
        bounded.text(args.get("kernel_name")), PurePosixPath(bounded.text(args.get("kernel_file"))).name, config
    )
