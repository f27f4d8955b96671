"""Why a table is empty, worded for the profiler that recorded the trace."""

from __future__ import annotations

from typing import Final

from warplens.analyses.workspace import Workspace

TORCH: Final = "kineto"
"""The format of PyTorch's profiler, the only one whose options some hints may name."""
NO_STACKS: Final = ("no_host", "no_stacks", "no_python", "no_python_tracer", "no_python_context")
"""Notes on a trace without Python frames."""


def quality_note_or(work: Workspace, codes: tuple[str, ...], otherwise: str) -> str:
    """The first quality note with one of these codes, which says how to record what is missing; else a sentence."""
    messages = [note.message for note in work.trace.quality.notes if note.code in codes]
    return messages[0] if messages else otherwise


def torch_hint(work: Workspace, hint: str) -> str:
    """A hint for users of PyTorch's profiler, empty for all others."""
    return hint if work.trace.meta.format == TORCH else ""
