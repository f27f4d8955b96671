"""Why a table has nothing to show, in words that fit the profiler which recorded the trace."""

from __future__ import annotations

from typing import Final

from warplens.analyses.workspace import Workspace

TORCH: Final = "kineto"
"""The format of PyTorch's profiler, the only one whose options some hints may name."""
NO_STACKS: Final = ("no_host", "no_stacks", "no_python", "no_python_tracer", "no_python_context")
"""Notes on a trace without Python frames."""


def quality_note_or(work: Workspace, codes: tuple[str, ...], otherwise: str) -> str:
    """What the trace's own notes say of it: they know how to record it; else a plain sentence."""
    told = [note.message for note in work.trace.quality.notes if note.code in codes]
    return told[0] if told else otherwise


def torch_hint(work: Workspace, hint: str) -> str:
    """A hint that only PyTorch's profiler can follow, empty for all others."""
    return hint if work.trace.meta.format == TORCH else ""
