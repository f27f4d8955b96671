"""The options of `warplens.open`, for the functions that pass them on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypedDict

from warplens.categories import Rule

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
    ncu: Sequence[AnyPath]
    replay: AnyPath
    proof: AnyPath


OF_ONE_TRACE: Final = {
    # keyword of `warplens.open` that does not apply to the ranks of a job: its default
    "short_us": 10.0, "gpu": "", "gpu_file": "", "step_ms": 0.0, "execution_trace": "", "ncu": (), "replay": "",
    "proof": "",
}  # fmt: skip


def split_rules(rules: Rules) -> tuple[list[Path], list[Rule]]:
    """Rules given as files, and those given as values."""
    files = [Path(rule) for rule in rules if not isinstance(rule, Rule)]
    return files, [rule for rule in rules if isinstance(rule, Rule)]
