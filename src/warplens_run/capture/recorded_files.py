"""The files that PyTorch's profiler writes of a run; of several recordings in full the best is kept as the profile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from warplens_run.capture.steps import StepSource
from warplens_run.capture.torch_phases import ARGUMENTS, FULL, LIGHT, MEASURED
from warplens_run.formats import bundle, bundle_files
from warplens_run.formats.bundle import Staging

KEPT: Final = "kept.json"
"""A recording that a later one is likely to replace, as PyTorch wrote it: packing takes longer than writing."""
FILE_OF_PHASE: Final = {
    **dict.fromkeys(FULL, bundle_files.TRACE),
    ARGUMENTS: bundle_files.EXECUTION_STEP,
    LIGHT: bundle_files.LIGHT_TRACE,
}


@dataclass(frozen=True)
class RecordedPart:
    """A recording: its phase, how many whole steps it has, and what marked them."""

    phase: str
    steps: int
    source: StepSource
    seconds: float
    has_ops: bool = False

    @property
    def worth(self) -> tuple[bool, bool, int, int]:
        """Steps are worth more than none, those of a better source more than others, and later ones more than first."""
        return self.has_ops, self.steps > 0, self.source if self.steps else 0, FULL.index(self.phase)


class RecordedFiles:
    """Keeps of the recordings in full the one of the greatest worth, of equal ones the last; and each of the others."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        # As PyTorch writes them, before they are packed.
        self.trace, self.arguments = staging.path("trace.json"), staging.path("execution_trace.json")
        self.kept: RecordedPart | None = None
        self.escaped_names = 0
        self._renames: Sequence[tuple[bytes, bytes]] = ()
        self._lists: tuple[list[Any], ...] = ()
        self._starts: list[int] = []

    def follow(self, *lists: list[Any]) -> None:
        """Cut lists that grow while something is recorded in full to what belongs to the recording that is kept."""
        self._lists, self._starts = lists, [0] * len(lists)

    def begin(self) -> None:
        """Note that a recording in full begins."""
        self._starts = [len(entries) for entries in self._lists]

    def is_better(self, part: RecordedPart) -> bool:
        return self.kept is None or part.worth >= self.kept.worth

    def take(self, part: RecordedPart, renames: Sequence[tuple[bytes, bytes]]) -> bool:
        """Put what was written into the bundle; whether an ExecutionTrace is in it."""
        # The trace holds the path that it was written to, which says where the user works.
        renames = [(os.fsencode(self.trace), os.fsencode(self.trace.name)), *renames]
        if part.phase in FULL:
            self._choose(part, renames)
        else:
            bundle.compress_trace(self.trace, self._staging.path(FILE_OF_PHASE[part.phase]), renames)
        if not self.arguments.exists():
            return False
        bundle.compress(self.arguments, self._staging.path(bundle_files.EXECUTION_TRACE))
        return True

    def drop(self) -> None:
        """Remove what was written."""
        self.trace.unlink(missing_ok=True)
        self.arguments.unlink(missing_ok=True)

    def forget_steps(self, *, with_profile: bool) -> None:
        """Remove what was recorded beside the profile; `with_profile` any recording replaces the one that is kept."""
        self.kept = None if with_profile else self.kept
        for name in (FILE_OF_PHASE[ARGUMENTS], FILE_OF_PHASE[LIGHT], bundle_files.EXECUTION_TRACE):
            self._staging.path(name).unlink(missing_ok=True)

    def _choose(self, part: RecordedPart, renames: Sequence[tuple[bytes, bytes]]) -> None:
        is_better = self.is_better(part)
        for entries, start in zip(self._lists, self._starts, strict=True):
            del entries[slice(start) if is_better else slice(start, None)]
        if not is_better:
            self.trace.unlink()
            return
        self.kept, self._renames = part, renames
        self.trace.replace(self._staging.path(KEPT))
        if part.phase == MEASURED:
            self.pack()

    def pack(self) -> None:
        """Put the recording that is kept into the bundle."""
        kept = self._staging.path(KEPT)
        if kept.exists():
            self.escaped_names = bundle.compress_trace(kept, self._staging.path(bundle_files.TRACE), self._renames)
