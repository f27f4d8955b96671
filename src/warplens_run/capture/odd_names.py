"""Names that PyTorch's profiler cannot write: it puts quotes into its JSON as they are and drops other alphabets.

Such a scope is recorded under a plain name, which becomes the real one again in the written file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from warplens_run.base.files import whole_file

PLAIN: Final = "warplens-name-"
QUOTED: Final = re.compile(rb'"' + PLAIN.encode() + rb'(\d+)"')


class OddNames:
    """The odd names of one recording."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def plain(self, name: str) -> str:
        """The name to record it under."""
        is_plain = name.isascii() and name.isprintable() and '"' not in name and "\\" not in name
        if is_plain and not name.startswith(PLAIN):
            return name
        return f"{PLAIN}{self._numbers.setdefault(name, len(self._numbers))}"

    def restore(self, path: Path) -> None:
        """Put the real names into a written file."""
        if not self._numbers or not path.exists():
            return
        # Halves of characters are not valid text.
        quoted = [json.dumps(name.encode("utf-8", "replace").decode()).encode() for name in self._numbers]
        with whole_file(path) as restored, path.open("rb") as source, restored.open("wb") as target:
            for line in source:
                is_odd = PLAIN.encode() in line
                target.write(QUOTED.sub(lambda match: quoted[int(match[1])], line) if is_odd else line)
