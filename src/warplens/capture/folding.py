"""Folding pieces of a recording into one tree, in a process of its own, so that the program is not held up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from warplens.capture import bundle
from warplens.capture.bundle import Staging
from warplens.errors import WarplensError


class Folder:
    """Takes one piece at a time; while it is busy, nothing is recorded, and that is counted."""

    def __init__(self, staging: Staging) -> None:
        self._tree = staging.path(bundle.TREE)
        self._pieces = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._piece: Path | None = None
        self.recorded_seconds = self.skipped_seconds = 0.0

    @property
    def is_idle(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def add(self, trace: Path, seconds: float) -> None:
        """Fold a trace file, which is removed afterwards."""
        self._wait()
        self._pieces += 1
        self.recorded_seconds += seconds
        self._piece = trace.rename(trace.with_name(f"piece{self._pieces}.json"))
        # Without the variables that would make this child take part in the run.
        environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        root = Path(__file__).parents[2]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), environment.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "warplens.capture.fold", str(self._piece), str(self._tree)]
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self) -> None:
        """Wait until all is folded."""
        self._wait()

    def _wait(self) -> None:
        if self._process is None or self._piece is None:
            return
        _, errors = self._process.communicate()
        code, self._process = self._process.returncode, None
        self._piece.unlink(missing_ok=True)
        if code:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise WarplensError(f"folding the recording failed: {last}")
