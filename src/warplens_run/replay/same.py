"""Whether a replay launched what the trace saw: names and grids of kernels, names and sizes of copies, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warplens_run.formats.replay_plan import Kernel

KERNEL: Final = "kernel"
NAME_CHARS: Final = 90


@dataclass(frozen=True)
class Launched:
    """One piece of GPU work, as the profiler recorded it."""

    name: str
    kind: str
    ns: float
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    bytes: int | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.kind, self.name, self.grid, self.block, self.bytes)


def difference(expected: Sequence[Kernel], launched: Sequence[Launched], blocks: bool = False) -> str:
    """Empty where they are the same; else the first thing that differs. `blocks`: sizes of blocks count too."""
    for number, (want, have) in enumerate(zip(expected, launched, strict=False), 1):
        words = _difference(want, have, blocks)
        if words:
            return words if len(expected) == len(launched) == 1 else f"launch {number}: {words}"
    if len(launched) < len(expected):
        return f"{len(expected) - len(launched)} missing: {_clip(expected[len(launched)].name)}"
    if len(launched) > len(expected):
        return f"{len(launched) - len(expected)} more than in the trace: {_clip(launched[len(expected)].name)}"
    return ""


def _difference(want: Kernel, have: Launched, blocks: bool) -> str:
    if want.name != have.name:
        return f"{_clip(have.name)} instead of {_clip(want.name)}"
    if want.kind == KERNEL:
        if want.grid and want.grid != have.grid:
            return f"grid {_sides(have.grid)} instead of {_sides(want.grid)} of {_clip(want.name)}"
        if blocks and want.block and want.block != have.block:
            return f"block {_sides(have.block)} instead of {_sides(want.block)} of {_clip(want.name)}"
    elif want.bytes is not None and want.bytes != have.bytes:
        return f"{have.bytes} bytes instead of {want.bytes} of {_clip(want.name)}"
    return ""


def _sides(sides: tuple[int, ...]) -> str:
    return "x".join(map(str, sides)) or "unknown"


def _clip(name: str) -> str:
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"
