"""Folding pieces of a recording into one tree, in a process of its own, so that the program goes on meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging
from warplens_run.processes.child import TAKES_PART, Child, environment

NOTED_SECONDS: Final = 0.05


class TreeProcess:
    """Takes one piece at a time; while it is busy, nothing is recorded, and that is counted."""

    def __init__(self, staging: Staging) -> None:
        self._tree = staging.path(bundle_files.TREE)
        self._process: Child | None = None
        self._piece: Path | None = None
        self.pieces = self.lost_pieces = self.escaped_names = 0
        self.reason = ""
        """Why the last of the lost pieces was lost."""
        self.recorded_seconds = self.skipped_seconds = 0.0

    @property
    def is_idle(self) -> bool:
        return self._process is None or not self._process.is_running

    def add(self, trace: Path, seconds: float) -> None:
        """Fold a trace file, which is removed afterwards. Never raises: it runs inside the program."""
        self.finish()
        self.pieces += 1
        try:
            self._piece = trace.rename(trace.with_name(f"piece{self.pieces}.json"))
            self._process = Child(
                "warplens_run.capture.trace_to_tree",
                str(self._piece),
                str(self._tree),
                variables=environment(without=TAKES_PART),
                folder=trace.parent,  # where -m looks for modules first: not among the program's own
            )
        except OSError as error:
            self.note_lost(str(error.strerror or error))
        else:
            self.recorded_seconds += seconds

    def note_lost(self, reason: str) -> None:
        self.lost_pieces, self.reason = self.lost_pieces + 1, reason

    def finish(self) -> None:
        """Wait until all is folded."""
        if self._process is None or self._piece is None:
            return
        ending, self._process = self._process.wait(), None
        self._piece.unlink(missing_ok=True)
        if ending.status:
            self.note_lost(ending.last_line or str(ending))
        else:
            self.escaped_names += int(ending.last_line) if ending.last_line.isdigit() else 0

    def notes(self) -> list[str]:
        notes = []
        if self.skipped_seconds >= NOTED_SECONDS:
            notes.append(
                f"recorded {self.recorded_seconds:.1f} s of the run and skipped {self.skipped_seconds:.1f} s in which "
                "earlier pieces were being folded"
            )
        if self.lost_pieces:
            notes.append(
                f"{self.lost_pieces} of {self.pieces} pieces of the recording could not be folded: {self.reason}"
            )
        return notes
