"""Where our own packages lie, which is nobody's program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[2]
"""The folder of packages that this code was loaded from, or the one file that holds them."""
FOLDERS: Final = tuple(str(HOME / name) for name in ("warplens", "warplens_lab", "warplens_run"))
