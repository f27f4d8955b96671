"""How Proton spells the callers of a kernel, in its trees and in its traces alike."""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "ROOT"
PYTHON_FRAME: Final = re.compile(r"(?P<file>.+?):(?P<line>\d+)@(?P<function>.+)", re.DOTALL)


def frame_of(name: str) -> tuple[str, str]:
    """The kind of a caller and its name as the rest of Warplens spells it.

    >>> frame_of("train.py:18@step")
    ('python', 'train.py(18): step')
    >>> frame_of("matmul_1024")
    ('annotation', 'matmul_1024')
    """
    frame = PYTHON_FRAME.fullmatch(name)
    if frame is None:
        return "annotation", name
    return "python", f"{frame['file']}({frame['line']}): {frame['function']}"
