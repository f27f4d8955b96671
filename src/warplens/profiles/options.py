"""The options of `warplens.open`, for the functions that pass them on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypedDict

from warplens.categories import Rule
from warplens_run.base.units import parse_bytes

AnyPath = str | os.PathLike[str]
Rules = Sequence[Rule | AnyPath]
"""Kernel-category rules: values, or TOML files of them."""


class OpenOptions(TypedDict, total=False):
    """The keywords of `warplens.open`; it documents them and has their defaults."""

    cache: bool
    rules: Rules
    gap_us: float
    short_us: float
    gpu: str
    gpu_file: AnyPath
    min_gain_percent: float
    step_ms: float
    execution_trace: AnyPath
    graph_captures: Sequence[AnyPath]
    ncu: Sequence[AnyPath]
    memory_snapshot: AnyPath
    replay: AnyPath
    proof: AnyPath
    max_size: str
    phase: str
    range: str


OF_ONE_TRACE: Final = {
    # keyword of `warplens.open` that does not apply to the ranks of a job: its default
    "short_us": 10.0, "gpu": "", "gpu_file": "", "step_ms": 0.0, "execution_trace": "", "graph_captures": (),
    "ncu": (), "memory_snapshot": "", "replay": "", "proof": "", "phase": "", "range": "",
}  # fmt: skip


def parse_size(text: str) -> int:
    """What a packed file may unpack to, in bytes; 0 where the user leaves that to its size and the free memory."""
    return parse_bytes(text) if text else 0


def split_rules(rules: Rules) -> tuple[list[Path], list[Rule]]:
    """Rules given as files, and those given as values."""
    files = [Path(rule) for rule in rules if not isinstance(rule, Rule)]
    return files, [rule for rule in rules if isinstance(rule, Rule)]
